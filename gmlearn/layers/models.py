"""Models side by side, any of which can be taken as one joined model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from gmlearn._utils.ranges import ranges
from gmlearn.decompositions import resolve_each
from gmlearn.model.crf import CRF
from gmlearn.model.join import join
from gmlearn.model.weights import WeightLayout

#: labels of a model, in the mean, beyond which a look at each model costs nothing in comparison,
#: and a second copy of all of them much
SMALL_LABELS = 2**12


class Models:
    """Models of which batches are made: joined all at once where they are small, so that a batch of
    thousands needs no look at each one.

    Attributes
    ----------
    crfs : the models.   joint : bool (n,), may each share a batch?
    n_vars, n_coords, widest : int (n,), variables, labels of all variables, and most states of one.
    """

    def __init__(self, crfs: Sequence[CRF], decomposition: Any):
        self.crfs = list(crfs)
        self.joint = np.array([d.joint for d in resolve_each(self.crfs, decomposition)], bool)
        states = [crf.n_states for crf in self.crfs]
        self.n_vars = np.array([len(s) for s in states], np.int64)
        #: int (V,), of the variables of all models, and where those of each begin
        self.states = np.concatenate([np.zeros(0, np.int64), *states])
        self.first = np.concatenate([[0], np.cumsum(self.n_vars)])
        ends = np.concatenate([[0], np.cumsum(self.states)])[self.first]
        self.n_coords = np.diff(ends)
        self.widest = np.ones(len(states), np.int64)
        full = np.flatnonzero(self.n_vars)
        if len(full):
            self.widest[full] = np.maximum.reduceat(self.states, self.first[full])
        #: where the labels of each model begin
        self.first_label = ends[:-1]
        self.constants = np.array([crf.constant for crf in self.crfs])
        small = ends[-1] <= SMALL_LABELS * len(states)
        self.union = join(self.crfs) if small and self.joint.all() else None

    def __len__(self) -> int:
        return len(self.crfs)

    @cached_property
    def layout(self) -> WeightLayout:
        """Of the weights of all models."""
        given = self.crfs if self.union is None else [self.union]
        return WeightLayout.merged((b.segments() for c in given for b in c.blocks), "models")

    @cached_property
    def _begin(self) -> list[np.ndarray]:
        """For each block of the union int (n + 1,), where the cliques of each model begin."""
        assert self.union is not None
        found = []
        for block in self.union.blocks:
            home = np.searchsorted(self.first, block.members[block.indptr[:-1]], side="right") - 1
            found.append(np.searchsorted(home, np.arange(len(self) + 1)))
        return found

    def unary(self, numbers: np.ndarray) -> np.ndarray:
        """The models' own unary costs, one model after the other."""
        if self.union is None:
            return np.concatenate([self.crfs[k].unary for k in numbers.tolist()])
        return self.union.unary[ranges(self.first_label[numbers], self.n_coords[numbers])]

    def take(self, numbers: np.ndarray, unary: np.ndarray) -> CRF:
        """The union of the models of these numbers, in this order; repeats are allowed. Its costs
        are `unary` (n_coords,), and may be changed.
        """
        whole = self.union
        if whole is None:
            chosen = [self.crfs[k] for k in numbers.tolist()]
            union = chosen[0].copy() if len(chosen) == 1 else join(chosen)
            union.unary = unary
            return union
        sizes = self.n_vars[numbers]
        union = CRF(self.states[ranges(self.first[numbers], sizes)])
        union.parts = np.concatenate([[0], np.cumsum(sizes)])
        union.unary = unary
        union.constant = float(self.constants[numbers].sum())
        shift = union.parts[:-1] - self.first[numbers]
        for block, begin in zip(whole.blocks, self._begin):
            n = np.diff(begin)[numbers]
            if n.any():
                index = ranges(begin[numbers], n)
                union.blocks.append(block.select(index, np.repeat(shift, n)))
        return union
