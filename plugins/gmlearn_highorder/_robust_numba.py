"""Compiled slaves of robust Pn cliques, theta (S, L): moves away from an anchor label, and the
labellings without one.
"""

import numpy as np
from numba import njit

from gmlearn_highorder._cardinality_numba import longest, split
from gmlearn_highorder._moves_numba import best_number, fixed_choice, order_moves
from gmlearn_highorder._pn_numba import second_label, two_best


@njit(cache=True, nogil=True)
def anchored_costs(beta, beta_max, truncation, f):
    """f[d] for d = 0, 1, ... < Q deviations from the anchor; returns the largest such d."""
    last = int(np.ceil(truncation)) - 1
    for d in range(last + 1):
        share = 1.0 - d / truncation
        f[d] = share * beta + ((1.0 - share) * beta_max if share < 1.0 else 0.0)
    return last


@njit(cache=True, nogil=True)
def own_minimisers(theta, lo, hi, best, low, regret, count):
    """Each member's own minimiser, its cost and the regret of the second best; counts of labels;
    the total cost.
    """
    count[:] = 0
    total = 0.0
    for i in range(lo, hi):
        j = i - lo
        best[j], low[j], second = two_best(theta[i])
        regret[j] = second - low[j] if low[j] < np.inf else np.inf
        count[best[j]] += 1
        total += low[j]
    return total


@njit(cache=True, nogil=True)
def group_by_regret(best, regret, k, label, order):
    """The members whose own minimiser is `label`, cheapest regret first; their number."""
    n = 0
    for j in range(k):
        if best[j] == label:
            order[n] = j
            n += 1
    order[:n] = order[:n][np.argsort(regret[order[:n]], kind="mergesort")]
    return n


@njit(cache=True, nogil=True)
def least_regret(theta, lo, k, label, low, last):
    """A bound from below on what the members that keep `label` pay beyond their own minima, if
    at most `last` deviate.
    """
    total, largest = 0.0, 0.0
    for j in range(k):
        regret = theta[lo + j, label] - low[j]
        if regret < np.inf:
            total += regret
            largest = regret if regret > largest else largest
    return max(0.0, total - last * largest)


@njit(cache=True, nogil=True)
def minimise_robust(theta, indptr, beta, beta_max, truncation, labels, value):
    """min over x of sum_i theta_i(x_i) + h(x) for every clique; labels without an anchor win a
    tie, then low anchors.
    """
    k, size = longest(indptr), theta.shape[1]
    stay = np.empty(k)
    move = np.empty(k)
    other = np.empty(k, np.int64)
    order = np.empty(k, np.int64)
    best = np.empty(k, np.int64)
    low = np.empty(k)
    regret = np.empty(k)
    count = np.empty(size, np.int64)
    f = np.empty(k + 1)
    for m in range(len(beta_max)):
        lo, hi = indptr[m], indptr[m + 1]
        k = hi - lo
        free = own_minimisers(theta, lo, hi, best, low, regret, count)
        for j in range(k):
            labels[lo + j] = best[j] if free < np.inf else 0
        value[m] = np.inf
        if free == np.inf:
            continue
        least = int(np.ceil(truncation[m]))
        top = np.argmax(count)
        need = count[top] - (k - least)
        if k == 1:
            value[m] = np.inf  # one variable is always constant
        elif need <= 0:
            value[m] = free + beta_max[m]
        else:
            group_by_regret(best, regret, k, top, order)
            total = free
            for r in range(need):
                j = order[r]
                total += regret[j]
                if regret[j] < np.inf:
                    labels[lo + j] = second_label(theta[lo + j], top)
            value[m] = total + beta_max[m]
        for l in range(size):
            last = anchored_costs(beta[m, l], beta_max[m], truncation[m], f)
            # f is linear
            if free + min(f[0], f[last]) + least_regret(theta, lo, k, l, low, last) >= value[m]:
                continue
            split(theta, lo, hi, l, stay, move, other)
            base, forced, able = order_moves(stay, move, k, last, order)
            cost, number = best_number(stay, move, order, base, forced, able, f, 0, last)
            if cost < value[m]:
                value[m] = cost
                for j in range(k):
                    labels[lo + j] = l
                for r in range(number):
                    labels[lo + order[r]] = other[order[r]]
        if value[m] == np.inf:
            labels[lo:hi] = 0


@njit(cache=True, nogil=True)
def cheapest_changes(order, n, regret, need, spared):
    """The sum of the `need` smallest regrets of a group without the member `spared`; inf if
    there are too few.
    """
    total, taken = 0.0, 0
    for r in range(n):
        if taken == need:
            break
        if order[r] != spared:
            total += regret[order[r]]
            taken += 1
    return total if taken == need else np.inf


@njit(cache=True, nogil=True)
def unanchored_marginals(theta, lo, k, least, beta_max, best, low, regret, count, free, order, out):
    """Minima with one label fixed over labellings in which no label has fewer than `least`
    deviations.
    """
    size = theta.shape[1]
    for j in range(k):
        for l in range(size):
            if k > 1 and theta[lo + j, l] < np.inf:
                out[lo + j, l] = free - low[j] + theta[lo + j, l] + beta_max
            else:
                out[lo + j, l] = np.inf
    for top in range(size):
        if count[top] + 1 <= k - least:  # fixing one member cannot make this label too frequent
            continue
        n = group_by_regret(best, regret, k, top, order)
        for j in range(k):
            for l in range(size):
                need = count[top] - (best[j] == top) + (l == top) - (k - least)
                if need > 0 and out[lo + j, l] < np.inf:
                    out[lo + j, l] += cheapest_changes(order, n, regret, need, j)


@njit(cache=True, nogil=True)
def min_marginals_robust(theta, indptr, beta, beta_max, truncation, out):
    """Minima with one label fixed, laid out like theta. O(k L Q) at worst."""
    k, size = longest(indptr), theta.shape[1]
    stay = np.empty(k)
    move = np.empty(k)
    other = np.empty(k, np.int64)
    order = np.empty(k, np.int64)
    best = np.empty(k, np.int64)
    low = np.empty(k)
    regret = np.empty(k)
    count = np.empty(size, np.int64)
    f, if_stay, if_move = np.empty(k + 1), np.empty(k), np.empty(k)
    for m in range(len(beta_max)):
        lo, hi = indptr[m], indptr[m + 1]
        k = hi - lo
        free = own_minimisers(theta, lo, hi, best, low, regret, count)
        if free == np.inf:
            out[lo:hi] = np.inf
            continue
        unanchored_marginals(
            theta,
            lo,
            k,
            int(np.ceil(truncation[m])),
            beta_max[m],
            best,
            low,
            regret,
            count,
            free,
            order,
            out,
        )
        for anchor in range(size):
            last = anchored_costs(beta[m, anchor], beta_max[m], truncation[m], f)
            split(theta, lo, hi, anchor, stay, move, other)
            base, forced, able = order_moves(stay, move, k, last, order)
            fixed_choice(stay, move, k, order, base, forced, able, f, 0, last, if_stay, if_move)
            for j in range(k):
                for l in range(size):
                    if l == anchor:
                        out[lo + j, l] = min(out[lo + j, l], if_stay[j])
                    elif if_move[j] < np.inf:
                        out[lo + j, l] = min(
                            out[lo + j, l], if_move[j] - move[j] + theta[lo + j, l]
                        )
