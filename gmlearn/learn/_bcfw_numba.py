"""Kernels of block-coordinate Frank-Wolfe: the arithmetic over the dual variables of one batch of slaves.

Coordinates and slots are int32: these loops are bound by memory. `where` is the coordinate of each dual variable of the batch.
"""

from __future__ import annotations

import numba
import numpy as np

#: in lists of ones: no more of them
NONE = 65535


@numba.njit(cache=True, nogil=True)
def dual_costs(slots, where, share, lam, y, mean, prox):
    """(theta, lambda), both (Db,), at the dual variables `slots`: unary share + centre + (y - mean) / prox."""
    theta, now = np.empty(len(slots)), np.empty(len(slots))
    for j in range(len(slots)):
        slot, c = slots[j], where[j]
        multiplier = lam[slot] + (y[slot] - mean[c]) / prox
        now[j] = multiplier
        theta[j] = share[c] + multiplier
    return theta, now


@numba.njit(cache=True, nogil=True)
def costs_at_vertices(indptr, ind, theta):
    """<theta, ind> of every slave of a batch, (Mb,)."""
    total = np.zeros(len(indptr) - 1)
    for m in range(len(total)):
        for j in range(indptr[m], indptr[m + 1]):
            if ind[j] > 0.0:
                total[m] += theta[j] * ind[j]
    return total


@numba.njit(cache=True, nogil=True)
def gaps_and_shares(indptr, slots, where, loose, y, ind, theta, advantage, prox, each):
    """Share of the way from the mixture to the vertex, for each slave of a batch, (Mb,): its own best step.

    loose : 1 - 1 / number of copies, of each coordinate.   advantage : clique costs of the mixture minus those of the vertex.
    """
    n = len(indptr) - 1
    gaps, spreads, shares = np.empty(n), np.empty(n), np.empty(n)
    for m in range(n):
        difference, spread = 0.0, 0.0
        for j in range(indptr[m], indptr[m + 1]):
            share, corner = y[slots[j]], ind[j]
            if share != corner:  # theta may be inf where both are 0
                difference += theta[j] * (share - corner)
                spread += (corner - share) ** 2 * loose[where[j]]
        gaps[m], spreads[m] = advantage[m] + difference, spread / prox
    if not each:
        gaps[:], spreads[:] = gaps.sum(), spreads.sum()
    for m in range(n):
        share = 1.0 if spreads[m] <= gaps[m] else max(gaps[m], 0.0) / max(spreads[m], 1e-300)
        shares[m] = share if share >= 1e-7 else 0.0  # no denormal numbers: they are a hundred times slower
    return shares


@numba.njit(cache=True, nogil=True)
def joint_direction(indptr, slots, members, where, copies, fixed_unary, y, ind, shares, lam, clique, features, fixed, vertex_fixed):
    """The direction of a batch in which every slave goes its share.

    Returns its mean (n_coords,), the change of the clique features (P,), the change of the costs at fixed weights, and the squared
    distance that lambda goes, times prox^2. copies : number of copies of each coordinate.
    """
    mean = np.zeros(len(copies))
    turn = np.zeros(clique.shape[1])
    slope, square = 0.0, 0.0
    for m in range(len(indptr) - 1):
        share, slave = shares[m], members[m]
        if share == 0.0:
            continue
        slope += share * (vertex_fixed[m] - fixed[slave])
        for p in range(len(turn)):
            turn[p] += share * (features[m, p] - clique[slave, p])
        for j in range(indptr[m], indptr[m + 1]):
            step = share * (ind[j] - y[slots[j]])
            mean[where[j]] += step
            slope += lam[j] * step
            square += step * step
    for c in range(len(mean)):
        if mean[c] != 0.0:
            square -= mean[c] * mean[c] / copies[c]
            mean[c] /= copies[c]
            slope += fixed_unary[c] * mean[c]
    return mean, turn, slope, square


@numba.njit(cache=True, nogil=True)
def move_mixture(indptr, slots, members, y, mean, clique, fixed, ind, mean_move, features, vertex_fixed, shares, gamma):
    """Go `gamma` of the way along the joint direction, in place."""
    for c in range(len(mean)):
        mean[c] += gamma * mean_move[c]
    for m in range(len(indptr) - 1):
        slave, part = members[m], gamma * shares[m]
        if part == 0.0:
            continue
        fixed[slave] += part * (vertex_fixed[m] - fixed[slave])
        for p in range(clique.shape[1]):
            clique[slave, p] += part * (features[m, p] - clique[slave, p])
        for j in range(indptr[m], indptr[m + 1]):
            y[slots[j]] += part * (ind[j] - y[slots[j]])


@numba.njit(cache=True, nogil=True)
def shift_centre(coords, copies, lam, average, y, mean, prox, rate):
    """lam takes up (y - mean) / prox, average follows it, tiny shares are dropped, mean is formed again: all in place."""
    total = np.zeros(len(mean))
    for j in range(len(coords)):
        lam[j] += (y[j] - mean[coords[j]]) / prox
        average[j] += rate * (lam[j] - average[j])
        if y[j] < 1e-9:
            y[j] = 0.0
        total[coords[j]] += y[j]
    for c in range(len(mean)):
        mean[c] = total[c] / copies[c]


# ---------------------------------------------------------------------- planes: minimisers of earlier passes
#
# starts : int (M + 1,), where the dual variables of each slave of the sample begin.   room : int (M + 1,), the same for its ones.
# ones : uint16 (C room,), slave by slave, C times the places of its dual variables that are 1, ended by NONE.
# plane_features : (M, C, P).   plane_fixed : (M, C).   used : int32 (M, C), when a plane was last the best one, 0 if there is none.


