"""Compiled slaves of dense table cliques of any arity and shape."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def minimise_tables(theta, ptr, indptr, values, start, labels, value):
    """min over x of table(x) + sum_i theta_i(x_i) for every clique; the last variable changes fastest.

    The sum over all but the last variable is kept up to date by an odometer, so that the inner loop is one row.
    """
    largest = 0
    for m in range(len(start)):
        largest = max(largest, indptr[m + 1] - indptr[m])
    x = np.zeros(largest, np.int64)
    partial = np.zeros(largest + 1)
    for m in range(len(start)):
        lo, hi = indptr[m], indptr[m + 1]
        k = hi - lo
        last_lo, last_hi = ptr[hi - 1], ptr[hi]
        best, position = np.inf, start[m]
        for i in range(k):
            labels[lo + i] = 0
            x[i] = 0
        for i in range(k - 1):
            partial[i + 1] = partial[i] + theta[ptr[lo + i]]
        while True:
            base = partial[k - 1]
            row_best, row_label = np.inf, 0
            for b in range(last_hi - last_lo):
                cost = values[position + b] + theta[last_lo + b]
                if cost < row_best:
                    row_best, row_label = cost, b
            if base + row_best < best:
                best = base + row_best
                for i in range(k - 1):
                    labels[lo + i] = x[i]
                labels[hi - 1] = row_label
            position += last_hi - last_lo
            i = k - 2
            while i >= 0:
                x[i] += 1
                if x[i] < ptr[lo + i + 1] - ptr[lo + i]:
                    break
                x[i] = 0
                i -= 1
            if i < 0:
                break
            for j in range(i, k - 1):
                partial[j + 1] = partial[j] + theta[ptr[lo + j] + x[j]]
        value[m] = best


@njit(cache=True, nogil=True)
def min_marginals_tables(theta, ptr, indptr, values, start, out):
    """Minima with one label fixed, laid out like theta."""
    largest = 0
    for m in range(len(start)):
        largest = max(largest, indptr[m + 1] - indptr[m])
    x = np.zeros(largest, np.int64)
    for m in range(len(start)):
        lo, hi = indptr[m], indptr[m + 1]
        k = hi - lo
        position = start[m]
        for d in range(ptr[lo], ptr[hi]):
            out[d] = np.inf
        for i in range(k):
            x[i] = 0
        while True:
            base = 0.0
            for i in range(k - 1):
                base += theta[ptr[lo + i] + x[i]]
            row_best = np.inf
            for b in range(ptr[hi] - ptr[hi - 1]):
                cost = base + values[position + b] + theta[ptr[hi - 1] + b]
                if cost < out[ptr[hi - 1] + b]:
                    out[ptr[hi - 1] + b] = cost
                if cost < row_best:
                    row_best = cost
            for i in range(k - 1):
                if row_best < out[ptr[lo + i] + x[i]]:
                    out[ptr[lo + i] + x[i]] = row_best
            position += ptr[hi] - ptr[hi - 1]
            i = k - 2
            while i >= 0:
                x[i] += 1
                if x[i] < ptr[lo + i + 1] - ptr[lo + i]:
                    break
                x[i] = 0
                i -= 1
            if i < 0:
                break
