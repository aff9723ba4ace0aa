r"""Block-coordinate Frank-Wolfe on the proximal dual: needs nothing but slave minimisers, and no step size.

Each proximal step :math:`\max_\lambda D(\lambda) - \frac c2 |\lambda - \bar\lambda|^2` has the dual
:math:`\min_y \sum_i \langle \bar\theta_i, y_i\rangle + h_i(y_i) + \frac1{2c}|y - \mathrm{mean}(y)|^2` over the slaves' hulls,
with :math:`\lambda = \bar\lambda + (y - \mathrm{mean}(y))/c`. Batches of slaves that share no coordinate move at once, each by
its own exact line search.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gmlearn.master.dual import Dual, Round
from gmlearn.slaves import SlaveGroup


class Batch:
    """Subproblems of one group that share no coordinate."""

    def __init__(self, group: SlaveGroup, prepared, offset: int, chosen: np.ndarray | None, w_prepare):
        if chosen is None or len(chosen) == group.n:
            self.group, self.prepared = group, prepared
            self.slots = offset + np.arange(len(group.coords))
        else:
            self.group = group.take(chosen)
            self.prepared = w_prepare(self.group)
            size = np.diff(group.indptr)[chosen]
            start = group.indptr[chosen]
            self.slots = offset + np.repeat(start - (np.cumsum(size) - size), size) + np.arange(int(size.sum()))
        self.indptr = self.group.indptr
        self.theta = np.empty(len(self.slots))
        self.cost = np.zeros(self.group.n)


def make_batches(dual: Dual, w) -> list[Batch]:
    """All slaves as batches, group by group and colour by colour."""
    batches = []
    for group, where, prepared in zip(dual.slaves.groups, dual.slaves.slices, dual.prepared):
        colours = group.colours
        batches += [Batch(group, prepared, where.start, c if len(colours) > 1 else None, lambda g: g.prepare(w)) for c in colours]
    return batches


def ascend_bcfw(dual: Dual, w, *, reach: float = 0.5, passes: int = 4) -> Iterator[Round]:
    """Yield a round (a valid bound) after every `passes` passes; ``dual.lam`` holds the best multipliers.

    Parameters
    ----------
    reach : the first proximal step moves multipliers by about `reach` times the typical cost; adapted by success.
    passes : passes over all slaves between two evaluations of the bound.
    """
    from gmlearn.master._bcfw_numba import batch_step, batch_theta

    first = dual.round()
    yield first
    if not np.isfinite(first.bound):
        return
    batches = make_batches(dual, w)
    coords, count = dual.coords, dual.slaves.count
    inverse = reach * dual.cost_scale(first)  # 1/c
    y, mean = first.ind.copy(), first.mean.copy()
    base = dual.share + dual.lam
    for batch in batches:
        theta, ind = base[batch.slots], y[batch.slots]
        owner = batch.group.owner
        paid = np.where(ind > 0, theta, 0.0) * ind
        total = batch.group.solve(theta, batch.prepared).value
        batch.cost = total - np.bincount(owner, paid, batch.group.n)
    best, centre = first.bound, dual.lam.copy()
    while True:
        for _ in range(passes):
            for batch in batches:
                batch_theta(batch.slots, coords, base, y, mean, inverse, batch.theta)
                r = batch.group.solve(batch.theta, batch.prepared)
                batch_step(batch.slots, batch.indptr, coords, count, batch.theta, r.ind, r.value, batch.cost, y, mean, inverse)
            centre += inverse * (y - mean[coords])
            base = dual.share + centre
        centre = dual.centred(centre)  # rounding
        current = dual.round(centre)
        if current.bound > best:
            best = current.bound
            dual.lam = centre.copy()
            inverse *= 1.2
        else:
            inverse *= 0.6
        yield current
        if current.disagreement == 0.0:
            return
