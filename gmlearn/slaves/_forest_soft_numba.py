"""Compiled sum-product on forests, with scaled probabilities.

Slots are laid out as in `_forest_numba`. All factors are at most 1 (the smallest cost of a row or
of a table is taken out before), and products of messages are scaled up before they vanish, so that
what underflows is below 1e-200 of what stays. A tree whose marginals still do not add up to 1
is left to others: costs that differ by hundreds of temperatures need logarithms.
"""

import numpy as np
from numba import njit

#: a product of messages is scaled up below the first, and given up below the second
LOW, LOST = 1e-100, 1e-250


@njit(cache=True, nogil=True)
def scaled_exp(theta, ptr, temperature, out, low):
    """out = exp(-(theta - low_i) / temperature), low_i the minimum of slot i, 0 if that is inf."""
    for i in range(len(ptr) - 1):
        least = np.inf
        for a in range(ptr[i], ptr[i + 1]):
            least = min(least, theta[a])
        low[i] = least if least < np.inf else 0.0
        for a in range(ptr[i], ptr[i + 1]):
            out[a] = (low[i] - theta[a]) / temperature


@njit(cache=True, nogil=True, inline="always")
def sums(table, x, out):
    """out[b] = sum_a x[a] table[a * n + b]."""
    n = len(out)
    for b in range(n):
        out[b] = 0.0
    # four rows at a time: `out` is read and written a quarter as often
    fours = len(x) - len(x) % 4
    for a in range(0, fours, 4):
        x0, x1, x2, x3 = x[a], x[a + 1], x[a + 2], x[a + 3]
        row0 = table[a * n : a * n + n]
        row1 = table[a * n + n : a * n + 2 * n]
        row2 = table[a * n + 2 * n : a * n + 3 * n]
        row3 = table[a * n + 3 * n : a * n + 4 * n]
        for b in range(n):
            out[b] += (x0 * row0[b] + x1 * row1[b]) + (x2 * row2[b] + x3 * row3[b])
    for a in range(fours, len(x)):
        row, own = table[a * n : a * n + n], x[a]
        for b in range(n):
            out[b] += own * row[b]


@njit(cache=True, nogil=True, inline="always")
def add_outer(x, y, out):
    """out[a * n + b] += x[a] y[b]."""
    n = len(y)
    for a in range(len(x)):
        row, own = out[a * n : a * n + n], x[a]
        for b in range(n):
            row[b] += own * y[b]


@njit(cache=True, nogil=True)
def soft_forest(
    belief, ptr, tree_ptr, parent, pedge, child_first, first, tables, turned, factor, joint, log_z
):
    """Sum-product on all trees.

    belief : float (D,), exp(-theta / temperature) scaled; becomes the marginals.
    first : int (E,), where the table of each edge begins in `tables`, exp(-cost / temperature)
        scaled; rows are the labels of the edge's first end.   turned : the same, transposed.
    factor : float (n_trees,), of what each tree adds to `joint`.
    joint : like `tables`; the sum over a table's edges of joint marginals / table is added.
    log_z : float (n_trees,), the logarithm of each partition function; NaN where the scaled
        probabilities fail, and nothing is added to `joint`.
    """
    largest, most = 0, 0
    for i in range(len(parent)):
        largest = max(largest, ptr[i + 1] - ptr[i])
    for t in range(len(tree_ptr) - 1):
        most = max(most, tree_ptr[t + 1] - tree_ptr[t])
    messages, inside = np.empty((most, largest)), np.empty(len(belief))
    for t in range(len(tree_ptr) - 1):
        lo, hi = tree_ptr[t], tree_ptr[t + 1]
        log_z[t] = collect(
            belief, ptr, lo, hi, parent, pedge, child_first, first, tables, turned, messages
        )
        for a in range(ptr[lo], ptr[hi]):
            inside[a] = belief[a]
        if np.isnan(log_z[t]) or not distribute(
            belief, inside, ptr, lo, hi, parent, pedge, child_first, first, tables, turned, messages
        ):
            log_z[t] = np.nan
            continue
        for i in range(lo + 1, hi):
            below, above = inside[ptr[i] : ptr[i + 1]], messages[i - lo]
            size = ptr[parent[i] + 1] - ptr[parent[i]]
            for b in range(size):
                above[b] *= factor[t]
            where = joint[first[pedge[i]] : first[pedge[i]] + len(below) * size]
            if child_first[i]:
                add_outer(below, above[:size], where)
            else:
                add_outer(above[:size], below, where)


@njit(cache=True, nogil=True, inline="always")
def collect(belief, ptr, lo, hi, parent, pedge, child_first, first, tables, turned, messages):
    """Messages of one tree towards its root: belief becomes that of the subtrees, normalised.

    Returns the logarithm of the partition function; NaN if all is lost.
    """
    total = 0.0
    for i in range(hi - 1, lo - 1, -1):
        own = belief[ptr[i] : ptr[i + 1]]
        norm = 0.0
        for a in range(len(own)):
            norm += own[a]
        if not norm > LOST:
            return np.nan
        total += np.log(norm)
        inverse = 1.0 / norm
        for a in range(len(own)):
            own[a] *= inverse
        if i == lo:
            break
        target = belief[ptr[parent[i]] : ptr[parent[i] + 1]]
        size = len(target)
        where = slice(first[pedge[i]], first[pedge[i]] + len(own) * size)
        message = messages[i - lo][:size]
        if child_first[i]:
            sums(tables[where], own, message)
        else:
            sums(turned[where], own, message)
        most = 0.0
        for b in range(size):
            target[b] *= message[b]
            most = max(most, target[b])
        if most < LOW:
            if not most > LOST:
                return np.nan
            total += np.log(most)
            for b in range(size):
                target[b] /= most
    return total


@njit(cache=True, nogil=True, inline="always")
def distribute(
    belief, inside, ptr, lo, hi, parent, pedge, child_first, first, tables, turned, messages
):
    """Marginals of one tree from its root down; a message becomes the parent's marginals / it.

    Returns whether the marginals of all slots add up to 1.
    """
    for i in range(lo + 1, hi):
        own, below = belief[ptr[i] : ptr[i + 1]], inside[ptr[i] : ptr[i + 1]]
        above = belief[ptr[parent[i]] : ptr[parent[i] + 1]]
        size = len(above)
        where = slice(first[pedge[i]], first[pedge[i]] + len(own) * size)
        rest = messages[i - lo][:size]
        for b in range(size):
            rest[b] = above[b] / rest[b] if rest[b] > 0.0 else 0.0
        if child_first[i]:
            sums(turned[where], rest, own)
        else:
            sums(tables[where], rest, own)
        total = 0.0
        for a in range(len(own)):
            own[a] *= below[a]
            total += own[a]
        if not abs(total - 1.0) < 1e-9:
            return False
    return True
