"""Compiled slaves of pattern cliques, theta (M, k, L), patterns (P, k) in lexicographic order."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def best_unlisted(theta, patterns, prefix, member, label, choice):
    """The best labelling that is no pattern, with x[member] = label unless member < 0; written to
    `choice`.

    It follows some pattern for t members, then takes a label that no pattern with this beginning
    has, then is free: the minimum over the nodes of the tree of patterns, whose nodes of depth t
    are runs of patterns with t equal labels.
    """
    k, size = theta.shape
    n = len(patterns)
    suffix = np.zeros(k + 1)
    for i in range(k - 1, -1, -1):
        suffix[i] = suffix[i + 1] + (theta[i, label] if i == member else theta[i].min())
    taken = np.zeros(size, np.int64)
    head, stamp = np.zeros(n), 0
    best = np.inf
    at = 0
    depth = 0
    leave = 0
    for t in range(k):
        p = 0
        while p < n:
            end = p + 1
            while end < n and prefix[end] >= t:
                end += 1
            stamp += 1
            for q in range(p, end):
                taken[patterns[q, t]] = stamp
            for l in range(size):
                if taken[l] != stamp and (t != member or l == label):
                    cost = head[p] + theta[t, l] + suffix[t + 1]
                    if cost < best:
                        best, at, depth, leave = cost, p, t, l
            p = end
        for q in range(n):
            allowed = t != member or patterns[q, t] == label
            head[q] += theta[t, patterns[q, t]] if allowed else np.inf
    if best < np.inf:
        for i in range(k):
            choice[i] = (
                patterns[at, i] if i < depth else (label if i == member else np.argmin(theta[i]))
            )
        choice[depth] = leave
    return best


@njit(cache=True, nogil=True)
def pattern_cost(theta, pattern):
    """sum_i theta_i of one pattern."""
    total = 0.0
    for i in range(len(pattern)):
        total += theta[i, pattern[i]]
    return total


@njit(cache=True, nogil=True)
def minimise_patterns(theta, patterns, prefix, psi, psi_max, labels, value):
    """min over x of sum_i theta_i(x_i) + h(x) for every clique; a pattern wins a tie."""
    k = theta.shape[1]
    choice = np.zeros(k, np.int64)
    for m in range(len(psi_max)):
        best, which = np.inf, -1
        for p in range(len(patterns)):
            cost = pattern_cost(theta[m], patterns[p]) + psi[m, p]
            if cost < best:
                best, which = cost, p
        free = psi_max[m]
        for i in range(k):
            choice[i] = np.argmin(theta[m, i])
            free += theta[m, i, choice[i]]
        if free < best:
            for p in range(len(patterns)):
                if (patterns[p] == choice).all():
                    free = best_unlisted(theta[m], patterns, prefix, -1, 0, choice) + psi_max[m]
                    break
        if free < best:
            labels[m], value[m] = choice, free
        elif which >= 0:
            labels[m], value[m] = patterns[which], best
        else:
            labels[m], value[m] = 0, np.inf


@njit(cache=True, nogil=True)
def min_marginals_patterns(theta, patterns, prefix, psi, psi_max, out):
    """Minima with one label fixed, laid out like theta.

    Unlisted labellings: the members' own minimisers with one label changed, unless that is a
    pattern; only then a search.
    """
    k, size = theta.shape[1], theta.shape[2]
    choice, own = np.zeros(k, np.int64), np.zeros(k, np.int64)
    for m in range(len(psi_max)):
        free = 0.0
        for i in range(k):
            own[i] = np.argmin(theta[m, i])
            free += theta[m, i, own[i]]
        for i in range(k):
            for l in range(size):
                reachable = free < np.inf and theta[m, i, l] < np.inf
                out[m, i, l] = (
                    free - theta[m, i, own[i]] + theta[m, i, l] + psi_max[m]
                    if reachable
                    else np.inf
                )
        for p in range(len(patterns)):
            differ, where = 0, -1
            for i in range(k):
                if patterns[p, i] != own[i]:
                    differ, where = differ + 1, i
            for i in range(k):  # the minimiser with x_i = p_i is this pattern
                l = patterns[p, i]
                if (differ == 0 or (differ == 1 and where == i)) and out[m, i, l] < np.inf:
                    out[m, i, l] = (
                        best_unlisted(theta[m], patterns, prefix, i, l, choice) + psi_max[m]
                    )
        for p in range(len(patterns)):
            cost = pattern_cost(theta[m], patterns[p]) + psi[m, p]
            for i in range(k):
                out[m, i, patterns[p, i]] = min(out[m, i, patterns[p, i]], cost)
