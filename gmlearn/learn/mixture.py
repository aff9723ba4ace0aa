r"""Mixtures of slave minimisers: where the samples stand in block-coordinate Frank-Wolfe, and how they move.

The dual of a proximal step (see `bcfw`) lives on the hulls of the slaves' minimisers. `PlaneMixture` keeps the minimisers that it
has met (planes) and moves between them, `VertexMixture` goes straight towards the newest ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gmlearn.learn.objective import SampleState, hinge_of
from gmlearn.slaves import SlaveGroup

#: bytes that the planes of one sample may take
MOST_BYTES = 2**26


@dataclass
class Direction:
    """A joint move of one sample as the weights see it.

    weight : c_k.   turn : change of its features, (P,).   slope : change of its costs at fixed weights, so that the gap is
    -(slope + w . turn).   spread : its curvature in lambda.   square : its squared length in y, 0 if nobody asks for it.
    """

    weight: float
    turn: np.ndarray
    slope: float
    spread: float
    square: float = 0.0


class Step(NamedTuple):
    """What the line search says of a direction: the share of the way to go, the gap there was, and, if its length is known, the
    curvature in w over the squared length."""

    gamma: float
    gap: float
    bend: float


class Batch:
    """Slaves that move together: some of one group, or all of a sample.

    slots : uint32 (Db,), their dual variables within the sample, slave by slave.   where : uint32 (Db,), the coordinate of each.
    indptr : int (Mb + 1,), where each slave's begin.
    members : int (Mb,), the slaves' numbers within the sample.
    """

    def __init__(
        self, groups: list[SlaveGroup], slots: np.ndarray, members: np.ndarray, coords: np.ndarray
    ):
        self.groups, self.members = groups, members
        self.slots, self.where = slots.astype(np.uint32), coords[slots].astype(np.uint32)
        sizes = np.array([g.n for g in groups], np.int64)
        self.starts = np.cumsum(sizes) - sizes
        ends = np.cumsum([len(g.coords) for g in groups])
        self.slices = [slice(int(e) - len(g.coords), int(e)) for e, g in zip(ends, groups)]
        counts = (
            np.concatenate([np.diff(g.indptr) for g in groups]) if groups else np.zeros(0, np.int64)
        )
        self.indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def solve(
        self, theta: np.ndarray, w: dict[str, np.ndarray], layout
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
        """Indicators (Db,), minima (Mb,), clique features (Mb, P), and whether those are known slave by slave."""
        results = [g.solve(theta[s], g.prepare(w)) for g, s in zip(self.groups, self.slices)]
        features = np.zeros((len(self.members), layout.size))
        each = True
        for group, result, start in zip(self.groups, results, self.starts):
            found = group.slave_features(result)
            if (
                found is None
            ):  # only the sum: spread evenly, which is right as long as all slaves take the same step
                each = False
                features[start : start + group.n] = layout.join(group.features(result)) / group.n
                continue
            for name, value in found.items():
                features[start : start + group.n, layout.slices[name]] += value.reshape(group.n, -1)
        empty = np.zeros(0)
        return (
            np.concatenate([r.ind for r in results]) if results else empty,
            np.concatenate([r.value for r in results]) if results else empty,
            features,
            each,
        )


def all_slaves(state: SampleState) -> Batch:
    """The batch of all slaves of one sample."""
    slaves, n = state.dual.slaves, len(state.dual.coords)
    return Batch(slaves.groups, np.arange(n), np.arange(slaves.n_slaves), state.dual.coords)


def by_colour(state: SampleState) -> list[Batch]:
    """Batches of slaves that share no coordinate, one after the other."""
    slaves = state.dual.slaves
    batches, first = [], 0
    for group, where in zip(slaves.groups, slaves.slices):
        # very many colours mean that nearly all slaves share coordinates: they then move at once
        colours = group.colours if len(group.colours) <= 32 else [np.arange(group.n)]
        for colour in colours:
            size, start = np.diff(group.indptr)[colour], group.indptr[colour]
            slots = (
                where.start
                + np.repeat(start - (np.cumsum(size) - size), size)
                + np.arange(int(size.sum()))
            )
            batches.append(
                Batch(
                    [group if len(colours) == 1 else group.take(colour)],
                    slots,
                    first + colour,
                    state.dual.coords,
                )
            )
        first += group.n
    return batches


class Mixture:
    """Where one sample stands: arrays of its memory.

    y (D,), mean (n_coords,), lam (D,) the proximal centre, average (D,) of those centres, clique (M, P) and fixed (M,): clique
    features and fixed clique costs.   keeps : may minimisers be kept as planes?
    """

    PARTS = ("y", "mean", "clique", "fixed")

    def __init__(self, sample: SampleState):
        self.sample, self.memory, self.slaves, self.layout = (
            sample,
            sample.memory,
            sample.dual.slaves,
            sample.layout,
        )
        self.whole = all_slaves(sample)
        self.zero = self.layout.split(np.zeros(self.layout.size))
        self.copies = np.maximum(self.slaves.count, 1.0)
        self.fixed_unary = self.slaves.unary(self.zero)
        self.fixed_share = self.fixed_unary / self.copies
        self.learns_unary = bool(self.slaves.unary_features(np.zeros(len(self.copies))))
        self.loose = 1.0 - 1.0 / self.copies
        if "y" not in self.memory:
            self._start_at_truth()

    def _start_at_truth(self) -> None:
        """Every slave at its cheapest labelling with no indicator that the truth does not have: on variables, the truth.

        It takes a visit to the slaves to know what each of them costs there. To spread the truth's costs evenly would not do: as
        soon as slaves go different shares of the way, the sum would be that of no mixture, and the optimum a wrong one.
        """
        sample, memory = self.sample, self.memory
        memory["lam"], memory["average"] = sample.dual.lam.copy(), sample.dual.lam.copy()
        costs = np.where(self.slaves.indicators(sample.truth) > 0, 0.0, np.inf)
        # at zero weights, and no cost where an indicator is 1, the minimum is the fixed cost
        memory["y"], memory["fixed"], memory["clique"], each = self.whole.solve(
            costs[self.whole.where], self.zero, self.layout
        )
        memory["mean"], memory["keeps"] = sample.dual.mean(memory["y"]), np.array(each)

    def features(self) -> np.ndarray:
        """phi (P,) of the mixture."""
        return self.layout.join(
            self.slaves.unary_features(self.memory["mean"]), self.memory["clique"].sum(axis=0)
        )

    def share(self, w: np.ndarray) -> np.ndarray:
        """What each copy of a coordinate has of its unary cost, (n_coords,)."""
        return (
            self.slaves.unary(self.layout.split(w)) / self.copies
            if self.learns_unary
            else self.fixed_share
        )

    def costs(self, batch: Batch, w: np.ndarray, prox: float) -> np.ndarray:
        """theta (Db,) of a batch at weights `w` (P,)."""
        return self._costs(batch, self.share(w), prox)

    def multipliers(self, batch: Batch, prox: float) -> np.ndarray:
        """lambda (Db,) of a batch: theta without the unary costs."""
        return self._costs(batch, np.zeros(len(self.copies)), prox)

    def _costs(self, batch: Batch, share: np.ndarray, prox: float) -> np.ndarray:
        from gmlearn.learn._mixture_numba import dual_costs

        memory = self.memory
        return dual_costs(
            batch.slots, batch.where, share, memory["lam"], memory["y"], memory["mean"], 1.0 / prox
        )

    def solve(self, batch: Batch, theta: np.ndarray, w: np.ndarray) -> Vertices:
        """The slaves of a batch at the costs `theta` (Db,) and weights `w` (P,)."""
        from gmlearn.learn._mixture_numba import costs_at_vertices

        ind, value, features, each = batch.solve(theta, self.layout.split(w), self.layout)
        fixed = value - costs_at_vertices(batch.indptr, ind, theta) - features @ w
        return Vertices(batch, ind, features, fixed, float(value.sum()), each)

    def solve_at_average(self, at: np.ndarray) -> tuple[float, Vertices]:
        """All slaves at weights `at` (P,) and the average lambda: the hinge there, and the minimisers."""
        found = self.solve(
            self.whole, self.share(at)[self.whole.where] + self.memory["average"], at
        )
        return hinge_of(
            self.sample, at, found.value + self.slaves.constant(self.layout.split(at))
        ), found

    def stay(self) -> Direction:
        """No move."""
        return Direction(self.sample.weight, np.zeros(self.layout.size), 0.0, 0.0)

    def check(self) -> None:
        """Refuse arrays of a stranger's file that compiled code could not trust; those above are numbers only."""
        return None

    def move_centre(self, prox: float, rate: float) -> None:
        """The next proximal step starts where this one ended; shares too small to matter are dropped."""
        from gmlearn.learn._mixture_numba import shift_centre

        memory = self.memory
        shift_centre(
            self.whole.where,
            self.copies,
            memory["lam"],
            memory["average"],
            memory["y"],
            memory["mean"],
            1.0 / prox,
            rate,
        )


