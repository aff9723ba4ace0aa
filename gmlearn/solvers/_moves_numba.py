"""Compiled energy changes of moves on factor graphs."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def table_changes(
    ptr,
    variable,
    label,
    x,
    offsets,
    unary,
    adj_ptr,
    adj_slot,
    owner,
    indptr,
    scope,
    stride,
    start,
    scale,
    values,
    change,
):
    """Add to `change` (N,) what the tables and unary costs pay more for each move; x is left as
    it was.

    ptr (N + 1,), variable, label : move m sets variable[i] = label[i] for i in ptr[m]:ptr[m + 1].
    """
    seen, y = np.full(len(start), -1), x.copy()
    for m in range(len(ptr) - 1):
        total = 0.0
        for i in range(ptr[m], ptr[m + 1]):
            y[variable[i]] = label[i]
        for i in range(ptr[m], ptr[m + 1]):
            v = variable[i]
            total += unary[offsets[v] + label[i]] - unary[offsets[v] + x[v]]
            for s in range(adj_ptr[v], adj_ptr[v + 1]):
                f = owner[adj_slot[s]]
                if seen[f] != m:
                    seen[f] = m
                    old, new = start[f], start[f]
                    for j in range(indptr[f], indptr[f + 1]):
                        old += x[scope[j]] * stride[j]
                        new += y[scope[j]] * stride[j]
                    total += scale[f] * (values[new] - values[old])
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
