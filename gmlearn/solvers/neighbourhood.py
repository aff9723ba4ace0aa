"""Large-neighbourhood search (Shaw 1998): a connected set of variables at a time is re-optimised,
all others fixed at the incumbent x, so that the energy never rises.

What is left on a set A is min over x_A of E(x_A, x_rest): variable elimination solves it exactly
where the induced width of A allows, branch and bound else.
"""

from __future__ import annotations

import numpy as np

from gmlearn._utils.ranges import ranges
from gmlearn.model.factors import FactorGraph
from gmlearn.solvers.elimination import Elimination, elimination_order
from gmlearn.solvers.polish import unary_labels
from gmlearn.solvers.problem import Problem
from gmlearn.solvers.search.branch import BranchAndBound

#: entries of the largest table of one neighbourhood, at first (some milliseconds) and at most; all
#: tables may have four times that
FIRST_TABLE, LAST_TABLE = 2.0**16, 2.0**22
#: nodes of the branch and bound on a neighbourhood that is too wide for elimination
NODES = 300
#: table entries that are worth as much time as drawing one variable of a neighbourhood
PER_REGION = 7e3
#: table entries that are worth as much time as one neighbourhood without tables, and one move, or
#: clique, that is tried there
PER_TRY, PER_MOVE = 2e6, 2e3
#: seconds of work without a better labelling that are tried in any case
LEAST_SECONDS = 1.0


def conditioned(graph: FactorGraph, region: np.ndarray, x: np.ndarray) -> FactorGraph:
    """The cliques that touch `region` (ascending), as functions of its variables alone, the others
    fixed at x.

    Fixed labels only move where a clique's table starts, so that no table is copied. Variables are
    numbered within the region.
    """
    place = np.full(graph.n_vars, -1)
    place[region] = np.arange(len(region))
    ptr, slots = graph.adjacency
    touched = (
        np.unique(graph.owner[np.concatenate([slots[ptr[v] : ptr[v + 1]] for v in region])])
        if len(region)
        else region
    )
    sizes = np.diff(graph.indptr)[touched]
    inside = ranges(graph.indptr[touched], sizes)
    clique = np.repeat(np.arange(len(touched)), sizes)
    scope, stride = graph.scope[inside], graph.stride[inside]
    fixed = place[scope] < 0
    start = graph.start[touched] + np.bincount(
        clique, np.where(fixed, x[scope] * stride, 0), len(touched)
    ).astype(np.int64)
    count = np.bincount(clique[~fixed], minlength=len(touched))
    states = graph.n_states[region]
    unary = graph.unary[ranges(graph.offsets[region], states)]
    return FactorGraph(
        np.concatenate([[0], np.cumsum(states)]),
        unary,
        np.concatenate([[0], np.cumsum(count)]),
        place[scope[~fixed]],
        stride[~fixed],
        start,
        graph.scale[touched],
        graph.values,
    )


def fixed_energy(graph: FactorGraph, region: np.ndarray, x: np.ndarray) -> float:
    """What the variables outside `region` and the cliques among them cost at x."""
    outside = np.ones(graph.n_vars, bool)
    outside[region] = False
    chosen = (graph.offsets[:-1] + x)[outside]
    outer = np.bincount(graph.owner, ~outside[graph.scope], graph.n_factors) == 0
    steps = np.bincount(graph.owner, x[graph.scope] * graph.stride, graph.n_factors)
    at = graph.start[outer] + steps[outer].astype(np.int64)
    return float(graph.unary[chosen].sum() + (graph.scale[outer] * graph.values[at]).sum())


