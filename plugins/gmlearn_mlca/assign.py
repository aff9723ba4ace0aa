"""From a learnt projection of a dataset to a hard partition of it."""

from __future__ import annotations

from typing import Any

import numpy as np


def leading_left_singular_vectors(Z: np.ndarray, tol: float) -> np.ndarray:
    """Orthonormal basis (n, r) of the column space of Z (n, k), r = its numerical rank.

    These are the leading eigenvectors of Z Z' = X_t M X_t', the solution of the relaxed k-means problem. The paper
    asks for k of them; beyond the rank there is nothing but noise (centred data: r = k - 1), so r are returned.
    """
    left, singular, _ = np.linalg.svd(Z.astype(np.float64), full_matrices=False)
    return left[:, : int(np.sum(singular > tol * singular[0])) if singular[0] > 0 else 0]


def kmeans_labels(Z: np.ndarray, n_clusters: int, n_init: int, random_state: Any) -> np.ndarray:
    """Labels 0..k-1 (n,) of the best of `n_init` k-means runs on the rows of Z (n, r)."""
    from sklearn.cluster import KMeans

    if len(Z) < n_clusters:
        raise ValueError(
            f"X: expected at least n_clusters = {n_clusters} rows to partition, got n_samples = {len(Z)}"
        )
    if Z.shape[1] == 0:
        raise ValueError(
            "X: the learnt projection of these rows is zero, so there is nothing to partition them by"
        )
    return (
        KMeans(n_clusters, n_init=n_init, random_state=random_state).fit(Z).labels_.astype(np.int64)
    )
