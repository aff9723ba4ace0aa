"""Neighbour graphs for large sets: O(edges) memory."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from gmlearn_clustering.metrics import Distance, squared_euclidean

#: numbers in a block of distances computed at once
BLOCK = 4_000_000
#: distances to landmarks that are kept for all points together; at least so many for each
_MOST_ENTRIES, _LEAST_COLUMNS = 3_000_000, 32


def draw_landmarks(X: np.ndarray, seed: int = 0) -> np.ndarray:
    """About 2 sqrt(N) well spread points (k-means++), at most 512; ascending indices."""
    from sklearn.cluster import kmeans_plusplus

    return np.unique(
        kmeans_plusplus(X, int(min(512, len(X), 2 * np.sqrt(len(X)))), random_state=seed)[1]
    )


def neighbour_costs(
    X: np.ndarray, penalty: float | np.ndarray, n_neighbors: int, landmarks: np.ndarray
) -> scipy.sparse.csr_array:
    """Squared Euclidean costs of every point to its neighbours and to common landmarks, penalties
    on the diagonal.

    Edges: the `n_neighbors` nearest neighbours in either direction, and every point to the
    `landmarks` (point indices), of many points to the nearest ones, three million edges in all. The
    landmarks are the connecting columns: through them every point has an exemplar even when no
    neighbour is one, so large clusters are possible. O(N (n_neighbors + landmarks)) time.
    """
    from sklearn.neighbors import NearestNeighbors

    n = len(X)
    k = min(n_neighbors, n - 1)
    own = np.arange(n)
    parts = [(own, own, np.broadcast_to(np.asarray(penalty, dtype=np.float64), (n,)))]
    if k > 0:
        distance, column = NearestNeighbors(n_neighbors=k).fit(X).kneighbors()
        row = np.repeat(own, k)
        column = column.ravel()
        value = distance.ravel() ** 2
        parts += [(row, column, value), (column, row, value)]
    parts += _nearest_landmarks(X, landmarks)
    return _union(parts, n)


def _nearest_landmarks(
    X: np.ndarray, landmarks: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(row, column, value) of the distances to the nearest landmarks, in blocks of rows."""
    n_columns = min(len(landmarks), max(_LEAST_COLUMNS, _MOST_ENTRIES // len(X)))
    parts = []
    step = max(1, BLOCK // len(landmarks))
    for start in range(0, len(X), step):
        block = squared_euclidean(X[start : start + step], X[landmarks])
        place = np.broadcast_to(np.arange(len(landmarks)), block.shape)
        if n_columns < len(landmarks):
            place = np.argpartition(block, n_columns - 1, axis=1)[:, :n_columns]
        row = np.repeat(np.arange(start, start + len(block)), n_columns)
        value = np.take_along_axis(block, place, axis=1).ravel()
        parts.append((row, landmarks[place].ravel(), value))
    return parts


def _union(
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]], n: int
) -> scipy.sparse.csr_array:
    """The union of (row, column, value) entries; where several parts hold one, the first counts
    (nothing is summed).
    """
    key = np.concatenate([row.astype(np.int64) * n + column for row, column, _ in parts])
    value = np.concatenate([part[2] for part in parts])
    key, first = np.unique(key, return_index=True)
    return scipy.sparse.csr_array((value[first], (key // n, key % n)), shape=(n, n))


def nearest_exemplars(
    X: np.ndarray, exemplars: np.ndarray, distance: Distance
) -> tuple[np.ndarray, np.ndarray]:
    """Position in `exemplars` of the nearest one of every row (ties: the first), and its
    distance; blocks of rows.
    """
    nearest, value = np.empty(len(X), dtype=np.int64), np.empty(len(X))
    step = max(1, BLOCK // max(1, len(exemplars)))
    for start in range(0, len(X), step):
        block = distance(X[start : start + step], exemplars)
        nearest[start : start + step] = block.argmin(axis=1)
        value[start : start + step] = block.min(axis=1)
    return nearest, value
