"""``solver="auto"``: the method that suits the structure, with the choice and its reason in the
result.

Some models are solved at once, see `AT_ONCE`. All others pass through the stages of `STAGES`, in
this order, until the gap is as small as asked for. What is shared out among them is work, counted
in table entries read, so that every machine and every load give the same answer (see
`Problem.spent`). With a time limit of so many seconds the plan is made for as many seconds of
counted work; the clock cuts a stage off at `SLACK` times its share, and all at the limit.

The purpose without a limit: a proved optimum where that costs at most `NARROW_RATIO` times the work
of a dual ascent that ends within `WIDE` of the optimum, else the gap that is left. Where the ascent
leaves a wider gap the other stages get about a minute, less if better labellings no longer come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gmlearn._utils.threads import one_blas_thread
from gmlearn.decompositions.forests import is_forest
from gmlearn.master import Dual
from gmlearn.model.factors import FactorGraph, table_entries
from gmlearn.registry import registry
from gmlearn.slaves.choose import NoSolverError
from gmlearn.solvers.elimination import Elimination, all_labels, elimination_order
from gmlearn.solvers.exact import (
    GLIMPSE,
    Effort,
    Swept,
    ascend_from,
    finish,
    finish_near_the_bound,
    prune,
    sweep,
    try_finish,
)
from gmlearn.solvers.neighbourhood import search_by_energies, search_neighbourhoods
from gmlearn.solvers.persistency import fix_binary, fix_locally
from gmlearn.solvers.polish import offer_feasible
from gmlearn.solvers.problem import MapSolver, Problem
from gmlearn.solvers.tabu import tabu_search
from gmlearn.solvers.tighten import tighten

#: the relative gap from which on it counts as wide
WIDE = 1e-4
#: the relative gap after sweeps up to which the local gap test is tried at once
NEARLY_TIGHT = 5e-4
#: without a limit: the work after the ascent in units of the ascent's, and its least seconds, where
#: the ascent ends with a narrow gap; the most seconds, which are the rule where the gap is wide
NARROW_RATIO, LEAST_SECONDS, MOST_SECONDS = 10.0, 1.0, 60.0
#: a stage's share of the time, in units of its share of the work: on a slow or loaded machine the
#: last stages shall have some as well
SLACK = 2.0
#: the exact finish
PATIENT = Effort(np.inf, 2.0**24, 2.0**30, max_entries=3e4)
#: variables, and entries of all tables, up to which tables are written out
MAX_VARIABLES, MAX_ENTRIES = 2000, 5e6
#: tabu moves
MOVES = 1_000_000


@dataclass
class Run:
    """One problem on its way through the stages.

    swept : where messages stalled, None if they were enough or if there is no bound.   dual : where
    the ascent ended, None if it was not needed or if there is none.   handed_over : is
    what is left being solved as smaller models?
    """

    problem: Problem
    swept: Swept | None = None
    dual: Dual | None = None
    handed_over: bool = False

    @cached_property
    def tables(self) -> bool:
        """Can all cliques be written out as tables?"""
        return table_entries(self.problem.crf) <= MAX_ENTRIES

    @cached_property
    def graph(self) -> FactorGraph:
        return FactorGraph.of(self.problem.crf, self.problem.w)

    @cached_property
    def in_reach(self) -> bool:
        """May elimination of the whole model succeed? Then it needs the time more than others."""
        if not self.tables or self.problem.crf.n_vars > MAX_VARIABLES:
            return False
        sizes = PATIENT.max_table, PATIENT.max_total
        return elimination_order(self.graph, self.graph.n_states, *sizes) is not None

    @property
    def wide(self) -> bool:
        return self.problem.relative_gap > WIDE

    @property
    def allowed(self) -> np.ndarray:
        """bool (n_coords,): the labels that pruning leaves."""
        pruned = None if self.dual is None else prune(self.problem, self.dual)
        return np.isfinite(self.graph.unary) if pruned is None else pruned


class Auto(MapSolver):
    """Dispatch by structure.

    Forests by dynamic programming; a solver that claims the model (binary submodular ones:
    max-flow; a plugin's own); small induced width by elimination; other binary pairwise models by
    QPBO, which leaves a smaller one; everything else by dual ascent (TRW-S or SRMP, then BCFW),
    windows of growing width where a wide gap stays, tabu and large-neighbourhood search, pruning by
    reduced costs and an exact finish on what is left where that is small.

    Without a time limit the work is bounded by counts, never by a clock, so that every machine
    gives the same answer. With ``gap=1e-4`` it ends as soon as that is reached, which on large
    models takes a small part of the time.
    """

    name = "auto"

    def run(self, problem: Problem) -> None:
        state = Run(problem)
        if any(solved(state) for solved in AT_ONCE):
            return
        offer_feasible(problem)
        if problem.limited:
            plan = problem.spent + problem.clock_left
            problem.work_deadline = min(problem.work_deadline, plan)
        for stage in STAGES:
            if stage.suits(state):
                share = stage.share(state)
                # small products on many BLAS threads are far slower than on one, and on a loaded
                # machine they use up the time limit; a stage may load a BLAS of its own
                most = allowance(state) if stage.run is _fix_locally else np.inf
                slack = min(SLACK * share, 1.0)
                with problem.budget(share, most, slack), one_blas_thread():
                    stage.run(state)
            if problem.stop() or state.handed_over:
                return
            if stage.run is _ascend:
                allowed = problem.spent + allowance(state)
                problem.work_deadline = min(problem.work_deadline, allowed)
            if stage.run is _finish and problem.limited:
                problem.work_deadline = np.inf


def allowance(state: Run) -> float:
    """Seconds of counted work for all stages after the ascent: as many as there is time for."""
    if state.problem.limited:
        return state.problem.clock_left
    narrow = max(NARROW_RATIO * state.problem.spent, LEAST_SECONDS)
    return MOST_SECONDS if state.wide else min(narrow, MOST_SECONDS)


# ---------------------------------------------------------------------- solved at once


def _forest(state: Run) -> bool:
    if not is_forest(state.problem.crf):
        return False
    return _delegate(state.problem, registry.get("solver", "tree"), "the model is a forest")


def _claimed(state: Run) -> bool:
    problem = state.problem
    for solver in registry.objects("solver"):
        if solver.claims(problem.crf, problem.w):
            return _delegate(problem, solver, "it claims this model")
    return False


def _delegate(problem: Problem, solver: MapSolver, reason: str) -> bool:
    problem.notes.append(f"{solver.name}: {reason}")
    solver.run(problem)
    return True


def _eliminated(state: Run) -> bool:
    """Variable elimination, if it is about as cheap as a few rounds of anything else."""
    problem = state.problem
    if problem.crf.n_vars > MAX_VARIABLES or not state.tables:
        return False
    found = elimination_order(state.graph, state.graph.n_states, 2.0**16, 2.0**20)
    if found is None:
        return False
    answer = Elimination(state.graph, all_labels(state.graph), found[0]).run(problem)
    if answer is None:
        return False
    problem.iterations = 1
    problem.notes.append("elimination: the induced width is small")
    problem.offer(answer[0], "elimination")
    problem.raise_bound(problem.energy if np.isfinite(answer[1]) else np.inf)
    return True


def _persistent(state: Run) -> bool:
    return fix_binary(state.problem, Auto().run)


#: these either solve the model, or leave it as it was
AT_ONCE: tuple[Callable[[Run], bool], ...] = (_forest, _claimed, _eliminated, _persistent)

# ---------------------------------------------------------------------- stages


def _sweep(state: Run) -> None:
    problem = state.problem
    try:
        state.swept = sweep(problem)
        problem.notes.append("dual ascent, the model has cycles")
    except NoSolverError as error:
        problem.notes.append(f"local search, no bound: {error}")


def _ascend(state: Run) -> None:
    assert state.swept is not None
    state.dual = ascend_from(state.problem, state.swept)


def _fix_locally(state: Run) -> None:
    state.handed_over = fix_locally(state.problem, Auto().run)


def _glimpse(state: Run) -> None:
    try_finish(state.problem, state.allowed, GLIMPSE)


def _tighten(state: Run) -> None:
    tighten(state.problem)


def _near_the_bound(state: Run) -> None:
    assert state.dual is not None
    finish_near_the_bound(state.problem, state.dual)


def _tabu(state: Run) -> None:
    tabu_search(state.problem, state.graph, MOVES)


def _neighbourhoods(state: Run) -> None:
    search_neighbourhoods(state.problem, state.graph, np.isfinite(state.graph.unary))


def _finish(state: Run) -> None:
    finish(state.problem, state.allowed, PATIENT)


def _look_on(state: Run) -> None:
    search_neighbourhoods(state.problem, state.graph, state.allowed)


def _by_energies(state: Run) -> None:
    search_by_energies(state.problem)


class Stage(NamedTuple):
    """One stage: what it does, where it is of use, its share of the time or work that is left, and
    that share where elimination of the whole model is in reach.
    """

    run: Callable[[Run], None]
    suits: Callable[[Run], bool]
    usual: float
    short: float

    def share(self, state: Run) -> float:
        return self.usual if self.usual == self.short or not state.in_reach else self.short


def _always(state: Run) -> bool:
    return True


def _swept(state: Run) -> bool:
    return state.swept is not None


def _nearly_tight(state: Run) -> bool:
    """Is the gap that messages leave so small that most labels are settled?"""
    return _swept(state) and state.tables and state.problem.relative_gap <= NEARLY_TIGHT


def _open(state: Run) -> bool:
    """Are there tables, and a dual to prune with?"""
    return state.tables and state.dual is not None


def _wide_open(state: Run) -> bool:
    return _open(state) and state.wide


def _without_tables(state: Run) -> bool:
    return not _open(state)


STAGES = (
    # the bound, labellings, and multipliers for all that follows
    Stage(_sweep, _always, 0.4, 0.1),
    # what stays open where messages are nearly tight is small: much faster than to raise the bound
    Stage(_fix_locally, _nearly_tight, 1.0, 1.0),
    Stage(_ascend, _swept, 0.3, 0.1),
    # what the relaxation has settled leaves the model, and what is left falls apart
    Stage(_fix_locally, _open, 1.0, 1.0),
    # pruning closes no wide gap, but small hard models are proved at once by branch and bound
    Stage(_glimpse, _wide_open, 0.1, 0.1),
    # larger slaves, for frustrated models
    Stage(_tighten, _wide_open, 0.4, 0.4),
    # where the relaxation is nearly tight: solve what is left as if a better labelling were known
    Stage(_near_the_bound, _open, 0.1, 0.1),
    # better labellings, so that pruning leaves less: fast and local, then slow and large
    Stage(_tabu, _open, 0.1, 0.05),
    Stage(_neighbourhoods, _open, 0.4, 0.05),
    # a proof, if what pruning leaves is small
    Stage(_finish, _open, 0.4, 1.0),
    # no proof in reach: better labellings
    Stage(_look_on, _open, 1.0, 1.0),
    # cliques that are only asked for energies
    Stage(_by_energies, _without_tables, 1.0, 1.0),
)
