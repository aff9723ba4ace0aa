r"""Block-coordinate Frank-Wolfe on the proximal dual: needs nothing but slave minimisers, and no step size.

Each proximal step :math:`\max_\lambda D(\lambda) - \frac c2 |\lambda - \bar\lambda|^2` has the dual
:math:`\min_y \sum_i \langle \bar\theta_i, y_i\rangle + h_i(y_i) + \frac1{2c}|y - \mathrm{mean}(y)|^2` over the slaves' hulls,
with :math:`\lambda = \bar\lambda + (y - \mathrm{mean}(y))/c`. Batches of slaves are minimised at once, and then move one after
the other, each by its own exact line search.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np

from gmlearn.master.dual import Dual, Round
from gmlearn.slaves import SlaveGroup


class Batch:
    """Some subproblems of one group, minimised at the same time."""

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
        self.indptr, self.coords = self.group.indptr, self.group.coords
        self.theta = np.empty(len(self.slots))
        self.cost = np.zeros(self.group.n)


def make_batches(dual: Dual, w) -> list[Batch]:
    """All slaves as batches that share no coordinate, group by group and colour by colour."""
    batches = []
    for group, where, prepared in zip(dual.slaves.groups, dual.slaves.slices, dual.prepared):
        colours = group.colours
        batches += [Batch(group, prepared, where.start, c if len(colours) > 1 else None, lambda g: g.prepare(w)) for c in colours]
    return batches


def large_batches(dual: Dual, w) -> list[Batch]:
    """All slaves that share coordinates, as few batches: colours are joined until a batch has a third of its group.

    Frank-Wolfe steps need no independence (see `batch_step`), only directions that are not too stale.
    """
    batches = []
    for group, where, prepared in zip(dual.slaves.groups, dual.slaves.slices, dual.prepared):
        if group.n == 0 or dual.slaves.count[group.coords].max() == 1:
            continue  # alone on all its coordinates: nothing to agree on
        joined: list[list[np.ndarray]] = [[]]
        for colour in group.colours:
            if 3 * sum(map(len, joined[-1])) >= group.n:
                joined.append([])
            joined[-1].append(colour)
        for part in joined:
            chosen = np.sort(np.concatenate(part))
            batches.append(Batch(group, prepared, where.start, chosen, lambda g: g.prepare(w)))
    return batches


def ascend_bcfw(dual: Dual, w, *, reach: float = 1.0, passes: int = 4) -> Iterator[Round]:
    """Yield a round (a valid bound) after every `passes` passes; ``dual.lam`` holds the best multipliers.

    Parameters
    ----------
    reach : the first proximal step moves multipliers by about `reach` times the typical cost; adapted by success.
    passes : passes over all slaves between two evaluations of the bound.
    """
    from gmlearn.master._bcfw_numba import batch_step, batch_theta, move_centre

    first = dual.round()
    yield first
    if not np.isfinite(first.bound):
        return
    batches = large_batches(dual, w)
    coords, portions = dual.coords, [1.0 / dual.slaves.count[b.coords] for b in batches]
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
    for k in count(1):
        for _ in range(passes):
            for batch, portion in zip(batches, portions):
                batch_theta(batch.slots, batch.coords, base, y, mean, inverse, batch.theta)
                r = batch.group.solve(batch.theta, batch.prepared)
                batch_step(batch.slots, batch.indptr, batch.coords, portion, base, batch.theta, r.ind, r.value, batch.cost, y, mean,
                           inverse)
            move_centre(coords, y, mean, inverse, centre, base)
        if k % 8 == 0:  # what rounding has left of the sums
            centre = dual.centred(centre)
            base = dual.share + centre
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
