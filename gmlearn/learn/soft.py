"""Soft objectives: the hinge at a temperature, down to the likelihood, minimised by L-BFGS on
(w, lambda) jointly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gmlearn.learn.batch import SampleBatch
from gmlearn.learn.bcfw import BOX
from gmlearn.learn.lbfgs import LbfgsState, iterate
from gmlearn.learn.optimizers import Optimizer, OptimizerState, PassReport
from gmlearn.learn.regularization import Regularization


@dataclass(kw_only=True)
class SoftState(OptimizerState):
    """lam : float, the multipliers of all batches that slaves share, one after the other.
    slope, steps, changes, value, kept : of `LbfgsState`, for (w, lam).   bound : of F from below.
    """

    lam: np.ndarray
    slope: np.ndarray
    steps: np.ndarray
    changes: np.ndarray
    value: float = np.nan
    kept: int = 0
    bound: float = -np.inf


class SoftLBFGS(Optimizer):
    r"""L-BFGS on the smooth objective :math:`R(w) + \sum_k c_k[E(x^k) + \epsilon\sum_i \rho_i
    \log\sum_x e^{-E_i(x)/(\epsilon\rho_i)}]`.

    The sum over slaves is a convex upper bound of the log-partition: their temperatures add up to
    1 or more at every variable (`gmlearn.master.temperatures`). It is exact where one slave holds
    everything, as on trees. Multipliers are kept zero-sum by projecting what L-BFGS moves.

    Parameters
    ----------
    iterations : L-BFGS iterations in one pass.
    """

    name = "lbfgs"
    settings = ("iterations",)
    iterations = 10
    most_samples = 4096
    most_labels = 2**17
    least_batches = 2
    state: SoftState

    @classmethod
    def refuses(cls, regularization: Regularization, temperature: float) -> str | None:
        if temperature <= 0:
            return "needs a temperature > 0 (the hinge is not smooth)"
        if not regularization.quadratic:
            return "only quadratic regularisers are smooth"
        if regularization.bounds() is None:
            return "only bounds on single weights (Box, NonNegative, Fixed)"
        return None

    def start(self, w: np.ndarray) -> SoftState:
        sizes = self.objective.each(number_of_multipliers)
        self._ends = np.cumsum(sizes[:-1]).astype(int)
        lam = np.zeros(int(sum(sizes)))
        inner = LbfgsState.at(np.concatenate([w, lam]))
        return SoftState(
            w=w,
            evaluated=w.copy(),
            lam=lam,
            slope=inner.slope,
            steps=inner.steps,
            changes=inner.changes,
        )

    def truth_changed(self) -> None:
        self.state.bound = -np.inf
        self.state.value = np.nan

    def value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """F and its gradient at z = (w, multipliers of all samples).

        The multipliers travel, unlike those of other optimisers.
        """
        objective, n = self.objective, self.objective.layout.size
        found = objective.each(
            soft_value, z[:n], own=[(lam,) for lam in np.split(z[n:], self._ends)]
        )
        slope = objective.regularization.curvature * z[:n]
        for hinge_slope, _, _ in found:
            slope = slope + hinge_slope
        value = objective.regularization.value(z[:n]) + float(np.sum([f[1] for f in found]))
        return value, np.concatenate([slope, *(f[2] for f in found)])

    def run(self) -> PassReport:
        state, n = self.state, len(self.w)
        low, high = self.objective.regularization.bounds()  # type: ignore[misc]
        free = np.full(len(state.lam), np.inf)
        bounds = np.append(low, -free), np.append(high, free)
        inner = LbfgsState(
            np.concatenate([state.w, state.lam]),
            *(state.slope, state.steps, state.changes, state.value, state.kept),
        )
        for _ in range(self.iterations):
            if not iterate(self.value_and_gradient, inner, *bounds):
                break
        state.w, state.lam = inner.x[:n].copy(), inner.x[n:].copy()
        state.slope, state.value, state.kept = inner.slope, inner.value, inner.kept
        state.evaluated = state.w.copy()
        state.bound = max(state.bound, self._bound(inner.value, inner.slope))
        state.t += 1
        return PassReport(objective=inner.value, bound=state.bound)

    def _bound(self, value: float, slope: np.ndarray) -> float:
        """A lower bound of F from its gradient: F is mu-strongly convex in w, and convex in the
        multipliers, which are looked for within a box of `BOX` times the largest one met.
        """
        lam, mu = self.state.lam, self.objective.regularization.curvature
        if (mu <= 0.0).any():
            return -np.inf
        reach = BOX * np.abs(lam).max(initial=0.0) + np.abs(lam)
        n = len(mu)
        return value - float((slope[:n] ** 2 / (2 * mu)).sum()) - float(np.abs(slope[n:]) @ reach)


def shared_multipliers(batch: SampleBatch) -> np.ndarray:
    """int: dual variables whose coordinate several slaves hold; the multipliers of others are
    zero.
    """
    if batch.scratch is None:
        slaves = batch.dual.slaves
        coupled = batch.likelihood is not None and batch.likelihood.coupled
        batch.scratch = np.flatnonzero(slaves.spread((slaves.count > 1) & coupled))
    return batch.scratch


def number_of_multipliers(batch: SampleBatch) -> int:
    return len(shared_multipliers(batch))


def soft_value(
    batch: SampleBatch, w: np.ndarray | None, lam: np.ndarray
) -> tuple[np.ndarray, float, np.ndarray]:
    """(slope in w, soft hinge, gradient in lambda) of one batch; what L-BFGS moves is projected
    onto zero sums. Without `w` the weights stay those last set.
    """
    if w is not None:
        batch.set_weights(w)
    shared = shared_multipliers(batch)
    if len(shared) == 0:
        vertex, slope = batch.soft_vertex(), lam
    else:
        whole = np.zeros(len(batch.dual.coords))
        whole[shared] = lam
        vertex = batch.soft_vertex(batch.dual.centred(whole))
        each = batch.weight * batch.weighed(np.ones(batch.dual.slaves.n_coords))
        slope = -(batch.dual.slaves.spread(each) * batch.dual.centred(vertex.ind))[shared]
    return batch.slope(vertex.features), batch.hinge(batch.weights, vertex.value), slope
