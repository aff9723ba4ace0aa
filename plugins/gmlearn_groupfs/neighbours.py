"""Neighbour kernels: each kernel reduced to who is among whose nearest neighbours, so that all
kernels speak alike.
"""

from __future__ import annotations

import numpy as np

#: neighbourhoods of these multiples of `n_neighbours` are averaged: near neighbours count more than
#: far ones
SPANS = (0.5, 1.0, 1.5)


class NeighbourKernels:
    r"""Symmetric nearest-neighbour kernels of a bank, :math:`W_m = \tfrac12 (A_m + A_m^\top)`, A a
    graded adjacency.

    A_m(i, j) is the share of i's neighbourhoods that hold j, of half, once and one and a half times
    `n_neighbours` samples. Rank-based, so a kernel's width hardly matters, and new samples are
    placed by the same rule: x is near j if j is among the nearest of x, and if x would enter the
    nearest of j.

    Parameters
    ----------
    kernels : (M, n, n).   n_neighbours : k, in 1..n-1.

    Attributes
    ----------
    kernels : float64 (M, n, n) with entries in [0, 1] and a zero diagonal.   sizes : of the
    neighbourhoods. Cost O(M n^2).
    """

    def __init__(self, kernels: np.ndarray, n_neighbours: int):
        similar = np.array(kernels, dtype=float)
        n = similar.shape[1]
        self.sizes = [min(max(round(span * n_neighbours), 1), n - 1) for span in SPANS]
        similar[:, np.arange(n), np.arange(n)] = -np.inf
        self.limits = _limits(similar, self.sizes)
        near = _share_above(similar, self.limits[..., None])
        self.kernels = 0.5 * (near + near.transpose(0, 2, 1))

    def cross(self, cross: np.ndarray) -> np.ndarray:
        """The same for new samples: cross (M, k, n) kernels -> (M, k, n)."""
        own = _limits(cross, self.sizes)
        return 0.5 * (
            _share_above(cross, own[..., None]) + _share_above(cross, self.limits[:, :, None, :])
        )


def _limits(similar: np.ndarray, sizes: list[int]) -> np.ndarray:
    """The k-th largest similarity of each row, for every size k: (sizes, M, rows).

    Ties at the limit all count, so the order of the columns does not.
    """
    n = similar.shape[2]
    places = [n - k for k in sizes]
    return np.moveaxis(np.partition(similar, sorted(set(places)), axis=2)[:, :, places], 2, 0)


def _share_above(similar: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """The share of the limits (first axis) that similarities reach, (M, rows, n)."""
    total = np.zeros(np.broadcast_shapes(similar.shape, limits.shape[1:]))
    for limit in limits:
        total += similar >= limit
    return total / len(limits)


def default_neighbours(n: int, n_clusters: int) -> int:
    """Two thirds of the average cluster: most of a point's own cluster, little of any other."""
    return min(max(round(2 * n / (3 * n_clusters)), 3), n - 1)
