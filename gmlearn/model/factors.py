"""A model at fixed weights as flat arrays of tables: what compiled kernels and linear programs
read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gmlearn.model.crf import CRF
from gmlearn.potentials.base import Block
from gmlearn.potentials.ragged_block import RaggedBlock


class Tables(NamedTuple):
    """The arrays of a `FactorGraph`, as compiled kernels take them, with the places of each
    variable.

    ptr, slots : the places in `scope` where each variable stands.   owner : the clique of each
        place.
    """

    offsets: np.ndarray
    unary: np.ndarray
    indptr: np.ndarray
    scope: np.ndarray
    stride: np.ndarray
    start: np.ndarray
    scale: np.ndarray
    values: np.ndarray
    ptr: np.ndarray
    slots: np.ndarray
    owner: np.ndarray

    @property
    def arity(self) -> int:
        """The most variables of a clique, at least 1."""
        return int(np.diff(self.indptr).max(initial=1))


@dataclass(frozen=True)
class FactorGraph:
    """Cliques as tables: clique f costs ``scale[f] * values[start[f] + sum_i x[scope_i] *
    stride_i]``.

    offsets : int (V + 1,), first coordinate of each variable.   unary : float (n_coords,), the
    model's own where nothing is learnt: not to be changed.
    indptr, scope, stride : the cliques' variables, flat, with the step of each label in the table.
    """

    offsets: np.ndarray
    unary: np.ndarray
    indptr: np.ndarray
    scope: np.ndarray
    stride: np.ndarray
    start: np.ndarray
    scale: np.ndarray
    values: np.ndarray

    @classmethod
    def of(
        cls, crf: CRF, w: Mapping[str, np.ndarray], chosen: Sequence[Block] | None = None
    ) -> FactorGraph:
        """Tables of all clique blocks, or of the chosen ones; raises ValueError where a block is
        too large to write out.
        """
        blocks = blocks_by_size(crf, chosen)
        nothing = np.zeros(0, np.int64)
        none = nothing, nothing, nothing, np.zeros(0), np.zeros(0)
        parts, sizes, begin = [], [nothing], 0
        for block in blocks:
            first, step, factor, table = _factors(block, w)
            parts.append((block.members, step, first + begin if begin else first, factor, table))
            sizes.append(np.full(len(block), block.arity))
            begin += len(table)
        indptr = np.zeros(1 + sum(map(len, sizes)), np.int64)
        np.cumsum(np.concatenate(sizes), out=indptr[1:])
        return cls(
            crf.offsets,
            crf.unary_costs(w) if crf.unary_blocks else crf.unary,
            indptr,
            # a single block's own arrays are not copied unless kernels would be compiled for them
            *(map(_joined, zip(*(parts or [none])))),
        )

    @property
    def n_vars(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_factors(self) -> int:
        return len(self.start)

    @cached_property
    def n_states(self) -> np.ndarray:
        return np.diff(self.offsets)

    @cached_property
    def adjacency(self) -> tuple[np.ndarray, np.ndarray]:
        """(ptr, slots): the places in `scope` where each variable stands."""
        from gmlearn._utils._sorting_numba import counting_order

        return counting_order(self.scope, self.n_vars)

    @cached_property
    def owner(self) -> np.ndarray:
        """int (S,): the clique of each place in `scope`."""
        return np.repeat(np.arange(self.n_factors), np.diff(self.indptr))

    def tables(self, divisor: float = 1.0, forbidden: float = np.inf) -> Tables:
        """The graph's arrays for kernels: costs over `divisor`, infinite ones as `forbidden`."""

        def costs(own: np.ndarray) -> np.ndarray:
            scaled = own if divisor == 1.0 else own / divisor
            hard = np.isposinf(scaled)
            return np.where(hard, forbidden, scaled) if hard.any() else scaled

        return Tables(
            self.offsets,
            costs(self.unary),
            self.indptr,
            self.scope,
            self.stride,
            self.start,
            self.scale,
            costs(self.values),
            *self.adjacency,
            self.owner,
        )

    @cached_property
    def table_sizes(self) -> np.ndarray:
        """float (F,): joint states of each clique."""
        if self.n_factors == 0:
            return np.zeros(0)
        return np.multiply.reduceat(self.n_states[self.scope].astype(float), self.indptr[:-1])

    def energy(self, x: np.ndarray) -> float:
        """The energy of labels x (V,)."""
        at = self.start + np.bincount(
            self.owner, x[self.scope] * self.stride, self.n_factors
        ).astype(np.int64)
        return float(self.unary[self.offsets[:-1] + x].sum() + (self.scale * self.values[at]).sum())

    def table(self, f: int) -> np.ndarray:
        """The table of one clique as an array with one axis per variable."""
        lo, hi = self.indptr[f], self.indptr[f + 1]
        shape = self.n_states[self.scope[lo:hi]]
        index = self.start[f] + sum(
            np.arange(n).reshape((-1,) + (1,) * (hi - lo - 1 - i)) * self.stride[lo + i]
            for i, n in enumerate(shape.tolist())
        )
        return self.scale[f] * self.values[index]


def table_entries(crf: CRF) -> float:
    """Entries of all cliques' tables, if they were written out."""
    return float(sum(Block.form_size(b) for b in crf.clique_blocks))


def blocks_by_size(crf: CRF, chosen: Sequence[Block] | None = None) -> list[Block]:
    """The (chosen) cliques of a model in the order of its `FactorGraph`: ragged blocks are split
    by clique size.
    """
    parts: list[Block] = []
    for block in crf.clique_blocks if chosen is None else chosen:
        if isinstance(block, RaggedBlock):
            parts += [
                block.take(np.flatnonzero(block.sizes == size)) for size in np.unique(block.sizes)
            ]
        else:
            parts.append(block)
    return parts


def _joined(arrays: tuple[np.ndarray, ...]) -> np.ndarray:
    return np.concatenate(arrays) if len(arrays) > 1 else np.require(arrays[0], None, ["C", "W"])


def _factors(
    block: Block, w: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(start (M,), stride (S,), scale (M,), values) of one block."""
    if block.arity == 2 and not isinstance(block, RaggedBlock):
        form = block.pairwise(w)
        stride = np.ones((len(block), 2), np.int64)
        stride[:, 0] = form.stride
        return form.start, stride.ravel(), form.scale, form.values
    values, start, stride = block.dense(w)
    return start, stride.ravel(), np.ones(len(block)), values
