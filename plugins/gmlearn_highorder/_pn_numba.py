"""Compiled slaves of Pn-Potts cliques, theta (S, L)."""

import numpy as np
from numba import njit

from gmlearn_highorder._cardinality_numba import longest


@njit(cache=True, nogil=True)
def two_best(row):
    """Index and value of the smallest entry, and the smallest value among the others (inf if there
    are none).

    Selections rather than branches: which label is best cannot be predicted, and this is the
    innermost loop.
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
def cheapest_change(theta, lo, hi, labels):
    """Make the constant labels[lo:hi] mixed by the cheapest single change; its cost, inf if none
    is possible.
    """
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
    """min over x of sum_i theta_i(x_i) + h(x) for every clique; a constant labelling wins a tie,
    low labels first.

    One pass over theta gives the cost of every constant labelling and each member's own minimiser.
    It is written out here: a function that takes slices would cost as much as the pass itself.
    """
    size = theta.shape[1]
    totals = np.empty(size)
    for m in range(len(beta_max)):
        lo, hi = indptr[m], indptr[m + 1]
        # slices: no test for negative indices in the loop
        part, own, costs = theta[lo:hi], labels[lo:hi], beta[m]
        for l in range(size):
            totals[l] = costs[l]
        # bounds every mixed labelling from below, whatever the betas
        mixed, agree = beta_max[m], True
        for i in range(hi - lo):
            low, best = part[i, 0], 0
            totals[0] += low
            for l in range(1, size):
                t = part[i, l]
                totals[l] += t
                better = t < low
                best = l if better else best
                low = t if better else low
            own[i] = best
            mixed += low
            agree &= best == own[0]
        constant, best = np.inf, 0
        for l in range(size):
            better = totals[l] < constant
            best = l if better else best
            constant = totals[l] if better else constant
        if mixed < constant and agree:
            mixed += cheapest_change(theta, lo, hi, labels)
        value[m] = min(mixed, constant)
        if not mixed < constant:
            for i in range(hi - lo):
                own[i] = best


@njit(cache=True, nogil=True)
def common_label(part, skip):
    """The label that all rows but `skip` prefer, -1 if they do not agree; and the least cost of
    one of them giving way.
    """
    label, regret = -1, np.inf
    for i in range(len(part)):
        if i == skip:
            continue
        best, low, second = two_best(part[i])
        if label >= 0 and best != label:
            return -1, 0.0
        label = best
        regret = min(regret, second - low if low < np.inf else np.inf)
    return label, regret


@njit(cache=True, nogil=True)
def member_marginals_pn(theta, indptr, beta, beta_max, member, out):
    """Minima with one label of one member of each clique fixed, member (M,), out (M, L). O(k L).

    The others' own minimisers make the best mixed labelling, unless they all agree with the fixed
    label. That matters only where the constant labelling costs more than a mixed one, which is
    rare: only there are they compared.
    """
    size = theta.shape[1]
    totals = np.empty(size)
    for m in range(len(beta_max)):
        part, costs, fixed, row = theta[indptr[m] : indptr[m + 1]], beta[m], member[m], out[m]
        free = beta_max[m]
        for l in range(size):
            totals[l] = costs[l]
        for i in range(len(part)):
            if i == fixed:
                continue
            low = np.inf
            for l in range(size):
                t = part[i, l]
                totals[l] += t
                low = t if t < low else low
            free += low
        agreed, regret = -2, 0.0
        for l in range(size):
            mixed = free
            if costs[l] > beta_max[m] or len(part) == 1:
                if agreed == -2:
                    agreed, regret = common_label(part, fixed)
                mixed += regret if agreed == l or len(part) == 1 else 0.0
            row[l] = part[fixed, l] + (mixed if mixed < totals[l] else totals[l])


@njit(cache=True, nogil=True)
def min_marginals_pn(theta, indptr, beta, beta_max, out):
    """Minima with one label fixed, laid out like theta.

    O(k L), the best two labels written out as in `minimise_pn`.
    """
    size, k = theta.shape[1], longest(indptr)
    totals, count = np.empty(size), np.empty(size, np.int64)
    own, lows = np.empty(k, np.int64), np.empty(k)
    for m in range(len(beta_max)):
        lo, hi = indptr[m], indptr[m + 1]
        part, costs, k = theta[lo:hi], beta[m], hi - lo
        free = beta_max[m]
        small = np.inf
        where = -1
        next_small = np.inf
        for l in range(size):
            totals[l], count[l] = costs[l], 0
        for i in range(k):
            best, low, second = 0, part[i, 0], np.inf
            totals[0] += low
            for l in range(1, size):
                t = part[i, l]
                totals[l] += t
                better = t < low
                runner = low if better else t
                second = runner if runner < second else second
                best = l if better else best
                low = t if better else low
            own[i], lows[i] = best, low
            free += low
            count[best] += 1
            regret = second - low if low < np.inf else np.inf
            if regret < small:
                small, where, next_small = regret, i, small
            elif regret < next_small:
                next_small = regret
        for i in range(k):
            row = out[lo + i]
            rest = free - lows[i] if free < np.inf else np.inf
            change = np.inf if k == 1 else (next_small if where == i else small)
            for l in range(size):
                t = part[i, l]
                # if all others prefer l too, one of them must give way to make the clique mixed
                mixed = rest + t + (change if count[l] - (own[i] == l) == k - 1 else 0.0)
                constant = totals[l] if t < np.inf else np.inf
                row[l] = mixed if mixed < constant else constant
