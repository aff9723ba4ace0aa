r"""Block-coordinate Frank-Wolfe with proximal (w, lambda): the default optimiser.

Every pass is a step of the proximal point method on F(w, lambda), solved in its dual, which lives
on the hulls of the slaves' minimisers. With y the mixture of a batch of samples (see
`master.mixture`), phi its features and :math:`v = \sum_k c_k(\phi_k - g_k)`,

.. math:: w = \arg\min_W R(w) - v\cdot w + \tfrac12 |w - \bar w|_C^2, \qquad
          \lambda^k = \bar\lambda^k + (y_k - \mathrm{mean}(y_k))/c .

A visit minimises all slaves of a batch, keeps what they find and moves towards it; then, several
times, they move between the minimisers that they know. A line search along the joint move d of a
batch, whose curvature in w is :math:`c_k\sum_p d\phi_p^2/(\mu_p + C_p)`, makes each move an ascent.
C is scaled like AdaGrad, weight by weight, so that no step size has to be found. The mixture starts
at the truth: no loss, no disagreement.

A lower bound of F: every y gives :math:`F(w,\lambda) \ge R(w) - v\cdot w + \kappa
- \sum_k c_k\langle\lambda^k, y_k\rangle`, where kappa collects the costs without weights. The last
term is zero where slaves agree; else it is bounded over a box :math:`|\lambda_d| \le B_d` (see
`Mixture.fixed_cost`). Whether that holds an optimum is not proved: what is reported says so, and a
bound is dropped as soon as multipliers outgrow its box. The minimum over w is :math:`-R^*(v)`, the
conjugate of R on W.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gmlearn._utils.validation import check_number
from gmlearn.learn.batch import SampleBatch
from gmlearn.learn.optimizers import Optimizer, OptimizerState, PassReport
from gmlearn.learn.regularization import Regularization
from gmlearn.master.mixture import Mixture
from gmlearn.master.mixture_state import Direction, Minimisers, MixtureState

#: the most passes of one proximal step
MOST_PASSES = 4
#: how much of `prox` stays at least: with longer proximal steps, four passes are too few for one
LEAST_PROX = 0.2
#: gaps of a proximal step, in units of its length, below which `step` becomes longer again, and
#: above which it becomes shorter, down to this share of the setting
ROUGH, LEAST_STEP = (5.0, 15.0), 0.25
#: copies of a coordinate from which on multipliers move less: those of many slaves add up
MANY_COPIES = 12
#: evaluations without a fall of F after which it has stalled, unless the gap to its lower bound
#: has fallen to this share meanwhile
STALL, CLOSING = 20, 0.8
#: multipliers of the lower bound of F may be so many times as large as those met
BOX = 2.0


class Step(NamedTuple):
    """What the line search says of a move.

    gamma : the part of it to keep.   gap : the duality gap along it.   curvature : in w, over the
    squared length of the move; 0 if that is not known.
    """

    gamma: float
    gap: float
    curvature: float


class ProximalWeights:
    """w from v and the proximal centre, and the line search along a move."""

    def __init__(self, regularization: Regularization, step: float, state: BcfwState):
        self.regularization, self.step, self.mu = regularization, step, regularization.curvature
        self.w, self.v = state.w.copy(), state.v.copy()
        self.squares, self.centre = state.squares.copy(), state.centre.copy()
        if self.squares.any():  # the centre has moved, and w with it, whether or not a batch will
            self._set_w()

    def search(self, weight: float, d: Direction) -> Step:
        """The best step along a move of samples with weight c_k, which is taken."""
        gap = -(d.slope + float(self.w @ d.features))
        if gap <= 0.0:
            return Step(0.0, 0.0, 0.0)
        self.squares += (weight * d.features) ** 2
        proximal = np.sqrt(self.squares) / self.step  # C
        curvature = weight * float((d.features**2 / np.maximum(self.mu + proximal, 1e-300)).sum())
        gamma = min(1.0, gap / max(curvature + d.spread, 1e-300))
        self.v += weight * gamma * d.features
        self._set_w()
        return Step(gamma, weight * gap, curvature / d.square if d.square > 0.0 else 0.0)

    def moved(self) -> float:
        """The proximal term in w: half the squared distance to the centre, in the norm of C."""
        return 0.5 * float(((self.w - self.centre) ** 2 / self._rate()).sum())

    def _rate(self) -> np.ndarray:
        """1 / C (P,)."""
        return self.regularization.even(self.step / np.maximum(np.sqrt(self.squares), 1e-12))

    def _set_w(self) -> None:
        rate = self._rate()
        self.w = self.regularization.prox(self.centre + rate * self.v, rate)

    def copy(self) -> ProximalWeights:
        other = copy(self)
        other.v, other.squares = self.v.copy(), self.squares.copy()
        return other


@dataclass(kw_only=True)
class BcfwState(OptimizerState):
    """v : float (P,), see the module.   squares : float (P,), AdaGrad's sums.
    centre, average : float (P,), the proximal centre of w and the average of such centres.
    passes : of each proximal step.   since : passes since the last one began.
    lowest : the lowest F.   prox_scale, step_scale : what the settings `prox` and `step` are
    multiplied by.   bound : the best lower bound of F.   box : the multipliers it holds for; inf
    for all.
    """

    v: np.ndarray
    squares: np.ndarray
    centre: np.ndarray
    average: np.ndarray
    passes: int = 1
    since: int = 0
    lowest: float = np.inf
    prox_scale: float = 1.0
    step_scale: float = 1.0
    bound: float = -np.inf
    box: float = np.inf


class BlockFrankWolfe(Optimizer):
    """Block-coordinate Frank-Wolfe with proximal weights and multipliers; any regulariser, any
    convex set.

    Parameters
    ----------
    prox : c, in units of 1 / loss: larger means smaller moves of lambda in one pass. Where F stalls
        with four passes to each proximal step, it begins to fall.
    rate : share of the present point in the running average of (w, lambda), where F is evaluated.
        Single points swing around the optimum on models with many overlapping cliques; their
        average does not.
    step : about how far a weight may move in the first pass; further, where the proximal steps turn
        out to be short.
    evaluate_every : every so many passes all samples are minimised at the average (w, lambda),
        which gives F; the minimisers are kept like those of any other pass.
    exchanges : after each visit to its slaves, a batch moves so many times between minimisers of
        earlier visits, without a minimisation; more often where F stalls. More of them mean fewer
        passes: for slaves that are expensive to minimise.
    working_set : minimisers kept of each slave; the least recently useful one goes.
    batch : batches that start from the same weights. 1 is best for one worker and the default in
        one process; 0 means all of them and is the default where batches live elsewhere. The path,
        not the optimum, depends on it.
    """

    name = "bcfw"
    growing_memory = ("known_index", "known_values", "rest")
    nonnegative = ("t", "squares", "since")
    positive = ("passes", "prox_scale", "step_scale")
    settings = (
        "prox", "rate", "step", "evaluate_every", "exchanges", "working_set", "batch",
    )  # fmt: skip
    prox = 2.0
    rate = 0.5
    step = 1.0
    evaluate_every = 5
    exchanges = 2
    working_set = 24
    batch: int | None = None
    least_batches = 8
    state: BcfwState

    def start(self, w: np.ndarray) -> BcfwState:
        if self.batch is None:
            self.batch = 1 if self.objective.executor.local else 0
        check_number("batch", self.batch, low=0, integer=True)
        v = self.objective.total(mixture_slope, self.working_set)
        return BcfwState(
            w=w,
            evaluated=w.copy(),
            v=v,
            # zero where slaves can stand at the truth; else the first step that w has taken
            squares=v**2,
            centre=w.copy(),
            average=w.copy(),
        )

    @property
    def fresh(self) -> Callable:  # type: ignore[override]
        return partial(fresh_mixture, size=self.working_set)

    def restore(self, state: Any, batches: Sequence[Any]) -> None:
        super().restore(state, batches)
        if not 1 <= self.state.passes <= MOST_PASSES:  # exchanges are multiplied by it
            raise ValueError(f"passes: expected 1 to {MOST_PASSES}, got {self.state.passes}")
        self.objective.each(check_mixture, self.working_set)

    def truth_changed(self) -> None:
        self.state.v = self.objective.total(mixture_slope, self.working_set)
        self.state.bound, self.state.box = -np.inf, np.inf

    def stalled(self, lowest: np.ndarray, least: float, gaps: np.ndarray) -> str:
        """F falls by fits and starts: it has stalled once it rests for long and its lower bound
        does not come closer either.
        """
        if len(lowest) < STALL + 2 or lowest[-STALL - 1] - lowest[-1] >= least:
            return ""
        closing = np.isfinite(gaps[-1]) and not gaps[-1] > CLOSING * gaps[-STALL - 1]
        return "" if closing else f"in {STALL} evaluations"

    def run(self) -> PassReport:
        state, objective = self.state, self.objective
        weights = ProximalWeights(objective.regularization, self.step * state.step_scale, state)
        inverse = 1.0 / (self.prox * state.prox_scale)
        last = state.since + 1 >= state.passes
        at = state.average.copy() if state.t % self.evaluate_every == 0 else None
        weights, gap, hinge = self._pass(weights, inverse, last, at)
        state.w, state.v, state.squares = weights.w, weights.v, weights.squares
        value = None
        if at is not None:
            state.evaluated = at
            value = objective.regularization.value(at) + hinge
            self._raise_bound()
            self._adapt(value)
        state.since = 0 if last else state.since + 1
        if last:
            self._scale_step(gap, weights.moved())
            state.centre = state.w.copy()
            state.average = state.average + self.rate * (state.w - state.average)
        state.t += 1
        return PassReport(
            objective=value,
            bound=state.bound,
            box=state.box,
            subproblem_gap=gap,
            step=self.step,
        )

    def last_report(self) -> PassReport:
        state, objective = self.state, self.objective
        state.evaluated = state.average.copy()
        hinge = float(objective.total(hinge_at_average, self.working_set, state.average))
        self._raise_bound()
        value = objective.regularization.value(state.average) + hinge
        return PassReport(objective=value, bound=state.bound, box=state.box)

    def _raise_bound(self) -> None:
        """The lower bound of F at the present mixture (see the module)."""
        state, objective = self.state, self.objective
        found = objective.each(dual_terms, self.working_set, state.w)
        state.v = np.sum([terms.slope for terms in found], axis=0)  # free of what rounding has left
        box = max(terms.box for terms in found)
        if BOX * max(terms.largest for terms in found) > state.box:
            state.bound, state.box = -np.inf, np.inf
        kappa = float(np.sum([terms.kappa for terms in found]))
        bound = kappa - objective.regularization.conjugate(state.v)
        if bound > state.bound:
            state.bound, state.box = bound, box if box > 0.0 else np.inf

    def _adapt(self, value: float) -> None:
        """Where F no longer falls, the proximal steps were solved too roughly: give each of them
        more passes, with more exchanges.

        With many passes each, they are solved well enough, and too short: from then on they become
        longer.
        """
        state = self.state
        if np.isfinite(state.lowest) and value > state.lowest - 3e-4 * abs(state.lowest):
            if state.passes == MOST_PASSES:
                state.prox_scale = max(state.prox_scale * 0.7, LEAST_PROX)
            state.passes = min(state.passes * 2, MOST_PASSES)
        state.lowest = min(state.lowest, value)

    def _scale_step(self, gap: float, moved: float) -> None:
        """Where a proximal step is solved much better than it is long, w may go further in the next
        one: its optimum may be far. Where it is solved much worse, w goes less far for a while.
        """
        scale, ratio = self.state.step_scale, gap / max(moved, 1e-300)
        if scale < 1.0:
            factor = 1.5 if ratio < ROUGH[0] else 1.0 / 1.5 if ratio > ROUGH[1] else 1.0
            self.state.step_scale = float(np.clip(scale * factor, LEAST_STEP, 1.0))
            return
        factor = 1.5 if ratio < 0.1 else 1.0 / 1.5 if ratio > 1.0 else 1.0
        least = 1.0 / 1.5 if ratio > ROUGH[1] else 1.0
        self.state.step_scale = float(np.clip(scale * factor, least, 1e4))

    def _pass(
        self, weights: ProximalWeights, inverse: float, last: bool, at: np.ndarray | None
    ) -> tuple[ProximalWeights, float, float]:
        """All batches in random order, `batch` of them at a time: the weights, the gap of the
        proximal step, the hinges at the weights `at`, where F is asked for.

        last : does the proximal step end with this pass?
        """
        n, size = self.objective.n_batches, self.batch or self.objective.n_batches
        rounds = self.exchanges * self.state.passes
        order, rate = self.order(), self.rate if last else None
        total_gap, total_hinge = 0.0, 0.0
        for first in range(0, n, size):
            index = np.sort(order[first : first + size])
            if size == 1:
                move = (self.working_set, weights, inverse, rounds, rate, at)
                weights, gap, hinge = self.objective.each(move_alone, *move, index=index)[0]
            else:
                gap, hinge = self._move_together(index, weights, inverse, rounds, rate, at)
            total_gap, total_hinge = total_gap + gap, total_hinge + hinge
        return weights, total_gap, total_hinge

    def _move_together(
        self,
        index: np.ndarray,
        weights: ProximalWeights,
        inverse: float,
        rounds: int,
        rate: float | None,
        at: np.ndarray | None,
    ) -> tuple[float, float]:
        """As `move_alone`, for batches that move from the same weights: the first gap, the hinges.

        A line search for one after the other says how far each goes. Workers learn it with the
        next round, which saves a message.
        """
        each, size = self.objective.each, self.working_set
        moves = each(visit, size, weights, inverse, at, index=index)
        hinge = sum(h for _, _, h in moves)
        steps = first = self._search(index, 0, weights, [m[:2] for m in moves])
        for number in range(1, rounds + 1):
            moves = each(settle_and_exchange, size, weights, inverse, index=index, own=steps)
            steps = self._search(index, number, weights, moves)
        each(settle_and_end, size, inverse, rate, index=index, own=steps)
        return sum(step.gap for (step,) in first), hinge

    def _search(
        self,
        index: np.ndarray,
        number: int,
        weights: ProximalWeights,
        moves: Sequence[tuple[float, Direction]],
    ) -> list[tuple[Step]]:
        """The steps of batches that move together, one after the other in random order; as `own`
        of `Objective.each`.
        """
        seed = [self.seed, self.state.t, number, int(index[0])]
        order = np.random.default_rng(seed).permutation(len(index))
        steps = {int(k): weights.search(*moves[k]) for k in order}
        return [(steps[k],) for k in range(len(index))]


# ---------------------------------------------------------------------- what runs with the batches
# with the size of the working set, since a batch that was lost and built again has no mixture


def fresh_mixture(batch: SampleBatch, size: int) -> MixtureState:
    """The memory of a batch at the start."""
    return begun_mixture(batch, size).state


def begun_mixture(batch: SampleBatch, size: int) -> Mixture:
    """A mixture where every slave is at its cheapest labelling with no indicator that the truth
    does not have: on variables, the truth.

    It takes a visit to the slaves to know what each of them costs there. To spread the truth's
    costs evenly would not do: as soon as slaves go different parts of the way, the sum would be
    that of no mixture, and the optimum a wrong one.
    """
    mixture = Mixture(batch.dual, batch.layout, size, batch.slave_shares)
    slaves, zero = batch.dual.slaves, np.zeros(batch.layout.size)
    # at zero weights, and no cost where an indicator is 1, the minimum is the fixed cost
    batch.set_weights(zero)
    costs = np.where(slaves.indicators(batch.truth) > 0, 0.0, np.inf)
    mixture.begin(mixture.minimise(slaves.spread(costs), zero))
    return mixture


def mixture_of(batch: SampleBatch, size: int) -> Mixture:
    """The mixture of a batch, made on first use."""
    if batch.scratch is None:
        batch.scratch = begun_mixture(batch, size)
        if batch.memory is not None:
            batch.scratch.state = batch.memory
        batch.memory = batch.scratch.state
    return batch.scratch


def check_mixture(batch: SampleBatch, size: int) -> None:
    """May compiled code trust the arrays of a restored batch?"""
    mixture_of(batch, size).check()


def mixture_slope(batch: SampleBatch, size: int) -> np.ndarray:
    """c_k (phi_k - g_k), summed: the part of v that belongs to a batch."""
    return batch.weight * (mixture_of(batch, size).features() - batch.truth_features)


def reach(batch: SampleBatch) -> float:
    """How far the multipliers of a batch move, relative to others."""
    slaves = batch.dual.slaves
    copies = len(slaves.coords) / max(slaves.n_coords, 1)
    return min(1.0, float(np.sqrt(MANY_COPIES / max(copies, 1.0))))


class DualTerms(NamedTuple):
    """The parts of a batch in the lower bound of F: kappa less the price of disagreement, v (P,),
    the largest multiplier that this allows for, and the largest one met.
    """

    kappa: float
    slope: np.ndarray
    box: float
    largest: float


def dual_terms(batch: SampleBatch, size: int, w: np.ndarray) -> DualTerms:
    mixture = mixture_of(batch, size)
    cost, box = mixture.fixed_cost(BOX, w)
    return DualTerms(
        batch.weight * (batch.truth_fixed - cost - batch.constant(batch.layout.split(0.0 * w))),
        mixture_slope(batch, size),
        box,
        float(np.abs(mixture.state.centre).max(initial=0.0)),
    )


def visit(
    batch: SampleBatch, size: int, weights: ProximalWeights, inverse: float, at: np.ndarray | None
) -> tuple[float, Direction, float]:
    """Minimise the slaves, and move: c_k, the move, and the hinge.

    at : where the slaves are minimised, with the average lambda; None: where the mixture stands,
        which gives no hinge.
    """
    mixture, inverse = mixture_of(batch, size), inverse * reach(batch)
    if at is None:
        batch.set_weights(weights.w)
        return batch.weight, mixture.visit(weights.w, inverse), 0.0
    found, hinge = minimise_at_average(batch, size, at)
    batch.set_weights(weights.w)
    return batch.weight, mixture.move_to(found, weights.w, inverse), hinge


def minimise_at_average(batch: SampleBatch, size: int, w: np.ndarray) -> tuple[Minimisers, float]:
    """The slaves' minimisers at the weights `w` and the average lambda, and the hinge there."""
    mixture = mixture_of(batch, size)
    batch.set_weights(w)
    found = mixture.minimise(batch.dual.share + mixture.state.average, w)
    held = batch.constant(batch.layout.split(w))
    return found, batch.hinge(w, mixture.total(found.value) + held)


