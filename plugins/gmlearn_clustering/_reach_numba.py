"""Compiled search for all pairs of points that are nearer than a reach of the first one.

Points are sorted into cells by their nearest centre, and within a cell by their distance to it. By
the triangle inequality the partners of p in a cell lie in a ring around its centre.

points : X (N, D); centres (C, D); order (N,), the points by cell and distance to the centre; first
(C + 1,), where cells start in it; away (N,), the distances in that order.
"""

from __future__ import annotations

import numba
import numpy as np

from gmlearn_clustering._facility_numba import sort_ties


@numba.njit(cache=True, nogil=True)
def _partners(p, reach, points, may_open, partner, cost):
    """Fill `partner` and `cost` with the q != p of squared distance below `reach`; how many."""
    X, centres, order, first, away = points
    found = 0
    if reach <= 0.0:
        return found
    root = np.sqrt(reach)
    # distances are rounded, the ring must not be too narrow
    root += 1e-9 * (root + 1.0)
    for b in range(centres.shape[0]):
        if first[b] == first[b + 1]:
            continue
        square = 0.0
        for i in range(X.shape[1]):
            square += (X[p, i] - centres[b, i]) ** 2
        middle = np.sqrt(square)
        slack = root + 1e-12 * middle
        if middle - slack > away[first[b + 1] - 1]:
            continue
        j = first[b] + np.searchsorted(away[first[b] : first[b + 1]], middle - slack)
        while j < first[b + 1] and away[j] <= middle + slack:
            q = order[j]
            j += 1
            square = 0.0
            for i in range(X.shape[1]):
                square += (X[p, i] - X[q, i]) ** 2
                if square >= reach:
                    break
            if square < reach and q != p and may_open[q]:
                partner[found] = q
                cost[found] = square
                found += 1
    return found


@numba.njit(cache=True, nogil=True)
def rows_within(reach, points, may_open):
    """(row starts, exemplars, costs): per point its own entry (if it may open) and all exemplars
    within reach, cheapest first (ties: lowest exemplar).
    """
    n = reach.shape[0]
    partner = np.empty(n, np.uint32)
    value = np.empty(n, np.float64)
    start = np.zeros(n + 1, np.int64)
    exemplar = np.empty(16 * n, np.uint32)
    cost = np.empty(16 * n, np.float64)
    k = 0
    for p in range(n):
        found = _partners(p, reach[p], points, may_open, partner, value)
        if k + found + 1 > exemplar.shape[0]:
            # what is left is probably as dense as what is done
            room = max(k + found + 1, np.int64(1.05 * (k + found) * n / (p + 1)))
            longer = np.empty(room, np.uint32)
            dearer = np.empty(room, np.float64)
            for j in range(k):
                longer[j] = exemplar[j]
                dearer[j] = cost[j]
            exemplar = longer
            cost = dearer
        if may_open[p]:
            exemplar[k] = p
            cost[k] = 0.0
            k += 1
        by_cost = np.argsort(value[:found])
        for i in range(found):
            exemplar[k + i] = partner[by_cost[i]]
            cost[k + i] = value[by_cost[i]]
        sort_ties(exemplar[k : k + found], cost[k : k + found])
        k += found
        start[p + 1] = k
    return start, exemplar[:k], cost[:k]
