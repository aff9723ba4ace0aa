r"""Block-coordinate Frank-Wolfe on the proximal dual: needs nothing but slave minimisers, and no step size.

Each proximal step :math:`\max_\lambda D(\lambda) - \frac c2 |\lambda - \bar\lambda|^2` has the dual
:math:`\min_y \sum_i \langle \bar\theta_i, y_i\rangle + h_i(y_i) + \frac1{2c}|y - \mathrm{mean}(y)|^2` over the slaves' hulls,
with :math:`\lambda = \bar\lambda + (y - \mathrm{mean}(y))/c`. Batches of slaves are minimised at once, and then move one after
the other, each by its own exact line search. The bound is evaluated at a running average of the centres, which swing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count

import numpy as np

from gmlearn.master.dual import Dual, Round

#: share of the first proximal step below which a step counts as tiny, and the most passes that one may get
SMALLEST, MOST_PASSES = 1e-3, 16


class Batch:
    """Some subproblems of one group, minimised at the same time.

    number : of the group.   chosen : the subproblems' numbers in it.   slots : int (Db,), their dual variables among all.
    """

    def __init__(self, dual: Dual, w: Mapping[str, np.ndarray], number: int, chosen: np.ndarray):
        group, first = dual.slaves.groups[number], dual.slaves.slices[number].start
        self.number, self.chosen = number, chosen
        if len(chosen) == group.n:
            self.group, self.prepared = group, dual.prepared[number]
            self.slots = first + np.arange(len(group.coords))
        else:
            self.group = group.take(chosen)
            self.prepared = self.group.prepare(w)
            size = np.diff(group.indptr)[chosen]
            start = group.indptr[chosen]
            self.slots = (
                first
                + np.repeat(start - (np.cumsum(size) - size), size)
                + np.arange(int(size.sum()))
            )
        self.indptr = self.group.indptr


def make_batches(dual: Dual, w: Mapping[str, np.ndarray]) -> list[Batch]:
    """All slaves as batches that share no coordinate, group by group and colour by colour."""
    return [
        Batch(dual, w, number, colour)
        for number, group in enumerate(dual.slaves.groups)
        for colour in group.colours
    ]


def large_batches(dual: Dual, w: Mapping[str, np.ndarray]) -> list[Batch]:
    """All slaves that share coordinates, as few batches: colours are joined until a batch has half of its group.

    Frank-Wolfe steps need no independence (see `batch_step`), only directions that are not too stale.
    """
    batches = []
    for number, group in enumerate(dual.slaves.groups):
        if group.n == 0 or dual.slaves.count[group.coords].max() == 1:
            continue  # alone on all its coordinates: nothing to agree on
        joined: list[list[np.ndarray]] = [[]]
        for colour in group.colours:
            if 2 * sum(map(len, joined[-1])) >= group.n:
                joined.append([])
            joined[-1].append(colour)
        batches += [Batch(dual, w, number, np.sort(np.concatenate(part))) for part in joined]
    return batches


class Mixture:
    """Where the slaves stand between their minimisers: arrays over the dual variables that move, batch after batch.

    y : the mixture.   base : unary share + proximal centre.   cost : h(y) of each subproblem.   mean (n_coords,) : of all y.
    centre, average (D,) : the proximal centre and its running average, over all dual variables.
    """

    #: share of the present centre in the average
    rate = 0.5

    def __init__(self, dual: Dual, w: Mapping[str, np.ndarray], first: Round):
        self.dual, self.batches = dual, large_batches(dual, w)
        parts = [b.slots for b in self.batches]
        self.slots = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        ends = np.cumsum([len(p) for p in parts])
        self.where = [slice(int(e) - len(p), int(e)) for e, p in zip(ends, parts)]
        self.coords = dual.slaves.short_coords[self.slots]
        self.loose = 1.0 - 1.0 / dual.slaves.count[self.coords]
        self.centre, self.average, self.mean = dual.lam.copy(), dual.lam.copy(), first.mean.copy()
        self.y, self.theta = first.ind[self.slots], np.empty(len(self.slots))
        self.set_base()
        self.cost = [
            value - np.bincount(b.group.owner, np.where(ind > 0, theta, 0.0) * ind, b.group.n)
            for b, (theta, ind, value) in zip(self.batches, self.vertices(first, dual.lam))
        ]

    def set_base(self) -> None:
        """The costs at the proximal centre, freed of what rounding has left of its sums."""
        self.centre, self.average = self.dual.centred(self.centre), self.dual.centred(self.average)
        self.base = (self.dual.share + self.centre)[self.slots]

    def vertices(
        self, current: Round, lam: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """(theta, ind, value) of each batch in a round at the multipliers `lam` (D,)."""
        theta, ind = (self.dual.share + lam)[self.slots], current.ind[self.slots]
        for batch, where in zip(self.batches, self.where):
            yield theta[where], ind[where], current.results[batch.number].value[batch.chosen]

    def minimise(self, inverse: float) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """The same at the present proximal costs, one batch after the other."""
        from gmlearn.master._bcfw_numba import batch_theta

        for batch, where in zip(self.batches, self.where):
            theta = self.theta[where]
            batch_theta(
                self.coords[where], self.base[where], self.y[where], self.mean, inverse, theta
            )
            r = batch.group.solve(theta, batch.prepared)
            yield theta, r.ind, r.value

    def step(
        self, vertices: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]], inverse: float
    ) -> None:
        """Move every batch towards its vertices."""
        from gmlearn.master._bcfw_numba import batch_step

        for batch, where, cost, (theta, ind, value) in zip(
            self.batches, self.where, self.cost, vertices
        ):
            batch_step(
                batch.indptr,
                self.coords[where],
                self.loose[where],
                self.base[where],
                theta,
                ind,
                value,
                cost,
                self.y[where],
                self.mean,
                inverse,
            )

    def move_centre(self, inverse: float) -> None:
        """The next proximal step begins where this one led."""
        from gmlearn.master._bcfw_numba import move_centre

        move_centre(
            self.coords,
            self.slots,
            self.y,
            self.mean,
            inverse,
            self.rate,
            self.centre,
            self.average,
            self.base,
        )


def ascend_bcfw(
    dual: Dual, w: Mapping[str, np.ndarray], *, reach: float = 1.0, passes: int = 4
) -> Iterator[Round]:
    """Yield a round (a valid bound) after every `passes` passes; ``dual.lam`` holds the best multipliers.

    Parameters
    ----------
    reach : the first proximal step moves multipliers by about `reach` times the typical cost; adapted by success. Where that
        makes it tiny the steps were solved too roughly: each then gets twice as many passes, and starts from the first size again.
    passes : passes over all slaves between two evaluations of the bound, whose minimisers serve as one more.
    """
    first = current = dual.round()
    yield first
    if not np.isfinite(first.bound):
        return
    inverse = full = reach * dual.cost_scale(first)  # 1/c
    mixture, inner, best = Mixture(dual, w, first), 1, first.bound
    for k in count(1):
        if k > 1:
            mixture.step(mixture.vertices(current, mixture.average), inverse)
        for p in range(max(passes, inner)):
            if p % inner == 0:
                mixture.move_centre(inverse)
            mixture.step(mixture.minimise(inverse), inverse)
        mixture.move_centre(inverse)
        if k % 8 == 0:
            mixture.set_base()
        current = replace(dual.round(mixture.average), blend=mixture.mean.copy())
        if current.bound > best:
            best = current.bound
            dual.lam = mixture.average.copy()
            inverse *= 1.2
        elif inverse > SMALLEST * full:
            inverse *= 0.6
        else:
            inverse, inner = full, min(2 * inner, MOST_PASSES)
        yield current
        if current.disagreement == 0.0:
            return
