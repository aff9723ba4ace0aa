"""A lower bound of min E(Q) by our own dual ascent, and what it proves about single assignments."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gmlearn_clustering.facility import FacilityProblem

#: subgradient rounds between two looks at the clock
_ROUNDS_AT_ONCE = 50


def dual_prices(
    problem: FacilityProblem,
    upper: float,
    n_rounds: int = 300,
    rel_tol: float = 1e-9,
    start: np.ndarray | None = None,
    stop: Callable[[], bool] | None = None,
) -> np.ndarray:
    """Prices v (N,) of the assignment constraints that make the Lagrangian bound L(v) high.

    L(v) = sum_p v_p + sum_q min(0, f_q - sum_p max(v_p - c_pq, 0)) bounds the minimum from below
    for every v and its maximum is the linear-programming bound. Dual ascent first, then subgradient
    rounds that aim at `upper`; each costs O(entries cheaper than their price), a small part of N^2.

    Parameters
    ----------
    upper : the energy of a known solution (offset included).
    start : prices to improve (N,), instead of those of a dual ascent.
    stop : asked every `_ROUNDS_AT_ONCE` rounds whether to end; None: never.
    """
    from gmlearn_clustering import _dual_bound_numba as kernels

    _, _, _, rows, columns = problem.arrays
    price = kernels.ascent(problem.fee, problem.alone, *rows, 50) if start is None else start.copy()
    at_once = n_rounds if stop is None else _ROUNDS_AT_ONCE
    while n_rounds > 0 and not (stop and stop()):
        kernels.subgradient(
            price,
            problem.fee,
            problem.alone,
            rows,
            columns,
            upper - problem.offset,
            min(at_once, n_rounds),
            rel_tol,
        )
        n_rounds -= at_once
    return price


def price_bound(problem: FacilityProblem, price: np.ndarray) -> tuple[float, np.ndarray]:
    """The bound L(v) + offset <= min E, and the reduced fees f_q - sum_p max(v_p - c_pq, 0),
    shape (N,).
    """
    from gmlearn_clustering import _dual_bound_numba as kernels

    price = np.minimum(price, problem.alone)
    reduced_fee = np.empty(problem.n_points)
    value = kernels.lagrangian(
        price, problem.fee, problem.row_start, problem.row_exemplar, problem.row_cost, reduced_fee
    )
    return float(value + problem.offset), reduced_fee


def reduce_problem(problem: FacilityProblem, price: np.ndarray, upper: float) -> FacilityProblem:
    """Drop the assignments that no solution of energy below `upper` can use; the minimum (if below)
    is unchanged.

    Using x_pq costs at least max(reduced fee of q, 0) + max(c_pq - v_p, 0) above L(v).
    """
    bound, reduced_fee = price_bound(problem, price)
    room = (upper - bound) + 1e-9 * max(1.0, abs(upper))
    surplus = np.maximum(reduced_fee, 0.0)
    client = problem.row_client
    excess = surplus[problem.row_exemplar] + np.maximum(problem.row_cost - price[client], 0.0)
    own = problem.row_exemplar == client  # x_qq is the opening itself, whatever the price of q
    return problem.subproblem(own | (excess <= room), surplus <= room)
