r"""Block-coordinate Frank-Wolfe with proximal (w, lambda): the default optimiser.

Every pass is a step of the proximal point method on F(w, lambda), solved in its dual, which lives on the hulls of the slaves'
minimisers. With y the current mixture of sample k, phi its features and :math:`v = \sum_k c_k(\phi_k - g_k)`,

.. math:: w = \arg\min_W R(w) - v\cdot w + \tfrac12 |w - \bar w|_C^2, \qquad
          \lambda^k = \bar\lambda^k + (y_k - \mathrm{mean}(y_k))/c .

Batches of slaves that share no coordinate move one after the other. Each slave m takes a step of its own,
gap_m / (|d_m|^2/c); then a scalar exact line search along the joint direction, whose curvature in w is
:math:`c_k \sum_p d\phi_p^2/(\mu_p + C_p)`, makes the move an ascent (for sets W: a safe one). C is scaled like AdaGrad, weight
by weight, so that no step size has to be found. The mixture starts at the truth: no loss, no disagreement.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gmlearn.learn.objective import SampleState
from gmlearn.learn.optimizers import Optimizer, PassReport
from gmlearn.slaves import SlaveGroup


class Batch:
    """Slaves that move together: some of one group, or all of a sample.

    slots : int (Db,), their dual variables within the sample.   owner : int (Db,), the slave of each, 0..Mb-1.
    members : int (Mb,), the slaves' numbers within the sample.
    """

    def __init__(self, groups: list[SlaveGroup], slots: np.ndarray, members: np.ndarray):
        self.groups, self.slots, self.members = groups, slots, members
        sizes = np.array([g.n for g in groups], np.int64)
        self.starts = np.cumsum(sizes) - sizes
        ends = np.cumsum([len(g.coords) for g in groups])
        self.slices = [slice(int(e) - len(g.coords), int(e)) for e, g in zip(ends, groups)]
        self.owner = np.concatenate([g.owner + s for g, s in zip(groups, self.starts)]) if groups else np.zeros(0, np.int64)

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
            batches.append(Batch([group if len(colours) == 1 else group.take(colour)], slots, first + colour))
        first += group.n
    return batches, Batch(slaves.groups, np.arange(len(state.dual.coords)), np.arange(first))


class Mixture:
    """Where one sample stands: arrays of the optimiser's state.

    y (D,), mean (n_coords,), lam (D,) the proximal centre, clique (M, P) and fixed (M,): clique features and fixed clique costs.
    """

    def __init__(self, state: dict[str, np.ndarray], k: int, sample: SampleState):
        self.state, self.k, self.sample, self.slaves = state, k, sample, sample.dual.slaves
        self.batches, self.whole = sample_batches(sample)
        self.zero = sample.layout.split(np.zeros(sample.layout.size))
        self.fixed_unary = self.slaves.unary(self.zero)
        self.count = np.maximum(self.slaves.count, 1.0)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.state[f"{name}{self.k}"]

    def __setitem__(self, name: str, value: Any) -> None:
        self.state[f"{name}{self.k}"] = np.asarray(value)

    def start_at_truth(self) -> None:
        """Every slave at the truth; its clique features and costs are spread evenly, only their sums matter at the start."""
        sample, mean = self.sample, self.slaves.indicators(self.sample.truth)
        n = max(self.slaves.n_slaves, 1)
        unary = sample.layout.join(self.slaves.unary_features(mean))
        used = mean > 0
        fixed = sample.truth_fixed - self.slaves.constant(self.zero) - float(self.fixed_unary[used] @ mean[used])
        self["lam"], self["mean"], self["y"] = sample.dual.lam.copy(), mean, mean[sample.dual.coords]
        self["clique"], self["fixed"] = np.tile((sample.truth_features - unary) / n, (n, 1)), np.full(n, fixed / n)

    def features(self) -> np.ndarray:
        """phi (P,) of the mixture."""
        return self.sample.layout.join(self.slaves.unary_features(self["mean"]), self["clique"].sum(axis=0))

    def multipliers(self, slots: np.ndarray, prox: float) -> np.ndarray:
        """lambda at the given dual variables."""
        return self["lam"][slots] + (self["y"][slots] - self["mean"][self.sample.dual.coords[slots]]) / prox

    def move_centre(self, prox: float) -> None:
        """The next proximal step starts where this one ended; shares too small to matter are dropped."""
        dual = self.sample.dual
        self["lam"] = dual.centred(self.multipliers(self.whole.slots, prox))
        self["y"] = np.where(self["y"] < 1e-9, 0.0, self["y"])
        self["mean"] = dual.mean(self["y"])


class BlockFrankWolfe(Optimizer):
    """Block-coordinate Frank-Wolfe with proximal weights and multipliers; any regulariser, any convex set.

    Parameters
    ----------
    prox : c, in units of 1 / loss: larger means smaller moves of lambda in one pass.
    step : about how far a weight may move in the first pass.
    evaluate_every : every so many passes all samples are minimised at one (w, lambda), which gives F; the minimisers
        serve as directions like those of any other pass.
    """

    name = "bcfw"
    settings = ("prox", "step", "evaluate_every")
    prox = 4.0
    step = 0.3
    evaluate_every = 5

    def start(self) -> None:
        self.mixtures = [Mixture(self.state, k, s) for k, s in enumerate(self.objective.states)]
        for mixture in self.mixtures:
            mixture.start_at_truth()
        self.state["squares"], self.state["centre"] = np.zeros(len(self.w)), self.w.copy()
        self.state["inner"], self.state["since"], self.state["lowest"] = np.array(1), np.array(0), np.array(np.inf)
        self._mu = self.objective.prior.curvature
        self.truth_changed()

    def truth_changed(self) -> None:
        v = np.zeros(len(self.w))
        for m, s in zip(self.mixtures, self.objective.states):
            v += s.weight * (m.features() - s.truth_features)
        self.state["v"] = v

    def _set_w(self) -> None:
        """w from v and the proximal centre."""
        state = self.state
        rate = self.objective.prior.even(self.step / np.maximum(np.sqrt(state["squares"]), 1e-12))
        state["w"] = self.objective.prior.prox(state["centre"] + rate * state["v"], rate)

    def run(self) -> PassReport:
        state, objective = self.state, self.objective
        value = None
        gap = 0.0
        if int(state["t"]) % self.evaluate_every == 0:
            value, gap = self._whole_pass()
        else:
            for k in self.order():
                for batch in self.mixtures[k].batches:
                    m = self.mixtures[k]
                    lam = m.multipliers(batch.slots, self.prox)
                    found = self._minimise(m, batch, lam)
                    gap += objective.states[k].weight * self._step(m, batch, lam, self.w, *found)
        if value is not None:
            self._adapt(value)
        state["since"] = state["since"] + 1
        if int(state["since"]) >= int(state["inner"]):
            for m in self.mixtures:
                m.move_centre(self.prox)
            state["centre"], state["since"] = state["w"].copy(), np.array(0)
        state["t"] = state["t"] + 1
        return PassReport(objective=value, gap=gap, step=self.step)

    def _adapt(self, value: float) -> None:
        """Where F no longer falls, the proximal steps were solved too roughly: give each of them more passes."""
        lowest = float(self.state["lowest"])
        if np.isfinite(lowest) and value > lowest - 3e-4 * abs(lowest):
            self.state["inner"] = np.minimum(self.state["inner"] * 2, 8)
        self.state["lowest"] = np.array(min(lowest, value))

    def _whole_pass(self) -> tuple[float, float]:
        """All slaves at one (w, lambda): F, and a move of every sample towards its minimisers."""
        objective, w = self.objective, self.w
        lams = [m.multipliers(m.whole.slots, self.prox) for m in self.mixtures]
        found = objective.executor.map(lambda item: self._minimise(item[0], item[0].whole, item[1]), list(zip(self.mixtures, lams)))
        hinges = [s.weight * (s.truth_energy(w) - f[1].sum() - m.slaves.constant(s.layout.split(w)))
                  for s, f, m in zip(objective.states, found, self.mixtures)]
        value, self.state["evaluated"] = objective.prior.value(w) + float(np.sum(hinges)), w.copy()
        gap = sum(objective.states[k].weight * self._step(self.mixtures[k], self.mixtures[k].whole, lams[k], w, *found[k])
                  for k in self.order())
        return value, gap

    def _minimise(self, m: Mixture, batch: Batch, lam: np.ndarray) -> tuple[np.ndarray, ...]:
        """(ind, value, features, theta, each) of a batch at the weights of now."""
        sample = m.sample
        w = sample.layout.split(self.w)
        theta = (m.slaves.unary(w) / m.count)[sample.dual.coords[batch.slots]] + lam
        ind, value, features, each = batch.solve(theta, w, sample.layout)
        return ind, value, features, theta, np.array(each)

    def _step(self, m: Mixture, batch: Batch, lam: np.ndarray, w: np.ndarray, ind: np.ndarray, value: np.ndarray,
              features: np.ndarray, theta: np.ndarray, each: np.ndarray) -> float:
        """Move a batch towards its minimisers, found at (w, lam); returns the gap of the joint direction."""
        n, owner, slots = len(batch.members), batch.owner, batch.slots
        coords = m.sample.dual.coords[slots]
        y, clique, fixed = m["y"][slots], m["clique"][batch.members], m["fixed"][batch.members]
        gaps = fixed + clique @ w + np.bincount(owner, np.where(y > 0, theta, 0.0) * y, n) - value
        spread = np.bincount(owner, (ind - y) ** 2 * (1.0 - 1.0 / m.count[coords]), n) / self.prox
        if not each:
            gaps, spread = np.full(n, gaps.sum()), np.full(n, spread.sum())
        share = np.where(spread <= gaps, 1.0, np.maximum(gaps, 0.0) / np.maximum(spread, 1e-300))
        share[share < 1e-7] = 0.0  # no denormal numbers: they are a hundred times slower
        vertex_fixed = value - np.bincount(owner, np.where(ind > 0, theta, 0.0) * ind, n) - features @ w
        move = share[owner] * (ind - y)
        clique_move, fixed_move = share[:, None] * (features - clique), share * (vertex_fixed - fixed)
        return self._search(m, batch, lam, move, clique_move, fixed_move)

    def _search(self, m: Mixture, batch: Batch, lam: np.ndarray, move: np.ndarray, clique_move: np.ndarray,
                fixed_move: np.ndarray) -> float:
        """The exact line search along a joint direction, at the weights of now."""
        sample, state = m.sample, self.state
        mean_move = np.bincount(sample.dual.coords[batch.slots], move, m.slaves.n_coords) / m.count
        touched = mean_move != 0
        turn = sample.layout.join(m.slaves.unary_features(mean_move), clique_move.sum(axis=0))
        gap = -(float(fixed_move.sum()) + float(m.fixed_unary[touched] @ mean_move[touched]) + float(self.w @ turn)
                + float(lam @ move))
        if gap <= 0.0:
            return 0.0
        state["squares"] = state["squares"] + (sample.weight * turn) ** 2
        scaling = np.sqrt(state["squares"]) / self.step
        spread = max(float(move @ move) - float(m.slaves.count @ mean_move ** 2), 0.0) / self.prox
        curvature = sample.weight * float((turn ** 2 / np.maximum(self._mu + scaling, 1e-300)).sum()) + spread
        gamma = 1.0 if curvature <= gap else gap / curvature
        y, clique, fixed = m["y"].copy(), m["clique"].copy(), m["fixed"].copy()
        y[batch.slots] += gamma * move
        clique[batch.members] += gamma * clique_move
        fixed[batch.members] += gamma * fixed_move
        m["y"], m["mean"], m["clique"], m["fixed"] = y, m["mean"] + gamma * mean_move, clique, fixed
        state["v"] = state["v"] + sample.weight * gamma * turn
        self._set_w()
        return gap
