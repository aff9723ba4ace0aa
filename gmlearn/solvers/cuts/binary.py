"""Binary pairwise models as graphs: submodular ones are solved by one minimum cut."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gmlearn.model.crf import CRF
from gmlearn.slaves.choose import has_edge_form
from gmlearn.solvers.cuts.flow import FlowGraph
from gmlearn.solvers.problem import MapSolver, Problem, SolverRefusal

#: sums of larger costs may overflow, and max-flow with an infinite capacity never ends
HUGE = 1e100


def binary_edges(
    crf: CRF, w: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Unary costs (V, 2), edges (E, 2) and their costs (4, E) of the labels (0, 0), (0, 1),
    (1, 0), (1, 1); None if the model is not binary, pairwise and finite.
    """
    blocks = crf.clique_blocks
    if (crf.n_states != 2).any() or not all(has_edge_form(b) for b in blocks):
        return None
    unary = crf.unary_costs(w)
    if not (np.abs(unary) < HUGE).all():
        return None
    parts = [np.zeros((4, 0))]
    for form in (b.pairwise(w) for b in blocks):
        below = form.start + form.stride
        corners = form.start, form.start + 1, below, below + 1
        parts.append(np.stack([form.scale * form.values[at] for at in corners]))
    costs = parts[1] if len(parts) == 2 else np.concatenate(parts, axis=1)
    if not (np.abs(costs) < HUGE).all():
        return None
    edges = [np.zeros((0, 2), np.int64), *(b.variables for b in blocks)]
    return unary.reshape(-1, 2), edges[1] if len(edges) == 2 else np.concatenate(edges), costs


def is_submodular(costs: np.ndarray) -> bool:
    """Do costs (4, E) favour equal labels (up to rounding), so that max-flow minimises them?"""
    excess = costs[0] + costs[3] - costs[1] - costs[2]
    return bool((excess <= 1e-15 * np.abs(costs).sum(axis=0)).all())


def cut_costs(
    unary: np.ndarray, edges: np.ndarray, costs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A submodular energy as a cut: capacities (V,) of the terminals and (E,) of the edges.

    E(a, b) = A + (C - A)[a=1] + (D - C)[b=1] + (B + C - A - D)[a=0, b=1], table [[A, B], [C, D]]; a
    node on the sink's side has label 1, so that the arc from the source is cut.
    """
    n = len(unary)
    one = unary[:, 1] - unary[:, 0]
    if len(edges):
        one += np.bincount(edges[:, 0], costs[2] - costs[0], n)
        one += np.bincount(edges[:, 1], costs[3] - costs[2], n)
    return one, np.maximum(costs[1] + costs[2] - costs[0] - costs[3], 0.0)


def graph_cut(unary: np.ndarray, edges: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """Minimiser (V,) of a submodular binary energy: unary (V, 2), edge costs (4, E)."""
    terminal, capacity = cut_costs(unary, edges, costs)
    graph = FlowGraph(len(unary), edges, capacity, terminal)
    graph.run()
    return np.where(graph.source_side, 0, 1)


class MaxFlow(MapSolver):
    """Binary submodular models, exactly, by max-flow (Boykov and Kolmogorov)."""

    name = "maxflow"

    def refuses(self, crf: CRF) -> str | None:
        if (crf.n_states > 2).any() or not all(has_edge_form(b) for b in crf.clique_blocks):
            return "only binary variables and edges"
        return None

    def claims(self, crf: CRF, w: Mapping[str, np.ndarray]) -> bool:
        """Binary, pairwise, finite and submodular."""
        return self._terms(crf, w) is not None

    def _terms(
        self, crf: CRF, w: Mapping[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """What `graph_cut` takes; None if the model is not binary, finite and submodular."""
        found = binary_edges(crf, w)
        return found if found is not None and is_submodular(found[2]) else None

    def run(self, problem: Problem) -> None:
        found = self._terms(problem.crf, problem.w)
        if found is None:
            raise SolverRefusal(
                f"solver {self.name!r}: {problem.crf} is not binary, finite and submodular; use "
                f"'auto'"
            )
        labels = self.cut(*found)
        problem.iterations = 1
        problem.offer(labels, "max-flow")
        problem.raise_bound(problem.energy)

    def cut(self, unary: np.ndarray, edges: np.ndarray, costs: np.ndarray) -> np.ndarray:
        """The minimiser (V,), see `graph_cut`."""
        return graph_cut(unary, edges, costs)
