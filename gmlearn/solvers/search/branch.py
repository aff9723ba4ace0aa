"""Branch and bound with soft arc consistency, for small pairwise models that dual ascent leaves
with a wide gap.

At every node costs are moved between the edges and the labels at their ends, and from the labels to
a constant, by passes of existential directional arc consistency (de Givry et al. 2005), which keep
all energies. The constant is a bound of all labellings below the node; labels whose cost reaches
the incumbent's energy are removed, and a node without labels for some variable is left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gmlearn.model.factors import FactorGraph

#: bytes of all levels of the search, beyond which it is refused
MAX_BYTES = 5e8
#: passes of local consistency at the root, and at each node
ROOT_PASSES, NODE_PASSES = 100, 2
#: the part of the costs' scale that is worth another pass
TINY = 1e-6


class PairwiseTables(NamedTuple):
    """What the kernels read.

    edges (E, 2).   offsets (V + 1,).   begin (E, 4) : where an edge's table and what it has given
    to either end begin, and the step from one label of its first end to the next.   table : all
    tables.   ptr, near : the edges of each variable.
    """

    edges: np.ndarray
    offsets: np.ndarray
    begin: np.ndarray
    table: np.ndarray
    ptr: np.ndarray
    near: np.ndarray


class BranchAndBound:
    """Depth-first search on the labels that are left of a pairwise model.

    Parameters
    ----------
    graph : cliques of at most two variables, at least one state each.
    labels : list of int arrays, the labels that each variable may take.
    top : the energy of the best labelling known, without the graph's constant; inf if none.
    step : a labelling counts as better if it is at least this much below `top`.
    scale : the typical size of one cost.

    Attributes
    ----------
    top : the best energy.   best : int (V,), its labels, -1 if none is better than `top` was.
    nodes : decisions so far.   size : about how much work one of them is.   finished : is `top`
        proved to be within `step` of the optimum?
    """

    def __init__(
        self, graph: FactorGraph, labels: list[np.ndarray], top: float, step: float, scale: float
    ):
        from gmlearn.solvers.search._branch_numba import propagate

        self.labels = labels
        n_left = np.array([len(a) for a in labels])
        offsets = np.concatenate([[0], np.cumsum(n_left)])
        self.shift, self.plain, self._model = _tables(graph, labels, offsets)
        top -= self.shift
        self.size = len(self._model.table) + 3e4
        slots = int(n_left[self._model.edges].sum())
        depth, n = graph.n_vars + 1, graph.n_vars
        self._low = np.zeros(depth)
        self._unary = np.empty((depth, len(self.plain)))
        self._given = np.zeros((depth, slots))
        self._labels = np.empty((depth, len(self.plain)), np.int32)
        self._size = np.empty((depth, n), np.int64)
        self._unary[0] = self.plain
        self._labels[0] = np.arange(len(self.plain)) - np.repeat(offsets[:-1], n_left)
        self._size[0] = n_left
        self._branch = np.zeros((depth, 2), np.int64)
        self._weight = np.ones(n)
        self._best = np.full(n, -1)
        self._at = np.array([0, 0, -1])
        self._tops = np.array([top, step, TINY * scale, 0.0])
        bad = propagate(
            0,
            top - step,
            TINY * scale,
            ROOT_PASSES,
            np.empty(int(n_left.max(initial=1))),
            self._model,
            self._low,
            self._unary[0],
            self._given[0],
            self._labels[0],
            self._size[0],
        )
        #: a lower bound of all labellings on these labels that are better than `top`
        self.low = float(self._low[0]) + self.shift if bad < 0 else np.inf
        self.finished = bad >= 0

    @staticmethod
    def suits(graph: FactorGraph, n_left: np.ndarray) -> bool:
        """Are there edges only, and is the search's memory within its limit?"""
        if (np.diff(graph.indptr) > 2).any() or graph.n_vars == 0:
            return False
        slots = float(n_left[graph.scope].sum() + 2 * n_left.sum())
        return 8 * slots * (graph.n_vars + 1) <= MAX_BYTES

    @property
    def top(self) -> float:
        return float(self._tops[0]) + self.shift

    @property
    def nodes(self) -> int:
        return int(self._at[1])

    @property
    def best(self) -> np.ndarray | None:
        """int (V,): the best labels found, None if none is better than what was known."""
        if self._best[0] < 0:
            return None
        return np.array([a[k] for a, k in zip(self.labels, self._best.tolist())], np.int64)

    def run(self, nodes: int) -> bool:
        """Go on for so many nodes; True when the search is finished."""
        from gmlearn.solvers.search._branch_numba import search

        if not self.finished:
            self.finished = search(
                nodes,
                self._at,
                self._tops,
                NODE_PASSES,
                self._model,
                self.plain,
                self._low,
                self._unary,
                self._given,
                self._labels,
                self._size,
                self._branch,
                self._weight,
                self._best,
            )
        return self.finished


def _tables(
    graph: FactorGraph, labels: list[np.ndarray], offsets: np.ndarray
) -> tuple[float, np.ndarray, PairwiseTables]:
    """A constant, unary costs (n_coords,) and tables on the labels left, all of them >= 0;
    parallel edges are summed.
    """
    from gmlearn._utils._sorting_numba import counting_order

    plain = np.concatenate(
        [graph.unary[graph.offsets[v] : graph.offsets[v + 1]][a] for v, a in enumerate(labels)]
    )
    pairs: dict[tuple[int, int], np.ndarray] = {}
    for f in range(graph.n_factors):
        scope = graph.scope[graph.indptr[f] : graph.indptr[f + 1]].tolist()
        table = graph.table(f)[np.ix_(*[labels[v] for v in scope])]
        if len(scope) < 2:
            for v in scope:
                plain[offsets[v] : offsets[v + 1]] += table
            continue
        i, j = scope
        key, table = ((i, j), table) if i < j else ((j, i), table.T)
        pairs[key] = pairs[key] + table if key in pairs else table
    edges = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    least = {key: _finite_minimum(table) for key, table in pairs.items()}
    ordered = [pairs[i, j] - least[i, j] for i, j in edges.tolist()]
    shift = sum(least.values())
    for v in range(graph.n_vars):
        here = plain[offsets[v] : offsets[v + 1]]
        low = _finite_minimum(here)
        here -= low
        shift += low
    shapes = np.array([t.shape for t in ordered], np.int64).reshape(-1, 2)
    entries, slots = shapes.prod(axis=1), shapes.sum(axis=1)
    begin = np.stack(
        [
            np.cumsum(entries) - entries,
            np.cumsum(slots) - slots,
            np.cumsum(slots) - shapes[:, 1],
            shapes[:, 1],
        ],
        axis=1,
    )
    ptr, slot = counting_order(edges.ravel(), graph.n_vars)
    table = np.concatenate([np.zeros(0), *(t.ravel() for t in ordered)])
    return shift, plain, PairwiseTables(edges, offsets, begin, table, ptr, slot // 2)


def _finite_minimum(costs: np.ndarray) -> float:
    """The least cost, 0 if all are infinite."""
    least = float(costs.min(initial=np.inf))
    return least if np.isfinite(least) else 0.0
