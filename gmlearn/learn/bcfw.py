r"""Block-coordinate Frank-Wolfe with proximal (w, lambda): the default optimiser.

Every pass is a step of the proximal point method on F(w, lambda), solved in its dual, which lives on the hulls of the slaves'
minimisers. With y the current mixture of sample k, phi its features and :math:`v = \sum_k c_k(\phi_k - g_k)`,

.. math:: w = \arg\min_W R(w) - v\cdot w + \tfrac12 |w - \bar w|_C^2, \qquad
          \lambda^k = \bar\lambda^k + (y_k - \mathrm{mean}(y_k))/c .

Batches of slaves that share no coordinate move one after the other. Each slave m takes a step of its own,
gap_m / (|d_m|^2/c); then a scalar exact line search along the joint direction, whose curvature in w is
:math:`c_k \sum_p d\phi_p^2/(\mu_p + C_p)`, makes the move an ascent (for sets W: a safe one). C is scaled like AdaGrad, weight
by weight, so that no step size has to be found. The mixture starts at the truth: no loss, no disagreement.

Where many slaves share a variable their mixtures come to terms slowly, and most of what a pass finds has been found before. On
request (`recalls`), or once F stalls, the minimisers of earlier passes (planes) are kept, and sweeps over them bring the mixtures
together between two visits to the slaves, as in multi-plane Frank-Wolfe (Shah, Kolmogorov, Lampert, CVPR 2015).

A mixture stays with its sample. Samples that are worked on side by side start from the same weights; a line search for one
after the other, which needs nothing but their features and two numbers, then decides how far each of them really moves.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from gmlearn._utils.validation import check_number
from gmlearn.learn.objective import SampleState, hinge_of
from gmlearn.learn.optimizers import Optimizer, PassReport
from gmlearn.learn.prior import Prior
from gmlearn.slaves import SlaveGroup

#: as in `_bcfw_numba`, which is imported on first use
NONE = 65535
#: the most passes of one proximal step, and the sweeps over planes in a pass when even those leave F where it is
MOST_PASSES, LATE_RECALLS = 8, 4


class Batch:
    """Slaves that move together: some of one group, or all of a sample.

    slots : int (Db,), their dual variables within the sample, slave by slave.   where : int (Db,), the coordinate of each.
    indptr : int (Mb + 1,), where each slave's begin.
    members : int (Mb,), the slaves' numbers within the sample.
    """

    def __init__(self, groups: list[SlaveGroup], slots: np.ndarray, members: np.ndarray, coords: np.ndarray):
        self.groups, self.members = groups, members
        self.slots, self.where = slots.astype(np.int32), coords[slots].astype(np.int32)
        sizes = np.array([g.n for g in groups], np.int64)
        self.starts = np.cumsum(sizes) - sizes
        ends = np.cumsum([len(g.coords) for g in groups])
        self.slices = [slice(int(e) - len(g.coords), int(e)) for e, g in zip(ends, groups)]
        counts = np.concatenate([np.diff(g.indptr) for g in groups]) if groups else np.zeros(0, np.int64)
        self.indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def solve(self, theta: np.ndarray, w: dict[str, np.ndarray], layout) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
        """Indicators (Db,), minima (Mb,), clique features (Mb, P), and whether those are known slave by slave."""
        results = [g.solve(theta[s], g.prepare(w)) for g, s in zip(self.groups, self.slices)]
        features = np.zeros((len(self.members), layout.size))
        each = True
        for group, result, start in zip(self.groups, results, self.starts):
            found = group.slave_features(result)
            if found is None:  # only the sum: spread evenly, which is right as long as all slaves take the same step
                each = False
                features[start:start + group.n] = layout.join(group.features(result)) / group.n
                continue
            for name, value in found.items():
                features[start:start + group.n, layout.slices[name]] += value.reshape(group.n, -1)
        empty = np.zeros(0)
        return (np.concatenate([r.ind for r in results]) if results else empty,
                np.concatenate([r.value for r in results]) if results else empty, features, each)


def sample_batches(state: SampleState) -> tuple[list[Batch], Batch]:
    """The batches of one sample, colour by colour, and the batch of all its slaves."""
    slaves = state.dual.slaves
    batches, first = [], 0
    for group, where in zip(slaves.groups, slaves.slices):
        # very many colours mean that nearly all slaves share coordinates: they then move at once
        colours = group.colours if len(group.colours) <= 32 else [np.arange(group.n)]
        for colour in colours:
            size, start = np.diff(group.indptr)[colour], group.indptr[colour]
            slots = where.start + np.repeat(start - (np.cumsum(size) - size), size) + np.arange(int(size.sum()))
            batches.append(Batch([group if len(colours) == 1 else group.take(colour)], slots, first + colour, state.dual.coords))
        first += group.n
    return batches, Batch(slaves.groups, np.arange(len(state.dual.coords)), np.arange(first), state.dual.coords)


class Mixture:
    """Where one sample stands: arrays of its memory.

    y (D,), mean (n_coords,), lam (D,) the proximal centre, average (D,) of those centres, clique (M, P) and fixed (M,): clique
    features and fixed clique costs. Where planes are kept: ones, plane_features, plane_fixed, used (see `_bcfw_numba`).
    """

    PARTS = ("y", "mean", "clique", "fixed")
    PLANES = ("ones", "plane_features", "plane_fixed", "used")

    def __init__(self, sample: SampleState):
        self.sample, self.memory, self.slaves = sample, sample.memory, sample.dual.slaves
        self.batches, self.whole = sample_batches(sample)
        self.zero = sample.layout.split(np.zeros(sample.layout.size))
        self.fixed_unary = self.slaves.unary(self.zero)
        self.copies = np.maximum(self.slaves.count, 1.0)
        self.loose = 1.0 - 1.0 / self.copies
        # half of a slave's indicators are ones at most, where variables have two states or more
        self.room = np.concatenate([[0], np.cumsum((np.diff(self.whole.indptr) + 1) // 2)])
        if "y" not in self.memory:
            self._start_at_truth()

    @staticmethod
    def of(sample: SampleState) -> Mixture:
        """The mixture of a sample, made on first use."""
        if "mixture" not in sample.scratch:
            sample.scratch["mixture"] = Mixture(sample)
        return sample.scratch["mixture"]

    def _start_at_truth(self) -> None:
        """Every slave at its cheapest labelling with no indicator that the truth does not have: on variables, the truth.

        It takes a visit to the slaves to know what each of them costs there. To spread the truth's costs evenly would not do: as
        soon as slaves go different shares of the way, the sum would be that of no mixture, and the optimum a wrong one.
        """
        sample, memory, n = self.sample, self.memory, max(self.slaves.n_slaves, 1)
        memory["lam"], memory["average"] = sample.dual.lam.copy(), sample.dual.lam.copy()
        memory["y"], memory["clique"], memory["fixed"] = sample.dual.lam.copy(), np.zeros((n, sample.layout.size)), np.zeros(n)
        costs = np.where(self.slaves.indicators(sample.truth) > 0, 0.0, np.inf)
        for batch in self.batches:
            # at zero weights, and no cost where an indicator is 1, the minimum is the fixed cost
            memory["y"][batch.slots], memory["fixed"][batch.members], memory["clique"][batch.members], _ = batch.solve(
                costs[batch.where], self.zero, sample.layout)
        memory["mean"] = sample.dual.mean(memory["y"])

    def make_room(self, planes: int) -> None:
        """Memory for `planes` planes of each slave, none of which is known yet."""
        n, memory = max(self.slaves.n_slaves, 1), self.memory
        memory["ones"] = np.full(planes * int(self.room[-1]), NONE, np.uint16)
        memory["plane_features"] = np.zeros((n, planes, self.sample.layout.size), np.float32)
        memory["plane_fixed"], memory["used"] = np.zeros((n, planes)), np.zeros((n, planes), np.int32)

    def check_planes(self) -> None:
        """Refuse planes of a file that point beyond their slaves."""
        if "ones" in self.memory:
            sizes, counts = np.diff(self.whole.indptr), np.diff(self.room) * self.memory["used"].shape[1]
            ones = self.memory["ones"]
            if ((ones != NONE) & (ones >= np.repeat(sizes, counts))).any():
                raise ValueError("ones: expected places within their slave")

    def features(self) -> np.ndarray:
        """phi (P,) of the mixture."""
        return self.sample.layout.join(self.slaves.unary_features(self.memory["mean"]), self.memory["clique"].sum(axis=0))

    def minimise(self, batch: Batch, w: np.ndarray, prox: float, at: np.ndarray | None = None) -> tuple[Vertices, np.ndarray]:
        """Vertices of a batch with the steps towards them at weights `w` (P,), and lambda (Db,) there.

        The vertices are the minimisers at (w, lambda), or, with weights `at`, those at (at, average lambda).
        """
        from gmlearn.learn._bcfw_numba import costs_at_vertices, dual_costs, gaps_and_shares, keep_planes

        sample, memory, named = self.sample, self.memory, self.sample.layout.split(w)
        theta, lam = dual_costs(batch.slots, batch.where, self.slaves.unary(named) / self.copies, memory["lam"], memory["y"],
                                memory["mean"], prox)
        costs = theta
        if at is not None:
            named = sample.layout.split(at)
            costs = (self.slaves.unary(named) / self.copies)[batch.where] + memory["average"][batch.slots]
        ind, value, features, each = batch.solve(costs, named, sample.layout)
        fixed = value - costs_at_vertices(batch.indptr, ind, costs) - features @ (w if at is None else at)
        advantage = memory["fixed"][batch.members] - fixed + (memory["clique"][batch.members] - features) @ w
        shares = gaps_and_shares(batch.indptr, batch.slots, batch.where, self.loose, memory["y"], ind, theta, advantage, prox, each)
        if each and "used" in memory:
            keep_planes(batch.indptr, batch.members, self.room, ind, features, fixed, *(memory[n] for n in self.PLANES))
        return Vertices(batch, ind, features, fixed, shares, float(value.sum())), lam

    def recall(self, weights: ProximalWeights, prox: float, sweeps: int) -> None:
        """Move all batches, and the weights, towards the best planes that the slaves have shown before; none is minimised."""
        from gmlearn.learn._bcfw_numba import move_to_planes, recall_direction

        memory, layout, starts = self.memory, self.sample.layout, self.whole.indptr
        if "used" not in memory:  # none are kept
            return
        place, planes = [memory[n] for n in self.PARTS], [memory[n] for n in self.PLANES]
        for _ in range(sweeps):
            prices = memory["plane_features"] @ weights.w.astype(np.float32) + memory["plane_fixed"]
            prices[memory["used"] == 0] = np.inf
            for batch in self.batches:
                share = self.slaves.unary(layout.split(weights.w)) / self.copies
                best, shares, move, turn, slope, square = recall_direction(
                    batch.members, starts, self.room, self.whole.where, self.copies, self.loose, share, self.fixed_unary,
                    memory["lam"], *place[:2], prox, weights.w, *place[2:], prices, *planes)
                turn = layout.join(self.slaves.unary_features(move), turn)
                gamma, _ = weights.search(Direction(self.sample.weight, turn, slope, max(square, 0.0) / prox))
                if gamma > 0.0:
                    move_to_planes(batch.members, starts, self.room, best, shares, move, gamma, *place, *planes[:3])

    def direction(self, found: Vertices, lam: np.ndarray, prox: float) -> Direction:
        """The joint direction in which every slave goes its share towards its minimiser."""
        from gmlearn.learn._bcfw_numba import joint_direction

        batch, memory = found.batch, self.memory
        found.mean_move, turn, slope, square = joint_direction(
            batch.indptr, batch.slots, batch.members, batch.where, self.copies, self.fixed_unary, memory["y"], found.ind,
            found.shares, lam, memory["clique"], found.features, memory["fixed"], found.fixed)
        turn = self.sample.layout.join(self.slaves.unary_features(found.mean_move), turn)
        return Direction(self.sample.weight, turn, slope, max(square, 0.0) / prox)

    def move(self, found: Vertices, gamma: float) -> None:
        """Go `gamma` of the way along the direction just computed."""
        from gmlearn.learn._bcfw_numba import move_mixture

        batch, memory = found.batch, self.memory
        move_mixture(batch.indptr, batch.slots, batch.members, memory["y"], memory["mean"], memory["clique"], memory["fixed"],
                     found.ind, found.mean_move, found.features, found.fixed, found.shares, gamma)

    def remember_place(self) -> np.ndarray:
        """Keep a copy of where the mixture is, for `direction_since` and `follow`; returns lambda (D,) without 1/prox."""
        for part in self.PARTS:
            self.memory[f"old_{part}"] = self.memory[part].copy()
        return self.memory["y"] - self.memory["mean"][self.sample.dual.coords]

    def direction_since(self, lam: np.ndarray, prox: float) -> Direction:
        """The direction from the remembered place, where the multipliers were `lam` (D,), to where the mixture is now."""
        y, mean, clique, fixed = (self.memory[part] - self.memory[f"old_{part}"] for part in self.PARTS)
        turn = self.sample.layout.join(self.slaves.unary_features(mean), clique.sum(axis=0))
        touched = mean != 0
        slope = float(fixed.sum()) + float(lam @ y) + float(self.fixed_unary[touched] @ mean[touched])
        return Direction(self.sample.weight, turn, slope, max(float(y @ y) - float(self.copies @ mean ** 2), 0.0) / prox)


@dataclass
class Vertices:
    """Minimisers of a batch: indicators (Db,), clique features (Mb, P), fixed costs (Mb,), shares of the way (Mb,)."""

    batch: Batch
    ind: np.ndarray
    features: np.ndarray
    fixed: np.ndarray
    shares: np.ndarray
    value: float
    mean_move: Any = None


@dataclass
class Direction:
    """A joint move of one sample as the weights see it.

    weight : c_k.   turn : change of its features, (P,).   slope : change of its costs at fixed weights, so that the gap is
    -(slope + w . turn).   spread : its curvature in lambda.
    """

    weight: float
    turn: np.ndarray
    slope: float
    spread: float


class ProximalWeights:
    """w from v and the proximal centre, and the exact line search along a direction."""

    def __init__(self, prior: Prior, step: float, state: dict[str, np.ndarray]):
        self.prior, self.step, self.curvature = prior, step, prior.curvature
        self.w, self.v, self.squares, self.centre = (np.array(state[n]) for n in ("w", "v", "squares", "centre"))

    def search(self, d: Direction) -> tuple[float, float]:
        """(share of the way, gap) of the best step along a direction, which is taken."""
        gap = -(d.slope + float(self.w @ d.turn))
        if gap <= 0.0:
            return 0.0, 0.0
        self.squares += (d.weight * d.turn) ** 2
        roots = np.sqrt(self.squares)
        bend = d.weight * float((d.turn ** 2 / np.maximum(self.curvature + roots / self.step, 1e-300)).sum()) + d.spread
        gamma = 1.0 if bend <= gap else gap / bend
        self.v += d.weight * gamma * d.turn
        rate = self.prior.even(self.step / np.maximum(roots, 1e-12))
        self.w = self.prior.prox(self.centre + rate * self.v, rate)
        return gamma, d.weight * gap

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
    prox : c, in units of 1 / loss: larger means smaller moves of lambda in one pass.
    stiffen : passes after which c has doubled; it goes on growing by as much, until F stalls with eight passes to each proximal
        step, when it begins to fall.
    rate : share of the present point in the running average of (w, lambda), where F is evaluated. Single points swing around the
        optimum on models with many overlapping cliques; their average does not.
    step : about how far a weight may move in the first pass.
    evaluate_every : every so many passes all samples are minimised at the average (w, lambda), which gives F; the minimisers
        serve as directions like those of any other pass.
    recalls : after each visit to the slaves of a sample, so many sweeps move them towards minimisers of earlier passes, without a
        minimisation: fewer passes, for slaves that are dear to minimise. None: cheap ones are better off without, until F stalls.
    planes : minimisers kept of each slave for that; the least recently useful one goes.
    batch : samples that start from the same weights. 1 is best for one worker and the default in one process; 0 means all of
        them and is the default where samples live elsewhere. The path, not the optimum, depends on it.
    """

    name = "bcfw"
    settings = ("prox", "stiffen", "rate", "step", "evaluate_every", "recalls", "planes", "batch")
    prox = 4.0
    stiffen = 100.0
    rate = 0.3
    step = 0.6
    evaluate_every = 5
    recalls: int | None = None
    planes = 12
    batch: int | None = None

    def start(self) -> None:
        self.state["squares"], self.state["centre"], self.state["average"] = np.zeros(len(self.w)), self.w.copy(), self.w.copy()
        self.state["inner"], self.state["since"], self.state["lowest"] = np.array(1), np.array(0), np.array(np.inf)
        self.state["ease"] = np.array(1.0)
        if self.batch is None:
            self.batch = 1 if self.objective.executor.local else 0
        check_number("batch", self.batch, low=0, integer=True)
        if self.recalls is not None:
            check_number("recalls", self.recalls, low=0, integer=True)
        self.truth_changed()

    def restore(self, snapshot: dict[str, Any]) -> None:
        if any("used" in memory for memory in snapshot["samples"]):
            self.objective.each(make_room, self.planes)  # so that planes of a stranger's file are compared with these
        super().restore(snapshot)
        self.objective.each(check_planes)

    def truth_changed(self) -> None:
        if self._sweeps_over_planes:  # a sample that was lost and built again has none
            self.objective.each(make_room, self.planes)
        self.state["v"] = self.objective.total(mixture_slope)

    @property
    def _sweeps_over_planes(self) -> int:
        """In each pass: as many as the user says, else some once F stalls although proximal steps get many passes."""
        if self.recalls is not None:
            return self.recalls
        return LATE_RECALLS if int(self.state["inner"]) == MOST_PASSES else 0

    def run(self) -> PassReport:
        state, objective = self.state, self.objective
        weights = ProximalWeights(objective.prior, self.step, state)
        value, prox = None, self.prox * (1.0 + float(state["t"]) / self.stiffen) * float(state["ease"])
        if int(state["t"]) % self.evaluate_every == 0:
            value, gap = self._whole_pass(weights, prox)
        else:
            weights, gap = self._sweep(weights, prox)
        state.update(weights.arrays())
        if value is not None:
            self._adapt(value)
        state["since"] = state["since"] + 1
        if int(state["since"]) >= int(state["inner"]):
            objective.each(move_centre, prox, self.rate)
            state["centre"], state["since"] = state["w"].copy(), np.array(0)
            state["average"] = state["average"] + self.rate * (state["w"] - state["average"])
        state["t"] = state["t"] + 1
        return PassReport(objective=value, gap=gap, step=self.step)

    def _adapt(self, value: float) -> None:
        """Where F no longer falls, the proximal steps were solved too roughly: give each of them more passes.

        With many passes each, they are solved well enough, and too short: from then on they become longer.
        """
        state, lowest = self.state, float(self.state["lowest"])
        if np.isfinite(lowest) and value > lowest - 3e-4 * abs(lowest):
            if int(state["inner"]) == MOST_PASSES:
                state["ease"] = np.maximum(state["ease"] * 0.7, 0.02)
            state["inner"] = np.minimum(state["inner"] * 2, MOST_PASSES)
            if self._sweeps_over_planes:
                self.objective.each(make_room, self.planes)
        state["lowest"] = np.array(min(lowest, value))

    def _whole_pass(self, weights: ProximalWeights, prox: float) -> tuple[float, float]:
        """All slaves at the average (w, lambda): F there, and a move of every sample towards the minimisers."""
        at = self.state["average"]
        found = self.objective.each(whole_direction, weights.w, prox, at)
        value, self.state["evaluated"] = self.objective.prior.value(at) + float(np.sum([f[0] for f in found])), at
        return value, self._follow(weights, np.arange(len(found)), [f[1] for f in found])

    def _sweep(self, weights: ProximalWeights, prox: float) -> tuple[ProximalWeights, float]:
        """One visit to the batches of all slaves, `batch` samples at the same weights."""
        objective, order, recalls, gap = self.objective, self.order(), self._sweeps_over_planes, 0.0
        if self.batch == 1:
            for k in order:
                weights, found = objective.one(k, step_by_step, weights, prox, recalls)
                gap += found
            return weights, gap
        size = self.batch or len(order)
        for first in range(0, len(order), size):
            index = np.sort(order[first:first + size])
            gap += self._follow(weights, index, objective.each(local_direction, weights, prox, recalls, index=index))
        return weights, gap

    def _follow(self, weights: ProximalWeights, index: np.ndarray, directions: list[Direction]) -> float:
        """A line search for one sample after the other, in random order; then they move."""
        gammas, total = np.zeros(len(index)), 0.0
        for k in np.random.default_rng([self.seed, int(self.state["t"])]).permutation(len(index)):
            gammas[k], gap = weights.search(directions[k])
            total += gap
        self.objective.each(follow, index=index, own=[(g,) for g in gammas.tolist()])
        return total


