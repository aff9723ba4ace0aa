"""Fixed labels leave the model: what is still open is solved apart, as a smaller model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gmlearn.model.crf import CRF
from gmlearn.model.factors import FactorGraph, table_entries
from gmlearn.potentials.table import Table
from gmlearn.solvers.cuts.binary import binary_edges
from gmlearn.solvers.cuts.qpbo import persistent_labels
from gmlearn.solvers.elimination import Elimination, all_labels, elimination_order
from gmlearn.solvers.local_gaps import locally_optimal
from gmlearn.solvers.neighbourhood import conditioned
from gmlearn.solvers.problem import Problem
from gmlearn.solvers.result import Result
from gmlearn.solvers.warm import Multipliers

#: entries of the largest table, and of all, by which open variables are eliminated at once
MAX_TABLE, MAX_TOTAL = 2.0**16, 2.0**24
#: the part of the variables that the local gap test must fix, so that the rest is worth a model of
#: its own; table entries that the test reads, in units of those there are
LEAST_FIXED, LOOK = 0.5, 60.0


def fix_binary(problem: Problem, solve: Callable[[Problem], None]) -> bool:
    """Fix the persistent labels of a binary pairwise model and solve the rest: by elimination,
    else by `solve` as a model of its own. False if there are none.
    """
    found = binary_edges(problem.crf, problem.w)
    if found is None:
        return False
    labels = persistent_labels(*found)
    if (labels < 0).all():
        return False
    left = int((labels < 0).sum())
    problem.notes.append(f"QPBO labels {len(labels) - left} of {len(labels)} variables")
    problem.fix(labels)
    solve_rest(problem, labels, solve)
    return True


def fix_locally(problem: Problem, solve: Callable[[Problem], None]) -> bool:
    """Fix the labels that the local gap test proves, if they are most of all, and solve the rest;
    False if they are not.
    """
    crf, x = problem.crf, problem.labels
    if x is None or not np.isfinite(problem.energy):
        return False
    kept = Multipliers(crf.n_states, problem.messages, problem.costs)
    found = locally_optimal(crf, problem.w, kept, x, problem.scale)
    problem.count(LOOK * (crf.n_coords + table_entries(crf)))
    if found.mean() < LEAST_FIXED:
        return False
    problem.notes.append(f"the local gap test fixes {found.sum()} of {crf.n_vars} variables")
    labels = np.where(found, x, -1)
    problem.fix(labels)
    solve_rest(problem, labels, solve)
    return True


def solve_rest(problem: Problem, labels: np.ndarray, solve: Callable[[Problem], None]) -> None:
    """Solve a model whose `labels` (V,) are known to belong to one optimum, -1 where unknown.

    Its connected parts that are small enough go by elimination, each of the others is a problem of
    its own.
    """
    known = np.zeros(len(labels), np.int64) if problem.labels is None else problem.labels
    x = np.where(labels < 0, known, labels)
    whole = FactorGraph.of(problem.crf, problem.w)
    easy, hard = _parts(whole, np.flatnonzero(labels < 0), x)
    if len(easy):
        graph = conditioned(whole, easy, x)
        order = elimination_order(graph, graph.n_states, np.inf, np.inf)
        answer = order and Elimination(graph, all_labels(graph), order[0]).run(problem)
        if answer is None:  # out of time
            hard.append(easy)
        else:
            x[easy] = answer[0]
            problem.iterations += 1
            if not np.isfinite(answer[1]):
                problem.raise_bound(np.inf)
    problem.offer(x, "elimination of open labels")
    gap, left = 0.0, sum(map(len, hard))
    for k, region in enumerate(hard):
        with problem.budget(len(region) / left):
            others = gap if k + 1 == len(hard) else np.inf
            rest = RestProblem(problem, conditioned(whole, region, x), region, x, others)
        solve(rest)
        rest.hand_back()
        gap, left = gap + rest.gap, left - len(region)
    if problem.bound < np.inf:
        problem.raise_bound(problem.crf.energy(x, problem.w) - gap)


def _parts(
    whole: FactorGraph, region: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray]]:
    """All variables of the connected parts of a region that elimination can do at once, and each
    of the other parts, small ones first.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = conditioned(whole, region, x)
    if elimination_order(graph, graph.n_states, MAX_TABLE, MAX_TOTAL) is not None:
        return region, []
    n, size = graph.n_vars, graph.n_vars + graph.n_factors
    ends = graph.scope, n + graph.owner
    links = coo_array((np.ones(len(graph.scope)), ends), shape=(size, size))
    part = connected_components(links, directed=False)[1][:n]
    order = np.argsort(part, kind="stable")
    groups = np.split(region[order], np.flatnonzero(np.diff(part[order])) + 1)
    easy = [np.zeros(0, np.int64)]
    hard: list[np.ndarray] = []
    for group in sorted(groups, key=len):
        own = conditioned(whole, group, x)
        fits = elimination_order(own, own.n_states, MAX_TABLE, MAX_TOTAL) is not None
        (easy if fits else hard).append(group)
    return np.sort(np.concatenate(easy)), hard


class RestProblem(Problem):
    """The open variables of a larger problem as a problem of their own; whatever it finds goes to
    the larger one.

    region : int (n,), the open variables.   x : int (V,), the labels of all others.   others : the
    gap of what else is open, inf if it is not known yet.
    """

    def __init__(
        self,
        whole: Problem,
        graph: FactorGraph,
        region: np.ndarray,
        x: np.ndarray,
        others: float = 0.0,
    ):
        report = whole.options.on_progress
        options = replace(
            whole.options,
            initial=None,
            warm=None,
            decomposition="auto",
            on_progress=None if report is None else self._report,
        )
        super().__init__(model_of(graph), {}, options, whole.clock)
        self.deadline, self.work_deadline = whole.deadline, whole.work_deadline
        self.whole, self.region, self.x, self.others = whole, region, x, others
        if whole.labels is not None:
            self.offer(whole.labels[region], whole.decoded_from)

    def _report(self, part: Result) -> bool:
        self.hand_back()
        self.whole.log()
        return self.whole.interrupted

    def hand_back(self) -> None:
        """Tell the larger problem what is known so far."""
        whole = self.whole
        whole.iterations = max(whole.iterations, self.iterations)
        if self.labels is not None:
            self.x[self.region] = self.labels
            whole.offer(self.x, self.decoded_from)
        if self.bound == np.inf:
            whole.raise_bound(np.inf)
        elif np.isfinite(self.energy):
            whole.raise_bound(whole.crf.energy(self.x, whole.w) - self.gap - self.others)
        whole.notes += self.notes
        self.notes = []


def model_of(graph: FactorGraph) -> CRF:
    """The model of a factor graph: its tables, by arity; tables of one variable become unary."""
    crf = CRF(graph.n_states)
    crf.unary = graph.unary.copy()
    arity = np.diff(graph.indptr)
    for f in np.flatnonzero(arity == 1).tolist():
        v = graph.scope[graph.indptr[f]]
        crf.unary[graph.offsets[v] : graph.offsets[v + 1]] += graph.table(f)
    for f in np.flatnonzero(arity == 0).tolist():
        crf.constant += float(graph.table(f))
    for k in np.unique(arity[arity > 1]).tolist():
        chosen = np.flatnonzero(arity == k)
        scope = graph.scope[graph.indptr[chosen][:, None] + np.arange(k)]
        crf.add(Table(scope, [graph.table(f) for f in chosen.tolist()]))
    return crf
