r"""Sort and scan: each member either stays or moves, and the cost of a clique depends on how many
move.

.. math:: \min_{S} \sum_{i \notin S} stay_i + \sum_{i \in S} move_i + f(|S|)

For a given number of moves the cheapest ones are taken, so that one order of the members serves
every f, convex or not. A member with stay = inf is forced to move; one with move = inf cannot.
"""

import numpy as np
from numba import njit

#: up to this many moves a selection by insertion beats a full sort
FEW = 32


@njit(cache=True, nogil=True)
def order_moves(stay, move, k, most, order):
    """Order the members by move - stay, forced ones first; only the first `most` + 1 places need be
    right.

    Returns the cost without free moves, the number of forced moves, and the number of members that
    can move; the first is inf if some member can neither stay nor move.
    """
    delta = np.empty(k)
    base, forced, able = 0.0, 0, 0
    for i in range(k):
        if stay[i] == np.inf:
            base += move[i]
            delta[i] = -np.inf
            forced += 1
            able += 1
        else:
            base += stay[i]
            delta[i] = move[i] - stay[i]
            able += move[i] < np.inf
    wanted = min(most + 1, k)
    if wanted <= FEW:
        n = 0
        for i in range(k):
            if n == wanted and not delta[i] < delta[order[n - 1]]:
                continue
            n = min(n + 1, wanted)
            j = n - 1
            while j > 0 and delta[order[j - 1]] > delta[i]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = i
    else:
        order[:k] = np.argsort(delta, kind="mergesort")
    return base, forced, able


@njit(cache=True, nogil=True)
def best_number(stay, move, order, base, forced, able, f, start, most):
    """The number of moves (at most `most`) with the lowest cost, and that cost; f(n) = f[start +
    n].
    """
    best, number, total = np.inf, -1, base
    if base == np.inf:
        return best, number
    for n in range(forced, min(able, most) + 1):
        if n > forced:
            i = order[n - 1]
            total += move[i] - stay[i]
        cost = total + f[start + n]
        if cost < best:
            best, number = cost, n
    return best, number


@njit(cache=True, nogil=True)
def fixed_choice(stay, move, k, order, base, forced, able, f, start, most, if_stay, if_move):
    """For every member the minimum if it stays and if it moves. O(k), by prefix and suffix minima
    over the number.

    With r the place of member i in the order: among the n cheapest moves i takes part iff r < n.
    """
    if_stay[:k] = np.inf
    if_move[:k] = np.inf
    top = min(able, most)
    if base == np.inf or forced > top:
        return
    total = np.full(k + 2, np.inf)  # total[n]: the n cheapest moves, without f
    total[forced] = base
    for n in range(forced + 1, min(able, most + 1) + 1):
        total[n] = total[n - 1] + (move[order[n - 1]] - stay[order[n - 1]])
    same_before, less_before = np.full(k + 2, np.inf), np.full(k + 2, np.inf)  # minima over n <= r
    same_after, more_after = np.full(k + 2, np.inf), np.full(k + 2, np.inf)  # minima over n > r
    low_same, low_less = np.inf, np.inf
    for n in range(top + 1):
        if n >= forced:
            low_same = min(low_same, total[n] + f[start + n])
        if n > forced:
            low_less = min(low_less, total[n - 1] + f[start + n])
        same_before[n], less_before[n] = low_same, low_less
    low_same, low_more = np.inf, np.inf
    for n in range(top, -1, -1):
        same_after[n], more_after[n] = low_same, low_more
        if n >= forced:
            low_same = min(low_same, total[n] + f[start + n])
            low_more = min(low_more, total[n + 1] + f[start + n])
    for i in range(k):  # members beyond the ordered places never take part
        if stay[i] < np.inf:
            if_stay[i] = same_before[top]
            if move[i] < np.inf:
                if_move[i] = less_before[top] + (move[i] - stay[i])
    for r in range(min(able, most + 1, k)):
        i = order[r]
        if r < forced:
            if_move[i] = same_before[top]
            continue
        delta, at = move[i] - stay[i], min(r, top)
        if_stay[i] = min(same_before[at], more_after[at] - delta)
        if_move[i] = min(same_after[at], less_before[at] + delta)
