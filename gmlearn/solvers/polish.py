"""Local search that improves a labelling: single variables, chains, exchanges of two labels, whole
cliques, and the fusion of two labellings.

ICM (Besag 1986) sets x_v to the minimiser of E(x_v, x_rest), one variable after the other;
chain-ICM does the same for all variables of a chain at once, by dynamic programming. A fusion of x
and y (Lempitsky et al. 2010) takes those labels of y that lower the energy of x.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from gmlearn.decompositions.builtin import assign_chains
from gmlearn.model.crf import CRF
from gmlearn.model.factors import Tables
from gmlearn.potentials.base import Block
from gmlearn.slaves import CliqueGroup
from gmlearn.slaves.choose import NoSolverError, choose_solver, has_edge_form
from gmlearn.solvers.moves import MoveCosts, Moves
from gmlearn.solvers.problem import MapSolver, Problem

#: table entries that chain-ICM reads between two looks at the clock (some tens of milliseconds)
PART = 2.0e7
#: sweeps over all tables that a labelling takes until no move improves it, about
SWEEPS = 3.0
#: moves of single variables that are tried at once where there are no tables
BATCH = 2000


class Polisher:
    """Improves labellings of one model, whatever its blocks are.

    Where all cliques have tables: chain-ICM and ICM, compiled. Else moves of single variables by
    the energies of the changed cliques. Where constraints are hard: repair, exchanges of two
    labels, and the slaves' proposals for whole cliques.
    """

    def __init__(self, problem: Problem):
        self.crf, self.w = problem.crf, problem.w
        self.costs = MoveCosts(problem)
        self.graph = self.costs.graph
        self._groups: dict[int, tuple[CliqueGroup, Any] | None] = {}

    @cached_property
    def _tables(self) -> tuple[Tables, Any]:
        """The graph for kernels, and the cliques around each variable."""
        from gmlearn.solvers._icm_numba import neighbours

        tables = self.graph.tables()
        return tables, neighbours(tables)

    def icm(
        self,
        x: np.ndarray,
        sweeps: int = 100,
        deadline: Callable[[], bool] = lambda: False,
        dirty: np.ndarray | None = None,
    ) -> np.ndarray:
        """Sweeps of single-variable moves until nothing changes; `dirty` (V,) are the variables
        that may move at first.
        """
        from gmlearn.solvers._icm_numba import icm_sweep

        x = np.array(x, np.int64)
        if self.costs.rest:
            return self._icm_by_energies(x, sweeps, deadline, dirty)
        dirty = np.ones(self.graph.n_vars, bool) if dirty is None else dirty
        for _ in range(sweeps):
            if icm_sweep(dirty, x, *self._tables) == 0 or deadline():
                break
        return x

    def _icm_by_energies(
        self, x: np.ndarray, sweeps: int, deadline: Callable[[], bool], dirty: np.ndarray | None
    ) -> np.ndarray:
        every, colour, independent = self.costs.order
        for _ in range(sweeps):
            order = every if dirty is None else every[dirty[every]]
            before = x.copy()
            work = np.cumsum(self.crf.n_states[order]) // BATCH
            cuts = np.flatnonzero((np.diff(work) > 0) | (np.diff(colour[order]) > 0)) + 1
            for variables in np.split(order, cuts):
                while (
                    not deadline()
                    and self.apply(self.costs.singles(variables, x), x, independent)[1]
                ):
                    continue
            if deadline() or np.array_equal(x, before):
                break
            dirty = self.costs.near(np.flatnonzero(x != before))
        return x

    def apply(self, moves: Moves, x: np.ndarray, independent: bool = False) -> tuple[int, int]:
        """Make the moves that lower the energy, in place; returns how many, and how many not.

        Of those that touch a variable the best is kept; together they must do no worse than the
        best alone, else only the better half of them is made, and so on. independent : do no
        two variables share a clique, so that this need not be checked?
        """
        change = self.costs.changes(moves, x)
        good = np.flatnonzero(change < -self.costs.tol)
        if len(good) == 0:
            return 0, 0
        good = good[np.argsort(change[good], kind="stable")]
        chosen = moves.take(good)
        owner = np.repeat(np.arange(len(good)), np.diff(chosen.ptr))
        first = np.full(len(x), len(good))
        np.minimum.at(first, chosen.variable, owner)
        late = np.bincount(owner, owner != first[chosen.variable], len(good)) > 0
        chosen = chosen.take(np.flatnonzero(~late))
        least = change[good[0]]
        n = len(chosen)
        while (
            not independent
            and len(chosen) > 1
            and self.costs.changes(chosen.at_once(), x)[0] > least
        ):
            chosen = chosen.take(np.arange(len(chosen) // 2))
        x[chosen.variable] = chosen.label
        return len(chosen), n - len(chosen)

    def exchange(self, x: np.ndarray, deadline: Callable[[], bool] = lambda: False) -> np.ndarray:
        """Exchange the labels of two variables, or take a slave's proposal for a whole clique,
        while that helps. For cliques with hard constraints, where no single move is possible.
        """
        x = np.array(x, np.int64)
        while not deadline() and (
            self.apply(self.costs.swaps(x), x)[0]
            or any(self.apply(m, x)[0] for m in self.proposals(x))
        ):
            continue
        return x

    def proposals(self, x: np.ndarray) -> Iterator[Moves]:
        """New labels of all members of each hard clique without tables, as its slave proposes
        them: every other clique counts as if only one variable moved.
        """
        everyone = self.costs.singles(np.arange(len(x)), x)
        costs = np.zeros(self.crf.n_coords)
        for block in [p.block for p in self.costs.rest if p.hard]:
            change = self.costs.changes(everyone, x, without=block)
            broken = change > 0.5 * self.costs.broken
            change[broken] = 2.0 * np.abs(change[~broken]).sum() + self.costs.tol
            costs[self.crf.offsets[everyone.variable] + everyone.label] = change
            labels = self._propose(block, costs)
            if labels is not None:
                yield Moves(block.indptr, block.members, labels)

    def _propose(self, block: Block, costs: np.ndarray) -> np.ndarray | None:
        """Member labels (S,) of a block that its slaves propose for label costs (n_coords,); None
        if it has no slaves.
        """
        if id(block) not in self._groups:
            try:
                group = CliqueGroup(block, choose_solver(block), self.crf.offsets)
                self._groups[id(block)] = group, group.prepare(self.w)
            except NoSolverError:
                self._groups[id(block)] = None
        found = self._groups[id(block)]
        return None if found is None else found[0].propose(costs[found[0].coords], found[1])

    def repair(self, x: np.ndarray, costs: np.ndarray | None = None) -> np.ndarray:
        """Labels near x that break fewer hard cliques: what a block's own `repair` makes of its
        broken ones, or what its slave proposes at label costs (n_coords,), by default such that
        every changed label costs much.
        """
        x = np.array(x, np.int64)
        for block in [b for b in self.crf.clique_blocks if b.arity > 2]:
            bad = np.flatnonzero(np.isposinf(block.energy(block.gather(x), self.w)))
            if len(bad) == 0:
                continue
            near = np.where(np.isfinite(self.graph.unary), self.costs.broken, np.inf)
            near[self.crf.offsets[:-1] + x] -= self.costs.broken
            labels = block.repair(block.gather(x), self.w)
            at = near if costs is None else costs
            labels = self._propose(block, at) if labels is None else labels.ravel()
            if labels is not None:
                part = Moves(block.indptr, block.members, labels).take(bad)
                x[part.variable] = part.label
        return x

    def shaken(self, x: np.ndarray, region: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """New labels of a region: its own in another order where constraints are hard, so that
        those on the labels' numbers stay kept; else any.
        """
        states = self.crf.n_states[region]
        labels = rng.permutation(x[region]) if len(self.costs.pairs) else rng.integers(0, states)
        return np.where(labels < states, labels, x[region])

    def fuse(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """x with those of y's labels that lower the energy: variables that differ and share a
        clique change together or not at all, each such set for itself.
        """
        from gmlearn.solvers._moves_numba import connect

        differ = np.flatnonzero(x != y)
        part = np.arange(len(differ))
        connect(*self.costs.cliques_of(differ), part)
        order = np.argsort(part, kind="stable")
        cuts = np.flatnonzero(np.diff(part[order])) + 1
        moves = Moves(np.unique([0, *cuts, len(differ)]), differ[order], y[differ[order]])
        better = x.copy()
        self.apply(moves, better, independent=True)
        return better

    def chain_icm(
        self, x: np.ndarray, sweeps: int = 10, deadline=lambda: False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sweeps that re-optimise one chain at a time, exactly, until nothing changes.

        Returns the labels and, bool (V,), which variables a move of one variable might still
        improve: none on a chain that is optimal given the rest.
        """
        from gmlearn.solvers._icm_numba import chain_sweep

        x = np.array(x, np.int64)
        dirty = np.ones(len(self._chains.ptr) - 1, bool)
        parts = self._parts()
        for _ in range(sweeps):
            changed = 0
            for begin, end in pairwise(parts):
                if deadline():
                    return x, np.ones(len(x), bool)
                changed += chain_sweep(begin, end, self._chains, dirty, x, *self._tables)
            if changed == 0:
                return x, np.diff(self._chains.member_ptr) == 0
        return x, np.ones(len(x), bool)

    def _parts(self) -> list[int]:
        """Where to look at the clock: ranges of chains that take about PART table entries."""
        ptr = self._chains.ptr
        if len(ptr) == 1:
            return [0, 0]
        entries = self.graph.n_states[self._chains.variable].astype(float) ** 2
        work = np.cumsum(np.add.reduceat(entries, ptr[:-1]))
        inner = np.searchsorted(work, np.arange(PART, work[-1], PART)) + 1
        return [0, *np.unique(inner[inner < len(work)]).tolist(), len(work)]

    @cached_property
    def _chains(self) -> Any:
        """The edge-disjoint chains over all edges whose tables are not too large."""
        from gmlearn.solvers._icm_numba import lay_out_chains

        g = self.graph
        small = float(g.n_states.max(initial=0)) ** 2 <= PART or g.table_sizes <= PART
        edge = np.flatnonzero((np.diff(g.indptr) == 2) & small)
        ends = np.stack([g.scope[g.indptr[edge]], g.scope[g.indptr[edge] + 1]], axis=1)
        return lay_out_chains(ends, edge, assign_chains(ends, np.array([0, g.n_vars])), g.n_vars)

    def descend(
        self,
        x: np.ndarray,
        deadline: Callable[[], bool] = lambda: False,
        dirty: np.ndarray | None = None,
    ) -> np.ndarray:
        """x improved by all moves there are; `dirty` as in `icm`."""
        if not self.costs.rest:
            x, dirty = self.chain_icm(x, deadline=deadline)
        x = self.icm(x, 20 if self.costs.rest else 100, deadline, dirty)
        return self.exchange(x, deadline) if len(self.costs.pairs) else x

    def __call__(self, problem: Problem, x: np.ndarray, source: str) -> None:
        """Offer `x` as it is, improved, and fused with the best labelling known."""
        problem.offer(x, source)
        if problem.closed or problem.time_left <= 0:
            return
        if self.costs.rest or self.costs.hard:
            x = self.repair(x)
        problem.count(SWEEPS * (len(self.graph.unary) + self.graph.table_sizes.sum()))
        better = self.descend(x, lambda: problem.time_left <= 0)
        problem.offer(better, f"{source}, {'ICM' if self.costs.rest else 'chain-ICM'}")
        self.combine(problem, better)

    def combine(self, problem: Problem, x: np.ndarray) -> None:
        """Offer the fusion of `x` with the best labelling known, if there is one."""
        best = problem.labels
        if best is not None and not np.array_equal(x, best):
            problem.offer(self.fuse(best, x), "fusion of two labellings")


