"""Compiled kernels: greedy additive contraction, Kernighan-Lin chains."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _root(parent, v):
    while parent[v] != v:
        parent[v] = parent[parent[v]]
        v = parent[v]
    return v


@njit(cache=True, nogil=True)
def _push(heap, size, weight, a, b, stamp_a, stamp_b):
    """Add a candidate to the heap (largest weight on top); the heap may be a larger copy."""
    if size == heap.shape[0]:
        larger = np.empty((2 * size + 16, 5))
        for i in range(size):
            for j in range(5):
                larger[i, j] = heap[i, j]
        heap = larger
    i = size
    while i > 0:
        up = (i - 1) // 2
        if heap[up, 0] >= weight:
            break
        for j in range(5):
            heap[i, j] = heap[up, j]
        i = up
    heap[i, 0] = weight
    heap[i, 1] = a
    heap[i, 2] = b
    heap[i, 3] = stamp_a
    heap[i, 4] = stamp_b
    return heap


@njit(cache=True, nogil=True)
def _drop_top(heap, size):
    """Remove the top of a heap of `size` candidates."""
    last = size - 1
    i = 0
    while True:
        down = 2 * i + 1
        if down >= last:
            break
        if down + 1 < last and heap[down + 1, 0] > heap[down, 0]:
            down += 1
        if heap[down, 0] <= heap[last, 0]:
            break
        for j in range(5):
            heap[i, j] = heap[down, j]
        i = down
    for j in range(5):
        heap[i, j] = heap[last, j]


@njit(cache=True, nogil=True)
def _linked(n, first, second, cost):
    """The edges of every node as linked lists: head (n,), following, beyond, value (2 M,)."""
    m = len(first)
    head = np.full(n, -1)
    following = np.empty(2 * m, np.int64)
    beyond = np.empty(2 * m, np.int64)
    value = np.empty(2 * m)
    for i in range(2 * m):
        e = i // 2
        own = first[e] if i % 2 == 0 else second[e]
        beyond[i] = first[e] + second[e] - own
        value[i] = cost[e]
        following[i] = head[own]
        head[own] = i
    return head, following, beyond, value


@njit(cache=True, nogil=True)
def _merge(a, b, parent, lists, total, touched, free):
    """Join the lists of clusters a and b into one of a, each neighbour once; how many they are, as
    `touched`, with the sums of costs in `total`.
    """
    head, following, beyond, value = lists
    n_touched = 0
    n_free = 0
    for side in range(2):
        entry = head[a] if side == 0 else head[b]
        while entry >= 0:
            other = _root(parent, beyond[entry])
            if other != a:
                if np.isnan(total[other]):
                    total[other] = 0.0
                    touched[n_touched] = other
                    n_touched += 1
                total[other] += value[entry]
            free[n_free] = entry
            n_free += 1
            entry = following[entry]
    head[b] = -1
    head[a] = -1
    for i in range(n_touched):
        entry = free[i]
        beyond[entry] = touched[i]
        value[entry] = total[touched[i]]
        following[entry] = head[a]
        head[a] = entry
    return n_touched


@njit(cache=True, nogil=True)
def contract(n, first, second, cost):
    """Join the two clusters with the largest sum of costs between them while it is positive; the
    cluster (n,) of every node, as one of its nodes.

    Every cluster has a linked list of (node beyond, cost); nodes beyond are resolved to their
    cluster when the list is read. A candidate of the heap counts only while the stamps of both its
    clusters are those of its time.
    """
    m = len(first)
    parent = np.arange(n)
    stamp = np.zeros(n, np.int64)
    lists = _linked(n, first, second, cost)
    heap = np.empty((m + 16, 5))
    size = 0
    for e in range(m):
        if cost[e] > 0.0:
            heap = _push(heap, size, cost[e], first[e], second[e], 0, 0)
            size += 1
    total = np.full(n, np.nan)
    touched = np.empty(n, np.int64)
    free = np.empty(2 * m, np.int64)
    while size > 0:
        a = int(heap[0, 1])
        b = int(heap[0, 2])
        valid = stamp[a] == heap[0, 3] and stamp[b] == heap[0, 4]
        _drop_top(heap, size)
        size -= 1
        if not valid:
            continue
        parent[b] = a
        stamp[b] = -1
        stamp[a] += 1
        for i in range(_merge(a, b, parent, lists, total, touched, free)):
            other = touched[i]
            if total[other] > 0.0:
                heap = _push(heap, size, total[other], a, other, stamp[a], stamp[other])
                size += 1
            total[other] = np.nan
    for v in range(n):
        parent[v] = _root(parent, v)
    return parent


@njit(cache=True, nogil=True)
def improve_pair(start, neighbour, edge, cost, label, a, b, nodes, place, patience):
    """One Kernighan-Lin chain between clusters a and b (b may be empty); by how much it lowered
    the energy.

    Nodes are moved to the other side one after the other, the best first, each once, also where
    this costs; the best beginning of the chain is kept, or the clusters are joined if that is
    better. `nodes` are those of both clusters; `label` is changed. `place` (n,) is -1 everywhere,
    before and after.
    """
    n = len(nodes)
    change = np.zeros(n)
    moved = np.zeros(n, np.bool_)
    for i in range(n):
        place[nodes[i]] = i
    between = 0.0
    for i in range(n):
        v = nodes[i]
        for k in range(start[v], start[v + 1]):
            other = label[neighbour[k]]
            if other == label[v]:
                change[i] += cost[edge[k]]
            elif other in (a, b):
                change[i] -= cost[edge[k]]
                between += 0.5 * cost[edge[k]]
    order = np.empty(n, np.int64)
    current = 0.0
    best = 0.0
    n_best = 0
    steps = 0
    while steps < n and steps - n_best < patience:
        i = -1
        for j in range(n):
            if not moved[j] and (i < 0 or change[j] < change[i]):
                i = j
        v = nodes[i]
        current += change[i]
        moved[i] = True
        order[steps] = i
        steps += 1
        for k in range(start[v], start[v + 1]):
            j = place[neighbour[k]]
            if j < 0:
                continue
            if label[neighbour[k]] == label[v]:
                change[j] -= 2.0 * cost[edge[k]]
            else:
                change[j] += 2.0 * cost[edge[k]]
        label[v] = a if label[v] == b else b
        if current < best - 1e-12:
            best = current
            n_best = steps
    for s in range(n_best, steps):  # take back what did not pay
        v = nodes[order[s]]
        label[v] = a if label[v] == b else b
    if -between < best - 1e-12:
        for i in range(n):
            label[nodes[i]] = a
        best = -between
    for i in range(n):
        place[nodes[i]] = -1
    return -best
