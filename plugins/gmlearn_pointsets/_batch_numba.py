"""Compiled loops over pairs (image, centre): the soft sweep of the annealing, the hard distance,
the choice of starts. The arrays of the pairs come as the named tuples of `state`.
"""

from __future__ import annotations

import numba
import numpy as np

from ._match_numba import fit_soft, hard_alternation, squared_distances
from ._sinkhorn_numba import FASTMATH, FREE, softassign_pair

#: ranking takes an unmatched point for at least this share of the set's mean squared radius, and
#: the first steps of the alternation for at least that: a low price sees only its own surroundings
RANK_SHARE, FIRST_SHARE, FIRST_STEPS = 0.2, 0.1, 3


@numba.njit(cache=True, nogil=True)
def set_targets(n, m, outlier_cost, row_target, col_target):
    """The compiled twin of `sinkhorn.slack_targets`; returns the numbers of rows and columns
    with slack.
    """
    row_target[:n], col_target[:m] = 1.0, 1.0
    if outlier_cost < np.inf:
        row_target[n], col_target[m] = FREE, FREE
        return n + 1, m + 1
    if n > m:
        col_target[m] = n - m
        return n, m + 1
    if m > n:
        row_target[n] = m - n
        return n + 1, m
    return n, m


@numba.njit(cache=True, nogil=True, fastmath=FASTMATH)
def soft_sweep(pairs, beta, outlier_cost, free, state, tol, max_iter):
    """One step of softassign, then of the closed-form motion, for the pairs (image[p], centre[p])
    at inverse temperatures beta[p]; the `SoftState` is brought along.

    O(J K) a pair and Sinkhorn sweep. Returns the Sinkhorn sweeps in total.
    """
    x, y = pairs.x, pairs.y
    rows, cols, D = x.shape[1] + 1, y.shape[1] + 1, x.shape[2]
    cost, plan, moved = np.empty((rows, cols)), np.empty((rows, cols)), np.empty((cols, D))
    u, v, column_sum = np.empty(rows), np.empty(cols), np.empty(cols)
    row_target, col_target = np.empty(rows), np.empty(cols)
    x_sum, y_sum, back, cross = np.empty(D), np.empty(D), np.empty(D), np.empty((D, D))
    R, t, s, row_dual, col_dual, distance, free_energy, pull, pull_weight = state
    total_sweeps = 0
    for p in range(len(pairs.image)):
        i, a = pairs.image[p], pairs.centre[p]
        n, m = pairs.x_size[i], pairs.y_size[a]
        n_rows, n_cols = set_targets(n, m, outlier_cost, row_target, col_target)
        if n_rows > n:
            cost[n, :n_cols] = 0.0 if outlier_cost == np.inf else outlier_cost
        if n_cols > m:
            cost[:n_rows, m] = 0.0 if outlier_cost == np.inf else outlier_cost
        if n_rows > n and n_cols > m:
            cost[n, m] = np.inf
        squared_distances(x[i], n, y[a], m, R[i, a], t[i, a], s[i, a], moved, cost)
        total_sweeps += softassign_pair(
            cost,
            n_rows,
            n_cols,
            beta[p],
            row_dual[i, a],
            col_dual[i, a],
            row_target,
            col_target,
            plan,
            u,
            v,
            column_sum,
            tol,
            max_iter,
        )
        slack = entropy = 0.0
        for j in range(n_rows):
            for k in range(n_cols):
                mass = plan[j, k]
                if mass > 0:
                    entropy += mass * (
                        -beta[p] * (cost[j, k] - row_dual[i, a, j] - col_dual[i, a, k]) - 1.0
                    )
                    if j == n or k == m:
                        slack += mass * cost[j, k]
        s[i, a], residual = fit_soft(
            plan, x[i], n, y[a], m, free, R[i, a], t[i, a], s[i, a], x_sum, y_sum, back, cross
        )
        distance[i, a] = residual + slack
        free_energy[i, a] = residual + slack + entropy / beta[p]
        _add_pull(plan, x[i], n, m, R[i, a], t[i, a], s[i, a], pull[i, a], pull_weight[i, a], back)
    return total_sweeps


@numba.njit(cache=True, nogil=True, fastmath=FASTMATH)
def _add_pull(plan, x, n, m, R, t, s, pull, pull_weight, back):
    """Where this pair would put the centre's points, in the centre's own frame."""
    D = x.shape[1]
    pull[:m], pull_weight[:m] = 0.0, 0.0
    for j in range(n):
        back[:] = 0.0
        for e in range(D):
            for d in range(D):
                back[e] += s * R[d, e] * (x[j, d] - t[d])
        for k in range(m):
            pull_weight[k] += plan[j, k] * s * s
            for e in range(D):
                pull[k, e] += plan[j, k] * back[e]


