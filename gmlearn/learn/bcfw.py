r"""Block-coordinate Frank-Wolfe on (w, lambda): the default for strongly convex regularisers.

Passes work on a proximal problem in lambda whose dual lives on the hulls of the slaves' minimisers. With y the current mixture
of sample k, phi its features, h its fixed costs, and :math:`v = \sum_k c_k(\phi_k - g_k)`,

.. math:: w = \arg\min_W R(w) - v\cdot w, \qquad \lambda^k = \bar\lambda^k + (y_k - \mathrm{mean}(y_k))/c .

Every slave m moves towards its minimiser by a step of its own, gap_m / (|d_m|^2 / c), and a scalar exact line search along the
joint direction (curvature c_k |dphi|^2/mu + |d - mean(d)|^2/c) makes the move an ascent. The mixture starts at the truth.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gmlearn.learn.objective import SampleState
from gmlearn.learn.optimizers import Optimizer, PassReport
from gmlearn.learn.prior import Prior
from gmlearn.master import Round


class Mixture:
    """Where sample k stands: arrays in the optimiser's state, slave by slave.

    y (D,), mean (n_coords,), fixed (M,) fixed clique costs of each slave's mixture, clique (M, P) clique features of each.
    """

    def __init__(self, state: dict[str, np.ndarray], k: int, sample: SampleState):
        self.state, self.k, self.sample = state, k, sample
        self.slaves = sample.dual.slaves
        self.owner = np.concatenate([g.owner + start for g, start in zip(self.slaves.groups, self._starts)]) \
            if self.slaves.groups else np.zeros(0, np.int64)
        count = np.maximum(self.slaves.count, 1.0)
        self.slack = (1.0 - 1.0 / count)[sample.dual.coords]

    @property
    def _starts(self) -> np.ndarray:
        sizes = np.array([g.n for g in self.slaves.groups], np.int64)
        return np.cumsum(sizes) - sizes

    def __getitem__(self, name: str) -> np.ndarray:
        return self.state[f"{name}{self.k}"]

    def __setitem__(self, name: str, value: Any) -> None:
        self.state[f"{name}{self.k}"] = np.asarray(value)

    def per_slave(self, values: np.ndarray) -> np.ndarray:
        """Sums (M,) of per-dual values (D,) over each slave."""
        return np.bincount(self.owner, values, self.slaves.n_slaves)

    def start_at_truth(self) -> None:
        """Every slave at the truth: no loss, no disagreement, the truth's features."""
        dual, layout = self.sample.dual, self.sample.layout
        mean = self.slaves.indicators(self.sample.truth)
        self["lam"], self["mean"], self["y"] = dual.lam.copy(), mean, mean[dual.coords]
        unary = layout.join(self.slaves.unary_features(mean))
        n = max(self.slaves.n_slaves, 1)
        # the truth's clique features and fixed costs, spread evenly: only their sum matters at the start
        self["clique"] = np.tile((self.sample.truth_features - unary) / n, (n, 1))
        self["fixed"] = np.full(n, (self.sample.truth_fixed - self._fixed_unary(mean)) / n)

    def _fixed_unary(self, mean: np.ndarray) -> float:
        """Fixed unary costs and constant of a mixture."""
        zero = self.sample.layout.split(np.zeros(self.sample.layout.size))
        unary = self.slaves.unary(zero)
        used = mean > 0
        return self.slaves.constant(zero) + float(unary[used] @ mean[used])

    def features(self, mean: np.ndarray, clique: np.ndarray) -> np.ndarray:
        """phi (P,) from the mean indicators and the cliques' features."""
        return self.sample.layout.join(self.slaves.unary_features(mean), clique.sum(axis=0))

    def clique_features(self, current: Round) -> np.ndarray | None:
        """Clique features (M, P) of a round's minimisers; None if a group knows only their sum."""
        layout = self.sample.layout
        out = np.zeros((self.slaves.n_slaves, layout.size))
        for group, result, start in zip(self.slaves.groups, current.results, self._starts):
            found = group.slave_features(result)
            if found is None:
                return None
            for name, value in found.items():
                out[start:start + group.n, layout.slices[name]] += value.reshape(group.n, -1)
        return out