def hinge_at_average(batch: SampleBatch, size: int, w: np.ndarray) -> float:
    return minimise_at_average(batch, size, w)[1]


def settle_and_exchange(
    batch: SampleBatch, size: int, weights: ProximalWeights, inverse: float, step: Step
) -> tuple[float, Direction]:
    """Of the last move, only what the line search allows; then one between known minimisers."""
    mixture = mixture_of(batch, size)
    mixture.settle(step.gamma, step.curvature)
    if batch.learns_unary:
        batch.dual.set_unary(batch.layout.split(weights.w))
    return batch.weight, mixture.exchange(weights.w, inverse * reach(batch))


def settle_and_end(
    batch: SampleBatch, size: int, inverse: float, rate: float | None, step: Step
) -> None:
    """The same of the last move of a pass; `rate` is that of the average if the proximal step ends
    here, too: the next one starts where this one ended.
    """
    mixture = mixture_of(batch, size)
    mixture.settle(step.gamma, step.curvature)
    if rate is not None:
        mixture.move_centre(inverse * reach(batch), rate)


def move_alone(
    batch: SampleBatch,
    size: int,
    weights: ProximalWeights,
    inverse: float,
    rounds: int,
    rate: float | None,
    at: np.ndarray | None,
) -> tuple[ProximalWeights, float, float]:
    """Move a batch, and the weights with it, then `rounds` times between known minimisers: the
    weights, the first gap, the hinge.

    All that concerns one batch is done while its arrays are in the cache.
    """
    weight, direction, hinge = visit(batch, size, weights, inverse, at)
    step = weights.search(weight, direction)
    gap = step.gap
    for _ in range(rounds):
        step = weights.search(*settle_and_exchange(batch, size, weights, inverse, step))
    settle_and_end(batch, size, inverse, rate, step)
    return weights, gap, hinge
