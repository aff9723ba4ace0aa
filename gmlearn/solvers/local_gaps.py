r"""Which labels belong to an optimum although a gap is left, by a test that looks at the gap near
each variable only.

A dual with one slave per clique writes the energy as :math:`E(x) = \text{bound} + \sum_q c_q(x)`,
all :math:`c_q \ge 0`. Let x be the best labelling known, y an optimum that differs from it in as
few variables as possible, and C a set of these that cliques connect, as large as possible. To give
C the labels of x changes only cliques that touch C, which then cost :math:`c_q(x)`, so that

.. math:: \sum_{v \in C} \delta_v \le \sum_{q \cap C \ne \emptyset} c_q(y)
          < \sum_{q \cap C \ne \emptyset} c_q(x), \qquad
          \delta_v = \min_{a \ne x_v} \sum_{q \ni v} \frac{1}{|q|} \min_{z_v = a} c_q(z):

C touches cliques with :math:`c_q(x) > 0`, and reaches no farther from them than these gaps allow.
Around each such clique a ball is grown of radius its gap, :math:`\delta` being the lengths; balls
that meet are joined, and their gaps added. Outside the balls x is optimal, and the balls separate.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gmlearn.decompositions import decompose
from gmlearn.master.dual import Dual
from gmlearn.master.mplp import CliquePasses, with_variable_slaves
from gmlearn.model.crf import CRF
from gmlearn.slaves import CliqueGroup, FreeGroup
from gmlearn.slaves.choose import NoSolverError
from gmlearn.solvers.warm import Multipliers, messages_of_edges

#: passes of MPLP that spread the costs evenly over the cliques
PASSES = 10
#: all gaps together that are taken for rounding, in units of the costs' scale
ROUNDING = 1e-7
#: for arcs of length 0, which a sparse matrix would not hold
TINY = 1e-300


def locally_optimal(
    crf: CRF,
    w: Mapping[str, np.ndarray],
    kept: Multipliers | None,
    labels: np.ndarray,
    scale: float,
) -> np.ndarray:
    """bool (V,): where some one optimum has the labels (V,) of a feasible labelling.

    kept : multipliers of an ascent, which the test starts from.   scale : the typical size of one
    cost. Nothing is known where cliques have no min-marginals.
    """
    dual = _clique_dual(crf, w, kept or Multipliers(crf.n_states))
    if dual is None:
        return np.zeros(crf.n_vars, bool)
    passes = CliquePasses(dual, w)
    for _ in range(PASSES):
        passes.run()
    passes.finish()
    found = _gaps_and_lengths(dual, w, labels)
    if found is None:
        return np.zeros(crf.n_vars, bool)
    gaps, lengths = found
    gaps[gaps <= ROUNDING * scale / max(len(gaps), 1)] = 0.0
    cliques = [g.block.members for g in dual.slaves.groups if isinstance(g, CliqueGroup)]
    members = np.concatenate([*cliques, np.arange(crf.n_vars)])
    sizes = [np.diff(g.block.indptr) for g in dual.slaves.groups if isinstance(g, CliqueGroup)]
    owner = np.repeat(np.arange(len(gaps)), np.concatenate([*sizes, np.ones(crf.n_vars, np.int64)]))
    return outside_balls(members, owner, gaps, lengths)


def _clique_dual(crf: CRF, w: Mapping[str, np.ndarray], kept: Multipliers) -> Dual | None:
    """One slave per clique and per variable, at the kept multipliers; None where one of them has no
    min-marginals.
    """
    try:
        slaves = with_variable_slaves(decompose(crf, "per-clique", "min_marginals"))
    except (NoSolverError, ValueError):
        return None
    if not all(g.affordable("min_marginals") for g in slaves.groups):
        return None
    dual = Dual(slaves, w)
    n = len(dual.coords) - crf.n_coords  # those of the variables' own slaves come last
    theta = np.zeros(len(dual.coords))
    if kept.messages is not None:
        theta[:n] = -messages_of_edges(crf, w, kept.messages)
    elif kept.restore(dual):
        theta = dual.share + dual.lam
    theta[~np.isfinite(theta)] = 0.0
    theta[n:] = 0.0
    given = np.bincount(dual.coords, theta, slaves.n_coords)
    theta[n:] = np.where(np.isfinite(dual.unary), dual.unary, 0.0) - given
    dual.lam = dual.centred(theta)
    return dual


def _gaps_and_lengths(
    dual: Dual, w: Mapping[str, np.ndarray], labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """(c_q(x) of all slaves, delta_v (V,)); None if the model is infeasible."""
    slaves, theta = dual.slaves, dual.share + dual.lam
    offsets = slaves.crf.offsets
    current = dual.round(theta=theta)
    if not np.isfinite(current.bound):
        return None
    gaps, total = [], np.zeros(slaves.n_coords)
    for group, where, prepared, found in zip(
        slaves.groups, slaves.slices, dual.prepared, current.results
    ):
        own = theta[where]
        if isinstance(group, FreeGroup):
            cost, parts = own[group.ptr[:-1] + labels[group.variables]], 1.0
        else:
            assert isinstance(group, CliqueGroup)
            inside = labels[group.block.members]
            clique = group.owner[group.ptr[:-1]]
            cost = group.energy(inside, w) + np.bincount(
                clique, own[group.ptr[:-1] + inside], group.n
            )
            parts = np.diff(group.block.indptr)[group.owner]
        gaps.append(np.maximum(cost - found.value, 0.0))
        reduced = group.min_marginals(own, prepared) - found.value[group.owner]  # type: ignore[attr-defined]
        total += np.bincount(group.coords, np.maximum(reduced, 0.0) / parts, len(total))
    total[offsets[:-1] + labels] = np.inf
    return np.concatenate(gaps), np.minimum.reduceat(total, offsets[:-1])


def outside_balls(
    members: np.ndarray, owner: np.ndarray, gaps: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    """bool (V,): the variables that no ball reaches.

    members, owner : int (S,), the variables of each clique, and the clique of each of them.
    gaps : float (F,).   lengths : float (V,), what it takes to pass a variable.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components, dijkstra

    n, n_cliques = len(lengths), len(gaps)
    seeds = np.flatnonzero(gaps > 0)
    if len(seeds) == 0:
        return np.ones(n, bool)
    # variables come first, then cliques, then the origin of all paths; a path into a clique has
    # passed the variable that it comes from
    passable = np.isfinite(lengths[members])
    into, out = (members[passable], n + owner[passable]), (n + owner, members)
    size = n + n_cliques + 1
    cluster = np.arange(len(seeds))
    while True:
        radius = np.bincount(cluster, gaps[seeds])[cluster]
        most = radius.max()
        data = np.concatenate([lengths[into[0]], np.zeros(len(owner)), most - radius]) + TINY
        row = np.concatenate([into[0], out[0], np.full(len(seeds), size - 1)])
        column = np.concatenate([into[1], out[1], n + seeds])
        graph = coo_array((data, (row, column)), shape=(size, size)).tocsr()
        reached = dijkstra(graph, indices=size - 1, limit=most)
        near = reached < most
        both = near[members] & near[n + owner]
        links = coo_array(
            (np.ones(int(both.sum())), (members[both], n + owner[both])), shape=(size, size)
        )
        _, part = connected_components(links, directed=False)
        _, joined = np.unique(part[n + seeds], return_inverse=True)
        if len(np.unique(joined)) == len(np.unique(cluster)):
            return ~(reached[:n] + lengths < most)
        cluster = joined
