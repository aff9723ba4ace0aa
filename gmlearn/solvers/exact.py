"""Exact answers: dual ascent, pruning by reduced costs, then elimination or integer programming
on what is left.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gmlearn._utils.threads import in_thread
from gmlearn.decompositions import decompose
from gmlearn.master import Dual, ascend_bcfw
from gmlearn.model.crf import CRF
from gmlearn.model.factors import FactorGraph, table_entries
from gmlearn.solvers.dual import drive
from gmlearn.solvers.elimination import MAX_TABLE, MAX_TOTAL, Elimination, elimination_order
from gmlearn.solvers.linear import MAX_ENTRIES, LocalPolytope, labels_from_marginals
from gmlearn.solvers.neighbourhood import conditioned, fixed_energy
from gmlearn.solvers.problem import ENTRIES_PER_SECOND, MapSolver, Problem
from gmlearn.solvers.search.branch import BranchAndBound
from gmlearn.solvers.srmp import run_srmp, srmp_suits
from gmlearn.solvers.tabu import tabu_search
from gmlearn.solvers.trws import run_trws, trws_refuses
from gmlearn.solvers.warm import SlaveCosts, chains_from_messages


class Effort(NamedTuple):
    """How much an exact finish may do.

    seconds : of counted work.   max_table, max_total : entries of the largest table and of all
        tables of an elimination.   search : may it branch?
    max_entries : table entries of an integer program, 0 for none.   max_variables : that pruning
        may leave.
    """

    seconds: float
    max_table: float
    max_total: float
    search: bool = True
    max_entries: float = 0.0
    max_variables: float = np.inf


QUICK = Effort(1.0, 2.0**20, 2.0**24, max_entries=1e4)
#: as much as a few rounds of slaves
BRIEF = Effort(0.1, 2.0**14, 2.0**20, search=False, max_variables=1000)
#: what branch and bound can do at once, before the bound is raised any further
GLIMPSE = Effort(0.3, 2.0**14, 2.0**20)
#: seconds that it takes to lay out a table for branch and bound; about how often one of its nodes
#: reads a table
PER_TABLE, READS = 2e-5, 10.0
#: sweeps of TRW-S that take about as long as to set up the chains
SETUP_SWEEPS = 25.0
#: nodes of HiGHS's search times columns that take about a second
NODES_PER_SECOND = 3e4


class Swept(NamedTuple):
    """What sweeps of messages leave.

    begin : the slaves to go on with, at the multipliers to begin from.   stalled : where SRMP
    stalled, None if it did not run: its messages are no good place to go on from.
    """

    begin: Dual
    stalled: Dual | None = None


def sweep(problem: Problem, patience: float = 1e-3) -> Swept | None:
    """Raise the bound by messages until they stall: TRW-S on pairwise models, SRMP on others that
    it suits; None if TRW-S alone was enough. With the multipliers of an earlier result each goes
    on from its own.
    """
    if trws_refuses(problem.crf) is None and problem.crf.clique_blocks:
        dual = _chains_of_messages(problem, patience)
        return None if dual is None else Swept(dual)
    dual = Dual(decompose(problem.crf, problem.options.decomposition), problem.w)
    stalled = None
    kept = problem.kept.costs
    if kept is not None and kept.decomposition != "per-clique":
        problem.kept.restore(dual)
    elif problem.options.decomposition == "auto" and srmp_suits(dual.slaves):
        stalled = run_srmp(problem, max_iter=100, stall=(10, 10 * patience))
    return Swept(dual, stalled)


def ascend(problem: Problem, patience: float = 1e-3) -> Dual | None:
    """Raise the bound with the methods that suit the structure; returns the dual state, None if
    TRW-S alone was enough.
    """
    swept = sweep(problem, patience)
    return None if swept is None else ascend_from(problem, swept, patience)


def ascend_from(problem: Problem, swept: Swept, patience: float = 1e-3) -> Dual:
    """Raise the bound by BCFW from where messages have led; returns the dual at the best bound."""
    dual, stalled = swept
    if stalled is not None and problem.closed:
        return stalled
    if not problem.stop():
        dual = drive(
            problem, dual, ascend_bcfw, max_iter=1000, decode_every=8, stall=(25, patience)
        )
    if stalled is not None and stalled.round().bound > dual.round().bound:
        problem.costs = SlaveCosts.of(stalled, "per-clique")
        return stalled
    return dual


def _chains_of_messages(problem: Problem, patience: float) -> Dual | None:
    """TRW-S, and the chains with its multipliers, or with those of an earlier result if they are
    better; None if TRW-S was enough, or if the time limit leaves no time for more.
    """
    began = problem.elapsed
    messages = run_trws(problem, max_iter=300, stall=(20, 0.1 * patience))
    sweep = (problem.elapsed - began) / max(problem.iterations, 1)
    if problem.closed or problem.too_long(SETUP_SWEEPS * sweep):
        return None
    dual = chains_from_messages(problem.crf, problem.w, messages)
    earlier = Dual(dual.slaves, problem.w)
    if problem.kept.restore(earlier):
        dual = max(dual, earlier, key=lambda d: d.round().bound)
    # where TRW-S is nearly tight, this is much faster than to go on
    finish_near_the_bound(problem, dual, BRIEF)
    return dual


def prune(problem: Problem, dual: Dual, ceiling: float | None = None) -> np.ndarray | None:
    """bool (n_coords,): labels that a labelling of energy <= `ceiling` (the best known one) may
    use; None if slaves cannot tell.
    """
    top = problem.energy if ceiling is None else ceiling
    if not np.isfinite(top) or not dual.slaves.of_labels:
        return None
    bound, reduced = dual.reduced_costs()
    allowed = bound + reduced[: problem.crf.n_coords] <= top + 1e-9 * max(problem.scale, abs(top))
    if ceiling is None:
        allowed[problem.crf.offsets[:-1] + problem.labels] = True
    return allowed & np.isfinite(problem.crf.unary_costs(problem.w))


def finish_near_the_bound(problem: Problem, dual: Dual, effort: Effort = QUICK) -> None:
    """Prune and solve as if a labelling just above the bound were known.

    Where the relaxation is tight very little is left, which gives the optimum even if no good
    labelling could be decoded; where nothing is found, no labelling is that good, and the bound may
    rise.
    """
    room = problem.gap if np.isfinite(problem.gap) else max(problem.scale, abs(problem.bound))
    ceiling = problem.bound + 1e-3 * room
    allowed = prune(problem, dual, ceiling)
    if allowed is not None:
        try_finish(problem, allowed, effort, ceiling)


def try_finish(
    problem: Problem, allowed: np.ndarray, effort: Effort, ceiling: float = np.inf
) -> None:
    """`finish` in a tenth of the time; no notes unless it closes the problem."""
    notes = list(problem.notes)
    with problem.budget(0.1, effort.seconds):
        finish(problem, allowed, effort, ceiling)
    if not problem.closed:
        problem.notes = notes


def finish(problem: Problem, allowed: np.ndarray, effort: Effort, ceiling: float = np.inf) -> None:
    """Solve the model on the allowed labels exactly, by elimination, branch and bound or HiGHS, if
    it is small enough.

    ceiling : labellings up to this energy, or the best known one, use allowed labels only.
    """
    crf = problem.crf
    domain = np.add.reduceat(allowed, crf.offsets[:-1], dtype=np.int64)
    if (domain == 0).any():  # no labelling within the allowed ones
        problem.raise_bound(min(problem.energy, ceiling))
        return
    hit = np.flatnonzero(allowed)
    x = hit[np.searchsorted(hit, crf.offsets[:-1])] - crf.offsets[:-1]
    region = np.flatnonzero(domain > 1)
    if len(region) > effort.max_variables:
        return
    whole = FactorGraph.of(crf, problem.w)
    graph = conditioned(whole, region, x)
    allowed = allowed[np.repeat(domain > 1, crf.n_states)]
    left = len(region)
    order = elimination_order(graph, domain[region], effort.max_table, effort.max_total)
    labels = [np.flatnonzero(a) for a in np.split(allowed, graph.offsets[1:-1])][:left]
    if order is not None:
        answer = Elimination(graph, labels, order[0]).run(problem)
        if answer is not None:
            problem.notes.append(f"elimination of the {left} variables that pruning left")
            x[region] = answer[0]
            problem.offer(x, "elimination")
            problem.raise_bound(min(problem.energy, ceiling))
        return
    in_time = PER_TABLE * graph.n_factors < problem.time_left
    if effort.search and in_time and BranchAndBound.suits(graph, domain[region]):
        part = Part(graph, labels, x, region, fixed_energy(whole, region, x) + crf.constant)
        if branch_and_bound(problem, part, ceiling):
            return
    sizes = np.multiply.reduceat(domain[region][graph.scope].astype(float), graph.indptr[:-1])
    if problem.time_left <= 0 or sizes.sum() > effort.max_entries:
        problem.notes.append(
            f"{left} variables and {sizes.sum():.3g} table entries left after pruning: too many "
            f"for HiGHS"
        )
        return
    problem.notes.append(f"HiGHS on the {left} variables that pruning left")
    integer_program(problem, graph, allowed, x, region, ceiling)


class Part(NamedTuple):
    """A part of a model: `graph` on the variables of `region` (n,) with the `labels` left to each,
    all others fixed at x (V,), where they cost `base`.
    """

    graph: FactorGraph
    labels: list[np.ndarray]
    x: np.ndarray
    region: np.ndarray
    base: float


def branch_and_bound(problem: Problem, part: Part, ceiling: float) -> bool:
    """Our own depth-first search on a pairwise part, until the time is over; see `finish`. True if
    it is finished, which proves a bound.
    """
    top = min(problem.energy, ceiling)
    unit = problem.granularity
    size = max(abs(top), problem.scale) if np.isfinite(top) else problem.scale
    wanted = max(0.5 * problem.options.tol * problem.scale, 0.99 * problem.options.gap * size)
    step = max(unit * (1 - 1e-6), wanted)
    search = BranchAndBound(part.graph, part.labels, top - part.base, step, problem.scale)
    nodes = 1 + int(0.05 * ENTRIES_PER_SECOND / (READS * search.size))  # about .05 s
    problem.count(search.size)
    while not search.run(nodes) and problem.time_left > 0:
        problem.count(2.0 * nodes * search.size)
        if search.best is not None:
            _offer_part(problem, part, search.best)
    if search.best is not None:
        _offer_part(problem, part, search.best)
    if search.finished:
        problem.notes.append(
            f"branch and bound on the {len(part.region)} variables that pruning left, "
            f"{search.nodes} nodes"
        )
        best = min(problem.energy, ceiling)
        problem.raise_bound(best if step <= unit else best - step)
    return search.finished


def _offer_part(problem: Problem, part: Part, labels: np.ndarray) -> None:
    """Offer the labelling with these labels of the part's variables."""
    part.x[part.region] = labels
    problem.offer(part.x, "branch and bound")
    problem.log()


