r"""Sequential reweighted message passing (SRMP, Kolmogorov 2015) for cliques of any kind that have
min-marginals.

The energy is kept as :math:`\sum_v c_v(x_v) + \sum_q (h_q + \theta_q)(x_q)`. In its turn a variable
takes the min-marginals of its cliques, :math:`c_v \mathrel{+}= m_{qv}`, :math:`\theta_{qv}
\mathrel{-}= m_{qv}`, takes off its minimum (which the bound gains) and gives an equal share of the
rest to each clique that has a variable still to come. A pass in one order is followed by one in the
opposite order. For edges this is TRW-S.

Variables that share no clique take their turns at the same time, colour by colour, so that the
slaves work in batches; every sweep has its own order of the colours, which settles in fewer sweeps
than a fixed one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gmlearn.decompositions.base import Slaves
from gmlearn.master.dual import Dual
from gmlearn.slaves import CliqueGroup, FreeGroup


class Turn:
    """The cliques of one group that hold a variable of one colour, and which member it is."""

    def __init__(
        self,
        group: CliqueGroup,
        where: slice,
        first_row: int,
        member: np.ndarray,
        w: Mapping[str, np.ndarray],
        prepared: Any,
    ):
        self.group, self.prepared, self.member = group, prepared, member
        self.rows = slice(first_row, first_row + group.n)
        self.slots: slice | np.ndarray = where
        chosen = np.flatnonzero(member >= 0)
        if len(chosen) < group.n:
            size = np.diff(group.indptr)[chosen]
            step = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
            self.slots = where.start + np.repeat(group.indptr[chosen], size) + step
            self.rows, self.member = first_row + chosen, member[chosen]  # type: ignore[assignment]
            self.group = group.take(chosen)  # type: ignore[assignment]
            self.prepared = self.group.prepare(w)

    def marginals(self, theta: np.ndarray, out: np.ndarray) -> None:
        """Min-marginals of the members into the rows of `out`."""
        found = self.group.member_marginals(theta[self.slots], self.prepared, self.member)
        out[self.rows, : found.shape[1]] = found


class SequentialMessages:
    """The state of SRMP on slaves that are single cliques; see the module's formula.

    Parameters
    ----------
    slaves : of the decomposition "per-clique", all with min-marginals.
    w : weights.
    seed : of the orders of the colours.
    """

    locally_optimal = False
    earlier: np.ndarray | None = None

    def __init__(self, slaves: Slaves, w: Mapping[str, np.ndarray], seed: int = 0):
        from gmlearn._utils._sorting_numba import counting_order

        crf = slaves.crf
        groups = [
            (g, s) for g, s in zip(slaves.groups, slaves.slices) if isinstance(g, CliqueGroup)
        ]
        if len(groups) < sum(not isinstance(g, FreeGroup) for g in slaves.groups):
            raise ValueError(
                "decomposition: SRMP works with one slave per clique, decomposition='per-clique'"
            )
        self.slaves, self.offsets, self.rng = slaves, crf.offsets, np.random.default_rng(seed)
        self.costs, self.theta = slaves.unary(w).copy(), np.zeros(len(slaves.coords))
        self.taken, self.latest = 0.0, -1
        #: about how many table entries a sweep reads
        self.work = 2.0 * sum(g.cost("min_marginals") for g, _ in groups)
        rows = np.cumsum([0] + [g.n for g, _ in groups])
        var = [g.block.members for g, _ in groups]
        clique = [
            r + np.repeat(np.arange(g.n), np.diff(g.block.indptr))
            for (g, _), r in zip(groups, rows)
        ]
        slot = [s.start + g.ptr[:-1] for g, s in groups]
        self.inc_var, self.inc_clique = _joined(var), _joined(clique)
        self.inc_ptr, order = counting_order(self.inc_var, crf.n_vars)
        self.inc_var, self.inc_clique, self.inc_slot = (
            self.inc_var[order],
            self.inc_clique[order],
            _joined(slot)[order],
        )
        n_cliques = int(rows[-1])
        self.out = np.zeros((n_cliques, int(crf.n_states.max(initial=1))))
        self.first, self.last = np.zeros(n_cliques, np.int64), np.zeros(n_cliques, np.int64)
        self._set_turns(groups, rows, w)

    def _set_turns(
        self, groups: list[tuple[CliqueGroup, slice]], rows: np.ndarray, w: Mapping[str, np.ndarray]
    ) -> None:
        """Colour the variables, and find the cliques of each colour."""
        from gmlearn.slaves._colouring_numba import greedy_colouring

        self.colour = greedy_colouring(self.inc_clique, self.inc_ptr, len(self.out))
        n_colours = int(self.colour.max(initial=-1)) + 1
        self.variables = [np.flatnonzero(self.colour == c) for c in range(n_colours)]
        self.order = self.rng.permutation(n_colours)
        self.turns: list[list[Turn]] = [[] for _ in range(n_colours)]
        for k, (group, where) in enumerate(groups):
            prepared = group.prepare(w)
            clique = np.repeat(np.arange(group.n), np.diff(group.block.indptr))
            place = np.arange(len(clique)) - group.block.indptr[clique]
            colour = self.colour[group.block.members]
            for c in range(n_colours):
                member = np.full(group.n, -1)
                member[clique[colour == c]] = place[colour == c]
                if (member >= 0).any():
                    self.turns[c].append(Turn(group, where, int(rows[k]), member, w, prepared))

    def half(self, order: np.ndarray) -> float:
        """One pass over the colours in `order`; returns the bound."""
        from gmlearn.master._srmp_numba import ends_of_cliques, move_variables

        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        rank = rank[self.colour]
        ends_of_cliques(rank, self.inc_var, self.inc_clique, self.first, self.last)
        for c in order:
            for turn in self.turns[c]:
                if c == self.latest:  # its cliques gave all they had at the end of the last pass
                    self.out[turn.rows] = 0.0
                else:
                    turn.marginals(self.theta, self.out)
            self.latest = -1
            self.taken += move_variables(
                self.variables[c],
                rank,
                self.offsets,
                self.inc_ptr,
                self.inc_clique,
                self.inc_slot,
                self.first,
                self.last,
                self.out,
                self.theta,
                self.costs,
            )
            if self.taken == np.inf:
                break
        self.latest = int(order[-1]) if len(order) else -1
        return self.taken

    def sweep(self) -> float:
        """A pass in a new order, and one back; returns the bound.

        The first colour stays: its turn was the last one, and it need not ask its cliques again.
        """
        self.order = np.concatenate([self.order[:1], self.rng.permutation(self.order[1:])])
        bound = self.half(self.order)
        return bound if bound == np.inf else self.half(self.order[::-1])

    def decode(self, improve: bool = False) -> np.ndarray:
        """Labels fixed colour by colour, each with the min-marginals of its cliques given the
        labels before.
        """
        from gmlearn.master._srmp_numba import fix_variables

        labels, theta = np.zeros(len(self.offsets) - 1, np.int64), self.theta.copy()
        for c in self.order:
            for turn in self.turns[c]:
                turn.marginals(theta, self.out)
            fix_variables(
                self.variables[c],
                self.offsets,
                self.inc_ptr,
                self.inc_clique,
                self.inc_slot,
                self.out,
                theta,
                self.costs,
                labels,
            )
        return labels

    def dual(self, w: Mapping[str, np.ndarray]) -> Dual:
        """The state as multipliers of the same slaves, without loss of bound: what variables
        keep is split evenly.
        """
        dual = Dual(self.slaves, w)
        kept = self.slaves.spread(self.costs / np.maximum(self.slaves.count, 1.0))
        whole = self.theta + kept
        out = np.bincount(dual.coords, ~np.isfinite(whole), self.slaves.n_coords) > 0
        forbidden = self.slaves.spread(out)
        dual.forbid(out)
        with np.errstate(invalid="ignore"):
            dual.lam = dual.centred(np.where(forbidden, 0.0, whole - dual.share))
        return dual


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
