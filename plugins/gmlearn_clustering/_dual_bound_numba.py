"""Compiled dual ascent and Lagrangian subgradient for facility location (rows sorted by cost).

The dual of min over open facilities of fees and assignment costs is max over prices v of L(v) =
sum_p v_p + sum_q min(0, f_q - sum_p max(v_p - c_pq, 0)). Prices rise from cost level to cost level
(Erlenkotter 1978) and then by subgradient steps, whose p-th entry is 1 minus the number of chosen
facilities that p would pay for.
"""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def ascent(fee, alone, row_start, row_exemplar, row_cost, n_passes):
    """Raise the prices v_p in turn from cost level to cost level while no exemplar's fee is
    exceeded.

    Erlenkotter's (1978) dual ascent. Returns prices with sum_p max(v_p - c_pq, 0) <= f_q for all q.
    """
    n = fee.shape[0]
    price = np.zeros(n)
    slack = fee.copy()
    level = row_start[:-1].copy()  # first entry of the row with cost > price
    for p in range(n):
        while level[p] < row_start[p + 1] and row_cost[level[p]] <= 0.0:
            level[p] += 1
    for _ in range(n_passes):
        raised = False
        for p in range(n):
            target = alone[p]
            if level[p] < row_start[p + 1]:
                target = min(target, row_cost[level[p]])
            step = target - price[p]
            for j in range(row_start[p], level[p]):
                step = min(step, slack[row_exemplar[j]])
            if step <= 0.0:
                continue
            for j in range(row_start[p], level[p]):
                slack[row_exemplar[j]] -= step
            price[p] += step
            while level[p] < row_start[p + 1] and row_cost[level[p]] <= price[p]:
                level[p] += 1
            raised = True
        if not raised:
            break
    return price


@numba.njit(cache=True, nogil=True)
def lagrangian(price, fee, row_start, row_exemplar, row_cost, reduced_fee):
    """L(v) = sum_p v_p + sum_q min(0, f_q - sum_p max(v_p - c_pq, 0)); fills reduced_fee with
    the bracket.
    """
    for q in range(fee.shape[0]):
        reduced_fee[q] = fee[q]
    value = 0.0
    for p in range(price.shape[0]):
        value += price[p]
        for j in range(row_start[p], row_start[p + 1]):
            if row_cost[j] >= price[p]:
                break
            reduced_fee[row_exemplar[j]] -= price[p] - row_cost[j]
    for q in range(fee.shape[0]):
        value += min(reduced_fee[q], 0.0)
    return value


@numba.njit(cache=True, nogil=True)
def subgradient(price, fee, alone, rows, columns, upper, n_rounds, rel_tol):
    """Improve `price` (in place, best kept) by projected subgradient steps aimed at the energy
    `upper`; rows and columns as in ``FacilityProblem.arrays``.

    The direction is an average of the last subgradients (deflection); the step factor is halved
    after ten rounds without progress. Returns the best bound.
    """
    n = price.shape[0]
    row_start, row_exemplar, row_cost = rows
    column_start, column_client, column_cost, _ = columns
    v, direction, reduced_fee = price.copy(), np.zeros(n), np.empty(n)
    slope = np.empty(n)
    best, factor, since = -np.inf, 0.3, 0
    for _ in range(n_rounds):
        value = lagrangian(v, fee, row_start, row_exemplar, row_cost, reduced_fee)
        if value > best:
            since = 0 if value > best + 1e-4 * (upper - best) else since + 1
            best = value
            for p in range(v.shape[0]):
                price[p] = v[p]
        else:
            since += 1
        if since >= 10:
            factor, since = 0.5 * factor, 0
            for p in range(v.shape[0]):
                v[p] = price[p]
                direction[p] = 0.0
            value = lagrangian(v, fee, row_start, row_exemplar, row_cost, reduced_fee)
        if upper - best <= rel_tol * abs(upper) or factor < 1e-4:
            break
        square = 0.0
        for p in range(n):
            slope[p] = 1.0
        # few exemplars are worth more than their fee: their columns are less than all rows
        for q in range(n):
            if reduced_fee[q] < 0.0:
                for j in range(column_start[q], column_start[q + 1]):
                    if column_cost[j] < v[column_client[j]]:
                        slope[column_client[j]] -= 1.0
        for p in range(n):
            direction[p] = 0.7 * direction[p] + 0.3 * slope[p]
            square += direction[p] * direction[p]
        if square == 0.0:
            break
        step = factor * (upper - value) / square
        for p in range(n):
            v[p] = min(max(v[p] + step * direction[p], 0.0), alone[p])
    return best
