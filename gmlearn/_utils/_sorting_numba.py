"""Compiled helpers of arrays in pieces: stable sorting into them, and their largest size."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def counting_order(keys, n):
    """(ptr (n + 1,), order): the places of key k, ascending, are order[ptr[k]:ptr[k + 1]]; keys
    are 0..n-1. O(len(keys) + n).
    """
    ptr, order = np.zeros(n + 1, np.int64), np.empty(len(keys), np.int64)
    for k in keys:
        ptr[k + 1] += 1
    for k in range(n):
        ptr[k + 1] += ptr[k]
    free = ptr[:-1].copy()
    for i in range(len(keys)):
        k = keys[i]
        order[free[k]] = i
        free[k] += 1
    return ptr, order


@njit(cache=True, nogil=True)
def longest(ptr):
    """The largest size of a piece ptr[i]:ptr[i + 1]; 0 if there is none."""
    most = 0
    for i in range(len(ptr) - 1):
        most = max(most, ptr[i + 1] - ptr[i])
    return most
