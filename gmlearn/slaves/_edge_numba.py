"""Compiled slaves of single edges, on the pairwise form `scale * values[start + a * stride +
b]`.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def minimise_edges(theta, ptr, values, start, stride, scale, labels, value):
    """min over (a, b) of theta_0(a) + theta_1(b) + T(a, b) for every edge; first minimiser in
    row order.
    """
    for e in range(len(start)):
        first, second, end = ptr[2 * e], ptr[2 * e + 1], ptr[2 * e + 2]
        best, best_a, best_b = np.inf, 0, 0
        for a in range(second - first):
            row = start[e] + a * stride[e]
            for b in range(end - second):
                cost = theta[first + a] + theta[second + b] + scale[e] * values[row + b]
                if cost < best:
                    best, best_a, best_b = cost, a, b
        labels[2 * e], labels[2 * e + 1], value[e] = best_a, best_b, best


@njit(cache=True, nogil=True)
def two_smallest(theta, lo, hi):
    """Index of the smallest entry of theta[lo:hi], and of the second smallest (-1 if there is
    none).
    """
    i, j = 0, -1
    for k in range(1, hi - lo):
        if theta[lo + k] < theta[lo + i]:
            i, j = k, i
        elif j < 0 or theta[lo + k] < theta[lo + j]:
            j = k
    return i, j


@njit(cache=True, nogil=True)
def minimise_potts(theta, ptr, scale, labels, value):
    """Potts edges in O(L): the best equal labels against the best different ones (also for
    negative strengths).
    """
    for e in range(len(scale)):
        first, second, end = ptr[2 * e], ptr[2 * e + 1], ptr[2 * e + 2]
        best, best_a, best_b = np.inf, 0, 0
        for a in range(min(second - first, end - second)):
            cost = theta[first + a] + theta[second + a]
            if cost < best:
                best, best_a, best_b = cost, a, a
        a1, a2 = two_smallest(theta, first, second)
        b1, b2 = two_smallest(theta, second, end)
        if a1 != b1:
            cost = theta[first + a1] + theta[second + b1] + scale[e]
            if cost < best:
                best, best_a, best_b = cost, a1, b1
        else:
            if b2 >= 0:
                cost = theta[first + a1] + theta[second + b2] + scale[e]
                if cost < best:
                    best, best_a, best_b = cost, a1, b2
            if a2 >= 0:
                cost = theta[first + a2] + theta[second + b1] + scale[e]
                if cost < best:
                    best, best_a, best_b = cost, a2, b1
        labels[2 * e], labels[2 * e + 1], value[e] = best_a, best_b, best


@njit(cache=True, nogil=True)
def min_marginals_edges(theta, ptr, values, start, stride, scale, out):
    """Minima with one end fixed, laid out like theta."""
    for e in range(len(start)):
        first, second, end = ptr[2 * e], ptr[2 * e + 1], ptr[2 * e + 2]
        for d in range(first, end):
            out[d] = np.inf
        for a in range(second - first):
            row = start[e] + a * stride[e]
            for b in range(end - second):
                cost = theta[first + a] + theta[second + b] + scale[e] * values[row + b]
                if cost < out[first + a]:
                    out[first + a] = cost
                if cost < out[second + b]:
                    out[second + b] = cost
