"""What every optimiser of the training objective has in common, and the subgradient family."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

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
        check_like(
            snapshot["state"],
            {**self.state, "evaluated": self.w},
            optional=("evaluated",),
            growing=self.growing,
        )
        if (
            int(snapshot["state"]["t"]) < 0
            or len({len(snapshot["state"][name]) for name in self.growing}) > 1
        ):
            raise ValueError("t: expected a number of passes; growing arrays: expected one length")
        self.objective.restore(snapshot["samples"])
        self.state.update(snapshot["state"])

    def stalled(self, lowest: np.ndarray, least: float) -> str:
        """Since when F has not fallen, in words; empty if it still falls.

        Parameters
        ----------
        lowest : float (n,), the lowest F after each evaluation.   least : a fall that counts.
        """
        return (
            "in three evaluations" if len(lowest) >= 5 and lowest[-4] - lowest[-1] < least else ""
        )

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
        return np.random.default_rng([self.seed, int(self.state["t"])]).permutation(
            self.objective.n_samples
        )


#: the share of F that steps aim at, and what is left of it at the end of a cycle
AIM, FALL = 0.25, 1e-3
#: passes of the first cycle of steps; each of the next is twice as long
CYCLE = 100
#: a squared slope beyond so many times its mean shortens the step
EXCESS = 50
#: the least share of the newest slope in the direction of a move
LEAST = 0.1


def cycle_of(t: int) -> tuple[int, float]:
    """The number of the cycle of pass t, and how much of it has passed: from 0 to 1, each time half as fast."""
    place = t / CYCLE + 1.0
    number = int(np.floor(np.log2(place)))
    return number, place / 2.0**number - 1.0


class LambdaStep(NamedTuple):
    """How far multipliers move: by `size` along the slope, or, if that is None, by aim / max(usual, squared slope of the sample)
    along a mean of the slopes so far, in which the newest has the share `newest`."""

    size: float | None
    aim: float = 0.0
    usual: float = 0.0
    newest: float = 1.0

    def along(self, spread: float) -> float:
        """The step of a sample with squared slope `spread`."""
        if self.size is not None:
            return self.size
        # the first pass has no mean yet; a sample far above it moves less, or those that disagree for the first time would leap
        return self.aim / max(self.usual, spread) if self.usual > 0 else 0.0

    def move(
        self,
        memory: dict[str, np.ndarray],
        spread: float,
        add: Callable[[np.ndarray, float], None],
        part: float = 1.0,
    ) -> None:
        """Move memory["lam"] by a part of a step.

        ``add(array, size)`` adds size times the slope to an array, in place: new memory costs more.
        """
        size = part * self.along(spread)
        if self.size is not None:
            add(memory["lam"], size)
            return
        drift = memory.setdefault("drift", np.zeros_like(memory["lam"]))
        drift *= 1.0 - self.newest
        add(drift, self.newest)
        memory["lam"] += size * drift


def move_multipliers(sample: SampleState, w: np.ndarray, step: LambdaStep) -> np.ndarray:
    """A subgradient step of one sample's multipliers.

    Returns its slope in w (P,), its hinge and its squared slope in lambda, in one array.
    """
    sample.set_weights(w)
    slaves, current = sample.dual.slaves, sample.dual.round(multipliers_of(sample))
    spread = squared_slope(sample, current.mean)
    step.move(
        sample.memory, spread, lambda to, size: slaves.move(to, current.results, current.mean, size)
    )
    return np.append(
        slope_of(sample, sample.features_of(current)), [hinge_of(sample, w, current.bound), spread]
    )


def multipliers_of(sample: SampleState) -> np.ndarray:
    """memory["lam"] (D,); those of the start, if the sample has none."""
    if "lam" not in sample.memory:
        sample.memory["lam"] = sample.dual.lam.copy()
    return sample.memory["lam"]


def squared_slope(sample: SampleState, mean: np.ndarray) -> float:
    """c_k |ind - mean|^2 of one sample with average indicators `mean` (n_coords,); indicators are 0 or 1."""
    return sample.weight * float(sample.dual.slaves.count @ (mean * (1.0 - mean)))


class Subgradient(Optimizer):
    r"""Batch projected subgradient with steps of their own for w and lambda.

    A step of length a/|g|^2 along a subgradient g would lower a linear F by a. The moves of w have such an aim, with the proximal
    map of R and W and a rate of its own for every weight: :math:`a/(m_p\sum_q r_q^2/m_q)`, where r are root mean squares of the
    slopes so far and m is between r and their average; those of lambda have the same aim. No step depends on the units of the
    problem. Directions are means of the last slopes, the longer the later: what zigzags cancels. The aim falls geometrically, from
    a share of F (between the first and the lowest, closer to that from cycle to cycle) to `FALL` of that share of the lowest F.
    That ends close to the optimum if the fall is slow enough; how slow depends on the problem, so cycles follow each other, each
    twice as long as the last. In the history, `step` is the aim.

    Parameters
    ----------
    step : how far a weight moves at first; it then takes AdaGrad's steps, step / sqrt(sum of g^2). None: as above.
    lambda_step : how far multipliers move at first, in units of the loss; then lambda_step / sqrt(1 + t). None: as above.
    """

    name = "subgradient"
    settings: ClassVar[tuple[str, ...]] = ("step", "lambda_step")
    step: float | None = None
    lambda_step: float | None = None
    #: what a pass over all samples at one (w, lambda) does with each
    batch_move = staticmethod(move_multipliers)

    def start(self) -> None:
        for name in ("step", "lambda_step"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), low=0, strict=True)
        self.state["squares"], self.state["spread"] = np.zeros(len(self.w)), np.array(0.0)
        self.state["drift"] = np.zeros(len(self.w))
        self.state["first"], self.state["lowest"] = np.array(0.0), np.array(np.inf)
        self.state["cycle"], self.state["before"], self.state["gain"] = (
            np.array(0),
            np.array(np.inf),
            np.array(np.inf),
        )

    def _note(self, value: float) -> None:
        """Keep the first and the lowest F; and, where a cycle has ended, how much F fell in it."""
        state, number = self.state, cycle_of(int(self.state["t"]))[0]
        if int(state["t"]) == 0:
            state["first"] = np.array(value)
        state["lowest"], state["gain"] = np.minimum(state["lowest"], value), np.array(np.inf)
        if number > int(state["cycle"]):
            state["gain"], state["before"], state["cycle"] = (
                state["before"] - state["lowest"],
                state["lowest"],
                np.array(number),
            )

    def stalled(self, lowest: np.ndarray, least: float) -> str:
        """As in the base class; judged by whole cycles: within one, F rises with long steps and rests with short ones."""
        if self.step is not None and self.lambda_step is not None:
            return super().stalled(lowest, least)
        return "in a whole cycle of steps" if float(self.state["gain"]) < least else ""

    def _measure(self, slope: np.ndarray, spread: float) -> None:
        """Bring the means of the squared slopes up to date: in w (P,), and in lambda."""
        state = self.state
        # the first slopes, of untrained weights, are soon forgotten; a shorter memory makes steps depend on the slopes they follow,
        # which ends beside the optimum
        share = 2.0 / (2.0 + float(state["t"]))
        if self.step is None:  # else they are AdaGrad's sums
            state["squares"] = state["squares"] + share * (slope**2 - state["squares"])
        state["spread"] = state["spread"] + share * (spread - state["spread"])

    def _move_w(self, slope: np.ndarray, share: float) -> None:
        """A proximal step against a slope (P,); `share` of R goes with it."""
        state, prior = self.state, self.objective.prior
        if self.step is not None:
            state["squares"] = state["squares"] + slope**2
            roots, aim = np.sqrt(state["squares"]), self.step
        else:
            # a slope far above its mean is no reason for a leap; one that is usually small is none for a step without bounds
            squares = np.maximum(state["squares"], slope**2 / EXCESS)
            roots = np.sqrt(squares + squares.mean())
            aim = self._aim / max(
                float(np.sum(np.divide(squares, roots, out=squares, where=roots > 0))), 1e-300
            )
            state["drift"] = state["drift"] + self._newest * (slope / share - state["drift"])
            slope = share * state["drift"]
        # a weight that was never asked to move must not hold back those that share its set
        rate = prior.even(np.divide(aim, roots, out=np.full(len(roots), np.inf), where=roots > 0))
        rate[np.isinf(rate)] = 0.0
        state["w"] = prior.prox(state["w"] - rate * slope, share * rate)

    @property
    def _aim(self) -> float:
        """By how much a move of this pass should lower F; nothing before the first pass."""
        first, lowest, (number, u) = (
            float(self.state["first"]),
            float(self.state["lowest"]),
            cycle_of(int(self.state["t"])),
        )
        if first <= 0:
            return 0.0
        top = lowest * (first / lowest) ** (0.5 / (1 + number)) if lowest > 0 else 0.0
        return float(AIM * top ** (1.0 - u) * (FALL * lowest) ** u)

    @property
    def _shown_step(self) -> float:
        return self._aim if self.step is None else self.step

    @property
    def _lambda_step(self) -> LambdaStep:
        if self.lambda_step is not None:
            return LambdaStep(self.lambda_step / np.sqrt(1.0 + float(self.state["t"])))
        return LambdaStep(None, self._aim, float(self.state["spread"]), 0.5 * self._newest)

    @property
    def _newest(self) -> float:
        """The share of the newest slope in the direction in which w moves: all at first, half of it in the second cycle, ..."""
        return max(0.5 ** cycle_of(int(self.state["t"]))[0], LEAST)

    def run(self) -> PassReport:
        objective, state = self.objective, self.state
        found = objective.total(self.batch_move, self.w, self._lambda_step)
        value, state["evaluated"] = objective.prior.value(self.w) + float(found[-2]), self.w.copy()
        self._note(abs(value))
        self._measure(found[:-2], float(found[-1]))
        aim = self._shown_step
        self._move_w(found[:-2], 1.0)
        state["t"] = state["t"] + 1
        return PassReport(objective=value, step=aim)


class Stochastic(Subgradient):
    """A few samples at a time in random order: w by a proximal step (with their share of R), lambda of those samples.

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
        n, order, total, aim = (
            self.objective.n_samples,
            self.order(),
            np.zeros(len(self.w) + 2),
            self._shown_step,
        )
        for first in range(0, n, self.batch):
            index = np.sort(order[first : first + self.batch])
            found = np.sum(self._visit(index), axis=0)
            self._move_w(found[:-2], len(index) / n)
            total += found
        self._measure(total[:-2], float(total[-1]))
        self.state["t"] = self.state["t"] + 1
        return PassReport(step=aim)

    def _visit(self, index: np.ndarray) -> list[np.ndarray]:
        """Move the multipliers of some samples; what `move_multipliers` returns."""
        return self.objective.each(move_multipliers, self.w, self._lambda_step, index=index)


