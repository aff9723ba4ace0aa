"""Kernels over planes: the minimisers that the slaves of one sample have shown before, and how much of the mixture is on each.

starts : int (M + 1,), where the dual variables of each slave begin.   words : int (M + 1,), where the words of its bits begin.
bits : uint64 (words[-1], C), the indicators of each plane, 64 to a word.   plane_features : float32 (M, C, P).
plane_fixed : (M, C).   used : int32 (M, C), when a plane was last the best one, 0 if there is none.
alpha : (M, C), shares of the mixture. What is missing to 1 is the rest: shares of planes that had to go, known as a sum only.
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
def keep_planes(
    starts, words, ind, features, fixed, bits, plane_features, plane_fixed, used, alpha
):
    """Put the minimisers `ind` (D,) of all slaves among their planes, in place of those that were of no use for longest.

    A plane with a share of the mixture goes last, and leaves its share to the rest. False, with nothing done for the slaves that
    follow, if a minimiser is not made of zeros and ones.
    """
    n_planes = used.shape[1]
    for m in range(len(starts) - 1):
        first, n_words = words[m], words[m + 1] - words[m]
        found = np.zeros(n_words, np.uint64)
        for i in range(starts[m + 1] - starts[m]):
            value = ind[starts[m] + i]
            if value == 1.0:
                found[i >> 6] |= np.uint64(1) << np.uint64(i & 63)
            elif value != 0.0:
                return False
        place, newest, oldest, least = -1, 0, 0, np.inf
        for j in range(n_planes):
            newest = max(newest, used[m, j])
            worth = used[m, j] + (1e12 * (1.0 + alpha[m, j]) if alpha[m, j] > 0.0 else 0.0)
            if worth < least:
                oldest, least = j, worth
            if used[m, j] == 0 or abs(plane_fixed[m, j] - fixed[m]) > 1e-6:
                continue
            same = True
            for k in range(n_words):
                same &= bits[first + k, j] == found[k]
            place = j if same else place
        if place < 0:
            place = oldest
            bits[first : first + n_words, place] = found
            for p in range(features.shape[1]):
                plane_features[m, place, p] = features[m, p]
            plane_fixed[m, place], alpha[m, place] = fixed[m], 0.0
        used[m, place] = newest + 1
    return True


@numba.njit(cache=True, nogil=True, inline="always")
def add_ones(step, value, words, bits, m, plane):
    """step += value where a plane of slave m is 1."""
    for k in range(words[m], words[m + 1]):
        word, base = bits[k, plane], (k - words[m]) << 6
        while word:
            step[base + lowest_bit(word)] += value
            word &= word - np.uint64(1)


@numba.njit(cache=True, nogil=True, inline="always")
def cheapest_and_dearest(theta, words, bits, prices, used, alpha, m):
    """Slave m's cheapest plane and its cost, the same of the dearest one with a share of the mixture, and the cost of all shares.

    Numbers of planes are -1 where there is none.
    """
    best, low, worst, high, known = -1, np.inf, -1, -np.inf, 0.0
    for j in range(used.shape[1]):
        if used[m, j] > 0:
            cost = prices[m, j]
            for k in range(words[m], words[m + 1]):
                word, base = bits[k, j], (k - words[m]) << 6
                while word:
                    cost += theta[base + lowest_bit(word)]
                    word &= word - np.uint64(1)
            if cost < low:
                best, low = j, cost
            if alpha[m, j] > 0.0:
                known += alpha[m, j] * cost
                if cost > high:
                    worst, high = j, cost
    return best, low, worst, high, known


@numba.njit(cache=True, nogil=True, inline="always")
def choose(theta, words, bits, prices, used, alpha, y, a, size, w, clique, fixed, rest, m):
    """Slave m's taker, its giver (-1: the rest), and by how much the giver costs more."""
    best, low, worst, high, known = cheapest_and_dearest(theta, words, bits, prices, used, alpha, m)
    if rest > 1e-9:
        cost = fixed[m] - known
        for p in range(len(w)):
            cost += w[p] * clique[m, p]
        for i in range(size):
            if y[a + i] != 0.0:  # theta may be inf where it is 0
                cost += theta[i] * y[a + i]
        if cost / rest > high:
            worst, high = -1, cost / rest
    return best, worst, high - low


@numba.njit(cache=True, nogil=True, inline="always")
def point_from_rest(step, y, a, size, words, bits, fixed, plane_fixed, alpha, rest, m, best):
    """Fill `step` with the direction from what the planes leave of y to the taker: the fixed cost of that rest."""
    given = fixed[m]
    for j in range(alpha.shape[1]):
        if alpha[m, j] > 0.0:
            add_ones(step, alpha[m, j], words, bits, m, j)
            given -= alpha[m, j] * plane_fixed[m, j]
    for i in range(size):
        step[i] = min(step[i] - y[a + i], 0.0) / rest
    add_ones(step, 1.0, words, bits, m, best)
    return given / rest


