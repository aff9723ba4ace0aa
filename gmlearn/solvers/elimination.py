"""Exact minimisation by variable elimination (min-sum), for models of small induced width."""

from __future__ import annotations

import heapq

import numpy as np

from gmlearn.model.factors import FactorGraph
from gmlearn.solvers.problem import MapSolver, Problem, SolverRefusal

#: entries of the largest table, and of all tables together (one byte of back-pointer each), that are tried
MAX_TABLE, MAX_TOTAL = 2.0**24, 2.0**31


def neighbours(graph: FactorGraph, domain: np.ndarray) -> list[set[int]]:
    """The primal graph on the variables with more than one state left."""
    near: list[set[int]] = [set() for _ in range(graph.n_vars)]
    for f in range(graph.n_factors):
        scope = [
            v for v in graph.scope[graph.indptr[f] : graph.indptr[f + 1]].tolist() if domain[v] > 1
        ]
        for v in scope:
            near[v].update(scope)
    for v, s in enumerate(near):
        s.discard(v)
    return near


def elimination_order(
    graph: FactorGraph,
    domain: np.ndarray,
    max_table: float = MAX_TABLE,
    max_total: float = MAX_TOTAL,
) -> tuple[list[int], float] | None:
    """The better of a greedy order and the order of the variables, with its table entries; None if both pass a limit.

    The order of the variables is the classical frontier on grids, where the greedy one can be far worse.
    """
    near = neighbours(graph, domain)
    found = [
        o
        for o in (_simulate(near, domain, max_table, max_total, greedy) for greedy in (True, False))
        if o is not None
    ]
    return min(found, key=lambda o: o[1]) if found else None


def _simulate(
    near: list[set[int]], domain: np.ndarray, max_table: float, max_total: float, greedy: bool
) -> tuple[list[int], float] | None:
    """Eliminate on the graph alone: smallest resulting table first, or in the order of the variables."""
    near = [set(s) for s in near]
    log = np.log(domain.astype(float)).tolist()

    def weight(v: int) -> float:
        return log[v] + sum(log[u] for u in near[v])

    heap = [(weight(v) if greedy else float(v), v) for v in range(len(near))]
    heapq.heapify(heap)
    current = {v: w for w, v in heap}
    done: set[int] = set()
    order, total = [], 0.0
    while heap:
        w, v = heapq.heappop(heap)
        if v in done or w != current[v]:
            continue
        size = float(np.exp(weight(v)))
        total += size
        if size > max_table * 1.000001 or total > max_total:
            return None
        done.add(v)
        order.append(v)
        scope = near[v]
        for u in scope:
            near[u] |= scope
            near[u] -= {u, v}
        if greedy:
            for u in scope:
                current[u] = weight(u)
                heapq.heappush(heap, (current[u], u))
        near[v] = set()
    return order, total


