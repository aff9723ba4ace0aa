"""MAP by dual decomposition: the master drives slaves, labellings are decoded and polished on
the way.

For theta_s = (unary share of slave s) + lambda_s, with the lambda of the copies of a coordinate
summing to zero, D(lambda) = sum_s min over x_s of (theta_s . x_s + h_s(x_s)) is concave and bounds
the minimum from below (Komodakis, Paragios and Tziritas 2011). The solvers of this file differ in
how they raise it: projected subgradients, Frank-Wolfe steps on the proximal dual, min-marginals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from gmlearn._utils.validation import check_number
from gmlearn.decompositions import decompose
from gmlearn.decompositions.base import Slaves
from gmlearn.master import Dual, Round, ascend_bcfw, ascend_subgradient, make_step_rule
from gmlearn.master.mplp import ascend_mplp, with_variable_slaves
from gmlearn.slaves.choose import NoSolverError
from gmlearn.solvers.polish import offer_feasible
from gmlearn.solvers.problem import MapSolver, Problem
from gmlearn.solvers.warm import SlaveCosts

#: calls of all slaves in one round, about, with the steps between them
PASSES = 8.0
#: (window, fraction) of `drive`: where slaves that grow are asked for more
AT_REST = (8, 0.05)


def drive(
    problem: Problem,
    dual: Dual,
    ascend: Callable[[Dual], Iterable[Round]],
    max_iter: int,
    decode_every: int = 10,
    stall: tuple[int, float] | None = None,
) -> Dual:
    """Run a master until the problem says stop, it ends by itself, or it stalls; returns the dual
    where it ended, whose multipliers are kept for the result.

    Where the slaves grow, they are asked for more whenever the bound comes to rest, and the ascent
    goes on from the multipliers that it has.

    Parameters
    ----------
    ascend : the rounds that ascend a dual from its multipliers on.
    decode_every : rounds between decodings. Labellings are polished at rounds 1, 2, 4, 8, ... and
        at the end.
    stall : (window, fraction): stop when the bound rises by less than `fraction` of the gap within
        `window` rounds.
    """
    growing = dual.slaves.grows
    while True:
        last = _ascend(
            problem, dual, ascend(dual), max_iter, decode_every, AT_REST if growing else stall
        )
        problem.costs = SlaveCosts.of(dual, problem.options.decomposition)
        if not growing or problem.stop(max_iter):
            return dual
        mean = last.mean if last.blend is None else last.blend
        more = dual.slaves.grow(mean, dual.share + dual.lam)
        if more is None:
            growing = False
        else:
            dual = Dual(more, problem.w, more.carry(dual.slaves, dual.lam, problem.w))


def _ascend(
    problem: Problem,
    dual: Dual,
    rounds: Iterable[Round],
    max_iter: int,
    decode_every: int,
    stall: tuple[int, float] | None,
) -> Round:
    """One ascent of `drive`, with the same slaves; returns its last round."""
    slaves = dual.slaves
    recent: list[float] = []
    undecoded = False
    work = PASSES * sum(group.work for group in slaves.groups)
    for k, current in enumerate(rounds):
        problem.iterations += 1
        problem.count(work)
        problem.raise_bound(current.bound)
        agreed = current.disagreement == 0.0
        polish = agreed or k & (k - 1) == 0
        undecoded = not polish
        if polish or k % decode_every == 0:
            # slaves that share nothing, or relax, agree on labels that are not optimal
            source = "agreement of all slaves" if agreed else "slaves' majority"
            for labels in proposals(slaves, current):
                (problem.polisher if polish else Problem.offer)(problem, labels, source)
        problem.log()
        # its own: a better bound may be known before
        recent.append(max(current.bound, recent[-1] if recent else -np.inf))
        if problem.stop(max_iter):
            break
        full = stall is not None and len(recent) > stall[0]
        left = max(problem.energy - recent[-1], 0.0)
        if full and recent[-1] - recent[-1 - stall[0]] < stall[1] * left:  # type: ignore[index]
            break
    if undecoded and not problem.closed:
        for labels in proposals(slaves, current):
            problem.polisher(problem, labels, "slaves' majority")
    return current


def start(problem: Problem, slaves: Slaves) -> Dual:
    """The dual to ascend, at the multipliers of an earlier result if there are any."""
    offer_feasible(problem)
    dual = Dual(slaves, problem.w)
    problem.kept.restore(dual)
    return dual


def proposals(slaves: Slaves, current: Round) -> list[np.ndarray]:
    """Labellings (V,) read off what the method has averaged over rounds; off the round alone if
    it has not, or if slaves agree.
    """
    alone = current.blend is None or current.disagreement == 0.0
    return slaves.proposals(current.results, current.mean if alone else current.blend)  # type: ignore[arg-type]


def one_round_bound(problem: Problem) -> None:
    """The bound of all slaves at zero multipliers; -inf with a note where a block has none."""
    try:
        slaves = decompose(problem.crf, problem.options.decomposition)
    except NoSolverError as error:
        problem.notes.append(f"no bound: {error}")
        return
    problem.raise_bound(Dual(slaves, problem.w).round().bound)


class DualSubgradient(MapSolver):
    """Projected subgradient ascent of the dual, with a step rule by name: level (default),
    diminishing, constant, polyak.
    """

    name = "dual-subgradient"
    settings = ("step", "step_size", "target")

    def run(self, problem: Problem) -> None:
        options = problem.options
        rule = make_step_rule(
            options.get("step", "level"),
            options.get("step_size", None),
            options.get("target", None),
        )
        dual = start(problem, decompose(problem.crf, options.decomposition))
        drive(problem, dual, partial(ascend_subgradient, rule=rule), max_iter=1000)


class BCFW(MapSolver):
    """Block-coordinate Frank-Wolfe on the proximal dual: the robust choice, also for frustrated
    and high-order models.
    """

    name = "bcfw"
    settings = ("reach", "passes")

    def run(self, problem: Problem) -> None:
        options = problem.options
        dual = start(problem, decompose(problem.crf, options.decomposition))
        reach = check_number("reach", options.get("reach", 1.0), low=0, strict=True)
        passes = check_number("passes", options.get("passes", 4), low=1, integer=True)
        rounds = partial(ascend_bcfw, reach=reach, passes=passes)
        drive(problem, dual, rounds, max_iter=400, decode_every=4)


class MPLP(MapSolver):
    """Max-product linear programming: block-coordinate ascent by min-marginals; never lowers the
    bound, may stall.
    """

    name = "mplp"

    def run(self, problem: Problem) -> None:
        name = problem.options.decomposition
        slaves = with_variable_slaves(
            decompose(problem.crf, "per-clique" if name == "auto" else name, "min_marginals")
        )
        dual = start(problem, slaves)
        rounds = partial(ascend_mplp, w=problem.w)
        drive(problem, dual, rounds, max_iter=500, stall=(20, 1e-7))
