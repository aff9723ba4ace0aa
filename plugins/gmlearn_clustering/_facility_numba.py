"""Compiled construction of the sorted rows and of the columns of a facility-location problem."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def finite_rows(costs):
    """(row starts, columns, values) of the finite entries off the diagonal of a dense matrix."""
    n = costs.shape[0]
    start = np.zeros(n + 1, np.int64)
    column = np.empty(n * n, np.uint32)
    value = np.empty(n * n, np.float64)
    k = 0
    for p in range(n):
        for q in range(n):
            if q != p and np.isfinite(costs[p, q]):
                column[k] = q
                value[k] = costs[p, q]
                k += 1
        start[p + 1] = k
    return start, column[:k], value[:k]


@numba.njit(cache=True, nogil=True)
def row_order(start, cost):
    """The places of every row's entries from the cheapest to the dearest, counted from the row's
    start.
    """
    order = np.empty(cost.shape[0], np.int64)
    for p in range(start.shape[0] - 1):
        order[start[p] : start[p + 1]] = np.argsort(cost[start[p] : start[p + 1]], kind="mergesort")
    return order


@numba.njit(cache=True, nogil=True)
def sort_ties(exemplar, cost):
    """Sort the exemplars of equal cost in a row that is sorted by cost."""
    first = 0
    for j in range(1, cost.shape[0] + 1):
        if j == cost.shape[0] or cost[j] != cost[first]:
            if j - first > 1:
                exemplar[first:j].sort()
            first = j


@numba.njit(cache=True, nogil=True)
def sorted_rows(start, exemplar, cost, order, may_open, alone):
    """Useful entries of every client, cheapest first (ties: lowest exemplar), with the client's
    own entry (p, p, 0).
    """
    n = start.shape[0] - 1
    new_start = np.zeros(n + 1, np.int64)
    for p in range(n):
        count = 1 if may_open[p] else 0
        for j in range(start[p], start[p + 1]):
            count += may_open[exemplar[j]] and cost[j] < alone[p]
        new_start[p + 1] = new_start[p] + count
    new_exemplar = np.empty(new_start[n], np.uint32)
    new_cost = np.empty(new_start[n], np.float64)
    for p in range(n):
        k = new_start[p]
        if may_open[p]:
            new_exemplar[k], new_cost[k] = p, 0.0
            k += 1
        first = k
        for i in range(start[p], start[p + 1]):
            j = start[p] + order[i]
            if k == new_start[p + 1]:
                break
            if may_open[exemplar[j]]:
                new_exemplar[k], new_cost[k] = exemplar[j], cost[j]
                k += 1
        sort_ties(new_exemplar[first:k], new_cost[first:k])
    return new_start, new_exemplar, new_cost


@numba.njit(cache=True, nogil=True)
def filtered_rows(start, exemplar, cost, keep, may_open):
    """The rows with only the entries to keep whose exemplar may open."""
    n, k = start.shape[0] - 1, 0
    new_start = np.zeros(n + 1, np.int64)
    new_exemplar = np.empty(exemplar.shape[0], np.uint32)
    new_cost = np.empty(exemplar.shape[0], np.float64)
    for p in range(n):
        for j in range(start[p], start[p + 1]):
            if keep[j] and may_open[exemplar[j]]:
                new_exemplar[k] = exemplar[j]
                new_cost[k] = cost[j]
                k += 1
        new_start[p + 1] = k
    return new_start, new_exemplar[:k].copy(), new_cost[:k].copy()


@numba.njit(cache=True, nogil=True)
def row_prefixes(start, exemplar, cost, alone):
    """The first entry (p, p, 0) of every sorted row and those that are cheaper than being alone."""
    n = start.shape[0] - 1
    new_start = np.zeros(n + 1, np.int64)
    for p in range(n):
        first, last = start[p] + 1, start[p + 1]
        new_start[p + 1] = new_start[p] + 1 + np.searchsorted(cost[first:last], alone[p])
    new_exemplar = np.empty(new_start[n], np.uint32)
    new_cost = np.empty(new_start[n], np.float64)
    for p in range(n):
        a, b, j = new_start[p], new_start[p + 1], start[p]
        for i in range(b - a):
            new_exemplar[a + i] = exemplar[j + i]
            new_cost[a + i] = cost[j + i]
    return new_start, new_exemplar, new_cost


@numba.njit(cache=True, nogil=True)
def transposed(n, row_start, row_exemplar, row_cost):
    """The same entries grouped by exemplar, clients ascending, and the place of every entry in
    its client's row.
    """
    start = np.zeros(n + 1, np.int64)
    for j in range(row_exemplar.shape[0]):
        start[row_exemplar[j] + 1] += 1
    for q in range(n):
        start[q + 1] += start[q]
    fill = start[:-1].copy()
    client = np.empty(row_exemplar.shape[0], np.uint32)
    place = np.empty(row_exemplar.shape[0], np.uint32)
    cost = np.empty(row_exemplar.shape[0], np.float64)
    for p in range(n):
        for j in range(row_start[p], row_start[p + 1]):
            k = fill[row_exemplar[j]]
            client[k] = p
            cost[k] = row_cost[j]
            place[k] = j - row_start[p]
            fill[row_exemplar[j]] += 1
    return start, client, cost, place


@numba.njit(cache=True, nogil=True)
def nearest_in_rows(start, column, cost, is_exemplar):
    """The cheapest exemplar in every row (ties: lowest index), -1 if there is none of finite
    cost.
    """
    nearest = np.full(start.shape[0] - 1, -1, np.int64)
    for p in range(start.shape[0] - 1):
        best = np.inf
        for j in range(start[p], start[p + 1]):
            q = column[j]
            if is_exemplar[q] and (
                cost[j] < best or (cost[j] == best and best < np.inf and q < nearest[p])
            ):
                best = cost[j]
                nearest[p] = q
    return nearest
