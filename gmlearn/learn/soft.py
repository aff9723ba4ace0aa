"""Soft objectives: the hinge at a temperature, down to the likelihood, minimised by L-BFGS on (w, lambda) jointly."""

from __future__ import annotations

import numpy as np

from gmlearn.learn.objective import SampleState, hinge_of, slope_of
from gmlearn.learn.optimizers import Optimizer, PassReport
from gmlearn.learn.prior import Box, ConvexSet, Fixed, Prior


class SoftLBFGS(Optimizer):
    r"""L-BFGS on the smooth objective :math:`R(w) + \sum_k c_k[E(x^k) + \epsilon\sum_i\log\sum_x e^{-E_i(x)/\epsilon}]`.

    The sum over slaves is an upper bound of the log-partition (exact where one slave holds everything, as on trees).
    Multipliers are kept zero-sum by projecting what L-BFGS moves.

    Parameters
    ----------
    iterations : L-BFGS iterations in one pass.
    """

    name = "lbfgs"
    settings = ("iterations",)
    iterations = 20

    @classmethod
    def refuses(cls, prior: Prior, temperature: float) -> str | None:
        if temperature <= 0:
            return "needs a temperature > 0 (the hinge is not smooth)"
        if any(
            prior.regularizers[n].rest(np.ones(shape)) != 0.0
            for n, shape in prior.layout.shapes.items()
        ):
            return "only quadratic regularisers are smooth"
        if any(
            type(s) is not ConvexSet and not isinstance(s, (Box, Fixed))
            for s in prior.sets.values()
        ):
            return "only bounds on single weights (Box, NonNegative, Fixed)"
        return None

    def start(self) -> None:
        self.state["lam"] = np.zeros(int(self.objective.total(number_of_multipliers)))
        self._ends = np.cumsum(self.objective.each(number_of_multipliers)[:-1]).astype(int)

    def _bounds(self) -> list[tuple[float | None, float | None]]:
        prior, bounds = self.objective.prior, []
        for name, shape in prior.layout.shapes.items():
            found = prior.sets[name]
            low = (
                found.project(np.full(shape, -1e300))
                if type(found) is not ConvexSet
                else np.full(shape, -np.inf)
            )
            high = (
                found.project(np.full(shape, 1e300))
                if type(found) is not ConvexSet
                else np.full(shape, np.inf)
            )
            bounds += [
                (None if a <= -1e300 else float(a), None if b >= 1e300 else float(b))
                for a, b in zip(low.ravel(), high.ravel())
            ]
        return bounds

    def value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """F and its gradient at z = (w, multipliers of all samples). The multipliers travel, unlike those of other optimisers."""
        objective, n = self.objective, self.objective.layout.size
        found = objective.each(
            soft_value, z[:n], own=[(lam,) for lam in np.split(z[n:], self._ends)]
        )
        slope = objective.prior.curvature * z[:n]
        for hinge_slope, _, _ in found:
            slope = slope + hinge_slope
        value = objective.prior.value(z[:n]) + float(np.sum([f[1] for f in found]))
        return value, np.concatenate([slope, *(f[2] for f in found)])

    def run(self) -> PassReport:
        from scipy.optimize import minimize

        state, n = self.state, len(self.w)
        start = np.concatenate([self.w, state["lam"]])
        free = [(None, None)] * (len(start) - n)
        answer = minimize(
            self.value_and_gradient,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=self._bounds() + free,
            options={"maxiter": self.iterations, "ftol": 1e-14, "gtol": 1e-9, "maxcor": 20},
        )
        state["w"], state["lam"] = np.array(answer.x[:n]), np.array(answer.x[n:])
        state["t"] = state["t"] + 1
        return PassReport(
            objective=float(answer.fun), gap=float(np.abs(answer.jac).max(initial=0.0))
        )


def number_of_multipliers(sample: SampleState) -> np.ndarray:
    return np.array(len(sample.dual.coords))


def soft_value(
    sample: SampleState, w: np.ndarray, lam: np.ndarray
) -> tuple[np.ndarray, float, np.ndarray]:
    """(slope in w, soft hinge, gradient in lambda) of one sample; what L-BFGS moves is projected onto zero sums."""
    sample.set_weights(w)
    vertex = sample.soft(sample.dual.centred(lam))
    return (
        slope_of(sample, vertex.features),
        hinge_of(sample, w, vertex.value),
        -sample.weight * sample.dual.centred(vertex.ind),
    )