def move_by_groups(
    sample: SampleState, w: np.ndarray, step: LambdaStep, seed: list[int]
) -> np.ndarray:
    """As `move_multipliers`, group after group: each is minimised where the moves of the last one led.

    All groups count in each move, with the minimisers last found: indicators "ind" (D,), clique features "cliques" (groups, P).
    """
    if "ind" not in sample.memory:
        return move_and_remember(sample, w, step)
    sample.set_weights(w)
    dual, memory, groups = sample.dual, sample.memory, sample.dual.slaves.groups
    spread = 0.0
    for g in np.random.default_rng([*seed, 1, sample.index]).permutation(len(groups)):
        where = dual.slaves.slices[g]
        result = groups[g].solve((dual.share + memory["lam"])[where], dual.prepared[g])
        memory["ind"][where] = result.ind
        memory["cliques"][g] = sample.layout.join(groups[g].features(result))
        mean, square = move_by_remembered(sample, step, 1.0 / len(groups))
        spread += square / len(groups)
    return np.append(remembered_slope(sample, mean), [np.nan, spread])


def move_and_remember(sample: SampleState, w: np.ndarray, step: LambdaStep) -> np.ndarray:
    """As `move_multipliers`; the minimisers are remembered."""
    if len(sample.dual.slaves.groups) <= 1:  # nothing has to be remembered of others
        return move_multipliers(sample, w, step)
    sample.set_weights(w)
    dual, memory, layout = sample.dual, sample.memory, sample.layout
    current = dual.round(multipliers_of(sample))
    memory["ind"] = current.ind
    memory["cliques"] = np.array(
        [layout.join(g.features(r)) for g, r in zip(dual.slaves.groups, current.results)]
    )
    mean, spread = move_by_remembered(sample, step, 1.0)
    return np.append(remembered_slope(sample, mean), [hinge_of(sample, w, current.bound), spread])


