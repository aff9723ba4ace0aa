"""The transportation problem of the assignment step, by successive shortest paths over the
clusters.

min over assignments of n points to C clusters with lower and upper sizes. Points enter one after
the other; each goes along the cheapest chain of moves between clusters (successive shortest paths,
Bellman-Ford on C clusters instead of n points).
"""

from __future__ import annotations

import numba
import numpy as np

#: the entry of a forbidden place; whole costs stay below 2**49, so no path reaches it
FORBIDDEN = np.int64(2**62)
RANGE = float(2**48)


def whole_costs(costs: np.ndarray) -> np.ndarray:
    """Costs (n, C) as int64, row minima 0 and the span 2**48, inf as `FORBIDDEN`.

    Whole numbers add without rounding, so shortest paths never meet a cycle that is negative by
    rounding alone; the quantum, span / 2**48, is that of float64 itself.
    """
    finite = np.isfinite(costs)
    shifted = np.where(finite, costs, 0.0) - costs.min(axis=1, keepdims=True)
    span = float(shifted[finite].max(initial=0.0))
    factor = RANGE / span if span > RANGE * np.finfo(float).tiny else 1.0
    return np.where(
        finite, np.rint(np.where(finite, shifted, 0.0) * factor), float(FORBIDDEN)
    ).astype(np.int64)


@numba.njit(cache=True, nogil=True)
def _cheapest_moves(costs, labels, source, move, mover):
    """move[source, c]: the least extra cost of sending one point of cluster `source` to c, and
    which point.
    """
    n, n_clusters = costs.shape
    for c in range(n_clusters):
        move[source, c] = FORBIDDEN
        mover[source, c] = -1
    for i in range(n):
        if labels[i] != source:
            continue
        for c in range(n_clusters):
            if c == source or costs[i, c] == FORBIDDEN:
                continue
            extra = costs[i, c] - costs[i, source]
            if extra < move[source, c]:
                move[source, c] = extra
                mover[source, c] = i


@numba.njit(cache=True, nogil=True)
def _shortest_paths(entry, move, distance, parent):
    """Bellman-Ford from the new point (entry costs `entry`) to every cluster; parent -1 is the
    point itself.
    """
    n_clusters = entry.size
    for c in range(n_clusters):
        distance[c] = entry[c]
        parent[c] = -1
    for _ in range(n_clusters):
        changed = False
        for a in range(n_clusters):
            if distance[a] == FORBIDDEN:
                continue
            for b in range(n_clusters):
                if move[a, b] != FORBIDDEN and distance[a] + move[a, b] < distance[b]:
                    distance[b] = distance[a] + move[a, b]
                    parent[b] = a
                    changed = True
        if not changed:
            return


@numba.njit(cache=True, nogil=True)
def transport(costs, lower, upper, labels):
    """Exact labels of least total cost with cluster sizes in [lower, upper]; -1 where a point finds
    no place.

    Points enter one by one; each takes the shortest path in the residual graph, whose nodes are the
    clusters. A free place below the lower bound beats any other (a lexicographic cost, so no large
    constant enters the arithmetic).
    costs : int64 (n, C) from `whole_costs`. lower, upper : int64 (C,). labels : int64 (n,),
        written. O(n C (C + n / C)).
    """
    n, n_clusters = costs.shape
    move = np.full((n_clusters, n_clusters), FORBIDDEN)
    mover = np.full((n_clusters, n_clusters), -1)
    distance = np.empty(n_clusters, np.int64)
    parent = np.empty(n_clusters, np.int64)
    size = np.zeros(n_clusters, np.int64)
    touched = np.zeros(n_clusters, np.bool_)
    labels[:] = -1
    for i in range(n):
        _shortest_paths(costs[i], move, distance, parent)
        last, needed = -1, False
        for c in range(n_clusters):
            if distance[c] == FORBIDDEN or size[c] >= upper[c]:
                continue
            below = size[c] < lower[c]
            if (
                last < 0
                or (below and not needed)
                or (below == needed and distance[c] < distance[last])
            ):
                last, needed = c, below
        if last < 0:
            return
        size[last] += 1
        touched[:] = False
        c = last
        while parent[c] >= 0:  # every move happens at its own cluster, so order does not matter
            labels[mover[parent[c], c]] = c
            touched[c] = True
            c = parent[c]
        labels[i] = c
        touched[c] = True
        for a in range(n_clusters):
            if touched[a]:
                _cheapest_moves(costs, labels, a, move, mover)
