"""Compiled slaves of dense table cliques of any arity and shape.

Tables are read row by row, a row being one label of all variables but the last two: long enough for
SIMD, and the costs of its labels are added up once for all rows. An odometer keeps the labels of
the other variables, `free` of them, and the sums of their costs up to date. It is written out in
both kernels: calls would cost as much as a row.
"""

import numpy as np
from numba import njit

#: NaN never appears (costs are finite or +inf), which is what lets minima be vectorised
FAST = {"nnan", "nsz"}


@njit(cache=True, nogil=True)
def buffer_sizes(ptr, indptr):
    """The largest number of variables in a clique, and of entries in a row."""
    most, longest = 1, 1
    for m in range(len(indptr) - 1):
        lo, hi = indptr[m], indptr[m + 1]
        most = max(most, hi - lo)
        width = ptr[hi] - ptr[hi - 1]
        longest = max(longest, width * (ptr[hi - 1] - ptr[hi - 2]) if hi - lo > 1 else width)
    return most, longest


@njit(cache=True, nogil=True, fastmath=FAST)
def minimise_tables(theta, ptr, indptr, values, start, labels, value):
    """min over x of table(x) + sum_i theta_i(x_i) for every clique; the last variable changes
    fastest.

    Only the best row is remembered while the table is read, by selections (branches would be
    mispredicted); its labels are looked up afterwards.
    """
    most, longest = buffer_sizes(ptr, indptr)
    x, partial, costs = np.zeros(most, np.int64), np.zeros(most + 1), np.empty(longest)
    for m in range(len(start)):
        lo, hi = indptr[m], indptr[m + 1]
        free, single = max(hi - lo - 2, 0), hi - lo == 1
        last = theta[ptr[hi - 1] : ptr[hi]]
        size = len(last)
        lines = 1 if single else ptr[hi - 1] - ptr[hi - 2]
        width = lines * size
        for a in range(lines):
            line, own = costs[a * size : (a + 1) * size], 0.0 if single else theta[ptr[hi - 2] + a]
            for b in range(size):
                line[b] = own + last[b]
        best = np.inf
        best_low = np.inf
        position = start[m]
        best_position = start[m]
        number = 0
        best_number = 0
        for i in range(free):
            x[i] = 0
            partial[i + 1] = partial[i] + theta[ptr[lo + i]]
        while True:
            row, low = values[position : position + width], np.inf
            for b in range(width):
                low = min(low, row[b] + costs[b])
            total = low + partial[free]
            better = total < best
            best = total if better else best
            best_low = low if better else best_low
            best_position = position if better else best_position
            best_number = number if better else best_number
            position += width
            number += 1
            i = free - 1
            while i >= 0:
                x[i] += 1
                if x[i] < ptr[lo + i + 1] - ptr[lo + i]:
                    break
                x[i] = 0
                i -= 1
            if i < 0:
                break
            for j in range(i, free):
                partial[j + 1] = partial[j] + theta[ptr[lo + j] + x[j]]
        value[m] = best
        row, place = values[best_position : best_position + width], 0 if best == np.inf else width
        # the first entry with the row's minimum: the same sums again, so that equality is safe
        for b in range(width):
            place = min(place, b if row[b] + costs[b] == best_low else width)
        # exact for such numbers, and faster than a division of integers
        line_label = int((place + 0.5) / size)
        labels[hi - 1] = place - line_label * size
        if not single:
            labels[hi - 2] = line_label
        for i in range(free - 1, 0, -1):
            states = ptr[lo + i + 1] - ptr[lo + i]
            labels[lo + i] = best_number % states
            best_number //= states
        if free > 0:
            labels[lo] = best_number


@njit(cache=True, nogil=True, fastmath=FAST)
def min_marginals_tables(theta, ptr, indptr, values, start, out):
    """Minima with one label fixed, laid out like theta."""
    most, longest = buffer_sizes(ptr, indptr)
    x = np.zeros(most, np.int64)
    partial = np.zeros(most + 1)
    costs = np.empty(longest)
    best = np.empty(longest)
    for m in range(len(start)):
        lo, hi = indptr[m], indptr[m + 1]
        free, single = max(hi - lo - 2, 0), hi - lo == 1
        last, to = theta[ptr[hi - 1] : ptr[hi]], out[ptr[hi - 1] : ptr[hi]]
        size = len(last)
        lines = 1 if single else ptr[hi - 1] - ptr[hi - 2]
        position = start[m]
        width = lines * size
        for a in range(lines):
            line, own = costs[a * size : (a + 1) * size], 0.0 if single else theta[ptr[hi - 2] + a]
            for b in range(size):
                line[b] = own + last[b]
        for b in range(width):
            best[b] = np.inf
        for d in range(ptr[lo], ptr[hi]):
            out[d] = np.inf
        for i in range(free):
            x[i] = 0
            partial[i + 1] = partial[i] + theta[ptr[lo + i]]
        while True:
            base, row, low = partial[free], values[position : position + width], np.inf
            for b in range(width):
                best[b] = min(best[b], base + row[b])
            if free > 0:
                for b in range(width):
                    low = min(low, row[b] + costs[b])
            for i in range(free):
                d = ptr[lo + i] + x[i]
                out[d] = min(out[d], base + low)
            position += width
            i = free - 1
            while i >= 0:
                x[i] += 1
                if x[i] < ptr[lo + i + 1] - ptr[lo + i]:
                    break
                x[i] = 0
                i -= 1
            if i < 0:
                break
            for j in range(i, free):
                partial[j + 1] = partial[j] + theta[ptr[lo + j] + x[j]]
        for a in range(lines):
            line = best[a * size : (a + 1) * size]
            added = costs[a * size : (a + 1) * size]
            low = np.inf
            for b in range(size):
                cost = line[b] + added[b]
                to[b] = min(to[b], cost)
                low = min(low, cost)
            if not single:
                out[ptr[hi - 2] + a] = low
