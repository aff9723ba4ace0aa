"""Products with feature rows that only a few labels need."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def add_rows(marginals: np.ndarray, inputs: np.ndarray, out: np.ndarray) -> None:
    """out (L, F) += marginals^T inputs, from (V, L) and (V, F), skipping what is 0."""
    for v in range(marginals.shape[0]):
        for label in range(marginals.shape[1]):
            part = marginals[v, label]
            if part != 0.0:
                for f in range(inputs.shape[1]):
                    out[label, f] += part * inputs[v, f]