# ---------------------------------------------------------------------- what runs with the samples


def mixture_slope(sample: SampleState) -> np.ndarray:
    """c_k (phi_k - g_k): the part of v that belongs to a sample."""
    return sample.weight * (Mixture.of(sample).features() - sample.truth_features)


def make_room(sample: SampleState, planes: int) -> None:
    """Room for the planes of a sample that has none yet."""
    if "used" not in Mixture.of(sample).memory:
        Mixture.of(sample).make_room(planes)


def check_planes(sample: SampleState) -> None:
    """Are the planes of a restored sample its own?"""
    Mixture.of(sample).check_planes()


def step_by_step(sample: SampleState, weights: ProximalWeights, prox: float, recalls: int) -> tuple[ProximalWeights, float]:
    """Move the batches of a sample one after the other, and the weights with them, then to known planes: (weights, gap)."""
    mixture, total = Mixture.of(sample), 0.0
    for batch in mixture.batches:
        found, lam = mixture.minimise(batch, weights.w, prox)
        gamma, gap = weights.search(mixture.direction(found, lam, prox))
        total += gap
        if gamma > 0.0:
            mixture.move(found, gamma)
    mixture.recall(weights, prox, recalls)
    return weights, total


def local_direction(sample: SampleState, weights: ProximalWeights, prox: float, recalls: int) -> Direction:
    """The same as if no other sample moved; `follow` decides how far it goes."""
    mixture = Mixture.of(sample)
    lam = sample.memory["lam"] + mixture.remember_place() / prox
    step_by_step(sample, weights.copy(), prox, recalls)
    return mixture.direction_since(lam, prox)