@numba.njit(cache=True, nogil=True, fastmath=FASTMATH)
def nearest_sum(x, n, y, m, R, s, outlier_cost, moved, nearest):
    """How badly a start fits (t = 0): every point of either set to its nearest.

    One side alone would not do: if its points share one nearest, centred sets give the same sum for
    every rotation, and rounding would choose among the starts.
    """
    D = x.shape[1]
    for k in range(m):
        nearest[k] = np.inf
        for d in range(D):
            moved[k, d] = 0.0
            for e in range(D):
                moved[k, d] += s * R[d, e] * y[k, e]
    x_total = y_total = 0.0
    limit = 2 * outlier_cost
    for j in range(n):
        low = limit
        for k in range(m):
            total = 0.0
            for d in range(D):
                difference = x[j, d] - moved[k, d]
                total += difference * difference
            low = min(low, total)
            nearest[k] = min(nearest[k], total)
        x_total += low
    for k in range(m):
        y_total += min(nearest[k], limit)
    return x_total + y_total


@numba.njit(cache=True, nogil=True)
def mean_square(x, n):
    """Mean squared length of the first n points."""
    total = 0.0
    for j in range(n):
        for d in range(x.shape[1]):
            total += x[j, d] * x[j, d]
    return total / n


@numba.njit(cache=True, nogil=True)
def rank_starts(pairs, x_frame, y_frame, turns, s0, outlier_cost, starts):
    """The most promising start rotations x_frame G y_frame' of every pair, best first: starts
    (P, B, D, D).
    """
    x, x_size, y, y_size, image, centre = pairs
    D, n_turns, n_best = x.shape[2], turns.shape[0], starts.shape[1]
    moved, nearest = np.empty((y.shape[1], D)), np.empty(y.shape[1])
    score, candidates = np.empty(n_turns), np.empty((n_turns, D, D))
    for p in range(len(image)):
        i, a = image[p], centre[p]
        price = max(outlier_cost, RANK_SHARE * mean_square(x[i], x_size[i]))
        for g in range(n_turns):
            for d in range(D):
                for e in range(D):
                    total = 0.0
                    for b in range(D):
                        for c in range(D):
                            total += x_frame[i, d, b] * turns[g, b, c] * y_frame[a, e, c]
                    candidates[g, d, e] = total
            score[g] = nearest_sum(
                x[i],
                x_size[i],
                y[a],
                y_size[a],
                candidates[g],
                s0[i, a],
                price,
                moved,
                nearest,
            )
        order = np.argsort(score, kind="mergesort")
        for b in range(n_best):
            starts[p, b] = candidates[order[b]]


@numba.njit(cache=True, nogil=True)
def hard_from_starts(pairs, outlier_cost, free, starts, t0, s0, found, max_iter, from_afar):
    """Best hard match over the starts (P, B, D, D) of every pair, into the `HardState` `found`.

    With `from_afar` the first steps of each start see outliers at a higher price.
    """
    x, x_size, y, y_size, image, centre = pairs
    R, t, s, partner, distance = found
    D = x.shape[2]
    for p in range(len(image)):
        i, a = image[p], centre[p]
        distance[p] = np.inf
        first = max(outlier_cost, FIRST_SHARE * mean_square(x[i], x_size[i]))
        trial_R = np.empty((D, D))
        trial_t = np.empty(D)
        trial_partner = np.empty(x.shape[1], np.int64)
        for b in range(starts.shape[1]):
            trial_R[:] = starts[p, b]
            trial_t[:] = t0[p, b]
            trial_s = s0[p, b]
            if from_afar and first > outlier_cost:
                trial_s, _ = hard_alternation(
                    x[i],
                    x_size[i],
                    y[a],
                    y_size[a],
                    first,
                    free,
                    trial_R,
                    trial_t,
                    trial_s,
                    trial_partner,
                    FIRST_STEPS,
                )
            trial_s, value = hard_alternation(
                x[i],
                x_size[i],
                y[a],
                y_size[a],
                outlier_cost,
                free,
                trial_R,
                trial_t,
                trial_s,
                trial_partner,
                max_iter,
            )
            # a later start must win clearly, so that rounding does not decide between equal ones
            if value < distance[p] * (1 - 1e-12):
                distance[p], s[p] = value, trial_s
                R[p], t[p] = trial_R, trial_t
                partner[p, : x_size[i]] = trial_partner[: x_size[i]]
                partner[p, x_size[i] :] = -1
