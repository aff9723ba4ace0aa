"""Fixed labels leave the model: what is still open is solved apart, as a smaller model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gmlearn.model.crf import CRF
from gmlearn.model.factors import FactorGraph
from gmlearn.potentials.table import Table
from gmlearn.solvers.cuts.binary import binary_edges
from gmlearn.solvers.cuts.qpbo import persistent_labels
from gmlearn.solvers.elimination import Elimination, all_labels, elimination_order
from gmlearn.solvers.neighbourhood import conditioned
from gmlearn.solvers.problem import Problem
from gmlearn.solvers.result import Result

#: entries of the largest table, and of all, by which open variables are eliminated at once
MAX_TABLE, MAX_TOTAL = 2.0**16, 2.0**24


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


def solve_rest(problem: Problem, labels: np.ndarray, solve: Callable[[Problem], None]) -> None:
    """Solve a model whose `labels` (V,) are known to belong to one optimum, -1 where unknown."""
    x = np.maximum(labels, 0)
    region = np.flatnonzero(labels < 0)
    graph = conditioned(FactorGraph.of(problem.crf, problem.w), region, x)
    order = elimination_order(graph, graph.n_states, MAX_TABLE, MAX_TOTAL)
    answer = None
    if order is not None:
        answer = Elimination(graph, all_labels(graph), order[0]).run(problem)
    if answer is not None:
        x[region] = answer[0]
        problem.iterations += 1
        problem.offer(x, "elimination of open labels")
        problem.raise_bound(problem.energy if np.isfinite(answer[1]) else np.inf)
        return
    rest = RestProblem(problem, model_of(graph), region, x)
    solve(rest)
    rest.hand_back()


class RestProblem(Problem):
    """The open variables of a larger problem as a problem of their own; whatever it finds goes to
    the larger one.

    region : int (n,), the open variables.   x : int (V,), the labels of all others.
    """

    def __init__(self, whole: Problem, crf: CRF, region: np.ndarray, x: np.ndarray):
        report = whole.options.on_progress
        options = replace(
            whole.options,
            initial=None,
            warm=None,
            decomposition="auto",
            on_progress=None if report is None else self._report,
        )
        super().__init__(crf, {}, options, whole.clock)
        self.deadline = whole.deadline
        self.whole, self.region, self.x = whole, region, x
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
            whole.raise_bound(whole.crf.energy(self.x, whole.w) - self.gap)
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