class BackPointers:
    """The best label of an eliminated variable for each state of its neighbours; one bit each for binary variables."""

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
    """Eliminate variables in order, keeping only back-pointers; then read the optimum off backwards.

    Parameters
    ----------
    allowed : list of int arrays, the labels that each variable may still take.
    """

    def __init__(self, graph: FactorGraph, allowed: list[np.ndarray], order: list[int]):
        self.allowed, self.order = allowed, order
        self.rank = np.empty(graph.n_vars, np.int64)
        self.rank[order] = np.arange(len(order))
        self.buckets: list[list[tuple[list[int], np.ndarray]]] = [[] for _ in order]
        self.constant = 0.0
        for v in range(graph.n_vars):
            costs = graph.unary[graph.offsets[v] : graph.offsets[v + 1]][allowed[v]]
            self.buckets[self.rank[v]].append(([v], costs))
        for f in range(graph.n_factors):
            scope = graph.scope[graph.indptr[f] : graph.indptr[f + 1]].tolist()
            self._add(scope, graph.table(f)[np.ix_(*[allowed[v] for v in scope])])

    def _add(self, scope: list[int], table: np.ndarray) -> None:
        """File a table under the first of its variables to be eliminated; single-state variables drop out."""
        keep = [i for i, n in enumerate(table.shape) if n > 1]
        if not keep and scope:
            self.constant += float(table.ravel()[0])
            return
        scope = [scope[i] for i in keep]
        table = table.reshape([table.shape[i] for i in keep])
        by_rank = sorted(range(len(scope)), key=lambda i: self.rank[scope[i]])
        table, scope = table.transpose(by_rank), [scope[i] for i in by_rank]
        self.buckets[self.rank[scope[0]]].append((scope, table))

    def _joined(self, scope: list[int], tables: list[tuple[list[int], np.ndarray]]) -> np.ndarray:
        """The sum of tables over `scope`; small ones first, so that few additions have full size."""
        axis = {u: i for i, u in enumerate(scope)}
        total: np.ndarray = np.zeros((1,) * len(scope))
        for s, table in sorted(tables, key=lambda item: item[1].size):
            shape = [1] * len(scope)
            for u, n in zip(s, table.shape):
                shape[axis[u]] = n
            total = total + table.reshape(shape)  # scopes are sorted by rank, so axes are in order
        return np.broadcast_to(total, [len(self.allowed[u]) for u in scope])

    def run(self, problem: Problem | None = None) -> tuple[np.ndarray, float] | None:
        """(labels, minimum), or None when the problem's time is over."""
        back: list[BackPointers] = []
        for k, v in enumerate(self.order):
            if problem is not None and problem.time_left <= 0:
                return None
            scope = sorted({u for s, _ in self.buckets[k] for u in s}, key=lambda u: self.rank[u])
            total = self._joined(scope, self.buckets[k])
            self.buckets[k] = []
            message, best = _minimum(total)
            back.append(BackPointers(scope[1:], best, len(self.allowed[v])))
            if scope[1:]:
                self._add(scope[1:], message)
            else:
                self.constant += float(message)
        labels = np.zeros(len(self.order), np.int64)
        position = np.zeros(len(self.order), np.int64)
        for k in range(len(self.order) - 1, -1, -1):
            v = self.order[k]
            position[v] = back[k][position]
            labels[v] = self.allowed[v][position[v]]
        return labels, self.constant


def _minimum(total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Minimum over the first axis and where it is; by comparisons where there are few labels, which is far faster."""
    if len(total) > 8:
        best = total.argmin(axis=0)
        return np.take_along_axis(total, best[None], axis=0)[0], best
    message, best = total[0], np.zeros(total.shape[1:], np.uint8)
    for a in range(1, len(total)):
        best[total[a] < message] = a
        message = np.minimum(message, total[a])
    return message, best


def all_labels(graph: FactorGraph) -> list[np.ndarray]:
    """Every label of every variable."""
    return [np.arange(n) for n in graph.n_states.tolist()]


class VariableElimination(MapSolver):
    """Exact by eliminating one variable after the other; cost exponential in the induced width only."""

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
    """Every labelling, one after the other: the specification of all other solvers. At most `limit` labellings."""

    name = "brute-force"
    limit = 2_000_000

    def refuses(self, crf) -> str | None:
        n = float(np.prod(crf.n_states.astype(float)))
        return None if n <= self.limit else f"{n:.3g} labellings > {self.limit}"

    def run(self, problem: Problem) -> None:
        crf = problem.crf
        total = int(np.prod(crf.n_states))
        unary = crf.unary_costs(problem.w)
        best, best_index = np.inf, 0
        chunk = max(1, 200_000 // max(1, crf.n_vars))
        for first in range(0, total, chunk):
            index = np.arange(first, min(first + chunk, total))
            x = np.stack(np.unravel_index(index, crf.n_states.tolist()), axis=1)
            energy = unary[crf.offsets[:-1] + x].sum(axis=1)
            for block in crf.clique_blocks:
                many = block.take(np.tile(np.arange(len(block)), len(index)))
                labels = x[:, block.members].ravel()
                energy += (
                    many.energy(many.shape_members(labels), problem.w)
                    .reshape(len(index), -1)
                    .sum(axis=1)
                )
            k = int(energy.argmin())
            if energy[k] < best:
                best, best_index = float(energy[k]), int(index[k])
            problem.iterations += 1
            if problem.time_left <= 0 and first + chunk < total:
                break
        else:
            problem.offer(
                np.array(np.unravel_index(best_index, crf.n_states.tolist())), "brute force"
            )
            problem.raise_bound(problem.energy)
            return
        problem.offer(np.array(np.unravel_index(best_index, crf.n_states.tolist())), "brute force")
        from gmlearn.solvers.dual import one_round_bound

        one_round_bound(problem)
