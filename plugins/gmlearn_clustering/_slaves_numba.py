"""Compiled rounds of learning to cluster: point and cluster slaves (Komodakis 2011, Lemma 2,
corrected), medoids, features.
"""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def point_slaves(points, theta, distances, extra, ind, value, chosen):
    """Minimise the slaves of some points in one pass over their rows.

    points : (M,) the points p. theta : (M, N). distances, extra : (N, N), d_pq and what the loss
    adds to it, off the diagonal. Fills ind (M, N), value (M,), chosen (M,).
    """
    n = distances.shape[0]
    for i in range(points.shape[0]):
        p = points[i]
        best, arg, negative = np.inf, p, 0.0
        for q in range(n):
            t = theta[i, q]
            low = min(t, 0.0)
            cost = distances[p, q] + extra[p, q] + (t - low)
            if q == p:
                cost = t
            else:
                negative += low
            ind[i, q] = 1.0 if t < 0.0 else 0.0
            if cost < best:
                best, arg = cost, q
        ind[i, p] = 0.0  # x_pp = 1 only if p is its own exemplar
        # the erratum: the chosen exemplar is open, whatever the sign of its theta
        ind[i, arg] = 1.0
        value[i] = negative + best
        chosen[i] = arg


@numba.njit(cache=True, nogil=True)
def cluster_slaves(theta, start, alpha, ind, value):
    """Minimise -alpha |1 - sum_q x_q| + theta .

    x for every cluster; theta and ind are (S,), clusters by `start`.
    """
    for c in range(start.shape[0] - 1):
        many = 0.0
        for j in range(start[c], start[c + 1]):
            many += min(theta[j] - alpha, 0.0)
        several = 2.0 * alpha + many < 0.0
        value[c] = alpha + many if several else -alpha
        for j in range(start[c], start[c + 1]):
            ind[j] = 1.0 if several and theta[j] < alpha else 0.0


@numba.njit(cache=True, nogil=True)
def move_rows(rows, ind, mean, size):
    """rows += size ind - mean, in place; `mean` (N,) comes multiplied by size."""
    for p in range(rows.shape[0]):
        row, chosen = rows[p], ind[p]
        for q in range(len(row)):
            row[q] += size * chosen[q] - mean[q]


@numba.njit(cache=True, nogil=True)
def cluster_medoids(distances, penalty, members, start, target):
    """Fill `target` (N,) with the medoid of every point's cluster and return the energy; members
    (N,) by `start`, ascending.
    """
    energy = 0.0
    cost = np.empty(distances.shape[0])
    for c in range(start.shape[0] - 1):
        inside = members[start[c] : start[c + 1]]
        total = cost[: inside.shape[0]]
        for j in range(inside.shape[0]):
            total[j] = penalty[inside[j]]
        for i in range(inside.shape[0]):
            row = distances[inside[i]]
            for j in range(inside.shape[0]):
                if i != j:
                    total[j] += row[inside[j]]
        best = np.argmin(total)
        energy += total[best]
        for i in range(inside.shape[0]):
            target[inside[i]] = inside[best]
    return energy


@numba.njit(cache=True, nogil=True)
def squared_differences(Z, target):
    """sum over p of (z_p - z_target(p))^2, dimension by dimension; (N, D) -> (D,) in one pass
    without temporaries.
    """
    total = np.zeros(Z.shape[1])
    for p in range(Z.shape[0]):
        q = target[p]
        if q != p:
            for i in range(Z.shape[1]):
                total[i] += (Z[p, i] - Z[q, i]) ** 2
    return total
