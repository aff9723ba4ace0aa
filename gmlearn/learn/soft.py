"""Soft objectives: the hinge at a temperature, down to the likelihood, minimised by L-BFGS on (w, lambda) jointly."""

from __future__ import annotations

import numpy as np

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
        if any(prior.regularizers[n].rest(np.ones(shape)) != 0.0 for n, shape in prior.layout.shapes.items()):
            return "only quadratic regularisers are smooth"
        if any(type(s) is not ConvexSet and not isinstance(s, (Box, Fixed)) for s in prior.sets.values()):
            return "only bounds on single weights (Box, NonNegative, Fixed)"
        return None

    def start(self) -> None:
        for k, s in enumerate(self.objective.states):
            self.state[f"lam{k}"] = s.dual.lam.copy()

    def _bounds(self) -> list[tuple[float | None, float | None]]:
        prior, bounds = self.objective.prior, []
        for name, shape in prior.layout.shapes.items():
            found = prior.sets[name]
            low = found.project(np.full(shape, -1e300)) if type(found) is not ConvexSet else np.full(shape, -np.inf)
            high = found.project(np.full(shape, 1e300)) if type(found) is not ConvexSet else np.full(shape, np.inf)
            bounds += [(None if a <= -1e300 else float(a), None if b >= 1e300 else float(b))
                       for a, b in zip(low.ravel(), high.ravel())]
        return bounds

    def _split(self, z: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        n, lams = self.objective.layout.size, []
        at = n
        for s in self.objective.states:
            size = len(s.dual.coords)
            lams.append(s.dual.centred(z[at:at + size]))
            at += size
        return z[:n], lams

    def value_and_gradient(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """F and its gradient at z = (w, multipliers of all samples)."""
        objective = self.objective
        w, lams = self._split(z)
        vertices = objective.vertices(w, lams)
        slope = objective.slope(vertices) + objective.prior.curvature * w
        parts = [slope] + [-s.weight * s.dual.centred(v.ind) for s, v in zip(objective.states, vertices)]
        return objective.value(w, vertices), np.concatenate(parts)

    def run(self) -> PassReport:
        from scipy.optimize import minimize

        state = self.state
        lams = [state[f"lam{k}"] for k in range(len(self.objective.states))]
        start = np.concatenate([self.w, *lams])
        free = [(None, None)] * (len(start) - len(self.w))
        answer = minimize(self.value_and_gradient, start, jac=True, method="L-BFGS-B", bounds=self._bounds() + free,
                          options={"maxiter": self.iterations, "ftol": 1e-14, "gtol": 1e-9, "maxcor": 20})
        w, lams = self._split(answer.x)
        state["w"] = np.array(w)
        for k, lam in enumerate(lams):
            state[f"lam{k}"] = lam
        state["t"] = state["t"] + 1
        return PassReport(objective=float(answer.fun), gap=float(np.abs(answer.jac).max(initial=0.0)))
