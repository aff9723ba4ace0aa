"""Compiled local search on factor graphs: single variables, and whole chains at a time."""

import numpy as np
from numba import njit

from gmlearn._utils._sorting_numba import counting_order


@njit(cache=True, nogil=True)
def neighbours(adj_slot, owner, indptr, scope, stride):
    """For each place in a clique, variable by variable: the clique; on an edge, the other
    variable and its stride, else -1.
    """
    factor, other, step = (
        np.empty(len(scope), np.int64),
        np.full(len(scope), -1),
        np.zeros(len(scope), np.int64),
    )
    for i in range(len(adj_slot)):
        f = owner[adj_slot[i]]
        factor[i] = f
        if indptr[f + 1] - indptr[f] == 2:
            j = indptr[f] + indptr[f + 1] - 1 - adj_slot[i]
            other[i], step[i] = scope[j], stride[j]
    return factor, other, step


# a call with so many arrays costs more than its work
@njit(cache=True, nogil=True, inline="always")
def conditional(
    v,
    skip_a,
    skip_b,
    x,
    offsets,
    unary,
    adj_ptr,
    adj_slot,
    adj_factor,
    adj_other,
    adj_step,
    indptr,
    scope,
    stride,
    start,
    scale,
    values,
    cost,
):
    """Costs of all labels of v with every other variable fixed, without the cliques skip_a and
    skip_b.
    """
    size = offsets[v + 1] - offsets[v]
    for a in range(size):
        cost[a] = unary[offsets[v] + a]
    for i in range(adj_ptr[v], adj_ptr[v + 1]):
        f = adj_factor[i]
        if f == skip_a or f == skip_b:  # noqa: SIM109, building a tuple costs more than the rest
            continue
        position, slot, u = start[f], adj_slot[i], adj_other[i]
        if u >= 0:
            position += x[u] * adj_step[i]
        else:
            for j in range(indptr[f], indptr[f + 1]):
                if j != slot:
                    position += x[scope[j]] * stride[j]
        strength, step = scale[f], stride[slot]
        for a in range(size):
            cost[a] += strength * values[position + a * step]


@njit(cache=True, nogil=True)
def icm_sweep(
    dirty,
    x,
    offsets,
    unary,
    adj_ptr,
    adj_slot,
    adj_factor,
    adj_other,
    adj_step,
    indptr,
    scope,
    stride,
    start,
    scale,
    values,
):
    """Give each variable its best label; returns how many changed.

    dirty : bool (V,), variables whose surroundings changed since their last turn; only those are
        looked at.
    """
    largest = 0
    for v in range(len(x)):
        largest = max(largest, offsets[v + 1] - offsets[v])
    cost = np.empty(largest)
    changed = 0
    for v in range(len(x)):
        if not dirty[v]:
            continue
        dirty[v] = False
        conditional(
            v,
            -1,
            -1,
            x,
            offsets,
            unary,
            adj_ptr,
            adj_slot,
            adj_factor,
            adj_other,
            adj_step,
            indptr,
            scope,
            stride,
            start,
            scale,
            values,
            cost,
        )
        best = x[v]
        for a in range(offsets[v + 1] - offsets[v]):
            best = a if cost[a] < cost[best] else best
        if best != x[v]:
            x[v] = best
            changed += 1
            for i in range(adj_ptr[v], adj_ptr[v + 1]):
                f = adj_factor[i]
                for j in range(indptr[f], indptr[f + 1]):
                    dirty[scope[j]] = True
            dirty[v] = False
    return changed


@njit(cache=True, nogil=True)
def lay_out_chains(ends, factor, chain, n_vars):
    """Chains as `chain_sweep` reads them: (ptr, variables, factors), and (ptr, chains) of each
    variable.

    ends (E, 2), factor (E,), chain (E,) : the variables of each edge, its clique, its chain, along
    which variables increase.
    """
    n_edges = len(ends)
    n_chains = 0
    for c in chain:
        n_chains = max(n_chains, c + 1)
    low = np.minimum(ends[:, 0], ends[:, 1])
    length = np.zeros(n_chains, np.int64)
    for c in chain:
        length[c] += 1
    ptr = np.zeros(n_chains + 1, np.int64)
    for c in range(n_chains):
        ptr[c + 1] = ptr[c] + length[c] + 1
    at = ptr[:-1].copy()
    variables, factors, owner = (
        np.empty(ptr[-1], np.int64),
        np.zeros(ptr[-1], np.int64),
        np.empty(ptr[-1], np.int64),
    )
    _, order = counting_order(low, n_vars)
    for i in range(n_edges):
        e = order[i]
        c = chain[e]
        variables[at[c]], factors[at[c]], owner[at[c]] = low[e], factor[e], c
        at[c] += 1
        # the end of the chain, if no edge follows
        variables[at[c]], owner[at[c]] = max(ends[e, 0], ends[e, 1]), c
    member_ptr, place = counting_order(variables, n_vars)
    return ptr, variables, factors, member_ptr, owner[place]


@njit(cache=True, nogil=True)
def chain_sweep(
    begin,
    end,
    chain_ptr,
    chain_var,
    chain_factor,
    member_ptr,
    member,
    dirty,
    x,
    offsets,
    unary,
    adj_ptr,
    adj_slot,
    adj_factor,
    adj_other,
    adj_step,
    indptr,
    scope,
    stride,
    start,
    scale,
    values,
):
    """Re-optimise each of the chains begin:end exactly with everything else fixed; returns how many
    variables changed.

    Cliques that hold two chain variables without being a link of the chain count with the old label
    of the other: where that makes a chain's new labels no better, the caller's energy check throws
    them away.
    chain_var : variables of the chains, one chain after the other.   chain_factor : the edge to the
        next variable.
    member_ptr, member : the chains of each variable.   dirty : bool, chains whose surroundings
    changed since they were last optimised; only those are touched.
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
            conditional(
                v,
                before,
                after,
                x,
                offsets,
                unary,
                adj_ptr,
                adj_slot,
                adj_factor,
                adj_other,
                adj_step,
                indptr,
                scope,
                stride,
                start,
                scale,
                values,
                cost,
            )
            for a in range(offsets[v + 1] - offsets[v]):
                h[i, a] = cost[a]
            if i > 0:
                f, u = chain_factor[lo + i - 1], chain_var[lo + i - 1]
                j, k = indptr[f], indptr[f] + 1
                if scope[j] != u:
                    j, k = k, j
                strength, first, step = scale[f], start[f], stride[j]
                for a in range(offsets[v + 1] - offsets[v]):
                    low, arg, position = np.inf, 0, first + a * stride[k]
                    for b in range(offsets[u + 1] - offsets[u]):
                        value = h[i - 1, b] + strength * values[position + b * step]
                        # a selection: branches would be mispredicted
                        arg = b if value < low else arg
                        low = value if value < low else low
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
                    f = adj_factor[j]
                    for k in range(indptr[f], indptr[f + 1]):
                        for m in range(member_ptr[scope[k]], member_ptr[scope[k] + 1]):
                            if member[m] != c:
                                dirty[member[m]] = True
            if i > 0:
                best = back[i, best]
    return changed
