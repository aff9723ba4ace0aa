"""Compiled sums of rows by class."""

from __future__ import annotations

import numba


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def add_rows(rows, codes, sums, counts):
    """sums[c] += rows of class c, counts[c] += their number; rows (n, d), codes (n,)."""
    d = rows.shape[1]
    for i in range(rows.shape[0]):
        c = codes[i]
        counts[c] += 1.0
        for j in range(d):
            sums[c, j] += rows[i, j]
