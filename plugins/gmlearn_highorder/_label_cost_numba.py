"""Compiled slaves of label costs, theta (S, L): subsets of labels as bit masks."""

import numpy as np
from numba import njit

from gmlearn_highorder._cardinality_numba import longest


@njit(cache=True, nogil=True)
def cheapest_subset(theta, lo, hi, cost, minima, bound):
    """The subset of labels to open, for costs >= 0, and its value: depth first, label by label.

    `minima[d]` holds the members' best costs within the open labels of the current branch, d of
    them; `bound`, the sum of the members' minima over all labels, prunes a branch as soon as its
    labels alone cost too much.
    """
    size, k = theta.shape[1], hi - lo
    stack = np.empty(size + 1, np.int64)  # open labels, ascending
    paid = np.zeros(size + 1)
    minima[0, :k] = np.inf
    best = np.inf
    chosen = 0
    depth = 0
    label = 0
    mask = 0
    while True:
        if label < size and paid[depth] + cost[label] + bound < best:
            total = 0.0
            for i in range(k):
                t = theta[lo + i, label]
                low = minima[depth, i]
                low = t if t < low else low
                minima[depth + 1, i] = low
                total += low
            stack[depth] = label
            depth += 1
            mask |= 1 << label
            paid[depth] = paid[depth - 1] + cost[label]
            if total + paid[depth] < best:
                best, chosen = total + paid[depth], mask
        elif label >= size:
            if depth == 0:
                return best, chosen
            depth -= 1
            label = stack[depth]
            mask ^= 1 << label
        label += 1


@njit(cache=True, nogil=True)
def set_costs(cost, paid):
    """paid[mask]: the sum of the costs of the labels in the mask."""
    paid[0] = 0.0
    for l in range(len(cost)):
        for mask in range(1 << l):
            paid[mask | 1 << l] = paid[mask] + cost[l]


@njit(cache=True, nogil=True)
def rest_values(theta, lo, hi, paid, ahead):
    """ahead[i, mask]: the best value of members i..

    if the labels in `mask` are used already, costs paid at the end.
    """
    size, k = theta.shape[1], hi - lo
    n = 1 << size
    ahead[k, :n] = paid[:n]
    for i in range(k - 1, -1, -1):
        for mask in range(n):
            best = np.inf
            for l in range(size):
                best = min(best, theta[lo + i, l] + ahead[i + 1, mask | 1 << l])
            ahead[i, mask] = best


@njit(cache=True, nogil=True)
def minimise_label_costs(theta, indptr, cost, labels, value):
    """min over x of sum_i theta_i(x_i) + sum of the costs of the labels used, for every clique;
    low labels win ties.
    """
    size, k = theta.shape[1], longest(indptr)
    minima = np.empty((size + 1, k))
    any_negative = False
    for m in range(len(value)):
        for l in range(size):
            any_negative |= cost[m, l] < 0
    paid = np.empty(1 << size if any_negative else 1)
    ahead = np.empty((k + 1, 1 << size) if any_negative else (1, 1))
    for m in range(len(value)):
        lo, hi = indptr[m], indptr[m + 1]
        if (cost[m, :size] < 0).any():
            set_costs(cost[m, :size], paid)
            rest_values(theta, lo, hi, paid, ahead)
            value[m] = ahead[0, 0]
            mask = 0
            for i in range(lo, hi):
                best, low = 0, np.inf
                for l in range(size):
                    total = theta[i, l] + ahead[i - lo + 1, mask | 1 << l]
                    if total < low:
                        best, low = l, total
                labels[i] = best
                mask |= 1 << best
        else:
            bound = 0.0
            for i in range(lo, hi):
                bound += theta[i].min()
            value[m], chosen = cheapest_subset(theta, lo, hi, cost[m, :size], minima, bound)
            for i in range(lo, hi):
                best, low = 0, np.inf
                for l in range(size):
                    if chosen >> l & 1 and theta[i, l] < low:
                        best, low = l, theta[i, l]
                labels[i] = best


@njit(cache=True, nogil=True)
def min_marginals_label_costs(theta, indptr, cost, out):
    """Minima with one label fixed, laid out like theta: the values behind and ahead of each
    member meet. O(k L 2^L).
    """
    size, k = theta.shape[1], longest(indptr)
    n = 1 << size
    paid, behind, next_behind = np.empty(n), np.empty(n), np.empty(n)
    ahead = np.empty((k + 1, n))
    for m in range(len(indptr) - 1):
        lo, hi = indptr[m], indptr[m + 1]
        set_costs(cost[m, :size], paid)
        rest_values(theta, lo, hi, paid, ahead)
        behind[:] = np.inf
        behind[0] = 0.0
        for i in range(lo, hi):
            next_behind[:] = np.inf
            for l in range(size):
                low = np.inf
                for mask in range(n):
                    so_far = behind[mask] + theta[i, l]
                    new = mask | 1 << l
                    low = min(low, so_far + ahead[i - lo + 1, new])
                    next_behind[new] = min(next_behind[new], so_far)
                out[i, l] = low
            behind[:] = next_behind
