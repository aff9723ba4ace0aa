"""Convex sets for a learnt V(|a - b|): V(0) = 0, monotone or concave, constant beyond a
truncation.
"""

from __future__ import annotations

import numpy as np

import gmlearn as gm

SHAPES = ("free", "monotone", "concave")


class DifferenceShape(gm.ConvexSet):
    r"""All V (L,) with V(0) = 0 and a given shape; a shift of V changes no labelling, so nothing is
    lost by V(0) = 0.

    Parameters
    ----------
    shape : "free"; "monotone": 0 <= V(1) <= V(2) <= ...; "concave": monotone with falling
        increments.
    truncation : int T, V(d) = V(T) for all d >= T; None for none.

    Notes
    -----
    The projections are exact. Monotone: isotonic regression, the truncated tail as one weighted
    point. Concave: every such V is :math:`\sum_k c_k \min(d, k)` with :math:`c_k \ge 0` and k <= T,
    so the nearest one is a non-negative least squares problem with at most L - 1 unknowns.

    Examples
    --------
    >>> import numpy as np
    >>> DifferenceShape("monotone").project(np.array([5.0, 1.0, 3.0, 2.0])).tolist()
    [0.0, 1.0, 2.5, 2.5]
    """

    def __init__(self, shape: str = "monotone", truncation: int | None = None):
        self.shape = gm.check_choice("shape", shape, SHAPES)
        self.truncation = (
            None
            if truncation is None
            else int(gm.check_number("truncation", truncation, low=1, integer=True))
        )

    def project(self, w: np.ndarray) -> np.ndarray:
        last = len(w) - 1 if self.truncation is None else min(self.truncation, len(w) - 1)
        if last < 1:
            return np.zeros_like(w)
        if self.shape == "concave":
            return self._concave(w, last)
        # V(1..last), where the last value stands for the whole tail
        values, weight = w[1 : last + 1].copy(), np.ones(last)
        values[-1], weight[-1] = w[last:].mean(), len(w) - last
        if self.shape == "monotone":
            from sklearn.isotonic import isotonic_regression

            values = isotonic_regression(values, sample_weight=weight, y_min=0.0)
        return np.concatenate([[0.0], values, np.full(len(w) - 1 - last, values[-1])])

    def _concave(self, w: np.ndarray, last: int) -> np.ndarray:
        from scipy.optimize import nnls

        basis = np.minimum.outer(np.arange(1, len(w)), np.arange(1, last + 1)).astype(float)
        return np.concatenate([[0.0], basis @ nnls(basis, w[1:])[0]])

    def __repr__(self) -> str:
        return f"DifferenceShape({self.shape!r}, truncation={self.truncation})"