def integer_program(
    problem: Problem,
    graph: FactorGraph,
    allowed: np.ndarray,
    x: np.ndarray,
    region: np.ndarray,
    ceiling: float,
) -> None:
    """HiGHS's branch and bound on the allowed labels; only the labels' columns are integer.

    graph, allowed : of the variables in `region`, all others are fixed at x (V,).   ceiling : see
    `finish`.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    unit = problem.scale or 1.0  # HiGHS's tolerances are absolute
    options: dict[str, float] = {"mip_rel_gap": 0.0}

    def search() -> Any:
        polytope = LocalPolytope.of(graph, allowed)
        integer = np.zeros(len(polytope.cost))
        integer[: int(allowed.sum())] = 1
        if problem.limited:
            # it looks at its clock only now and then
            options["time_limit"] = max(0.9 * problem.clock_left, 0.01)
        if problem.work_deadline < np.inf:
            nodes = NODES_PER_SECOND * problem.time_left / len(polytope.cost)
            options["node_limit"] = 1 + int(nodes)
        return polytope, milp(
            polytope.cost / unit,
            integrality=integer,
            bounds=Bounds(0, 1),
            options=options,
            constraints=LinearConstraint(polytope.matrix(), polytope.right, polytope.right),
        )

    found = in_thread(search, problem.clock_left)
    if found is None:
        return
    polytope, answer = found
    nodes = 1 + (answer.mip_node_count or 0)
    problem.count(ENTRIES_PER_SECOND * nodes * len(polytope.cost) / NODES_PER_SECOND)
    if answer.x is not None:
        x[region] = labels_from_marginals(graph, polytope, answer.x)
        problem.offer(x, "HiGHS")
    # solved, or nothing within the allowed labels: nothing better, or no labelling at all
    if answer.status in (0, 2):
        problem.raise_bound(min(problem.energy, ceiling))
    elif answer.x is not None and np.isfinite(answer.mip_dual_bound):
        bound = problem.crf.energy(x, problem.w) - unit * (answer.fun - answer.mip_dual_bound)
        problem.raise_bound(min(problem.energy, ceiling, bound))


class Exact(MapSolver):
    """Proves optimality: dual ascent, pruning by reduced costs, then variable elimination or
    HiGHS's MILP on the rest.
    """

    name = "exact"

    def refuses(self, crf: CRF) -> str | None:
        size = table_entries(crf)
        return None if size <= MAX_ENTRIES else f"{size:.3g} table entries > {MAX_ENTRIES}"

    def run(self, problem: Problem) -> None:
        with problem.budget(0.35):
            dual = ascend(problem, patience=1e-2)
        if dual is None or problem.closed or problem.time_left <= 0:
            return
        finish_near_the_bound(problem, dual)
        if problem.closed or problem.time_left <= 0:
            return
        graph = FactorGraph.of(problem.crf, problem.w)
        with problem.budget(0.1):
            tabu_search(problem, graph, moves=int(min(1e6, 3e8 / max(1, len(graph.unary)))))
        allowed = prune(problem, dual)
        if allowed is None:
            allowed = np.isfinite(graph.unary)
        finish(problem, allowed, Effort(np.inf, MAX_TABLE, MAX_TOTAL, max_entries=MAX_ENTRIES))
