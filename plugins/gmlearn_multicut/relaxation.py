"""Lower bounds of signed graphs: packed cycles, the LP with lazily added cycle inequalities, and
branch and bound on top.

With y_e = 1 for a cut edge, the partitions are the 0/1 points with y_e <= sum over the rest of y,
for every cycle through e (Chopra and Rao 1993). The LP starts without them; violated ones are
shortest paths under y. The bound is not taken from the solver but from its multipliers mu >= 0 of
the inequalities, sum of min(c + A' mu, 0), which holds whatever their accuracy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from gmlearn_multicut.graph import EdgeGraph

#: cycles that are packed have at most so many edges
_LONGEST = 8
#: inequalities that are added in a round, at most
_MOST_CUTS = 3000
#: by how much an inequality must be violated
_VIOLATED = 1e-6


def packing_bound(graph: EdgeGraph) -> float:
    """A lower bound of all energies by packed cycles; about one search a negative edge."""
    from gmlearn_multicut import _cycles_numba as kernels

    cost = graph.cost.copy()
    ends = graph.edges[:, 0], graph.edges[:, 1]
    gained = kernels.pack_cycles(*graph.adjacency, cost, *ends, _LONGEST)
    # summed from what is left, so that rounding in `gained` cannot lift it
    return min(
        float(np.minimum(cost, 0.0).sum()), float(np.minimum(graph.cost, 0.0).sum()) + gained
    )


class CycleRelaxation:
    """min c . y over 0 <= y <= 1 and the cycle inequalities found so far.

    Attributes
    ----------
    y : (M,) the last solution.   bound : the best lower bound.   n_cuts : inequalities.
    """

    def __init__(self, graph: EdgeGraph):
        self.graph = graph
        self.y = (graph.cost < 0.0).astype(np.float64)
        self.bound = float(np.minimum(graph.cost, 0.0).sum())
        self._rows: list[scipy.sparse.csr_array] = []

    @property
    def n_cuts(self) -> int:
        return sum(rows.shape[0] for rows in self._rows)

    def separate(self) -> int:
        """Add violated inequalities of `y`; returns how many."""
        rows = violated_cycles(self.graph, self.y)
        if rows.shape[0]:
            self._rows.append(rows)
        return rows.shape[0]

    def solve(self, time_limit: float | None = None) -> bool:
        """The LP again: `y` and `bound`; False if it was not solved."""
        from scipy.optimize import linprog

        matrix = scipy.sparse.vstack(self._rows, format="csr")
        options: dict[str, Any] = {} if time_limit is None else {"time_limit": time_limit}
        zeros = np.zeros(matrix.shape[0])
        found = linprog(
            self.graph.cost, matrix, zeros, bounds=(0.0, 1.0), method="highs", options=options
        )
        if found.status != 0:
            return False
        multipliers = np.maximum(-found.ineqlin.marginals, 0.0)
        reduced = self.graph.cost + matrix.T @ multipliers
        self.bound = max(self.bound, float(np.minimum(reduced, 0.0).sum()))
        self.y = np.clip(found.x, 0.0, 1.0)
        return True

    def branch(self, n_nodes: int, time_limit: float | None = None) -> bool:
        """The same with y in {0, 1}, by at most `n_nodes` nodes of HiGHS; False if it found no
        point.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp

        matrix = scipy.sparse.vstack(self._rows, format="csr")
        options: dict[str, Any] = {"node_limit": n_nodes}
        if time_limit is not None:
            options["time_limit"] = time_limit
        found = milp(
            self.graph.cost,
            integrality=np.ones(len(self.y)),
            bounds=Bounds(0.0, 1.0),
            constraints=LinearConstraint(matrix, -np.inf, 0.0),
            options=options,
        )
        if found.mip_dual_bound is not None and np.isfinite(found.mip_dual_bound):
            # HiGHS works to a feasibility of 1e-6
            slack = 1e-7 * float(np.abs(self.graph.cost).sum())
            self.bound = max(self.bound, float(found.mip_dual_bound) - slack)
        if found.x is None:
            return False
        self.y = np.round(found.x)
        return True


def violated_cycles(
    graph: EdgeGraph, y: np.ndarray, least: float = _VIOLATED
) -> scipy.sparse.csr_array:
    """Rows (P, M) of the most violated cycle inequality of every edge, y_e - (rest of y) <= 0,
    where it is violated by more than `least`.
    """
    from scipy.sparse.csgraph import dijkstra

    from gmlearn_multicut import _cycles_numba as kernels

    n, m = graph.n_nodes, len(graph.edges)
    chosen = np.flatnonzero(y > least)
    chosen = chosen[np.argsort(-y[chosen], kind="stable")][:_MOST_CUTS]
    if len(chosen) == 0:
        return scipy.sparse.csr_array((0, m))
    first, second = graph.edges[:, 0], graph.edges[:, 1]
    # an edge of length 0 would be no edge
    lengths = scipy.sparse.csr_array((y + 1e-9, (first, second)), shape=(n, n))
    sources, row = np.unique(first[chosen], return_inverse=True)
    distance, predecessor = dijkstra(
        lengths, directed=False, indices=sources, return_predecessors=True, limit=1.0
    )
    target = second[chosen]
    worse = distance[row, target] < y[chosen] - least
    chosen, row, target = chosen[worse], row[worse], target[worse]
    if len(chosen) == 0:
        return scipy.sparse.csr_array((0, m))
    nodes, start = kernels.walk_back(predecessor.astype(np.int64), row, target, len(row) * n)
    # consecutive nodes of a path are its edges
    ends = np.delete(np.arange(len(nodes)), start[1:] - 1)
    low = np.minimum(nodes[ends], nodes[ends + 1])
    high = np.maximum(nodes[ends], nodes[ends + 1])
    edge = np.searchsorted(first * n + second, low * n + high)
    path = np.repeat(np.arange(len(chosen)), np.diff(start) - 1)
    columns = np.concatenate([edge, chosen])
    rows = np.concatenate([path, np.arange(len(chosen))])
    value = np.concatenate([np.full(len(edge), -1.0), np.ones(len(chosen))])
    return scipy.sparse.csr_array((value, (rows, columns)), shape=(len(chosen), m))
