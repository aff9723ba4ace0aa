"""Block-coordinate ascent by min-marginals (MPLP, Globerson and Jaakkola 2007), for any clique
slave that has them.

Every variable has a slave of its own besides the cliques'. A clique takes the costs of its
variables, computes its min-marginals and gives each variable 1/k of them back: the bound never
sinks. Cliques that share no variable move at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from gmlearn.decompositions.base import Slaves
from gmlearn.master.dual import Dual, Round
from gmlearn.slaves import CliqueGroup, FreeGroup


class Batch:
    """Some subproblems of one group, minimised at the same time.

    number : of the group.   chosen : the subproblems' numbers in it.   slots : int (Db,), their
        dual variables among all.
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


def with_variable_slaves(slaves: Slaves) -> Slaves:
    """The same cliques, and one slave for each variable, which come last."""
    cliques = [g for g in slaves.groups if not isinstance(g, FreeGroup)]
    if not all(isinstance(g, CliqueGroup) for g in cliques):
        raise ValueError(
            "decomposition: MPLP works with one slave per clique, decomposition='per-clique'"
        )
    return Slaves(
        slaves.crf, [*cliques, FreeGroup(np.arange(slaves.crf.n_vars), slaves.crf.offsets)]
    )


class CliquePasses:
    """Passes over all cliques, without a look at the bound; the slaves are those of
    `with_variable_slaves`.

    Attributes
    ----------
    batches : cliques that share no variable.   where, members : int (Db,) of each batch, the
        coordinates of its dual variables, and how many variables their cliques have.   own : float
        (Db,), the cliques' dual costs.   variable : float (n_coords,), those of the variables' own
        slaves.
    """

    def __init__(self, dual: Dual, w: Mapping[str, np.ndarray]):
        self.dual, n_coords = dual, dual.slaves.n_coords
        theta = dual.share + dual.lam
        if not dual.lam.any():  # all that is not in a clique yet
            theta[:-n_coords], theta[-n_coords:] = 0.0, dual.slaves.unary(w)
        self.variable = theta[-n_coords:].copy()
        self.batches = [b for b in make_batches(dual, w) if isinstance(b.group, CliqueGroup)]
        self.where = [dual.coords[b.slots] for b in self.batches]
        self.members = [np.diff(b.group.block.indptr)[b.group.owner] for b in self.batches]  # type: ignore[attr-defined]
        self.own = [theta[b.slots] for b in self.batches]

    def run(self) -> None:
        """Every clique takes the costs of its variables, and gives each of them its share back."""
        for number, batch in enumerate(self.batches):
            where = self.where[number]
            pooled = self.own[number] + self.variable[where]
            given = batch.group.min_marginals(pooled, batch.prepared) / self.members[number]  # type: ignore[attr-defined]
            self.variable[where] = given
            # a label that a hard clique forbids is out everywhere: inf - inf must stay inf
            with np.errstate(invalid="ignore"):
                pooled -= given
            pooled[~np.isfinite(given)] = np.inf
            self.own[number] = pooled

    def finish(self) -> np.ndarray:
        """The dual costs (D,) of all slaves; the multipliers of `dual` move there."""
        theta = np.empty(len(self.dual.coords))
        theta[-len(self.variable) :] = self.variable
        for batch, own in zip(self.batches, self.own):
            theta[batch.slots] = own
        self.dual.lam = self.dual.centred(np.where(np.isfinite(theta), theta, 0.0))
        return theta


def ascend_mplp(dual: Dual, w: Mapping[str, np.ndarray]) -> Iterator[Round]:
    """Yield a round after every pass over all cliques, until the model is found infeasible."""
    passes = CliquePasses(dual, w)
    while True:
        current = dual.round(theta=passes.finish())
        yield current
        if current.bound == np.inf:
            return
        passes.run()
