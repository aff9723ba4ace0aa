"""Compiled local search for facility location: add, drop and swap moves with incremental gains, and
local kicks.

The state of a solution is, per client, its cheapest and second cheapest open exemplar (N: it is
alone) with their places in the client's sorted row, and per open exemplar the loss of closing it.
As in FasterPAM (Schubert and Rousseeuw, 2021) one scan over the clients of a candidate gives the
gain of adding it and of every swap with it. What its best move then lacks to an improvement is
remembered and lowered as exemplars near it close; it is looked at again when nothing is lacking.

Kernels share two tuples. problem : fee, alone, always, rows, columns as in
``FacilityProblem.arrays``. state : is_open (N,); near, cost, place (N, 2), the two choices of every
client; loss (N + 1,); lack (N,); saved (N + 1,), zero between calls; members (N + 1,), the number
of open exemplars and which they are, in any order; slot (N,), where they are in that list. Indices
are unsigned: signed ones are tested for counting from the end, which takes up to half of the time
of an inner loop.
"""

from __future__ import annotations

import numba
import numpy as np

#: how much worse than the best a solution may be to be kicked further, just after an improvement
_WORSE = 2e-3


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
def _first_open(j, end, row_exemplar, is_open):
    """The first entry j, j + 1, ... of a row whose exemplar is open, or `end`."""
    while j < end and not is_open[row_exemplar[j]]:
        j += 1
    return j


@numba.njit(cache=True, nogil=True)
def _open(x, problem, state):
    """Open exemplar x and update its clients.

    Places decide, not costs: they also order exemplars of equal cost.
    """
    column_start, column_client, column_cost, column_place = problem[4]
    is_open, near, cost, place, loss, _, _, members, slot = state
    is_open[x] = True
    loss[x] = 0.0
    members[0] += 1
    slot[x] = members[0]
    members[slot[x]] = x
    for j in range(column_start[x], column_start[x + 1]):
        p = column_client[j]
        if column_place[j] >= place[p, 1]:
            continue
        nearest, i = near[p, 0], 1
        loss[nearest] -= cost[p, 1] - cost[p, 0]
        if column_place[j] < place[p, 0]:
            near[p, 1], cost[p, 1], place[p, 1] = nearest, cost[p, 0], place[p, 0]
            i = 0
        near[p, i], cost[p, i], place[p, i] = x, column_cost[j], column_place[j]
        loss[near[p, 0]] += cost[p, 1] - cost[p, 0]


@numba.njit(cache=True, nogil=True)
def _close(m, problem, state):
    """Close exemplar m and update its clients.

    A client that loses its nearest exemplar falls back on its second, and every candidate that is
    nearer still gains by the difference. Losing the second makes no candidate better: the loss of
    closing the nearest grows as much as what any candidate saves of it, or more.
    """
    alone, nobody = problem[1], len(problem[1])
    row_start, row_exemplar, row_cost = problem[3]
    column_start, column_client, _, _ = problem[4]
    is_open, near, cost, place, loss, lack, _, members, slot = state
    is_open[m] = False
    last = members[members[0]]
    members[slot[m]], slot[last] = last, slot[m]
    members[0] -= 1
    lack[m] = -np.inf
    for j in range(column_start[m], column_start[m + 1]):
        p = column_client[j]
        if near[p, 0] == m:
            before, now = cost[p, 0], cost[p, 1]
            near[p, 0], cost[p, 0], place[p, 0] = near[p, 1], now, place[p, 1]
            for i in range(row_start[p], row_start[p] + place[p, 0]):
                lack[row_exemplar[i]] -= now - max(row_cost[i], before)
        elif near[p, 1] == m:
            loss[near[p, 0]] -= cost[p, 1] - cost[p, 0]
        else:
            continue
        if near[p, 0] != nobody:
            end = row_start[p + 1]
            i = _first_open(row_start[p] + place[p, 1] + 1, end, row_exemplar, is_open)
            place[p, 1] = i - row_start[p]
            near[p, 1], cost[p, 1] = (
                (row_exemplar[i], row_cost[i]) if i < end else (nobody, alone[p])
            )
            loss[near[p, 0]] += cost[p, 1] - cost[p, 0]


@numba.njit(cache=True, nogil=True)
def _gain_of(x, problem, state):
    """Gain of opening x; adds to saved[m] what opening x saves on the loss of closing m (last slot:
    of nobody).

    The innermost loop of the search, without branches, which would be hard to predict.
    """
    column_start, column_client, column_cost, _ = problem[4]
    _, near, cost, _, _, _, saved, _, _ = state
    gain = -problem[0][x]
    for j in range(column_start[x], column_start[x + 1]):
        p, c = column_client[j], column_cost[j]
        nearest, second = cost[p, 0], cost[p, 1]
        gain += max(nearest - c, 0.0)
        saved[near[p, 0]] += max(second - max(c, nearest), 0.0)
    return gain


