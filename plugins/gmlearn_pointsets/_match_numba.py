"""Compiled matching of one pair of point sets: cost, closed-form motion, soft step, hard
alternation.

A pair is x (J, D), y (K, D), a rotation R (D, D), a shift t (D,) and a scale s, read as x_j ~ t + s
R y_k. `free` holds three flags: rotation, translation, scale.
"""

from __future__ import annotations

import numba
import numpy as np

from ._assignment_numba import assign_rows
from ._sinkhorn_numba import FASTMATH
from .rigid import SMALLEST_SCALE


@numba.njit(cache=True, nogil=True, fastmath=FASTMATH)
def squared_distances(x, n, y, m, R, t, s, moved, cost):
    """cost_jk = |x_j - t - s R y_k|^2."""
    D = x.shape[1]
    for k in range(m):
        for d in range(D):
            total = t[d]
            for e in range(D):
                total += s * R[d, e] * y[k, e]
            moved[k, d] = total
    for j in range(n):
        for k in range(m):
            total = 0.0
            for d in range(D):
                difference = x[j, d] - moved[k, d]
                total += difference * difference
            cost[j, k] = total


@numba.njit(cache=True, nogil=True)
def best_rotation(C, R):
    """The R with the largest tr(R' C) among those as handed as the given R: rotations, or
    rotations with a reflection.
    """
    if C.shape[0] == 2:
        hand = np.sign(R[0, 0] * R[1, 1] - R[0, 1] * R[1, 0])
        angle = np.arctan2(C[1, 0] - hand * C[0, 1], C[0, 0] + hand * C[1, 1])
        cos, sin = np.cos(angle), np.sin(angle)
        R[0, 0] = cos
        R[0, 1] = -hand * sin
        R[1, 0] = sin
        R[1, 1] = hand * cos
    else:
        hand = np.sign(np.linalg.det(R))
        left, _, right = np.linalg.svd(C)
        last = hand * np.sign(np.linalg.det(left) * np.linalg.det(right))
        for d in range(3):
            for e in range(3):
                R[d, e] = (
                    left[d, 0] * right[0, e]
                    + left[d, 1] * right[1, e]
                    + last * left[d, 2] * right[2, e]
                )


@numba.njit(cache=True, nogil=True, fastmath=FASTMATH)
def closed_form(weight, x_sum, y_sum, cross, x_square, y_square, free, R, t, s):
    """R, t in place and the best s from sums over the match; returns s and the residual sum of
    squares.
    """
    D = x_sum.shape[0]
    if free[1]:
        for d in range(D):
            for e in range(D):
                cross[d, e] -= x_sum[d] * y_sum[e] / weight
            x_square -= x_sum[d] * x_sum[d] / weight
            y_square -= y_sum[d] * y_sum[d] / weight
    if free[0]:
        best_rotation(cross, R)
    alignment = 0.0
    for d in range(D):
        for e in range(D):
            alignment += R[d, e] * cross[d, e]
    if free[2] and y_square > 0:
        s = max(alignment / y_square, SMALLEST_SCALE)
    if free[1]:
        for d in range(D):
            total = x_sum[d]
            for e in range(D):
                total -= s * R[d, e] * y_sum[e]
            t[d] = total / weight
    return s, max(x_square - 2 * s * alignment + s * s * y_square, 0.0)


@numba.njit(cache=True, nogil=True, fastmath=FASTMATH)
def fit_soft(plan, x, n, y, m, free, R, t, s, x_sum, y_sum, row_y, cross):
    """`closed_form` for a soft match; returns s and the residual."""
    D = x.shape[1]
    x_sum[:], y_sum[:], cross[:] = 0.0, 0.0, 0.0
    weight, x_square, y_square = 0.0, 0.0, 0.0
    for j in range(n):
        row = 0.0
        row_y[:] = 0.0
        for k in range(m):
            p = plan[j, k]
            row += p
            square = 0.0
            for d in range(D):
                row_y[d] += p * y[k, d]
                square += y[k, d] * y[k, d]
            y_square += p * square
        weight += row
        for d in range(D):
            x_sum[d] += row * x[j, d]
            y_sum[d] += row_y[d]
            x_square += row * x[j, d] * x[j, d]
            for e in range(D):
                cross[d, e] += x[j, d] * row_y[e]
    return closed_form(weight, x_sum, y_sum, cross, x_square, y_square, free, R, t, s)