@dataclass
class Vertices:
    """Minimisers of a batch: indicators (Db,), clique features (Mb, P), fixed costs (Mb,), the sum of the minima.

    each : are features and fixed costs known slave by slave, or spread evenly?
    """

    batch: Batch
    ind: np.ndarray
    features: np.ndarray
    fixed: np.ndarray
    value: float
    each: bool


class VertexMixture(Mixture):
    """Moves towards the minimisers of each visit, batch after batch; needs nothing of them but sums.

    Every slave takes a step of its own, gap / curvature in lambda; a line search along the joint direction decides how far all go.
    """

    @cached_property
    def batches(self) -> list[Batch]:
        """Made on first use: they hold parts of all potentials."""
        return by_colour(self.sample)

    def visit(self, weights: Any, prox: float) -> Direction:
        """Minimise and move batch after batch, as if no other sample moved; `settle` decides how far it really goes."""
        weights, before = weights.copy(), self.multipliers(self.whole, prox)
        self._remember_place()
        for batch in self.batches:
            theta, lam = self.costs(batch, weights.w, prox), self.multipliers(batch, prox)
            direction, move = self._towards(
                self.solve(batch, theta, weights.w), theta, lam, weights.w, prox
            )
            move(weights.search(direction).gamma)
        return self._direction_since(before, prox)

    def evaluate(self, weights: Any, prox: float, at: np.ndarray) -> tuple[Direction, float]:
        """The hinge at weights `at` and the average lambda; the minimisers there serve as directions, too."""
        hinge, found = self.solve_at_average(at)
        theta, lam = self.costs(self.whole, weights.w, prox), self.multipliers(self.whole, prox)
        self._remember_place()
        direction, move = self._towards(found, theta, lam, weights.w, prox)
        move(1.0)
        return direction, hinge

    def recall(self, weights: Any, prox: float) -> Direction:
        """Nothing is kept that could be recalled."""
        return self.stay()

    def settle(self, step: Step) -> None:
        """From the remembered place, go `step.gamma` of the way to where the mixture is now."""
        for part in self.PARTS:
            old = self.memory.pop(f"old_{part}", self.memory[part])
            if step.gamma < 1.0:
                self.memory[part] = old + step.gamma * (self.memory[part] - old)

    def _towards(
        self, found: Vertices, theta: np.ndarray, lam: np.ndarray, w: np.ndarray, prox: float
    ) -> tuple[Direction, Any]:
        """The joint direction in which every slave goes its share towards its minimiser, and what goes a part of that way."""
        from gmlearn.learn._mixture_numba import gaps_and_shares, joint_direction, move_mixture

        batch, memory = found.batch, self.memory
        advantage = (
            memory["fixed"][batch.members]
            - found.fixed
            + (memory["clique"][batch.members] - found.features) @ w
        )
        shares = gaps_and_shares(
            batch.indptr,
            batch.slots,
            batch.where,
            self.loose,
            memory["y"],
            found.ind,
            theta,
            advantage,
            prox,
            found.each,
        )
        mean_move, turn, slope, square = joint_direction(
            batch.indptr,
            batch.slots,
            batch.members,
            batch.where,
            self.copies,
            self.fixed_unary,
            memory["y"],
            found.ind,
            shares,
            lam,
            memory["clique"],
            found.features,
            memory["fixed"],
            found.fixed,
        )
        turn = self.layout.join(self.slaves.unary_features(mean_move), turn)

        def move(gamma: float) -> None:
            if gamma > 0.0:
                move_mixture(
                    batch.indptr,
                    batch.slots,
                    batch.members,
                    memory["y"],
                    memory["mean"],
                    memory["clique"],
                    memory["fixed"],
                    found.ind,
                    mean_move,
                    found.features,
                    found.fixed,
                    shares,
                    gamma,
                )

        return Direction(self.sample.weight, turn, slope, max(square, 0.0) / prox), move

    def _remember_place(self) -> None:
        """Keep a copy of where the mixture is, for `_direction_since` and `settle`."""
        for part in self.PARTS:
            self.memory[f"old_{part}"] = self.memory[part].copy()

    def _direction_since(self, lam: np.ndarray, prox: float) -> Direction:
        """The direction from the remembered place, where the multipliers were `lam` (D,), to where the mixture is now."""
        y, mean, clique, fixed = (
            self.memory[part] - self.memory[f"old_{part}"] for part in self.PARTS
        )
        turn = self.layout.join(self.slaves.unary_features(mean), clique.sum(axis=0))
        touched = mean != 0
        slope = (
            float(fixed.sum()) + float(lam @ y) + float(self.fixed_unary[touched] @ mean[touched])
        )
        return Direction(
            self.sample.weight,
            turn,
            slope,
            max(float(y @ y) - float(self.copies @ mean**2), 0.0) / prox,
        )


