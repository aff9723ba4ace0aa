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
