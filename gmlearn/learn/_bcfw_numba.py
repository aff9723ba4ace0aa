"""Kernels of block-coordinate Frank-Wolfe: the arithmetic over the dual variables of one batch of slaves."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def dual_costs(slots, coords, unary, count, lam, y, mean, prox):
    """(theta, lambda), both (Db,), at the dual variables `slots`: unary share + centre + (y - mean) / prox."""
    theta, now = np.empty(len(slots)), np.empty(len(slots))
    for j in range(len(slots)):
        slot = slots[j]
        c = coords[slot]
        now[j] = lam[slot] + (y[slot] - mean[c]) / prox
        theta[j] = unary[c] / count[c] + now[j]
    return theta, now


@numba.njit(cache=True, nogil=True)
def gaps_and_shares(indptr, slots, coords, count, y, ind, theta, value, own, vertex, prox, each):
    """Gap, share of the way to the vertex, and fixed cost of the vertex, for each slave of a batch, (Mb,) each.

    own : fixed + w . features of the mixture's cliques.   vertex : w . features of the minimiser's cliques.
    """
    n = len(indptr) - 1
    gaps, spreads, shares, fixed = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for m in range(n):
        mixture, spread, at_vertex = 0.0, 0.0, 0.0
        for j in range(indptr[m], indptr[m + 1]):
            slot = slots[j]
            share, corner = y[slot], ind[j]
            if share > 0.0:
                mixture += theta[j] * share
            if corner > 0.0:
                at_vertex += theta[j] * corner
            spread += (corner - share) ** 2 * (1.0 - 1.0 / count[coords[slot]])
        gaps[m] = own[m] + mixture - value[m]
        spreads[m] = spread / prox
        fixed[m] = value[m] - at_vertex - vertex[m]
    if not each:
        gaps[:], spreads[:] = gaps.sum(), spreads.sum()
    for m in range(n):
        share = 1.0 if spreads[m] <= gaps[m] else max(gaps[m], 0.0) / max(spreads[m], 1e-300)
        shares[m] = share if share >= 1e-7 else 0.0  # no denormal numbers: they are a hundred times slower
    return shares, fixed


@numba.njit(cache=True, nogil=True)
def joint_direction(indptr, slots, members, coords, count, y, ind, shares, lam, clique, features, fixed, vertex_fixed, n_coords):
    """The direction of a batch in which every slave goes its share: (move (Db,), its mean (n_coords,), summed clique features (P,),
    summed fixed costs, <lambda, move>, |move|^2)."""
    move, mean = np.empty(len(slots)), np.zeros(n_coords)
    turn = np.zeros(clique.shape[1])
    cost, along, square = 0.0, 0.0, 0.0
    for m in range(len(indptr) - 1):
        share, slave = shares[m], members[m]
        if share == 0.0:
            move[indptr[m]:indptr[m + 1]] = 0.0
            continue
        cost += share * (vertex_fixed[m] - fixed[slave])
        for p in range(len(turn)):
            turn[p] += share * (features[m, p] - clique[slave, p])
        for j in range(indptr[m], indptr[m + 1]):
            c = coords[slots[j]]
            step = share * (ind[j] - y[slots[j]])
            move[j] = step
            mean[c] += step / count[c]
            along += lam[j] * step
            square += step * step
    return move, mean, turn, cost, along, square


@numba.njit(cache=True, nogil=True)
def move_mixture(indptr, slots, members, y, mean, clique, fixed, move, mean_move, features, vertex_fixed, shares, gamma):
    """Go `gamma` of the way along the joint direction, in place."""
    for j in range(len(slots)):
        y[slots[j]] += gamma * move[j]
    for c in range(len(mean)):
        mean[c] += gamma * mean_move[c]
    for m in range(len(indptr) - 1):
        slave, part = members[m], gamma * shares[m]
        if part == 0.0:
            continue
        fixed[slave] += part * (vertex_fixed[m] - fixed[slave])
        for p in range(clique.shape[1]):
            clique[slave, p] += part * (features[m, p] - clique[slave, p])
