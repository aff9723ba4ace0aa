"""Local search that improves a labelling: ICM and chain-ICM, as solvers and as the last step of the others."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from gmlearn.decompositions.builtin import assign_chains
from gmlearn.model.crf import CRF
from gmlearn.model.factors import FactorGraph
from gmlearn.solvers.problem import MapSolver, Problem

#: table entries that chain-ICM reads between two looks at the clock (some tens of milliseconds)
PART = 2.0e7


class Polisher:
    """Improves labellings of one model by ICM, and by chain-ICM where there are edges."""

    def __init__(self, problem: Problem):
        from gmlearn.solvers._icm_numba import neighbours

        self.graph = g = FactorGraph.of(problem.crf, problem.w)
        around = neighbours(g.adjacency[1], g.owner, g.indptr, g.scope, g.stride)
        self._arrays = (
            g.offsets,
            g.unary,
            *g.adjacency,
            *around,
            g.indptr,
            g.scope,
            g.stride,
            g.start,
            g.scale,
            g.values,
        )
        self._chains: tuple[np.ndarray, ...] | None = None

    def icm(
        self,
        x: np.ndarray,
        sweeps: int = 100,
        deadline=lambda: False,
        dirty: np.ndarray | None = None,
    ) -> np.ndarray:
        """Sweeps of single-variable moves until nothing changes; `dirty` (V,) are the variables that may move at first."""
        from gmlearn.solvers._icm_numba import icm_sweep

        x, dirty = (
            np.array(x, np.int64),
            np.ones(self.graph.n_vars, bool) if dirty is None else dirty,
        )
        for _ in range(sweeps):
            if icm_sweep(dirty, x, *self._arrays) == 0 or deadline():
                break
        return x

    def chain_icm(
        self, x: np.ndarray, sweeps: int = 10, deadline=lambda: False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sweeps that re-optimise one chain at a time, exactly, until nothing changes.

        Returns the labels and, bool (V,), which variables a move of one variable might still improve: none on a chain that is
        optimal given the rest.
        """
        from gmlearn.solvers._icm_numba import chain_sweep

        x = np.array(x, np.int64)
        if self._chains is None:
            self._chains = self._find_chains()
        dirty, parts = np.ones(len(self._chains[0]) - 1, bool), self._parts()
        for _ in range(sweeps):
            changed = 0
            for begin, end in pairwise(parts):
                if deadline():
                    return x, np.ones(len(x), bool)
                changed += chain_sweep(begin, end, *self._chains, dirty, x, *self._arrays)
            if changed == 0:
                return x, np.diff(self._chains[3]) == 0
        return x, np.ones(len(x), bool)

    def _parts(self) -> list[int]:
        """Where to look at the clock: ranges of chains that take about PART table entries."""
        ptr, variables = self._chains[:2]  # type: ignore[index]
        if len(ptr) == 1:
            return [0, 0]
        work = np.cumsum(
            np.add.reduceat(self.graph.n_states[variables].astype(float) ** 2, ptr[:-1])
        )
        inner = np.searchsorted(work, np.arange(PART, work[-1], PART)) + 1
        return [0, *np.unique(inner[inner < len(work)]).tolist(), len(work)]

    def _find_chains(self) -> tuple[np.ndarray, ...]:
        """(ptr, variables, factors) of the edge-disjoint chains over all edges, and (ptr, chains) of each variable."""
        from gmlearn.solvers._icm_numba import lay_out_chains

        g = self.graph
        edge = np.flatnonzero(np.diff(g.indptr) == 2)
        if len(edge) == 0:
            none = np.zeros(0, np.int64)
            return np.zeros(1, np.int64), none, none, np.zeros(g.n_vars + 1, np.int64), none
        ends = np.stack([g.scope[g.indptr[edge]], g.scope[g.indptr[edge] + 1]], axis=1)
        return lay_out_chains(ends, edge, assign_chains(ends, g.n_vars), g.n_vars)

    def __call__(self, problem: Problem, x: np.ndarray, source: str) -> None:
        """Offer `x` as it is, and improved."""
        problem.offer(x, source)
        if problem.closed or problem.time_left <= 0:
            return
        better, dirty = self.chain_icm(x, deadline=lambda: problem.time_left <= 0)
        problem.offer(
            self.icm(better, deadline=lambda: problem.time_left <= 0, dirty=dirty),
            f"{source}, chain-ICM",
        )


