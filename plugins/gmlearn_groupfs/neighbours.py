"""Neighbour kernels: each kernel reduced to who is among whose nearest neighbours, so that all kernels speak alike."""

from __future__ import annotations

import numpy as np


class NeighbourKernels:
    r"""Symmetric k-nearest-neighbour kernels of a bank, :math:`W_m = \tfrac12 (A_m + A_m^\top)`, A the adjacency.

    Rank-based, so a kernel's width hardly matters, and new samples are placed by the same rule: x is near j if j is
    among the k nearest of x, and if x would enter the k nearest of j.

    Parameters
    ----------
    kernels : (M, n, n).   n_neighbours : k, in 1..n-1.

    Attributes
    ----------
    kernels : float64 (M, n, n) with entries 0, 1/2, 1 and a zero diagonal.   Cost O(M n^2).
    """

    def __init__(self, kernels: np.ndarray, n_neighbours: int):
        self.n_neighbours = n_neighbours
        similar = np.array(kernels, dtype=float)
        n = similar.shape[1]
        similar[:, np.arange(n), np.arange(n)] = -np.inf
        # the k-th largest similarity of each point; ties at the limit all count, so the order of the rows does not
        self.limits = np.partition(similar, n - n_neighbours, axis=2)[:, :, n - n_neighbours]
        near = similar >= self.limits[:, :, None]
        self.kernels = 0.5 * (near + near.transpose(0, 2, 1).astype(float))

    def cross(self, cross: np.ndarray) -> np.ndarray:
        """The same for new samples: cross (M, k, n) kernels -> (M, k, n)."""
        own = np.partition(cross, cross.shape[2] - self.n_neighbours, axis=2)[:, :, cross.shape[2] - self.n_neighbours]
        return 0.5 * ((cross >= own[:, :, None]) + (cross >= self.limits[:, None, :]).astype(float))


def default_neighbours(n: int, n_clusters: int) -> int:
    """Two thirds of the average cluster: most of a point's own cluster, little of any other."""
    return min(max(round(2 * n / (3 * n_clusters)), 3), n - 1)
