"""Compiled slaves of functions of a sum: dynamic programming over the members of a clique.

forward[i, t] is the best cost (the log-sum) of the first i members with the total t, backward[i, t]
that of the others from there, with f paid at the end.
"""

import numpy as np
from numba import njit

from gmlearn_highorder._cardinality_numba import log_add, longest


@njit(cache=True, nogil=True)
def largest(most):
    """The largest total of all cliques."""
    top = 0
    for m in range(len(most)):
        top = max(top, most[m])
    return top


@njit(cache=True, nogil=True)
def cheapest_ahead(theta, lo, hi, values, f, start, most, backward):
    """Fill `backward` for one clique."""
    size = hi - lo
    for t in range(most + 1):
        backward[size, t] = f[start + t]
    for i in range(size - 1, -1, -1):
        for t in range(most + 1):
            best = np.inf
            for l in range(theta.shape[1]):
                total = t + values[lo + i, l]
                if total <= most and theta[lo + i, l] + backward[i + 1, total] < best:
                    best = theta[lo + i, l] + backward[i + 1, total]
            backward[i, t] = best


@njit(cache=True, nogil=True)
def minimise_sums(theta, indptr, values, f, start, most, labels, value):
    """min over x of sum_i theta_i(x_i) + f(sum_i a_i(x_i)) for every clique; the lowest label
    wins a tie.
    """
    backward = np.empty((longest(indptr) + 1, largest(most) + 1))
    for m in range(len(start)):
        lo = indptr[m]
        hi = indptr[m + 1]
        cheapest_ahead(theta, lo, hi, values, f, start[m], most[m], backward)
        value[m] = backward[0, 0]
        total = 0
        for i in range(lo, hi):
            labels[i] = 0
            for l in range(theta.shape[1]):
                ahead = total + values[i, l]
                if ahead <= most[m] and (
                    theta[i, l] + backward[i - lo + 1, ahead] == backward[i - lo, total]
                ):
                    labels[i] = l
                    break
            total = min(total + values[i, labels[i]], most[m])


@njit(cache=True, nogil=True)
def min_marginals_sums(theta, indptr, values, f, start, most, out):
    """Minima with one label fixed, laid out like theta."""
    rows = longest(indptr) + 1
    columns = largest(most) + 1
    backward = np.empty((rows, columns))
    forward = np.empty(columns)
    after = np.empty(columns)
    for m in range(len(start)):
        lo = indptr[m]
        hi = indptr[m + 1]
        top = most[m]
        cheapest_ahead(theta, lo, hi, values, f, start[m], top, backward)
        for t in range(1, top + 1):
            forward[t] = np.inf
        forward[0] = 0.0
        for i in range(lo, hi):
            for t in range(top + 1):
                after[t] = np.inf
            for l in range(theta.shape[1]):
                best = np.inf
                shift = values[i, l]
                for t in range(top + 1 - shift):
                    come = forward[t] + theta[i, l]
                    best = min(best, come + backward[i - lo + 1, t + shift])
                    after[t + shift] = min(after[t + shift], come)
                out[i, l] = best
            for t in range(top + 1):
                forward[t] = after[t]


@njit(cache=True, nogil=True)
def sum_distribution(score, indptr, values, log_f, start, most, log_z, marginals, totals):
    """Log-partition, marginals of labels (S, L), and the probabilities (M, T) of each total, all in
    the log domain.
    """
    rows = longest(indptr) + 1
    columns = largest(most) + 1
    forward = np.empty((rows, columns))
    backward = np.empty((rows, columns))
    for m in range(len(start)):
        lo = indptr[m]
        size = indptr[m + 1] - lo
        top = most[m]
        for i in range(size + 1):
            for t in range(top + 1):
                forward[i, t] = -np.inf
                backward[i, t] = -np.inf
        forward[0, 0] = 0.0
        for t in range(top + 1):
            backward[size, t] = log_f[start[m] + t]
        for i in range(size):
            for l in range(score.shape[1]):
                shift = values[lo + i, l]
                for t in range(top + 1 - shift):
                    come = forward[i, t] + score[lo + i, l]
                    forward[i + 1, t + shift] = log_add(forward[i + 1, t + shift], come)
        for i in range(size - 1, -1, -1):
            for l in range(score.shape[1]):
                shift = values[lo + i, l]
                for t in range(top + 1 - shift):
                    go = backward[i + 1, t + shift] + score[lo + i, l]
                    backward[i, t] = log_add(backward[i, t], go)
        log_z[m] = backward[0, 0]
        for i in range(size):
            for l in range(score.shape[1]):
                marginals[lo + i, l] = 0.0
                shift = values[lo + i, l]
                for t in range(top + 1 - shift):
                    joint = forward[i, t] + score[lo + i, l] + backward[i + 1, t + shift]
                    if joint > -np.inf:
                        marginals[lo + i, l] += np.exp(joint - log_z[m])
        for t in range(top + 1):
            joint = forward[size, t] + log_f[start[m] + t]
            if joint > -np.inf:
                totals[m, t] = np.exp(joint - log_z[m])
