"""Minimise E(Q) by local search: greedy start, add/drop/swap descent, kicks and restarts."""

from __future__ import annotations

import numpy as np

from gmlearn_clustering.dual_bound import dual_prices, price_bound
from gmlearn_clustering.facility import FacilityProblem

#: exemplars that a client's row reaches to while kicking
_N_NEAREST = 4
#: kicks between two refreshments of the core problem
_STAGE = 1000


def default_kicks(n_points: int, gap: float) -> int:
    """How many kicks a restart gets: the more points and the larger the relative duality gap, the more.

    At a gap of 1 % about 100 for 150 points, 600 for 2000 points; a fifth of that if the bound is nearly met.
    """
    return int(min(3000, 60 + 0.27 * n_points) * np.clip(gap / 0.01, 0.2, 1.2))


def local_search(problem: FacilityProblem, n_kicks: int | None = None, n_restarts: int = 1, n_clusters: int | None = None,
                 seed: int = 0) -> np.ndarray:
    """A low-energy exemplar set.

    After a greedy start and a descent by add, drop and swap moves the solution is kicked (some exemplars near a
    random point are exchanged) and descends again, on the part of the problem that matters: candidates of small
    reduced fee under the dual prices, and entries within reach of the five nearest exemplars. What no longer improves
    there is polished on the whole problem.

    Parameters
    ----------
    problem : from `facility_problem` (not pruned if `n_clusters` is given).
    n_kicks : perturbations per restart; None lets `default_kicks` choose by the duality gap.
    n_restarts : the first starts from the greedy solution, the others from random sets of its size.
    n_clusters : keep exactly this many exemplars (swaps only).
    seed : of the kicks and random starts; the same seed gives the same answer, ties go to the lowest index.

    Returns
    -------
    exemplars : (K,) ascending point indices.
    """
    from gmlearn_clustering import _local_search_numba as kernels

    fixed = n_clusters is not None
    greedy = kernels.greedy(*problem.arrays, n_clusters if fixed else -1)
    random = np.random.default_rng(seed)
    candidates = np.flatnonzero(np.isfinite(problem.fee))
    best, best_cost = greedy, np.inf
    for restart in range(n_restarts):
        is_open = greedy.copy()
        if restart > 0:
            is_open = problem.always_open.copy()
            is_open[random.choice(candidates, size=max(1, int(greedy.sum())), replace=False)] = True
            if fixed and is_open.sum() != n_clusters:
                is_open = greedy.copy()
        if n_kicks != 0:
            _kicked(problem, is_open, n_kicks, fixed, seed + 7919 * restart)
        cost = kernels.search(*problem.arrays, is_open, 0, fixed, True, seed)
        if cost < best_cost:
            best, best_cost = is_open, cost
    return np.flatnonzero(best)


def _kicked(problem: FacilityProblem, is_open: np.ndarray, n_kicks: int | None, fixed: bool, seed: int) -> None:
    """Improve `is_open` in place by kicks, in stages; each stage works on a core problem around the present set."""
    from gmlearn_clustering import _local_search_numba as kernels

    done, stage = 0, 0
    n_rounds = 40 + problem.n_points // 10
    brief = n_kicks is not None and n_kicks < n_rounds  # a short search does not repay good prices or a second core
    while n_kicks is None or done < n_kicks:
        cost = kernels.search(*problem.arrays, is_open, 0, fixed, False, seed)
        if stage == 0 or problem.n_points > 500:
            price = dual_prices(problem, cost + problem.offset, n_rounds=n_kicks if brief else n_rounds)
            bound, reduced_fee = price_bound(problem, price)
        if n_kicks is None:
            n_kicks = default_kicks(problem.n_points, 1.0 if fixed else (cost + problem.offset - bound) / max(cost, 1e-300))
        core = problem if fixed else _core(problem, is_open, reduced_fee, width=2 + 2 * stage)
        now = n_kicks if brief else min(_STAGE, n_kicks - done, -(-n_kicks // 2))  # a second stage sees more candidates
        kernels.search(*core.arrays, is_open, now, fixed, False, seed + stage)
        done, stage = done + now, stage + 1


def _core(problem: FacilityProblem, is_open: np.ndarray, reduced_fee: np.ndarray, width: int) -> FacilityProblem:
    """The candidates and entries that solutions better than `is_open` are likely to use; `width` candidates a cluster."""
    from gmlearn_clustering import _local_search_numba as kernels

    n_candidates = min(problem.n_points, 8 + width * int(is_open.sum()) + problem.n_points // 12)
    likely = is_open.copy()
    likely[np.argsort(reduced_fee, kind="stable")[:n_candidates]] = True
    likely &= np.isfinite(problem.fee)
    near_enough = kernels.within_reach(problem.row_start, problem.row_exemplar, is_open, _N_NEAREST)
    return problem.subproblem(near_enough, likely)