class ICM(MapSolver):
    """Iterated conditional modes: single-variable moves from the unary optimum. Fast, no bound
    of its own.
    """

    name = "icm"
    bounds = False

    def run(self, problem: Problem) -> None:
        start = problem.labels if problem.labels is not None else unary_labels(problem)
        problem.iterations = 1
        polisher = problem.polisher
        problem.offer(polisher.icm(start, deadline=lambda: problem.time_left <= 0), "ICM")
        if not np.isfinite(problem.energy):
            polisher(problem, start, "unary optimum")


class ChainICM(MapSolver):
    """ICM that re-optimises whole chains exactly. No bound of its own."""

    name = "chain-icm"
    bounds = False

    def refuses(self, crf: CRF) -> str | None:
        return (
            None
            if any(has_edge_form(b) for b in crf.clique_blocks)
            else "the model has no edges, use 'icm'"
        )

    def run(self, problem: Problem) -> None:
        start = problem.labels if problem.labels is not None else unary_labels(problem)
        problem.iterations = 1
        problem.polisher(problem, start, "unary optimum")


def offer_feasible(problem: Problem) -> None:
    """Under a time limit, before anything that may use it up: where hard constraints forbid the
    unary optimum, offer what blocks and their slaves make of it at the unary costs alone.
    """
    if not problem.limited or np.isfinite(problem.energy):
        return
    start = unary_labels(problem)
    if np.isfinite(problem.crf.energy(start, problem.w)):
        return
    polisher = problem.polisher
    for costs in (polisher.graph.unary, None):
        found = polisher.repair(start, costs)
        problem.offer(found, "repaired unary optimum")
        if np.isfinite(problem.energy):
            return


def unary_labels(problem: Problem) -> np.ndarray:
    """Each variable's cheapest label by its unary cost alone."""
    crf = problem.crf
    costs = crf.unary_costs(problem.w)
    low = np.minimum.reduceat(costs, crf.offsets[:-1])
    hit = np.flatnonzero(costs == np.repeat(low, crf.n_states))
    return hit[np.searchsorted(hit, crf.offsets[:-1])] - crf.offsets[:-1]
