"""Compiled softassign: Sinkhorn's scaling of one matrix, and of a batch.

The match is kept as duals in units of cost, m_jk = exp(-beta (c_jk - f_j - g_k)), so that they stay
good when beta is raised or the cost moves a little. Rows and columns have targets: 1 for a point,
the number of points left over for a slack that must take exactly that many, and -1 for a slack that
takes any number at a price (its dual stays 0).
"""

from __future__ import annotations

import numba
import numpy as np

#: sums may be reordered for speed, but infinities and NaN keep their meaning: overflow is how
#: trouble is noticed
FASTMATH = {"reassoc", "contract", "nsz", "arcp"}
FREE = -1.0
#: sums outside this range mean that a scaling vector is about to over- or underflow
SMALLEST, LARGEST = 1e-200, 1e200
#: log-domain sweeps before the cheap scaling is tried again
RESCUE_SWEEPS = 8
#: smaller exponents count as no match at all: their exponentials would drift into slow denormal
#: numbers
LEAST_EXPONENT = -200.0


@numba.njit(cache=True, nogil=True, fastmath=FASTMATH)
def scale_rows_columns(kernel, n, m, row_target, col_target, u, v, column_sum, tol, max_iter):
    """u_j = a_j / (K v)_j, v_k = b_k / (K' u)_k in one pass over K; returns the iterations, or
    -1 on overflow.
    """
    for iteration in range(max_iter):
        error = 0.0
        for k in range(m):
            column_sum[k] = 0.0
        for j in range(n):
            if row_target[j] != FREE:
                total = 0.0
                for k in range(m):
                    total += kernel[j, k] * v[k]
                if not (SMALLEST < total < LARGEST):
                    return -1
                error = max(error, abs(u[j] * total - row_target[j]))
                u[j] = row_target[j] / total
            for k in range(m):
                column_sum[k] += kernel[j, k] * u[j]
        for k in range(m):
            if col_target[k] != FREE:
                if not (SMALLEST < column_sum[k] < LARGEST):
                    return -1
                v[k] = col_target[k] / column_sum[k]
        # the error is that of the rows before this sweep; the columns were exact then only from the
        # second sweep on
        if error < tol and iteration > 0:
            return iteration + 1
    return max_iter


@numba.njit(cache=True, nogil=True)
def log_sweep(cost, n, m, beta, row_dual, col_dual, row_target, col_target):
    """One Sinkhorn sweep in the log domain, safe at any temperature."""
    for j in range(n):
        if row_target[j] != FREE:
            low = np.inf
            for k in range(m):
                low = min(low, cost[j, k] - col_dual[k])
            total = 0.0
            for k in range(m):
                total += np.exp(-beta * (cost[j, k] - col_dual[k] - low))
            row_dual[j] = low + (np.log(row_target[j]) - np.log(total)) / beta
    for k in range(m):
        if col_target[k] != FREE:
            low = np.inf
            for j in range(n):
                low = min(low, cost[j, k] - row_dual[j])
            total = 0.0
            for j in range(n):
                total += np.exp(-beta * (cost[j, k] - row_dual[j] - low))
            col_dual[k] = low + (np.log(col_target[k]) - np.log(total)) / beta


@numba.njit(cache=True, nogil=True, fastmath=FASTMATH)
def softassign_pair(
    cost,
    n,
    m,
    beta,
    row_dual,
    col_dual,
    row_target,
    col_target,
    plan,
    u,
    v,
    column_sum,
    tol,
    max_iter,
):
    """Write the scaled match into `plan`, update the duals in place, return the sweeps used
    (max_iter: not converged).
    """
    used, sweeps = 0, -1
    while True:
        for j in range(n):
            for k in range(m):
                exponent = -beta * (cost[j, k] - row_dual[j] - col_dual[k])
                plan[j, k] = np.exp(exponent) if exponent > LEAST_EXPONENT else 0.0
        u[:n] = 1.0
        v[:m] = 1.0
        if used >= max_iter:
            return max_iter
        sweeps = scale_rows_columns(
            plan, n, m, row_target, col_target, u, v, column_sum, tol, max_iter - used
        )
        if sweeps >= 0:
            break
        for _ in range(min(RESCUE_SWEEPS, max_iter - used)):
            log_sweep(cost, n, m, beta, row_dual, col_dual, row_target, col_target)
        used += RESCUE_SWEEPS
    for j in range(n):
        for k in range(m):
            plan[j, k] *= u[j] * v[k]
        row_dual[j] += np.log(u[j]) / beta
    for k in range(m):
        col_dual[k] += np.log(v[k]) / beta
    return used + sweeps


@numba.njit(cache=True, nogil=True)
def softassign_batch(
    cost, beta, row_dual, col_dual, row_target, col_target, plan, sweeps, tol, max_iter
):
    """`softassign_pair` for every matrix of a batch: cost (B, n, m), row_dual (B, n), col_dual
    (B, m).
    """
    n, m = cost.shape[1], cost.shape[2]
    u, v, column_sum = np.empty(n), np.empty(m), np.empty(m)
    for b in range(cost.shape[0]):
        sweeps[b] = softassign_pair(
            cost[b],
            n,
            m,
            beta,
            row_dual[b],
            col_dual[b],
            row_target,
            col_target,
            plan[b],
            u,
            v,
            column_sum,
            tol,
            max_iter,
        )
