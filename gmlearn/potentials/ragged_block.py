"""Blocks whose cliques differ in size."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from gmlearn._utils.ranges import ranges
from gmlearn._utils.validation import check_array
from gmlearn.potentials.base import Block, Weights
from gmlearn.potentials.ragged import RaggedArrays


class RaggedBlock(Block):
    """Cliques of different sizes: labels and thetas come flat, member by member, with `indptr`.

    `energy` and `features` receive `x` (S,) and may use ``np.add.reduceat(..., self.indptr[:-1])``.
    """

    #: attributes with a leading S (one entry per member)
    per_member: ClassVar[tuple[str, ...]] = ()

    def __init__(self, cliques: Any):
        name = f"{type(self).__name__}.cliques"
        if type(cliques) is np.ndarray and cliques.ndim == 2:
            cliques = RaggedArrays(cliques.ravel(), np.full(len(cliques), cliques.shape[1]))
        try:
            parts = RaggedArrays.of(cliques)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}: expected a list of integer arrays ({error})") from None
        empty = np.flatnonzero(parts.sizes == 0)
        if empty.size:
            raise ValueError(f"{name}: clique {int(empty[0])} is empty")
        self._members = check_array(name, parts.values, dtype=np.int64)
        self._indptr = np.concatenate([[0], np.cumsum(parts.sizes)]).astype(np.int64)
        self.states = None  # type: ignore[assignment]  # known once bound

    @property
    def members(self) -> np.ndarray:
        return self._members

    @property
    def indptr(self) -> np.ndarray:
        return self._indptr

    @property
    def sizes(self) -> np.ndarray:
        """int (M,): members of each clique."""
        return np.diff(self._indptr)

    @property
    def owner(self) -> np.ndarray:
        """int (S,): the clique of each member."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @property
    def arity(self) -> int:
        return int(self.sizes.max(initial=0))

    def __len__(self) -> int:
        return len(self._indptr) - 1

    def _check_distinct(self) -> None:
        n = int(self._members.max(initial=0)) + 1
        ordered = np.sort(self.owner * np.int64(n) + self._members)
        twice = np.flatnonzero(ordered[1:] == ordered[:-1])
        if twice.size:
            clique = int(ordered[twice[0]] // n)
            raise ValueError(f"{self}: clique {clique} names a variable twice")

    @property
    def cliques(self) -> RaggedArrays:
        return RaggedArrays(self._members, self.sizes)

    def take(self, index: Any) -> Self:
        index = np.atleast_1d(np.arange(len(self))[index])
        part = copy.copy(self)
        sizes = self.sizes[index]
        part._indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        where = ranges(self._indptr[index], sizes)
        part._members = self._members[where]
        for attribute, cut in [
            *((a, index) for a in ("gradient_start", *self.per_clique)),
            *((a, where) for a in ("states", *self.per_member)),
        ]:
            value = getattr(self, attribute)
            if value is not None:
                setattr(part, attribute, value[cut])
        return part

    @property
    def _joined(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("_members", "_indptr", "states", "gradient_start", *self.per_member)

    def join(self, blocks: Sequence[Block], shifts: Sequence[int]) -> Block:
        whole = copy.copy(self)
        for name in (*self._joined, *self.per_clique):
            if getattr(self, name) is not None:
                setattr(whole, name, np.concatenate([getattr(b, name) for b in blocks]))
        whole._members = whole._members + np.repeat(shifts, [len(b.members) for b in blocks])
        sizes = np.concatenate([np.diff(b.indptr) for b in blocks])
        whole._indptr = np.concatenate([[0], np.cumsum(sizes)])
        return whole

    def select(self, index: np.ndarray, shift: np.ndarray) -> Self:
        part = self.take(index)
        part._members = part._members + np.repeat(shift, part.sizes)
        return part

    def gather(self, x: np.ndarray) -> np.ndarray:
        return x[self._members]

    def shape_members(self, per_member: np.ndarray) -> np.ndarray:
        return per_member

    def dense(self, w: Weights) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same for cliques of one size."""
        if len(np.unique(self.sizes)) > 1:
            raise ValueError(
                f"{self}: cliques of different sizes have no common table; take cliques of one size"
            )
        return super().dense(w)
