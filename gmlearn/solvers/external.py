"""Solvers from other libraries (the extra `solvers`): PyMaxflow and toulbar2.

Whatever they answer is evaluated by our own model, and nothing but a proof raises the bound.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Mapping

import numpy as np

from gmlearn.model.crf import CRF
from gmlearn.model.factors import FactorGraph
from gmlearn.solvers.cuts.binary import MaxFlow, cut_costs
from gmlearn.solvers.dual import one_round_bound
from gmlearn.solvers.polish import unary_labels
from gmlearn.solvers.problem import MapSolver, Problem

#: seconds that it takes to hand over one function
PER_FUNCTION = 7e-5


@functools.cache
def _missing(module: str, package: str) -> str | None:
    if importlib.util.find_spec(module) is not None:
        return None
    return f"needs the package {package}: python -m pip install 'gmlearn[solvers]'"


class PyMaxflow(MaxFlow):
    """The same as 'maxflow', by the library PyMaxflow."""

    name = "pymaxflow"

    def refuses(self, crf: CRF) -> str | None:
        return _missing("maxflow", "PyMaxflow") or super().refuses(crf)

    def claims(self, crf: CRF, w: Mapping[str, np.ndarray]) -> bool:
        return False

    def cut(self, unary: np.ndarray, edges: np.ndarray, costs: np.ndarray) -> np.ndarray:
        import maxflow

        terminal, capacity = cut_costs(unary, edges, costs)
        graph = maxflow.Graph[float]()
        nodes = graph.add_nodes(len(unary))
        if len(edges):
            graph.add_edges(edges[:, 0], edges[:, 1], capacity, np.zeros(len(edges)))
        graph.add_grid_tedges(nodes, np.maximum(terminal, 0.0), np.maximum(-terminal, 0.0))
        graph.maxflow()
        return graph.get_grid_segments(nodes).astype(np.int64)


class Toulbar2(MapSolver):
    """Exact search by pytoulbar2; its answer is re-evaluated, and only a finished search counts
    as a proof.
    """

    name = "toulbar2"

    def refuses(self, crf: CRF) -> str | None:
        return _missing("pytoulbar2", "pytoulbar2")

    def run(self, problem: Problem) -> None:
        import pytoulbar2

        graph = FactorGraph.of(problem.crf, problem.w)
        if problem.too_long(PER_FUNCTION * (graph.n_vars + graph.n_factors)):
            self._give_up(problem)
            return
        tables = [graph.unary[graph.offsets[v] : graph.offsets[v + 1]] for v in range(graph.n_vars)]
        tables += [graph.table(f).ravel() for f in range(graph.n_factors)]
        scopes = [[v] for v in range(graph.n_vars)] + np.split(graph.scope, graph.indptr[1:-1])
        # costs are kept as 64-bit integers: in units of their scale, with as many digits as fit
        unit = problem.scale or 1.0
        tables = [t / unit for t in tables]
        top = 1.0 + sum(np.ptp(t[np.isfinite(t)]) for t in tables if np.isfinite(t).any())
        digits = int(np.clip(np.floor(16.0 - np.log10(top)), 0, 12))
        network = pytoulbar2.CFN(top, resolution=digits, seed=problem.options.seed + 1)
        for v, n in enumerate(graph.n_states.tolist()):
            network.AddVariable(f"x{v}", range(n))
        shift = sum(self._add(network, list(s), t, top) for s, t in zip(scopes, tables))
        # in whole seconds; its timer outlives the call, so that it is always set anew
        limit = int(min(problem.clock_left, 1e7))
        if limit < 1:
            self._give_up(problem)
            return
        before = problem.elapsed
        answer = network.Solve(timeLimit=limit)
        problem.iterations = 1
        # it answers whether proved or not; only its timer stops it early
        finished = problem.elapsed - before < 0.9 * limit
        if answer is not None:
            problem.offer(np.array(answer[0], np.int64), "toulbar2")
        # a table that is not a multiple of the resolution is rounded to it
        steps = [t[np.isfinite(t)] * 10.0**digits for t in tables]
        rounding = sum(bool((t != np.rint(t)).any()) for t in steps) * 10.0**-digits
        low = (problem.energy - problem.crf.constant) / unit  # a proof; inf if it found nothing
        if not finished:
            low = shift + network.GetDDualBound()
        problem.raise_bound(problem.crf.constant + unit * (low - rounding))

    def _give_up(self, problem: Problem) -> None:
        """What can be said without the search."""
        problem.offer(unary_labels(problem), "unary optimum")
        one_round_bound(problem)

    def _add(self, network, scope: list[int], table: np.ndarray, top: float) -> float:
        """Add a table shifted to minimum 0 (its reader double-counts minima of larger arities);
        returns the shift.
        """
        low = float(table[np.isfinite(table)].min(initial=np.inf))
        low = 0.0 if not np.isfinite(low) else low
        network.AddFunction(
            [f"x{v}" for v in scope], np.where(np.isfinite(table), table - low, top).tolist()
        )
        return low
