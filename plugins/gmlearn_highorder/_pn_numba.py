"""Compiled slaves of Pn-Potts cliques, theta (S, L)."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def two_best(row):
    """Index and value of the smallest entry, and the smallest value among the others (inf if there are none).

    Selections rather than branches: which label is best cannot be predicted, and this is the innermost loop.
    """
    best, low, second = 0, row[0], np.inf
    for l in range(1, len(row)):
        t = row[l]
        better = t < low
        runner = low if better else t
        second = runner if runner < second else second
        best = l if better else best
        low = t if better else low
    return best, low, second


@njit(cache=True, nogil=True)
def second_label(row, best):
    """The label of the smallest entry other than `best`."""
    found = -1
    for l in range(len(row)):
        if l != best and (found < 0 or row[l] < row[found]):
            found = l
    return found


@njit(cache=True, nogil=True)
def own_labels(theta, lo, hi, labels):
    """Each member's own minimiser, to labels[lo:hi]; their total cost, and whether they agree."""
    total, agree = 0.0, True
    for i in range(lo, hi):
        low, best = theta[i, 0], 0
        for l in range(1, theta.shape[1]):
            t = theta[i, l]
            better = t < low
            best = l if better else best
            low = t if better else low
        labels[i] = best
        total += low
        agree &= best == labels[lo]
    return total, agree


@njit(cache=True, nogil=True)
def cheapest_change(theta, lo, hi, labels):
    """Make the constant labels[lo:hi] mixed by the cheapest single change; its cost, inf if none is possible."""
    regret, where = np.inf, -1
    if hi - lo > 1:
        for i in range(lo, hi):
            _, low, second = two_best(theta[i])
            if second - low < regret:
                regret, where = second - low, i
    if where >= 0:
        labels[where] = second_label(theta[where], labels[where])
    return regret


@njit(cache=True, nogil=True)
def minimise_pn(theta, indptr, beta, beta_max, labels, value):
    """min over x of sum_i theta_i(x_i) + h(x) for every clique; a constant labelling wins a tie, low labels first."""
    for m in range(len(beta_max)):
        lo, hi = indptr[m], indptr[m + 1]
        constant, best = np.inf, 0
        for l in range(theta.shape[1]):
            total = beta[m, l]
            for i in range(lo, hi):
                total += theta[i, l]
            if total < constant:
                constant, best = total, l
        free, agree = own_labels(theta, lo, hi, labels)
        mixed = free + beta_max[m]  # bounds every mixed labelling from below, whatever the betas
        if mixed < constant and agree:
            mixed += cheapest_change(theta, lo, hi, labels)
        value[m] = min(mixed, constant)
        if not mixed < constant:
            for i in range(lo, hi):
                labels[i] = best


@njit(cache=True, nogil=True)
def min_marginals_pn(theta, indptr, beta, beta_max, out):
    """Minima with one label fixed, laid out like theta. O(k L)."""
    size = theta.shape[1]
    total, count = np.empty(size), np.empty(size, np.int64)
    for m in range(len(beta_max)):
        lo, hi = indptr[m], indptr[m + 1]
        free, small, where, next_small = beta_max[m], np.inf, -1, np.inf
        for l in range(size):
            total[l], count[l] = beta[m, l], 0
        for i in range(lo, hi):
            best, low, second = two_best(theta[i])
            free += low
            count[best] += 1
            regret = second - low if low < np.inf else np.inf
            if regret < small:
                small, where, next_small = regret, i, small
            elif regret < next_small:
                next_small = regret
            for l in range(size):
                total[l] += theta[i, l]
        for i in range(lo, hi):
            best, low, _ = two_best(theta[i])
            rest = free - low if free < np.inf else np.inf
            change = np.inf if hi - lo == 1 else (next_small if where == i else small)
            for l in range(size):
                t = theta[i, l]
                # if all others prefer l too, one of them must give way to make the clique mixed
                needed = change if count[l] - (best == l) == hi - lo - 1 else 0.0
                mixed = rest + t + needed
                constant = total[l] if t < np.inf else np.inf
                out[i, l] = mixed if mixed < constant else constant
