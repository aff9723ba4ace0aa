"""Minimise E(Q): one call that gives exemplars, energy and a lower bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse

import gmlearn as gm
from gmlearn_clustering.dual_bound import dual_prices, price_bound
from gmlearn_clustering.energy import assign, check_costs, exemplar_energy, with_penalty
from gmlearn_clustering.exact import exact_exemplars
from gmlearn_clustering.facility import facility_problem
from gmlearn_clustering.local_search import local_search

SOLVERS = ("auto", "local", "exact")


@dataclass(frozen=True)
class ExemplarSolution:
    """Exemplars (K,), the exemplar of every point (N,), energy >= minimum >= lower_bound, and the
    dual prices v (N,) of the assignments in the units of the costs."""

    exemplars: np.ndarray
    assignment: np.ndarray
    energy: float
    lower_bound: float
    prices: np.ndarray

    @property
    def gap(self) -> float:
        """(energy - lower_bound) / max(|energy|, |lower_bound|); 0 if both are 0."""
        scale = max(abs(self.energy), abs(self.lower_bound))
        return (self.energy - self.lower_bound) / scale if scale > 0 else 0.0


def minimise_exemplars(
    costs: np.ndarray | scipy.sparse.sparray,
    solver: str = "auto",
    n_kicks: int | None = None,
    n_restarts: int = 1,
    n_bound_rounds: int = 300,
    time_limit: float | None = None,
    seed: int = 0,
) -> ExemplarSolution:
    """Minimise E(Q) = sum over p not in Q of min over q in Q of d_pq + sum over q in Q of d_qq.

    Parameters
    ----------
    costs : (N, N) d_pq with the penalties d_qq on the diagonal. Any signs, asymmetric allowed, +inf forbids (on the
        diagonal: q may not be an exemplar). A scipy sparse array is a neighbour graph: absent entries are forbidden,
        memory is O(entries), every diagonal entry must be stored.
    solver : "local" (compiled local search and dual bound), "exact" (HiGHS after a dual reduction; seconds up to
        N = 150 on clustered data, longer without structure), "auto": local, then exact if N <= 40 and a gap is left.
    n_kicks, n_restarts, seed : of the local search.
    n_bound_rounds : subgradient rounds of the lower bound.
    time_limit : seconds for the exact solver.
    """
    gm.check_choice("solver", solver, SOLVERS)
    if not scipy.sparse.issparse(costs):
        costs = check_costs("costs", costs)
    problem = facility_problem(costs)
    everyone = np.flatnonzero(np.isfinite(problem.fee))
    if np.isinf(exemplar_energy(costs, everyone)):
        raise ValueError(
            "costs: some point has only forbidden (+inf) exemplars, so no clustering has a finite energy"
        )
    exemplars = local_search(problem, n_kicks, n_restarts, seed=seed)
    energy = exemplar_energy(costs, exemplars)
    prices = dual_prices(problem, energy, n_rounds=n_bound_rounds)
    bound = price_bound(problem, prices)[0]
    unproved = energy - bound > 1e-9 * max(1.0, abs(energy))
    if solver == "exact" or (solver == "auto" and unproved and len(prices) <= 40):
        exemplars, proved = exact_exemplars(problem, exemplars, time_limit)
        energy, bound = exemplar_energy(costs, exemplars), max(bound, proved)
    return ExemplarSolution(
        exemplars, assign(costs, exemplars), energy, min(bound, energy), prices + problem.shift
    )


def exemplars_of_number(
    distances: np.ndarray, n_clusters: int, n_kicks: int | None = None, seed: int = 0
) -> tuple[float, np.ndarray]:
    """A uniform penalty and exactly `n_clusters` exemplars that minimise the sum of distances.

    The number of exemplars falls as the penalty grows: bisection finds a penalty at which the minimiser of E has the
    wanted number. Numbers that no penalty gives (the optimal sums are not convex in k) are reached by local search
    over swaps at the penalty where the number jumps.

    Returns
    -------
    penalty : a value of d_qq; exemplars : (n_clusters,) ascending.
    """
    n = len(distances)
    gm.check_number("n_clusters", n_clusters, low=1, high=n, integer=True)
    finite = distances[np.isfinite(distances)]
    low, high = min(0.0, float(finite.min())) - 1.0, float(np.abs(finite).max()) * n + 1.0
    penalty = float(np.median(finite)) * n / (4.0 * n_clusters**2) if n_clusters < n else low
    whole = facility_problem(with_penalty(distances, high))
    for _ in range(40):
        exemplars = local_search(whole.at_penalty(penalty), n_kicks, seed=seed)
        if len(exemplars) == n_clusters:
            return penalty, exemplars
        low, high = (penalty, high) if len(exemplars) > n_clusters else (low, penalty)
        if high - low <= 1e-6 * max(abs(low), abs(high)):
            break
        # numbers of clusters vary over orders of magnitude of the penalty: halve the logarithm where both ends allow
        penalty = (
            np.sqrt(low * high)
            if low > 0
            else (high / 8.0 if high > 1e-6 and low < 0 <= high else 0.5 * (low + high))
        )
    # with a fixed number the penalty is a constant; a large one keeps every fee positive
    problem = facility_problem(with_penalty(distances, float(finite.max()) + 1.0), prune=False)
    exemplars = local_search(problem, n_kicks, n_clusters=n_clusters, seed=seed)
    if np.isinf(exemplar_energy(with_penalty(distances, penalty), exemplars)):
        raise ValueError(
            f"n_clusters: found no allowed clustering with {n_clusters} exemplars (forbidden distances)"
        )
    return float(penalty), exemplars
