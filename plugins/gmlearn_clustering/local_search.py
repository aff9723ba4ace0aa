"""Minimise E(Q) by local search: greedy and dual starts, add/drop/swap descent, kicks and
restarts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gmlearn_clustering.dual_bound import dual_prices, price_bound
from gmlearn_clustering.facility import FacilityProblem

#: exemplars that a client's row reaches to while kicking
_N_NEAREST = 4
#: relative duality gap at which a solution counts as proved optimal
_PROVED = 1e-9
#: kicks of one stage at most
_MOST = 3000
#: relative improvement of a stage that makes another one worth while
_PAYS = 1e-5
#: kicks between two refreshments of the core problem
_STAGE = 1000
#: kicks between two looks at the clock
_KICKS_AT_ONCE = 64
#: up to this number of points one start and one core problem are enough
_SMALL = 500


def kicks_in_vain(n_candidates: int) -> int:
    """After how many kicks in a row without improvement a search ends: 60, and three for every two
    candidates.

    A kick opens one or two candidates, so each of them is tried about twice.
    """
    return 60 + 3 * n_candidates // 2


def local_search(
    problem: FacilityProblem,
    n_kicks: int | None = None,
    n_restarts: int = 1,
    seed: int = 0,
    stop: Callable[[], bool] | None = None,
    initial: np.ndarray | None = None,
) -> np.ndarray:
    """A low-energy exemplar set.

    Two starts, greedy and the exemplars that the dual prices favour, descend by add, drop and swap
    moves. The better one is kicked (some exemplars near a random point are exchanged) and descends
    again, on the part of the problem that matters: candidates of small reduced fee under the dual
    prices, and entries within reach of the nearest exemplars. What no longer improves there is
    polished on the whole problem.

    Parameters
    ----------
    problem : from `facility_problem`.
    n_kicks : perturbations per restart; None: until `kicks_in_vain` of them in a row, or a proof
        that nothing is better.
    n_restarts : the first starts as said, the others from random sets of the greedy one's size.
    seed : of the kicks and random starts; the same seed gives the same answer, ties go to the
        lowest index.
    stop : asked every `_KICKS_AT_ONCE` kicks whether to end; None: never.
    initial : exemplars (K,) to start from instead of greedy ones.

    Returns
    -------
    exemplars : (K,) ascending point indices.
    """
    from gmlearn_clustering import _local_search_numba as kernels

    if initial is None:
        greedy = kernels.greedy(*problem.arrays, -1)
    else:
        greedy = problem.always_open.copy()
        greedy[initial] = np.isfinite(problem.fee[initial])
    random = np.random.default_rng(seed)
    candidates = np.flatnonzero(np.isfinite(problem.fee))
    best, best_cost = greedy, np.inf
    for restart in range(n_restarts):
        is_open = greedy.copy()
        if restart > 0:
            if stop and stop():
                break
            is_open = problem.always_open.copy()
            is_open[random.choice(candidates, size=max(1, int(greedy.sum())), replace=False)] = True
        if n_kicks != 0:
            dual_start = restart == 0 and initial is None
            _kicked(problem, is_open, n_kicks, seed + 7919 * restart, dual_start, stop)
        cost = kernels.search(*problem.arrays, is_open, 0, 0, False, True, seed)
        if cost < best_cost:
            best, best_cost = is_open, cost
    return np.flatnonzero(best)


def search_of_number(
    problem: FacilityProblem,
    exemplars: np.ndarray,
    n_clusters: int,
    seed: int = 0,
    n_kicks: int = 30,
) -> np.ndarray:
    """Exactly `n_clusters` exemplars of low energy, from a set (K,) of about as many, or none.

    The set grows or shrinks by one exemplar at a time, each the best, then swaps until none
    improves, with a few kicks.
    """
    from gmlearn_clustering import _local_search_numba as kernels

    fee, alone, _, rows, columns = problem.arrays
    is_open = np.zeros(problem.n_points, dtype=bool)
    is_open[exemplars] = True
    if len(exemplars) < n_clusters:
        is_open = kernels.greedy(fee, alone, is_open, rows, columns, n_clusters)
    kernels.shrink(*problem.arrays, is_open, n_clusters)
    kernels.search(*problem.arrays, is_open, n_kicks, n_kicks, True, True, seed)
    return np.flatnonzero(is_open)


def kicked_exemplars(
    problem: FacilityProblem,
    exemplars: np.ndarray,
    n_kicks: int,
    seed: int = 0,
    stop: Callable[[], bool] | None = None,
) -> np.ndarray:
    """The descent from a set (K,), and `n_kicks` kicks on the whole problem; no dual prices."""
    from gmlearn_clustering import _local_search_numba as kernels

    is_open = problem.always_open.copy()
    is_open[exemplars] = True
    kernels.search(*problem.arrays, is_open, 0, 0, False, False, seed)
    if n_kicks > 0 and not (stop and stop()):
        _search_until(stop, problem, is_open, n_kicks, n_kicks, seed)
    return np.flatnonzero(is_open)


def _kicked(
    problem: FacilityProblem,
    is_open: np.ndarray,
    n_kicks: int | None,
    seed: int,
    dual_start: bool,
    stop: Callable[[], bool] | None,
) -> None:
    """Improve `is_open` in place by kicks, in stages; each stage works on a core problem around the
    present set.

    Of a large problem both starts are kicked. The exemplars of all solutions seen are candidates of
    later stages, which can so put together what was good in each.
    """
    from gmlearn_clustering import _local_search_numba as kernels

    large = problem.n_points > _SMALL
    n_rounds = 40 + problem.n_points // 10
    # a short search does not repay good prices or a second core
    brief = n_kicks is not None and n_kicks < n_rounds
    done = 0
    stage = 0
    best = np.inf
    price = None
    seen = np.zeros(problem.n_points, dtype=bool)
    while done < n_kicks if n_kicks is not None else large or stage == 0:
        cost = kernels.search(*problem.arrays, is_open, 0, 0, False, False, seed)
        if stop and stop():
            return
        if n_kicks is None and cost > best - _PAYS * abs(best):
            return
        if stage == 0 or large:
            full = n_rounds if stage == 0 else n_rounds // 4
            rounds = n_kicks if n_kicks is not None and brief else full
            price = dual_prices(problem, cost + problem.offset, rounds, start=price, stop=stop)
            bound, reduced_fee = price_bound(problem, price)
        starts = [(cost, is_open)]
        if stage == 0 and dual_start:
            starts = sorted(
                [*starts, _dual_start(problem, reduced_fee)], key=lambda start: start[0]
            )
            starts = starts if n_kicks is None and large else starts[:1]
        best = starts[0][0]
        now = _MOST
        if n_kicks is not None:
            # a second stage sees more candidates
            now = n_kicks if brief else min(_STAGE, n_kicks - done, -(-n_kicks // 2))
        ends = []
        for cost, start in starts:
            seen |= start
            room = cost + problem.offset - bound
            if room > _PROVED * max(1.0, abs(cost)):
                core = _core(
                    problem,
                    start,
                    seen,
                    np.where(reduced_fee <= room, reduced_fee, np.inf),
                    width=2 + 2 * stage,
                )
                patience = (
                    kicks_in_vain(int(np.isfinite(core.fee).sum())) if n_kicks is None else now
                )
                cost = _search_until(stop, core, start, now, patience, seed + stage)
            seen |= start
            ends.append(cost)
        is_open[:] = starts[int(np.argmin(ends))][1]
        done, stage = done + now, stage + 1


def _search_until(
    stop: Callable[[], bool] | None,
    problem: FacilityProblem,
    is_open: np.ndarray,
    n_kicks: int,
    patience: int,
    seed: int,
) -> float:
    """`kernels.search` with kicks, in portions between which `stop` is asked; the final cost."""
    from gmlearn_clustering import _local_search_numba as kernels

    at_once = n_kicks if stop is None else _KICKS_AT_ONCE
    cost, in_vain = np.inf, 0
    for done in range(0, n_kicks, at_once):
        before = cost
        cost = kernels.search(
            *problem.arrays, is_open, at_once, patience, False, False, seed + done
        )
        in_vain = 0 if cost < before else in_vain + at_once
        if in_vain >= patience or (stop and stop()):
            break
    return cost


def _dual_start(problem: FacilityProblem, reduced_fee: np.ndarray) -> tuple[float, np.ndarray]:
    """The descent from the exemplars that pay for themselves under the dual prices: its cost and
    its set.
    """
    from gmlearn_clustering import _local_search_numba as kernels

    is_open = (reduced_fee <= 0.0) | problem.always_open
    return kernels.search(*problem.arrays, is_open, 0, 0, False, False, 0), is_open


def _core_size(n_points: int, n_clusters: int, width: int) -> int:
    """The number of candidates of a core problem with `width` of them a cluster, and a twelfth
    of the points.
    """
    return min(n_points, 8 + width * n_clusters + n_points // 12)


def _core(
    problem: FacilityProblem,
    is_open: np.ndarray,
    seen: np.ndarray,
    reduced_fee: np.ndarray,
    width: int,
) -> FacilityProblem:
    """The candidates and entries that solutions better than `is_open` are likely to use: `width`
    candidates a cluster.

    Those of least reduced fee; +inf excludes a candidate unless it was `seen` in a solution. Rows
    end at the nearest exemplars.
    """
    from gmlearn_clustering import _local_search_numba as kernels

    n_candidates = _core_size(problem.n_points, int(is_open.sum()), width)
    least = np.argsort(reduced_fee, kind="stable")[:n_candidates]
    likely = seen.copy()
    likely[least[np.isfinite(reduced_fee[least])]] = True
    near_enough = kernels.within_reach(problem.row_start, problem.row_exemplar, is_open, _N_NEAREST)
    return problem.subproblem(near_enough, likely)