class BlockFrankWolfe(Optimizer):
    """Block-coordinate Frank-Wolfe with proximal duals; no step size.

    Parameters
    ----------
    prox : c, in units of 1 / loss.   inner : passes between two moves of the proximal centre.
    evaluate_every : every so many passes all samples are minimised at one (w, lambda), which gives F; the minimisers
        serve as directions like those of any other pass.
    """

    name = "bcfw"
    settings = ("prox", "inner", "evaluate_every")
    prox = 0.5
    inner = 2
    evaluate_every = 4

    @classmethod
    def refuses(cls, prior: Prior, temperature: float) -> str | None:
        if not prior.strongly_convex:
            return "every segment needs a quadratic regulariser (L2 or elastic net)"
        return super().refuses(prior, temperature)

    def start(self) -> None:
        self.mixtures = [Mixture(self.state, k, s) for k, s in enumerate(self.objective.states)]
        for mixture in self.mixtures:
            mixture.start_at_truth()
        self.truth_changed()

    def truth_changed(self) -> None:
        state = self.state
        v = np.zeros(len(self.w))
        for m, s in zip(self.mixtures, self.objective.states):
            v += s.weight * (m.features(m["mean"], m["clique"]) - s.truth_features)
        state["v"] = v
        state["w"] = self.objective.prior.minimiser(v)
        mu = self.objective.prior.curvature
        self._inverse_mu = 1.0 / np.where(mu > 0, mu, np.inf)  # fixed weights have no quadratic part and do not move

    def _lambda(self, m: Mixture) -> np.ndarray:
        return m["lam"] + (m["y"] - m["mean"][m.sample.dual.coords]) / self.prox

    def run(self) -> PassReport:
        state, objective = self.state, self.objective
        value, rounds, lams = None, None, None
        if int(state["t"]) % self.evaluate_every == 0:
            lams = [self._lambda(m) for m in self.mixtures]
            rounds = self._all_rounds(lams)
            hinges = [s.weight * (s.truth_energy(self.w) - r.bound) for s, r in zip(objective.states, rounds)]
            value = objective.prior.value(self.w) + float(np.sum(hinges))
        gap = 0.0
        start = self.w
        for k in self.order():
            m, s = self.mixtures[k], objective.states[k]
            if rounds is None or lams is None:
                s.set_weights(self.w)
                lam = self._lambda(m)
                gap += s.weight * self._step(m, s, s.dual.round(lam), lam, self.w)
            else:
                gap += s.weight * self._step(m, s, rounds[k], lams[k], start)
        state["t"] = state["t"] + 1
        if int(state["t"]) % self.inner == 0:
            for m in self.mixtures:
                m["lam"] = m.sample.dual.centred(self._lambda(m))
        return PassReport(objective=value, gap=gap, step=self.prox)

    def _all_rounds(self, lams: list[np.ndarray]) -> list[Round]:
        def one(k: int) -> Round:
            state = self.objective.states[k]
            state.set_weights(self.w)
            return state.dual.round(lams[k])

        return self.objective.executor.map(one, range(len(lams)))

    def _step(self, m: Mixture, s: SampleState, current: Round, lam: np.ndarray, w_then: np.ndarray) -> float:
        """Move sample k towards the minimisers of `current`, found at (w_then, lam); returns the gap of the joint direction."""
        dual = s.dual
        y, mean = m["y"], m["mean"]
        value = np.concatenate([r.value for r in current.results])
        theta = dual.share + lam  # of the weights w_then
        vertex_clique = m.clique_features(current)
        if vertex_clique is None:
            total = s.layout.join({}, None)
            for group, result in zip(dual.slaves.groups, current.results):
                s.layout.join(group.features(result), total)
            vertex_clique = np.tile(total / max(len(value), 1), (len(value), 1))
            share = np.ones(len(value))
        paid = m.per_slave(np.where(current.ind > 0, theta, 0.0) * current.ind)
        vertex_fixed = value - paid - vertex_clique @ w_then
        if m.clique_features(current) is not None:
            used = np.where(y > 0, theta, 0.0) * y
            gaps = m["fixed"] + m["clique"] @ w_then + m.per_slave(used) - value
            spread = m.per_slave((current.ind - y) ** 2 * m.slack) / self.prox
            share = np.where(spread <= gaps, 1.0, np.maximum(gaps, 0.0) / np.maximum(spread, 1e-300))
        move = share[m.owner] * (current.ind - y)
        clique_move = share[:, None] * (vertex_clique - m["clique"])
        fixed_move = share * (vertex_fixed - m["fixed"])
        mean_move = dual.mean(move)
        return self._search(m, s, lam, move, mean_move, clique_move, fixed_move, mean)

    def _search(self, m: Mixture, s: SampleState, lam: np.ndarray, move: np.ndarray, mean_move: np.ndarray,
                clique_move: np.ndarray, fixed_move: np.ndarray, mean: np.ndarray) -> float:
        """The exact line search along a joint direction, at the weights of now."""
        zero = s.layout.split(np.zeros(s.layout.size))
        fixed_unary = m.slaves.unary(zero)
        touched = mean_move != 0
        turn = s.layout.join(m.slaves.unary_features(mean_move), clique_move.sum(axis=0))
        gap = -(float(fixed_move.sum()) + float(fixed_unary[touched] @ mean_move[touched]) + float(self.w @ turn)
                + float(lam @ move))
        if gap <= 0.0:
            return 0.0
        spread = float(move @ move) - float(m.slaves.count @ mean_move ** 2)
        curvature = s.weight * float((turn ** 2 * self._inverse_mu).sum()) + max(spread, 0.0) / self.prox
        gamma = 1.0 if curvature <= gap else gap / curvature
        m["y"], m["mean"] = m["y"] + gamma * move, mean + gamma * mean_move
        m["clique"], m["fixed"] = m["clique"] + gamma * clique_move, m["fixed"] + gamma * fixed_move
        self.state["v"] = self.state["v"] + s.weight * gamma * turn
        self.state["w"] = self.objective.prior.minimiser(self.state["v"])
        return gap
