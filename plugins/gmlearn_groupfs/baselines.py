"""The rivals: kernel k-means (with or without size bounds, with learnt weights), spectral
clustering, cluster ensembles.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.linalg import eigh

from gmlearn_groupfs.kernel_kmeans import kernel_kmeans
from gmlearn_groupfs.starts import kmeans, kmeans_runs, spectral_embedding, spectral_labels

__all__ = [
    "average_kernel",
    "ensemble",
    "kernel_kmeans",
    "knn_spectral",
    "multi_kernel_kmeans",
    "spectral",
]


def average_kernel(kernels: np.ndarray) -> np.ndarray:
    """The plain mean of a bank, (n, n)."""
    return kernels.mean(axis=0)


def spectral(
    kernel: np.ndarray, n_clusters: int, rng: np.random.Generator, n_init: int = 10
) -> np.ndarray:
    """Spectral clustering of a kernel (Ng, Jordan and Weiss, 2002); negative similarities count
    as none.
    """
    return spectral_labels(np.maximum(kernel, 0.0), n_clusters, rng, n_init)


def knn_spectral(points: np.ndarray, n_clusters: int, seed: int) -> np.ndarray:
    """Spectral clustering of the nearest-neighbour graph of points (n, d), scikit-learn's defaults:
    what most people would try first.
    """
    from sklearn.cluster import SpectralClustering

    model = SpectralClustering(n_clusters, affinity="nearest_neighbors", random_state=seed)
    with warnings.catch_warnings():
        # a graph in several pieces is no reason to stop
        warnings.simplefilter("ignore", UserWarning)
        return model.fit_predict(points)


def multi_kernel_kmeans(
    kernels: np.ndarray, n_clusters: int, rng: np.random.Generator, max_iter: int = 30
) -> np.ndarray:
    """Multiple kernel k-means with learnt weights (Huang, Chuang and Chen, 2012), relaxed: by turns
    H, the leading eigenvectors of sum_m w_m^2 K_m, and w_m in proportion to 1 / tr K_m (I - H H').
    """
    n = kernels.shape[1]
    weights = np.full(len(kernels), 1.0 / len(kernels))
    for _ in range(max_iter):
        joint = np.tensordot(weights**2, kernels, axes=1)
        H = eigh(joint, subset_by_index=[n - n_clusters, n - 1])[1]
        left = [np.trace(k) - np.einsum("ic,ij,jc->", H, k, H, optimize=True) for k in kernels]
        new = 1.0 / np.maximum(left, 1e-12)
        new /= new.sum()
        if np.abs(new - weights).max() < 1e-4:
            break
        weights = new
    return kmeans(H / np.maximum(np.linalg.norm(H, axis=1, keepdims=True), 1e-12), n_clusters, rng)


def ensemble(
    kernels: np.ndarray, n_clusters: int, rng: np.random.Generator, n_labellings: int = 4
) -> np.ndarray:
    """Evidence accumulation: many spectral labellings of every kernel, then spectral on how
    often pairs agree.
    """
    together = np.zeros(kernels.shape[1:])
    for kernel in kernels:
        embedding = spectral_embedding(np.maximum(kernel, 0.0), n_clusters)
        for labels in kmeans_runs(embedding, n_clusters, rng, n_labellings)[0]:
            together += labels[:, None] == labels[None, :]
    return spectral(together / (len(kernels) * n_labellings), n_clusters, rng)