@numba.njit(cache=True, nogil=True, fastmath=FASTMATH)
def fit_hard(partner, x, n, y, free, R, t, s, x_sum, y_sum, cross):
    """`closed_form` for a hard match, partner[j] = k or -1; returns s and the residual, summed
    point by point.
    """
    D = x.shape[1]
    x_sum[:], y_sum[:], cross[:] = 0.0, 0.0, 0.0
    weight, x_square, y_square = 0.0, 0.0, 0.0
    for j in range(n):
        k = partner[j]
        if k >= 0:
            weight += 1.0
            for d in range(D):
                x_sum[d] += x[j, d]
                y_sum[d] += y[k, d]
                x_square += x[j, d] * x[j, d]
                y_square += y[k, d] * y[k, d]
                for e in range(D):
                    cross[d, e] += x[j, d] * y[k, e]
    if weight == 0.0:
        return s, 0.0
    s, _ = closed_form(weight, x_sum, y_sum, cross, x_square, y_square, free, R, t, s)
    residual = 0.0
    for j in range(n):
        k = partner[j]
        if k >= 0:
            for d in range(D):
                difference = x[j, d] - t[d]
                for e in range(D):
                    difference -= s * R[d, e] * y[k, e]
                residual += difference * difference
    return s, residual


@numba.njit(cache=True, nogil=True)
def assign_points(cost, n, m, outlier_cost, gain, row_dual, col_dual, owner, partner):
    """Best hard match of points: partner[j] = k or -1. A pair that costs more than two outliers
    (inf: none) stays apart.
    """
    limited = outlier_cost < np.inf
    small, large = min(n, m), max(n, m)
    for j in range(n):
        partner[j] = -1
        for k in range(m):
            value = min(cost[j, k] - 2 * outlier_cost, 0.0) if limited else cost[j, k]
            if n <= m:
                gain[j, k] = value
            else:
                gain[k, j] = value
    assign_rows(gain, small, large, row_dual, col_dual, owner)
    for column in range(large):
        row = owner[column]
        if row >= 0 and not (limited and gain[row, column] >= 0):
            if n <= m:
                partner[row] = column
            else:
                partner[column] = row


@numba.njit(cache=True, nogil=True)
def hard_alternation(x, n, y, m, outlier_cost, free, R, t, s, partner, max_iter):
    """Alternate assignment and closed form until the assignment repeats; returns s and the
    distance.
    """
    size, D = max(x.shape[0], y.shape[0]), x.shape[1]
    cost, gain, moved = np.empty((n, m)), np.empty((size, size)), np.empty((m, D))
    row_dual, col_dual, owner = np.empty(size), np.empty(size), np.empty(size, np.int64)
    x_sum, y_sum, cross = np.empty(D), np.empty(D), np.empty((D, D))
    before = np.full(n, -2, np.int64)
    distance = np.inf
    for _ in range(max_iter):
        squared_distances(x, n, y, m, R, t, s, moved, cost)
        assign_points(cost, n, m, outlier_cost, gain, row_dual, col_dual, owner, partner)
        if np.array_equal(before, partner[:n]):
            break
        before[:] = partner[:n]
        s, distance = fit_hard(partner, x, n, y, free, R, t, s, x_sum, y_sum, cross)
        if outlier_cost < np.inf:
            distance += outlier_cost * (n + m - 2 * np.sum(before >= 0))
    return s, distance
