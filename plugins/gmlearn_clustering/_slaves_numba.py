"""Compiled point and cluster slaves of learning to cluster (theory: Komodakis 2011, Lemma 2 with its erratum)."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def point_slaves(points, share, lam, costs, ind, value, chosen):
    """Minimise the slaves of some points in one pass over their rows, at theta_pq = share_q + lam_pq.

    points : (M,) the points p. share : (N,). lam : (M, N). costs : (N, N), ubar_pq off the diagonal. Fills ind (M, N), value
    (M,), chosen (M,).
    """
    n = costs.shape[0]
    for i in range(points.shape[0]):
        p = points[i]
        best, arg, negative = np.inf, p, 0.0
        for q in range(n):
            t = share[q] + lam[i, q]
            cost = costs[p, q] + max(t, 0.0)
            if q == p:
                cost = t
            else:
                negative += min(t, 0.0)
            ind[i, q] = 1.0 if t < 0.0 else 0.0
            if cost < best:
                best, arg = cost, q
        ind[i, p] = 0.0  # x_pp = 1 only if p is its own exemplar
        ind[i, arg] = 1.0  # the erratum: the chosen exemplar is open, whatever the sign of its theta
        value[i] = negative + best
        chosen[i] = arg


@numba.njit(cache=True, nogil=True)
def cluster_slaves(theta, start, alpha, ind, value):
    """Minimise -alpha |1 - sum_q x_q| + theta . x for every cluster; theta and ind are (S,), clusters by `start`."""
    for c in range(start.shape[0] - 1):
        many = 0.0
        for j in range(start[c], start[c + 1]):
            many += min(theta[j] - alpha, 0.0)
        several = 2.0 * alpha + many < 0.0
        value[c] = alpha + many if several else -alpha
        for j in range(start[c], start[c + 1]):
            ind[j] = 1.0 if several and theta[j] < alpha else 0.0
