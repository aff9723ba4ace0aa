r"""SparseMAP: the relaxed solution with a quadratic term, which is sparse, and its derivative.

.. math:: \min_{z, y}\ \langle u, z\rangle + \sum_i h_i(y_i) + \tfrac\epsilon2 |z|^2
          \quad\text{s.t. } y_i \in \operatorname{hull}_i,\ y_{i,v} = z_v

over the hulls of the slaves' minimisers (Niculae et al., 2018; Niculae and Martins, 2020). The
mixture of the ascent engine finds which minimisers have a share: the quadratic term enters it as
costs that follow the mean, :math:`\epsilon z / n` for each of n copies, with curvature
:math:`\epsilon`. On these minimisers (the active set) projections find the optimum exactly, and its
derivative in u (`active_set`). For any multipliers

.. math:: D(\lambda) = \sum_i \min_x \big[\langle\lambda_i, x\rangle + h_i(x)\big]
          - \tfrac1{2\epsilon} \big|\textstyle\sum_i \lambda_i - u\big|^2

bounds the optimum from below, which certifies both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gmlearn.layers.active_set import ActiveSet
from gmlearn.layers.samples import COSTS
from gmlearn.learn.batch import SampleBatch
from gmlearn.master.mixture import MOST_BYTES, Mixture
from gmlearn.master.mixture_state import MixtureState
from gmlearn.model.weights import WeightLayout

#: the most minimisers kept for each slave, and moves between them after each minimisation
WORKING_SET, EXCHANGES = 64, 10
#: passes between two looks at the gap, and the part to which it falls between two exact solutions
PASSES, FALL = 5, 1e-3


class SparseSolution(NamedTuple):
    """z (n_coords,), features (P,), primal and dual values (n,) of each sample; the active set."""

    z: np.ndarray
    features: np.ndarray
    primal: np.ndarray
    dual: np.ndarray
    active: ActiveSet

    @property
    def gap(self) -> float:
        return float((self.primal - self.dual).sum())


class Point(NamedTuple):
    """Where all slaves stand: z (n_coords,), y (D,), costs of the slaves' cliques (M,), shares of
    the working sets (M, C).
    """

    z: np.ndarray
    y: np.ndarray
    costs: np.ndarray
    share: np.ndarray


class SparseMAP:
    """The mixture of one batch with a quadratic term of strength `epsilon` on single labels.

    Gradients in blocks need the features of all minimisers that are kept: where these would take
    more than `MOST_BYTES`, they are left out (``knows_costs``).

    Parameters
    ----------
    start : the mixture of an earlier solution for the same batch; it is not changed.
    """

    def __init__(
        self, batch: SampleBatch, w: np.ndarray, epsilon: float, start: MixtureState | None = None
    ):
        self.batch, self.slaves, self.w = batch, batch.dual.slaves, w
        layout, n_slaves = batch.layout, self.slaves.n_slaves
        self.knows_costs = 4 * n_slaves * WORKING_SET * layout.size <= MOST_BYTES
        if not self.knows_costs:
            layout = WeightLayout({n: s for n, s in layout.shapes.items() if n != COSTS})
        self.mixture = Mixture(batch.dual, layout, WORKING_SET, still=False)
        self.small = w[: layout.size]
        self.epsilon = np.where(np.arange(self.slaves.n_coords) < self.slaves.n_labels, epsilon, 0)
        unary = self.slaves.unary(batch.layout.split(w))
        self.forbidden = np.isinf(unary)
        self.unary = np.where(self.forbidden, 0.0, unary)
        self.share = batch.dual.unary_share.copy()
        self.inverse = epsilon
        dual = batch.dual
        if start is None:
            self.mixture.begin(self.mixture.minimise(dual.share + dual.lam, self.small))
            self.mixture.state.curvature = np.array(epsilon)
        else:
            self.mixture.state = state = start.copy()
            state.used[state.share == 0.0] = 0

    def follow(self) -> None:
        """Costs that follow the mean: the gradient of the quadratic term."""
        pull = self.epsilon * self.mixture.state.mean * self.mixture.structure.weight
        self.batch.dual.unary_share = self.share + pull

    def sweep(self) -> None:
        """Minimise all slaves, move between known minimisers, and move the multipliers."""
        self.follow()
        self.mixture.visit(self.small, self.inverse)
        for _ in range(EXCHANGES):
            self.follow()
            self.mixture.exchange(self.small, self.inverse)
        self.mixture.move_centre(self.inverse, 1.0)

    def run(self, max_iter: int, tol: float) -> SparseSolution:
        """Sweep until primal and dual meet within `tol`, relatively."""
        best, known = None, self.gap()[0]
        for k in range(1, max(max_iter, 1) + 1):
            if best is not None and best.gap <= tol * max(1.0, float(np.abs(best.dual).sum())):
                break
            self.sweep()
            last = k >= max_iter
            if k % PASSES and not last:
                continue
            gap, size = self.gap()
            if last or gap <= max(FALL * known, tol * size):
                found, known = self.polished(), gap
                if best is None or found.gap < best.gap:
                    best = found
        assert best is not None
        self.batch.dual.unary_share = self.share
        return best

    def gap(self) -> tuple[float, float]:
        """That of the mixture, and the size of the dual that it is compared with."""
        self.follow()
        theta = self._allowed(self.batch.dual.share + self.mixture.state.centre)
        dual = self.dual_value(theta)
        gap = float((self.value(self.point(), theta) - dual).sum())
        return gap, max(1.0, float(np.abs(dual).sum()))

    def polished(self) -> SparseSolution:
        """The exact solution on the active minimisers, or the mixture where that is better;
        certified from above and below. The mixture goes on from it.
        """
        state, columns = self.mixture.state, self.mixture.columns
        active = ActiveSet(self.mixture, self.epsilon)
        known = state.working_set
        prices = state.known_fixed.copy()
        if len(columns):
            prices += (self.small[columns][known.columns] * known.values).sum(axis=2)
        slopes = active.slopes(prices)
        z = active.optimum(self.unary, slopes, state.y)
        self.follow()
        engine = self._allowed(self.batch.dual.share + state.centre)
        near = np.where(np.isinf(engine), 0.0, engine)
        exact = self._allowed(active.multipliers(z, self.unary, slopes, near))
        duals = [self.dual_value(exact), self.dual_value(engine)]
        dual, theta = (duals[0], exact) if duals[0].sum() >= duals[1].sum() else (duals[1], engine)
        points = [self._moved(active, prices, z), self.point()]
        primals = [self.value(point, theta) for point in points]
        best = int(primals[1].sum() < primals[0].sum())
        # strong convexity: how far the better point may be from the optimum
        gap = max(float((primals[best] - dual).sum()), 0.0)
        radius = np.sqrt(2.0 * gap / self.inverse) + 1e-6
        far = np.abs(points[0].z - points[1].z).max(initial=0.0) > 2.0 * radius
        found = points[best if far else 0]
        z = np.where(found.z < 1e-12, 0.0, found.z)  # rounding: these are zero
        total = self.batch.layout.join(self.slaves.unary_features(z))
        total[columns] += self.mixture.clique_features(found.share)
        if best == 0:
            self._go_on(points[0], theta)
        constants = self.batch.constants
        return SparseSolution(z, total, primals[best] + constants, dual + constants, active)

    def point(self) -> Point:
        """The mixture as it is."""
        state = self.mixture.state
        mean = np.where(self.forbidden, 0.0, state.mean)
        costs = state.fixed + self.mixture.clique_costs(self.small)
        return Point(mean, state.y, costs, state.share)

    def _moved(self, active: ActiveSet, prices: np.ndarray, z: np.ndarray) -> Point:
        """The slaves where they come closest to z, as far as shares do not become negative."""
        here, coords = self.point(), self.mixture.structure.coords
        share = np.maximum(here.share + active.shares(z[coords] - here.y, here.share.shape), 0.0)
        share *= (here.share.sum(axis=1) / np.maximum(share.sum(axis=1), 1e-300))[:, None]
        move = share - here.share
        return Point(z, active.along(here.y, move), here.costs + (move * prices).sum(axis=1), share)

    def _go_on(self, point: Point, theta: np.ndarray) -> None:
        """Put the mixture at a point, and its centre at multipliers (D,)."""
        state, dual = self.mixture.state, self.batch.dual
        state.fixed = state.fixed + ((point.share - state.share) * state.known_fixed).sum(axis=1)
        state.share, state.y = point.share, point.y
        state.mean = self.slaves.mean(point.y)
        state.centre = dual.centred(np.where(np.isinf(theta), state.centre, theta))

    def _allowed(self, theta: np.ndarray) -> np.ndarray:
        """Dual costs (D,) with the forbidden labels."""
        return np.where(self.forbidden[self.mixture.structure.coords], np.inf, theta)

    def value(self, point: Point, theta: np.ndarray) -> np.ndarray:
        """What a point costs (n,), with what its slaves' disagreement is worth at `theta`."""
        label = self.unary * point.z + 0.5 * self.epsilon * point.z**2
        coords = self.mixture.structure.coords
        apart = np.abs(point.y - point.z[coords])
        price = np.where(np.isinf(theta), 0.0, np.abs(theta))
        label += np.bincount(coords, price * apart, len(label))
        return self._by_sample(self._homes(), point.costs) + self._by_sample(
            self.slaves.home, label
        )

    def dual_value(self, theta: np.ndarray) -> np.ndarray:
        """D (n,) of each sample at the multipliers theta (D,)."""
        groups = zip(self.slaves.groups, self.slaves.slices, self.batch.dual.prepared)
        minima = np.concatenate([g.solve(theta[s], prepared).value for g, s, prepared in groups])
        coords = self.mixture.structure.coords
        finite = np.where(np.isinf(theta), 0.0, theta)
        excess = np.bincount(coords, finite, self.slaves.n_coords) - self.unary
        excess[self.forbidden] = 0.0
        penalty = np.divide(
            0.5 * excess**2, self.epsilon, out=np.zeros(len(excess)), where=self.epsilon > 0
        )
        value = self._by_sample(self.slaves.slave_home, minima)
        return value - self._by_sample(self.slaves.home, penalty)

    def _homes(self) -> np.ndarray:
        """The sample of each slave of the mixture (a group may move as one)."""
        first = self.mixture.structure.starts[:-1]
        coords = np.append(self.mixture.structure.coords, 0)
        return self.slaves.home[coords[first]]

    def _by_sample(self, home: np.ndarray, value: np.ndarray) -> np.ndarray:
        return np.bincount(home, value, len(self.batch.samples))
