r"""SparseMAP: the relaxed solution with a quadratic term, which is sparse, and its derivative.

.. math:: \min_{z, y}\ \langle u, z\rangle + \sum_i h_i(y_i) + \tfrac\epsilon2 |z|^2
          \quad\text{s.t. } y_i \in \operatorname{hull}_i,\ y_{i,v} = z_v

over the hulls of the slaves' minimisers (Niculae et al., 2018; Niculae and Martins, 2020). The
mixture of the ascent engine finds which minimisers have a share: the quadratic term enters it as
costs that follow the mean, :math:`\epsilon z / n` for each of n copies, with curvature
:math:`\epsilon`. On these minimisers (the active set) the optimum solves a linear system, exactly;
the same system has the derivative of z in u. For any multipliers

.. math:: D(\lambda) = \sum_i \min_x \big[\langle\lambda_i, x\rangle + h_i(x)\big]
          - \tfrac1{2\epsilon} \big|\textstyle\sum_i \lambda_i - u\big|^2

bounds the optimum from below, which certifies both.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gmlearn.layers.samples import COSTS
from gmlearn.learn.batch import SampleBatch
from gmlearn.master.mixture import MOST_BYTES, Mixture
from gmlearn.model.weights import WeightLayout

#: the most minimisers kept for each slave, and moves between them after each minimisation
WORKING_SET, EXCHANGES = 64, 4
#: passes between two solutions of the linear system
PASSES = 10
#: share below which a minimiser is not active
ACTIVE = 1e-7
#: regularisation of the linear system, whose effect refinement takes out again
DELTA, REFINEMENTS = 1e-9, 4


class SparseSolution(NamedTuple):
    """z (n_coords,), features (P,), multipliers (D,), primal and
    dual values (n,) of each sample, and the system.
    """

    z: np.ndarray
    features: np.ndarray
    theta: np.ndarray
    primal: np.ndarray
    dual: np.ndarray
    system: ActiveSystem


class ActiveSystem:
    r"""The optimality conditions on active minimisers V, with shares a, for the slaves' equality
    :math:`V a = B z` and sums :math:`A a = 1`:

    .. math:: p + V^T\lambda + A^T\mu = 0,\quad u + \epsilon z - B^T\lambda = 0.
    """

    def __init__(self, mixture: Mixture, ridge: np.ndarray):
        from scipy.sparse import block_array, csc_array, diags_array
        from scipy.sparse.linalg import splu

        structure, state = mixture.structure, mixture.state
        self.slave, self.number = np.nonzero((state.share > ACTIVE) & (state.used > 0))
        n_dual, n_slaves = len(structure.coords), len(structure.starts) - 1
        n_active, n_coords = len(self.slave), len(ridge)
        rows, columns = active_entries(mixture, self.slave, self.number)
        ones = np.ones(len(rows))
        vertices = csc_array((ones, (rows, columns)), shape=(n_dual, n_active))
        copies = csc_array(
            (np.ones(n_dual), (np.arange(n_dual), structure.coords)), shape=(n_dual, n_coords)
        )
        sums = csc_array(
            (np.ones(n_active), (self.slave, np.arange(n_active))), shape=(n_slaves, n_active)
        )
        #: coordinates that an active minimiser has
        self.used = np.bincount(structure.coords[rows], minlength=n_coords) > 0
        self.matrix = block_array(
            [
                [None, None, vertices.T, sums.T],
                [None, diags_array(ridge), -copies.T, None],
                [vertices, -copies, None, None],
                [sums, None, None, csc_array((n_slaves, n_slaves))],
            ],
            format="csc",
        )
        self.sizes = np.cumsum([n_active, n_coords, n_dual])
        sign = np.repeat([DELTA, -DELTA], [self.sizes[1], n_dual + n_slaves])
        self._factors = splu(self.matrix + diags_array(sign, format="csc"))

    def solve(self, prices: Any, unary: np.ndarray, one: float) -> list[np.ndarray]:
        """(a, z, lambda, mu) for the prices p of active minimisers and unary costs u."""
        right = np.zeros(self.matrix.shape[0])
        right[: self.sizes[0]] = -prices
        right[self.sizes[0] : self.sizes[1]] = -unary
        right[self.sizes[2] :] = one
        found = self._factors.solve(right)
        for _ in range(REFINEMENTS):
            found += self._factors.solve(right - self.matrix @ found)
        return np.split(found, self.sizes)

    def pull_back(self, change: np.ndarray) -> np.ndarray:
        """The product of `change` (n_coords,) with the derivative of z in u, which is symmetric."""
        return self.solve(0.0, change, 0.0)[1]


def active_entries(
    mixture: Mixture, slave: np.ndarray, number: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(dual variables, active minimisers) where the active minimisers are 1."""
    structure, bits = mixture.structure, mixture.state.bits
    sizes = np.diff(structure.starts)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    place = 64 * structure.words[owner] + np.arange(len(owner)) - structure.starts[owner]
    rows, columns = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for j in np.unique(number):
        column = np.full(len(sizes), -1)
        column[slave[number == j]] = np.flatnonzero(number == j)
        words = np.ascontiguousarray(bits[:, j]).astype("<u8").view(np.uint8)
        ones = np.unpackbits(words, bitorder="little")[place].astype(bool)
        chosen = np.flatnonzero(ones & (column[owner] >= 0))
        rows.append(chosen)
        columns.append(column[owner[chosen]])
    return np.concatenate(rows), np.concatenate(columns)


