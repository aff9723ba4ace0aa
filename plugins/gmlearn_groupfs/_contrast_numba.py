"""Non-negative logistic regression with weights drawn towards each other, compiled."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def _coordinate_descent(hessian, gradient, start, x):
    """min_x g.(x - start) + 1/2 (x - start) H (x - start), x >= 0 but for the last (the constant
    term); x is written.
    """
    size = x.size
    slope = gradient.copy()
    for a in range(size):
        x[a] = start[a]
    for _ in range(200):
        largest = 0.0
        for a in range(size):
            new = x[a] - slope[a] / hessian[a, a]
            if a < size - 1 and new < 0.0:
                new = 0.0
            change = new - x[a]
            if change != 0.0:
                x[a] = new
                for b in range(size):
                    slope[b] += hessian[a, b] * change
                largest = max(largest, abs(change))
        if largest < 1e-8:
            return


@numba.njit(cache=True, nogil=True)
def _objective(features, signs, weights, shrinkage, ridge):
    """sum_i ln(1 + exp(-y_i f_i)) + penalties at `weights` (M + 1,)."""
    n, n_kernels = features.shape
    mean = weights[:n_kernels].mean()
    total = 0.0
    for a in range(n_kernels):
        total += shrinkage * (weights[a] - mean) ** 2 + ridge * weights[a] ** 2
    for i in range(n):
        f = weights[n_kernels]
        for a in range(n_kernels):
            f += weights[a] * features[i, a]
        margin = signs[i] * f
        total += max(-margin, 0.0) + np.log1p(np.exp(-abs(margin)))
    return total


@numba.njit(cache=True, nogil=True)
def fit_logistic(features, signs, shrinkage, ridge, weights):
    r"""Minimise sum_i ln(1 + exp(-y_i (w.x_i + b))) + shrinkage |w - mean(w)|^2 + ridge |w|^2 over
    w >= 0 and b.

    features : float64 (n, M). signs : (n,) of -1 and 1. weights : (M + 1,), w and b; the start
    going in, the answer coming out. Projected Newton steps with halving; O(n M^2) a step.
    """
    n, n_kernels = features.shape
    size = n_kernels + 1
    hessian, gradient, trial = np.empty((size, size)), np.empty(size), np.empty(size)
    row = np.empty(size)
    value = _objective(features, signs, weights, shrinkage, ridge)
    for _ in range(30):
        mean = weights[:n_kernels].mean()
        hessian[:] = 0.0
        gradient[:] = 0.0
        for a in range(n_kernels):
            gradient[a] = 2.0 * shrinkage * (weights[a] - mean) + 2.0 * ridge * weights[a]
            hessian[a, :n_kernels] -= 2.0 * shrinkage / n_kernels
            hessian[a, a] += 2.0 * (shrinkage + ridge)
        for i in range(n):
            f = weights[n_kernels]
            for a in range(n_kernels):
                row[a] = features[i, a]
                f += weights[a] * row[a]
            row[n_kernels] = 1.0
            p = 1.0 / (1.0 + np.exp(-f))
            slope = p - (1.0 if signs[i] > 0 else 0.0)
            curvature = max(p * (1.0 - p), 1e-6)
            for a in range(size):
                gradient[a] += slope * row[a]
                scaled = curvature * row[a]
                for b in range(a + 1):
                    hessian[a, b] += scaled * row[b]
        for a in range(size):
            for b in range(a):
                hessian[b, a] = hessian[a, b]
        _coordinate_descent(hessian, gradient, weights, trial)
        step, moved = 1.0, False
        for _ in range(20):
            candidate = weights + step * (trial - weights)
            new = _objective(features, signs, candidate, shrinkage, ridge)
            if new < value:
                moved = True
                break
            step *= 0.5
        if not moved:
            return
        drop = value - new
        weights[:] = candidate
        value = new
        if drop < 1e-4 * (1.0 + abs(value)):
            return
