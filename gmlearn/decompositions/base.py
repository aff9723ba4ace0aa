"""What a decomposition returns: slave groups over shared coordinates, and the unary costs to split among them."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import ClassVar

import numpy as np

from gmlearn.model.crf import CRF
from gmlearn.potentials.base import Block, RaggedBlock
from gmlearn.slaves import CliqueGroup, ForestGroup, FreeGroup, SlaveGroup, SlaveResult
from gmlearn.slaves.base import Features
from gmlearn.slaves.choose import choose_solver

_local = threading.local()


@contextmanager
def borrowed(size: int) -> Iterator[np.ndarray]:
    """A float array of this thread for the time of a `with`: fresh memory of that size costs more than to fill it.

    Whoever borrows meanwhile (a slave that solves a model of its own) gets another one.
    """
    buffer, _local.buffer = getattr(_local, "buffer", None), None
    if buffer is None or len(buffer) < size:
        buffer = np.empty(size)
    try:
        yield buffer[:size]
    finally:
        _local.buffer = buffer


class Slaves:
    """An energy covered by slave groups.

    A coordinate is one indicator that slaves must agree on; each dual variable of a group belongs to one. Here, for a
    CRF, the coordinates are the indicators [x_v = l]; a plugin with other coordinates overrides the methods below.

    Parameters
    ----------
    crf : the (augmented) model.
    groups : slave groups that together hold every clique once.
    n_coords : number of coordinates.
    """

    def __init__(self, crf: CRF, groups: Sequence[SlaveGroup], n_coords: int | None = None):
        self.crf, self.groups = crf, list(groups)
        self.n_coords = crf.n_coords if n_coords is None else n_coords

    @cached_property
    def coords(self) -> np.ndarray:
        """int (D,): the coordinates of all groups' dual variables, one group after the other."""
        return (
            np.concatenate([g.coords for g in self.groups])
            if self.groups
            else np.zeros(0, np.int64)
        )

    @cached_property
    def slices(self) -> list[slice]:
        """Where each group's dual variables are."""
        ends = np.cumsum([len(g.coords) for g in self.groups])
        return [slice(int(e) - len(g.coords), int(e)) for e, g in zip(ends, self.groups)]

    @cached_property
    def count(self) -> np.ndarray:
        """float (n_coords,): how many slaves hold each coordinate."""
        return np.bincount(self.coords, minlength=self.n_coords).astype(float)

    @cached_property
    def short_coords(self) -> np.ndarray:
        """`coords` in 32 bits, where they fit: these passes wait for memory, not for the processor. No sign, no test for one."""
        return self.coords.astype(np.uint32) if self.n_coords < 2**32 else self.coords

    @property
    def exact(self) -> bool:
        return all(g.exact for g in self.groups)

    @property
    def n_slaves(self) -> int:
        return sum(g.n for g in self.groups)

    # ------------------------------------------------------------------ what other coordinates (or faster layouts) override

    def unary(self, w: Mapping[str, np.ndarray]) -> np.ndarray:
        """Unary costs (n_coords,) to be split over the slaves that hold each coordinate."""
        return self.crf.unary_costs(w)

    def unary_features(self, mean: np.ndarray) -> Features:
        """The gradient in w of <mean, unary(w)>, mean (n_coords,)."""
        return self.crf.unary_features(mean)

    def constant(self, w: Mapping[str, np.ndarray]) -> float:
        """What no slave holds."""
        return self.crf.constant

    def mean(self, per_dual: np.ndarray) -> np.ndarray:
        """Average (n_coords,) of per-dual values (D,) over the copies of each coordinate."""
        return np.bincount(self.coords, per_dual, self.n_coords) / np.maximum(self.count, 1.0)

    def spread(self, per_coord: np.ndarray) -> np.ndarray:
        """Per-coordinate values (n_coords,) at every dual variable, (D,)."""
        return per_coord[self.coords]

    # ------------------------------------------------------------------ the same without temporaries of size D

    def shift(self, per_coord: np.ndarray, per_dual: np.ndarray, out: np.ndarray) -> None:
        """out = spread(per_coord) + per_dual."""
        from gmlearn.decompositions._copies_numba import shift

        if type(self).spread is Slaves.spread:
            shift(per_coord, self.short_coords, per_dual, out)
        else:
            np.add(self.spread(per_coord), per_dual, out=out)

    def mean_of(self, results: Sequence[SlaveResult]) -> np.ndarray:
        """The mean indicators (n_coords,) of the groups' minimisers."""
        if type(self).mean is not Slaves.mean or any(r.chosen is None for r in results):
            return self.mean(np.concatenate([r.ind for r in results]) if results else np.zeros(0))
        from gmlearn.decompositions._copies_numba import count

        total = np.zeros(self.n_coords)
        for where, result in zip(self.slices, results):
            count(self.short_coords[where], result.chosen, total)
        return total / np.maximum(self.count, 1.0)

    def move(
        self, per_dual: np.ndarray, results: Sequence[SlaveResult], mean: np.ndarray, size: float
    ) -> None:
        """per_dual += size (ind - spread(mean)), in place."""
        if type(self).spread is not Slaves.spread or any(r.chosen is None for r in results):
            ind = np.concatenate([r.ind for r in results]) if results else np.zeros(0)
            per_dual += size * (ind - self.spread(mean))
            return
        from gmlearn.decompositions._copies_numba import move

        for where, result in zip(self.slices, results):
            move(per_dual[where], self.short_coords[where], size * mean, result.chosen, size)

    def indicators(self, labels: np.ndarray) -> np.ndarray:
        """The coordinates (n_coords,) of a labelling (V,)."""
        out = np.zeros(self.n_coords)
        out[self.crf.offsets[:-1] + labels] = 1.0
        return out

    def proposals(self, results: Sequence[SlaveResult], mean: np.ndarray) -> list[np.ndarray]:
        """Labellings (V,) read off the slaves' minimisers: the label that most slaves chose; ties to the lowest."""
        starts = self.crf.offsets[:-1]
        if len(starts) == 0:
            return [np.zeros(0, np.int64)]
        if self.crf.uniform:
            return [mean.reshape(self.crf.n_vars, -1).argmax(axis=1)]
        top = np.repeat(np.maximum.reduceat(mean, starts), self.crf.n_states)
        hit = np.flatnonzero(mean == top)
        return [hit[np.searchsorted(hit, starts)] - starts]


