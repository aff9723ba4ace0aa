"""Compiled sum-product on forests, with scaled probabilities.

Trees come as the NamedTuple `Forest`, their edges' tables as `Factors`. All factors are at most 1
(the smallest cost of a row or of a table is taken out before), and products of messages are scaled
up before they vanish, so that what underflows is below 1e-200 of what stays. A tree whose marginals
still do not add up to 1 is left to others: costs that differ by hundreds of temperatures need
logarithms.
"""

import numpy as np
from numba import njit

from gmlearn._utils._sorting_numba import longest

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
def soft_forest(belief, f, factors, weight, joint, log_z):
    """Sum-product on all trees.

    belief : float (D,), exp(-theta / temperature) scaled; becomes the marginals.
    weight : float (n_trees,), of what each tree adds to `joint`.
    joint : like the factors' tables; the sum over a table's edges of joint marginals / table is
        added.
    log_z : float (n_trees,), the logarithm of each partition function; NaN where the scaled
        probabilities fail, and nothing is added to `joint`.
    """
    messages = np.empty((longest(f.tree_ptr), longest(f.ptr)))
    inside = np.empty(len(belief))
    for t in range(len(f.tree_ptr) - 1):
        lo, hi = f.tree_ptr[t], f.tree_ptr[t + 1]
        log_z[t] = collect(belief, f, t, factors, messages)
        for a in range(f.ptr[lo], f.ptr[hi]):
            inside[a] = belief[a]
        if np.isnan(log_z[t]) or not distribute(belief, inside, f, t, factors, messages):
            log_z[t] = np.nan
            continue
        for i in range(lo + 1, hi):
            below, above = inside[f.ptr[i] : f.ptr[i + 1]], messages[i - lo]
            size = f.ptr[f.parent[i] + 1] - f.ptr[f.parent[i]]
            for b in range(size):
                above[b] *= weight[t]
            where = joint[factors.first[f.pedge[i]] : factors.first[f.pedge[i]] + len(below) * size]
            if f.child_first[i]:
                add_outer(below, above[:size], where)
            else:
                add_outer(above[:size], below, where)


@njit(cache=True, nogil=True, inline="always")
def collect(belief, f, t, factors, messages):
    """Messages of one tree towards its root: belief becomes that of the subtrees, normalised.

    Returns the logarithm of the partition function; NaN if all is lost.
    """
    lo, hi = f.tree_ptr[t], f.tree_ptr[t + 1]
    total = 0.0
    for i in range(hi - 1, lo - 1, -1):
        own = belief[f.ptr[i] : f.ptr[i + 1]]
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
        target = belief[f.ptr[f.parent[i]] : f.ptr[f.parent[i] + 1]]
        size = len(target)
        where = slice(factors.first[f.pedge[i]], factors.first[f.pedge[i]] + len(own) * size)
        message = messages[i - lo][:size]
        if f.child_first[i]:
            sums(factors.tables[where], own, message)
        else:
            sums(factors.turned[where], own, message)
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
def distribute(belief, inside, f, t, factors, messages):
    """Marginals of one tree from its root down; a message becomes the parent's marginals / it.

    Returns whether the marginals of all slots add up to 1.
    """
    lo = f.tree_ptr[t]
    for i in range(lo + 1, f.tree_ptr[t + 1]):
        own, below = belief[f.ptr[i] : f.ptr[i + 1]], inside[f.ptr[i] : f.ptr[i + 1]]
        above = belief[f.ptr[f.parent[i]] : f.ptr[f.parent[i] + 1]]
        size = len(above)
        where = slice(factors.first[f.pedge[i]], factors.first[f.pedge[i]] + len(own) * size)
        rest = messages[i - lo][:size]
        for b in range(size):
            rest[b] = above[b] / rest[b] if rest[b] > 0.0 else 0.0
        if f.child_first[i]:
            sums(factors.turned[where], rest, own)
        else:
            sums(factors.tables[where], rest, own)
        total = 0.0
        for a in range(len(own)):
            own[a] *= below[a]
            total += own[a]
        if not abs(total - 1.0) < 1e-9:
            return False
    return True
