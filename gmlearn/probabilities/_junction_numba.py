"""Compiled preparation of an elimination: labels that cannot occur are removed from all tables.

Labels left are flat: those of variable v are ``label[label_ptr[v]:label_ptr[v + 1]]``.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def first_state(f, indptr, scope, stride, label_ptr, label, digits):
    """The first joint label of clique f among those left; returns its distance from the start."""
    at = 0
    for slot in range(indptr[f], indptr[f + 1]):
        digits[slot - indptr[f]] = 0
        at += label[label_ptr[scope[slot]]] * stride[slot]
    return at


@njit(cache=True, nogil=True)
def next_state(f, indptr, scope, stride, label_ptr, label, digits, at):
    """The next one, the last variable fastest; after the last one it starts again."""
    for slot in range(indptr[f + 1] - 1, indptr[f] - 1, -1):
        i, first = slot - indptr[f], label_ptr[scope[slot]]
        old = label[first + digits[i]]
        digits[i] += 1
        if first + digits[i] < label_ptr[scope[slot] + 1]:
            return at + (label[first + digits[i]] - old) * stride[slot]
        digits[i] = 0
        at += (label[first] - old) * stride[slot]
    return at


@njit(cache=True, nogil=True)
def joint_labels(f, indptr, scope, label_ptr):
    """How many joint labels of clique f are left."""
    size = 1
    for v in scope[indptr[f] : indptr[f + 1]]:
        size *= label_ptr[v + 1] - label_ptr[v]
    return size


@njit(cache=True, nogil=True)
def labels_left(offsets, kept):
    """(label_ptr (V + 1,), label): the labels that are kept."""
    ptr, label, used = np.zeros(len(offsets), np.int64), np.empty(len(kept), np.int64), 0
    for v in range(len(offsets) - 1):
        for a in range(offsets[v], offsets[v + 1]):
            if kept[a]:
                label[used] = a - offsets[v]
                used += 1
        ptr[v + 1] = used
    return ptr, label[:used]


@njit(cache=True, nogil=True)
def remove_impossible(offsets, indptr, scope, stride, start, scale, values, kept):
    """Remove labels for which every entry of some table with the labels left is infinite, until
    nothing changes.
    """
    hard = np.ones(len(start), np.bool_)
    digits = np.empty(np.diff(indptr).max(), np.int64)
    supported = np.empty(len(kept), np.bool_)
    changed = True
    while changed:
        changed = False
        label_ptr, label = labels_left(offsets, kept)
        for f in range(len(start)):
            size = joint_labels(f, indptr, scope, label_ptr)
            if not hard[f] or size == 0:
                continue
            for v in scope[indptr[f] : indptr[f + 1]]:
                supported[offsets[v] : offsets[v + 1]] = False
            hard[f] = False
            at = start[f] + first_state(f, indptr, scope, stride, label_ptr, label, digits)
            for _ in range(size):
                if np.isfinite(scale[f] * values[at]):
                    for slot in range(indptr[f], indptr[f + 1]):
                        v = scope[slot]
                        own = label[label_ptr[v] + digits[slot - indptr[f]]]
                        supported[offsets[v] + own] = True
                else:
                    hard[f] = True
                at = next_state(f, indptr, scope, stride, label_ptr, label, digits, at)
            for v in scope[indptr[f] : indptr[f + 1]]:
                for a in range(offsets[v], offsets[v + 1]):
                    if kept[a] and not supported[a]:
                        kept[a] = False
                        changed = True
    return labels_left(offsets, kept)


@njit(cache=True, nogil=True)
def restricted(
    offsets, unary, indptr, scope, stride, start, scale, values, label_ptr, label, slot_of, divisor
):
    """Tables over the labels left of variables with a choice, costs over `divisor`.

    slot_of : int (V,), the number of each variable with a choice, else -1.

    Returns (values, constants (V,) of variables and cliques without a choice, where the table of
    each clique begins or -1, `Cliques`): first the variables with a choice, then the cliques that
    have one.
    """
    n, n_cliques = len(label_ptr) - 1, len(start)
    begin, sizes = np.full(n_cliques, -1), np.empty(n_cliques, np.int64)
    used, tables, members = 0, 0, 0
    for v in range(n):
        if slot_of[v] >= 0:
            used += label_ptr[v + 1] - label_ptr[v]
            tables, members = tables + 1, members + 1
    for f in range(n_cliques):
        sizes[f] = joint_labels(f, indptr, scope, label_ptr)
        if sizes[f] > 1:
            begin[f] = used
            used += sizes[f]
            tables += 1
            members += (slot_of[scope[indptr[f] : indptr[f + 1]]] >= 0).sum()
    out, constant = np.empty(used), np.zeros(n)
    ptr, at = np.zeros(tables + 1, np.int64), np.empty(tables, np.int64)
    slots, steps = np.empty(members, np.int64), np.ones(members, np.int64)
    k, used = 0, 0
    for v in range(n):
        costs = unary[offsets[v] + label[label_ptr[v] : label_ptr[v + 1]]] / divisor
        if slot_of[v] < 0:
            constant[v] += costs[0]
            continue
        out[used : used + len(costs)] = costs
        at[k], slots[k], ptr[k + 1] = used, slot_of[v], k + 1
        used += len(costs)
        k += 1
    digits = np.empty(np.diff(indptr).max() if n_cliques else 0, np.int64)
    for f in range(n_cliques):
        here = start[f] + first_state(f, indptr, scope, stride, label_ptr, label, digits)
        if sizes[f] == 1:
            constant[scope[indptr[f]]] += scale[f] * values[here] / divisor
            continue
        for e in range(begin[f], begin[f] + sizes[f]):
            out[e] = scale[f] * values[here] / divisor
            here = next_state(f, indptr, scope, stride, label_ptr, label, digits, here)
        at[k], end = begin[f], ptr[k]
        step = sizes[f]
        for v in scope[indptr[f] : indptr[f + 1]]:
            if slot_of[v] >= 0:
                step //= label_ptr[v + 1] - label_ptr[v]
                slots[end], steps[end] = slot_of[v], step
                end += 1
        ptr[k + 1] = end
        k += 1
    return out, constant, begin, (ptr, slots, at, steps)
