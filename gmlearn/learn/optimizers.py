"""What every optimiser of the training objective has in common, and the subgradient family."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gmlearn._utils.archive import check_like
from gmlearn._utils.validation import check_number
from gmlearn.learn.objective import Objective, SampleState, forget, hinge_of, slope_of
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
    """Minimises the objective pass by pass.

    All that it remembers is arrays: its own in `state`, those of a sample in that sample's ``memory``, which stays where the
    sample is worked on (see `Objective.each`). That makes checkpoints trivial, a resumed run the same as an uninterrupted
    one, and every optimiser work with every executor.
    """

    registry_kind: ClassVar[str] = "optimizer"
    name: ClassVar[str] = ""
    #: names of the further settings that ``gm.train(..., name=value)`` may pass
    settings: ClassVar[tuple[str, ...]] = ()
    #: arrays of `state` that get longer
    growing: ClassVar[tuple[str, ...]] = ()

    def __init__(self, objective: Objective, w: np.ndarray, seed: int = 0, **settings: Any):
        self.objective, self.seed = objective, seed
        for name, value in settings.items():
            if isinstance(getattr(type(self), name), (int, float)):
                whole = isinstance(getattr(type(self), name), int)
                check_number(name, value, low=1 if whole else 0, strict=not whole, integer=whole)
            setattr(self, name, value)
        self.state: dict[str, np.ndarray] = {"w": np.array(w, float), "t": np.array(0)}
        self.begin()

    def begin(self) -> None:
        """Start from nothing but the weights."""
        self.objective.each(forget)
        self.start()

    @classmethod
    def refuses(cls, prior: Prior, temperature: float) -> str | None:
        """None if this optimiser can take the problem, else the reason in a few words."""
        return "a temperature > 0 needs the optimiser 'lbfgs'" if temperature > 0 else None

    def start(self) -> None:
        """Fill `state` with what the method needs."""
        return None

    def truth_changed(self) -> None:
        """Called after a completion replaced the samples' truths, or a lost sample was built again."""
        return None

    def snapshot(self) -> dict[str, Any]:
        """All that the optimiser remembers: its own arrays, and those of each sample."""
        return {"state": dict(self.state), "samples": self.objective.memory()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on from a `snapshot`, also one of another process; arrays that do not fit are refused."""
        check_like(snapshot["state"], {**self.state, "evaluated": self.w}, optional=("evaluated",), growing=self.growing)
        if int(snapshot["state"]["t"]) < 0 or len({len(snapshot["state"][name]) for name in self.growing}) > 1:
            raise ValueError("t: expected a number of passes; growing arrays: expected one length")
        self.objective.restore(snapshot["samples"])
        self.state.update(snapshot["state"])

    @abstractmethod
    def run(self) -> PassReport:
        """One pass over the samples; the weights are ``state["w"]``."""

    @property
    def settled(self) -> bool:
        """False as long as the optimiser has an answer of its own to an F that no longer falls: training then goes on."""
        return True

    @property
    def w(self) -> np.ndarray:
        return self.state["w"]

    @property
    def evaluated_w(self) -> np.ndarray:
        """The weights at which the last reported objective holds."""
        return self.state.get("evaluated", self.state["w"])

    def order(self) -> np.ndarray:
        """A random order of the samples for this pass; a function of the seed and the pass alone."""
        return np.random.default_rng([self.seed, int(self.state["t"])]).permutation(self.objective.n_samples)


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

    def _move_w(self, slope: np.ndarray, share: float) -> None:
        """A proximal AdaGrad step; `share` of R goes with it."""
        state, prior = self.state, self.objective.prior
        state["squares"] = state["squares"] + slope ** 2
        rate = np.where(state["squares"] > 0, self.step / np.sqrt(np.maximum(state["squares"], 1e-300)), 0.0)
        rate = prior.even(rate)
        state["w"] = prior.prox(state["w"] - rate * slope, share * rate)

    @property
    def _lambda_size(self) -> float:
        return self.lambda_step / np.sqrt(1.0 + float(self.state["t"]))

    def run(self) -> PassReport:
        objective, state = self.objective, self.state
        found = objective.total(move_multipliers, self.w, self._lambda_size)
        value, state["evaluated"] = objective.prior.value(self.w) + float(found[-1]), self.w.copy()
        self._move_w(found[:-1], 1.0)
        state["t"] = state["t"] + 1
        return PassReport(objective=value, step=self.step)


def move_multipliers(sample: SampleState, w: np.ndarray, size: float) -> np.ndarray:
    """A subgradient step of one sample's multipliers; returns its slope in w (P,) and its hinge, in one array."""
    sample.set_weights(w)
    if "lam" not in sample.memory:
        sample.memory["lam"] = sample.dual.lam.copy()
    lam = sample.memory["lam"]
    current = sample.dual.round(lam)
    sample.dual.slaves.move(lam, current.results, current.mean, size)  # in place: new memory of that size costs more than the move
    return np.append(slope_of(sample, sample.features_of(current)), hinge_of(sample, w, current.bound))


class Stochastic(Subgradient):
    """A few samples at a time in random order: w by proximal AdaGrad (with their share of R), lambda of those samples.

    The sum of the minima met on the way is no value of F at one point; every `evaluate_every` passes the pass is a
    batch one, which gives F and moves as well.

    Parameters
    ----------
    batch : samples that are minimised at the same weights; several keep several workers busy, and take another path.
    """

    name = "stochastic"
    settings = ("step", "lambda_step", "evaluate_every", "batch")
    evaluate_every = 5
    batch = 1

    def run(self) -> PassReport:
        if int(self.state["t"]) % self.evaluate_every == 0:
            return super().run()
        n, order = self.objective.n_samples, self.order()
        for first in range(0, n, self.batch):
            index = np.sort(order[first:first + self.batch])
            found = self._visit(index)
            self._move_w(np.sum(found, axis=0)[:-1], len(index) / n)
        self.state["t"] = self.state["t"] + 1
        return PassReport(step=self.step)

    def _visit(self, index: np.ndarray) -> list[np.ndarray]:
        """Move the multipliers of some samples; their slopes."""
        return self.objective.each(move_multipliers, self.w, self._lambda_size, index=index)


class Incremental(Stochastic):
    """One group of slaves at a time (all cliques of a block, the rows, ...), scaled up to stand for all slaves of the sample."""

    name = "incremental"

    def _visit(self, index: np.ndarray) -> list[np.ndarray]:
        return self.objective.each(move_one_group, self.w, self._lambda_size, [self.seed, int(self.state["t"])], index=index)


def move_one_group(sample: SampleState, w: np.ndarray, size: float, seed: list[int]) -> np.ndarray:
    """Minimise one random group of slaves of a sample; the others keep their last indicators. As `move_multipliers`."""
    sample.set_weights(w)
    dual, layout, memory = sample.dual, sample.layout, sample.memory
    lam = memory.get("lam", dual.lam)
    if "ind" not in memory:
        memory["ind"] = dual.round(lam).ind
    groups = dual.slaves.groups
    g = int(np.random.default_rng([*seed, 1, sample.index]).integers(len(groups)))
    where = dual.slaves.slices[g]
    result = groups[g].solve((dual.share + lam)[where], dual.prepared[g])
    ind, alone = memory["ind"].copy(), np.zeros(len(lam))
    ind[where] = alone[where] = result.ind
    features = layout.join(groups[g].features(result), scale=float(len(groups)))
    layout.join(dual.slaves.unary_features(dual.mean(alone)), features, scale=float(len(groups)))
    memory["lam"] = lam + size / len(groups) * (ind - dual.slaves.spread(dual.mean(ind)))
    memory["ind"] = ind
    return np.append(slope_of(sample, features), np.nan)
