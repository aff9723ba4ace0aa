"""The rivals: kernel k-means (with or without size bounds), spectral, affinity propagation,
cluster ensembles.
"""

from __future__ import annotations

import warnings

import numpy as np

from gmlearn_groupfs.kernel_kmeans import kernel_kmeans
from gmlearn_groupfs.starts import bounded_kmeans, random_labels, spectral_embedding

__all__ = ["affinity_propagation", "average_kernel", "ensemble", "kernel_kmeans", "spectral"]


def average_kernel(kernels: np.ndarray) -> np.ndarray:
    """The plain mean of a bank, (n, n)."""
    return kernels.mean(axis=0)


def spectral(
    kernel: np.ndarray, n_clusters: int, rng: np.random.Generator, n_init: int = 10
) -> np.ndarray:
    """Spectral clustering of a kernel (Ng, Jordan and Weiss, 2002); negative similarities count
    as none.
    """
    embedding = spectral_embedding(np.maximum(kernel, 0.0), n_clusters)
    runs = [bounded_kmeans(embedding, n_clusters, None, rng) for _ in range(n_init)]
    return min(runs, key=lambda run: run[1])[0]


def affinity_propagation(
    kernel: np.ndarray, n_clusters: int, rng: np.random.Generator, n_steps: int = 10
) -> np.ndarray:
    """Affinity propagation on kernel distances; the preference is bisected (by ratio) towards
    `n_clusters`.
    """
    from sklearn.cluster import AffinityPropagation
    from sklearn.exceptions import ConvergenceWarning

    similarity = 2.0 * kernel - np.diag(kernel)[:, None] - np.diag(kernel)[None, :]
    low, high = len(kernel) * float(similarity.min()), 1e-3 * float(np.median(similarity))
    best = random_labels(len(kernel), 1, rng)
    for _ in range(n_steps):
        preference = -np.sqrt(low * high)
        model = AffinityPropagation(
            affinity="precomputed",
            preference=preference,
            damping=0.9,
            max_iter=400,
            random_state=int(rng.integers(2**31)),
        )
        with warnings.catch_warnings():
            # an unsettled run is simply one more trial
            warnings.simplefilter("ignore", ConvergenceWarning)
            labels = model.fit(similarity).labels_
        found = 1 if labels.min() < 0 else int(labels.max()) + 1
        if labels.min() >= 0 and abs(found - n_clusters) <= abs(int(best.max()) + 1 - n_clusters):
            best = labels
        if found == n_clusters:
            break
        low, high = (preference, high) if found < n_clusters else (low, preference)
    return best


def ensemble(
    kernels: np.ndarray, n_clusters: int, rng: np.random.Generator, n_labellings: int = 4
) -> np.ndarray:
    """Evidence accumulation: many spectral labellings of every kernel, then spectral on how
    often pairs agree.
    """
    together = np.zeros(kernels.shape[1:])
    for kernel in kernels:
        embedding = spectral_embedding(np.maximum(kernel, 0.0), n_clusters)
        for _ in range(n_labellings):
            labels = bounded_kmeans(embedding, n_clusters, None, rng)[0]
            together += labels[:, None] == labels[None, :]
    return spectral(together / (len(kernels) * n_labellings), n_clusters, rng)
