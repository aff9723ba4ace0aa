"""Expansion moves: a minimum cut decides which variables take one label."""

from __future__ import annotations

import numpy as np

from gmlearn.model.crf import CRF
from gmlearn.slaves import EdgeCosts
from gmlearn.solvers.cuts.binary import graph_cut
from gmlearn.solvers.polish import unary_labels
from gmlearn.solvers.problem import MapSolver, Problem, SolverRefusal
from gmlearn.solvers.trws import make_messages, trws_refuses


class AlphaExpansion(MapSolver):
    """Alpha-expansion moves by max-flow for metric pairwise models; the bound comes from a few
    sweeps of TRW-S.
    """

    name = "alpha-expansion"

    def refuses(self, crf: CRF) -> str | None:
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
        move = graph_cut(np.stack([unary[np.arange(n), x], unary[:, label]], axis=1), edges, costs)
        moved = np.where(move == 1, label, x)
        return moved if problem.offer(moved, "alpha-expansion") else x
