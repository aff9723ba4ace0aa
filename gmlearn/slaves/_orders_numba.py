"""Compiled greedy orders of elimination, on a dense adjacency matrix."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def missing(near, v, room):
    """Edges that eliminating v adds between its neighbours; their number is left in room[-1]."""
    n, count, fill = len(near), 0, 0
    for u in range(n):
        if near[v, u]:
            room[count] = u
            count += 1
    for i in range(count):
        for j in range(i):
            if not near[room[i], room[j]]:
                fill += 1
    room[n] = count
    return fill


@njit(cache=True, nogil=True)
def greedy_order(near, log_states, by_fill, noise, most):
    """An order of elimination: fewest added edges first, ties to the smallest table, or the other
    way round.

    near : bool (V, V), overwritten.   noise : float (V,), breaks the ties that are left.
    most : logarithm of the largest table that is followed.

    Returns (order (V,), logarithms of the tables (V,), width); width -1 if a table passes `most`.
    """
    n = len(near)
    fill, weight = np.empty(n), np.empty(n)
    done, stale = np.zeros(n, np.bool_), np.ones(n, np.bool_)
    order, sizes = np.empty(n, np.int64), np.empty(n)
    room = np.empty(n + 1, np.int64)
    width = 0
    for step in range(n):
        best = -1
        for v in range(n):
            if done[v]:
                continue
            if stale[v]:
                fill[v] = missing(near, v, room)
                weight[v] = log_states[v]
                for i in range(room[n]):
                    weight[v] += log_states[room[i]]
                stale[v] = False
            if best < 0:
                best = v
                continue
            first = fill[v] - fill[best]
            second = weight[v] - weight[best]
            if not by_fill:
                first, second = second, first
            if abs(first) < 1e-9:
                first = second
            if abs(first) < 1e-9:
                first = noise[v] - noise[best]
            if first < 0:
                best = v
        order[step], sizes[step] = best, weight[best]
        if weight[best] > most:
            return order, sizes, -1
        done[best] = True
        missing(near, best, room)
        count = room[n]
        width = max(width, count)
        for i in range(count):
            u = room[i]
            near[u, best] = False
            for j in range(count):
                if i != j:
                    near[u, room[j]] = True
        # the fill of a vertex changes if an edge comes or goes among its neighbours
        for i in range(count):
            u = room[i]
            stale[u] = True
            for x in range(n):
                if near[u, x]:
                    stale[x] = True
    return order, sizes, width
