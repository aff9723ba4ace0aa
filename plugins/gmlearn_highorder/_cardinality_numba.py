"""Compiled slaves of count potentials, theta (S, L): f[start + n], n members taking one label, n
<= top.
"""

import numpy as np
from numba import njit

from gmlearn_highorder._moves_numba import best_number, fixed_choice, order_moves


@njit(cache=True, nogil=True)
def split(theta, lo, hi, label, on, off, other):
    """For every member the cost of `label`, and the best other label with its cost."""
    size = theta.shape[1]
    for i in range(lo, hi):
        on[i - lo] = theta[i, label] if label < size else np.inf
        low, best = np.inf, 1 if label == 0 and size > 1 else 0
        for l in range(size):
            if l != label and theta[i, l] < low:
                low, best = theta[i, l], l
        off[i - lo], other[i - lo] = low, best


@njit(cache=True, nogil=True)
def longest(indptr):
    """The size of the largest clique."""
    most = 1
    for m in range(len(indptr) - 1):
        most = max(most, indptr[m + 1] - indptr[m])
    return most


@njit(cache=True, nogil=True)
def minimise_counts(theta, indptr, label, f, start, top, labels, value):
    """min over x of sum_i theta_i(x_i) + f(#{i: x_i = label}) for every clique; the lowest count
    wins a tie.
    """
    k = longest(indptr)
    on, off, other, order = np.empty(k), np.empty(k), np.empty(k, np.int64), np.empty(k, np.int64)
    for m in range(len(start)):
        lo, hi = indptr[m], indptr[m + 1]
        split(theta, lo, hi, label[m], on, off, other)
        base, forced, able = order_moves(off, on, hi - lo, top[m], order)
        value[m], number = best_number(off, on, order, base, forced, able, f, start[m], top[m])
        for i in range(lo, hi):
            labels[i] = other[i - lo] if number >= 0 else 0
        for j in range(number):
            labels[lo + order[j]] = label[m]


@njit(cache=True, nogil=True)
def min_marginals_counts(theta, indptr, label, f, start, top, out):
    """Minima with one label fixed, laid out like theta."""
    k = longest(indptr)
    on, off, other, order = np.empty(k), np.empty(k), np.empty(k, np.int64), np.empty(k, np.int64)
    if_off, if_on = np.empty(k), np.empty(k)
    for m in range(len(start)):
        lo, hi = indptr[m], indptr[m + 1]
        split(theta, lo, hi, label[m], on, off, other)
        base, forced, able = order_moves(off, on, hi - lo, top[m], order)
        fixed_choice(
            off, on, hi - lo, order, base, forced, able, f, start[m], top[m], if_off, if_on
        )
        for i in range(lo, hi):
            j = i - lo
            for l in range(theta.shape[1]):
                if l == label[m]:
                    out[i, l] = if_on[j]
                else:
                    out[i, l] = if_off[j] - off[j] + theta[i, l] if off[j] < np.inf else np.inf


@njit(cache=True, nogil=True)
def log_add(a, b):
    """log(exp(a) + exp(b))."""
    if a < b:
        a, b = b, a
    return a if b == -np.inf else a + np.log1p(np.exp(b - a))


@njit(cache=True, nogil=True)
def count_distribution(log_on, log_off, indptr, log_f, start, top, log_z, p_on, p_count):
    """Log-partition of the counts by dynamic programming, O(k top) for each clique, in the log
    domain.

    forward[i, n]: n of the first i members are on; backward[i, n]: the rest from there, with f paid
    at the end. p_on (S,) are the members' probabilities of being on; p_count[start of the clique in
    its own rows] those of the counts.
    """
    k = longest(indptr)
    forward = np.empty((k + 1, k + 2))
    backward = np.empty((k + 1, k + 2))
    for m in range(len(start)):
        lo, hi = indptr[m], indptr[m + 1]
        size, most = hi - lo, top[m]
        forward[0, : most + 1] = -np.inf
        forward[0, 0] = 0.0
        for i in range(size):
            for n in range(most + 1):
                come = forward[i, n - 1] + log_on[lo + i] if n > 0 else -np.inf
                forward[i + 1, n] = log_add(forward[i, n] + log_off[lo + i], come)
        for n in range(most + 1):
            backward[size, n] = log_f[start[m] + n] if n <= size else -np.inf
        for i in range(size - 1, -1, -1):
            for n in range(most + 1):
                go = backward[i + 1, n + 1] + log_on[lo + i] if n < most else -np.inf
                backward[i, n] = log_add(backward[i + 1, n] + log_off[lo + i], go)
        log_z[m] = backward[0, 0]
        for n in range(p_count.shape[1]):
            p_count[m, n] = 0.0
        for i in range(lo, hi):
            p_on[i] = 0.0
        if log_z[m] == -np.inf:
            continue
        for i in range(size):
            for n in range(most):
                p_on[lo + i] += np.exp(
                    forward[i, n] + log_on[lo + i] + backward[i + 1, n + 1] - log_z[m]
                )
        for n in range(most + 1):
            p_count[m, n] = np.exp(forward[size, n] + backward[size, n] - log_z[m])