class Neighbourhoods:
    """Random connected sets of variables of one model.

    Parameters
    ----------
    allowed : bool (n_coords,), the labels to choose among.
    """

    def __init__(self, graph: FactorGraph, allowed: np.ndarray, seed: int):
        self.graph, self.rng = graph, np.random.default_rng(seed)
        self.labels = [
            np.flatnonzero(allowed[graph.offsets[v] : graph.offsets[v + 1]])
            for v in range(graph.n_vars)
        ]
        self.free = np.flatnonzero([len(a) > 1 for a in self.labels])

    def near(self, v: int) -> np.ndarray:
        """The free variables that share a clique with v."""
        graph = self.graph
        ptr, slots = graph.adjacency
        cliques = graph.owner[slots[ptr[v] : ptr[v + 1]]]
        first = graph.indptr[cliques]
        found = np.unique(graph.scope[ranges(first, graph.indptr[cliques + 1] - first)])
        return np.intersect1d(found, self.free, assume_unique=True)

    def draw(self, size: int) -> np.ndarray:
        """About `size` free variables around a random one, nearest first, neighbours in random
        order.
        """
        first = int(self.rng.choice(self.free))
        chosen, queue = {first}, [first]
        while queue and len(chosen) < size:
            for u in self.rng.permutation(self.near(queue.pop(0))).tolist():
                if u not in chosen and len(chosen) < size:
                    chosen.add(u)
                    queue.append(u)
        return np.array(sorted(chosen))

    def improve(
        self, problem: Problem, region: np.ndarray, x: np.ndarray, max_table: float
    ) -> np.ndarray | None:
        """x with the region at its best, or better; None if the region is too wide, or out of
        time.
        """
        problem.count(PER_REGION * len(region))
        part = conditioned(self.graph, region, x)
        labels = [self.labels[v] for v in region]
        n_left = np.array([len(a) for a in labels])
        found = elimination_order(part, n_left, max_table, 4.0 * max_table)
        better = x.copy()
        if found is None:
            inside = self._branch(problem, part, labels, region, x)
            if inside is None:
                return None
            better[region] = inside
            return better
        answer = Elimination(part, labels, found[0]).run(problem)
        if answer is None:
            return None
        if np.isfinite(answer[1]):
            better[region] = answer[0]
        return better

    def _branch(
        self,
        problem: Problem,
        part: FactorGraph,
        labels: list[np.ndarray],
        region: np.ndarray,
        x: np.ndarray,
    ) -> np.ndarray | None:
        """Labels (n,) of the region that are no worse than those of x; None if a search of `NODES`
        nodes finds none without being finished.
        """
        if not BranchAndBound.suits(part, np.array([len(a) for a in labels])):
            return None
        step = max(problem.granularity, 1e-9 * problem.scale)
        now = part.energy(x[region])
        search = BranchAndBound(part, labels, now, step, problem.scale)
        finished = search.run(NODES)
        problem.count((1.0 + search.nodes) * search.size)
        if search.best is not None:
            return search.best
        return x[region] if finished else None


def out_of_patience(problem: Problem, gained: float) -> bool:
    """Is the time or the work over, or, unless the clock alone decides, has nothing come for as
    much work as all that was spent up to the last better labelling?
    """
    since, by_clock = problem.spent - gained, problem.limited and problem.work_deadline == np.inf
    return problem.time_left <= 0 or (not by_clock and since > gained + LEAST_SECONDS)


def search_neighbourhoods(problem: Problem, graph: FactorGraph, allowed: np.ndarray) -> int:
    """Improve the incumbent until the time or the work is over; returns how many neighbourhoods
    were tried.

    Neighbourhoods grow while elimination can do them within a limit and shrink when it cannot; the
    limit is doubled whenever as many of them as there are variables (at most 100) have brought
    nothing.
    """
    regions = Neighbourhoods(graph, allowed, problem.options.seed)
    if len(regions.free) == 0 or problem.labels is None:
        return 0
    size = 8.0
    limit = FIRST_TABLE
    tried = 0
    idle = 0
    x = problem.labels.copy()
    gained = problem.spent
    while not (problem.closed or out_of_patience(problem, gained)):
        better = regions.improve(problem, regions.draw(int(size)), x, limit)
        size = (
            max(2.0, 0.9 * size)
            if better is None
            else min(1.02 * size + 0.05, float(len(regions.free)))
        )
        tried, idle = tried + 1, idle + 1
        if better is not None and not np.array_equal(better, x):
            x = better
            if problem.offer(x, "large neighbourhoods"):
                idle, gained = 0, problem.spent
        if idle >= min(graph.n_vars, 100):
            idle, limit = 0, min(2.0 * limit, LAST_TABLE)
    return tried


def search_by_energies(problem: Problem) -> None:
    """The same where blocks have no tables: the labels of a neighbourhood are shuffled, local
    search goes on from there, and what is better is kept.
    """
    polisher, costs = problem.polisher, problem.polisher.costs
    if not costs.rest:
        return
    incumbent = problem.labels
    polisher(problem, unary_labels(problem), "unary optimum")
    if incumbent is not None:  # it may come from a slave, as it is
        polisher(problem, incumbent, "incumbent")
    rng = np.random.default_rng(problem.options.seed)
    n = problem.crf.n_vars
    x = np.array(problem.labels, np.int64)
    gained = problem.spent
    while not (problem.closed or out_of_patience(problem, gained)):
        before = costs.spent
        size, region = int(rng.integers(2, n + 1)), rng.integers(0, n, 1)
        while len(region) < size and len(near := np.flatnonzero(costs.near(region))) > len(region):
            region = near
        region = rng.permutation(region)[:size]
        y = x.copy()
        y[region] = polisher.shaken(x, region, rng)
        y = polisher.descend(y, lambda: problem.time_left <= 0, costs.near(region))
        problem.count(PER_TRY + PER_MOVE * (costs.spent - before))
        if problem.offer(y, "large neighbourhoods"):
            x, gained = y, problem.spent
