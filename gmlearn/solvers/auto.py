"""``solver="auto"``: the method that suits the structure, with the choice and its reason in the result."""

from __future__ import annotations

import numpy as np

from gmlearn.master import Dual
from gmlearn.model.crf import CRF
from gmlearn.model.factors import FactorGraph, table_entries
from gmlearn.registry import registry
from gmlearn.solvers.elimination import Elimination, all_labels, elimination_order
from gmlearn.solvers.exact import QUICK, ascend, finish, finish_near_the_bound, prune
from gmlearn.solvers.neighbourhood import search_neighbourhoods
from gmlearn.solvers.problem import MapSolver, Problem
from gmlearn.solvers.tabu import tabu_search
from gmlearn.solvers.tree import is_forest

PATIENT = {"max_table": 2.0**24, "max_total": 2.0**30, "max_entries": 3.0e5}
WIDE = {"max_table": PATIENT["max_table"], "max_total": PATIENT["max_total"]}
#: seconds that the exact finish may take when no time limit is given
QUICK_SECONDS = 3.0
#: neighbourhoods that are then searched before it
QUICK_TRIES = 100


class Auto(MapSolver):
    """Dispatch by structure.

    Forests by dynamic programming; a solver that claims the model (binary submodular ones: max-flow, with the extra
    `solvers`; a plugin's own); small induced width by elimination; everything else by dual ascent (TRW-S or SRMP, then BCFW),
    tabu and large-neighbourhood search, pruning by reduced costs and an exact finish on what is left where that is small.
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
        if self._eliminate(problem):
            return
        # where elimination of the whole model is in reach, it needs the time more than the dual does
        patient = (
            problem.options.time_limit is not None and crf.n_vars <= 2000 and self._has_tables(crf)
        )
        in_reach = (
            patient
            and elimination_order(FactorGraph.of(crf, problem.w), crf.n_states, **WIDE) is not None
        )
        dual = ascend(problem, share=0.1 if in_reach else 0.4)
        problem.notes.append("dual ascent, the model has cycles")
        if problem.stop():
            return
        if self._has_tables(crf):
            self._finish(problem, dual, in_reach)

    def _finish(self, problem: Problem, dual: Dual, in_reach: bool) -> None:
        """An exact finish where the relaxation is nearly tight, else a search; without a time limit, a short one."""
        unlimited = problem.options.time_limit is None
        if unlimited:
            problem.options.time_limit = problem.elapsed + QUICK_SECONDS
        finish_near_the_bound(problem, dual, **QUICK)
        if not problem.closed:
            self._search(problem, dual, in_reach, unlimited)
        if unlimited:
            problem.options.time_limit = None

    def _search(self, problem: Problem, dual: Dual, in_reach: bool, unlimited: bool) -> None:
        """Look for better labellings, prune with them, solve what is left exactly if it is small, else look on."""
        graph = FactorGraph.of(problem.crf, problem.w)
        moves = int(min(1e6, 3e8 / max(1, len(graph.unary))))
        tabu_search(problem, graph, moves, seconds=(0.05 if in_reach else 0.1) * problem.time_left)
        tries = QUICK_TRIES if unlimited else np.inf
        search_neighbourhoods(
            problem,
            graph,
            np.isfinite(graph.unary),
            (0.05 if in_reach else 0.2) * problem.time_left,
            tries,
        )
        allowed = prune(problem, dual)
        if allowed is None:
            allowed = np.isfinite(graph.unary)
        finish(problem, allowed, **(QUICK if unlimited else PATIENT))
        if not (unlimited or problem.closed):
            search_neighbourhoods(problem, graph, allowed, problem.time_left)

    def _delegate(self, problem: Problem, solver: MapSolver, reason: str) -> None:
        problem.notes.append(f"{solver.name}: {reason}")
        solver.run(problem)

    def _has_tables(self, crf: CRF) -> bool:
        return table_entries(crf) <= 5e6

    def _eliminate(self, problem: Problem) -> bool:
        """Variable elimination at once, if it is about as cheap as a few rounds of anything else."""
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
