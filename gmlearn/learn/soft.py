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
from gmlearn.master.reweighting import Reweighting
from gmlearn.master.temperatures import SoftRound


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
        multipliers (and the slaves' weights), which are looked for within a box of `BOX` times the
        largest one met.
        """
        lam, mu = self.state.lam, self.objective.regularization.curvature
        if (mu <= 0.0).any():
            return -np.inf
        n, largest = len(mu), float(np.abs(lam).max(initial=0.0))
        own = zip(np.split(lam, self._ends), np.split(slope[n:], self._ends))
        w = self.state.evaluated
        falls = self.objective.each(most_fall, w, largest, own=list(own))
        return value - float((slope[:n] ** 2 / (2 * mu)).sum()) - float(np.sum(falls))


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
    """What L-BFGS moves beside w: multipliers, and weights of slaves where those are learnt."""
    assert batch.likelihood is not None
    reweighted = batch.likelihood.reweighted
    return len(shared_multipliers(batch)) if reweighted is None else reweighted.size


def soft_value(
    batch: SampleBatch, w: np.ndarray | None, lam: np.ndarray
) -> tuple[np.ndarray, float, np.ndarray]:
    """(slope in w, soft hinge, gradient in lambda) of one batch; what L-BFGS moves is projected
    onto zero sums. Without `w` the weights stay those last set.

    lam : the shared multipliers; or, where the slaves' weights are learnt, a place of
        `ReweightedSlaves`.
    """
    if w is not None:
        batch.set_weights(w)
    shared = shared_multipliers(batch)
    if len(lam) > len(shared):
        return reweighted_value(batch, lam)
    if len(shared) == 0:
        vertex, slope = batch.soft_vertex(), lam
    else:
        whole = np.zeros(len(batch.dual.coords))
        whole[shared] = lam
        vertex = batch.soft_vertex(batch.dual.centred(whole))
        each = batch.weight * batch.weighed(np.ones(batch.dual.slaves.n_coords))
        slope = -(batch.dual.slaves.spread(each) * batch.dual.centred(vertex.ind))[shared]
    return batch.slope(vertex.features), batch.hinge(batch.weights, vertex.value), slope


def reweighted_round(batch: SampleBatch, z: np.ndarray) -> tuple[Reweighting, SoftRound]:
    """The place z of a batch whose slaves have learnt weights, and the round made there."""
    assert batch.likelihood is not None and batch.likelihood.reweighted is not None
    reweighted, dual = batch.likelihood.reweighted, batch.dual
    here = reweighted.at(z, dual.unary)
    reweighted.tempered.rho = here.rho
    found = reweighted.tempered.round(dual, here.theta, batch.temperature, batch.slave_shares)
    return here, found


def reweighted_value(batch: SampleBatch, z: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
    """`soft_value` at multipliers and weights z."""
    here, found = reweighted_round(batch, z)
    reweighted = batch.likelihood.reweighted  # type: ignore[union-attr]
    features = np.zeros(batch.layout.size)
    mean = reweighted.mean(found.ind, here.part)  # type: ignore[union-attr]
    for own in (*found.features, batch.dual.slaves.unary_features(batch.weighed(mean))):
        batch.layout.join(own, features)
    gradient = reweighted.gradient(here, found, batch.temperature)  # type: ignore[union-attr]
    value = batch.hinge(batch.weights, batch.total(found.values))
    return batch.slope(features), value, batch.weight * gradient


def most_fall(
    batch: SampleBatch, w: np.ndarray, largest: float, lam: np.ndarray, slope: np.ndarray
) -> float:
    """By how much the objective of a batch can fall at most with other multipliers, and weights of
    slaves: it is convex. `slope` is the gradient at `lam`, `largest` the largest of all batches.
    """
    assert batch.likelihood is not None
    reweighted = batch.likelihood.reweighted
    if reweighted is None:
        return float(np.abs(slope) @ (BOX * largest + np.abs(lam)))
    batch.set_weights(w)
    here, found = reweighted_round(batch, lam)
    fall = reweighted.most_fall(here, found, batch.dual.unary, batch.temperature, BOX)
    return batch.weight * fall
