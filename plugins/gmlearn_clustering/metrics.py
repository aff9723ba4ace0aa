"""Named distances between the rows of two matrices, all without N x M x D intermediates where
the maths allows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gmlearn as gm

Distance = Callable[[np.ndarray, np.ndarray], np.ndarray]


def squared_euclidean(
    X: np.ndarray, Y: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """sum_i w_i (x_i - y_i)^2 for all pairs by one matrix product; (N, D), (M, D) -> (N, M), O(N M
    D), no N x M x D array.

    `weights` may have any sign; with non-negative ones rounding never makes a distance negative.
    """
    centre = X.mean(axis=0) if len(X) else 0.0  # distances do not change, cancellation shrinks
    A, B = X - centre, Y - centre
    WA = A if weights is None else A * weights
    WB = B if weights is None else B * weights
    distances = WA @ B.T
    distances *= -2.0
    distances += np.einsum("ij,ij->i", A, WA)[:, None]
    distances += np.einsum("ij,ij->i", B, WB)[None, :]
    if weights is None or (weights >= 0).all():
        np.maximum(distances, 0.0, out=distances)
    if X is Y:
        np.fill_diagonal(distances, 0.0)
    return distances


def deviations(X: np.ndarray) -> np.ndarray:
    """Standard deviations (D,) of the columns, 1 for those that are constant up to rounding: new
    points may differ there.
    """
    spread = X.std(axis=0)
    return np.where(spread > 1e-9 * np.abs(X).max(axis=0), spread, 1.0)


def euclidean(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """|x - y| for all pairs."""
    return np.sqrt(np.maximum(squared_euclidean(X, Y), 0.0))


def manhattan(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """sum_i |x_i - y_i| for all pairs."""
    from scipy.spatial.distance import cdist

    return cdist(X, Y, "cityblock")


def chi_squared(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """sum_i (x_i - y_i)^2 / (x_i + y_i) for all pairs of histograms (non-negative rows); 0/0
    counts as 0.
    """
    from sklearn.metrics.pairwise import additive_chi2_kernel

    if (X < 0).any() or (Y < 0).any():
        raise ValueError("chi2: expected non-negative features (histograms), got negative values")
    return -additive_chi2_kernel(X, Y)


def cosine(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """1 - cos of the angle for all pairs; a zero row has distance 1 to everything else."""
    A = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)
    B = Y / np.maximum(np.linalg.norm(Y, axis=1, keepdims=True), 1e-300)
    distances = np.clip(1.0 - A @ B.T, 0.0, 2.0)
    if X is Y:
        np.fill_diagonal(distances, 0.0)
    return distances


def rbf_distance(gamma: float) -> Distance:
    """The kernel distance sqrt(k(x,x) + k(y,y) - k(x,y) - k(y,x)) of k = exp(-gamma |x - y|^2)."""

    def distance(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return np.sqrt(np.maximum(2.0 - 2.0 * np.exp(-gamma * squared_euclidean(X, Y)), 0.0))

    return distance


def shifted_chi_squared(least: np.ndarray) -> Distance:
    """`chi_squared` of rows minus `least` (D,); what is below counts as 0."""

    def distance(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return chi_squared(np.maximum(X - least, 0.0), np.maximum(Y - least, 0.0))

    return distance


_NAMED: dict[str, Distance] = {
    "sqeuclidean": squared_euclidean,
    "l2": squared_euclidean,
    "euclidean": euclidean,
    "l1": manhattan,
    "chi2": chi_squared,
    "cosine": cosine,
}
#: "l2" is the squared Euclidean distance, as in the paper's figures
METRICS = tuple(_NAMED) + ("shifted-chi2", "rbf")


def named_distance(name: str, X: np.ndarray) -> Distance:
    """The distance of that name; for "rbf" gamma is 1 over the mean squared distance within `X`
    (at most 500 rows); "shifted-chi2" counts from the least values in `X` where they are negative.
    """
    gm.check_choice("metric", name, METRICS)
    if name == "shifted-chi2":
        return shifted_chi_squared(np.minimum(X.min(axis=0), 0.0))
    if name != "rbf":
        return _NAMED[name]
    rows = X[np.linspace(0, len(X) - 1, min(len(X), 500)).astype(int)]
    mean = squared_euclidean(rows, rows).sum() / max(len(rows) * (len(rows) - 1), 1)
    return rbf_distance(1.0 / mean if mean > 0 else 1.0)


def pairwise(
    metric: str | Callable[[np.ndarray, np.ndarray], Any], X: np.ndarray, Y: np.ndarray
) -> np.ndarray:
    """All distances (N, M) by a named metric, or by a callable of two rows that returns a number
    (Python speed).
    """
    if callable(metric):
        values = [[metric(x, y) for y in Y] for x in X]
        bad = next(
            (v for row in values for v in row if np.ndim(v) != 0 or isinstance(v, str)), None
        )
        if bad is not None:
            raise ValueError(
                f"metric: expected a callable of two rows that returns a number, got {bad!r}"
            )
        return gm.check_array(
            "metric", np.array(values, dtype=np.float64).reshape(len(X), len(Y)), allow_inf=True
        )
    return named_distance(metric, X)(X, Y)
