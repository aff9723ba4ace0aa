r"""Block-coordinate Frank-Wolfe with proximal (w, lambda): the default optimiser.

Every pass is a step of the proximal point method on F(w, lambda), solved in its dual, which lives on the hulls of the slaves'
minimisers. With y the current mixture of sample k, phi its features and :math:`v = \sum_k c_k(\phi_k - g_k)`,

.. math:: w = \arg\min_W R(w) - v\cdot w + \tfrac12 |w - \bar w|_C^2, \qquad
          \lambda^k = \bar\lambda^k + (y_k - \mathrm{mean}(y_k))/c .

A visit minimises all slaves of a sample and keeps what they find; then, several times, they move between the minimisers that
the sample knows (see `mixture`). A scalar exact line search along the joint direction of a sample, whose
curvature in w is :math:`c_k \sum_p d\phi_p^2/(\mu_p + C_p)`, makes each move an ascent (for sets W: a safe one). C is scaled like
AdaGrad, weight by weight, so that no step size has to be found. The mixture starts at the truth: no loss, no disagreement.

A mixture stays with its sample. Samples that are worked on side by side start from the same weights; a line search for one
after the other, which needs nothing but their features and two numbers, then decides how far each of them really moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np

from gmlearn._utils.validation import check_number
from gmlearn.learn.mixture import Direction, Step, mixture_of
from gmlearn.learn.objective import SampleState
from gmlearn.learn.optimizers import Optimizer, PassReport
from gmlearn.learn.prior import Prior

#: the most passes of one proximal step
MOST_PASSES = 4
#: how much of `prox` stays at least: with too long proximal steps, four passes are too few for one
LEAST_EASE = 0.2


class ProximalWeights:
    """w from v and the proximal centre, and the exact line search along a direction."""

    def __init__(self, prior: Prior, step: float, state: dict[str, np.ndarray]):
        self.prior, self.step, self.curvature = prior, step, prior.curvature
        self.w, self.v, self.squares, self.centre = (
            np.array(state[n]) for n in ("w", "v", "squares", "centre")
        )
        if self.squares.any():  # the centre has moved, and w with it, whether or not a sample will
            self._set_w()

    def search(self, d: Direction) -> Step:
        """The best step along a direction, which is taken."""
        gap = -(d.slope + float(self.w @ d.turn))
        if gap <= 0.0:
            return Step(0.0, 0.0, 0.0)
        self.squares += (d.weight * d.turn) ** 2
        roots = np.sqrt(self.squares)
        bend = d.weight * float(
            (d.turn**2 / np.maximum(self.curvature + roots / self.step, 1e-300)).sum()
        )
        gamma = 1.0 if bend + d.spread <= gap else gap / (bend + d.spread)
        self.v += d.weight * gamma * d.turn
        self._set_w()
        return Step(gamma, d.weight * gap, bend / d.square if d.square > 0.0 else 0.0)

    def moved(self) -> float:
        """The proximal term in w: half the squared distance to the centre, in the norm of C."""
        return 0.5 * float(((self.w - self.centre) ** 2 / self._rate()).sum())

    def _rate(self) -> np.ndarray:
        """1 / C (P,)."""
        return self.prior.even(self.step / np.maximum(np.sqrt(self.squares), 1e-12))

    def _set_w(self) -> None:
        rate = self._rate()
        self.w = self.prior.prox(self.centre + rate * self.v, rate)

    def copy(self) -> ProximalWeights:
        other = copy(self)
        other.w, other.v, other.squares = self.w.copy(), self.v.copy(), self.squares.copy()
        return other

    def arrays(self) -> dict[str, np.ndarray]:
        return {"w": self.w, "v": self.v, "squares": self.squares}


class BlockFrankWolfe(Optimizer):
    """Block-coordinate Frank-Wolfe with proximal weights and multipliers; any regulariser, any convex set.

    Parameters
    ----------
    prox : c, in units of 1 / loss: larger means smaller moves of lambda in one pass. Where F stalls with four passes to each
        proximal step, it begins to fall.
    rate : share of the present point in the running average of (w, lambda), where F is evaluated. Single points swing around the
        optimum on models with many overlapping cliques; their average does not.
    step : about how far a weight may move in the first pass; further, where the proximal steps turn out to be short.
    evaluate_every : every so many passes all samples are minimised at the average (w, lambda), which gives F; the minimisers
        are kept like those of any other pass.
    recalls : after each visit to its slaves, a sample moves so many times between minimisers of earlier visits, without a
        minimisation; more often where F stalls. More of them mean fewer passes: for slaves that are dear to minimise.
    planes : minimisers kept of each slave; the least recently useful one goes.
    batch : samples that start from the same weights. 1 is best for one worker and the default in one process; 0 means all of
        them and is the default where samples live elsewhere. The path, not the optimum, depends on it.
    """

    name = "bcfw"
    settings = ("prox", "rate", "step", "evaluate_every", "recalls", "planes", "batch")
    prox = 2.0
    rate = 0.5
    step = 1.0
    evaluate_every = 5
    recalls = 2
    planes = 16
    batch: int | None = None

    def start(self) -> None:
        self.state["squares"], self.state["centre"], self.state["average"] = (
            np.zeros(len(self.w)),
            self.w.copy(),
            self.w.copy(),
        )
        self.state["inner"], self.state["since"], self.state["lowest"] = (
            np.array(1),
            np.array(0),
            np.array(np.inf),
        )
        self.state["ease"], self.state["stretch"] = np.array(1.0), np.array(1.0)
        if self.batch is None:
            self.batch = 1 if self.objective.executor.local else 0
        check_number("batch", self.batch, low=0, integer=True)
        self.truth_changed()

    def restore(self, snapshot: dict[str, Any]) -> None:
        super().restore(snapshot)
        if not 1 <= int(self.state["inner"]) <= MOST_PASSES:  # recalls are multiplied by it
            raise ValueError(
                f"inner: expected 1 to {MOST_PASSES} passes, got {self.state['inner']}"
            )
        self.objective.each(check, self.planes)

    def truth_changed(self) -> None:
        self.state["v"] = self.objective.total(mixture_slope, self.planes)

    def stalled(self, lowest: np.ndarray, least: float) -> str:
        """As in the base class, once longer proximal steps have been tried as well."""
        return super().stalled(lowest, least) if float(self.state["ease"]) < 0.5 else ""

    def run(self) -> PassReport:
        state, objective = self.state, self.objective
        weights = ProximalWeights(objective.prior, self.step * float(state["stretch"]), state)
        value, prox, last = (
            None,
            self.prox * float(state["ease"]),
            int(state["since"]) + 1 >= int(state["inner"]),
        )
        if int(state["t"]) % self.evaluate_every == 0:
            at = state["evaluated"] = state["average"].copy()
            weights, gap, hinges = self._pass(weights, prox, last, evaluate, at)
            value = objective.prior.value(at) + float(np.sum(hinges))
        else:
            weights, gap, _ = self._pass(weights, prox, last, visit)
        state.update(weights.arrays())
        if value is not None:
            self._adapt(value)
        state["since"] = np.array(0) if last else state["since"] + 1
        if last:
            self._stretch(gap, weights.moved())
            state["centre"] = state["w"].copy()
            state["average"] = state["average"] + self.rate * (state["w"] - state["average"])
        state["t"] = state["t"] + 1
        return PassReport(objective=value, gap=gap, step=self.step)

    def _adapt(self, value: float) -> None:
        """Where F no longer falls, the proximal steps were solved too roughly: give each of them more passes, with more recalls.

        With many passes each, they are solved well enough, and too short: from then on they become longer.
        """
        state, lowest = self.state, float(self.state["lowest"])
        if np.isfinite(lowest) and value > lowest - 3e-4 * abs(lowest):
            if int(state["inner"]) == MOST_PASSES:
                state["ease"] = np.maximum(state["ease"] * 0.7, LEAST_EASE)
            state["inner"] = np.minimum(state["inner"] * 2, MOST_PASSES)
        state["lowest"] = np.array(min(lowest, value))

    def _stretch(self, gap: float, moved: float) -> None:
        """Where a proximal step is solved much better than it is long, w may go further in the next one: its optimum may be far."""
        factor = 1.5 if gap < 0.1 * moved else 1.0 / 1.5 if gap > moved else 1.0
        self.state["stretch"] = np.clip(self.state["stretch"] * factor, 1.0, 1e4)

    def _pass(
        self, weights: ProximalWeights, prox: float, last: bool, move: Callable, *args: Any
    ) -> tuple[ProximalWeights, float, np.ndarray]:
        """All samples in random order, `batch` of them at a time, `move` and then recall: the weights, the gap, the hinges.

        last : does the proximal step end with this pass?
        """
        objective, n, rounds = (
            self.objective,
            self.objective.n_samples,
            self.recalls * int(self.state["inner"]),
        )
        order = np.random.default_rng([self.seed, int(self.state["t"])]).permutation(n)
        hinges, gap, size, shift = np.zeros(n), 0.0, self.batch or n, self.rate if last else None
        for first in range(0, n, size):
            index = np.sort(order[first : first + size])
            if size == 1:
                k = int(index[0])
                weights, found, hinges[k] = objective.one(
                    k, move_at_once, self.planes, weights, prox, rounds, shift, move, *args
                )
            else:
                found, hinges[index] = self._move_together(
                    index, weights, prox, rounds, shift, move, *args
                )
            gap += found
        return weights, gap, hinges

    def _move_together(
        self,
        index: np.ndarray,
        weights: ProximalWeights,
        prox: float,
        rounds: int,
        shift: float | None,
        move: Callable,
        *args: Any,
    ) -> tuple[float, tuple[float, ...]]:
        """As `move_at_once`, for samples that move from the same weights: the first gap and the hinges.

        How far each goes, a line search for one after the other says. It is told with the next round: messages take time.
        """
        each = self.objective.each
        directions, hinges = zip(*each(move, self.planes, weights, prox, *args, index=index))
        steps = first = self._search(index, 0, weights, directions)
        for number in range(1, rounds + 1):
            recalled = each(settle_and_recall, self.planes, weights, prox, index=index, own=steps)
            steps = self._search(index, number, weights, recalled)
        each(settle_and_end, self.planes, prox, shift, index=index, own=steps)
        return sum(step.gap for (step,) in first), hinges

    def _search(
        self,
        index: np.ndarray,
        number: int,
        weights: ProximalWeights,
        directions: Sequence[Direction],
    ) -> list[tuple[Step]]:
        """The steps of samples that move together, one after the other in random order; as `own` of `Objective.each`."""
        order = np.random.default_rng(
            [self.seed, int(self.state["t"]), number, int(index[0])]
        ).permutation(len(index))
        steps = {int(k): weights.search(directions[k]) for k in order}
        return [(steps[k],) for k in range(len(index))]


# ---------------------------------------------------------------------- what runs with the samples
# with the number of planes, since a sample that was lost and built again has no mixture


def check(sample: SampleState, planes: int) -> None:
    """May compiled code trust the arrays of a restored sample?"""
    mixture_of(sample, planes).check()


def mixture_slope(sample: SampleState, planes: int) -> np.ndarray:
    """c_k (phi_k - g_k): the part of v that belongs to a sample."""
    return sample.weight * (mixture_of(sample, planes).features() - sample.truth_features)


def visit(
    sample: SampleState, planes: int, weights: ProximalWeights, prox: float
) -> tuple[Direction, float]:
    """Minimise the slaves and move: the direction, and no hinge."""
    return mixture_of(sample, planes).visit(weights, prox), 0.0


def evaluate(
    sample: SampleState, planes: int, weights: ProximalWeights, prox: float, at: np.ndarray
) -> tuple[Direction, float]:
    """The same with the slaves at weights `at` and the average lambda, and the hinge there."""
    return mixture_of(sample, planes).evaluate(weights, prox, at)


def settle_and_recall(
    sample: SampleState, planes: int, weights: ProximalWeights, prox: float, step: Step
) -> Direction:
    """Of the last move, only what the line search allows; then one between known minimisers."""
    mixture = mixture_of(sample, planes)
    mixture.settle(step)
    return mixture.recall(weights, prox)


def settle_and_end(
    sample: SampleState, planes: int, prox: float, shift: float | None, step: Step
) -> None:
    """The same of the last move of a pass; `shift` is the rate of the average if the proximal step ends here, too.

    The next proximal step starts where this one ended.
    """
    mixture = mixture_of(sample, planes)
    mixture.settle(step)
    if shift is not None:
        mixture.move_centre(prox, shift)


def move_at_once(
    sample: SampleState,
    planes: int,
    weights: ProximalWeights,
    prox: float,
    rounds: int,
    shift: float | None,
    move: Callable,
    *args: Any,
) -> tuple[ProximalWeights, float, float]:
    """Move a sample, and the weights with it, then `rounds` times by what it recalls: the weights, the first gap, the hinge.

    All that concerns one sample is done while its arrays are in the cache.
    """
    direction, hinge = move(sample, planes, weights, prox, *args)
    step = weights.search(direction)
    gap = step.gap
    for _ in range(rounds):
        step = weights.search(settle_and_recall(sample, planes, weights, prox, step))
    settle_and_end(sample, planes, prox, shift, step)
    return weights, gap, hinge
