r"""A convex upper bound of :math:`\log Z`: soft slaves at tree-reweighted temperatures.

The bound of `gmlearn.master.temperatures` is minimised over the multipliers by L-BFGS (its
gradient: the slaves' marginals minus their mean, so at the optimum the slaves agree on the
marginals), and over the temperatures: its derivative in rho_i is the entropy of slave i.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from gmlearn._utils.threads import one_blas_thread
from gmlearn.decompositions import Reweighted, decompose
from gmlearn.decompositions.base import Slaves
from gmlearn.master import Dual
from gmlearn.master.reweighting import ReweightedSlaves
from gmlearn.master.temperatures import (
    SoftRound,
    TemperedSlaves,
    slave_temperatures,
    slave_variables,
)
from gmlearn.model.crf import CRF
from gmlearn.probabilities.exact import stacked
from gmlearn.probabilities.method import MarginalMethod, MarginalProblem
from gmlearn.probabilities.result import Marginals
from gmlearn.slaves.choose import NoSolverError

#: entries of the largest table of a hypertree, and of all its tables: at first, and where a time
#: limit of at least so many seconds says that the bound may take its time
SMALL_TABLES, LARGE_TABLES, LONG = (2.0**12, 2.0**17), (2.0**16, 2.0**20), 10.0
#: changes of the temperatures, and the most slaves for which they are tried
ROUNDS, MOST_SLAVES = 8, 2000


class _OutOfTime(Exception):
    """The time limit has passed."""


class TRW(MarginalMethod):
    """Tree-reweighted upper bound of log Z, and the marginals on which the slaves agree.

    settings : decomposition, a name or object; max_iter, L-BFGS iterations (200); tol, the
        fall of the bound in one iteration at which it ends, relative (1e-9).
    """

    name = "trw"
    settings = ("decomposition", "max_iter", "tol")
    limits = {"max_iter": {"low": 0, "integer": True}, "tol": {"low": 0}}

    def refuses(self, crf: CRF) -> str | None:
        try:
            decompose(crf, "auto", "log_partition")
        except NoSolverError as error:
            return str(error)
        return None

    def run(self, problem: MarginalProblem) -> Marginals:
        patient = problem.time_limit is not None and problem.time_limit >= LONG
        default = Reweighted(*(LARGE_TABLES if patient else SMALL_TABLES))
        slaves = decompose(
            problem.crf, problem.settings.get("decomposition", default), "log_partition"
        )
        bound = UpperBound(problem, slaves, slave_temperatures(slaves))
        bound.minimise()
        few = slaves.n_slaves <= MOST_SLAVES and not bound.tempered.weighted
        for _ in range(ROUNDS if few else 0):
            better = bound.lowered()
            if better is None:
                break
            better.minimise()
            bound = better
        upper = bound.best
        if upper == -np.inf:
            return problem.exact(self.name, -np.inf, np.zeros(problem.crf.n_coords))
        flat = bound.flat
        if bound.tempered.exact:
            return problem.exact(self.name, upper, flat, bound.cliques, iterations=bound.calls)
        return problem.answer(
            self.name, upper, flat, upper=upper, cliques=bound.cliques, iterations=bound.calls
        )


class UpperBound:
    """The bound at fixed temperatures, as a function of the multipliers.

    Attributes
    ----------
    best : the least bound of log Z met.   theta, ind : dual costs and marginals (D,) there.
    part : float (D,), what each copy of a coordinate counts in the mean.   calls : rounds of all
        slaves.
    """

    def __init__(
        self,
        problem: MarginalProblem,
        slaves: Slaves,
        rho: np.ndarray,
        before: UpperBound | None = None,
    ):
        self.problem, self.original, self.rho = problem, slaves, rho
        self.tempered = TemperedSlaves(slaves, rho, levels=32)
        self.slaves = self.tempered.slaves
        self.dual = Dual(self.slaves, problem.w)
        self.share = self.dual.share
        self.calls: int = 0 if before is None else before.calls
        self.start: np.ndarray = np.zeros(len(self.share))
        if before is not None:
            lam = np.zeros(len(before.share))
            np.subtract(before.theta, before.share, out=lam, where=np.isfinite(before.share))
            self.start = self.slaves.carry(before.slaves, lam, problem.w)
        self.best = np.inf
        self.theta: np.ndarray = self.share + self.start
        self.part = 1.0 / np.maximum(self.slaves.spread(self.slaves.count), 1.0)
        self.ind = np.zeros(0)

    def round(self, theta: np.ndarray) -> SoftRound:
        """Soft-minimise the slaves at dual costs (D,), unless the time is over."""
        if self.calls and self.problem.time_left <= 0:
            raise _OutOfTime
        self.calls += 1
        found = self.tempered.round(self.dual, theta, self.problem.temperature)
        bound = -found.value / self.problem.temperature
        if self.ind.size == 0 or bound < self.best:
            self.best, self.theta, self.ind = bound, theta, found.ind
        return found

    def value(self, lam: np.ndarray) -> tuple[float, np.ndarray]:
        """The bound of log Z and its gradient at zero-sum multipliers (D,)."""
        found = self.round(self.share + lam)
        temperature = self.problem.temperature
        return -found.value / temperature, -self.dual.centred(found.ind) / temperature

    def minimise(self) -> None:
        """L-BFGS on the multipliers of coordinates that several slaves hold, and on the weights of
        slaves that each hold the whole model.
        """
        try:
            if self.tempered.weighted:
                self._minimise_reweighted()
            else:
                self._minimise_multipliers()
        except _OutOfTime:
            return

    def _minimise_multipliers(self) -> None:
        shared = self.slaves.spread(self.slaves.count > 1)
        whole = np.zeros(len(self.start))

        def on_shared(z: np.ndarray) -> tuple[float, np.ndarray]:
            whole[shared] = z
            bound, gradient = self.value(self.dual.centred(whole))
            return bound, gradient[shared]

        value, _ = self.value(self.start)
        if shared.any() and np.isfinite(value):
            self._lbfgs(on_shared, self.start[shared])

    def _minimise_reweighted(self) -> None:
        slaves = ReweightedSlaves(self.tempered)
        temperature = self.problem.temperature

        def on_place(z: np.ndarray) -> tuple[float, np.ndarray]:
            here = slaves.at(z, self.dual.unary)
            self.tempered.rho, before = here.rho, self.best
            found = self.round(here.theta)
            if self.best < before:
                self.rho, self.part = here.rho, here.part
            gradient = slaves.gradient(here, found, temperature) / temperature
            return -found.value / temperature, gradient

        try:
            value, _ = on_place(np.zeros(slaves.size))
            if np.isfinite(value):
                self._lbfgs(on_place, np.zeros(slaves.size))
        finally:
            self.tempered.rho = self.rho

    def _lbfgs(self, function: Any, start: np.ndarray) -> None:
        from scipy.optimize import minimize

        settings = self.problem.settings
        options = {
            "maxiter": int(settings.get("max_iter", 200)),
            "ftol": float(settings.get("tol", 1e-9)),
            "gtol": 1e-7,
            "maxcor": 20,
        }
        # its products of short vectors are far slower on many BLAS threads than on one
        with one_blas_thread():
            minimize(function, start, jac=True, method="L-BFGS-B", options=options)

    @property
    def flat(self) -> np.ndarray:
        """The mean marginals (n_coords,) of the slaves' labels."""
        slaves = self.slaves
        mean = np.bincount(slaves.coords, self.part * self.ind, slaves.n_coords)
        return mean[: self.problem.crf.n_coords]

    def entropies(self) -> np.ndarray:
        """float (n_slaves,) of the original slaves: the derivative of the bound in each
        temperature, by a difference.
        """
        theta = self.original.recall(self.slaves.keep(self.theta, self.dual.prepared))
        temperature, step = self.problem.temperature, 1e-4
        dual = Dual(self.original, self.problem.w)
        out = []
        ends = np.cumsum([g.n for g in self.original.groups])
        for group, where, prepared, end in zip(
            self.original.groups, self.original.slices, dual.prepared, ends
        ):
            own = self.rho[end - group.n : end]
            change = np.zeros(group.n)
            for rho in np.unique(own):
                low, high = (
                    group.log_partition(theta[where], prepared, temperature * rho * t).value  # type: ignore[attr-defined]
                    for t in (1 - step, 1 + step)
                )
                mine = own == rho
                change[mine] = (low - high)[mine] / (2 * step * rho * temperature)
            out.append(change)
        return np.maximum(np.concatenate(out), 0.0)

    def lowered(self) -> UpperBound | None:
        """A lower bound at other temperatures: towards those that are best for the present
        entropies (a linear program), as far as it pays. None if it does not.
        """
        from scipy.optimize import linprog
        from scipy.sparse import coo_array

        if self.tempered.exact or not np.isfinite(self.best) or self.problem.time_left <= 0:
            return None
        variable, owner = slave_variables(self.original)
        shape = (self.problem.crf.n_vars, self.original.n_slaves)
        cover = coo_array((np.ones(len(owner)), (variable, owner)), shape=shape).tocsr()
        cover = cover[np.unique(variable)]
        answer = linprog(
            self.entropies(), A_ub=-cover, b_ub=-np.ones(cover.shape[0]), bounds=(0.02, 1.0)
        )
        if answer.x is None:
            return None
        for step in (0.6, 0.3, 0.1):
            rho = (1 - step) * self.rho + step * answer.x
            rho /= min(1.0, float((cover @ rho).min()))  # rounding of the program
            other = UpperBound(self.problem, self.original, rho, self)
            try:
                value, _ = other.value(other.start)
            except _OutOfTime:
                return None
            if value < self.best - 1e-4 * max(1.0, abs(self.best) * 1e-3):
                return other
        return None

    def cliques(self, number: int) -> Any:
        """The clique marginals of one block, from the slaves that hold its cliques."""
        block = self.problem.crf.blocks[number]
        scopes = np.split(block.members, block.indptr[1:-1])
        return stacked(block, [self._joint[tuple(s.tolist())] for s in scopes])

    @cached_property
    def _joint(self) -> dict[tuple[int, ...], np.ndarray]:
        """The marginals of all cliques, by their variables."""
        theta, temperature = self.theta, self.problem.temperature
        found: dict[tuple[int, ...], np.ndarray] = {}
        for number, (group, where) in enumerate(zip(self.slaves.groups, self.slaves.slices)):
            for scopes, joint in group.clique_marginals(
                theta[where], self.problem.w, temperature * self.tempered.of_group(number)
            ):
                found.update(zip(map(tuple, scopes.tolist()), joint))
        return found
