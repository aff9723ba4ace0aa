r"""Tightening: where the relaxation leaves a gap, larger slaves that overlap and share cliques.

Windows of growing induced width cover the model, each overlapping the next by half. The dual of
one width is maximised as a sum of soft minima at falling temperatures,

.. math:: \max_\lambda \sum_s -T \log \sum_x e^{-E_s(x; \theta_s + \lambda_s)/T},

by L-BFGS; the hard minima at its multipliers bound the energy, the mean marginals are rounded to a
labelling, and what reduced costs leave of the labels is solved exactly if it is small. The width
grows while that pays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gmlearn.decompositions import Strips
from gmlearn.master import Dual
from gmlearn.slaves.choose import NoSolverError
from gmlearn.solvers.exact import Effort, prune, try_finish
from gmlearn.solvers.problem import ENTRIES_PER_SECOND, Problem
from gmlearn.solvers.warm import SlaveCosts

#: induced widths, one after the other
WIDTHS = (2, 3, 4, 6, 8, 10, 12)
#: temperatures in units of the costs' scale, and L-BFGS iterations at each
TEMPERATURES = (1.0, 0.3, 0.1, 0.03, 0.015)
ITERATIONS = 40
#: table entries joined in all evaluations of the first width (about .2 s) if there is a choice
FIRST_WORK = 1e7
#: seconds of work that one width may take
MOST_SECONDS = 20.0
#: minimisations that a soft one with its gradient is worth
SOFT = 1.5
#: variables up to which windows are looked for
MAX_VARIABLES = 20_000
#: the part of the gap that a width must close for the next one to be tried
PAYS = 0.1
#: elimination alone: pruning by windows either leaves little, or is left to the next width
SMALL = Effort(1.0, 2.0**18, 2.0**22, search=False)


def tighten(problem: Problem) -> None:
    """Raise the bound by windows of growing width until the gap closes, the next width is too
    much work, or it no longer pays.
    """
    crf = problem.crf
    if crf.n_vars > MAX_VARIABLES or not np.isfinite(problem.energy):
        return
    # every variable is in about two windows
    entries = np.array([2.0 * (crf.n_states ** (w + 1.0)).sum() for w in WIDTHS])
    work = entries * ITERATIONS * len(TEMPERATURES)
    first = max(int(np.searchsorted(work, FIRST_WORK)) - 1, 0)
    last = problem.bound
    for width, needed in zip(WIDTHS[first:], work[first:]):
        left = min(problem.time_left, MOST_SECONDS)
        if SOFT * needed > ENTRIES_PER_SECOND * left or problem.stop():
            return
        bound = ascend_windows(problem, Strips(width, max(width // 2, 1)))
        if bound - last < PAYS * (problem.energy - bound):
            return
        last = bound


def ascend_windows(problem: Problem, windows: Strips) -> float:
    """One width: ascent, rounding, an exact finish on the labels that are left. Returns the bound
    of the windows, -inf where they are too wide.
    """
    try:
        dual = Dual(windows.decompose(problem.crf, "log_partition"), problem.w)
    except (ValueError, NoSolverError) as reason:
        problem.notes.append(f"no windows of width {windows.width}: {reason}")
        return -np.inf
    bound = -np.inf
    for temperature in TEMPERATURES:
        mean = ascend_soft(problem, dual, temperature * problem.scale)
        bound = max(bound, dual.round().bound)
        problem.iterations += 1
        if problem.raise_bound(bound):
            problem.costs = SlaveCosts.of(dual, windows)
        for labels in dual.slaves.proposals([], mean):
            problem.polisher(problem, labels, "windows")
        problem.log()
        if problem.stop():
            break
    if not problem.stop():
        allowed = prune(problem, dual)
        if allowed is not None:
            try_finish(problem, allowed, SMALL)
    if problem.closed:
        problem.notes.append(f"tightened by {windows.name} of width {windows.width}")
    return bound


def ascend_soft(problem: Problem, dual: Dual, temperature: float) -> np.ndarray:
    """Maximise the sum of soft minima from the dual's multipliers on, which move there; returns
    the mean marginals (n_coords,).
    """
    from scipy.optimize import minimize

    share = dual.share
    groups = list(zip(dual.slaves.groups, dual.slaves.slices, dual.prepared))
    marginals = np.empty(len(dual.coords))
    work = SOFT * sum(group.cost("log_partition") for group in dual.slaves.groups)

    # in units of a typical cost, because the first step of L-BFGS has an absolute length
    unit = problem.scale or 1.0

    def negative(lam: np.ndarray) -> tuple[float, np.ndarray]:
        problem.count(work)
        value = 0.0
        theta = share + dual.centred(unit * lam)
        for group, where, prepared in groups:
            found = group.log_partition(theta[where], prepared, temperature)  # type: ignore[attr-defined]
            value += float(found.value.sum())
            marginals[where] = found.marginals
        return -value / unit, -dual.centred(marginals)

    def watch(intermediate_result: Any) -> None:
        if problem.time_left <= 0:
            raise StopIteration

    found = minimize(
        negative,
        dual.lam / unit,
        jac=True,
        method="L-BFGS-B",
        callback=watch,
        options={"maxiter": ITERATIONS, "maxcor": 10},
    )
    dual.lam = dual.centred(unit * found.x)
    negative(found.x)
    return dual.mean(marginals)
