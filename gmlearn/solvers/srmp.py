"""SRMP as a MAP solver: the sequential method for cliques of any order."""

from __future__ import annotations

from gmlearn.decompositions import Slaves, decompose
from gmlearn.master.srmp import SequentialMessages
from gmlearn.model.crf import CRF
from gmlearn.slaves import CliqueGroup
from gmlearn.slaves.choose import NoSolverError, choose_solver
from gmlearn.solvers.polish import BlockPolisher, Polisher, make_polisher
from gmlearn.solvers.problem import MapSolver, Problem
from gmlearn.solvers.trws import run_messages


def srmp_refuses(crf: CRF) -> str | None:
    """Why SRMP cannot take a model; None if it can."""
    try:
        decompose(crf, "per-clique", "min_marginals")
    except NoSolverError as error:
        return str(error)
    return None


def srmp_suits(slaves: Slaves) -> bool:
    """Is SRMP a good start for a model that `slaves` cover: ordinary coordinates, and min-marginals not much dearer than minima?"""
    if type(slaves) is not Slaves or srmp_refuses(slaves.crf) is not None:
        return False
    pairs = [
        (g, choose_solver(g.block, "min_marginals"))
        for g in slaves.groups
        if isinstance(g, CliqueGroup)
    ]
    return all(able.cost(g.block) <= 4.0 * g.solver.cost(g.block) for g, able in pairs)


def run_srmp(
    problem: Problem,
    polisher: Polisher | BlockPolisher,
    max_iter: int = 500,
    stall: tuple[int, float] = (20, 1e-6),
) -> SequentialMessages:
    """Sweep until the problem says stop or the bound stalls; returns the state."""
    slaves = decompose(problem.crf, "per-clique", "min_marginals")
    messages = SequentialMessages(slaves, problem.w, problem.options.seed)
    run_messages(problem, messages, polisher, "SRMP", max_iter, stall)
    return messages


class SRMP(MapSolver):
    """Sequential reweighted message passing: TRW-S for cliques of any order; may stall below the LP bound."""

    name = "srmp"

    def refuses(self, crf: CRF) -> str | None:
        return srmp_refuses(crf)

    def run(self, problem: Problem) -> None:
        run_srmp(problem, make_polisher(problem))
