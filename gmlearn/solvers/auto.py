"""``solver="auto"``: the method that suits the structure, with the choice and its reason in the
result.
"""

from __future__ import annotations

import numpy as np

from gmlearn.decompositions.forests import is_forest
from gmlearn.master import Dual
from gmlearn.model.crf import CRF
from gmlearn.model.factors import FactorGraph, table_entries
from gmlearn.registry import registry
from gmlearn.slaves.choose import NoSolverError
from gmlearn.solvers.elimination import Elimination, all_labels, elimination_order
from gmlearn.solvers.exact import (
    GLIMPSE,
    QUICK,
    Effort,
    ascend,
    finish,
    finish_near_the_bound,
    prune,
    try_finish,
)
from gmlearn.solvers.neighbourhood import search_by_energies, search_neighbourhoods
from gmlearn.solvers.persistency import fix_binary
from gmlearn.solvers.problem import MapSolver, Problem
from gmlearn.solvers.tabu import tabu_search
from gmlearn.solvers.tighten import tighten

#: the exact finish under a time limit, and without one (some ten seconds at most)
PATIENT = Effort(2.0**24, 2.0**30, 3.0e5, max_branches=3e9)
COUNTED = Effort(2.0**24, 2.0**30, QUICK.max_entries, QUICK.max_nodes, max_branches=1e9)
#: the relative gap beyond which larger slaves are tried before pruning and search
WIDE = 1e-4
#: neighbourhoods that are searched without a time limit, and tabu moves times labels to choose from
TRIES, MOVES = 100, 1e8


class Auto(MapSolver):
    """Dispatch by structure.

    Forests by dynamic programming; a solver that claims the model (binary submodular ones:
    max-flow; a plugin's own); small induced width by elimination; other binary pairwise models by
    QPBO, which leaves a smaller one; everything else by dual ascent (TRW-S or SRMP, then BCFW),
    windows of growing width where a wide gap stays, tabu and large-neighbourhood search, pruning by
    reduced costs and an exact finish on what is left where that is small.

    Without a time limit the work after the ascent is bounded by counts (moves, neighbourhoods,
    table entries, nodes), never by a clock, so that every machine gives the same answer: a proved
    optimum where some ten seconds of work give one, else the gap that is left. With ``gap=1e-4``
    it ends as soon as that is reached, which on large models takes a small part of the time.
    """

    name = "auto"

    def run(self, problem: Problem) -> None:
        crf = problem.crf
        if is_forest(crf):
            self._delegate(problem, registry.get("solver", "tree"), "the model is a forest")
            return
        for solver in registry.objects("solver"):
            if solver.claims(crf, problem.w):
                self._delegate(problem, solver, "it claims this model")
                return
        if self._eliminate(problem) or fix_binary(problem, self.run):
            return
        tables = self._has_tables(crf)
        # where elimination of the whole model is in reach, it needs the time more than the dual
        # does
        limited = problem.options.time_limit is not None
        in_reach = (
            limited
            and tables
            and crf.n_vars <= 2000
            and elimination_order(FactorGraph.of(crf, problem.w), crf.n_states, *PATIENT[:2])
            is not None
        )
        try:
            dual = ascend(problem, share=0.1 if in_reach else 0.4)
            problem.notes.append("dual ascent, the model has cycles")
        except NoSolverError as error:
            dual = None
            problem.notes.append(f"local search, no bound: {error}")
        if tables and dual is not None and not problem.stop():
            # pruning closes no wide gap: a glimpse of branch and bound, then larger slaves
            if problem.relative_gap > WIDE:
                allowed = prune(problem, dual)
                if allowed is not None:
                    try_finish(problem, allowed, GLIMPSE)
            if problem.relative_gap > WIDE and not problem.closed:
                with problem.budget(0.4):
                    tighten(problem)
            if not problem.closed:
                finish_near_the_bound(problem, dual)
            if not problem.closed:
                self._search(problem, dual, in_reach, limited)
        elif not problem.closed:
            search_by_energies(problem, np.inf if limited else TRIES / 3)

    def _search(self, problem: Problem, dual: Dual, in_reach: bool, limited: bool) -> None:
        """Look for better labellings, prune with them, solve what is left exactly if it is
        small; under a time limit, look on.
        """
        graph = FactorGraph.of(problem.crf, problem.w)
        moves = int(min(1e6, (3.0 if limited else 1.0) * MOVES / max(1, len(graph.unary))))
        with problem.budget(0.05 if in_reach else 0.1):
            tabu_search(problem, graph, moves)
        allowed = np.isfinite(graph.unary)
        with problem.budget(0.05 if in_reach else 0.2):
            tries = np.inf if limited else TRIES
            search_neighbourhoods(problem, graph, allowed, problem.time_left, tries)
        pruned = prune(problem, dual)
        allowed = allowed if pruned is None else pruned
        finish(problem, allowed, PATIENT if limited else COUNTED)
        if limited and not problem.closed:
            search_neighbourhoods(problem, graph, allowed, problem.time_left)

    def _delegate(self, problem: Problem, solver: MapSolver, reason: str) -> None:
        problem.notes.append(f"{solver.name}: {reason}")
        solver.run(problem)

    def _has_tables(self, crf: CRF) -> bool:
        return table_entries(crf) <= 5e6

    def _eliminate(self, problem: Problem) -> bool:
        """Variable elimination at once, if it is about as cheap as a few rounds of anything
        else.
        """
        crf = problem.crf
        if crf.n_vars > 2000 or not self._has_tables(crf):
            return False
        graph = FactorGraph.of(crf, problem.w)
        found = elimination_order(graph, graph.n_states, max_table=2.0**16, max_total=2.0**20)
        if found is None:
            return False
        answer = Elimination(graph, all_labels(graph), found[0]).run(problem)
        if answer is None:
            return False
        problem.iterations = 1
        problem.notes.append("elimination: the induced width is small")
        problem.offer(answer[0], "elimination")
        problem.raise_bound(problem.energy if np.isfinite(answer[1]) else np.inf)
        return True
