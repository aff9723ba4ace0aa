"""Block-coordinate ascent by min-marginals (MPLP, Globerson and Jaakkola 2007), for any clique slave that has them.

Every variable has a slave of its own besides the cliques'. A clique takes the costs of its variables, computes its
min-marginals and gives each variable 1/k of them back: the bound never sinks. Cliques that share no variable move at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gmlearn.decompositions.base import Slaves
from gmlearn.master.bcfw import make_batches
from gmlearn.master.dual import Dual, Round
from gmlearn.slaves import CliqueGroup, FreeGroup


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
    """Yield a round after every pass over all cliques; the slaves are those of `with_variable_slaves`."""
    n_coords = dual.slaves.n_coords
    theta = np.zeros(len(dual.coords))
    variable = theta[-n_coords:]  # a view: the costs of the variables' own slaves
    variable[:] = dual.slaves.unary(w)
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
