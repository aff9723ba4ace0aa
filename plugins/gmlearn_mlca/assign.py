"""From a learnt projection of a dataset to a hard partition of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

ASSIGN = ("auto", "whitened", "singular-vectors", "projection")
#: the least share of an axis' spread that is taken to lie within clusters
WITHIN_FLOOR = 1e-3


def round_clusters(eigenvalues: np.ndarray) -> np.ndarray:
    """Factors (r,) of the axes of X W after which clusters spread alike along all of them.

    On the training data axis j has the sum of squares l_j, of which l_j (1 - l_j) lies within
    clusters.
    """
    return 1.0 / np.sqrt(eigenvalues * np.maximum(1.0 - eigenvalues, WITHIN_FLOOR))


def leading_left_singular_vectors(Z: np.ndarray, tol: float) -> np.ndarray:
    """Orthonormal basis (n, r) of the column space of Z (n, k), r = its numerical rank.

    These are the leading eigenvectors of Z Z' = X_t M X_t', the solution of the relaxed k-means
    problem. The paper asks for k of them; beyond the rank there is nothing but noise (centred data:
    r = k - 1), so r are returned.
    """
    left, singular, _ = np.linalg.svd(Z.astype(np.float64), full_matrices=False)
    return left[:, : int(np.sum(singular > tol * singular[0])) if singular[0] > 0 else 0]


def kmeans_labels(Z: np.ndarray, n_clusters: int, n_init: int, random_state: Any) -> np.ndarray:
    """Labels 0..k-1 (n,) of the best of `n_init` k-means runs on the rows of Z (n, r)."""
    from sklearn.cluster import KMeans

    if len(Z) < n_clusters:
        raise ValueError(
            f"X: expected at least n_clusters = {n_clusters} rows to partition, got n_samples = "
            f"{len(Z)}"
        )
    if Z.shape[1] == 0:
        raise ValueError(
            "X: the learnt projection of these rows is zero, so there is nothing to partition "
            "them by"
        )
    return (
        KMeans(n_clusters, n_init=n_init, random_state=random_state).fit(Z).labels_.astype(np.int64)
    )


def fill_empty(labels: np.ndarray, costs: np.ndarray) -> None:
    """Move one row into every empty cluster, in place, from clusters of at least two: the row that
    costs least more there.

    costs : (n, k) of giving a row to a cluster, +inf forbids. A cluster that no row may enter stays
    empty.
    """
    for c in range(costs.shape[1]):
        size = np.bincount(labels, minlength=costs.shape[1])
        if size[c] == 0:
            extra = costs[:, c] - costs[np.arange(len(labels)), labels]
            extra[size[labels] < 2] = np.inf
            if np.isfinite(extra.min()):
                labels[np.argmin(extra)] = c


def single_moves(
    labels: np.ndarray,
    Z: np.ndarray,
    form: np.ndarray,
    costs: np.ndarray,
    stop: Callable[[], bool],
) -> None:
    r"""Lower :math:`-\sum_c s_c^T F s_c / n_c + \sum_i u_{i x_i}`, s_c the sum of the n_c rows of
    cluster c, by moves of single rows (Hartigan's k-means), in place; no cluster becomes empty.

    Parameters
    ----------
    labels : (n,).   Z : (n, d).   form : F (d, d), symmetric, of any signs.   costs : u (n, k).
    stop : asked before every pass and every move.

    Notes
    -----
    A pass costs O(n k d): all changes at once, then those below zero one by one as they are then.
    """
    n, k = costs.shape
    size = np.bincount(labels, minlength=k).astype(float)
    if size.min() == 0.0:
        return
    sums = (labels == np.arange(k)[:, None]).astype(float) @ Z
    own = np.einsum("id,de,ie->i", Z, form, Z)
    tol = 1e-12 * max(1.0, np.abs(own).sum())

    def change(i: np.ndarray) -> np.ndarray:
        """What moving rows i (m,) to every cluster changes, (m, k)."""
        cross = Z[i] @ form @ sums.T
        inner = np.einsum("cd,de,ce->c", sums, form, sums)
        enter = inner / size - (inner + 2.0 * cross + own[i, None]) / (size + 1.0)
        fewer = np.where(size > 1.0, size - 1.0, np.nan)
        leave = inner / size - (inner - 2.0 * cross + own[i, None]) / fewer
        here = np.arange(len(i)), labels[i]
        total = (leave[here] - costs[i, labels[i]])[:, None] + enter + costs[i]
        total[here] = 0.0
        return np.nan_to_num(total, nan=np.inf)

    moved = True
    while moved and not stop():
        moved = False
        for i in np.flatnonzero(change(np.arange(n)).min(axis=1) < -tol):
            if stop():
                break
            row = change(np.array([i]))[0]
            to = int(np.argmin(row))
            if row[to] < -tol:
                sums[labels[i]] -= Z[i]
                sums[to] += Z[i]
                size[labels[i]] -= 1.0
                size[to] += 1.0
                labels[i], moved = to, True
