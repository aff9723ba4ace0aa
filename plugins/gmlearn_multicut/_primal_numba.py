"""Compiled kernels: greedy additive contraction, Kernighan-Lin chains (Keuper et al. 2015).

Contraction joins the two clusters with the largest sum of costs between them while it is positive;
a chain moves the nodes of two clusters to the other side one by one, the best first, and keeps its
best beginning, so that it can pass over a rise of the energy.
"""

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
def _push(heap, size, weight, edge, version):
    """Add a candidate to the heap (largest weight on top); the heap may be a larger copy."""
    if size == heap.shape[0]:
        larger = np.empty((2 * size + 16, 3))
        for i in range(size):
            for j in range(3):
                larger[i, j] = heap[i, j]
        heap = larger
    i = size
    while i > 0:
        up = (i - 1) // 2
        if heap[up, 0] >= weight:
            break
        for j in range(3):
            heap[i, j] = heap[up, j]
        i = up
    heap[i, 0] = weight
    heap[i, 1] = edge
    heap[i, 2] = version
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
        for j in range(3):
            heap[i, j] = heap[down, j]
        i = down
    for j in range(3):
        heap[i, j] = heap[last, j]


@njit(cache=True, nogil=True)
def _merge(a, b, ends, parent, head, following, edges, seen, raised):
    """Join the list of cluster b to that of a; of two edges to one neighbour the second is dropped
    and added to the first. Which edges have so changed: `raised`, their number is returned.
    """
    first, second = ends
    value, alive, version = edges
    n_raised = 0
    joined = -1
    for side in range(2):
        entry = head[a] if side == 0 else head[b]
        while entry >= 0:
            following_entry = following[entry]
            e = entry // 2
            if alive[e]:
                other = _root(parent, second[e] if entry % 2 == 0 else first[e])
                if other == a:
                    alive[e] = False
                elif seen[other] >= 0:
                    kept = seen[other]
                    value[kept] += value[e]
                    version[kept] += 1
                    alive[e] = False
                    raised[n_raised] = kept
                    n_raised += 1
                else:
                    seen[other] = e
                    following[entry] = joined
                    joined = entry
            entry = following_entry
    head[a] = joined
    while joined >= 0:  # leave `seen` as it was
        e = joined // 2
        seen[_root(parent, second[e] if joined % 2 == 0 else first[e])] = -1
        joined = following[joined]
    return n_raised


@njit(cache=True, nogil=True)
def contract(n, first, second, cost):
    """Join the two clusters with the largest sum of costs between them while it is positive; the
    cluster (n,) of every node, as one of its nodes.

    Every cluster has a linked list of edges, entry 2 e at the first end of edge e and 2 e + 1 at
    the second; their ends are resolved to clusters when the list is read. A candidate of the heap
    counts only while its edge is alive and has the version of its time.
    """
    m = len(first)
    parent = np.arange(n)
    head = np.full(n, -1)
    following = np.empty(2 * m, np.int64)
    heap = np.empty((m + 16, 3))
    size = 0
    for e in range(m):
        following[2 * e] = head[first[e]]
        head[first[e]] = 2 * e
        following[2 * e + 1] = head[second[e]]
        head[second[e]] = 2 * e + 1
        if cost[e] > 0.0:
            heap = _push(heap, size, cost[e], e, 0)
            size += 1
    edges = (cost.copy(), np.ones(m, np.bool_), np.zeros(m, np.int64))
    value, alive, version = edges
    seen = np.full(n, -1)
    raised = np.empty(m, np.int64)
    while size > 0:
        e = int(heap[0, 1])
        valid = alive[e] and version[e] == heap[0, 2]
        _drop_top(heap, size)
        size -= 1
        if not valid:
            continue
        a = _root(parent, first[e])
        b = _root(parent, second[e])
        parent[b] = a
        n_raised = _merge(a, b, (first, second), parent, head, following, edges, seen, raised)
        for i in range(n_raised):
            e = raised[i]
            if value[e] > 0.0:
                heap = _push(heap, size, value[e], e, version[e])
                size += 1
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
