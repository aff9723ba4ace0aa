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


def ascend_mplp(dual: Dual, w) -> Iterator[Round]:
    """Yield a round after every pass over all cliques; the slaves are those of
    `with_variable_slaves`. ``dual.lam`` moves along.
    """
    n_coords = dual.slaves.n_coords
    theta = dual.share + dual.lam
    variable = theta[-n_coords:]  # a view: the costs of the variables' own slaves
    if not dual.lam.any():  # all that is not in a clique yet
        theta[:-n_coords], variable[:] = 0.0, dual.slaves.unary(w)
    batches = [b for b in make_batches(dual, w) if isinstance(b.group, CliqueGroup)]
    members = [np.diff(b.group.block.indptr)[b.group.owner] for b in batches]  # type: ignore[attr-defined]
    while True:
        current = dual.round(theta=theta)
        yield current
        if current.bound == np.inf:
            return
        for batch, k in zip(batches, members):
            where = dual.coords[batch.slots]
            pooled = theta[batch.slots] + variable[where]
            given = batch.group.min_marginals(pooled, batch.prepared) / k  # type: ignore[attr-defined]
            variable[where] = given
            # a label that a hard clique forbids is out everywhere: inf - inf must stay inf
            with np.errstate(invalid="ignore"):
                theta[batch.slots] = np.where(np.isfinite(given), pooled - given, np.inf)
        dual.lam = dual.centred(np.where(np.isfinite(theta), theta, 0.0))