@numba.njit(cache=True, nogil=True)
def keep_planes(indptr, members, room, ind, features, fixed, ones, plane_features, plane_fixed, used):
    """Put the minimisers of a batch among the planes of their slaves, in place of those that were of no use for longest.

    One with fractions, or with more ones than there is room for, is not kept.
    """
    n_planes = used.shape[1]
    for b in range(len(members)):
        m = members[b]
        size = room[m + 1] - room[m]
        found, n = np.full(size, NONE, np.uint16), 0
        for i in range(indptr[b + 1] - indptr[b]):
            value = ind[indptr[b] + i]
            if value != 0.0:
                if value != 1.0 or n == size or i >= NONE:
                    n = -1
                    break
                found[n] = i
                n += 1
        if n < 0:
            continue
        place = int(np.argmin(used[m]))
        for j in range(n_planes):
            first = room[m] * n_planes + j * size
            if used[m, j] > 0 and (ones[first:first + size] == found).all() and abs(plane_fixed[m, j] - fixed[b]) < 1e-6:
                place = j
                break
        first = room[m] * n_planes + place * size
        ones[first:first + size] = found
        for p in range(features.shape[1]):
            plane_features[m, place, p] = features[b, p]
        plane_fixed[m, place] = fixed[b]
        used[m, place] = used[m].max() + 1


@numba.njit(cache=True, nogil=True)
def recall_direction(members, starts, room, coords, copies, loose, share, fixed_unary, lam, y, mean, prox, w, clique, fixed,
                     prices, ones, plane_features, plane_fixed, used):
    """`joint_direction` towards the cheapest known planes of a batch; also returns their numbers and shares of the way, (Mb,).

    prices : (M, C), what the cliques of the planes cost, inf where there is none; may be of slightly older weights.
    """
    n_planes = used.shape[1]
    best, shares = np.full(len(members), -1), np.zeros(len(members))
    move, turn, slope, square = np.zeros(len(mean)), np.zeros(len(w)), 0.0, 0.0
    widest = 0
    for m in members:
        widest = max(widest, starts[m + 1] - starts[m])
    theta, step = np.empty(widest), np.empty(widest)
    for b in range(len(members)):
        m = members[b]
        a, size, n_ones = starts[m], starts[m + 1] - starts[m], room[m + 1] - room[m]
        for i in range(size):
            c = coords[a + i]
            theta[i] = share[c] + lam[a + i] + (y[a + i] - mean[c]) / prox
        j, lowest = -1, np.inf
        for k in range(n_planes):
            cost, first = prices[m, k], room[m] * n_planes + k * n_ones
            for i in range(n_ones):
                if ones[first + i] == NONE:
                    break
                cost += theta[ones[first + i]]
            if cost < lowest:
                j, lowest = k, cost
        if j < 0:
            continue
        gap, spread = fixed[m] - plane_fixed[m, j], 0.0
        for p in range(len(w)):
            gap += w[p] * (clique[m, p] - plane_features[m, j, p])
        for i in range(size):
            step[i] = -y[a + i]
        first = room[m] * n_planes + j * n_ones
        for i in range(n_ones):
            if ones[first + i] != NONE:
                step[ones[first + i]] += 1.0
        for i in range(size):
            if step[i] != 0.0:  # theta may be inf where both are 0
                gap -= theta[i] * step[i]
                spread += step[i] * step[i] * loose[coords[a + i]]
        part = min(1.0, prox * max(gap, 0.0) / max(spread, 1e-300))
        if part < 1e-7:  # no denormal numbers, as in `gaps_and_shares`
            continue
        used[m, j] = used[m].max() + 1
        best[b], shares[b] = j, part
        slope += part * (plane_fixed[m, j] - fixed[m])
        for p in range(len(w)):
            turn[p] += part * (plane_features[m, j, p] - clique[m, p])
        for i in range(size):
            if step[i] != 0.0:
                c = coords[a + i]
                move[c] += part * step[i]
                slope += part * step[i] * (theta[i] - share[c])
                square += (part * step[i]) ** 2
    for c in range(len(move)):
        if move[c] != 0.0:
            square -= move[c] * move[c] / copies[c]
            move[c] /= copies[c]
            slope += fixed_unary[c] * move[c]
    return best, shares, move, turn, slope, square


@numba.njit(cache=True, nogil=True)
def move_to_planes(members, starts, room, best, shares, move, gamma, y, mean, clique, fixed, ones, plane_features, plane_fixed):
    """Go `gamma` of the way along the direction that `recall_direction` found, in place."""
    n_planes = plane_fixed.shape[1]
    for c in range(len(mean)):
        mean[c] += gamma * move[c]
    for b in range(len(members)):
        j, m, part = best[b], members[b], gamma * shares[b]
        if j < 0:
            continue
        fixed[m] += part * (plane_fixed[m, j] - fixed[m])
        for p in range(clique.shape[1]):
            clique[m, p] += part * (plane_features[m, j, p] - clique[m, p])
        for i in range(starts[m], starts[m + 1]):
            y[i] -= part * y[i]
        n_ones = room[m + 1] - room[m]
        for i in range(room[m] * n_planes + j * n_ones, room[m] * n_planes + (j + 1) * n_ones):
            if ones[i] != NONE:
                y[starts[m] + ones[i]] += part
