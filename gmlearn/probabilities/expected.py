"""Naive mean field on models some of whose cliques are too large for tables: these blocks know the
expected energies of independent members (`Block.expected_energy`).
"""

from __future__ import annotations

import numpy as np

from gmlearn.model.crf import CRF
from gmlearn.model.factors import FactorGraph, table_entries
from gmlearn.potentials.base import MAX_TABLE_ENTRIES, Block
from gmlearn.probabilities.method import MarginalProblem

#: groups of variables that move one after the other; with more, several colours move at once
MOST_GROUPS = 64


def open_blocks(crf: CRF) -> list[Block]:
    """The cliques without tables: the larger ones if not all fit, of those that need none."""
    found = [b for b in crf.clique_blocks if b.table_size() > MAX_TABLE_ENTRIES]
    left = [b for b in crf.clique_blocks if not any(b is c for c in found)]
    entries = table_entries(crf) - sum(Block.form_size(b) for b in found)
    for block in sorted(left, key=Block.form_size, reverse=True):
        if entries > MAX_TABLE_ENTRIES and block.expected_energy is not None:
            found.append(block)
            entries -= Block.form_size(block)
    return found


def softmax(costs: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """exp(-costs) of each variable, normalised; NaN where all its labels cost inf."""
    states = np.diff(offsets)
    with np.errstate(invalid="ignore"):
        p = np.exp(np.repeat(np.minimum.reduceat(costs, offsets[:-1]), states) - costs)
        return p / np.repeat(np.add.reduceat(p, offsets[:-1]), states)


class Expectations:
    """Expected costs over T of a model under independent variables with probabilities q."""

    def __init__(self, problem: MarginalProblem):
        crf, self.w, self.temperature = problem.crf, problem.w, problem.temperature
        self.crf, self.open = crf, open_blocks(crf)
        rest = [b for b in crf.clique_blocks if not any(b is c for c in self.open)]
        self.tables = FactorGraph.of(crf, problem.w, rest).tables(problem.temperature)
        self.digits = np.zeros(self.tables.arity, np.int64)
        #: where the labels of a block's members stand, (S, L), and which exist
        self.places = []
        for block in self.open:
            label = np.arange(block.max_states)
            last = block.member_states[:, None] - 1
            at = crf.offsets[block.members][:, None] + np.minimum(label, last)
            self.places.append((at, label <= last))

    def fields(self, q: np.ndarray) -> np.ndarray:
        """float (n_coords,): the expected cost of everything around each label."""
        from gmlearn.probabilities._fields_numba import all_fields

        out = np.empty(len(q))
        all_fields(self.tables, np.ones(len(self.tables.start), bool), q, out, self.digits)
        for (at, exists), field in zip(self.places, self._open_fields(q)):
            np.add.at(out, at[exists], field[exists])
        return out

    def _open_fields(self, q: np.ndarray) -> list[np.ndarray]:
        """float (S, L) of each block without tables."""
        found = []
        for block, (at, exists) in zip(self.open, self.places):
            given = block.shape_members(np.where(exists, q[at], 0.0))
            found.append(block.expected_energy(given, self.w).reshape(at.shape) / self.temperature)
        return found

    def bound(self, q: np.ndarray) -> float:
        """The lower bound of log Z that q gives, without the model's constant."""
        from gmlearn.probabilities._fields_numba import expected_costs

        used = np.ones(len(self.tables.start), bool)
        total = expected_costs(self.tables, used, q, self.digits)
        total += float(np.where(q > 0, self.tables.unary, 0.0) @ q)
        for block, (at, exists), field in zip(self.open, self.places, self._open_fields(q)):
            first = block.indptr[:-1]
            own = np.where(exists, q[at], 0.0)[first]
            total += float((own * np.where(own > 0, field[first], 0.0)).sum())
        return -total - float((q * np.log(np.where(q > 0, q, 1.0))).sum())

    def groups(self) -> tuple[list[np.ndarray], bool]:
        """Masks (n_coords,) of variables that move together, and whether none of them share a
        clique: then no step lowers the bound.
        """
        from gmlearn._utils._sorting_numba import counting_order
        from gmlearn.slaves._colouring_numba import greedy_colouring

        crf = self.crf
        members = np.concatenate([np.zeros(0, np.int64), *(b.members for b in crf.clique_blocks)])
        sizes = np.concatenate([np.zeros(0, int), *(np.diff(b.indptr) for b in crf.clique_blocks)])
        ptr, slots = counting_order(members, crf.n_vars)
        clique = np.repeat(np.arange(len(sizes)), sizes)[slots]
        colour = greedy_colouring(clique, ptr, max(len(sizes), 1))
        apart = int(colour.max()) < MOST_GROUPS
        masks = [
            np.repeat(colour % MOST_GROUPS == c, crf.n_states)
            for c in range(min(int(colour.max()) + 1, MOST_GROUPS))
        ]
        return masks, apart


def naive_without_tables(
    problem: MarginalProblem, expectations: Expectations, q: np.ndarray, limit: int
) -> tuple[tuple[float, np.ndarray], int]:
    """Coordinate ascent from `q`: ((bound, marginals), passes)."""
    masks, apart = expectations.groups()
    bound, passes = expectations.bound(q), 0
    while passes < limit and problem.time_left > 0:
        passes += 1
        before = bound
        for mine in masks:
            target = softmax(expectations.fields(q), problem.crf.offsets)
            target = np.where(mine & ~np.isnan(target), target, q)
            # towards the target the bound rises first: variables of one clique share a step
            for step in (1.0,) if apart else (1.0, 0.25, 0.06, 0.015):
                trial = (1 - step) * q + step * target
                value = bound if apart else expectations.bound(trial)
                if value >= bound:
                    q, bound = trial, value
                    break
        bound = expectations.bound(q)
        if not bound > before + 1e-9 * max(1.0, abs(bound)):
            break
    return (bound, q), passes
