"""Compiled local search on factor graphs: single variables, and whole chains at a time.

A graph comes as the NamedTuple `Tables` of its arrays.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from gmlearn._utils._sorting_numba import counting_order, longest


class Around(NamedTuple):
    """For each place in `Tables.slots`: the clique; on an edge, the other variable and its stride,
    else -1 and 0.
    """

    clique: np.ndarray
    other: np.ndarray
    step: np.ndarray


class Chains(NamedTuple):
    """Edge-disjoint chains, one after the other, and those that each variable is on.

    ptr, variable : the variables of chain c are ``variable[ptr[c]:ptr[c + 1]]``.   clique : the
        edge to the next variable.
    member_ptr, member : the chains of each variable.
    """

    ptr: np.ndarray
    variable: np.ndarray
    clique: np.ndarray
    member_ptr: np.ndarray
    member: np.ndarray


@njit(cache=True, nogil=True)
def neighbours(g):
    """The cliques around each variable."""
    clique = np.empty(len(g.slots), np.int64)
    other = np.full(len(g.slots), -1)
    step = np.zeros(len(g.slots), np.int64)
    for i in range(len(g.slots)):
        f = g.owner[g.slots[i]]
        clique[i] = f
        if g.indptr[f + 1] - g.indptr[f] == 2:
            j = g.indptr[f] + g.indptr[f + 1] - 1 - g.slots[i]
            other[i], step[i] = g.scope[j], g.stride[j]
    return Around(clique, other, step)


# a call costs more than its work
@njit(cache=True, nogil=True, inline="always")
def conditional(v, skip_a, skip_b, x, g, around, cost):
    """Costs of all labels of v with every other variable fixed, without the cliques skip_a and
    skip_b.
    """
    size = g.offsets[v + 1] - g.offsets[v]
    for a in range(size):
        cost[a] = g.unary[g.offsets[v] + a]
    for i in range(g.ptr[v], g.ptr[v + 1]):
        f = around.clique[i]
        if f == skip_a or f == skip_b:  # noqa: SIM109, building a tuple costs more than the rest
            continue
        position, slot, u = g.start[f], g.slots[i], around.other[i]
        if u >= 0:
            position += x[u] * around.step[i]
        else:
            for j in range(g.indptr[f], g.indptr[f + 1]):
                if j != slot:
                    position += x[g.scope[j]] * g.stride[j]
        strength, step = g.scale[f], g.stride[slot]
        for a in range(size):
            cost[a] += strength * g.values[position + a * step]


@njit(cache=True, nogil=True)
def icm_sweep(dirty, x, g, around):
    """Give each variable its best label; returns how many changed.

    dirty : bool (V,), variables whose surroundings changed since their last turn; only those are
        looked at.
    """
    cost = np.empty(longest(g.offsets))
    changed = 0
    for v in range(len(x)):
        if not dirty[v]:
            continue
        dirty[v] = False
        conditional(v, -1, -1, x, g, around, cost)
        best = x[v]
        for a in range(g.offsets[v + 1] - g.offsets[v]):
            best = a if cost[a] < cost[best] else best
        if best != x[v]:
            x[v] = best
            changed += 1
            for i in range(g.ptr[v], g.ptr[v + 1]):
                f = around.clique[i]
                for j in range(g.indptr[f], g.indptr[f + 1]):
                    dirty[g.scope[j]] = True
            dirty[v] = False
    return changed


@njit(cache=True, nogil=True)
def lay_out_chains(ends, factor, chain, n_vars):
    """The chains that edges form.

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
    variables = np.empty(ptr[-1], np.int64)
    factors = np.zeros(ptr[-1], np.int64)
    owner = np.empty(ptr[-1], np.int64)
    _, order = counting_order(low, n_vars)
    for i in range(n_edges):
        e = order[i]
        c = chain[e]
        variables[at[c]], factors[at[c]], owner[at[c]] = low[e], factor[e], c
        at[c] += 1
        # the end of the chain, if no edge follows
        variables[at[c]] = max(ends[e, 0], ends[e, 1])
        owner[at[c]] = c
    member_ptr, place = counting_order(variables, n_vars)
    return Chains(ptr, variables, factors, member_ptr, owner[place])


@njit(cache=True, nogil=True)
def chain_sweep(begin, end, chains, dirty, x, g, around):
    """Re-optimise each of the chains begin:end exactly with everything else fixed; returns how many
    variables changed.

    Cliques that hold two chain variables without being a link of the chain count with the old label
    of the other: where that makes a chain's new labels no better, the caller's energy check throws
    them away.
    dirty : bool, chains whose surroundings changed since they were last optimised; only those are
        touched.
    """
    cost = np.empty(longest(g.offsets))
    size = (longest(chains.ptr[begin : end + 1]), len(cost))
    h, back = np.empty(size), np.empty(size, np.int32)
    changed = 0
    for c in range(begin, end):
        if not dirty[c]:
            continue
        dirty[c] = False
        lo, n = chains.ptr[c], chains.ptr[c + 1] - chains.ptr[c]
        for i in range(n):
            v = chains.variable[lo + i]
            before = chains.clique[lo + i - 1] if i > 0 else -1
            after = chains.clique[lo + i] if i + 1 < n else -1
            conditional(v, before, after, x, g, around, cost)
            for a in range(g.offsets[v + 1] - g.offsets[v]):
                h[i, a] = cost[a]
            if i > 0:
                f, u = chains.clique[lo + i - 1], chains.variable[lo + i - 1]
                j, k = g.indptr[f], g.indptr[f] + 1
                if g.scope[j] != u:
                    j, k = k, j
                strength, first, step = g.scale[f], g.start[f], g.stride[j]
                for a in range(g.offsets[v + 1] - g.offsets[v]):
                    low, arg, position = np.inf, 0, first + a * g.stride[k]
                    for b in range(g.offsets[u + 1] - g.offsets[u]):
                        value = h[i - 1, b] + strength * g.values[position + b * step]
                        # a selection: branches would be mispredicted
                        arg = b if value < low else arg
                        low = value if value < low else low
                    h[i, a] += low
                    back[i, a] = arg
        last = chains.variable[lo + n - 1]
        best = 0
        for a in range(g.offsets[last + 1] - g.offsets[last]):
            if h[n - 1, a] < h[n - 1, best]:
                best = a
        if h[n - 1, best] == np.inf:
            continue
        for i in range(n - 1, -1, -1):
            v = chains.variable[lo + i]
            if x[v] != best:
                x[v] = best
                changed += 1
                for j in range(g.ptr[v], g.ptr[v + 1]):
                    f = around.clique[j]
                    for k in range(g.indptr[f], g.indptr[f + 1]):
                        for m in range(
                            chains.member_ptr[g.scope[k]], chains.member_ptr[g.scope[k] + 1]
                        ):
                            if chains.member[m] != c:
                                dirty[chains.member[m]] = True
            if i > 0:
                best = back[i, best]
    return changed
