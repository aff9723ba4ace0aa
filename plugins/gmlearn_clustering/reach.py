"""Large sets: the problem of all pairs that can matter, and a bound that holds for every pair.

With an exemplar set at hand, every point p gets a reach r_p, somewhat more than the distance to its
second nearest exemplar. The Lagrangian bound

    L(v) = sum_p v_p + sum_q min(0, f_q - sum_p max(v_p - d_pq, 0))

looks at pairs of d_pq < v_p only. So where prices v_p <= r_p are sought, the pairs within reach
give the very bound of all N^2 pairs. At an optimum whose bound is tight no v_p exceeds the distance
to the second nearest exemplar: else p would pay for two of them. Over the same pairs exemplars are
added, dropped and swapped. A smaller reach costs tightness, never validity, so the number of pairs
can be bounded.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

import numpy as np

import gmlearn as gm
from gmlearn_clustering.dual_bound import dual_prices, price_bound
from gmlearn_clustering.facility import FacilityProblem, facility_problem
from gmlearn_clustering.local_search import kicked_exemplars, local_search
from gmlearn_clustering.metrics import squared_euclidean
from gmlearn_clustering.solver import ExemplarSolver, as_result
from gmlearn_clustering.sparse import (
    BLOCK,
    draw_landmarks,
    nearest_exemplars,
    neighbour_costs,
)

#: pairs that are kept at most, 28 bytes each
_MOST_PAIRS = 30_000_000
#: points of which the pairs are counted to foresee how many there are in all
_N_COUNTED = 200
#: reaches over the distances to the second nearest exemplar: while searching, and for the bound
SEARCH_REACH, BOUND_REACH = 1.1, 1.25
#: searches at most, and the relative improvement after which another one is made
_MOST_ROUNDS, _PAYS = 4, 2e-3
#: kicks of a search, and rounds of the bound
_N_KICKS, _N_BOUND_ROUNDS = 300, 300


def minimise_on_points(
    X: np.ndarray,
    penalty: float | np.ndarray,
    n_neighbors: int,
    n_kicks: int | None = None,
    n_restarts: int = 1,
    time_limit: float | None = None,
    seed: int = 0,
) -> gm.Result:
    """`minimise_exemplars` of the squared Euclidean distances of many points, without all of them.

    A first exemplar set is found on a neighbour graph. Then, in turns, the pairs within reach of
    the present set are listed and a better set is sought among them. Energy and bound are those of
    all pairs. Memory O(pairs), which are bounded; at worst O(N^2 D) time.

    Parameters
    ----------
    X : (N, D).   penalty : d_qq, a number or (N,).   n_neighbors : of the first graph.
    n_kicks, n_restarts, time_limit, seed : as in `minimise_exemplars`.
    """
    end = None if time_limit is None else time.perf_counter() + time_limit

    def stop() -> bool:
        return end is not None and time.perf_counter() >= end

    penalties = np.broadcast_to(np.asarray(penalty, dtype=np.float64), (len(X),))
    if not np.isfinite(penalties).any():
        nobody = np.full(len(X), -1)
        return gm.Result(nobody, np.inf, np.inf, gm.Status.INFEASIBLE, ExemplarSolver.name)
    costs = neighbour_costs(X, penalties, n_neighbors, draw_landmarks(X, seed))
    exemplars = local_search(facility_problem(costs), n_kicks=0)
    del costs
    labels, energy = _assigned(X, penalties, exemplars)
    kicks = _N_KICKS if n_kicks is None else n_kicks
    before = np.inf
    for _ in range(_MOST_ROUNDS):
        if stop() or energy > before - _PAYS * abs(energy):
            break
        before = energy
        _, problem = _listed(X, penalties, exemplars, SEARCH_REACH, seed)
        exemplars = kicked_exemplars(problem, exemplars, 0)
        labels, energy = _assigned(X, penalties, exemplars)
    reach, problem = _listed(X, penalties, exemplars, BOUND_REACH, seed)
    for restart in range(n_restarts):
        other = kicked_exemplars(problem, exemplars, kicks, seed + restart, stop)
        found = _assigned(X, penalties, other)
        if found[1] < energy:
            labels, energy = found
    bound = bound_within(problem, reach, energy, _N_BOUND_ROUNDS, stop)
    return as_result(labels, energy, bound)


def _listed(
    X: np.ndarray, penalty: np.ndarray, exemplars: np.ndarray, factor: float, seed: int
) -> tuple[np.ndarray, FacilityProblem]:
    """The reach of every point (N,), and the problem of the pairs within it."""
    reach = reach_of(X, penalty, exemplars, factor, seed)
    return reach, problem_within(X, penalty, reach, X[exemplars])


def _assigned(
    X: np.ndarray, penalty: np.ndarray, exemplars: np.ndarray
) -> tuple[np.ndarray, float]:
    """The nearest exemplar of every point (N,), and E(Q) over all pairs."""
    nearest, value = nearest_exemplars(X, X[exemplars], squared_euclidean)
    nearest[exemplars] = np.arange(len(exemplars))
    value[exemplars] = penalty[exemplars]
    return exemplars[nearest], float(value.sum())


def reach_of(
    X: np.ndarray, penalty: np.ndarray, exemplars: np.ndarray, factor: float, seed: int = 0
) -> np.ndarray:
    """(N,) `factor` times the squared distance to the second nearest exemplar, at most the penalty;
    all lowered by one factor where that were more than `_MOST_PAIRS` pairs.
    """
    second = np.full(len(X), np.inf)
    if len(exemplars) > 1:
        step = max(1, BLOCK // len(exemplars))
        for start in range(0, len(X), step):
            block = squared_euclidean(X[start : start + step], X[exemplars])
            second[start : start + step] = np.partition(block, 1, axis=1)[:, 1]
    reach = np.maximum(np.minimum(factor * second, penalty), 0.0)
    some = np.random.default_rng(seed).permutation(len(X))[:_N_COUNTED]
    most = int(_MOST_PAIRS * len(some) / len(X))
    near = np.empty(0)
    for p in some[reach[some] > 0.0]:
        share = squared_euclidean(X[p : p + 1], X)[0] / max(reach[p], 1e-300)
        near = np.concatenate([near, share[share < 1.0]])
        if len(near) > 2 * most:
            near = np.partition(near, most)[: most + 1]
    return reach if len(near) <= most else reach * float(np.sort(near)[most])


def problem_within(
    X: np.ndarray, penalty: np.ndarray, reach: np.ndarray, centres: np.ndarray
) -> FacilityProblem:
    """The pairs of squared distance below the reach of the first point, as facility location;
    `centres` (C, D) only make the search fast. O(pairs) memory, at worst O(N^2 D) time.
    """
    from gmlearn_clustering import _facility_numba, _reach_numba

    n = len(X)
    may_open = np.isfinite(penalty)
    # large differences first: sums pass the reach sooner
    X, centres = (
        np.ascontiguousarray(rows[:, np.argsort(-X.var(axis=0))]) for rows in (X, centres)
    )
    cell = nearest_exemplars(X, centres, squared_euclidean)[0]
    away = np.sqrt(((X - centres[cell]) ** 2).sum(axis=1))
    order = np.lexsort((away, cell))
    first = np.searchsorted(cell[order], np.arange(len(centres) + 1))
    points = X, centres, order, first, away[order]
    rows = _reach_numba.rows_within(reach, points, may_open)
    columns = _facility_numba.transposed(n, *rows)
    fee = np.maximum(penalty, 0.0)
    big = 1.0 + 2.0 * (reach.sum() + fee[may_open].sum())
    offset = float(np.minimum(penalty, 0.0).sum())
    alone = np.where(may_open, fee, big)
    return FacilityProblem(fee, alone, np.zeros(n), offset, penalty <= 0.0, *rows, *columns)


def bound_within(
    problem: FacilityProblem,
    reach: np.ndarray,
    upper: float,
    n_rounds: int = 300,
    stop: Callable[[], bool] | None = None,
) -> float:
    """A lower bound of min E(Q) over *all* pairs from those within reach; `upper` is a known E."""
    limited = dataclasses.replace(problem, alone=np.minimum(problem.alone, reach))
    prices = dual_prices(limited, upper, n_rounds, stop=stop)
    return price_bound(limited, prices)[0]