class BlockPolisher:
    """ICM through block energies only, for models with cliques too large for tables.

    Variables are split into sets that share no clique; a set tries one label after the other, all its variables at once.
    """

    def __init__(self, problem: Problem):
        from gmlearn._utils._sorting_numba import counting_order
        from gmlearn.slaves._colouring_numba import greedy_colouring

        crf = problem.crf
        self.crf, self.w = crf, problem.w
        self.unary = crf.unary_costs(problem.w)
        scope = np.concatenate([b.members for b in crf.clique_blocks])
        sizes = np.concatenate([np.diff(b.indptr) for b in crf.clique_blocks])
        clique = np.repeat(np.arange(len(sizes)), sizes)
        ptr, order = counting_order(scope, crf.n_vars)
        colour = greedy_colouring(clique[order], ptr, len(sizes))
        self.sets = [np.flatnonzero(colour == c) for c in range(int(colour.max(initial=-1)) + 1)]
        self.touched = [self._cliques_of(variables) for variables in self.sets]

    def _cliques_of(self, variables: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each block the cliques that hold one of `variables` (at most one: they share no clique), and which."""
        place = np.full(self.crf.n_vars, -1)
        place[variables] = np.arange(len(variables))
        found = []
        for block in self.crf.clique_blocks:
            member = place[block.members]
            hit = np.flatnonzero(member >= 0)
            found.append((np.searchsorted(block.indptr, hit, side="right") - 1, member[hit]))
        return found

    def __call__(self, problem: Problem, x: np.ndarray, source: str) -> None:
        """Offer `x` as it is, and improved by ICM."""
        problem.offer(x, source)
        if problem.closed:
            return
        x = np.array(x, np.int64)
        for _ in range(20):
            if not self._sweep(problem, x):
                break
        problem.offer(x, f"{source}, ICM")

    def _sweep(self, problem: Problem, x: np.ndarray) -> bool:
        changed = False
        for variables, touched in zip(self.sets, self.touched):
            if problem.time_left <= 0:
                return False
            costs = np.full((len(variables), int(self.crf.n_states[variables].max())), np.inf)
            for label in range(costs.shape[1]):
                can = self.crf.n_states[variables] > label
                trial = x.copy()
                trial[variables[can]] = label
                costs[can, label] = self._local_costs(trial, variables, touched)[can]
            best = costs.argmin(axis=1)
            own = costs[np.arange(len(variables)), x[variables]]
            move = costs[np.arange(len(variables)), best] < own
            x[variables[move]] = best[move]
            changed |= bool(move.any())
        return changed

    def _local_costs(
        self, x: np.ndarray, variables: np.ndarray, touched: list[tuple[np.ndarray, np.ndarray]]
    ) -> np.ndarray:
        """Energy of the terms at each of `variables`, which share no clique."""
        total = self.unary[self.crf.offsets[variables] + x[variables]]
        for block, (clique, member) in zip(self.crf.clique_blocks, touched):
            energy = block.energy(block.gather(x), self.w)
            total = total + np.bincount(member, energy[clique], len(variables))
        return total


def make_polisher(problem: Problem) -> Polisher | BlockPolisher:
    """The compiled polisher where all cliques have tables, else the one on block energies."""
    crf = problem.crf
    size = sum(b.table_size() * len(b) for b in crf.clique_blocks if b.arity > 2)
    return Polisher(problem) if size <= 5e6 else BlockPolisher(problem)


class ICM(MapSolver):
    """Iterated conditional modes: single-variable moves from the unary optimum. Fast, no bound of its own."""

    name = "icm"
    bounds = False

    def run(self, problem: Problem) -> None:
        start = problem.labels if problem.labels is not None else unary_labels(problem)
        polisher = make_polisher(problem)
        problem.iterations = 1
        if isinstance(polisher, Polisher):
            problem.offer(polisher.icm(start, deadline=lambda: problem.time_left <= 0), "ICM")
        else:
            polisher(problem, start, "unary optimum")


class ChainICM(MapSolver):
    """ICM that re-optimises whole chains exactly. No bound of its own."""

    name = "chain-icm"
    bounds = False

    def refuses(self, crf: CRF) -> str | None:
        return (
            None
            if any(b.arity == 2 for b in crf.clique_blocks)
            else "the model has no edges, use 'icm'"
        )

    def run(self, problem: Problem) -> None:
        start = problem.labels if problem.labels is not None else unary_labels(problem)
        problem.iterations = 1
        make_polisher(problem)(problem, start, "unary optimum")


def unary_labels(problem: Problem) -> np.ndarray:
    """Each variable's cheapest label by its unary cost alone."""
    crf = problem.crf
    costs = crf.unary_costs(problem.w)
    low = np.minimum.reduceat(costs, crf.offsets[:-1])
    hit = np.flatnonzero(costs == np.repeat(low, crf.n_states))
    return hit[np.searchsorted(hit, crf.offsets[:-1])] - crf.offsets[:-1]