class PlaneMixture(Mixture):
    """Keeps the minimisers of earlier visits (planes), and moves from the dearest to the cheapest of them, slave after slave.

    Where many slaves share a variable most of what a visit finds has been found before: moves between planes, which need no
    minimisation, bring the slaves to terms (Shah, Kolmogorov and Lampert, CVPR 2015), and moves in pairs take shares away from
    where they were a mistake (Lacoste-Julien and Jaggi, NIPS 2015). Further arrays of the memory: see `_planes_numba`, and
    bend, the curvature in w of the last move over its squared length.
    """

    PLANES = ("bits", "plane_features", "plane_fixed", "used", "alpha")
    LOG = ("giver", "taker", "amount")

    def __init__(self, sample: SampleState, planes: int):
        super().__init__(sample)
        n = self.slaves.n_slaves
        self.starts = self.whole.indptr
        self.words = np.concatenate([[0], np.cumsum((np.diff(self.starts) + 63) // 64)])
        if "alpha" not in self.memory:
            memory = self.memory
            memory["bits"] = np.zeros((int(self.words[-1]), planes), np.uint64)
            memory["plane_features"] = np.zeros((n, planes, self.layout.size), np.float32)
            memory["plane_fixed"], memory["alpha"] = np.zeros((n, planes)), np.zeros((n, planes))
            memory["used"] = np.zeros((n, planes), np.int32)
            memory["bend"] = np.array(0.0)
            memory["giver"], memory["taker"], memory["amount"] = (
                np.zeros(n, np.int32),
                np.zeros(n, np.int32),
                np.zeros(n),
            )
            self.keep(
                Vertices(self.whole, memory["y"], memory["clique"], memory["fixed"], 0.0, True)
            )
            memory["alpha"][:, 0] = 1.0

    def keep(self, found: Vertices) -> None:
        """Put minimisers of all slaves among the planes. If they are not zeros and ones, there will be no planes from now on."""
        from gmlearn.learn._planes_numba import keep_planes

        planes = [self.memory[n] for n in self.PLANES]
        if not found.each or not keep_planes(
            self.starts, self.words, found.ind, found.features, found.fixed, *planes
        ):
            self.memory["keeps"] = np.array(False)

    def visit(self, weights: Any, prox: float) -> Direction:
        """Minimise all slaves, keep what they find, and move between planes."""
        self.keep(self.solve(self.whole, self.costs(self.whole, weights.w, prox), weights.w))
        return self.recall(weights, prox)

    def evaluate(self, weights: Any, prox: float, at: np.ndarray) -> tuple[Direction, float]:
        """The hinge at weights `at` and the average lambda; the minimisers there are kept, too."""
        hinge, found = self.solve_at_average(at)
        self.keep(found)
        return self.recall(weights, prox), hinge

    def recall(self, weights: Any, prox: float) -> Direction:
        """Every slave moves between its planes, as if the weights stood still; `settle` decides how far it really goes."""
        if not self.memory[
            "keeps"
        ]:  # from now on the sample has another mixture, which could not take this move back
            return self.stay()
        memory, w, before = self.memory, weights.w, self.memory["mean"].copy()
        turn, change, square = self._exchange(w, prox, 0.0)
        mean = memory["mean"] - before
        turn = self.layout.join(self.slaves.unary_features(mean), turn)
        spread = max(square - float(self.copies @ mean**2), 0.0) / prox
        return Direction(
            self.sample.weight, turn, change - 0.5 * spread - float(w @ turn), spread, square
        )

    def settle(self, step: Step) -> None:
        """Take 1 - gamma of the last move back."""
        if step.gamma < 1.0:
            self._exchange(np.zeros(self.layout.size), 1.0, 1.0 - step.gamma)
        if step.bend > 0.0:
            self.memory["bend"] = np.array(step.bend)

    def _exchange(self, w: np.ndarray, prox: float, back: float) -> tuple[np.ndarray, float, float]:
        from gmlearn.learn._planes_numba import exchange

        memory, prices, share = self.memory, self.memory["plane_fixed"], self.fixed_unary
        if back == 0.0:  # the way back is known
            prices, share = memory["plane_features"] @ w.astype(np.float32) + prices, self.share(w)
        return exchange(
            self.starts,
            self.words,
            self.whole.where,
            self.copies,
            self.loose,
            share,
            memory["lam"],
            memory["y"],
            memory["mean"],
            1.0 / prox,
            w,
            memory["clique"],
            memory["fixed"],
            prices,
            *(memory[n] for n in self.PLANES + self.LOG),
            float(memory["bend"]),
            back,
        )

    def check(self) -> None:
        """As in the base class: no bits beyond their slave, no shares above 1."""
        memory, sizes = self.memory, np.diff(self.starts)
        last = self.words[1:][sizes % 64 > 0] - 1
        beyond = memory["bits"][last] >> (sizes[sizes % 64 > 0] % 64).astype(np.uint64)[:, None]
        if beyond.any():
            raise ValueError("bits: expected places within their slave")
        if (memory["alpha"] < 0).any() or (memory["alpha"].sum(axis=1) > 1.0 + 1e-6).any():
            raise ValueError("alpha: expected shares of the mixture of each slave")


def mixture_of(sample: SampleState, planes: int) -> VertexMixture | PlaneMixture:
    """The mixture of a sample, made on first use: with `planes` planes, if its minimisers can be kept in little memory."""
    memory, scratch = sample.memory, sample.scratch
    if "mixture" not in scratch:
        scratch["mixture"] = mixture = VertexMixture(sample)
        size = planes * (
            mixture.slaves.n_slaves * (4 * mixture.layout.size + 20) + len(memory["y"]) // 8
        )
        if "alpha" not in memory and (
            size > MOST_BYTES or not np.isin(memory["y"], (0.0, 1.0)).all()
        ):
            memory["keeps"] = np.array(False)
        if memory["keeps"]:
            scratch["mixture"] = PlaneMixture(sample, planes)
    elif not memory["keeps"] and isinstance(scratch["mixture"], PlaneMixture):
        scratch["mixture"] = VertexMixture(sample)
    return scratch["mixture"]
