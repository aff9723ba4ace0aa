"""Compiled assignment of edges to chains and to spanning forests, and of cliques to one forest."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def monotone_chains(edges, n_vars, bend):
    """Edge-disjoint chains (E,) along which variables increase, so that each variable is in max(in,
    out) of them.

    An edge that arrives at v goes on with an edge that leaves v by the same step where there is
    one: on a grid numbered row by row this gives the rows and columns (and the diagonals of
    8-connected grids). Where `bend` (V,) says so, what is left over is joined as well, for longer
    chains on irregular graphs.
    """
    n_edges = len(edges)
    out_ptr, in_ptr = np.zeros(n_vars + 1, np.int64), np.zeros(n_vars + 1, np.int64)
    for e in range(n_edges):
        out_ptr[min(edges[e, 0], edges[e, 1]) + 1] += 1
        in_ptr[max(edges[e, 0], edges[e, 1]) + 1] += 1
    for v in range(n_vars):
        out_ptr[v + 1] += out_ptr[v]
        in_ptr[v + 1] += in_ptr[v]
    outs, ins = np.empty(n_edges, np.int64), np.empty(n_edges, np.int64)
    out_at, in_at = out_ptr[:-1].copy(), in_ptr[:-1].copy()
    for e in range(n_edges):
        low, high = min(edges[e, 0], edges[e, 1]), max(edges[e, 0], edges[e, 1])
        outs[out_at[low]] = e
        out_at[low] += 1
        ins[in_at[high]] = e
        in_at[high] += 1
    before = np.full(n_edges, -1)
    taken = np.zeros(n_edges, np.bool_)
    for v in range(n_vars):
        for i in range(out_ptr[v], out_ptr[v + 1]):
            step = abs(edges[outs[i], 0] - edges[outs[i], 1])
            for j in range(in_ptr[v], in_ptr[v + 1]):
                if not taken[ins[j]] and abs(edges[ins[j], 0] - edges[ins[j], 1]) == step:
                    before[outs[i]] = ins[j]
                    taken[ins[j]] = True
                    break
        j = in_ptr[v] if bend[v] else in_ptr[v + 1]
        for i in range(out_ptr[v], out_ptr[v + 1]):
            if before[outs[i]] < 0:
                while j < in_ptr[v + 1] and taken[ins[j]]:
                    j += 1
                if j < in_ptr[v + 1]:
                    before[outs[i]] = ins[j]
                    taken[ins[j]] = True
    chain = np.full(n_edges, -1)
    count = 0
    for v in range(n_vars):
        for i in range(out_ptr[v], out_ptr[v + 1]):
            if before[outs[i]] < 0:
                chain[outs[i]] = count
                count += 1
            else:
                chain[outs[i]] = chain[before[outs[i]]]
    return chain


@njit(cache=True, nogil=True)
def _find(root, v):
    while root[v] != v:
        root[v] = root[root[v]]
        v = root[v]
    return v


@njit(cache=True, nogil=True)
def has_cycle(edges, n_vars):
    """Is there a cycle, or a double edge?"""
    root = np.arange(n_vars)
    for e in range(len(edges)):
        a, b = _find(root, edges[e, 0]), _find(root, edges[e, 1])
        if a == b:
            return True
        root[a] = b
    return False


@njit(cache=True, nogil=True)
def spanning_forests(edges, n_vars):
    """Edge-disjoint trees (E,): spanning forests are peeled off greedily, each of their
    components is a tree.
    """
    n_edges = len(edges)
    tree = np.full(n_edges, -1)
    forest = np.full(n_edges, -1)
    left, rounds = n_edges, 0
    while left > 0:
        root = np.arange(n_vars)
        for e in range(n_edges):
            if forest[e] < 0:
                a, b = _find(root, edges[e, 0]), _find(root, edges[e, 1])
                if a != b:
                    root[a] = b
                    forest[e] = rounds
                    left -= 1
        rounds += 1
    count = 0
    for r in range(rounds):
        root = np.arange(n_vars)
        for e in range(n_edges):
            if forest[e] == r:
                root[_find(root, edges[e, 0])] = _find(root, edges[e, 1])
        name = np.full(n_vars, -1)
        for e in range(n_edges):
            if forest[e] == r:
                a = _find(root, edges[e, 0])
                if name[a] < 0:
                    name[a] = count
                    count += 1
                tree[e] = name[a]
    return tree


@njit(cache=True, nogil=True)
def in_forest(indptr, scope, order, n_vars):
    """Which cliques (n,), taken in `order`, join variables that no earlier ones connect: those
    close no cycle. Parallel edges, and cliques inside one that was taken, are left out.
    """
    root = np.arange(n_vars)
    kept = np.zeros(len(order), np.bool_)
    for i in range(len(order)):
        first, last = indptr[order[i]], indptr[order[i] + 1]
        apart = True
        for j in range(first, last):
            for k in range(first, j):
                if _find(root, scope[j]) == _find(root, scope[k]):
                    apart = False
        if apart:
            kept[i] = True
            for j in range(first + 1, last):
                root[_find(root, scope[j])] = _find(root, scope[first])
    return kept
