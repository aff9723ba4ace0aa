"""Compiled local search on factor graphs: single variables, and whole chains at a time."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def conditional(v, skip_a, skip_b, x, offsets, unary, adj_ptr, adj_slot, owner, indptr, scope, stride, start, scale, values, cost):
    """Costs of all labels of v with every other variable fixed, without the cliques skip_a and skip_b."""
    size = offsets[v + 1] - offsets[v]
    for a in range(size):
        cost[a] = unary[offsets[v] + a]
    for i in range(adj_ptr[v], adj_ptr[v + 1]):
        slot = adj_slot[i]
        f = owner[slot]
        if f in (skip_a, skip_b):
            continue
        position = start[f]
        for j in range(indptr[f], indptr[f + 1]):
            if j != slot:
                position += x[scope[j]] * stride[j]
        for a in range(size):
            cost[a] += scale[f] * values[position + a * stride[slot]]


@njit(cache=True, nogil=True)
def icm_sweep(order, x, offsets, unary, adj_ptr, adj_slot, owner, indptr, scope, stride, start, scale, values):
    """Give each variable in `order` its best label; returns how many changed."""
    largest = 0
    for v in range(len(x)):
        largest = max(largest, offsets[v + 1] - offsets[v])
    cost = np.empty(largest)
    changed = 0
    for v in order:
        conditional(v, -1, -1, x, offsets, unary, adj_ptr, adj_slot, owner, indptr, scope, stride, start, scale, values, cost)
        best = x[v]
        for a in range(offsets[v + 1] - offsets[v]):
            if cost[a] < cost[best]:
                best = a
        if best != x[v]:
            x[v] = best
            changed += 1
    return changed


@njit(cache=True, nogil=True)
def chain_sweep(begin, end, chain_ptr, chain_var, chain_factor, member_ptr, member, dirty, x, offsets, unary, adj_ptr, adj_slot,
                owner, indptr, scope, stride, start, scale, values):
    """Re-optimise each of the chains begin:end exactly with everything else fixed; returns how many variables changed.

    Cliques that hold two chain variables without being a link of the chain count with the old label of the other: where
    that makes a chain's new labels no better, the caller's energy check throws them away.
    chain_var : variables of the chains, one chain after the other.   chain_factor : the edge to the next variable.
    member_ptr, member : the chains of each variable.   dirty : bool, chains whose surroundings changed since they were last
    optimised; only those are touched.
    """
    largest, longest = 0, 0
    for v in range(len(x)):
        largest = max(largest, offsets[v + 1] - offsets[v])
    for c in range(begin, end):
        longest = max(longest, chain_ptr[c + 1] - chain_ptr[c])
    h, back = np.empty((longest, largest)), np.empty((longest, largest), np.int32)
    cost = np.empty(largest)
    changed = 0
    for c in range(begin, end):
        if not dirty[c]:
            continue
        dirty[c] = False
        lo, n = chain_ptr[c], chain_ptr[c + 1] - chain_ptr[c]
        for i in range(n):
            v = chain_var[lo + i]
            before = chain_factor[lo + i - 1] if i > 0 else -1
            after = chain_factor[lo + i] if i + 1 < n else -1
            conditional(v, before, after, x, offsets, unary, adj_ptr, adj_slot, owner, indptr, scope, stride, start, scale, values,
                        cost)
            for a in range(offsets[v + 1] - offsets[v]):
                h[i, a] = cost[a]
            if i > 0:
                f, u = chain_factor[lo + i - 1], chain_var[lo + i - 1]
                j, k = indptr[f], indptr[f] + 1
                if scope[j] != u:
                    j, k = k, j
                for a in range(offsets[v + 1] - offsets[v]):
                    low, arg = np.inf, 0
                    for b in range(offsets[u + 1] - offsets[u]):
                        value = h[i - 1, b] + scale[f] * values[start[f] + b * stride[j] + a * stride[k]]
                        if value < low:
                            low, arg = value, b
                    h[i, a] += low
                    back[i, a] = arg
        last = chain_var[lo + n - 1]
        best = 0
        for a in range(offsets[last + 1] - offsets[last]):
            if h[n - 1, a] < h[n - 1, best]:
                best = a
        if h[n - 1, best] == np.inf:
            continue
        for i in range(n - 1, -1, -1):
            v = chain_var[lo + i]
            if x[v] != best:
                x[v] = best
                changed += 1
                for j in range(adj_ptr[v], adj_ptr[v + 1]):
                    f = owner[adj_slot[j]]
                    for k in range(indptr[f], indptr[f + 1]):
                        for m in range(member_ptr[scope[k]], member_ptr[scope[k] + 1]):
                            if member[m] != c:
                                dirty[member[m]] = True
            if i > 0:
                best = back[i, best]
    return changed