def move_by_remembered(
    sample: SampleState, step: LambdaStep, part: float
) -> tuple[np.ndarray, float]:
    """Go a part of a step along the slope in lambda that is remembered: the average indicators (n_coords,), the squared slope."""
    memory, slaves = sample.memory, sample.dual.slaves
    mean = sample.dual.mean(memory["ind"])
    spread, slope = squared_slope(sample, mean), memory["ind"] - slaves.spread(mean)
    step.move(memory, spread, lambda to, size: np.add(to, size * slope, out=to), part)
    return mean, spread


def remembered_slope(sample: SampleState, mean: np.ndarray) -> np.ndarray:
    """The slope in w (P,) that is remembered, with average indicators `mean` (n_coords,)."""
    features = sample.layout.join(
        sample.dual.slaves.unary_features(mean), sample.memory["cliques"].sum(axis=0)
    )
    return slope_of(sample, features)


class Incremental(Stochastic):
    """As `Stochastic`, and within a sample one group of slaves at a time (all cliques of a block, the rows, ...).

    After each group lambda goes its part of the way, the other groups count with the minimisers last found: an incremental
    aggregated subgradient. To scale one group up to stand for all is right on average, too, but its noise keeps far from the
    optimum.
    """

    name = "incremental"
    batch_move = staticmethod(move_and_remember)

    def _visit(self, index: np.ndarray) -> list[np.ndarray]:
        return self.objective.each(
            move_by_groups,
            self.w,
            self._lambda_step,
            [self.seed, int(self.state["t"])],
            index=index,
        )
