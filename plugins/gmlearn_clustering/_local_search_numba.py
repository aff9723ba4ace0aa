"""Compiled local search for facility location: add, drop and swap moves with incremental gains, and local kicks.

The state of a solution is, per client, its cheapest and second cheapest open exemplar (-1: it is alone), and per
open exemplar the loss of closing it. As in FasterPAM (Schubert and Rousseeuw, 2021) one scan over the clients of a
candidate gives the gain of adding it and of every swap with it. Only candidates whose neighbourhood changed since
they were last looked at are looked at again.
"""

from __future__ import annotations

import numba
import numpy as np

_NOBODY = -1


@numba.njit(cache=True, nogil=True)
def _random_below(state, n):
    """A pseudo-random integer in 0..n-1 (splitmix64)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.int64((z >> np.uint64(11)) % np.uint64(n))


@numba.njit(cache=True, nogil=True)
def _look_up(p, is_open, alone, row_start, row_exemplar, row_cost, near, cost):
    """Find the two cheapest open exemplars of client p; being alone counts as one of them."""
    near[p, 0] = near[p, 1] = _NOBODY
    cost[p, 0] = cost[p, 1] = alone[p]
    found = 0
    for j in range(row_start[p], row_start[p + 1]):
        if is_open[row_exemplar[j]]:
            near[p, found] = row_exemplar[j]
            cost[p, found] = row_cost[j]
            found += 1
            if found == 2:
                return


@numba.njit(cache=True, nogil=True)
def _mark(p, reach, row_start, row_exemplar, row_cost, dirty):
    """Candidates that could serve p for less than `reach` deserve another look."""
    for j in range(row_start[p], row_start[p + 1]):
        if row_cost[j] > reach:
            return
        dirty[row_exemplar[j]] = True


@numba.njit(cache=True, nogil=True)
def _open(x, problem, is_open, near, cost, loss, dirty):
    """Open exemplar x and update its clients."""
    column_start, column_client, column_cost = problem[4]
    is_open[x] = True
    loss[x] = 0.0
    for j in range(column_start[x], column_start[x + 1]):
        p, c = column_client[j], column_cost[j]
        if c >= cost[p, 1]:
            continue
        old = near[p, 0]
        if old >= 0:
            loss[old] -= cost[p, 1] - cost[p, 0]
        if c < cost[p, 0]:
            near[p, 1], cost[p, 1] = old, cost[p, 0]
            near[p, 0], cost[p, 0] = x, c
        else:
            near[p, 1], cost[p, 1] = x, c
        if near[p, 0] >= 0:
            loss[near[p, 0]] += cost[p, 1] - cost[p, 0]
            dirty[near[p, 0]] = True  # its clients have a better second choice now: perhaps it can be dropped


@numba.njit(cache=True, nogil=True)
def _close(m, problem, is_open, near, cost, loss, dirty):
    """Close exemplar m and update its clients."""
    alone = problem[1]
    row_start, row_exemplar, row_cost = problem[3]
    column_start, column_client, _ = problem[4]
    is_open[m] = False
    for j in range(column_start[m], column_start[m + 1]):
        p = column_client[j]
        if near[p, 0] != m and near[p, 1] != m:
            continue
        if near[p, 0] >= 0:
            loss[near[p, 0]] -= cost[p, 1] - cost[p, 0]
        _look_up(p, is_open, alone, row_start, row_exemplar, row_cost, near, cost)
        if near[p, 0] >= 0:
            loss[near[p, 0]] += cost[p, 1] - cost[p, 0]
        _mark(p, cost[p, 0], row_start, row_exemplar, row_cost, dirty)


@numba.njit(cache=True, nogil=True)
def _gain_of(x, problem, near, cost, saved):
    """Gain of opening x; adds to saved[m] what opening x saves on the loss of closing m (last slot: of nobody)."""
    fee = problem[0]
    column_start, column_client, column_cost = problem[4]
    gain = -fee[x]
    for j in range(column_start[x], column_start[x + 1]):  # no branches: they would be hard to predict
        p, c = column_client[j], column_cost[j]
        nearest, second = cost[p, 0], cost[p, 1]
        gain += max(nearest - c, 0.0)
        saved[near[p, 0]] += max(second - max(c, nearest), 0.0)
    return gain


@numba.njit(cache=True, nogil=True)
def _best_partner(x, problem, near, loss, saved):
    """The open exemplar whose closing goes best with opening x, and the gain of closing it; clears `saved`."""
    fee, always = problem[0], problem[2]
    column_start, column_client, _ = problem[4]
    best, partner = -np.inf, _NOBODY
    for j in range(column_start[x], column_start[x + 1]):
        m = near[column_client[j], 0]
        if saved[m] > 0.0:
            gain = fee[m] - loss[m] + saved[m]
            saved[m] = 0.0
            if m >= 0 and not always[m] and (gain > best or (gain == best and m < partner)):
                best, partner = gain, m
    return best, partner


@numba.njit(cache=True, nogil=True)
def _descend(problem, fixed_size, tol, is_open, near, cost, loss, dirty, saved):
    """Take improving moves until no dirty candidate has one; with `fixed_size` only swaps. Tells whether any was taken."""
    fee, always = problem[0], problem[2]
    n = fee.shape[0]
    n_rounds, improved = 0, True
    while improved:
        n_rounds += 1
        improved = False
        for x in range(n):
            if not dirty[x]:
                continue
            dirty[x] = False
            if is_open[x]:
                if not fixed_size and not always[x] and fee[x] - loss[x] > tol:
                    _close(x, problem, is_open, near, cost, loss, dirty)
                    improved = True
                continue
            if not np.isfinite(fee[x]):
                continue
            gain = _gain_of(x, problem, near, cost, saved)
            extra, partner = _best_partner(x, problem, near, loss, saved)
            if partner >= 0 and gain + extra > tol and (fixed_size or extra > 0.0):
                _open(x, problem, is_open, near, cost, loss, dirty)
                _close(partner, problem, is_open, near, cost, loss, dirty)
                improved = True
            elif not fixed_size and gain > tol:
                _open(x, problem, is_open, near, cost, loss, dirty)
                improved = True
    return n_rounds > 1


@numba.njit(cache=True, nogil=True)
def _kick(problem, fixed_size, random, is_open, near, cost, loss, dirty):
    """Near a random point close one or two of its nearest exemplars and open one or two random candidates."""
    fee, always = problem[0], problem[2]
    row_start, row_exemplar, _ = problem[3]
    p = _random_below(random, fee.shape[0])
    nearby = np.empty(3, np.int64)
    n_nearby, reach = 0, row_start[p]
    for j in range(row_start[p], row_start[p + 1]):
        reach = j + 1
        if is_open[row_exemplar[j]]:
            nearby[n_nearby] = row_exemplar[j]
            n_nearby += 1
            if n_nearby == 3:
                break
    width = reach - row_start[p]
    if width == 0:
        return
    n_open = 1 + _random_below(random, 2)
    n_close = n_open if fixed_size else 1 + _random_below(random, 2)
    opened = 0
    for _ in range(n_open):
        x = row_exemplar[row_start[p] + _random_below(random, width)]
        if not is_open[x]:
            _open(x, problem, is_open, near, cost, loss, dirty)
            opened += 1
    if fixed_size:
        n_close = opened
    first = _random_below(random, n_nearby) if n_nearby > 0 else 0
    closed = 0
    for i in range(n_nearby):
        m = nearby[(first + i) % n_nearby]
        if closed < n_close and not always[m]:
            _close(m, problem, is_open, near, cost, loss, dirty)
            closed += 1
    while fixed_size and closed < opened:  # too few exemplars nearby: close any others, so that the number stays
        m = _random_below(random, fee.shape[0])
        if is_open[m] and not always[m]:
            _close(m, problem, is_open, near, cost, loss, dirty)
            closed += 1


@numba.njit(cache=True, nogil=True)
def _total(fee, is_open, cost):
    total = 0.0
    for p in range(fee.shape[0]):
        total += cost[p, 0]
        if is_open[p]:
            total += fee[p]
    return total


@numba.njit(cache=True, nogil=True)
def _start_state(problem, is_open, near, cost, loss):
    """Nearest exemplars and closing losses of a given set."""
    fee, alone = problem[0], problem[1]
    row_start, row_exemplar, row_cost = problem[3]
    loss[:] = 0.0
    for p in range(fee.shape[0]):
        _look_up(p, is_open, alone, row_start, row_exemplar, row_cost, near, cost)
        if near[p, 0] >= 0:
            loss[near[p, 0]] += cost[p, 1] - cost[p, 0]


@numba.njit(cache=True, nogil=True)
def within_reach(row_start, row_exemplar, is_open, n_nearest):
    """Which entries of every (sorted) row come no later than its `n_nearest`-th open exemplar."""
    within = np.zeros(row_exemplar.shape[0], np.bool_)
    for p in range(row_start.shape[0] - 1):
        found, j = 0, row_start[p]
        while j < row_start[p + 1] and found < n_nearest:
            within[j] = True
            found += is_open[row_exemplar[j]]
            j += 1
    return within


@numba.njit(cache=True, nogil=True)
def greedy(fee, alone, always, rows, columns, n_wanted):
    """Open the exemplar of largest gain until none gains, or until `n_wanted` are open (-1: no wish).

    Gains only shrink as exemplars are added, so a stale gain is an upper bound and few are recomputed (lazy greedy).
    """
    problem = (fee, alone, always, rows, columns)
    n = fee.shape[0]
    is_open = always.copy()
    near = np.empty((n, 2), np.int32)
    cost = np.empty((n, 2))
    loss, saved = np.zeros(n), np.zeros(n + 1)
    dirty = np.zeros(n, np.bool_)
    _start_state(problem, is_open, near, cost, loss)
    gains = np.full(n, np.inf)
    for x in range(n):
        if is_open[x] or not np.isfinite(fee[x]):
            gains[x] = -np.inf
    size = is_open.sum()
    while size != n_wanted:
        x = np.argmax(gains)
        if gains[x] == -np.inf or (n_wanted < 0 and gains[x] <= 0.0):
            break
        gain = _gain_of(x, problem, near, cost, saved)
        _best_partner(x, problem, near, loss, saved)
        gains[x] = gain
        if gain >= gains.max() and (n_wanted >= 0 or gain > 0.0):
            _open(x, problem, is_open, near, cost, loss, dirty)
            gains[x] = -np.inf
            size += 1
    return is_open


@numba.njit(cache=True, nogil=True)
def search(fee, alone, always, rows, columns, is_open, n_kicks, fixed_size, thorough, seed):
    """Descend from `is_open` (changed in place), then kick and descend `n_kicks` times, keeping what is no worse.

    With `thorough` every candidate is looked at until none improves. Returns the cost of the final set.
    """
    problem = (fee, alone, always, rows, columns)
    n = fee.shape[0]
    near = np.empty((n, 2), np.int32)
    cost = np.empty((n, 2))
    loss, saved = np.zeros(n), np.zeros(n + 1)
    dirty = np.ones(n, np.bool_)
    random = np.array([seed], dtype=np.uint64)
    _start_state(problem, is_open, near, cost, loss)
    if not fixed_size:  # who is alone is an exemplar; opening it may serve others, too
        for p in range(n):
            if near[p, 0] == _NOBODY and np.isfinite(fee[p]):
                _open(p, problem, is_open, near, cost, loss, dirty)
    tol = 1e-12 * max(1.0, _total(fee, is_open, cost))
    while _descend(problem, fixed_size, tol, is_open, near, cost, loss, dirty, saved) and thorough:
        dirty[:] = True
    best = _total(fee, is_open, cost)
    kept_open, kept_near, kept_cost, kept_loss = is_open.copy(), near.copy(), cost.copy(), loss.copy()
    for _ in range(n_kicks):
        _kick(problem, fixed_size, random, is_open, near, cost, loss, dirty)
        _descend(problem, fixed_size, tol, is_open, near, cost, loss, dirty, saved)
        total = _total(fee, is_open, cost)
        if total <= best + tol:
            best = min(best, total)
            kept_open[:], kept_near[:], kept_cost[:], kept_loss[:] = is_open, near, cost, loss
        else:
            is_open[:], near[:], cost[:], loss[:] = kept_open, kept_near, kept_cost, kept_loss
            dirty[:] = False
    return best
