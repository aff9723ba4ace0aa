"""A given number of exemplars: the penalty at which about as many come out, then swaps.

The number k of exemplars of the penalised optimum falls as the penalty grows, in steps that may
leave out some numbers (the optimal sums of distances are not convex in k). So the penalty is only
sought until it is close: k is then held and exemplars are swapped. The bound of the penalised
energy at that penalty bounds the sum of distances of every set of k exemplars.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gmlearn as gm
from gmlearn_clustering.energy import assign, check_costs, exemplar_energy, with_penalty
from gmlearn_clustering.facility import FacilityProblem, facility_problem
from gmlearn_clustering.local_search import local_search, search_of_number
from gmlearn_clustering.potentials import exemplar_model
from gmlearn_clustering.solver import as_result

#: penalties tried at most
_TRIES = 8
#: how far from the wanted number is close enough
_CLOSE = 0.03
#: how far above the first guess the range of penalties begins
_ABOVE = 3.0


def solve_for_number(
    distances: np.ndarray, n_clusters: int, solve: Callable[[float], gm.Result], seed: int = 0
) -> tuple[float, gm.Result]:
    """Exactly `n_clusters` exemplars of a small sum of distances, and a uniform penalty at which
    about as many are best.

    Parameters
    ----------
    distances : (N, N).
    solve : penalty -> the minimum of the penalised energy.

    Returns
    -------
    penalty : a value of d_qq.
    result : labels with `n_clusters` exemplars, their energy at `penalty`, and the bound of the
        penalised minimum.
    """
    gm.check_number("n_clusters", n_clusters, low=1, high=len(distances), integer=True)
    least = float(with_penalty(distances, np.inf).min())
    if n_clusters == len(distances):  # at the least distance everybody is an exemplar
        penalty = least if np.isfinite(least) else 0.0
        return penalty, solve(penalty)
    whole, penalty = _close_penalty(distances, n_clusters, least, seed)
    costs = with_penalty(distances, penalty)
    result = solve(penalty)
    exemplars = np.unique(result.labels)
    if len(exemplars) == n_clusters:
        return penalty, result
    exemplars = search_of_number(whole, exemplars, n_clusters, seed)
    if np.isinf(exemplar_energy(costs, exemplars)):
        # forbidden distances: nobody may be left without an exemplar, at whatever price
        strict = facility_problem(costs, prune=False)
        exemplars = search_of_number(strict, exemplars, n_clusters, seed)
    energy = exemplar_energy(costs, exemplars)
    if len(exemplars) != n_clusters or np.isinf(energy):
        raise ValueError(
            f"n_clusters: found no allowed clustering with {n_clusters} exemplars (forbidden "
            f"distances)"
        )
    return penalty, as_result(assign(costs, exemplars), energy, result.bound)


def exemplars_of_number(
    distances: np.ndarray, n_clusters: int, n_kicks: int | None = None, seed: int = 0
) -> tuple[float, np.ndarray]:
    """A uniform penalty at which about `n_clusters` are best, and exactly so many exemplars.

    Parameters
    ----------
    distances : (N, N); the diagonal is ignored.   n_kicks, seed : as in `minimise_exemplars`.

    Returns
    -------
    penalty : a value of d_qq; exemplars : (n_clusters,) ascending.
    """
    distances = check_costs("distances", distances)

    def solve(penalty: float) -> gm.Result:
        model = exemplar_model(distances, penalty)
        effort: dict[str, Any] = {"method": "local", "n_kicks": n_kicks, "n_bound_rounds": 0}
        return gm.solve(model, solver="exemplar", seed=seed, **effort)

    penalty, result = solve_for_number(distances, n_clusters, solve, seed)
    return penalty, np.unique(result.labels)


def _close_penalty(
    distances: np.ndarray, n_clusters: int, least: float, seed: int
) -> tuple[FacilityProblem, float]:
    """A problem at a penalty that gives fewer exemplars than wanted, and the penalty that comes
    closest.

    The number is about a power of (penalty - `least` distance), hence interpolation between
    logarithms. Numbers come from descents without kicks.
    """
    guess = _guessed_price(distances, n_clusters, least, seed)
    top = _ABOVE * guess
    whole = facility_problem(with_penalty(distances, least + top))
    numbers: dict[float, int] = {}
    trial = np.log(guess)
    for _ in range(_TRIES):
        if np.exp(trial) > top:
            top = _ABOVE * np.exp(trial)
            whole = facility_problem(with_penalty(distances, least + top))
        exemplars = local_search(whole.at_penalty(least + np.exp(trial)), 0, seed=seed)
        numbers[trial] = len(exemplars)
        closest = min(numbers, key=lambda t: abs(numbers[t] - n_clusters))
        if abs(numbers[closest] - n_clusters) <= _CLOSE * n_clusters:
            break
        low = max((t for t in numbers if numbers[t] > n_clusters), default=None)
        high = min((t for t in numbers if numbers[t] <= n_clusters), default=None)
        if low is None or high is None:
            # about a power: the number falls by a third to a half where the price doubles
            excess = np.log(numbers[closest] / n_clusters)
            trial = closest + 1.5 * excess + np.copysign(0.1, excess)
        else:
            share = np.log(numbers[low] / n_clusters) / np.log(numbers[low] / numbers[high])
            trial = low + min(max(share, 0.1), 0.9) * (high - low)
    return whole, least + float(np.exp(closest))


def _guessed_price(distances: np.ndarray, n_clusters: int, least: float, seed: int) -> float:
    """What the k-th exemplar saves if each is drawn in proportion to the distance from those before
    (as k-means++ does); O(N k).
    """
    random = np.random.default_rng(seed)
    saved = np.zeros(n_clusters + 1)
    cost = np.full(len(distances), np.inf)
    chosen = 0
    for k in range(n_clusters + 1):
        column = distances[:, chosen] - least
        column[chosen] = 0.0
        nearer = np.minimum(cost, column)
        finite = np.isfinite(cost)
        saved[k] = (cost[finite] - nearer[finite]).sum()
        cost = nearer
        reach = np.cumsum(np.where(np.isfinite(cost), cost, 0.0))
        if reach[-1] <= 0.0:
            break
        chosen = min(int(np.searchsorted(reach, random.random() * reach[-1])), len(cost) - 1)
    return max(float(saved[-(n_clusters // 3 + 1) :].mean()), 1e-12 * max(1.0, abs(least)))
