"""Solvers from other libraries (the extra `solvers`): max-flow, alpha-expansion, toulbar2.

Whatever they answer is evaluated by our own model, and nothing but a proof raises the bound.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Mapping

import numpy as np

from gmlearn.decompositions.base import is_edge_block
from gmlearn.model.crf import CRF
from gmlearn.model.factors import FactorGraph
from gmlearn.slaves import EdgeCosts
from gmlearn.solvers.dual import one_round_bound
from gmlearn.solvers.polish import unary_labels
from gmlearn.solvers.problem import MapSolver, Problem, SolverRefusal
from gmlearn.solvers.trws import make_messages, trws_refuses


@functools.cache
def _missing(module: str, package: str) -> str | None:
    if importlib.util.find_spec(module) is not None:
        return None
    return f"needs the package {package}: python -m pip install 'gmlearn[solvers]'"


def binary_edges(crf: CRF, w: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Edges (E, 2) and their costs (4, E) of the labels (0, 0), (0, 1), (1, 0), (1, 1) of a
    binary pairwise model.
    """
    blocks = crf.clique_blocks
    if not blocks:
        return np.zeros((0, 2), np.int64), np.zeros((4, 0))
    parts = []
    for form in (b.pairwise(w) for b in blocks):
        below = form.start + form.stride
        parts.append(
            np.stack(
                [
                    form.scale * form.values[at]
                    for at in (form.start, form.start + 1, below, below + 1)
                ]
            )
        )
    if len(blocks) == 1:
        return blocks[0].variables, parts[0]
    return np.concatenate([b.variables for b in blocks]), np.concatenate(parts, axis=1)


def is_submodular(costs: np.ndarray) -> bool:
    """Do costs (4, E) favour equal labels (up to rounding), so that max-flow minimises them?"""
    excess = costs[0] + costs[3] - costs[1] - costs[2]
    return bool((excess <= 1e-15 * np.abs(costs).sum(axis=0)).all())


#: sums of larger costs may overflow, and max-flow with an infinite capacity never ends
HUGE = 1e100


def graph_cut(edges: np.ndarray, costs: np.ndarray, unary: np.ndarray) -> np.ndarray:
    """Minimiser (V,) of a submodular binary energy: unary (V, 2), edge costs (4, E), by
    max-flow.
    """
    import maxflow

    n = len(unary)
    graph = maxflow.Graph[float]()
    nodes = graph.add_nodes(n)
    one = unary[:, 1] - unary[:, 0]
    if len(edges):
        # E(a, b) = A + (C - A)[a=1] + (D - C)[b=1] + (B + C - A - D)[a=0, b=1], table [[A, B], [C,
        # D]]
        first, second = edges[:, 0], edges[:, 1]
        one += np.bincount(first, costs[2] - costs[0], n) + np.bincount(
            second, costs[3] - costs[2], n
        )
        graph.add_edges(
            first,
            second,
            np.maximum(costs[1] + costs[2] - costs[0] - costs[3], 0.0),
            np.zeros(len(edges)),
        )
    # a node on the sink side is 1; the arc from the source is cut then
    graph.add_grid_tedges(nodes, np.maximum(one, 0.0), np.maximum(-one, 0.0))
    graph.maxflow()
    return graph.get_grid_segments(nodes).astype(np.int64)


