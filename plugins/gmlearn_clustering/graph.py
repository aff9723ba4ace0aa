"""The graph distance: how differently two points are reached by a walk over their neighbours.

Distances are trusted only between near neighbours; over a neighbour graph they add up to clusters
of any shape. With the n nearest neighbours of every point, W_pq = 1 / rank of q among those of p,
symmetrised and normalised by the degrees, A = D^-1/2 W D^-1/2,

    K = (I - decay A)^-1 = sum over t of decay^t A^t,        d_pq = 1 - cos(K_p, K_q)  in [0, 1].

It needs no labels, depends on the order of the distances alone, and is made anew for every set. The
kernel is the regularised Laplacian's (Zhou et al., "Learning with local and global consistency",
2003). Dense: O(N^3) time, O(N^2) memory. `graph_embedding` sketches K_p by random projections: O(N)
memory, for sets whose distances cannot all be held.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

import gmlearn as gm
from gmlearn_clustering.distances import SampleDistances
from gmlearn_clustering.energy import check_costs

#: neighbours of a point, and the weight of a step of the walk
N_NEIGHBORS, DECAY = 5, 0.9
#: powers of A after which the rest of the series is below 1 % of its sum
_N_POWERS = 44


def graph_distance(
    distances: np.ndarray, n_neighbors: int = N_NEIGHBORS, decay: float = DECAY
) -> np.ndarray:
    """1 - cos(K_p, K_q), (N, N), of the neighbour graph of given distances.

    Parameters
    ----------
    distances : (N, N), asymmetric allowed (row p orders the neighbours of p); the diagonal is
        ignored.
    n_neighbors : neighbours of a point.   decay : in (0, 1), weight of a step of the walk.

    Examples
    --------
    >>> import numpy as np
    >>> from gmlearn_clustering import graph_distance
    >>> x = np.array([0.0, 0.1, 0.2, 5.0, 5.1, 5.2])
    >>> d = graph_distance(np.abs(np.subtract.outer(x, x)), n_neighbors=2)
    >>> bool(d[0, 2] < 0.2), bool(d[0, 3] > 0.9)
    (True, True)
    """
    distances = check_costs("distances", distances)
    n = len(distances)
    gm.check_number("n_neighbors", n_neighbors, low=1, integer=True)
    gm.check_number("decay", decay, low=0.0, high=0.999, strict=True)
    nearest = nearest_neighbours(distances, min(n_neighbors, n - 1))
    kernel = np.linalg.inv(np.eye(n) - decay * normalised_graph(nearest).toarray())
    kernel /= np.linalg.norm(kernel, axis=1, keepdims=True)
    cosine = kernel @ kernel.T
    result = np.clip(1.0 - cosine, 0.0, 1.0)
    np.fill_diagonal(result, 0.0)
    return result


def set_distance(sample: SampleDistances, weights: np.ndarray) -> np.ndarray:
    """The graph distance (N, N) of w . f, every feature at mean 1 over the pairs of this set.

    Scales differ from set to set; on the set itself they can be seen without labels.
    """
    means = sample.means()
    return graph_distance(sample.matrix(weights / np.where(means > 0.0, means, 1.0)))


def graph_embedding(
    nearest: Any, n_components: int = 256, decay: float = DECAY, seed: int = 0
) -> np.ndarray:
    """Rows u_p (N, n_components) of length 1 with |u_p - u_q|^2 / 2 close to the graph distance.

    K_p is projected to `n_components` random directions, which changes a cosine by about
    1 / sqrt(n_components); the series of K is cut after 44 powers. O(N n_components) memory.

    Parameters
    ----------
    nearest : (N, n_neighbors) indices of the neighbours of every point, nearest first, such as
        `sklearn.neighbors.NearestNeighbors` finds.
    """
    nearest = gm.check_array("nearest", nearest, ndim=2, dtype=np.int64)
    gm.check_index("nearest", nearest, len(nearest))
    gm.check_number("n_components", n_components, low=1, integer=True)
    step = normalised_graph(nearest)
    power = np.random.default_rng(seed).normal(size=(len(nearest), n_components))
    total = power.copy()
    for _ in range(_N_POWERS):
        power = decay * (step @ power)
        total += power
    total /= np.linalg.norm(total, axis=1, keepdims=True)
    return total


def nearest_neighbours(distances: np.ndarray, n_neighbors: int) -> np.ndarray:
    """The nearest other points of every point, (N, n_neighbors), nearest first."""
    n = len(distances)
    others = np.array(distances)
    np.fill_diagonal(others, np.inf)
    if n_neighbors >= n - 1:
        return np.argsort(others, axis=1, kind="stable")[:, : n - 1]
    nearest = np.argpartition(others, n_neighbors, axis=1)[:, :n_neighbors]
    order = np.argsort(np.take_along_axis(others, nearest, axis=1), axis=1, kind="stable")
    return np.take_along_axis(nearest, order, axis=1)


def normalised_graph(nearest: np.ndarray) -> scipy.sparse.csr_array:
    """A = D^-1/2 W D^-1/2 (N, N) of the neighbours (N, n), nearest first; W_pq = 1 / rank,
    symmetrised.
    """
    n, n_neighbors = nearest.shape
    rank = np.tile(1.0 / np.arange(1, n_neighbors + 1), n)
    start = np.arange(n + 1) * n_neighbors
    one_way = scipy.sparse.csr_array((rank, nearest.ravel(), start), shape=(n, n))
    both = (one_way + one_way.T) / 2.0
    degree = np.maximum(both.sum(axis=1), 1e-300) ** -0.5
    return scipy.sparse.csr_array(
        scipy.sparse.diags_array(degree) @ both @ scipy.sparse.diags_array(degree)
    )
