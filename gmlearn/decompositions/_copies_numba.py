"""Compiled moves between coordinates and their copies: one pass each, nothing allocated."""

from numba import njit


@njit(cache=True, nogil=True)
def shift(per_coord, coords, per_dual, out):
    """out[d] = per_coord[coords[d]] + per_dual[d]."""
    for d in range(len(out)):
        out[d] = per_coord[coords[d]] + per_dual[d]


@njit(cache=True, nogil=True)
def count(coords, chosen, total):
    """total[c] += how many of the chosen dual variables are copies of c."""
    for i in range(len(chosen)):
        total[coords[chosen[i]]] += 1.0


@njit(cache=True, nogil=True)
def move(per_dual, coords, mean, chosen, size):
    """per_dual += size ind - mean[coords], with ind = 1 at `chosen`; `mean` comes multiplied by
    size.
    """
    for d in range(len(per_dual)):
        per_dual[d] -= mean[coords[d]]
    for i in range(len(chosen)):
        per_dual[chosen[i]] += size