@numba.njit(cache=True, nogil=True)
def _best_partner(problem, fixed_size, state):
    """The open exemplar whose closing goes best with opening the candidate just evaluated, and
    its gain; clears `saved`.

    With `fixed_size` any will do; else one that is far from the candidate is closed by itself.
    """
    fee, always = problem[0], problem[2]
    _, _, _, _, loss, _, saved, members, _ = state
    best, partner = -np.inf, -1
    for i in range(1, members[0] + 1):
        m = members[i]
        if (fixed_size or saved[m] > 0.0) and not always[m]:
            gain = fee[m] - loss[m] + saved[m]
            if gain > best or (gain == best and m < partner):
                best, partner = gain, m
        saved[m] = 0.0
    return best, partner


@numba.njit(cache=True, nogil=True)
def _descend(candidates, problem, fixed_size, tol, state):
    """Take improving moves until no candidate promises one; with `fixed_size` only swaps. Tells
    whether any was taken.
    """
    fee, always = problem[0], problem[2]
    is_open, _, _, _, loss, lack, _, _, _ = state
    n_rounds, improved = 0, True
    while improved:
        n_rounds += 1
        improved = False
        for x in candidates:
            if is_open[x]:
                if not fixed_size and not always[x] and fee[x] - loss[x] > tol:
                    _close(x, problem, state)
                    improved = True
                continue
            if lack[x] >= -tol:
                continue
            gain = _gain_of(x, problem, state)
            extra, partner = _best_partner(problem, fixed_size, state)
            if partner >= 0 and gain + extra > tol and (fixed_size or extra > 0.0):
                _open(x, problem, state)
                _close(partner, problem, state)
                improved = True
            elif not fixed_size and gain > tol:
                _open(x, problem, state)
                improved = True
            else:
                lack[x] = -(gain + extra) if fixed_size else -(gain + max(extra, 0.0))
    return n_rounds > 1


@numba.njit(cache=True, nogil=True)
def _kick(problem, fixed_size, random, state):
    """Near a random point close one or two of its nearest exemplars and open one or two random
    candidates.
    """
    fee, always = problem[0], problem[2]
    row_start, row_exemplar, _ = problem[3]
    is_open = state[0]
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
            _open(x, problem, state)
            opened += 1
    if fixed_size:
        n_close = opened
    first = _random_below(random, n_nearby) if n_nearby > 0 else 0
    closed = 0
    for i in range(n_nearby):
        m = nearby[(first + i) % n_nearby]
        if closed < n_close and not always[m]:
            _close(m, problem, state)
            closed += 1
    # too few exemplars nearby: close any others, so that the number stays
    n_free, members = 0, state[7]
    if fixed_size and closed < opened:
        for i in range(1, members[0] + 1):
            n_free += not always[members[i]]
    while fixed_size and closed < opened and n_free > 0:
        m = _random_below(random, fee.shape[0])
        if is_open[m] and not always[m]:
            _close(m, problem, state)
            closed += 1
            n_free -= 1


@numba.njit(cache=True, nogil=True)
def _total(fee, is_open, cost):
    total = 0.0
    for p in range(fee.shape[0]):
        total += cost[p, 0]
        if is_open[p]:
            total += fee[p]
    return total


@numba.njit(cache=True, nogil=True)
def _list_members(is_open, members, slot):
    """Fill the list of open exemplars and their places in it."""
    members[0] = 0
    for x in range(is_open.shape[0]):
        if is_open[x]:
            members[0] += 1
            members[members[0]], slot[x] = x, members[0]


@numba.njit(cache=True, nogil=True)
def _state_of(is_open, problem):
    """The state of a given set of exemplars; every candidate deserves a look."""
    n, alone = is_open.shape[0], problem[1]
    row_start, row_exemplar, row_cost = problem[3]
    near, cost, place = np.empty((n, 2), np.uint32), np.empty((n, 2)), np.empty((n, 2), np.uint32)
    loss, members, slot = np.zeros(n + 1), np.zeros(n + 1, np.uint32), np.zeros(n, np.uint32)
    _list_members(is_open, members, slot)
    for p in range(n):
        j, end = row_start[p], row_start[p + 1]
        for i in range(2):
            j = _first_open(j, end, row_exemplar, is_open)
            place[p, i] = j - row_start[p]
            near[p, i], cost[p, i] = (row_exemplar[j], row_cost[j]) if j < end else (n, alone[p])
            j = min(j + 1, end)
        loss[near[p, 0]] += cost[p, 1] - cost[p, 0]
    return is_open, near, cost, place, loss, np.full(n, -np.inf), np.zeros(n + 1), members, slot


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
def _gain_of_adding(x, problem, cost):
    """What opening x gains, nothing being closed."""
    column_start, column_client, column_cost, _ = problem[4]
    gain = -problem[0][x]
    for j in range(column_start[x], column_start[x + 1]):
        gain += max(cost[column_client[j], 0] - column_cost[j], 0.0)
    return gain


