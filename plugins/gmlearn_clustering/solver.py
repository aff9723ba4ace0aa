"""Minimise E(Q): the MAP solver of exemplar models, with exemplars, energy and a lower bound."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse

import gmlearn as gm
from gmlearn_clustering.dual_bound import dual_prices, price_bound
from gmlearn_clustering.energy import assign, check_costs, exemplar_energy
from gmlearn_clustering.exact import exact_exemplars
from gmlearn_clustering.facility import FacilityProblem, facility_problem
from gmlearn_clustering.local_search import local_search
from gmlearn_clustering.potentials import ExemplarBlock, exemplar_model, small_models

METHODS = ("auto", "local", "exact")
#: relative gap at which a solution counts as proved optimal
_PROVED = 1e-9


class Optimum(NamedTuple):
    """What `optimise` found: exemplars (K,), a lower bound of min E, and the dual prices v (N,) of
    the assignments in the units of the costs.
    """

    exemplars: np.ndarray
    bound: float
    prices: np.ndarray


def optimise(
    costs: np.ndarray | scipy.sparse.sparray,
    method: str = "auto",
    n_kicks: int | None = None,
    n_restarts: int = 1,
    n_bound_rounds: int = 300,
    seed: int = 0,
    time_left: Callable[[], float] | None = None,
    problem: FacilityProblem | None = None,
    initial: np.ndarray | None = None,
) -> Optimum | None:
    """Local search, dual bound, and integer programming where `method` says so; None if no
    clustering has a finite energy.

    Parameters
    ----------
    costs, method, n_kicks, n_restarts, n_bound_rounds, seed : as in `minimise_exemplars`.
    time_left : seconds left; None for no limit.
    problem : that of the costs, if it is known.   initial : exemplars (K,) to start from.
    """
    gm.check_choice("method", method, METHODS)
    stop = None if time_left is None else lambda: time_left() <= 0.0
    problem = facility_problem(costs) if problem is None else problem
    may_open = np.isfinite(problem.fee)
    if not may_open.all() and np.isinf(exemplar_energy(costs, np.flatnonzero(may_open))):
        return None
    exemplars = local_search(problem, n_kicks, n_restarts, seed, stop, initial)
    energy = exemplar_energy(costs, exemplars)
    prices = dual_prices(problem, energy, n_rounds=n_bound_rounds, stop=stop)
    bound = price_bound(problem, prices)[0]
    proved = energy - bound <= _PROVED * max(1.0, abs(energy))
    wanted = method == "exact" or (method == "auto" and len(prices) <= 40)
    if wanted and not proved and not (stop and stop()):
        limit = None if time_left is None else time_left()
        exemplars, exact_bound = exact_exemplars(problem, exemplars, limit)
        bound = max(bound, exact_bound)
    return Optimum(exemplars, bound, prices + problem.shift)


class ExemplarSolver(gm.MapSolver):
    """Local search and dual bound of the exemplar energy, exact for few points.

    For models of one exemplar block over all variables; unary costs (evidence too) join the
    distances. ``gm.solve`` with ``solver="auto"`` leaves such models to it. Settings: `method`,
    `n_kicks` (default: ``max_iter``), `n_restarts`, `n_bound_rounds`, see `minimise_exemplars`;
    `problem`, the `FacilityProblem` of the costs where it is known, for models without unary costs.
    With ``initial`` labels the search starts from their exemplars, not from greedy ones.
    """

    name = "exemplar"
    settings: ClassVar[tuple[str, ...]] = (
        "method",
        "n_kicks",
        "n_restarts",
        "n_bound_rounds",
        "problem",
    )

    def refuses(self, crf: gm.CRF) -> str | None:
        blocks: list[Any] = crf.clique_blocks
        alone = len(blocks) == 1 and isinstance(blocks[0], ExemplarBlock)
        if alone and len(blocks[0]) == 1 and crf.n_vars == blocks[0].sample.n_points:
            return None
        return "expected one exemplar block over all variables, and no other cliques"

    def claims(self, crf: gm.CRF, w: Mapping[str, np.ndarray]) -> bool:
        return self.refuses(crf) is None

    def run(self, problem: gm.Problem) -> None:
        crf, options = problem.crf, problem.options
        block: Any = crf.clique_blocks[0]
        costs = block.costs(problem.w)
        if crf.unary_blocks or crf.unary.any():
            costs += crf.unary_costs(problem.w).reshape(costs.shape)
        found = optimise(
            costs,
            options.get("method", "auto"),
            options.get("n_kicks", options.max_iter),
            options.get("n_restarts", 1),
            options.get("n_bound_rounds", 300),
            options.seed,
            None if options.time_limit is None else lambda: problem.time_left,
            options.get("problem", None),
            None if options.initial is None else np.unique(options.initial),
        )
        problem.iterations += 1
        if found is None:
            problem.raise_bound(np.inf)
        else:
            problem.offer(assign(costs, found.exemplars), "exemplars")
            problem.raise_bound(found.bound + crf.constant)

    def examples(self, rng: np.random.Generator) -> list[tuple[gm.CRF, dict[str, np.ndarray]]]:
        """Small models, free and with evidence."""
        made = small_models(rng)
        return [*made, *((crf.clamp({0: 1}), w) for crf, w in made)]


def minimise_exemplars(
    costs: np.ndarray | scipy.sparse.sparray,
    solver: str = "auto",
    n_kicks: int | None = None,
    n_restarts: int = 1,
    n_bound_rounds: int = 300,
    time_limit: float | None = None,
    seed: int = 0,
) -> gm.Result:
    """Minimise E(Q) = sum over p not in Q of min over q in Q of d_pq + sum over q in Q of d_qq.

    Parameters
    ----------
    costs : (N, N) d_pq with the penalties d_qq on the diagonal. Any signs, asymmetric allowed, +inf
        forbids (on the diagonal: q may not be an exemplar). A scipy sparse array is a neighbour
        graph: absent entries are forbidden,
        memory is O(entries), every diagonal entry must be stored.
    solver : "local" (compiled local search and dual bound), "exact" (HiGHS after a dual reduction;
        seconds up to N = 150 on clustered data, longer without structure), "auto": local, then
        exact if N <= 40 and a gap is left.
    n_kicks, n_restarts, seed : of the local search.
    n_bound_rounds : subgradient rounds of the lower bound.
    time_limit : seconds.

    Returns
    -------
    gm.Result : `labels` are the exemplars of the points (N,), gap = energy - bound. Dense costs are
        solved by ``gm.solve(exemplar_model(costs, penalty))``, sparse ones, for which a model would
        need N^2 numbers, by the same optimiser directly.
    """
    gm.check_choice("solver", solver, METHODS)
    effort: dict[str, Any] = {
        "method": solver,
        "n_kicks": n_kicks,
        "n_restarts": n_restarts,
        "n_bound_rounds": n_bound_rounds,
    }
    if scipy.sparse.issparse(costs):
        result = minimise_on_graph(costs, time_limit, seed=seed, **effort)
    else:
        costs = check_costs("costs", costs)
        model = exemplar_model(costs, np.diagonal(costs))
        result = gm.solve(model, solver="exemplar", time_limit=time_limit, seed=seed, **effort)
    if result.status == gm.Status.INFEASIBLE:
        raise ValueError(
            "costs: some point has only forbidden (+inf) exemplars, so no clustering has a finite "
            "energy"
        )
    return result


def minimise_on_graph(
    costs: scipy.sparse.sparray, time_limit: float | None = None, **effort: Any
) -> gm.Result:
    """`minimise_exemplars` of sparse costs; `effort` is that of `optimise`."""
    end = None if time_limit is None else time.perf_counter() + time_limit
    time_left = None if end is None else lambda: end - time.perf_counter()
    found = optimise(costs, time_left=time_left, **effort)
    if found is None:
        nobody = np.full(costs.shape[0], -1)
        return gm.Result(nobody, np.inf, np.inf, gm.Status.INFEASIBLE, ExemplarSolver.name)
    energy = exemplar_energy(costs, found.exemplars)
    return as_result(assign(costs, found.exemplars), energy, found.bound)


def as_result(labels: np.ndarray, energy: float, bound: float) -> gm.Result:
    """A result of this solver that did not come out of ``gm.solve``."""
    bound = min(bound, energy)  # they may cross by rounding only
    proved = energy - bound <= _PROVED * max(1.0, abs(energy))
    status = gm.Status.OPTIMAL if proved else gm.Status.BOUND
    return gm.Result(labels, energy, bound, status, ExemplarSolver.name)
