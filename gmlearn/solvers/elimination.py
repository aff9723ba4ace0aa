"""Exact minimisation by variable elimination (min-sum), for models of small induced width.

Problem: min over x of sum_v u_v(x_v) + sum_c h_c(x_c). One variable v after the other leaves: the
tables that contain it are summed and replaced by their minimum over x_v, a table of its remaining
neighbours, and the minimisers are kept; the optimum is then read off backwards (bucket elimination,
Dechter 1999). Time and memory are exponential in the induced width of the order alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate

import numpy as np

from gmlearn.model.crf import CRF
from gmlearn.model.factors import FactorGraph
from gmlearn.slaves import elimination
from gmlearn.slaves.elimination import Cliques, Order, c_strides, one_step
from gmlearn.solvers.problem import MapSolver, Problem, SolverRefusal

#: entries of the largest table, and of all tables together (one byte of back-pointer each), that
#: are tried
MAX_TABLE, MAX_TOTAL = 2.0**24, 2.0**31
#: table entries that are worth as much time as the call for one variable
PER_VARIABLE = 1e4


def elimination_order(
    graph: FactorGraph,
    domain: np.ndarray,
    max_table: float = MAX_TABLE,
    max_total: float = MAX_TOTAL,
) -> Order | None:
    """A good order for the variables of a model with `domain` (V,) labels left; None if its tables
    pass a limit.
    """
    return elimination.elimination_order(graph.indptr, graph.scope, domain, max_table, max_total)


class BackPointers:
    """The best label of an eliminated variable for each state of its neighbours; one bit each
    for binary variables.
    """

    def __init__(self, scope: list[int], best: np.ndarray, n_labels: int):
        self.scope, self.shape, self.packed = scope, best.shape, n_labels == 2
        self.data = (
            np.packbits(best.ravel().astype(np.uint8))
            if self.packed
            else best.ravel().astype(np.uint8 if n_labels <= 256 else np.int32)
        )

    def __getitem__(self, position: np.ndarray) -> int:
        where = (
            int(np.ravel_multi_index(tuple(position[self.scope]), self.shape)) if self.scope else 0
        )
        return (
            int(self.data[where >> 3]) >> (7 - (where & 7)) & 1
            if self.packed
            else int(self.data[where])
        )


class Elimination:
    """Eliminate variables in order, keeping only back-pointers; then read the optimum off
    backwards.

    Parameters
    ----------
    allowed : list of int arrays, the labels that each variable may still take.
    """

    def __init__(self, graph: FactorGraph, allowed: list[np.ndarray], order: np.ndarray):
        self.allowed, self.order = allowed, order.tolist()
        self.domain = np.array([len(labels) for labels in allowed], np.int64)
        self.rank = np.empty(graph.n_vars, np.int64)
        self.rank[order] = np.arange(len(order))
        self.buckets: list[list[tuple[list[int], np.ndarray]]] = [[] for _ in order]
        self.constant = 0.0
        for v in range(graph.n_vars):
            costs = graph.unary[graph.offsets[v] : graph.offsets[v + 1]][allowed[v]]
            self.buckets[self.rank[v]].append(([v], costs))
        for f in range(graph.n_factors):
            scope = graph.scope[graph.indptr[f] : graph.indptr[f + 1]].tolist()
            table = graph.table(f)
            if any(len(allowed[v]) < n for v, n in zip(scope, table.shape)):
                table = table[np.ix_(*[allowed[v] for v in scope])]
            self._add(scope, table)

    def _add(self, scope: list[int], table: np.ndarray) -> None:
        """File a table under the first of its variables to be eliminated; single-state variables
        drop out.
        """
        keep = [i for i, n in enumerate(table.shape) if n > 1]
        if not keep and scope:
            self.constant += float(table.ravel()[0])
            return
        scope = [scope[i] for i in keep]
        first = min(scope, key=lambda u: self.rank[u])
        table = table.reshape([table.shape[i] for i in keep])
        self.buckets[self.rank[first]].append((scope, table))

    def _eliminate(
        self, v: int, scope: list[int], tables: list[tuple[list[int], np.ndarray]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Minimum and best label of v for each state of `scope`, of the sum of tables."""
        from gmlearn.slaves._elimination_numba import eliminate_one

        cliques = Cliques(
            np.array([0, *accumulate(len(s) for s, _ in tables)]),
            np.array([u for s, _ in tables for u in s]),
            np.array([0, *accumulate(table.size for _, table in tables)])[:-1],
            np.array([step for _, table in tables for step in c_strides(table.shape)]),
        )
        shape = self.domain[scope]
        message, best = np.empty(shape), np.empty(shape, np.int32)
        values = np.concatenate([table.ravel() for _, table in tables])
        program = one_step(v, scope, self.domain, cliques)
        eliminate_one(program, values, message.reshape(-1), best.reshape(-1))
        return message, best

    def run(self, problem: Problem | None = None) -> tuple[np.ndarray, float] | None:
        """(labels, minimum), or None when the problem's time is over."""
        back: list[BackPointers] = []
        for k, v in enumerate(self.order):
            if problem is not None and problem.time_left <= 0:
                return None
            names = {u for s, _ in self.buckets[k] for u in s} - {v}
            scope = sorted(names, key=lambda u: self.rank[u])
            tables = self.buckets[k]
            message, best = self._eliminate(v, scope, tables)
            if problem is not None:
                joined = float(message.size) * len(self.allowed[v])
                problem.count(0.5 * len(tables) * joined + PER_VARIABLE)
            self.buckets[k] = []
            back.append(BackPointers(scope, best, len(self.allowed[v])))
            if scope:
                self._add(scope, message)
            else:
                self.constant += float(message)
        labels = np.zeros(len(self.order), np.int64)
        position = np.zeros(len(self.order), np.int64)
        for k in range(len(self.order) - 1, -1, -1):
            v = self.order[k]
            position[v] = back[k][position]
            labels[v] = self.allowed[v][position[v]]
        return labels, self.constant


