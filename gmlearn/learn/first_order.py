"""Projected subgradient methods on (w, lambda): batch, stochastic, incremental."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from gmlearn._utils.validation import check_number
from gmlearn.learn.batch import SampleBatch
from gmlearn.learn.optimizers import Optimizer, OptimizerState, PassReport

#: the share of F that steps aim at, and what is left of it at the end of a cycle
AIM, FALL = 0.25, 1e-3
#: passes of the first cycle of steps; each of the next is twice as long
CYCLE = 100
#: a squared slope beyond so many times its mean shortens the step
EXCESS = 50
#: the least share of the newest slope in the direction of a move
LEAST = 0.1


def cycle_of(t: int) -> tuple[int, float]:
    """The number of the cycle of pass t, and how much of it has passed: from 0 to 1, each time half
    as fast.
    """
    place = t / CYCLE + 1.0
    number = int(np.floor(np.log2(place)))
    return number, place / 2.0**number - 1.0


@dataclass
class Multipliers:
    """What is remembered of a batch.

    lam : float (D,), its multipliers.   direction : float (D,), the mean of their slopes so far.
    ind : float (D,), cliques : float (groups, P), the minimisers last found (`Incremental`);
    empty before the first.
    """

    lam: np.ndarray
    direction: np.ndarray
    ind: np.ndarray
    cliques: np.ndarray


def fresh_multipliers(batch: SampleBatch) -> Multipliers:
    """Those of the start."""
    lam, groups = batch.dual.lam, len(batch.dual.slaves.groups)
    return Multipliers(
        lam.copy(),
        np.zeros_like(lam),
        np.full(len(lam), -1.0),
        np.zeros((groups, batch.layout.size)),
    )


def multipliers_of(batch: SampleBatch) -> Multipliers:
    """The memory of a batch, made on first use."""
    batch.memory = batch.memory or fresh_multipliers(batch)
    return batch.memory


class LambdaStep(NamedTuple):
    """How far multipliers move: by `size` along the slope, or, if that is None, by
    aim / max(usual, squared slope of the batch) along a mean of the slopes so far, in which the
    newest has the share `newest`.
    """

    size: float | None
    aim: float = 0.0
    usual: float = 0.0
    newest: float = 1.0

    def along(self, spread: float) -> float:
        """The step of a batch with squared slope `spread`."""
        if self.size is not None:
            return self.size
        # the first pass has no mean yet; a batch far above it moves less, or those that disagree
        # for the first time would leap
        return self.aim / max(self.usual, spread) if self.usual > 0 else 0.0

    def move(
        self,
        memory: Multipliers,
        spread: float,
        add: Callable[[np.ndarray, float], None],
        part: float = 1.0,
    ) -> None:
        """Move the multipliers by a part of a step.

        ``add(array, size)`` adds size times the slope to an array, in place: new memory costs more.
        """
        size = part * self.along(spread)
        if self.size is not None:
            add(memory.lam, size)
            return
        memory.direction *= 1.0 - self.newest
        add(memory.direction, self.newest)
        memory.lam += size * memory.direction


def move_multipliers(batch: SampleBatch, w: np.ndarray, step: LambdaStep) -> np.ndarray:
    """A subgradient step of the multipliers of a batch.

    Returns its slope in w (P,), its hinge and its squared slope in lambda, in one array.
    """
    batch.set_weights(w)
    memory = multipliers_of(batch)
    slaves, current = batch.dual.slaves, batch.dual.round(memory.lam)
    spread = squared_slope(batch, current.mean)
    step.move(memory, spread, lambda to, size: slaves.move(to, current.results, current.mean, size))
    hinge = batch.hinge(w, batch.total(current.minima))
    return np.append(batch.slope(batch.features_of(current)), [hinge, spread])


def squared_slope(batch: SampleBatch, mean: np.ndarray) -> float:
    """c_k |ind - mean|^2 with average indicators `mean` (n_coords,); indicators are 0 or 1."""
    return batch.weight * float(batch.dual.slaves.count @ batch.weighed(mean * (1.0 - mean)))


@dataclass(kw_only=True)
class SubgradientState(OptimizerState):
    """squares : float (P,), mean squares of the slopes in w (AdaGrad's sums, with a given step).
    direction : float (P,), mean of those slopes.   spread : mean squared slope in lambda.
    first, lowest : the first and the lowest F.   cycle : number of the cycle of steps.
    before : lowest F when it began.   gain : by how much F fell in the last one, once it ends.
    """

    squares: np.ndarray
    direction: np.ndarray
    spread: float = 0.0
    first: float = 0.0
    lowest: float = np.inf
    cycle: int = 0
    before: float = np.inf
    gain: float = np.inf


class Subgradient(Optimizer):
    r"""Batch projected subgradient with steps of their own for w and lambda.

    A step of length a/|g|^2 along a subgradient g would lower a linear F by a. The moves of w have
    such an aim, with the proximal map of R and W and a rate of its own for every weight:
    :math:`a/(m_p\sum_q r_q^2/m_q)`, where r are root mean squares of the slopes so far and m is
    between r and their average; those of lambda have the same aim. No step depends on the units of
    the problem. Directions are means of the last slopes, the longer the later: what zigzags
    cancels. The aim falls geometrically, from a share of F (between the first and the lowest,
    closer to that from cycle to cycle) to `FALL` of that share of the lowest F. That ends close to
    the optimum if the fall is slow enough; how slow depends on the problem, so cycles follow each
    other, each twice as long as the last. In the history, `step` is the aim.

    Parameters
    ----------
    step : how far a weight moves at first; it then takes AdaGrad's steps, step / sqrt(sum of g^2).
        None: as above.
    lambda_step : how far multipliers move at first, in units of the loss; then
        lambda_step / sqrt(1 + t). None: as above.
    """

    name = "subgradient"
    settings: ClassVar[tuple[str, ...]] = ("step", "lambda_step")
    nonnegative = ("t", "squares", "spread", "first", "lowest", "cycle")
    step: float | None = None
    lambda_step: float | None = None
    fresh = staticmethod(fresh_multipliers)
    #: what a pass over all batches at one (w, lambda) does with each
    batch_move = staticmethod(move_multipliers)
    state: SubgradientState

    def start(self, w: np.ndarray) -> SubgradientState:
        for name in ("step", "lambda_step"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), low=0, strict=True)
        zeros = np.zeros(len(w))
        return SubgradientState(w=w, evaluated=w.copy(), squares=zeros, direction=zeros.copy())

    def _note(self, value: float) -> None:
        """Keep the first and the lowest F; where a cycle has ended, how much F fell in it."""
        state, number = self.state, cycle_of(self.state.t)[0]
        if state.t == 0:
            state.first = value
        state.lowest, state.gain = min(state.lowest, value), np.inf
        if number > state.cycle:
            state.gain = state.before - state.lowest
            state.before = state.lowest
            state.cycle = number

    def stalled(self, lowest: np.ndarray, least: float, gaps: np.ndarray) -> str:
        """As in the base class; judged by whole cycles: within one, F rises with long steps and
        rests with short ones.
        """
        if self.step is not None and self.lambda_step is not None:
            return super().stalled(lowest, least, gaps)
        return "in a whole cycle of steps" if self.state.gain < least else ""

    def _measure(self, slope: np.ndarray, spread: float) -> None:
        """Bring the means of the squared slopes up to date: in w (P,), and in lambda."""
        state = self.state
        # the first slopes, of untrained weights, are soon forgotten; a shorter memory makes steps
        # depend on the slopes they follow, which ends beside the optimum
        share = 2.0 / (2.0 + state.t)
        if self.step is None:  # else they are AdaGrad's sums
            state.squares += share * (slope**2 - state.squares)
        state.spread += share * (spread - state.spread)

    def _move_w(self, slope: np.ndarray, share: float) -> None:
        """A proximal step against a slope (P,); `share` of R goes with it."""
        state, regularization = self.state, self.objective.regularization
        if self.step is not None:
            state.squares += slope**2
            roots, aim = np.sqrt(state.squares), self.step
        else:
            # a slope far above its mean is no reason for a leap; one that is usually small is none
            # for a step without bounds
            squares = np.maximum(state.squares, slope**2 / EXCESS)
            roots = np.sqrt(squares + squares.mean())
            each = np.divide(squares, roots, out=squares, where=roots > 0)
            aim = self._aim / max(float(np.sum(each)), 1e-300)
            state.direction += self._newest * (slope / share - state.direction)
            slope = share * state.direction
        # a weight that was never asked to move must not hold back those that share its set
        rate = np.divide(aim, roots, out=np.full(len(roots), np.inf), where=roots > 0)
        rate = regularization.even(rate)
        rate[np.isinf(rate)] = 0.0
        state.w = regularization.prox(state.w - rate * slope, share * rate)

    @property
    def _aim(self) -> float:
        """By how much a move of this pass should lower F; nothing before the first pass."""
        first, lowest, (number, u) = self.state.first, self.state.lowest, cycle_of(self.state.t)
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
            return LambdaStep(self.lambda_step / np.sqrt(1.0 + self.state.t))
        return LambdaStep(None, self._aim, self.state.spread, 0.5 * self._newest)

    @property
    def _newest(self) -> float:
        """The share of the newest slope in the direction in which w moves: all at first, half of it
        in the second cycle, ...
        """
        return max(0.5 ** cycle_of(self.state.t)[0], LEAST)

    def run(self) -> PassReport:
        objective, state = self.objective, self.state
        found = objective.total(self.batch_move, self.w, self._lambda_step)
        state.evaluated = self.w.copy()
        value = objective.regularization.value(self.w) + float(found[-2])
        self._note(abs(value))
        self._measure(found[:-2], float(found[-1]))
        aim = self._shown_step
        self._move_w(found[:-2], 1.0)
        state.t += 1
        return PassReport(objective=value, step=aim)


class Stochastic(Subgradient):
    """A few batches of samples at a time in random order: w by a proximal step (with their share of
    R), lambda of those samples.

    The sum of the minima met on the way is no value of F at one point; every `evaluate_every`
    passes the pass is a batch one, which gives F and moves as well.

    Parameters
    ----------
    batch : batches that are minimised at the same weights; several keep several workers busy, and
        take another path.
    """

    name = "stochastic"
    settings = ("step", "lambda_step", "evaluate_every", "batch")
    evaluate_every = 5
    batch = 1
    most_samples = 8
    least_batches = 16

    def run(self) -> PassReport:
        state = self.state
        if state.t % self.evaluate_every == 0:
            return super().run()
        n, order, aim = self.objective.n_batches, self.order(), self._shown_step
        total = np.zeros(len(self.w) + 2)
        for first in range(0, n, self.batch):
            index = np.sort(order[first : first + self.batch])
            found = np.sum(self._visit(index), axis=0)
            self._move_w(found[:-2], len(index) / n)
            total += found
        self._measure(total[:-2], float(total[-1]))
        state.t += 1
        return PassReport(step=aim)

    def _visit(self, index: np.ndarray) -> list[np.ndarray]:
        """Move the multipliers of some batches; what `move_multipliers` returns."""
        return self.objective.each(move_multipliers, self.w, self._lambda_step, index=index)


def move_by_groups(
    batch: SampleBatch, w: np.ndarray, step: LambdaStep, seed: list[int]
) -> np.ndarray:
    """As `move_multipliers`, group after group: each is minimised where the moves of the last one
    led. All groups count in each move, with the minimisers last found.
    """
    memory = multipliers_of(batch)
    if len(memory.ind) and memory.ind[0] < 0.0:
        return move_and_remember(batch, w, step)
    batch.set_weights(w)
    dual, groups = batch.dual, batch.dual.slaves.groups
    factors = dual.slaves.by_group(batch.slave_shares)
    spread, mean = 0.0, dual.mean(memory.ind)
    for g in np.random.default_rng([*seed, 1, batch.first]).permutation(len(groups)):
        where = dual.slaves.slices[g]
        result = groups[g].solve((dual.share + memory.lam)[where], dual.prepared[g])
        memory.ind[where] = result.ind
        memory.cliques[g] = batch.layout.join(groups[g].weighted_features(result, factors[g]))
        mean, square = move_by_remembered(batch, step, 1.0 / len(groups))
        spread += square / len(groups)
    return np.append(remembered_slope(batch, mean), [np.nan, spread])


def move_and_remember(batch: SampleBatch, w: np.ndarray, step: LambdaStep) -> np.ndarray:
    """As `move_multipliers`; the minimisers are remembered."""
    if len(batch.dual.slaves.groups) <= 1:  # nothing has to be remembered of others
        return move_multipliers(batch, w, step)
    batch.set_weights(w)
    dual, memory, layout = batch.dual, multipliers_of(batch), batch.layout
    current = dual.round(memory.lam)
    memory.ind = current.ind
    factors = dual.slaves.by_group(batch.slave_shares)
    groups = zip(dual.slaves.groups, current.results, factors)
    memory.cliques = np.array([layout.join(g.weighted_features(r, f)) for g, r, f in groups])
    mean, spread = move_by_remembered(batch, step, 1.0)
    hinge = batch.hinge(w, batch.total(current.minima))
    return np.append(remembered_slope(batch, mean), [hinge, spread])


def move_by_remembered(
    batch: SampleBatch, step: LambdaStep, part: float
) -> tuple[np.ndarray, float]:
    """Go a part of a step along the slope in lambda that is remembered: the average indicators
    (n_coords,), the squared slope.
    """
    memory, slaves = batch.memory, batch.dual.slaves
    mean = batch.dual.mean(memory.ind)
    spread, slope = squared_slope(batch, mean), memory.ind - slaves.spread(mean)
    step.move(memory, spread, lambda to, size: np.add(to, size * slope, out=to), part)
    return mean, spread


def remembered_slope(batch: SampleBatch, mean: np.ndarray) -> np.ndarray:
    """The slope in w (P,) that is remembered, with average indicators `mean` (n_coords,)."""
    unary = batch.dual.slaves.unary_features(batch.weighed(mean))
    return batch.slope(batch.layout.join(unary, batch.memory.cliques.sum(axis=0)))


class Incremental(Stochastic):
    """As `Stochastic`, and within a batch one group of slaves at a time (all cliques of a block,
    the rows, ...).

    After each group lambda goes its part of the way, the other groups count with the minimisers
    last found: an incremental aggregated subgradient. To scale one group up to stand for all is
    right on average, too, but its noise keeps far from the optimum.
    """

    name = "incremental"
    batch_move = staticmethod(move_and_remember)

    def _visit(self, index: np.ndarray) -> list[np.ndarray]:
        seed = [self.seed, self.state.t]
        return self.objective.each(move_by_groups, self.w, self._lambda_step, seed, index=index)