@numba.njit(cache=True, nogil=True, inline="always")
def way(step, words, bits, loose, coords, a, size, m, worst, best):
    """Curvature (times prox) and squared length of the way from giver to taker: where two planes differ, or along `step`."""
    spread, length = 0.0, 0.0
    if worst < 0:
        for i in range(size):
            spread += step[i] * step[i] * loose[coords[a + i]]
            length += step[i] * step[i]
        return spread, length
    for k in range(words[m], words[m + 1]):
        word, base = bits[k, worst] ^ bits[k, best], a + ((k - words[m]) << 6)
        while word:
            spread += loose[coords[base + lowest_bit(word)]]
            length += 1.0
            word &= word - np.uint64(1)
    return spread, length


@numba.njit(cache=True, nogil=True, inline="always")
def go(step, words, bits, copies, coords, y, mean, a, size, m, worst, best, delta):
    """Move y and the means by `delta` of that way; `step` is zero again."""
    if worst < 0:
        for i in range(size):
            if step[i] != 0.0:
                y[a + i] = max(y[a + i] + delta * step[i], 0.0)
                mean[coords[a + i]] += delta * step[i] / copies[coords[a + i]]
                step[i] = 0.0
        return
    for k in range(words[m], words[m + 1]):
        ones, base = bits[k, best], a + ((k - words[m]) << 6)
        word = ones ^ bits[k, worst]
        while word:
            place = lowest_bit(word)
            i, move = base + place, delta if (ones >> place) & np.uint64(1) else -delta
            y[i] = max(y[i] + move, 0.0)
            mean[coords[i]] += move / copies[coords[i]]
            word &= word - np.uint64(1)


@numba.njit(cache=True, nogil=True, inline="always")
def move_cliques(turn, clique, plane_features, alpha, rest, m, worst, best, delta):
    """Move the clique features of slave m likewise, and their sum `turn` (P,)."""
    for p in range(len(turn)):
        if worst >= 0:
            given = np.float64(plane_features[m, worst, p])
        else:
            given = clique[m, p]
            for j in range(alpha.shape[1]):
                given -= alpha[m, j] * plane_features[m, j, p]
            given /= rest
        moved = delta * (plane_features[m, best, p] - given)
        clique[m, p] += moved
        turn[p] += moved


@numba.njit(cache=True, nogil=True)
def exchange(
    starts,
    words,
    coords,
    copies,
    loose,
    share,
    lam,
    y,
    mean,
    inverse,
    w,
    clique,
    fixed,
    prices,
    bits,
    plane_features,
    plane_fixed,
    used,
    alpha,
    giver,
    taker,
    amount,
    bend,
    back,
):
    """Slave after slave moves a part of its mixture from its dearest plane to its cheapest, by a line search.

    That is exact in lambda; in w it takes every move to be bent like the sample's last joint one. Without, slaves that share no
    variable would go too far, and the joint line search would hold up all others.

    giver, taker, amount : (M,), the log of these moves; giver -1 is the rest.   prices : (M, C), what the cliques of planes cost.
    inverse : 1 / prox.   bend : curvature in w of a move, over its squared length.
    back : 0, or the part of the moves in the log that is to be taken back.
    Returns the change of the clique features (P,), that of the proximal dual at fixed weights, and the squared distance.
    """
    n_planes, widest = used.shape[1], 0
    for m in range(len(starts) - 1):
        widest = max(widest, starts[m + 1] - starts[m])
    theta, step = np.empty(widest), np.zeros(widest)
    turn, change, square = np.zeros(len(w)), 0.0, 0.0
    for m in range(len(starts) - 1):
        a, size, rest, gap = starts[m], starts[m + 1] - starts[m], 1.0, 0.0
        for j in range(n_planes):
            rest -= alpha[m, j]
        if back == 0.0:
            own_coords, own_lam, own_y = coords[a : a + size], lam[a : a + size], y[a : a + size]
            for i in range(size):
                c = own_coords[i]
                theta[i] = share[c] + own_lam[i] + (own_y[i] - mean[c]) * inverse
            best, worst, gap = choose(
                theta, words, bits, prices, used, alpha, y, a, size, w, clique, fixed, rest, m
            )
            amount[m] = 0.0
            if best < 0 or not gap > 1e-12:
                continue
            giver[m], taker[m], used[m, best] = worst, best, used[m].max() + 1
        elif amount[m] == 0.0:
            continue
        worst, best = giver[m], taker[m]
        if worst >= 0:
            given = plane_fixed[m, worst]
        else:
            given = point_from_rest(
                step, y, a, size, words, bits, fixed, plane_fixed, alpha, rest, m, best
            )
        if back == 0.0:
            spread, length = way(step, words, bits, loose, coords, a, size, m, worst, best)
            # some of the rest must stay: else nothing would tell the way back
            delta = min(
                alpha[m, worst] if worst >= 0 else 0.9 * rest,
                gap / max(spread * inverse + length * bend, 1e-300),
            )
            change += delta * (0.5 * delta * spread * inverse - gap)
            square += delta * delta * length
            amount[m] = delta
        else:
            delta = -back * amount[m]
        go(step, words, bits, copies, coords, y, mean, a, size, m, worst, best, delta)
        move_cliques(turn, clique, plane_features, alpha, rest, m, worst, best, delta)
        fixed[m] += delta * (plane_fixed[m, best] - given)
        alpha[m, best] = max(alpha[m, best] + delta, 0.0)
        if worst >= 0:
            alpha[m, worst] = max(alpha[m, worst] - delta, 0.0)
    return turn, change, square
