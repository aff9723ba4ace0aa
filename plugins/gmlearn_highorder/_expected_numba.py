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
def expected_of_totals(q, values, indptr, most, f, start, out):
    """out[i, a] = the expectation of f(total) over the other members if i takes a.

    q, values : (S, A), the probability and the value of each choice.   most : int (M,), the largest
        total of each clique.   f, start : clique m reads f[start[m] + total].
    """
    for m in range(len(indptr) - 1):
        first, k, n = indptr[m], indptr[m + 1] - indptr[m], most[m] + 1
        # mean[i, t]: the expectation if the members before i have the total t
        mean = np.zeros((k + 1, n))
        mean[k] = f[start[m] : start[m] + n]
        for i in range(k - 1, 0, -1):
            add_chances(q[first + i], values[first + i], mean[i + 1], mean[i])
        chance, moved = np.zeros(n), np.zeros(n)  # of each total of the members before i
        chance[0] = 1.0
        for i in range(k):
            for a in range(q.shape[1]):
                out[first + i, a] = 0.0
                for t in range(n - values[first + i, a]):
                    if chance[t] > 0.0:
                        out[first + i, a] += chance[t] * mean[i + 1, t + values[first + i, a]]
            moved[:] = 0.0
            for a in range(q.shape[1]):
                for t in range(n - values[first + i, a]):
                    moved[t + values[first + i, a]] += chance[t] * q[first + i, a]
            chance, moved = moved, chance


@njit(cache=True, nogil=True)
def add_chances(q, values, after, out):
    """out[t] += sum over a of q[a] after[t + values[a]], with 0 inf = 0; totals out of reach are
    left out.
    """
    for a in range(len(q)):
        if q[a] > 0.0:
            for t in range(len(out) - values[a]):
                out[t] += q[a] * after[t + values[a]]