@numba.njit(cache=True, nogil=True)
def greedy(fee, alone, always, rows, columns, n_wanted):
    """Open the exemplar of largest gain until none gains, or until `n_wanted` are open (-1: no
    wish).

    Gains only shrink as exemplars are added, so a stale gain is an upper bound and few are
    recomputed (lazy greedy).
    """
    problem = (fee, alone, always, rows, columns)
    is_open = always.copy()
    state = _state_of(is_open, problem)
    cost = state[2]
    gains = np.full(fee.shape[0], -np.inf)
    for x in range(fee.shape[0]):
        if not is_open[x] and np.isfinite(fee[x]):
            gains[x] = _gain_of_adding(x, problem, cost)
    size, fresh = is_open.sum(), -1
    while size != n_wanted:
        x = int(np.argmax(gains))
        if gains[x] == -np.inf or (n_wanted < 0 and gains[x] <= 0.0):
            break
        if x == fresh:  # the largest even after its recomputation
            _open(x, problem, state)
            gains[x] = -np.inf
            size += 1
        else:
            gains[x] = _gain_of_adding(x, problem, cost)
            fresh = x
    return is_open


@numba.njit(cache=True, nogil=True)
def shrink(fee, alone, always, rows, columns, is_open, n_wanted):
    """Close the exemplar of `is_open` (changed in place) whose closing costs least until
    `n_wanted` are left, or those that are always open.
    """
    problem = (fee, alone, always, rows, columns)
    state = _state_of(is_open, problem)
    loss = state[4]
    for _ in range(is_open.sum() - n_wanted):
        best, cheapest = -1, np.inf
        for m in range(fee.shape[0]):
            if is_open[m] and not always[m] and loss[m] - fee[m] < cheapest:
                best, cheapest = m, loss[m] - fee[m]
        if best < 0:
            break
        _close(best, problem, state)


@numba.njit(cache=True, nogil=True)
def search(
    fee, alone, always, rows, columns, is_open, n_kicks, patience, fixed_size, thorough, seed
):
    """Descend from `is_open` (changed in place), then kick and descend up to `n_kicks` times; the
    best set is kept.

    A solution goes on to the next kick if it is no worse than the one before, or a little worse
    than the best; how much shrinks as the number of kicks in vain, which ends the search, comes
    near `patience`. With `thorough` every candidate is looked at until none improves. Returns the
    cost of the final set.
    """
    problem = (fee, alone, always, rows, columns)
    candidates = np.flatnonzero(np.isfinite(fee))
    random = np.array([seed], dtype=np.uint64)
    state = _state_of(is_open, problem)
    _, near, cost, place, loss, lack, _, members, slot = state
    if not fixed_size:  # who is alone is an exemplar; opening it may serve others, too
        for p in candidates:
            if near[p, 0] == len(fee):
                _open(p, problem, state)
    tol = 1e-12 * max(1.0, _total(fee, is_open, cost))
    while _descend(candidates, problem, fixed_size, tol, state) and thorough:
        lack[:] = -np.inf
    best = now = _total(fee, is_open, cost)
    record = is_open.copy()
    kept = is_open.copy(), near.copy(), cost.copy(), place.copy(), loss.copy(), lack.copy()
    in_vain, worse = 0, _WORSE * best
    for _ in range(n_kicks):
        if in_vain == patience:
            break
        in_vain += 1
        _kick(problem, fixed_size, random, state)
        _descend(candidates, problem, fixed_size, tol, state)
        total = _total(fee, is_open, cost)
        if total < best - tol:
            in_vain, best = 0, total
            record[:] = is_open
        if total <= now + tol or total <= best + worse * (1.0 - in_vain / patience):
            now = total
            kept[0][:] = is_open
            kept[1][:] = near
            kept[2][:] = cost
            kept[3][:] = place
            kept[4][:] = loss
            kept[5][:] = lack
        else:
            is_open[:], near[:], cost[:], place[:], loss[:], lack[:] = kept
            _list_members(is_open, members, slot)
    is_open[:] = record
    return best