class MaxFlow(MapSolver):
    """Binary submodular models, exactly, by max-flow (PyMaxflow)."""

    name = "maxflow"

    def refuses(self, crf: CRF) -> str | None:
        missing = _missing("maxflow", "PyMaxflow")
        if missing:
            return missing
        if (crf.n_states > 2).any() or not all(is_edge_block(b) for b in crf.clique_blocks):
            return "only binary variables and edges"
        return None

    def claims(self, crf: CRF, w: Mapping[str, np.ndarray]) -> bool:
        """Binary, pairwise, finite and submodular, with the package installed."""
        return self.refuses(crf) is None and self._submodular_edges(crf, w) is not None

    def _submodular_edges(
        self, crf: CRF, w: Mapping[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """The edges and their costs; None if the model is not binary, finite and submodular."""
        if (crf.n_states != 2).any() or not (np.abs(crf.unary) < HUGE).all():
            return None
        edges, costs = binary_edges(crf, w)
        return (edges, costs) if (np.abs(costs) < HUGE).all() and is_submodular(costs) else None

    def run(self, problem: Problem) -> None:
        found = self._submodular_edges(problem.crf, problem.w)
        if found is None:
            raise SolverRefusal(
                f"solver 'maxflow': {problem.crf} is not binary, finite and submodular; use 'auto'"
            )
        labels = graph_cut(*found, problem.crf.unary_costs(problem.w).reshape(-1, 2))
        problem.iterations = 1
        problem.offer(labels, "max-flow")
        problem.raise_bound(problem.energy)


class AlphaExpansion(MapSolver):
    """Alpha-expansion moves by max-flow for metric pairwise models; the bound comes from a few
    sweeps of TRW-S.
    """

    name = "alpha-expansion"

    def refuses(self, crf: CRF) -> str | None:
        missing = _missing("maxflow", "PyMaxflow")
        if missing:
            return missing
        if not crf.uniform:
            return "the variables have different numbers of states"
        return trws_refuses(crf)

    def run(self, problem: Problem) -> None:
        crf = problem.crf
        edges = (
            np.concatenate([b.variables for b in crf.clique_blocks])
            if crf.clique_blocks
            else np.zeros((0, 2), np.int64)
        )
        costs = EdgeCosts.of(crf.clique_blocks, problem.w)
        unary = crf.unary_costs(problem.w).reshape(crf.n_vars, -1)

        if not (np.isfinite(unary).all() and np.isfinite(costs.values).all()):
            raise SolverRefusal(
                f"solver 'alpha-expansion': {crf} has hard constraints (inf); use 'auto'"
            )

        def edge_cost(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            return costs.scale * costs.values[costs.start + a * costs.stride + b]

        x = problem.labels.copy() if problem.labels is not None else unary_labels(problem)
        problem.offer(x, "unary optimum")
        for _ in range(20 if problem.options.max_iter is None else problem.options.max_iter):
            before = problem.energy
            for label in range(unary.shape[1]):
                x = self._expand(problem, x, label, edges, edge_cost, unary)
                if problem.time_left <= 0:
                    break
            problem.iterations += 1
            problem.log()
            if problem.energy >= before or problem.time_left <= 0:
                break
        messages = make_messages(crf, problem.w)
        for _ in range(20):  # for the bound alone; these sweeps are not rounds of the method
            problem.raise_bound(messages.sweep() + crf.constant)
            if problem.closed or problem.time_left <= 0:
                break

    def _expand(
        self,
        problem: Problem,
        x: np.ndarray,
        label: int,
        edges: np.ndarray,
        edge_cost,
        unary: np.ndarray,
    ) -> np.ndarray:
        alpha = np.full(len(edges), label)
        first, second = x[edges[:, 0]], x[edges[:, 1]]
        costs = np.stack(
            [
                edge_cost(first, second),
                edge_cost(first, alpha),
                edge_cost(alpha, second),
                edge_cost(alpha, alpha),
            ]
        )
        # where the costs are no metric the move is truncated; the energy check below keeps it a
        # descent
        costs[0] = np.minimum(costs[0], costs[1] + costs[2] - costs[3])
        n = len(x)
        move = graph_cut(edges, costs, np.stack([unary[np.arange(n), x], unary[:, label]], axis=1))
        moved = np.where(move == 1, label, x)
        return moved if problem.offer(moved, "alpha-expansion") else x


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
        limit = int(min(problem.time_left, 1e7))
        if limit < 1:
            problem.offer(unary_labels(problem), "unary optimum")
            one_round_bound(problem)
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