def all_labels(graph: FactorGraph) -> list[np.ndarray]:
    """Every label of every variable."""
    return [np.arange(n) for n in graph.n_states.tolist()]


class VariableElimination(MapSolver):
    """Exact by eliminating one variable after the other; cost exponential in the induced width
    only.
    """

    name = "elimination"

    def refuses(self, crf) -> str | None:
        from gmlearn.potentials.base import MAX_TABLE_ENTRIES

        large = [b for b in crf.clique_blocks if b.table_size() > MAX_TABLE_ENTRIES]
        return f"{large[0]} has no table" if large else None

    def run(self, problem: Problem) -> None:
        graph = FactorGraph.of(problem.crf, problem.w)
        found = elimination_order(graph, graph.n_states)
        if found is None:
            raise SolverRefusal(
                f"solver 'elimination': the induced width of {problem.crf} is too large "
                f"(a table would pass {MAX_TABLE} entries); use 'exact' or 'auto'"
            )
        problem.iterations = 1
        answer = Elimination(graph, all_labels(graph), found[0]).run(problem)
        if answer is None:  # out of time
            from gmlearn.solvers.dual import one_round_bound
            from gmlearn.solvers.polish import unary_labels

            problem.offer(unary_labels(problem), "unary optimum")
            one_round_bound(problem)
            return
        problem.offer(answer[0], "elimination")
        problem.raise_bound(problem.energy if np.isfinite(answer[1]) else np.inf)


class BruteForce(MapSolver):
    """Every labelling, one after the other: the specification of all other solvers. At most
    `limit` labellings.
    """

    name = "brute-force"
    limit = 2_000_000

    def refuses(self, crf) -> str | None:
        with np.errstate(over="ignore"):
            n = float(np.prod(crf.n_states.astype(float)))
        return None if n <= self.limit else f"{n:.3g} labellings > {self.limit}"

    def run(self, problem: Problem) -> None:
        crf = problem.crf
        total = int(np.prod(crf.n_states))
        best, best_index = np.inf, 0
        done = 0
        for first, energy in all_energies(crf, problem.w):
            k = int(energy.argmin())
            if energy[k] < best:
                best, best_index = float(energy[k]), first + k
            problem.iterations += 1
            done = first + len(energy)
            if problem.time_left <= 0:
                break
        problem.offer(np.array(np.unravel_index(best_index, crf.n_states.tolist())), "brute force")
        if done == total:
            problem.raise_bound(problem.energy)
            return
        from gmlearn.solvers.dual import one_round_bound

        one_round_bound(problem)


def all_energies(crf: CRF, w: Mapping[str, np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
    """(number of the first, energies (n,) without the constant) of all labellings, part by part;
    the last variable changes fastest.
    """
    total = int(np.prod(crf.n_states))
    unary = crf.unary_costs(w)
    chunk = max(1, 200_000 // max(1, crf.n_vars))
    for first in range(0, total, chunk):
        index = np.arange(first, min(first + chunk, total))
        x = np.stack(np.unravel_index(index, crf.n_states.tolist()), axis=1)
        energy = unary[crf.offsets[:-1] + x].sum(axis=1)
        for block in crf.clique_blocks:
            many = block.take(np.tile(np.arange(len(block)), len(index)))
            labels = x[:, block.members].ravel()
            each = many.energy(many.shape_members(labels), w)
            energy += each.reshape(len(index), -1).sum(axis=1)
        yield first, energy
