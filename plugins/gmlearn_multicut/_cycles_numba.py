"""Compiled kernels over the cycles of a graph: packing, shortest paths, triangles."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def pack_cycles(start, neighbour, edge, cost, first, second, longest):
    """Pack cycles of one negative edge and at most `longest` - 1 positive ones; changes `cost` to
    what is left. Returns by how much the bound sum of min(cost, 0) rises.

    y_e <= sum of y over the rest of a cycle: an amount may be moved from the rest to e without
    raising the energy of any partition.
    """
    n = len(start) - 1
    depth = np.full(n, -1)
    came = np.empty(n, np.int64)
    queue = np.empty(n, np.int64)
    gained = 0.0
    for length in range(3, longest + 1):
        for e in range(len(first)):
            while cost[e] < -1e-12:
                # breadth-first search over positive edges from one end to the other
                source = first[e]
                target = second[e]
                queue[0] = source
                depth[source] = 0
                n_queue = 1
                i = 0
                while i < n_queue and depth[target] < 0:
                    v = queue[i]
                    i += 1
                    if depth[v] == length - 1:
                        break
                    for k in range(start[v], start[v + 1]):
                        u = neighbour[k]
                        if depth[u] < 0 and cost[edge[k]] > 1e-12:
                            depth[u] = depth[v] + 1
                            came[u] = k
                            queue[n_queue] = u
                            n_queue += 1
                reached = depth[target] >= 0
                for i in range(n_queue):
                    depth[queue[i]] = -1
                if not reached:
                    break
                amount = -cost[e]
                v = target
                while v != source:
                    f = edge[came[v]]
                    amount = min(amount, cost[f])
                    v = first[f] + second[f] - v
                v = target
                while v != source:
                    f = edge[came[v]]
                    cost[f] -= amount
                    v = first[f] + second[f] - v
                cost[e] += amount
                gained += amount
    return gained


@njit(cache=True, nogil=True)
def walk_back(predecessor, row, target, length):
    """Nodes of shortest paths, end first: for every path its row of `predecessor` (S, n) and its
    target; returns (nodes, start (P + 1,)). `length` is an upper bound of all nodes together.
    """
    nodes = np.empty(length, np.int64)
    start = np.zeros(len(row) + 1, np.int64)
    size = 0
    for i in range(len(row)):
        v = target[i]
        while v >= 0:
            nodes[size] = v
            size += 1
            v = predecessor[row[i], v]
        start[i + 1] = size
    return nodes[:size], start


@njit(cache=True, nogil=True)
def triangles(start, neighbour, edge, first, second, most):
    """Edges (T, 3) of the triangles i < j < k, of each edge (i, j) at most `most`, evenly spread;
    neighbours ascend.
    """
    found = 0
    for attempt in range(2):
        out = np.empty((found if attempt else 0, 3), np.int64)
        found = 0
        for e in range(len(first)):
            i = first[e]
            j = second[e]
            common = 0
            stride = 1
            for count in range(2):
                a = start[i]
                b = start[j]
                seen = 0
                while a < start[i + 1] and b < start[j + 1]:
                    if neighbour[a] < neighbour[b]:
                        a += 1
                    elif neighbour[a] > neighbour[b]:
                        b += 1
                    else:
                        if neighbour[a] > j:
                            if count and seen % stride == 0:
                                if attempt:
                                    out[found, 0] = e
                                    out[found, 1] = edge[a]
                                    out[found, 2] = edge[b]
                                found += 1
                            seen += 1
                        a += 1
                        b += 1
                common = seen
                stride = (common + most - 1) // most
                if common == 0:
                    break
    return out


@njit(cache=True, nogil=True)
def shortest_cycles(start, neighbour, edge, first, second, chosen, longest):
    """The edges of a shortest cycle through each chosen edge, itself first: (C, longest), -1 where
    it is shorter; all -1 where it is longer, or there is none.
    """
    n = len(start) - 1
    out = np.full((len(chosen), longest), -1)
    depth = np.full(n, -1)
    came = np.empty(n, np.int64)
    queue = np.empty(n, np.int64)
    for c in range(len(chosen)):
        e = chosen[c]
        queue[0] = first[e]
        depth[first[e]] = 0
        n_queue = 1
        i = 0
        while i < n_queue and depth[second[e]] < 0:
            v = queue[i]
            i += 1
            if depth[v] == longest - 1:
                break
            for k in range(start[v], start[v + 1]):
                u = neighbour[k]
                if depth[u] < 0 and edge[k] != e:
                    depth[u] = depth[v] + 1
                    came[u] = edge[k]
                    queue[n_queue] = u
                    n_queue += 1
        if depth[second[e]] >= 0:
            out[c, 0] = e
            v = second[e]
            i = 1
            while v != first[e]:
                out[c, i] = came[v]
                v = first[came[v]] + second[came[v]] - v
                i += 1
        for i in range(n_queue):
            depth[queue[i]] = -1
    return out
