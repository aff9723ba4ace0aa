"""Exact answers: dual ascent, pruning by reduced costs, then elimination or integer programming on what is left."""

from __future__ import annotations

import numpy as np

from gmlearn.decompositions import decompose
from gmlearn.master import Dual, ascend_bcfw
from gmlearn.model.crf import CRF
from gmlearn.model.factors import FactorGraph, table_entries
from gmlearn.slaves import ForestGroup, SlaveGroup
from gmlearn.solvers.dual import drive
from gmlearn.solvers.elimination import MAX_TABLE, MAX_TOTAL, Elimination, elimination_order
from gmlearn.solvers.linear import MAX_ENTRIES, LocalPolytope, labels_from_marginals
from gmlearn.solvers.polish import make_polisher
from gmlearn.solvers.problem import MapSolver, Problem
from gmlearn.solvers.srmp import run_srmp, srmp_suits
from gmlearn.solvers.tabu import tabu_search
from gmlearn.solvers.trws import (
    GridMessages,
    PairwiseMessages,
    make_messages,
    run_messages,
    trws_refuses,
)

#: limits of an exact finish that takes about a second
QUICK = {"max_table": 2.0**20, "max_total": 2.0**24, "max_entries": 2.0e4}


def chains_from_messages(problem: Problem, messages: PairwiseMessages | GridMessages) -> Dual:
    """The TRW-S state (after one more sweep) as multipliers of the chain slaves, without loss of bound.

    A chain has the messages along its own edges taken out at the variable they go to: lam = mean over chains - own.
    Only one direction is stored at a time, so the forward messages are read before the backward pass replaces them.
    Labels that a message rules out (inf) are forbidden in all chains. On grids the chains are the straight rows and
    columns, while TRW-S's own bend at the border: a little bound may be lost there until the messages have settled.
    """
    slaves = decompose(problem.crf, "chains")
    dual = Dual(slaves, problem.w)
    lam = np.zeros(len(dual.coords))
    for forward in (True, False):
        messages.half(forward)
        _take_out(
            lam[slaves.slices[0]],
            slaves.groups[0],
            problem.crf.n_states,
            messages.stored(not forward),
            not forward,
        )
    out = np.bincount(dual.coords, np.isneginf(lam), slaves.n_coords) > 0
    dual.share = np.where(slaves.spread(out), np.inf, dual.share)
    dual.lam = dual.centred(np.where(slaves.spread(out), 0.0, lam))
    return dual


def _take_out(
    lam: np.ndarray, forest: SlaveGroup, n_states: np.ndarray, message: np.ndarray, to_lower: bool
) -> None:
    """Subtract each edge's message at the slot of the variable that it goes to."""
    assert isinstance(forest, ForestGroup)
    target = forest.edges.min(axis=1) if to_lower else forest.edges.max(axis=1)
    size = n_states[target]
    begin = np.cumsum(size) - size
    child = np.flatnonzero(forest.parent >= 0)
    edge = forest.pedge[child]
    slot = np.where(forest.variable[child] == target[edge], child, forest.parent[child])
    n = size[edge]
    step = np.arange(int(n.sum())) - np.repeat(np.cumsum(n) - n, n)
    np.add.at(
        lam, np.repeat(forest.ptr[slot], n) + step, -message[np.repeat(begin[edge], n) + step]
    )


def ascend(problem: Problem, share: float = 0.4, patience: float = 1e-3) -> Dual:
    """Raise the bound with the method that suits the structure, for at most `share` of the time; returns the dual state.

    Pairwise models: TRW-S until it stalls, then BCFW on chains from its messages. Others: SRMP until it stalls, then BCFW on
    chains and cliques, from the start: where SRMP stalls, its messages are no good place to go on from.
    """
    polisher = make_polisher(problem)
    hold = problem.options.time_limit
    if hold is not None:
        problem.options.time_limit = problem.elapsed + share * max(problem.time_left, 0.0)
    settled = None
    if trws_refuses(problem.crf) is None and problem.crf.clique_blocks:
        messages = make_messages(problem.crf, problem.w)
        run_messages(problem, messages, polisher, max_iter=300, stall=(20, 0.1 * patience))
        dual = chains_from_messages(problem, messages)
    else:
        slaves = decompose(problem.crf, problem.options.decomposition)
        if problem.options.decomposition == "auto" and srmp_suits(slaves):
            settled = run_srmp(problem, polisher, max_iter=100, stall=(10, 10 * patience)).dual(
                problem.w
            )
        dual = Dual(slaves, problem.w)
    if not problem.stop():
        drive(
            problem,
            dual.slaves,
            ascend_bcfw(dual, problem.w),
            max_iter=1000,
            decode_every=8,
            polisher=polisher,
            stall=(25, patience),
        )
    problem.options.time_limit = hold
    return dual if settled is None or dual.round().bound >= settled.round().bound else settled


def prune(problem: Problem, dual: Dual, ceiling: float | None = None) -> np.ndarray | None:
    """bool (n_coords,): labels that a labelling of energy <= `ceiling` (the best known one) may use; None if slaves cannot tell."""
    top = problem.energy if ceiling is None else ceiling
    reduced = dual.min_marginals() if np.isfinite(top) else None
    if reduced is None:
        return None
    bound = dual.round().bound
    allowed = bound + reduced <= top + 1e-9 * max(1.0, abs(top))
    if ceiling is None:
        allowed[problem.crf.offsets[:-1] + problem.labels] = True
    return allowed & np.isfinite(dual.slaves.unary(problem.w))


