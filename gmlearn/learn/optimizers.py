"""What every optimiser of the training objective has in common, and the subgradient family."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gmlearn._utils.validation import check_number
from gmlearn.learn.objective import Objective
from gmlearn.learn.prior import Prior


@dataclass
class PassReport:
    """What one pass over the samples tells.

    objective : F at the start of the pass, if all slaves were minimised at one (w, lambda), else None.
    bound : a lower bound of the optimal F, if one is known.   gap : the optimiser's own measure of what is left to gain.
    step : the step size, where there is one.
    """

    objective: float | None = None
    bound: float | None = None
    gap: float | None = None
    step: float | None = None


class Optimizer(ABC):
    """Minimises the objective pass by pass. All that it remembers is in `state`, a mapping of arrays.

    That makes checkpoints trivial, and a resumed run the same as an uninterrupted one.
    """

    registry_kind: ClassVar[str] = "optimizer"
    name: ClassVar[str] = ""
    #: names of the further settings that ``gm.train(..., name=value)`` may pass
    settings: ClassVar[tuple[str, ...]] = ()

    def __init__(self, objective: Objective, w: np.ndarray, seed: int = 0, **settings: Any):
        self.objective, self.seed = objective, seed
        for name, value in settings.items():
            if isinstance(getattr(type(self), name), (int, float)):
                whole = isinstance(getattr(type(self), name), int)
                check_number(name, value, low=1 if whole else 0, strict=not whole, integer=whole)
            setattr(self, name, value)
        self.state: dict[str, np.ndarray] = {"w": np.array(w, float), "t": np.array(0)}
        self.start()

    @classmethod
    def refuses(cls, prior: Prior, temperature: float) -> str | None:
        """None if this optimiser can take the problem, else the reason in a few words."""
        return "a temperature > 0 needs the optimiser 'lbfgs'" if temperature > 0 else None

    def start(self) -> None:
        """Fill `state` with what the method needs."""
        return None

    def truth_changed(self) -> None:
        """Called after a completion replaced the samples' truths."""
        return None

    @abstractmethod
    def run(self) -> PassReport:
        """One pass over the samples; the weights are ``state["w"]``."""

    @property
    def w(self) -> np.ndarray:
        return self.state["w"]

    @property
    def evaluated_w(self) -> np.ndarray:
        """The weights at which the last reported objective holds."""
        return self.state.get("evaluated", self.state["w"])

    def order(self) -> np.ndarray:
        """A random order of the samples for this pass; a function of the seed and the pass alone."""
        return np.random.default_rng([self.seed, int(self.state["t"])]).permutation(len(self.objective.states))


class Subgradient(Optimizer):
    r"""Batch projected subgradient with steps of their own for w and lambda.

    w moves by an AdaGrad-scaled step :math:`\eta/\sqrt{\sum g^2}` through the proximal map of R and W, lambda by
    :math:`\sigma/\sqrt{1+t}` times (ind - mean).

    Parameters
    ----------
    step : eta, about how far a weight should move at first.   lambda_step : sigma, in units of the loss.
    """

    name = "subgradient"
    settings: ClassVar[tuple[str, ...]] = ("step", "lambda_step")
    step = 0.1
    lambda_step = 0.5

    def start(self) -> None:
        self.state["squares"] = np.zeros(len(self.w))
        for k, s in enumerate(self.objective.states):
            self.state[f"lam{k}"] = s.dual.lam

    def _move_w(self, slope: np.ndarray, share: float) -> None:
        """A proximal AdaGrad step; `share` of R goes with it."""
        state, prior = self.state, self.objective.prior
        state["squares"] = state["squares"] + slope ** 2
        rate = np.where(state["squares"] > 0, self.step / np.sqrt(np.maximum(state["squares"], 1e-300)), 0.0)
        rate = prior.even(rate)
        state["w"] = prior.prox(state["w"] - rate * slope, share * rate)

    def _move_lambda(self, k: int, ind: np.ndarray, mean: np.ndarray, scale: float = 1.0) -> None:
        spread = self.objective.states[k].dual.slaves.spread
        size = scale * self.lambda_step / np.sqrt(1.0 + float(self.state["t"]))
        self.state[f"lam{k}"] = self.state[f"lam{k}"] + size * (ind - spread(mean))

    def run(self) -> PassReport:
        objective, state = self.objective, self.state
        lams = [state[f"lam{k}"] for k in range(len(objective.states))]
        vertices = objective.vertices(self.w, lams)
        value, state["evaluated"] = objective.value(self.w, vertices), self.w.copy()
        slope = objective.slope(vertices)
        for k, v in enumerate(vertices):
            self._move_lambda(k, v.ind, v.mean)
        self._move_w(slope, 1.0)
        state["t"] = state["t"] + 1
        return PassReport(objective=value, step=self.step)


class Stochastic(Subgradient):
    """One sample at a time in random order: w by proximal AdaGrad (with R/K each), lambda of that sample.

    The sum of the minima met on the way is no value of F at one point; every `evaluate_every` passes the pass is a
    batch one, which gives F and moves as well.
    """

    name = "stochastic"
    settings = ("step", "lambda_step", "evaluate_every")
    evaluate_every = 5

    def run(self) -> PassReport:
        state = self.state
        if int(state["t"]) % self.evaluate_every == 0:
            return super().run()
        n = len(self.objective.states)
        for k in self.order():
            sample = self.objective.states[k]
            sample.set_weights(self.w)
            vertex = sample.vertex(state[f"lam{k}"])
            self._move_lambda(k, vertex.ind, vertex.mean)
            self._move_w(sample.weight * (sample.truth_features - vertex.features), 1.0 / n)
        state["t"] = state["t"] + 1
        return PassReport(step=self.step)


class Incremental(Stochastic):
    """One set of slaves at a time (those of one group and colour), scaled up to stand for all slaves of the sample."""

    name = "incremental"

    def start(self) -> None:
        super().start()
        for k, s in enumerate(self.objective.states):
            self.state[f"ind{k}"] = np.zeros(len(s.dual.coords))

    def run(self) -> PassReport:
        state, n = self.state, len(self.objective.states)
        if int(state["t"]) % self.evaluate_every == 0:
            lams = [state[f"lam{k}"] for k in range(n)]
            report = super().run()
            for k, s in enumerate(self.objective.states):
                state[f"ind{k}"] = s.dual.round(lams[k]).ind
            return report
        rng = np.random.default_rng([self.seed, int(state["t"]), 1])
        for k in self.order():
            self._visit(int(k), rng, n)
        state["t"] = state["t"] + 1
        return PassReport(step=self.step)

    def _visit(self, k: int, rng: np.random.Generator, n: int) -> None:
        """Minimise one group of slaves of sample k; the others keep their last indicators."""
        state, sample = self.state, self.objective.states[k]
        sample.set_weights(self.w)
        dual, layout = sample.dual, sample.layout
        groups = dual.slaves.groups
        g = int(rng.integers(len(groups)))
        theta = dual.share + state[f"lam{k}"]
        where = dual.slaves.slices[g]
        result = groups[g].solve(theta[where], dual.prepared[g])
        ind = state[f"ind{k}"].copy()
        ind[where] = result.ind
        mean = dual.mean(ind)
        part = layout.join(groups[g].features(result), scale=float(len(groups)))
        own = np.zeros(len(ind))
        own[where] = result.ind
        layout.join(dual.slaves.unary_features(dual.mean(own)), part, scale=float(len(groups)))
        state[f"ind{k}"] = ind
        self._move_lambda(k, ind, mean, 1.0 / len(groups))
        self._move_w(sample.weight * (sample.truth_features - part), 1.0 / n)