class Decomposition(ABC):
    """A way to cover a model by slaves. Larger slaves give tighter bounds."""

    registry_kind: ClassVar[str] = "decomposition"
    name: ClassVar[str] = ""

    def claims(self, crf: CRF) -> bool:
        """Should ``decomposition="auto"`` use this one for the model? Plugins with models of their own say yes."""
        return False

    @abstractmethod
    def decompose(self, crf: CRF, power: str | None = None) -> Slaves:
        """Slave groups that hold every clique of `crf` exactly once.

        Parameters
        ----------
        power : a power that every slave must have: None, "min_marginals" or "log_partition".
        """


def is_edge_block(block: Block) -> bool:
    """Does the block consist of plain edges, so that trees can hold it?"""
    return block.arity == 2 and not isinstance(block, RaggedBlock)


def clique_groups(crf: CRF, blocks: Sequence[Block], power: str | None) -> list[SlaveGroup]:
    """One group per block (ragged blocks: per solver's wish), a slave for each clique."""
    return [
        CliqueGroup(part, choose_solver(part, power), crf.offsets)
        for b in blocks
        for part in _solvable(b, power)
    ]


def _solvable(block: Block, power: str | None) -> list[Block]:
    """The block itself, or cliques of one size each where only such parts have a solver."""
    if not isinstance(block, RaggedBlock) or len(np.unique(block.sizes)) == 1:
        return [block]
    from gmlearn.slaves.choose import NoSolverError

    try:
        choose_solver(block, power)
        return [block]
    except NoSolverError:
        return [block.take(np.flatnonzero(block.sizes == size)) for size in np.unique(block.sizes)]


def with_free_variables(crf: CRF, groups: list[SlaveGroup]) -> list[SlaveGroup]:
    """Add a group for the variables that no slave holds."""
    held = np.zeros(crf.n_vars, bool)
    for group in groups:
        held[np.searchsorted(crf.offsets, group.coords, side="right") - 1] = True
    free = np.flatnonzero(~held)
    return [*groups, FreeGroup(free, crf.offsets)] if len(free) else groups


def forest_slaves(crf: CRF, assign, power: str | None) -> Slaves:
    """Trees over all edge blocks (tree ids by `assign(edges, n_vars)`), single cliques for the rest."""
    edge_blocks = [b for b in crf.clique_blocks if is_edge_block(b)]
    groups: list[SlaveGroup] = []
    if edge_blocks:
        tree = assign(np.concatenate([b.variables for b in edge_blocks]), crf.n_vars)
        groups.append(ForestGroup(edge_blocks, tree, int(tree.max()) + 1, crf.offsets))
    groups += clique_groups(crf, [b for b in crf.clique_blocks if not is_edge_block(b)], power)
    return Slaves(crf, with_free_variables(crf, groups))
