"""Kernels of mixtures: the arithmetic over the dual variables of one batch of slaves.

Coordinates and slots are uint32: these loops are bound by memory, and signed indices are tested for wraparound. `where` is the
coordinate of each dual variable of the batch.
"""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def dual_costs(slots, where, share, lam, y, mean, inverse):
    """theta (Db,) at the dual variables `slots`: unary share + centre + (y - mean) / prox; inverse is 1 / prox."""
    theta = np.empty(len(slots))
    for j in range(len(slots)):
        slot, c = slots[j], where[j]
        theta[j] = share[c] + (lam[slot] + (y[slot] - mean[c]) * inverse)
    return theta


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
        shares[m] = (
            share if share >= 1e-7 else 0.0
        )  # no denormal numbers: they are a hundred times slower
    return shares


@numba.njit(cache=True, nogil=True)
def joint_direction(
    indptr,
    slots,
    members,
    where,
    copies,
    fixed_unary,
    y,
    ind,
    shares,
    lam,
    clique,
    features,
    fixed,
    vertex_fixed,
):
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
def move_mixture(
    indptr,
    slots,
    members,
    y,
    mean,
    clique,
    fixed,
    ind,
    mean_move,
    features,
    vertex_fixed,
    shares,
    gamma,
):
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
def shift_centre(coords, copies, lam, average, y, mean, inverse, rate):
    """lam takes up (y - mean) / prox, average follows it, tiny shares are dropped, mean is formed again: all in place.

    inverse : 1 / prox.
    """
    total = np.zeros(len(mean))
    for j in range(len(coords)):
        share, c = y[j], coords[j]
        centre = lam[j] + (share - mean[c]) * inverse
        lam[j] = centre
        average[j] += rate * (centre - average[j])
        share = share if share >= 1e-9 else 0.0
        y[j] = share
        total[c] += share
    for c in range(len(mean)):
        mean[c] = total[c] / copies[c]
