"""The dual that a result keeps: multipliers as plain arrays, to start another solve from, and to
read reduced costs off.

Any multipliers give a valid bound, so that what an earlier model left may be used for any other
one with the same variables; it is worth something where the same slaves or edges are still there.
What is kept of a slave are its whole dual costs theta (unary share + multipliers): after
``lam = theta - mean(theta)`` the old slaves stand where they stood, a new one begins at zero, and
what the unary costs have changed by is split evenly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gmlearn._utils.keys import match
from gmlearn.decompositions import Slaves, decompose
from gmlearn.decompositions.base import DualCosts
from gmlearn.master.dual import Dual
from gmlearn.model.crf import CRF
from gmlearn.slaves import ForestGroup, SlaveGroup
from gmlearn.slaves.choose import NoSolverError

if TYPE_CHECKING:
    from gmlearn.solvers.trws import GridLayout, GridMessages, PairwiseMessages


@dataclass(frozen=True)
class KeptMessages:
    """TRW-S messages of one pass.

    edges : int (E, 2).   values : the messages as the method stores them on a grid, with the layout
    that says where the edges are; else (E, L), and no layout.
    """

    edges: np.ndarray
    values: np.ndarray
    layout: GridLayout | None = None

    def rows(self) -> np.ndarray:
        """float (E, L): the message of each edge."""
        if self.layout is None:
            return self.values.copy()
        rows = self.values[self.layout.where]
        # two labels: the cost of label 1 minus that of label 0
        return rows if rows.ndim == 2 else np.maximum(rows[:, None] * [-1.0, 1.0], 0.0)

    def match(self, edges: np.ndarray, n_states: np.ndarray) -> np.ndarray:
        """`rows` (E', L) of other edges, 0 where they were not among these."""
        rows = self.rows()
        rows[~np.isfinite(rows)] = 0.0  # an inf would go on to forbid its label
        if np.array_equal(self.edges, edges):
            return rows
        old, new = (e.min(axis=1) * len(n_states) + e.max(axis=1) for e in (self.edges, edges))
        nothing = np.zeros((1, rows.shape[1]))
        return np.concatenate([rows, nothing])[match(old, new)]


@dataclass(frozen=True)
class SlaveCosts:
    """Dual costs of slaves.

    kept : what `Slaves.recall` reads.   decomposition : the one that made the slaves.
    """

    kept: DualCosts
    decomposition: Any

    @classmethod
    def of(cls, dual: Dual, decomposition: Any) -> SlaveCosts:
        return cls(dual.slaves.keep(dual.share + dual.lam, dual.prepared), decomposition)

    def match(self, slaves: Slaves) -> np.ndarray:
        """The costs (D',) of other slaves' dual variables, 0 where there were none."""
        return slaves.recall(self.kept)


@dataclass(frozen=True)
class Multipliers:
    """What a result keeps of its ascent: messages of TRW-S, dual costs of slaves, or both, for
    variables with `n_states` (V,).
    """

    n_states: np.ndarray
    messages: KeptMessages | None = None
    costs: SlaveCosts | None = None

    def restore(self, dual: Dual) -> bool:
        """Set the multipliers of `dual` from those of slaves on the same coordinates; False if
        there are none.
        """
        if self.costs is None:
            return False
        theta = self.costs.match(dual.slaves)
        dual.lam = dual.centred(theta)
        return bool(theta.any())


# ---------------------------------------------------------------------- from messages to slaves


def chains_from_messages(
    crf: CRF, w: Mapping[str, np.ndarray], messages: PairwiseMessages | GridMessages
) -> Dual:
    """The TRW-S state (after one more sweep) as multipliers of the chain slaves, without loss of
    bound.

    A chain has the messages along its own edges taken out at the variable they go to: lam = mean
    over chains - own. Only one direction is stored at a time, so the forward messages are read
    before the backward pass replaces them. Labels that a message rules out (inf) are forbidden in
    all chains. On grids the chains are the straight rows and columns, while TRW-S's own bend at the
    border: a little bound may be lost there until the messages have settled.
    """
    slaves = decompose(crf, "chains")
    dual = Dual(slaves, w)
    lam = np.zeros(len(dual.coords))
    for forward in (True, False):
        messages.half(forward)
        rows = messages.kept.rows()
        _take_out(lam[slaves.slices[0]], slaves.groups[0], crf.n_states, rows, not forward)
    out = np.bincount(dual.coords, np.isneginf(lam), slaves.n_coords) > 0
    dual.forbid(out)
    dual.lam = dual.centred(np.where(slaves.spread(out), 0.0, lam))
    return dual


def messages_of_edges(crf: CRF, w: Mapping[str, np.ndarray], kept: KeptMessages) -> np.ndarray:
    """What each edge gives to the labels of its ends, (D,), edge by edge, by messages of both
    directions; what it may take back without loss where TRW-S has settled.
    """
    from gmlearn.solvers.trws import make_messages

    messages = make_messages(crf, w, kept)
    edges = messages.edges
    given = np.zeros((len(edges), 2, int(crf.n_states.max())))
    for forward in (True, False):
        messages.half(forward)
        rows = messages.kept.rows()
        target = (edges[:, 0] < edges[:, 1]).astype(np.int64) ^ (not forward)
        given[np.arange(len(edges)), target, : rows.shape[1]] = rows
    has = np.arange(given.shape[2]) < crf.n_states[edges][:, :, None]
    return given[has]


def _take_out(
    lam: np.ndarray, forest: SlaveGroup, n_states: np.ndarray, rows: np.ndarray, to_lower: bool
) -> None:
    """Subtract each edge's message at the slot of the variable that it goes to."""
    assert isinstance(forest, ForestGroup)
    target = forest.edges.min(axis=1) if to_lower else forest.edges.max(axis=1)
    child = np.flatnonzero(forest.parent >= 0)
    edge = forest.pedge[child]
    slot = np.where(forest.variable[child] == target[edge], child, forest.parent[child])
    label = np.arange(rows.shape[1])
    has = label < n_states[target[edge]][:, None]
    lam -= np.bincount((forest.ptr[slot][:, None] + label)[has], rows[edge][has], len(lam))


# ---------------------------------------------------------------------- reduced costs


def reduced_costs(
    crf: CRF, w: Mapping[str, np.ndarray], kept: Multipliers | None, bound: float
) -> np.ndarray:
    """`Result.reduced_costs` (V, L) of a model whose ascent ended at `kept` with `bound`."""
    table = np.full((crf.n_vars, int(crf.n_states.max(initial=1))), np.inf)
    has = np.arange(table.shape[1]) < crf.n_states[:, None]
    table[has] = np.where(np.isfinite(crf.unary_costs(w)), 0.0, np.inf)
    try:
        dual = _kept_dual(crf, w, kept or Multipliers(crf.n_states))
    except NoSolverError:
        return table
    if bound < np.inf and dual.slaves.of_labels:
        current, reduced = dual.reduced_costs()
        # the bound may be rounded up, or proved in another way
        table[has] += np.maximum(reduced[: crf.n_coords] - (bound - current), 0.0)
    return table


def _kept_dual(crf: CRF, w: Mapping[str, np.ndarray], kept: Multipliers) -> Dual:
    """The slaves where an ascent left them; at zero multipliers where there was none."""
    from gmlearn.decompositions.forests import is_forest
    from gmlearn.solvers.trws import make_messages

    if kept.costs is None and kept.messages is not None:
        return chains_from_messages(crf, w, make_messages(crf, w, kept.messages))
    other = "trees" if is_forest(crf) else "auto"
    dual = Dual(decompose(crf, kept.costs.decomposition if kept.costs else other), w)
    kept.restore(dual)
    return dual
