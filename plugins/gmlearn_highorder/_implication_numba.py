"""Compiled slaves of implications, theta (M, 2, L)."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def best_but(row, label):
    """The smallest entry other than `label`, and its index (-1 and inf if there is none)."""
    best, low = -1, np.inf
    for l in range(len(row)):
        if l != label and row[l] < low:
            best, low = l, row[l]
    return best, low


@njit(cache=True, nogil=True)
def minimise_implications(theta, premise, conclusion, cost, labels, value):
    """min over (a, b) of theta_0(a) + theta_1(b) + cost [a = i, b != j]; 'no premise' wins a
    tie, then 'conclusion'.
    """
    for m in range(len(cost)):
        i, j = premise[m], conclusion[m]
        a, not_premise = best_but(theta[m, 0], i)
        b, not_conclusion = best_but(theta[m, 1], j)
        held = theta[m, 1, j]
        labels[m, 0], labels[m, 1] = 0, 0
        value[m] = np.inf
        if not_premise + min(held, not_conclusion) < value[m]:
            value[m] = not_premise + min(held, not_conclusion)
            labels[m, 0], labels[m, 1] = a, j if held <= not_conclusion else b
        if theta[m, 0, i] + held < value[m]:
            value[m] = theta[m, 0, i] + held
            labels[m, 0], labels[m, 1] = i, j
        if theta[m, 0, i] + not_conclusion + cost[m] < value[m]:
            value[m] = theta[m, 0, i] + not_conclusion + cost[m]
            labels[m, 0], labels[m, 1] = i, b


@njit(cache=True, nogil=True)
def min_marginals_implications(theta, premise, conclusion, cost, out):
    """Minima with one label fixed, laid out like theta."""
    for m in range(len(cost)):
        i, j = premise[m], conclusion[m]
        not_premise = best_but(theta[m, 0], i)[1]
        not_conclusion = best_but(theta[m, 1], j)[1]
        held = theta[m, 1, j]
        for l in range(theta.shape[2]):
            if l == i:
                out[m, 0, l] = theta[m, 0, l] + min(held, not_conclusion + cost[m])
            else:
                out[m, 0, l] = theta[m, 0, l] + min(held, not_conclusion)
            if l == j:
                out[m, 1, l] = theta[m, 1, l] + min(theta[m, 0, i], not_premise)
            else:
                out[m, 1, l] = theta[m, 1, l] + min(theta[m, 0, i] + cost[m], not_premise)
