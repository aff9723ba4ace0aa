"""Tabu search: good labellings of frustrated and constrained models, where rounding a relaxation fails."""

from __future__ import annotations

import numpy as np

from gmlearn.model.crf import CRF
from gmlearn.model.factors import FactorGraph
from gmlearn.solvers.polish import unary_labels
from gmlearn.solvers.problem import MapSolver, Problem


def tabu_search(problem: Problem, graph: FactorGraph, moves: int, seconds: float = np.inf) -> int:
    """Improve the incumbent by about `moves` single-variable moves, within `seconds`; returns how many were made.

    Within the search a broken hard constraint costs a finite penalty; what is offered is judged by the model itself.
    """
    from gmlearn.solvers._tabu_numba import conditionals, tabu_steps

    allowed = np.isfinite(graph.unary)
    finite = graph.values[np.isfinite(graph.values)]
    penalty = 10.0 * (1.0 + (np.ptp(finite) if finite.size else 0.0))
    values = np.where(np.isfinite(graph.values), graph.values, penalty)
    unary = np.where(allowed, graph.unary, penalty)
    x = (problem.labels if problem.labels is not None else unary_labels(problem)).copy()
    arrays = (
        graph.offsets,
        unary,
        *graph.adjacency,
        graph.owner,
        graph.indptr,
        graph.scope,
        graph.stride,
        graph.start,
        graph.scale,
        values,
    )
    plain = (
        graph.offsets,
        unary,
        graph.indptr,
        graph.scope,
        graph.stride,
        graph.start,
        graph.scale,
        values,
    )
    cost = np.empty(len(unary))
    conditionals(x, *plain, cost)
    place = (
        np.add.reduceat(x[graph.scope] * graph.stride, graph.indptr[:-1])
        if graph.n_factors
        else np.zeros(0, np.int64)
    )
    energy = float(
        unary[graph.offsets[:-1] + x].sum() + (graph.scale * values[graph.start + place]).sum()
    )
    best, best_x = energy, x.copy()
    tabu, clock = np.zeros(len(unary), np.int64), 0
    random = np.array([0x9E3779B97F4A7C15 ^ (problem.options.seed + 1)], np.uint64)
    patience = 2000 + 20 * graph.n_vars
    chunk = max(
        1, min(moves, int(3e6 / max(1, len(unary))))
    )  # a few milliseconds, so that limits are honoured
    until = problem.elapsed + seconds
    last = np.inf
    while (
        clock < moves and problem.time_left > 0 and problem.elapsed < until and not problem.closed
    ):
        energy, best, clock = tabu_steps(
            x, best_x, energy, best, clock, chunk, patience, random, tabu, allowed, *arrays, cost
        )
        if best < last:
            last = best
            problem.offer(best_x, "tabu search")
    return int(clock)


class TabuSearch(MapSolver):
    """Tabu search with kicks from the best labelling found. No bound of its own."""

    name = "tabu"
    bounds = False

    def refuses(self, crf: CRF) -> str | None:
        size = sum(len(b) * b.table_size() for b in crf.clique_blocks if b.arity > 2)
        return None if size <= 5e6 else f"{size:.3g} table entries"

    def run(self, problem: Problem) -> None:
        graph = FactorGraph.of(problem.crf, problem.w)
        moves = 100_000 if problem.options.max_iter is None else problem.options.max_iter
        if problem.labels is None:
            problem.offer(unary_labels(problem), "unary optimum")
        problem.iterations = tabu_search(problem, graph, moves)
