"""Grid models: one variable for each pixel, numbered row by row, edges to 4 or 8 neighbours,
contrast in bins.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import gmlearn as gm


def grid_crf(costs: Any, connectivity: int = 4) -> tuple[gm.CRF, np.ndarray]:
    """A model with the pixels' fixed costs, and the edges that pairwise potentials may use.

    Parameters
    ----------
    costs : float (H, W, L); inf forbids a label.
    connectivity : 4 or 8.

    Returns
    -------
    crf : `gmlearn.CRF` with H * W variables and no cliques yet.   edges : int (M, 2), across, down,
        then the diagonals.

    Examples
    --------
    >>> import gmlearn as gm, numpy as np
    >>> crf, edges = grid_crf(np.zeros((2, 3, 4)))
    >>> crf.n_vars, len(edges)
    (6, 7)
    """
    costs = gm.check_array("costs", costs, ndim=3, allow_inf=True)
    height, width, labels = costs.shape
    edges = gm.grid_edges(height, width, connectivity)
    return gm.CRF(height * width, labels).add_unary(costs.reshape(height * width, labels)), edges


def edge_lengths(edges: np.ndarray, width: int) -> np.ndarray:
    """float (M,): 1 for the edges across and down, sqrt(2) for diagonals of a grid of the given
    width.
    """
    step = np.abs(edges[:, 1] - edges[:, 0])
    return np.where((step == 1) | (step == width), 1.0, np.sqrt(2.0))


def edge_gradients(image: Any, edges: np.ndarray) -> np.ndarray:
    """|I(p) - I(q)| (M,) on every edge; for colour images (H, W, C) the mean over the channels."""
    image = gm.check_array("image", image, ndim=(2, 3))
    flat = image.reshape(image.shape[0] * image.shape[1], -1)
    edges = gm.check_index("edges", edges, len(flat), shape=(None, 2))
    return np.abs(flat[edges[:, 0]] - flat[edges[:, 1]]).mean(axis=1)


def contrast_bins(values: Any, thresholds: Any) -> np.ndarray:
    """Which of the B = len(thresholds) + 1 bins each value falls in, as indicators (M, B).

    They are the features of a modulated Potts term: :math:`f(v) = w \\cdot bins(v)` is a learnt
    step function.

    Examples
    --------
    >>> contrast_bins([0.0, 5.0, 9.0], [4.0]).tolist()
    [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    """
    values = gm.check_array("values", values, ndim=1)
    thresholds = gm.check_array("thresholds", thresholds, ndim=1)
    if (np.diff(thresholds) <= 0).any():
        raise ValueError(
            f"thresholds: expected strictly increasing numbers, got {thresholds.tolist()}"
        )
    return np.eye(len(thresholds) + 1)[np.searchsorted(thresholds, values, side="right")]
