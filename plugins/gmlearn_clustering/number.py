"""A given number of exemplars: swaps, the price at which as many are best, and the proof.

The number k of exemplars of the penalised optimum falls as the penalty grows, in steps that may
leave out some numbers (the optimal sums of distances are not convex in k). So k exemplars are
found first, greedily and by swaps; what one more would save and one less would cost give a penalty
at which about k are best. The optimum there is sought, and brought to k exemplars if it has another
number. Its bound bounds the sum of distances of every set of k exemplars.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import gmlearn as gm
from gmlearn_clustering.energy import assign, check_costs, exemplar_energy, with_penalty
from gmlearn_clustering.facility import FacilityProblem, facility_problem
from gmlearn_clustering.local_search import search_of_number
from gmlearn_clustering.potentials import exemplar_model
from gmlearn_clustering.solver import as_result

#: how far above the first guess entries are kept
_ABOVE = 1.5


class OfNumber(NamedTuple):
    """A value of d_qq; labels with the wanted number of exemplars, their energy at that penalty and
    the bound of the penalised minimum; and by how much the energy exceeds the least that was found
    with any number.
    """

    penalty: float
    result: gm.Result
    excess: float


def solve_for_number(
    distances: np.ndarray, n_clusters: int, seed: int = 0, **effort: Any
) -> OfNumber:
    """Exactly `n_clusters` exemplars of a small sum of distances, and a uniform penalty at which
    about as many are best.

    Parameters
    ----------
    distances : (N, N).
    effort : settings of ``gm.solve`` at the penalty.
    """
    gm.check_number("n_clusters", n_clusters, low=1, high=len(distances), integer=True)
    least = float(with_penalty(distances, np.inf).min())
    if n_clusters == len(distances):  # at the least distance everybody is an exemplar
        penalty = least if np.isfinite(least) else 0.0
        everybody = np.arange(n_clusters)
        total = n_clusters * penalty
        return OfNumber(penalty, as_result(everybody, total, total), 0.0)
    whole, penalty, initial = _problem_and_price(distances, n_clusters, least, seed)
    costs = with_penalty(distances, penalty)
    # the distances are sorted already
    effort["problem"] = whole.at_penalty(penalty)
    labels = assign(costs, initial)
    if labels.min() >= 0:
        effort["initial"] = labels
    found = gm.solve(exemplar_model(distances, penalty), solver="exemplar", seed=seed, **effort)
    if found.status == gm.Status.INFEASIBLE:
        return OfNumber(penalty, found, 0.0)
    exemplars = np.unique(found.labels)
    if len(exemplars) != n_clusters:
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
    excess = max(energy - found.energy, 0.0)
    return OfNumber(penalty, as_result(assign(costs, exemplars), energy, found.bound), excess)


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
    found = solve_for_number(
        distances, n_clusters, seed, method="local", n_kicks=n_kicks, n_bound_rounds=0
    )
    return found.penalty, np.unique(found.result.labels)


def _problem_and_price(
    distances: np.ndarray, n_clusters: int, least: float, seed: int
) -> tuple[FacilityProblem, float, np.ndarray]:
    """A problem at a penalty that gives fewer exemplars than wanted, a penalty at which about as
    many as wanted are best, and so many exemplars, good ones.
    """
    # forbidden distances (+inf) count as twice the largest
    above = distances - least
    finite = np.isfinite(above)
    if not finite.all():
        above = np.where(finite, above, 2.0 * above[finite].max(initial=0.0))
    smallest = 1e-12 * max(1.0, abs(least))
    top = _ABOVE * max(_guessed_price(above, n_clusters, seed), smallest)
    whole = facility_problem(with_penalty(distances, least + top))
    exemplars = search_of_number(whole, np.zeros(0, dtype=np.int64), n_clusters, seed, n_kicks=0)
    price = max(_marginal_price(above, exemplars), smallest)
    if price > top:
        whole = facility_problem(with_penalty(distances, least + _ABOVE * price))
    return whole, least + price, exemplars


def _marginal_price(distances: np.ndarray, exemplars: np.ndarray) -> float:
    """Halfway between what another exemplar would save and what closing the least useful one would
    cost; O(N^2).
    """
    away = distances[:, exemplars]
    away[exemplars, np.arange(len(exemplars))] = 0.0
    nearest = away.argmin(axis=1)
    cost = away.min(axis=1)
    saved = np.maximum(cost[:, None] - distances, 0.0)
    np.fill_diagonal(saved, cost)
    gain = float(saved.sum(axis=0).max())
    if len(exemplars) == 1:
        return 1.5 * gain
    second = np.partition(away, 1, axis=1)[:, 1] - cost
    loss = float(np.bincount(nearest, second, len(exemplars)).min())
    return 0.5 * (gain + min(loss, 2.0 * gain))


def _guessed_price(distances: np.ndarray, n_clusters: int, seed: int) -> float:
    """What the k-th exemplar saves if each is drawn in proportion to the distance from those before
    (as k-means++ does); O(N k).
    """
    random = np.random.default_rng(seed)
    total = np.zeros(n_clusters + 1)
    cost = distances[:, 0].copy()
    cost[0] = 0.0
    for k, share in enumerate(random.random(n_clusters + 1)):
        reach = cost.cumsum()
        total[k] = reach[-1]
        chosen = min(int(reach.searchsorted(share * total[k])), len(cost) - 1)
        np.minimum(cost, distances[:, chosen], out=cost)
        cost[chosen] = 0.0
    return float(-np.diff(total)[-(n_clusters // 3 + 1) :].mean())
