"""Compiled dynamic programming on forests: construction, minima, min-marginals.

Trees come as the NamedTuple `Forest`, the costs of their edges as `EdgeCosts`. What a label costs
within its subtree is its own cost and, for every child, the least cost of a label of the child and
the edge to it: one message along each edge, from the leaves to the root (Bellman's principle).
"""

import numpy as np
from numba import njit

from gmlearn._utils._sorting_numba import counting_order, longest


@njit(cache=True, nogil=True)
def build_forest(edges, tree, n_trees, n_vars):
    """Slots of every tree in breadth-first order from a leaf.

    Returns (variable, parent, edge, child_first, tree_ptr, ok); ok is the first tree that has a
    cycle or falls apart, or -1.
    """
    n_edges = len(edges)
    first, order = counting_order(tree, n_trees)
    total = n_edges + n_trees
    variable, parent = np.empty(total, np.int64), np.empty(total, np.int64)
    pedge, child_first = np.empty(total, np.int64), np.zeros(total, np.bool_)
    tree_ptr = np.zeros(n_trees + 1, np.int64)
    degree, head, slot = np.zeros(n_vars, np.int64), np.full(n_vars, -1), np.full(n_vars, -1)
    link = np.empty(2 * n_edges, np.int64)
    used = 0
    for t in range(n_trees):
        lo, hi = first[t], first[t + 1]
        for i in range(lo, hi):
            for end in range(2):
                v = edges[order[i], end]
                head[v], degree[v], slot[v] = -1, 0, -1
        for i in range(lo, hi):
            e = order[i]
            for end in range(2):
                v = edges[e, end]
                link[2 * e + end] = head[v]
                head[v] = 2 * e + end
                degree[v] += 1
        root = edges[order[lo], 0]
        for i in range(lo, hi):
            for end in range(2):
                if degree[edges[order[i], end]] == 1 and degree[root] != 1:
                    root = edges[order[i], end]
        begin = used
        variable[used], parent[used], pedge[used] = root, -1, -1
        slot[root] = used
        used += 1
        at = begin
        while at < used:
            half = head[variable[at]]
            while half >= 0:
                e, end = half // 2, half % 2
                if e != pedge[at]:
                    other = edges[e, 1 - end]
                    if slot[other] >= 0 or used >= total:
                        return variable, parent, pedge, child_first, tree_ptr, t
                    variable[used], parent[used], pedge[used] = other, at, e
                    child_first[used] = end == 1
                    slot[other] = used
                    used += 1
                half = link[half]
            at += 1
        if used - begin != hi - lo + 1:
            return variable, parent, pedge, child_first, tree_ptr, t
        tree_ptr[t + 1] = used
    return variable[:used], parent[:used], pedge[:used], child_first[:used], tree_ptr, -1


# Views (h[lo:hi]) indexed by a loop variable are what lets the compiler vectorise; `inline` saves
# the cost of passing them.
@njit(cache=True, nogil=True, inline="always")
def send(h, size, edges, e, child_first, out):
    """out[b] = min_a h[a] + T_e(a, b), a the child's label and b the parent's (0..size-1)."""
    n = len(h)
    values, start, stride = edges.values, edges.start[e], edges.stride[e]
    scale, kind, cut = edges.scale[e], edges.kind[e], edges.cut[e]
    if kind != 0 and scale >= 0.0 and n == size:
        low = np.inf
        for a in range(n):
            out[a] = h[a]
            low = min(low, h[a])
        if kind == 2:  # min(|a - b|, cut): lower envelope in two sweeps
            at = np.inf
            for b in range(n):
                at = min(out[b], at + scale)
                out[b] = at
            at = np.inf
            for b in range(n - 1, -1, -1):
                at = min(out[b], at + scale)
                out[b] = at
            low += scale * cut if scale > 0.0 else 0.0
        else:
            low += scale
        for b in range(n):
            out[b] = min(out[b], low)
    elif child_first:
        for b in range(size):
            out[b] = np.inf
        for a in range(n):
            row, own = values[start + a * stride : start + a * stride + size], h[a]
            for b in range(size):
                out[b] = min(out[b], own + scale * row[b])
    else:
        for b in range(size):
            row, low = values[start + b * stride : start + b * stride + n], np.inf
            for a in range(n):
                low = min(low, h[a] + scale * row[a])
            out[b] = low


@njit(cache=True, nogil=True, inline="always")
def collect(h, f, t, edges, message):
    """Send all messages of tree t towards its root; h ends as the costs of the subtrees."""
    for i in range(f.tree_ptr[t + 1] - 1, f.tree_ptr[t], -1):
        p = f.parent[i]
        own, target = h[f.ptr[i] : f.ptr[i + 1]], h[f.ptr[p] : f.ptr[p + 1]]
        send(own, len(target), edges, f.pedge[i], f.child_first[i], message)
        for b in range(len(target)):
            target[b] += message[b]


@njit(cache=True, nogil=True)
def minimise_forest(theta, f, edges, labels, value):
    """Exact minimum of every tree: messages to the root, then labels back down."""
    h = theta.copy()
    message = np.empty(longest(f.ptr))
    for t in range(len(f.tree_ptr) - 1):
        collect(h, f, t, edges, message)
        for i in range(f.tree_ptr[t], f.tree_ptr[t + 1]):
            own = h[f.ptr[i] : f.ptr[i + 1]]
            best, label = np.inf, 0
            p, e = f.parent[i], f.pedge[i]
            if p < 0:
                for a in range(len(own)):
                    if own[a] < best:
                        best, label = own[a], a
                value[t] = best
            else:
                first = edges.start[e] + labels[p] * (1 if f.child_first[i] else edges.stride[e])
                step = edges.stride[e] if f.child_first[i] else 1
                for a in range(len(own)):
                    cost = own[a] + edges.scale[e] * edges.values[first + a * step]
                    if cost < best:
                        best, label = cost, a
            labels[i] = label


@njit(cache=True, nogil=True)
def min_marginals_forest(theta, f, edges):
    """Minimum of the tree with one label of one slot fixed, laid out like theta."""
    h = theta.copy()
    message, rest = np.empty(longest(f.ptr)), np.empty(longest(f.ptr))
    for t in range(len(f.tree_ptr) - 1):
        collect(h, f, t, edges, message)
        for i in range(f.tree_ptr[t] + 1, f.tree_ptr[t + 1]):
            e = f.pedge[i]
            own, above = h[f.ptr[i] : f.ptr[i + 1]], h[f.ptr[f.parent[i]] : f.ptr[f.parent[i] + 1]]
            n, size = len(own), len(above)
            send(own, size, edges, e, f.child_first[i], message)
            for b in range(size):
                # where the message is inf so is every joint state, hence inf - inf must stay inf
                rest[b] = above[b] - message[b] if message[b] < np.inf else np.inf
            send(rest[:size], n, edges, e, not f.child_first[i], message)
            for a in range(n):
                own[a] += message[a]
    return h
