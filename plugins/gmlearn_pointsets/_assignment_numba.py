"""Compiled linear assignment by shortest augmenting paths, with the duals that prove it optimal.

min over matchings of the sum of cost[j, k]: rows are matched one after the other along the path of
least reduced cost, cost[j, k] - row_dual[j] - col_dual[k] >= 0, which is zero on the match (Jonker
and Volgenant 1987).
"""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def _augment(cost, m, start, row_dual, col_dual, owner, slack, previous, done):
    """Grow a shortest-path tree from the unmatched row `start` to a free column, then swap along
    the path.
    """
    slack[:m] = np.inf
    done[:m] = False
    row, column = start, -1
    while True:
        best, nearest = np.inf, -1
        for k in range(m):
            if not done[k]:
                reduced = cost[row, k] - row_dual[row] - col_dual[k]
                if reduced < slack[k]:
                    slack[k] = reduced
                    previous[k] = column
                if slack[k] < best:
                    best, nearest = slack[k], k
        if nearest < 0:
            return False  # only forbidden (infinite) entries are left
        row_dual[start] += best
        for k in range(m):
            if done[k]:
                row_dual[owner[k]] += best
                col_dual[k] -= best
            else:
                slack[k] -= best
        column = nearest
        done[column] = True
        if owner[column] < 0:
            break
        row = owner[column]
    while column >= 0:
        before = previous[column]
        owner[column] = start if before < 0 else owner[before]
        column = before
    return True


@numba.njit(cache=True, nogil=True)
def assign_rows(cost, n, m, row_dual, col_dual, owner):
    """Match all n <= m rows at least cost, O(n^2 m): owner[k] is the row of column k or -1; False
    if impossible.

    At the end row_dual[j] + col_dual[k] <= cost[j, k] with equality on the match, and col_dual <= 0
    is 0 on free columns.
    """
    slack, previous, done = np.empty(m), np.empty(m, np.int64), np.empty(m, np.bool_)
    row_dual[:n] = 0.0
    col_dual[:m] = 0.0
    owner[:m] = -1
    matched = 0
    while matched < n and _augment(
        cost, m, matched, row_dual, col_dual, owner, slack, previous, done
    ):
        matched += 1
    return matched == n


@numba.njit(cache=True, nogil=True)
def assign_batch(cost, row_dual, col_dual, owner, feasible):
    """`assign_rows` for every matrix of a batch: cost (B, n, m) with n <= m, owner (B, m)."""
    n, m = cost.shape[1], cost.shape[2]
    for b in range(cost.shape[0]):
        feasible[b] = assign_rows(cost[b], n, m, row_dual[b], col_dual[b], owner[b])


@numba.njit(cache=True, nogil=True)
def exchange_distances(cost, n, row_dual, col_dual, owner, distance):
    """distance[j, i] of a square assignment: the least extra cost if row j gives up its column and
    row i loses its own.

    Shortest paths over single exchanges; "i takes the column of j" costs the reduced cost of that
    entry. O(n^3).
    """
    for k in range(n):
        j = owner[k]
        for i in range(n):
            distance[j, i] = max(cost[i, k] - row_dual[i] - col_dual[k], 0.0)
        distance[j, j] = 0.0
    for middle in range(n):
        for j in range(n):
            through = distance[j, middle]
            for i in range(n):
                distance[j, i] = min(distance[j, i], through + distance[middle, i])


@numba.njit(cache=True, nogil=True)
def centre_duals_batch(cost, row_dual, col_dual, owner):
    """Move the duals of square assignments (B, n, n) inside their polytope.

    With p the change of the row duals, feasibility is p_i - p_j <= the cost of i taking the column
    of j. Every row of the exchange distances solves that; their mean leaves slack wherever any
    solution does.
    """
    n = cost.shape[1]
    distance = np.empty((n, n))
    for b in range(cost.shape[0]):
        exchange_distances(cost[b], n, row_dual[b], col_dual[b], owner[b], distance)
        for i in range(n):
            row_dual[b, i] += distance[:, i].sum() / n
        for k in range(n):
            col_dual[b, k] = cost[b, owner[b, k], k] - row_dual[b, owner[b, k]]
