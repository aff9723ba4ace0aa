r"""The ascent engine once more, in plain NumPy, to be read next to the papers.

A slave i stands at y_i = sum_j a_ij s_ij, a convex combination of minimisers s_ij that it has met.
Of the proximal step with centre lambda_bar and weights w it minimises, others fixed,

    f(y) = <unary share + lambda_bar, y> + h(y; w) + |y - mean(y)|^2 / (2c)                   (1)
    theta = unary share + lambda_bar + (y - mean(y)) / c      its gradient in y               (2)

`visit` adds the minimiser at theta and goes towards it (Frank-Wolfe), `exchange` moves mass from
the most expensive minimiser in use to the cheapest known one (pairwise Frank-Wolfe). Both take the
step that minimises (1) along their direction d,

    step = min(largest, gap / (|d - mean(d)|^2 / c)),   gap = -<grad f, d>,                   (3)

and `move_centre` puts lambda_bar where the proximal step led: lambda_bar += (y - mean(y)) / c.
"""

from __future__ import annotations

import numpy as np


class Slave:
    """One slave: its coordinates, its minimisers as (indicators, clique cost), their shares."""

    def __init__(self, coords, problem, ind, cost):
        self.coords, self.problem = coords, problem
        self.known, self.share = [(ind, cost)], [1.0]

    def solve(self, theta):
        """The minimiser's indicators, and what its clique costs."""
        group, prepared = self.problem
        found = group.solve(theta, prepared)
        return found.ind, found.value[0] - theta[found.ind > 0].sum()

    @property
    def y(self):
        return sum(a * s for a, (s, _) in zip(self.share, self.known))

    @property
    def cost(self):
        """h(y), linear on the mixture."""
        return sum(a * h for a, (_, h) in zip(self.share, self.known))

    def place(self, ind, cost):
        """Where a minimiser stands among the known ones; it is added if it is new."""
        for j, (s, _) in enumerate(self.known):
            if np.array_equal(s, ind):
                return j
        self.known.append((ind, cost))
        self.share.append(0.0)
        return len(self.known) - 1


class ReferenceMixture:
    """All slaves of one model at frozen weights; working sets without limit."""

    def __init__(self, dual, w, results):
        slaves = dual.slaves
        self.unary, self.count = dual.unary_share, np.maximum(slaves.count, 1.0)
        self.slaves, self.centre = [], []
        theta = dual.share + dual.lam
        for group, where, result in zip(slaves.groups, slaves.slices, results):
            for m in range(group.n):
                own = slice(group.indptr[m], group.indptr[m + 1])
                ind, costs = result.ind[own], theta[where][own]
                cost = result.value[m] - costs[ind > 0] @ ind[ind > 0]

                one = group.take(np.array([m]))
                ready = one.prepare(w)
                self.slaves.append(Slave(group.coords[own], (one, ready), ind.copy(), cost))
                self.centre.append(dual.lam[where][own].copy())

    @property
    def mean(self):
        """Average indicators over the copies of each coordinate."""
        total = np.zeros(len(self.count))
        for slave in self.slaves:
            np.add.at(total, slave.coords, slave.y)
        return total / self.count

    def theta(self, i, inverse):
        """Equation (2)."""
        slave = self.slaves[i]
        disagreement = slave.y - self.mean[slave.coords]
        return self.unary[slave.coords] + self.centre[i] + disagreement * inverse

    def step(self, slave, direction, gap, largest, inverse):
        """Equation (3): d moves one slave, so its mean moves by d / count."""
        spread = np.sum(direction**2 * (1.0 - 1.0 / self.count[slave.coords]))
        return min(largest, gap / max(spread * inverse, 1e-300))

    def visit(self, inverse):
        """All slaves are minimised at the same y; then they move one after the other."""
        found = [slave.solve(self.theta(i, inverse)) for i, slave in enumerate(self.slaves)]
        for i, (slave, (ind, cost)) in enumerate(zip(self.slaves, found)):
            j = slave.place(ind, cost)
            direction = ind - slave.y
            gap = slave.cost - slave.known[j][1] - self.theta(i, inverse) @ direction
            if gap > 1e-12:
                delta = self.step(slave, direction, gap, 1.0, inverse)
                slave.share = [(1.0 - delta) * a for a in slave.share]
                slave.share[j] += delta

    def exchange(self, inverse):
        """One pairwise step of every slave."""
        for i, slave in enumerate(self.slaves):
            theta = self.theta(i, inverse)
            prices = np.array([theta @ s + h for s, h in slave.known])
            used = np.array(slave.share) > 0
            best, worst = int(prices.argmin()), int(np.where(used, prices, -np.inf).argmax())
            gap = prices[worst] - prices[best]
            if gap > 1e-12:
                direction = slave.known[best][0] - slave.known[worst][0]
                delta = self.step(slave, direction, gap, slave.share[worst], inverse)
                slave.share[best] += delta
                slave.share[worst] -= delta

    def move_centre(self, inverse):
        mean = self.mean
        for centre, slave in zip(self.centre, self.slaves):
            centre += (slave.y - mean[slave.coords]) * inverse

    def shift_centre(self, change):
        """Add to the proximal centre, dual variable by dual variable."""
        ends = np.cumsum([len(c) for c in self.centre])[:-1]
        for centre, part in zip(self.centre, np.split(change, ends)):
            centre += part

    def arrays(self):
        """y and the proximal centre, dual variable by dual variable."""
        return np.concatenate([s.y for s in self.slaves]), np.concatenate(self.centre)
