"""Compiled energy changes of moves on factor graphs."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def table_changes(ptr, variable, label, x, g, change):
    """Add to `change` (N,) what the tables and unary costs pay more for each move; x is left as
    it was.

    ptr (N + 1,), variable, label : move m sets variable[i] = label[i] for i in ptr[m]:ptr[m + 1].
    """
    seen, y = np.full(len(g.start), -1), x.copy()
    for m in range(len(ptr) - 1):
        total = 0.0
        for i in range(ptr[m], ptr[m + 1]):
            y[variable[i]] = label[i]
        for i in range(ptr[m], ptr[m + 1]):
            v = variable[i]
            total += g.unary[g.offsets[v] + label[i]] - g.unary[g.offsets[v] + x[v]]
            for s in range(g.ptr[v], g.ptr[v + 1]):
                f = g.owner[g.slots[s]]
                if seen[f] != m:
                    seen[f] = m
                    old, new = g.start[f], g.start[f]
                    for j in range(g.indptr[f], g.indptr[f + 1]):
                        old += x[g.scope[j]] * g.stride[j]
                        new += y[g.scope[j]] * g.stride[j]
                    total += g.scale[f] * (g.values[new] - g.values[old])
        for i in range(ptr[m], ptr[m + 1]):
            y[variable[i]] = x[variable[i]]
        change[m] += total


@njit(cache=True, nogil=True)
def connect(row, clique, part):
    """Give the rows that cliques connect, directly or by others, the same number: the least of
    them. `clique` holds `row`, pair by pair; part (n,) starts as 0, 1, ...
    """
    first = np.full(1 + (clique.max() if len(clique) else 0), -1)
    for k in range(len(row)):
        a, b = row[k], first[clique[k]]
        if b < 0:
            first[clique[k]] = a
            continue
        while part[a] != a:
            a = part[a]
        while part[b] != b:
            b = part[b]
        part[max(a, b)] = min(a, b)
    for i in range(len(part)):  # a number never exceeds its row
        part[i] = part[part[i]]
