"""Compiled stable sorting of small whole numbers."""

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
