"""Kernel k-means, plain or with bounded cluster sizes: a rival of ours, and one of the starts."""

from __future__ import annotations

from typing import Any

import numpy as np

from gmlearn_groupfs.assignment import sized_assignment


def kernel_kmeans(
    kernel: np.ndarray,
    n_clusters: int,
    sizes: Any,
    rng: np.random.Generator,
    n_init: int = 5,
    max_iter: int = 50,
) -> np.ndarray:
    """Kernel k-means; with `sizes` its assignment step keeps the same bounds as ours: the fair
    control.

    kernel : (n, n). The best of `n_init` runs from random points as centres; O(n^2 C) an iteration.
    """
    runs = [_one_kernel_kmeans(kernel, n_clusters, sizes, rng, max_iter) for _ in range(n_init)]
    return min(runs, key=lambda run: run[1])[0]


def _one_kernel_kmeans(
    kernel: np.ndarray, n_clusters: int, sizes: Any, rng: np.random.Generator, max_iter: int
) -> tuple[np.ndarray, float]:
    n = len(kernel)
    seeds = rng.choice(n, n_clusters, replace=False)
    labels = (np.diag(kernel)[seeds] - 2.0 * kernel[:, seeds]).argmin(axis=1)
    for _ in range(max_iter):
        member = np.eye(n_clusters)[labels]
        member /= np.maximum(member.sum(axis=0), 1.0)
        inside = kernel @ member
        distances = np.diag(kernel)[:, None] - 2.0 * inside + np.einsum("ic,ic->c", member, inside)
        new = distances.argmin(axis=1) if sizes is None else sized_assignment(distances, sizes)
        if np.array_equal(new, labels):
            break
        labels = new
    return labels, float(distances[np.arange(n), labels].sum())
