"""Greedy colouring of subproblems that share coordinates."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def greedy_colouring(coords, indptr, n_coords):
    """Colour (M,): the smallest colour that no earlier subproblem with a common coordinate has.

    Colours of a coordinate are kept as bits of 64-bit words; words are added when a coordinate is
    crowded.
    """
    n = len(indptr) - 1
    words = 1
    used = np.zeros((n_coords, words), np.uint64)
    colour = np.zeros(n, np.int64)
    one = np.uint64(1)
    for m in range(n):
        chosen = -1
        for k in range(words):
            taken = np.uint64(0)
            for d in range(indptr[m], indptr[m + 1]):
                taken |= used[coords[d], k]
            if taken != np.uint64(0xFFFFFFFFFFFFFFFF):
                bit = 0
                while (taken >> np.uint64(bit)) & one:
                    bit += 1
                chosen = k * 64 + bit
                break
        if chosen < 0:
            chosen = words * 64
            grown = np.zeros((n_coords, words + 1), np.uint64)
            # in loops: a slice would compile numba's error messages, most of the kernel's time
            for c in range(n_coords):
                for k in range(words):
                    grown[c, k] = used[c, k]
            used = grown
            words += 1
        mask = one << np.uint64(chosen % 64)
        for d in range(indptr[m], indptr[m + 1]):
            used[coords[d], chosen // 64] |= mask
        colour[m] = chosen
    return colour
