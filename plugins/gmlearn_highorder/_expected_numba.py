"""Compiled expectations over the other members of a clique, who choose independently."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def others_product(p, indptr, out):
    """out[i, j] = the product of p[., j] over the other members of i's clique, without a
    division."""
    for m in range(len(indptr) - 1):
        lo, hi = indptr[m], indptr[m + 1]
        for j in range(p.shape[1]):
            before = 1.0
            for i in range(lo, hi):
                out[i, j] = before
                before *= p[i, j]
            after = 1.0
            for i in range(hi - 1, lo - 1, -1):
                out[i, j] *= after
                after *= p[i, j]


@njit(cache=True, nogil=True)
def expected_of_counts(p, indptr, f, start, off, on):
    """off[i], on[i] = the expectation of f(n) over the other members if i is not counted, or is.

    p : float (S,), the probability of each member to be counted.   f, start : clique m reads
        f[start[m] + n].
    """
    for m in range(len(indptr) - 1):
        first, k = indptr[m], indptr[m + 1] - indptr[m]
        # mean[i, n]: the expectation if n of the members before i are counted
        mean = np.empty((k + 1, k + 1))
        mean[k] = f[start[m] : start[m] + k + 1]
        for i in range(k - 1, 0, -1):
            own = p[first + i]
            for n in range(i + 1):
                mean[i, n] = mixed(1.0 - own, mean[i + 1, n], own, mean[i + 1, n + 1])
        chance = np.zeros(k + 1)  # of n members before i being counted
        chance[0] = 1.0
        for i in range(k):
            off[first + i], on[first + i] = 0.0, 0.0
            for n in range(i + 1):
                if chance[n] > 0.0:
                    off[first + i] += chance[n] * mean[i + 1, n]
                    on[first + i] += chance[n] * mean[i + 1, n + 1]
            own = p[first + i]
            for n in range(i + 1, 0, -1):
                chance[n] = chance[n] * (1.0 - own) + chance[n - 1] * own
            chance[0] *= 1.0 - own


@njit(cache=True, nogil=True, inline="always")
def mixed(p, a, q, b):
    """p a + q b with 0 inf = 0."""
    return (p * a if p > 0.0 else 0.0) + (q * b if q > 0.0 else 0.0)