class SparseMAP:
    """The mixture of one batch with a quadratic term of strength `epsilon` on single labels.

    Gradients in blocks need the features of all minimisers that are kept: where these would take
    more than `MOST_BYTES`, they are left out (``knows_costs``).
    """

    def __init__(self, batch: SampleBatch, w: np.ndarray, epsilon: float):
        self.batch, self.slaves, self.w = batch, batch.dual.slaves, w
        layout, n_slaves = batch.layout, self.slaves.n_slaves
        self.knows_costs = 4 * n_slaves * WORKING_SET * layout.size <= MOST_BYTES
        if not self.knows_costs:
            layout = WeightLayout({n: s for n, s in layout.shapes.items() if n != COSTS})
        self.mixture = Mixture(batch.dual, layout, WORKING_SET)
        self.small = w[: layout.size]
        self.epsilon = np.where(np.arange(self.slaves.n_coords) < self.slaves.n_labels, epsilon, 0)
        unary = self.slaves.unary(batch.layout.split(w))
        self.forbidden = np.isinf(unary)
        self.unary = np.where(self.forbidden, 0.0, unary)
        self.share = batch.dual.unary_share.copy()
        self.inverse = epsilon
        dual = batch.dual
        self.mixture.begin(self.mixture.minimise(dual.share + dual.lam, self.small))
        self.mixture.state.curvature = np.array(epsilon)

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
        """Sweep until primal and dual meet within `tol`, relatively; then the exact solution."""
        best = None
        for k in range(max(max_iter, 1)):
            self.sweep()
            if k % PASSES and k + 1 < max_iter:
                continue
            found = self.polished()
            gap = float((found.primal - found.dual).sum())
            if best is None or gap < float((best.primal - best.dual).sum()):
                best = found
            if gap <= tol * max(1.0, float(np.abs(found.dual).sum())):
                break
        assert best is not None
        self.batch.dual.unary_share = self.share
        return best

    def polished(self) -> SparseSolution:
        """The exact solution on the active minimisers, certified by the mixture (from above) and
        by the dual (from below).
        """
        state, columns, slaves = self.mixture.state, self.mixture.columns, self.slaves
        system = ActiveSystem(self.mixture, self.epsilon)
        features = self.mixture.known_features(system.slave, system.number)
        prices = features @ self.small[columns]
        prices += state.known_fixed[system.slave, system.number]
        shares, z, multipliers, _ = system.solve(prices, self.unary, 1.0)
        self.follow()
        theta, dual = self._best_dual(system.used, multipliers)
        primal = self.mixture_value(theta)
        # strong convexity: how far the mixture may be from the optimum
        radius = np.sqrt(2.0 * max(float((primal - dual).sum()), 0.0) / self.inverse)
        if np.abs(z - state.mean).max(initial=0.0) > radius + 1e-6:
            z = state.mean.copy()
        z = np.where(z < 1e-12, 0.0, z)  # rounding: these are zero
        total = self.batch.layout.join(slaves.unary_features(z))
        # minimisers that depend on each other leave the shares open, down to negative ones
        determined = shares.min(initial=0.0) > -1e-8
        total[columns] += shares @ features if determined else self.mixture.clique_features()
        constants = self.batch.constants
        return SparseSolution(z, total, theta, primal + constants, dual + constants, system)

    def _best_dual(
        self, used: np.ndarray, multipliers: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The better multipliers (D,), those of the system or of the mixture, and their D (n,)."""
        coords = self.mixture.structure.coords
        engine = self.batch.dual.share + self.mixture.state.centre
        # the system does not determine those of labels that no active minimiser has
        exact = np.where(used[coords], multipliers, engine)
        tried = [np.where(self.forbidden[coords], np.inf, t) for t in (exact, engine)]
        values = [self.dual_value(t) for t in tried]
        better = int(values[1].sum() > values[0].sum())
        return tried[better], values[better]

    def mixture_value(self, theta: np.ndarray) -> np.ndarray:
        """What the mixture costs (n,), with what its slaves' disagreement is worth at `theta`."""
        state, structure = self.mixture.state, self.mixture.structure
        slave = state.fixed + self.mixture.clique_costs(self.small)
        mean = np.where(self.forbidden, 0.0, state.mean)
        label = self.unary * mean + 0.5 * self.epsilon * mean**2
        apart = np.abs(state.y - mean[structure.coords])
        label += np.bincount(
            structure.coords, np.where(np.isinf(theta), 0.0, np.abs(theta)) * apart, len(label)
        )
        return self._by_sample(self._homes(), slave) + self._by_sample(self.slaves.home, label)

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