def finish_near_the_bound(
    problem: Problem, dual: Dual, max_table: float, max_total: float, max_entries: float
) -> None:
    """Prune and solve as if a labelling just above the bound were known.

    Where the relaxation is tight very little is left, which gives the optimum even if no good labelling could be decoded; where
    nothing is found, no labelling is that good, and the bound may rise.
    """
    room = problem.gap if np.isfinite(problem.gap) else max(1.0, abs(problem.bound))
    ceiling, hold, notes = (
        problem.bound + 1e-3 * room,
        problem.options.time_limit,
        list(problem.notes),
    )
    allowed = prune(problem, dual, ceiling)
    if allowed is None:
        return
    if hold is not None:
        problem.options.time_limit = problem.elapsed + 0.1 * max(problem.time_left, 0.0)
    finish(problem, allowed, max_table, max_total, max_entries, ceiling)
    problem.options.time_limit = hold
    if not problem.closed:
        problem.notes = notes


def finish(
    problem: Problem,
    allowed: np.ndarray,
    max_table: float,
    max_total: float,
    max_entries: float,
    ceiling: float = np.inf,
) -> None:
    """Solve the model on the allowed labels exactly, by elimination or by HiGHS, if it is small enough.

    ceiling : labellings up to this energy, or the best known one, use allowed labels only.
    """
    crf = problem.crf
    graph = FactorGraph.of(crf, problem.w)
    labels = [
        np.flatnonzero(allowed[crf.offsets[v] : crf.offsets[v + 1]]) for v in range(crf.n_vars)
    ]
    domain = np.array([len(a) for a in labels])
    if (domain == 0).any():  # no labelling within the allowed ones
        problem.raise_bound(min(problem.energy, ceiling))
        return
    left = int((domain > 1).sum())
    order = elimination_order(graph, domain, max_table, max_total)
    if order is not None:
        answer = Elimination(graph, labels, order[0]).run(problem)
        if answer is not None:
            problem.notes.append(f"elimination of the {left} variables that pruning left")
            problem.offer(answer[0], "elimination")
            problem.raise_bound(min(problem.energy, ceiling))
        return
    sizes = (
        np.multiply.reduceat(domain[graph.scope].astype(float), graph.indptr[:-1])
        if graph.n_factors
        else np.zeros(0)
    )
    if sizes.sum() > max_entries:
        problem.notes.append(
            f"{left} variables and {sizes.sum():.3g} table entries left after pruning: too many for HiGHS"
        )
        return
    problem.notes.append(f"HiGHS on the {left} variables that pruning left")
    integer_program(problem, graph, allowed, ceiling)


def integer_program(
    problem: Problem, graph: FactorGraph, allowed: np.ndarray, ceiling: float = np.inf
) -> None:
    """HiGHS's branch and bound on the allowed labels; only the labels' columns are integer. ceiling : see `finish`."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    polytope = LocalPolytope.of(graph, allowed)
    integer = np.zeros(len(polytope.cost))
    integer[: int(allowed.sum())] = 1
    options: dict[str, float] = {"mip_rel_gap": 0.0}
    if problem.time_left < np.inf:
        options["time_limit"] = max(
            0.8 * problem.time_left, 0.01
        )  # it looks at its clock only now and then
    answer = milp(
        polytope.cost,
        integrality=integer,
        bounds=Bounds(0, 1),
        options=options,
        constraints=LinearConstraint(polytope.matrix(), polytope.right, polytope.right),
    )
    if answer.x is not None:
        problem.offer(labels_from_marginals(problem.crf, polytope, answer.x), "HiGHS")
    if answer.status in (
        0,
        2,
    ):  # solved, or nothing within the allowed labels: nothing better, or no labelling at all
        problem.raise_bound(min(problem.energy, ceiling))
    elif answer.mip_dual_bound is not None and np.isfinite(answer.mip_dual_bound):
        problem.raise_bound(
            min(problem.energy, ceiling, answer.mip_dual_bound + problem.crf.constant)
        )


class Exact(MapSolver):
    """Proves optimality: dual ascent, pruning by reduced costs, then variable elimination or HiGHS's MILP on the rest."""

    name = "exact"

    def refuses(self, crf: CRF) -> str | None:
        size = table_entries(crf)
        return None if size <= MAX_ENTRIES else f"{size:.3g} table entries > {MAX_ENTRIES}"

    def run(self, problem: Problem) -> None:
        dual = ascend(problem, share=0.35, patience=1e-2)
        if problem.closed or problem.time_left <= 0:
            return
        finish_near_the_bound(problem, dual, **QUICK)
        if problem.closed or problem.time_left <= 0:
            return
        graph = FactorGraph.of(problem.crf, problem.w)
        tabu_search(
            problem,
            graph,
            moves=int(min(1e6, 3e8 / max(1, len(graph.unary)))),
            seconds=0.1 * problem.time_left,
        )
        allowed = prune(problem, dual)
        if allowed is None:
            allowed = np.isfinite(graph.unary)
        finish(problem, allowed, max_table=MAX_TABLE, max_total=MAX_TOTAL, max_entries=MAX_ENTRIES)
