r"""A convex upper bound of :math:`\log Z`: soft slaves at tree-reweighted temperatures.

The bound of `gmlearn.master.temperatures` is minimised over the multipliers by L-BFGS (its
gradient: the slaves' marginals minus their mean, so at the optimum the slaves agree on the
marginals), and over the temperatures: its derivative in rho_i is the entropy of slave i.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from gmlearn.decompositions import decompose
from gmlearn.decompositions.base import Slaves
from gmlearn.master import Dual
from gmlearn.master.temperatures import TemperedSlaves, slave_temperatures, slave_variables
from gmlearn.model.crf import CRF
from gmlearn.probabilities.exact import stacked
from gmlearn.probabilities.method import MarginalMethod, MarginalProblem
from gmlearn.probabilities.result import Marginals
from gmlearn.slaves.choose import NoSolverError

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

    def refuses(self, crf: CRF) -> str | None:
        try:
            decompose(crf, "auto", "log_partition")
        except NoSolverError as error:
            return str(error)
        return None

    def run(self, problem: MarginalProblem) -> Marginals:
        slaves = decompose(
            problem.crf, problem.settings.get("decomposition", "auto"), "log_partition"
        )
        bound = UpperBound(problem, slaves, slave_temperatures(slaves))
        bound.minimise()
        for _ in range(ROUNDS if slaves.n_slaves <= MOST_SLAVES else 0):
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
    values : float (n_slaves,), the soft minima there.   calls : rounds of all slaves.
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
            self.start = self.slaves.carry(before.slaves, before.lam, problem.w)
        self.best = np.inf
        self.lam: np.ndarray = self.start
        self.ind = self.values = np.zeros(0)

    def value(self, lam: np.ndarray) -> tuple[float, np.ndarray]:
        """The bound of T log Z and its gradient at zero-sum multipliers (D,)."""
        problem = self.problem
        if self.calls and problem.time_left <= 0:
            raise _OutOfTime
        found = self.tempered.round(self.dual, self.share + lam, problem.temperature)
        self.calls += 1
        bound = -found.value / problem.temperature
        if self.ind.size == 0 or bound < self.best:
            self.best, self.lam, self.ind, self.values = bound, lam, found.ind, found.values
        return bound, -self.dual.centred(found.ind) / problem.temperature

    def minimise(self) -> None:
        """L-BFGS on the multipliers of coordinates that several slaves hold."""
        from scipy.optimize import minimize

        settings = self.problem.settings
        shared = self.slaves.spread(self.slaves.count > 1)
        whole = np.zeros(len(self.start))

        def on_shared(z: np.ndarray) -> tuple[float, np.ndarray]:
            whole[shared] = z
            bound, gradient = self.value(self.dual.centred(whole))
            return bound, gradient[shared]

        try:
            value, _ = self.value(self.start)
            if not shared.any() or not np.isfinite(value):
                return
            minimize(
                on_shared,
                self.start[shared],
                jac=True,
                method="L-BFGS-B",
                options={
                    "maxiter": int(settings.get("max_iter", 200)),
                    "ftol": float(settings.get("tol", 1e-9)),
                    "gtol": 1e-7,
                    "maxcor": 20,
                },
            )
        except _OutOfTime:
            return

    @property
    def flat(self) -> np.ndarray:
        """The mean marginals (n_coords,) of the slaves' labels."""
        return self.dual.mean(self.ind)[: self.problem.crf.n_coords]

    def entropies(self) -> np.ndarray:
        """float (n_slaves,) of the original slaves: the derivative of the bound in each
        temperature, by a difference.
        """
        theta = self.original.recall(self.slaves.keep(self.share + self.lam, self.dual.prepared))
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
        theta, temperature = self.share + self.lam, self.problem.temperature
        found: dict[tuple[int, ...], np.ndarray] = {}
        groups = zip(self.slaves.groups, self.slaves.slices, self.tempered.rho.tolist())
        for group, where, rho in groups:
            for scopes, joint in group.clique_marginals(
                theta[where], self.problem.w, temperature * rho
            ):
                found.update(zip(map(tuple, scopes.tolist()), joint))
        return found
