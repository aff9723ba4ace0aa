"""Compiled steps of sequential reweighted message passing: what one set of variables takes from
and gives to its cliques.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def ends_of_cliques(rank, inc_var, inc_clique, first, last):
    """The lowest and the highest rank among the variables of each clique."""
    first[:] = len(rank)
    last[:] = -1
    for j in range(len(inc_var)):
        q, r = inc_clique[j], rank[inc_var[j]]
        first[q], last[q] = min(first[q], r), max(last[q], r)


@njit(cache=True, nogil=True)
def move_variables(
    variables, rank, offsets, inc_ptr, inc_clique, inc_slot, first, last, marginals, theta, costs
):
    """Variables that share no clique collect their cliques' min-marginals, and give a share to the
    cliques that go on.

    marginals (Q, L) : row q belongs to the variable of this set in clique q.   theta : dual costs
    of the cliques; variable j's begin at inc_slot.   costs (n_coords,) : what the variables keep.
    Returns the sum of the variables' minima, taken off.
    """
    bound = 0.0
    for v in variables:
        lo, size = offsets[v], offsets[v + 1] - offsets[v]
        before, after = 0, 0
        for j in range(inc_ptr[v], inc_ptr[v + 1]):
            q, slot = inc_clique[j], inc_slot[j]
            before += first[q] < rank[v]
            after += last[q] > rank[v]
            for a in range(size):
                given = marginals[q, a]
                costs[lo + a] += given
                # a label that a hard clique forbids is out for good: inf - inf must be inf
                theta[slot + a] = theta[slot + a] - given if given < np.inf else np.inf
        low = np.inf
        for a in range(size):
            low = min(low, costs[lo + a])
        if low == np.inf:
            return np.inf
        bound += low
        share = 1.0 / max(before, after, 1)
        keep = 1.0 - share * after
        for j in range(inc_ptr[v], inc_ptr[v + 1]):
            if last[inc_clique[j]] > rank[v]:
                slot = inc_slot[j]
                for a in range(size):
                    theta[slot + a] += share * (costs[lo + a] - low)
        for a in range(size):
            costs[lo + a] = keep * (costs[lo + a] - low) if costs[lo + a] < np.inf else np.inf
    return bound


@njit(cache=True, nogil=True)
def fix_variables(
    variables, offsets, inc_ptr, inc_clique, inc_slot, marginals, theta, costs, labels
):
    """Give variables that share no clique their best labels, and forbid all others in their
    cliques.
    """
    for v in variables:
        lo, size = offsets[v], offsets[v + 1] - offsets[v]
        best, low = 0, np.inf
        for a in range(size):
            cost = costs[lo + a]
            for j in range(inc_ptr[v], inc_ptr[v + 1]):
                cost += marginals[inc_clique[j], a]
            if cost < low:
                best, low = a, cost
        labels[v] = best
        for j in range(inc_ptr[v], inc_ptr[v + 1]):
            for a in range(size):
                if a != best:
                    theta[inc_slot[j] + a] = np.inf
