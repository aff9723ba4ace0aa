"""Compiled branch and bound on pairwise models, with bounds by soft local consistency.

Costs are moved between edges, variables and the constant ``low`` without changing any energy
(Cooper et al., Soft arc consistency revisited, 2010). What an edge has given away is kept label by
label: edge e costs ``table(a, b) - given_i(a) - given_j(b)`` at present. One level of the search
tree is one row of `low` (D,), `unary` (D, n_coords), `given` (D, slots), `labels` (D, n_coords; the
``size`` first of each variable are left) and `size` (D, V).
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def give(e, back, room, edges, offsets, begin, table, unary, given, labels, size, support):
    """Move costs over edge e to one of its ends, the second one if `back`, as much as possible.

    With `support` the other end's unary costs come along (directional arc consistency): each of
    its labels lends what no label of the receiver needs less than. Returns True if a label of the
    receiver has no support at all and is removed.
    """
    i, j = (edges[e, 1], edges[e, 0]) if back else (edges[e, 0], edges[e, 1])
    here, there = (begin[e, 2], begin[e, 1]) if back else (begin[e, 1], begin[e, 2])
    row, column = (1, begin[e, 3]) if back else (begin[e, 3], 1)
    removed = False
    k = 0
    while k < size[i]:
        a = labels[offsets[i] + k]
        least = np.inf
        first = begin[e, 0] + a * row
        for m in range(size[j]):
            b = labels[offsets[j] + m]
            cost = table[first + b * column] - given[there + b]
            if support:
                cost += unary[offsets[j] + b]
            if cost < least:
                least = cost
        if least == np.inf:
            size[i] -= 1
            labels[offsets[i] + k] = labels[offsets[i] + size[i]]
            labels[offsets[i] + size[i]] = a
            removed = True
            continue
        room[k] = least - given[here + a]
        k += 1
    if support:
        for m in range(size[j]):
            b = labels[offsets[j] + m]
            most = 0.0
            for k in range(size[i]):
                a = labels[offsets[i] + k]
                cost = table[begin[e, 0] + a * row + b * column] - given[there + b]
                most = max(most, room[k] - cost + given[here + a])
            most = min(most, unary[offsets[j] + b])
            unary[offsets[j] + b] -= most
            given[there + b] -= most
    for k in range(size[i]):
        a = labels[offsets[i] + k]
        if room[k] > 0.0 or not support:
            unary[offsets[i] + a] = max(unary[offsets[i] + a] + room[k], 0.0)
            given[here + a] += room[k]
    return removed


@njit(cache=True, nogil=True)
def settle(i, level, top, offsets, low, unary, labels, size):
    """Move the least cost of variable i to the constant, remove the labels that reach `top`;
    False if none is left.
    """
    first = offsets[i]
    least = np.inf
    for k in range(size[i]):
        least = min(least, unary[first + labels[first + k]])
    if least == np.inf:
        return False
    low[level] += least
    k = 0
    while k < size[i]:
        a = labels[first + k]
        unary[first + a] -= least
        if low[level] + unary[first + a] >= top:
            size[i] -= 1
            labels[first + k] = labels[first + size[i]]
            labels[first + size[i]] = a
        else:
            k += 1
    return size[i] > 0


@njit(cache=True, nogil=True)
def promise(i, room, model, unary, given, labels, size):
    """What `low` would gain if all edges gave to variable i, with the support of their other ends
    (existential arc consistency).
    """
    edges, offsets, begin, table, ptr, near = model
    best = np.inf
    for k in range(size[i]):
        a = labels[offsets[i] + k]
        total = unary[offsets[i] + a]
        for s in range(ptr[i], ptr[i + 1]):
            e = near[s]
            back = edges[e, 1] == i
            j = edges[e, 0] if back else edges[e, 1]
            here, there = (begin[e, 2], begin[e, 1]) if back else (begin[e, 1], begin[e, 2])
            row, column = (1, begin[e, 3]) if back else (begin[e, 3], 1)
            first = begin[e, 0] + a * row
            least = np.inf
            for m in range(size[j]):
                b = labels[offsets[j] + m]
                cost = table[first + b * column] - given[there + b] + unary[offsets[j] + b]
                least = min(least, cost)
            total += least - given[here + a]
            if total >= best:
                break
        best = min(best, total)
    return best


@njit(cache=True, nogil=True)
def sweep(level, top, tiny, room, model, low, unary, given, labels, size):
    """One pass of full directional and one of existential arc consistency; the variable that has
    no label left, -1 if all have.
    """
    edges, offsets, begin, table, ptr, near = model
    for back in (True, False):
        for step in range(len(size)):
            i = len(size) - 1 - step if back else step
            if not settle(i, level, top, offsets, low, unary, labels, size):
                return i
            for s in range(ptr[i], ptr[i + 1]):
                e = near[s]
                second = edges[e, 1] == i
                j = edges[e, 0] if second else edges[e, 1]
                # to lower variables with support, to higher ones what the edge has alone
                if (j < i) == back and size[j] > 1:
                    give(
                        e, not second, room, edges, offsets, begin, table, unary, given, labels,
                        size, back,
                    )  # fmt: skip
                    if size[j] == 0:
                        return j
    for i in range(len(size)):
        if size[i] > 1 and promise(i, room, model, unary, given, labels, size) > tiny:
            for s in range(ptr[i], ptr[i + 1]):
                e = near[s]
                second = edges[e, 1] == i
                give(
                    e, second, room, edges, offsets, begin, table, unary, given, labels, size, True
                )
            if size[i] == 0 or not settle(i, level, top, offsets, low, unary, labels, size):
                return i
    return -1


@njit(cache=True, nogil=True)
def fix_edges(room, model, unary, given, labels, size):
    """Edges with one end decided give all they have to the other end; the variable without a label
    then, or -1.
    """
    edges, offsets, begin, table = model[:4]
    for e in range(len(edges)):
        i, j = edges[e, 0], edges[e, 1]
        if size[i] == 1 or size[j] == 1:
            to_second = size[i] == 1
            give(
                e, to_second, room, edges, offsets, begin, table, unary, given, labels, size, False
            )
            if size[j if to_second else i] == 0:
                return j if to_second else i
    return -1


@njit(cache=True, nogil=True)
def propagate(level, top, tiny, passes, room, model, low, unary, given, labels, size):
    """Raise ``low[level]`` until it hardly moves; the variable that has no label left, or -1."""
    offsets = model[1]
    for _ in range(passes):
        before = low[level]
        bad = fix_edges(room, model, unary, given, labels, size)
        if bad < 0:
            bad = sweep(level, top, tiny, room, model, low, unary, given, labels, size)
        if bad >= 0:
            return bad
        for i in range(len(size)):
            if not settle(i, level, top, offsets, low, unary, labels, size):
                return i
        if low[level] - before <= tiny:
            break
    return -1


@njit(cache=True, nogil=True)
def choose(offsets, unary, labels, size, weight, last, best):
    """The variable to branch on (few labels, often in conflicts, the last conflict first) and its
    cheapest label; -1 if all are decided.
    """
    chosen = -1
    if last >= 0 and size[last] > 1:
        chosen = last
    else:
        value = np.inf
        for i in range(len(size)):
            if size[i] > 1 and size[i] / weight[i] < value:
                value = size[i] / weight[i]
                chosen = i
    label = -1
    if chosen >= 0:
        least = np.inf
        for k in range(size[chosen]):
            a = labels[offsets[chosen] + k]
            cost = unary[offsets[chosen] + a]
            if cost < least or (cost == least and a == best[chosen]):
                least = cost
                label = a
    return chosen, label


@njit(cache=True, nogil=True)
def descend(level, unary, given, labels, size, low):
    """Copy one level to the next."""
    for x in (unary, given):
        for k in range(x.shape[1]):
            x[level + 1, k] = x[level, k]
    for k in range(labels.shape[1]):
        labels[level + 1, k] = labels[level, k]
    for k in range(size.shape[1]):
        size[level + 1, k] = size[level, k]
    low[level + 1] = low[level]


@njit(cache=True, nogil=True)
def keep_only(i, a, offsets, labels, size):
    """Decide variable i."""
    for k in range(size[i]):
        if labels[offsets[i] + k] == a:
            labels[offsets[i] + k] = labels[offsets[i]]
            labels[offsets[i]] = a
    size[i] = 1


@njit(cache=True, nogil=True)
def remove(i, a, offsets, labels, size):
    """Take label a from variable i."""
    for k in range(size[i]):
        if labels[offsets[i] + k] == a:
            size[i] -= 1
            labels[offsets[i] + k] = labels[offsets[i] + size[i]]
            labels[offsets[i] + size[i]] = a
            return


@njit(cache=True, nogil=True)
def energy_of(x, model, plain):
    """The energy of labels x (V,) by the original costs."""
    edges, offsets, begin, table = model[:4]
    total = 0.0
    for i in range(len(x)):
        total += plain[offsets[i] + x[i]]
    for e in range(len(edges)):
        total += table[begin[e, 0] + x[edges[e, 0]] * begin[e, 3] + x[edges[e, 1]]]
    return total


@njit(cache=True, nogil=True)
def search(
    nodes, at, tops, passes, model, plain, low, unary, given, labels, size, branch, weight, best
):
    """Go on with a depth-first search for at most so many nodes; True when it is finished.

    at (3,) : the level (-1 when finished), nodes so far, the last variable in a conflict.   tops
    (4,) : the best energy, the step below it that counts as better, the smallest gain worth a
    pass, and the bound that a finished search proves.   branch (D, 2) : the decision at each
    level.   weight (V,) : conflicts.   best (V,) : the best labels.
    """
    offsets = model[1]
    n = len(offsets) - 1
    widest = 0
    for i in range(n):
        widest = max(widest, offsets[i + 1] - offsets[i])
    room = np.empty(widest)
    x = np.empty(n, np.int64)
    level = at[0]
    until = at[1] + nodes
    while level >= 0 and at[1] < until:
        i, a = choose(offsets, unary[level], labels[level], size[level], weight, at[2], best)
        if i < 0:
            for v in range(n):
                x[v] = labels[level, offsets[v]]
            energy = energy_of(x, model, plain)
            if energy < tops[0]:
                tops[0] = energy
                for v in range(n):
                    best[v] = x[v]
            level -= 1
        else:
            at[1] += 1
            descend(level, unary, given, labels, size, low)
            branch[level, 0] = i
            branch[level, 1] = a
            level += 1
            keep_only(i, a, offsets, labels[level], size[level])
            bad = propagate(
                level, tops[0] - tops[1], tops[2], passes, room, model, low, unary[level],
                given[level], labels[level], size[level],
            )  # fmt: skip
            if bad < 0:
                continue
            weight[bad] += 1.0
            at[2] = i
            level -= 1
        # refute decisions until one leaves something to search
        while level >= 0:
            i = branch[level, 0]
            remove(i, branch[level, 1], offsets, labels[level], size[level])
            bad = i if size[level, i] == 0 else -1
            if bad < 0:
                bad = propagate(
                    level, tops[0] - tops[1], tops[2], passes, room, model, low, unary[level],
                    given[level], labels[level], size[level],
                )  # fmt: skip
            if bad < 0:
                break
            weight[bad] += 1.0
            level -= 1
    at[0] = level
    return level < 0
