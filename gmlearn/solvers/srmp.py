"""SRMP as a MAP solver: the sequential method for cliques of any order."""

from __future__ import annotations

import numpy as np

from gmlearn.decompositions import Slaves, decompose
from gmlearn.master.dual import Dual
from gmlearn.master.srmp import SequentialMessages
from gmlearn.model.crf import CRF
from gmlearn.slaves import CliqueGroup
from gmlearn.slaves.choose import NoSolverError, choose_solver
from gmlearn.solvers.polish import offer_feasible
from gmlearn.solvers.problem import MapSolver, Problem
from gmlearn.solvers.trws import run_messages
from gmlearn.solvers.warm import SlaveCosts

#: how many minimisations the min-marginals of a block may cost, so that sweeps pay
AFFORDABLE = 20.0


def srmp_refuses(crf: CRF) -> str | None:
    """Why SRMP cannot take a model; None if it can."""
    try:
        decompose(crf, "per-clique", "min_marginals")
    except NoSolverError as error:
        return str(error)
    return None


def srmp_suits(slaves: Slaves) -> bool:
    """Is SRMP a good start for a model that `slaves` cover: ordinary coordinates, and
    min-marginals at no more than `AFFORDABLE` times the cost of minima?
    """
    if not slaves.of_labels or slaves.grows or srmp_refuses(slaves.crf) is not None:
        return False
    pairs = [
        (g, choose_solver(g.block, "min_marginals"))
        for g in slaves.groups
        if isinstance(g, CliqueGroup)
    ]
    return all(able.cost(g.block, "min_marginals") <= AFFORDABLE * g.cost() for g, able in pairs)


def run_srmp(
    problem: Problem,
    max_iter: int = 500,
    stall: tuple[int, float] = (20, 1e-6),
) -> Dual:
    """Sweep, from the costs of an earlier result if there are any, until the problem says stop or
    the bound stalls; returns the state.
    """
    offer_feasible(problem)
    slaves = decompose(problem.crf, "per-clique", "min_marginals")
    messages = SequentialMessages(slaves, problem.w, problem.options.seed)
    if problem.kept.costs is not None:
        theta = problem.kept.costs.match(slaves)
        messages.theta += theta
        messages.costs -= np.bincount(slaves.coords, theta, slaves.n_coords)
    run_messages(problem, messages, "SRMP", max_iter, stall)
    dual = messages.dual(problem.w)
    problem.costs = SlaveCosts.of(dual, "per-clique")
    return dual


class SRMP(MapSolver):
    """Sequential reweighted message passing: TRW-S for cliques of any order; may stall below the
    LP bound.
    """

    name = "srmp"

    def refuses(self, crf: CRF) -> str | None:
        return srmp_refuses(crf)

    def run(self, problem: Problem) -> None:
        run_srmp(problem)
