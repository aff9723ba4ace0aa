"""Kernels of the mixture of minimisers: the working set, pairwise steps, Frank-Wolfe steps.

One batch of slaves, each with consecutive dual variables; `Structure`, `Point` and `WorkingSet` are
those of `mixture_state`. Indices are unsigned: these loops wait for memory, and signed indices are
tested for wraparound.
"""

from __future__ import annotations

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic


@intrinsic
def lowest_bit(typingctx, word):
    """The place of the lowest bit that is set."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


@numba.njit(cache=True, nogil=True)
def dual_costs(coords, unary, centre, y, mean, inverse, theta):
    """theta (D,) = unary share + proximal centre + (y - mean) / c; inverse is 1 / c."""
    for d in range(len(coords)):
        c = coords[d]
        theta[d] = unary[c] + (centre[d] + (y[d] - mean[c]) * inverse)


@numba.njit(cache=True, nogil=True)
def costs_of(starts, ones, ind, theta, features, w, total, size):
    """total (M,) -= <theta, ind> + w . features of every slave, size (M,) += |theta| at its ones.

    ones (K,) : where ind (D,) is not 0, ascending.
    """
    for m in range(len(total)):
        for k in range(features.indptr[m], features.indptr[m + 1]):
            total[m] -= w[features.columns[k]] * features.values[k]
    m = 0
    for d in ones:
        while d >= starts[m + 1]:
            m += 1
        total[m] -= theta[d] * ind[d]
        size[m] += abs(theta[d])


@numba.njit(cache=True, nogil=True)
def keep_minimisers(
    structure, working_set, share, rest, ind, ones, features, fixed, rounding, place
):
    """Put the minimisers `ind` (D,) into the working sets, in place of those of no use for longest.

    One that the mixture has a share of goes last, and its features to the `rest`.
    ones (K,) : where ind is not 0, ascending.
    rounding (M,) : differences of fixed costs that mean nothing.
    place (M,) : where each is now; -1 where it is not made of zeros and ones, and so is not kept.
    """
    starts, words = structure.starts, structure.words
    bits, used = working_set.bits, working_set.used
    size, at, widest = used.shape[1], 0, 1
    for m in range(len(starts) - 1):
        widest = max(widest, words[m + 1] - words[m])
    found = np.zeros(widest, np.uint64)
    for m in range(len(starts) - 1):
        first, n_words = words[m], words[m + 1] - words[m]
        for k in range(n_words):
            found[k] = 0
        place[m] = -1
        whole = True
        while at < len(ones) and ones[at] < starts[m + 1]:
            i = ones[at] - starts[m]
            whole &= ind[ones[at]] == 1.0
            found[i >> 6] |= np.uint64(1) << np.uint64(i & 63)
            at += 1
        if not whole:
            continue
        newest, row, cost, error = 0, used[m], fixed[m], rounding[m]
        for j in range(size):
            newest = max(newest, row[j])
        for j in range(size):
            if row[j] == 0 or abs(working_set.fixed[m, j] - cost) > error:
                continue
            same = True
            for k in range(n_words):
                same &= bits[first + k, j] == found[k]
            # variables of one slave alone have no bits
            if same and same_features(working_set, features, m, j):
                place[m] = j
                break
        if place[m] < 0:
            oldest, least = 0, np.inf
            for j in range(size):
                worth = used[m, j] + (1e12 * (1.0 + share[m, j]) if share[m, j] > 0.0 else 0.0)
                if worth < least:
                    oldest, least = j, worth
            place[m] = oldest
            for k in range(n_words):
                bits[first + k, oldest] = found[k]
            if share[m, oldest] > 0.0:
                add_features(rest[m], share[m, oldest], working_set, m, oldest)
            set_features(working_set, features, m, oldest)
            working_set.fixed[m, oldest] = fixed[m]
            share[m, oldest] = 0.0
        used[m, place[m]] = newest + 1


@numba.njit(cache=True, nogil=True, inline="always")
def same_features(working_set, features, m, j):
    """Has minimiser j of slave m the features of row m?"""
    columns, values = working_set.columns[m, j], working_set.values[m, j]
    begin, same = features.indptr[m], True
    n = features.indptr[m + 1] - begin
    for k in range(len(columns)):
        if k < n:
            same &= columns[k] == features.columns[begin + k]
            same &= values[k] == features.values[begin + k]
        else:
            same &= values[k] == 0.0
    return same


@numba.njit(cache=True, nogil=True, inline="always")
def set_features(working_set, features, m, j):
    """Minimiser j of slave m has the features of row m."""
    begin = features.indptr[m]
    n = features.indptr[m + 1] - begin
    for k in range(working_set.columns.shape[2]):
        working_set.columns[m, j, k] = features.columns[begin + k] if k < n else 0
        working_set.values[m, j, k] = features.values[begin + k] if k < n else 0.0


@numba.njit(cache=True, nogil=True, inline="always")
def add_features(out, part, working_set, m, j):
    """out (P,) += part * the features of minimiser j of slave m."""
    for k in range(working_set.columns.shape[2]):
        out[working_set.columns[m, j, k]] += part * working_set.values[m, j, k]


@numba.njit(cache=True, nogil=True, inline="always")
def price_of(w, working_set, m, j):
    """What the clique features of minimiser j of slave m cost."""
    price = 0.0
    for k in range(working_set.columns.shape[2]):
        price += w[working_set.columns[m, j, k]] * working_set.values[m, j, k]
    return price


@numba.njit(cache=True, nogil=True, inline="always")
def extremes(theta, words, working_set, w, share, m):
    """The cheapest minimiser of slave m and its cost; the same of the most expensive one that has
    a share of the mixture; the cost of all shares. Numbers are -1 where there is none.
    """
    bits, used = working_set.bits, working_set.used
    best, low, worst, high, known = -1, np.inf, -1, -np.inf, 0.0
    for j in range(used.shape[1]):
        if used[m, j] > 0:
            cost = working_set.fixed[m, j] + price_of(w, working_set, m, j)
            for k in range(words[m], words[m + 1]):
                word, base = bits[k, j], (k - words[m]) << 6
                while word:
                    cost += theta[base + lowest_bit(word)]
                    word &= word - np.uint64(1)
            if cost < low:
                best, low = j, cost
            if share[m, j] > 0.0:
                known += share[m, j] * cost
                if cost > high:
                    worst, high = j, cost
    return best, low, worst, high, known


@numba.njit(cache=True, nogil=True, inline="always")
def clique_cost(point, working_set, w, m):
    """What the clique features of slave m cost at the point."""
    cost = 0.0
    for j in range(point.share.shape[1]):
        if point.share[m, j] > 0.0:
            cost += point.share[m, j] * price_of(w, working_set, m, j)
    if len(point.rest):
        for p in range(len(w)):
            cost += w[p] * point.rest[m, p]
    return cost


@numba.njit(cache=True, nogil=True, inline="always")
def cost_of(theta, point, working_set, a, size, w, m):
    """What slave m costs at the point, its dual variables beginning at a."""
    cost = point.fixed[m] + clique_cost(point, working_set, w, m)
    for i in range(size):
        if point.y[a + i] != 0.0:  # theta may be inf where it is 0
            cost += theta[i] * point.y[a + i]
    return cost


@numba.njit(cache=True, nogil=True, inline="always")
def add_ones(step, value, words, bits, m, j):
    """step += value where minimiser j of slave m is 1."""
    for k in range(words[m], words[m + 1]):
        word, base = bits[k, j], (k - words[m]) << 6
        while word:
            step[base + lowest_bit(word)] += value
            word &= word - np.uint64(1)


@numba.njit(cache=True, nogil=True, inline="always")
def leave_the_rest(step, structure, working_set, point, rest, m, best):
    """Fill `step` with the direction from the dropped part of the mixture to the cheapest
    minimiser; returns the dropped part's fixed cost.
    """
    words, bits, start = structure.words, working_set.bits, structure.starts[m]
    given = point.fixed[m]
    for j in range(point.share.shape[1]):
        part = point.share[m, j]
        if part > 0.0:
            add_ones(step, part, words, bits, m, j)
            given -= part * working_set.fixed[m, j]
    for i in range(structure.starts[m + 1] - start):
        step[i] = min(step[i] - point.y[start + i], 0.0) / rest
    add_ones(step, 1.0, words, bits, m, best)
    return given / rest


@numba.njit(cache=True, nogil=True)
def pairwise_steps(structure, working_set, point, unary, centre, w, inverse, curvature):
    r"""Slave after slave moves a part of its mixture from the most expensive minimiser that it uses
    to the cheapest one that it knows (pairwise Frank-Wolfe), by a line search.

    With gap g between the two, direction d, the step is g / (|d - mean d|^2 / c + kappa |d|^2),
    at most the share that there is. It is exact in lambda; kappa estimates the curvature in w.

    unary : float (n_coords,), the share of the unary costs of each copy.   inverse : 1 / c.
    curvature : kappa, of a slave with a share of 1.
    Returns the change of the clique features (P,), the change of the proximal dual at fixed
    weights, and the squared length of the joint move, each slave's with its share; and that length
    with squared shares.
    """
    starts, words, coords, weight, part = structure
    bits, used = working_set.bits, working_set.used
    y, mean, dropped, fixed, share = point
    widest = 0
    for m in range(len(fixed)):
        widest = max(widest, starts[m + 1] - starts[m])
    theta, step = np.empty(widest), np.zeros(widest)
    moved_features, change, square, squares = np.zeros(len(w)), 0.0, 0.0, 0.0
    for m in range(len(fixed)):
        a, size, rest = starts[m], starts[m + 1] - starts[m], 1.0
        for j in range(share.shape[1]):
            rest -= share[m, j]
        for i in range(size):
            c = coords[a + i]
            theta[i] = unary[c] + (centre[a + i] + (y[a + i] - mean[c]) * inverse)
        best, low, worst, high, known = extremes(theta, words, working_set, w, share, m)
        if best < 0:
            continue
        if rest > 1e-9 and len(dropped):
            cost = (cost_of(theta, point, working_set, a, size, w, m) - known) / rest
            if cost > high:
                worst, high = -1, cost
        gap = high - low
        if not gap > 1e-12 * inverse:
            continue
        latest = used[m, 0]
        for k in range(1, used.shape[1]):
            latest = max(latest, used[m, k])
        used[m, best] = latest + 1
        spread, length = 0.0, 0.0
        if worst < 0:
            paid = leave_the_rest(step, structure, working_set, point, rest, m, best)
            for i in range(size):
                spread += step[i] * step[i] * (1.0 - weight[coords[a + i]])
                length += step[i] * step[i]
        else:
            paid = working_set.fixed[m, worst]
            for k in range(words[m], words[m + 1]):
                word, base = bits[k, worst] ^ bits[k, best], a + ((k - words[m]) << 6)
                while word:
                    spread += 1.0 - weight[coords[base + lowest_bit(word)]]
                    length += 1.0
                    word &= word - np.uint64(1)
        most, own = share[m, worst] if worst >= 0 else rest, part[m]
        delta = min(most, gap / max(spread * inverse + length * curvature * own, 1e-300))
        change += own * delta * (0.5 * delta * spread * inverse - gap)
        square += own * delta * delta * length
        squares += own * own * delta * delta * length
        move_indicators(structure, bits, y, mean, step, m, worst, best, delta)
        add_features(moved_features, own * delta, working_set, m, best)
        fixed[m] += delta * (working_set.fixed[m, best] - paid)
        share[m, best] += delta
        if worst >= 0:
            add_features(moved_features, -own * delta, working_set, m, worst)
            share[m, worst] = max(share[m, worst] - delta, 0.0)
        else:
            for p in range(len(w)):
                moved_features[p] -= own * delta / rest * dropped[m, p]
                dropped[m, p] *= 1.0 - delta / rest
    return moved_features, change, square, squares


@numba.njit(cache=True, nogil=True, inline="always")
def move_indicators(structure, bits, y, mean, step, m, worst, best, delta):
    """y += delta (best - worst) of slave m, and the means; along `step`, zeroed, if worst is -1."""
    words, coords, weight = structure.words, structure.coords, structure.weight
    a = structure.starts[m]
    if worst < 0:
        for i in range(structure.starts[m + 1] - a):
            if step[i] != 0.0:
                y[a + i] = max(y[a + i] + delta * step[i], 0.0)
                mean[coords[a + i]] += delta * step[i] * weight[coords[a + i]]
                step[i] = 0.0
        return
    for k in range(words[m], words[m + 1]):
        ones, base = bits[k, best], a + ((k - words[m]) << 6)
        word = ones ^ bits[k, worst]
        while word:
            place = lowest_bit(word)
            i, move = base + place, delta if (ones >> place) & np.uint64(1) else -delta
            y[i] = max(y[i] + move, 0.0)
            mean[coords[i]] += move * weight[coords[i]]
            word &= word - np.uint64(1)


@numba.njit(cache=True, nogil=True)
def frank_wolfe_steps(
    structure, working_set, point, place, ind, features, fixed, unary, centre, w, inverse, curvature
):
    """Slave after slave moves towards its newest minimiser (plain Frank-Wolfe), by a line search.

    Arguments and results as in `pairwise_steps`; ind (D,), features (M rows), fixed (M,) : of the
    minimisers.   place (M,) : where each stands in its working set, or -1.
    """
    starts, _, coords, weight, part = structure
    y, mean, dropped, own, share = point
    moved_features, change, square, squares = np.zeros(len(w)), 0.0, 0.0, 0.0
    for m in range(len(own)):
        begin, end = features.indptr[m], features.indptr[m + 1]
        gap, spread, length = own[m] - fixed[m], 0.0, 0.0
        if len(w):
            gap += clique_cost(point, working_set, w, m)
        for k in range(begin, end):
            gap -= w[features.columns[k]] * features.values[k]
        # selections, no branches: which labels move cannot be predicted; theta may be inf elsewhere
        for d in range(np.uint64(starts[m]), np.uint64(starts[m + 1])):
            step, c = ind[d] - y[d], coords[d]
            theta = unary[c] + centre[d] + (y[d] - mean[c]) * inverse
            gap -= theta * step if step != 0.0 else 0.0
            spread += step * step * (1.0 - weight[c])
            length += step * step
        if not gap > 1e-12 * inverse:
            continue
        # without dual variables nothing but the weights bends the dual: their line search decides
        delta = min(1.0, gap / max(spread * inverse + length * curvature * part[m], 1e-300))
        change += part[m] * delta * (0.5 * delta * spread * inverse - gap)
        square += part[m] * delta * delta * length
        squares += part[m] * part[m] * delta * delta * length
        moved = part[m] * delta
        for d in range(np.uint64(starts[m]), np.uint64(starts[m + 1])):
            step = delta * (ind[d] - y[d])
            y[d] += step
            mean[coords[d]] += step * weight[coords[d]]
        own[m] += delta * (fixed[m] - own[m])
        for j in range(share.shape[1] if len(w) else 0):
            if share[m, j] > 0.0:
                add_features(moved_features, -moved * share[m, j], working_set, m, j)
        for j in range(share.shape[1]):
            share[m, j] *= 1.0 - delta
        if len(dropped):
            for p in range(len(w)):
                moved_features[p] -= moved * dropped[m, p]
                dropped[m, p] *= 1.0 - delta
        for k in range(begin, end):
            moved_features[features.columns[k]] += moved * features.values[k]
            if place[m] < 0:
                dropped[m, features.columns[k]] += delta * features.values[k]
        if place[m] >= 0:
            share[m, place[m]] += delta
    return moved_features, change, square, squares


@numba.njit(cache=True, nogil=True)
def move_centre(coords, centre, average, y, mean, inverse, rate):
    """centre += (y - mean) / c, and `average` follows it at `rate`, in place."""
    for d in range(len(coords)):
        centre[d] += (y[d] - mean[coords[d]]) * inverse
        average[d] += rate * (centre[d] - average[d])
        # no denormal numbers: they are a hundred times slower
        y[d] = y[d] if y[d] > 1e-12 else 0.0