def whole_direction(sample: SampleState, w: np.ndarray, prox: float, at: np.ndarray) -> tuple[float, Direction]:
    """All slaves of a sample at weights `at` and its average lambda: the hinge there, and the direction towards the minimisers."""
    mixture = Mixture.of(sample)
    found, lam = mixture.minimise(mixture.whole, w, prox, at)
    hinge = hinge_of(sample, at, found.value + mixture.slaves.constant(sample.layout.split(at)))
    mixture.remember_place()
    direction = mixture.direction(found, lam, prox)
    mixture.move(found, 1.0)
    return hinge, direction


def follow(sample: SampleState, gamma: float) -> None:
    """From the remembered place, go `gamma` of the way to where the mixture is now."""
    for part in Mixture.PARTS:
        old = sample.memory.pop(f"old_{part}")
        if gamma < 1.0:
            sample.memory[part] = old + gamma * (sample.memory[part] - old)


def move_centre(sample: SampleState, prox: float, rate: float) -> None:
    """The next proximal step starts where this one ended; shares too small to matter are dropped."""
    from gmlearn.learn._bcfw_numba import shift_centre

    mixture, memory = Mixture.of(sample), sample.memory
    shift_centre(mixture.whole.where, mixture.copies, memory["lam"], memory["average"], memory["y"], memory["mean"], prox, rate)
