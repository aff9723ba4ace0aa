"""What a decomposition returns: slave groups over shared coordinates, and the unary costs to
split among them.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from gmlearn._utils.keys import hashed, match
from gmlearn.model.crf import CRF
from gmlearn.potentials.base import Block
from gmlearn.potentials.ragged_block import RaggedBlock
from gmlearn.slaves import CliqueGroup, FreeGroup, SlaveGroup, SlaveResult
from gmlearn.slaves.base import Features
from gmlearn.slaves.choose import choose_solver
from gmlearn.slaves.elimination import c_strides
from gmlearn.slaves.junction_tree import dense_tables

_local = threading.local()
#: slaves of a group that hold most variables whose minimisers are offered as labellings
MAX_LARGE = 4


@contextmanager
def borrowed(size: int) -> Iterator[np.ndarray]:
    """A float array of this thread for the time of a `with`: fresh memory of that size costs more
    than to fill it.

    Whoever borrows meanwhile (a slave that solves a model of its own) gets another one.
    """
    buffer, _local.buffer = getattr(_local, "buffer", None), None
    if buffer is None or len(buffer) < size:
        buffer = np.empty(size)
    try:
        yield buffer[:size]
    finally:
        _local.buffer = buffer


@dataclass(frozen=True)
class SharedCliques:
    """Cliques of one shape that several slaves hold: their joint labels are coordinates, and their
    energies are costs of coordinates, which the slaves split.

    block : n cliques.   first : int (n,), the coordinate of each one's first joint label, last
        variable fastest.   shape : the numbers of states of a clique's variables.
    """

    block: Block
    first: np.ndarray
    shape: tuple[int, ...]

    @property
    def coords(self) -> np.ndarray:
        """int (n, joint labels)."""
        return self.first[:, None] + np.arange(math.prod(self.shape))

    def chosen(self, labels: np.ndarray) -> np.ndarray:
        """int (n,): the coordinates of the joint labels in a labelling (V,)."""
        members = labels[self.block.members].reshape(len(self.first), -1)
        return self.first + members @ c_strides(self.shape)


class DualCosts(NamedTuple):
    """Dual costs that are kept for other slaves.

    keys : uint64 (n,), see `Slaves.keys`; those of the slaves' own dual variables come first.
    theta : float (n,), the costs.
    """

    keys: np.ndarray
    theta: np.ndarray


class Slaves:
    """An energy covered by slave groups.

    A coordinate is one indicator that slaves must agree on; each dual variable of a group belongs
    to one. Here, for a CRF, the coordinates are the indicators [x_v = l], followed by those of the
    joint labels of shared cliques; a plugin with other coordinates overrides the methods below.

    Parameters
    ----------
    crf : the (augmented) model.
    groups : slave groups whose copies of every clique sum to the clique.
    n_coords : number of coordinates.
    shared : the cliques that several slaves hold.
    """

    def __init__(
        self,
        crf: CRF,
        groups: Sequence[SlaveGroup],
        n_coords: int | None = None,
        shared: Sequence[SharedCliques] = (),
    ):
        self.crf, self.groups, self.shared = crf, list(groups), list(shared)
        joint = sum(s.coords.size for s in self.shared)
        self.n_coords = crf.n_coords + joint if n_coords is None else n_coords
        #: coordinates of single labels, which come first
        self.n_labels = self.n_coords - joint

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
    def disjoint(self) -> bool:
        """Is no coordinate held by two slaves? Then there is nothing to agree on."""
        return bool((self.count <= 1).all())

    @cached_property
    def short_coords(self) -> np.ndarray:
        """`coords` in 32 bits, where they fit: these passes wait for memory, not for the
        processor. No sign, no test for one.
        """
        return self.coords.astype(np.uint32) if self.n_coords < 2**32 else self.coords

    def by_group(self, per_slave: np.ndarray | None) -> list[Any]:
        """Values (n_slaves,) group by group; None for each where there are none."""
        if per_slave is None:
            return [None] * len(self.groups)
        return np.split(per_slave, np.cumsum([g.n for g in self.groups])[:-1])

    @property
    def exact(self) -> bool:
        return all(g.exact for g in self.groups)

    @property
    def n_slaves(self) -> int:
        return sum(g.n for g in self.groups)

    # ------------------------------------------------------------------ what other coordinates (or

    def unary(self, w: Mapping[str, np.ndarray]) -> np.ndarray:
        """Costs of coordinates (n_coords,), to be split over the slaves that hold each: unary
        costs, and those of shared cliques.
        """
        costs = self.crf.unary_costs(w)
        joint = [dense_tables(s.block, s.shape, w).ravel() for s in self.shared]
        return np.concatenate([costs, *joint]) if joint else costs

    def unary_features(self, mean: np.ndarray) -> Features:
        """The gradient in w of <mean, unary(w)>, mean (n_coords,)."""
        total = self.crf.unary_features(mean[: self.crf.n_coords])
        for s in self.shared:
            joint = mean[s.coords].reshape(-1, *s.shape)
            for name, value in s.block.expected_features(joint).items():
                total[name] = total.get(name, 0.0) + value
        return total

    def constant(self, w: Mapping[str, np.ndarray]) -> float:
        """What no slave holds."""
        return self.crf.constant

    def mean(self, per_dual: np.ndarray) -> np.ndarray:
        """Average (n_coords,) of per-dual values (D,) over the copies of each coordinate."""
        if self.disjoint:
            out = np.zeros(self.n_coords)
            out[self.coords] = per_dual
            return out
        return np.bincount(self.coords, per_dual, self.n_coords) / np.maximum(self.count, 1.0)

    def spread(self, per_coord: np.ndarray) -> np.ndarray:
        """Per-coordinate values (n_coords,) at every dual variable, (D,)."""
        return per_coord[self.coords]

    # ------------------------------------------------------------------ the same without temporarie

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

    # ------------------------------------------------------------------ multipliers of other slaves

    @cached_property
    def sizes(self) -> np.ndarray:
        """int (n_slaves,): the dual variables of each slave."""
        return np.concatenate([np.zeros(0, np.int64), *(np.diff(g.indptr) for g in self.groups)])

    @cached_property
    def home(self) -> np.ndarray:
        """int (n_coords,): the joined model that each coordinate belongs to."""
        parts = self.crf.parts
        if len(parts) == 2:
            return np.zeros(self.n_coords, np.int64)
        home = [np.repeat(np.arange(len(parts) - 1), np.diff(self.crf.offsets[parts]))]
        for s in self.shared:
            home.append(np.repeat(part_of(s.block, parts), math.prod(s.shape)))
        return np.concatenate(home)

    @cached_property
    def slave_home(self) -> np.ndarray:
        """int (n_slaves,): the joined model that each slave belongs to."""
        home = np.zeros(len(self.sizes), np.int64)
        first = np.cumsum(self.sizes) - self.sizes
        home[self.sizes > 0] = self.home[self.coords[first[self.sizes > 0]]]
        return home

    @cached_property
    def label_keys(self) -> np.ndarray:
        """uint64 (n_labels,): a key of each label within its own joined model."""
        first = self.crf.offsets[self.crf.parts[:-1]] if len(self.crf.parts) > 2 else np.zeros(1)
        own = np.arange(self.n_labels) - first[self.home[: self.n_labels]]
        return hashed(own)

    @cached_property
    def slave_keys(self) -> np.ndarray:
        """uint64 (n_slaves,): a key of each slave, by its joined model and the single labels that
        it holds.
        """
        names = np.append(self.label_keys, np.uint64(0))
        own = names[np.minimum(self.coords, self.n_labels)]
        total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(own, dtype=np.uint64)])
        ends = np.cumsum(self.sizes)
        return hashed(total[ends] - total[ends - self.sizes]) ^ model_keys(self.slave_home)

    @cached_property
    def keys(self) -> np.ndarray:
        """uint64 (D,): a key of each dual variable, by its slave and its (joint) label, whatever
        other slaves and shared cliques there are.
        """
        joint = [joint_keys(s.block, s.shape, self.crf.parts).ravel() for s in self.shared]
        names = np.concatenate([self.label_keys, *joint])
        return np.repeat(self.slave_keys, self.sizes) ^ names[self.coords]

    def keep(self, theta: np.ndarray, prepared: Sequence[Any]) -> DualCosts:
        """The dual costs `theta` (D,) for other slaves to start from; `prepared` by the groups."""
        keys, costs = [self.keys], [theta]
        ends = np.cumsum([g.n for g in self.groups])
        for group, tables, end in zip(self.groups, prepared, ends):
            # a clique that a slave holds alone may be shared later: then it pays for all of it
            for block, part, _, at in getattr(group, "paid", ()):
                own = self.slave_keys[end - group.n + part.owner]
                joint = joint_keys(block, part.shape, self.crf.parts)
                keys.append((own[:, None] ^ joint).ravel())
                costs.append(tables[part.entries(at)].ravel())
        return DualCosts(np.concatenate(keys), np.concatenate(costs))

    def recall(self, kept: DualCosts) -> np.ndarray:
        """Dual costs (D,) that other slaves have kept, 0 where there were none."""
        theta = np.where(np.isfinite(kept.theta), kept.theta, 0.0)
        if np.array_equal(kept.keys[: len(self.coords)], self.keys):
            return theta[: len(self.coords)]
        return np.append(theta, 0.0)[match(kept.keys, self.keys)]

    def keep_each(self, theta: np.ndarray) -> list[DualCosts]:
        """The dual costs `theta` (D,) of each joined model, as it would keep them on its own."""
        home = self.home[self.coords]
        order = np.argsort(home, kind="stable")
        ends = np.searchsorted(home[order], np.arange(1, len(self.crf.parts) - 1))
        keys = (self.keys ^ model_keys(home))[order]
        return [
            DualCosts(*kept) for kept in zip(np.split(keys, ends), np.split(theta[order], ends))
        ]

    def recall_each(self, kept: Sequence[DualCosts | None]) -> np.ndarray:
        """Dual costs (D,) out of those that each joined model has kept, 0 where there are none."""
        own = [(k, *costs) for k, costs in enumerate(kept) if costs is not None]
        keys = [keys ^ model_keys(np.array([k])) for k, keys, _ in own]
        theta = [theta for _, _, theta in own]
        empty = DualCosts(np.zeros(0, np.uint64), np.zeros(0))
        return self.recall(
            DualCosts(np.concatenate([empty.keys, *keys]), np.concatenate([empty.theta, *theta]))
        )

    def carry(self, old: Slaves, lam: np.ndarray, w: Mapping[str, np.ndarray]) -> np.ndarray:
        """Multipliers (D,) that go on from the multipliers `lam` of other slaves of the same
        variables.

        A slave that holds the same labels as before keeps its whole dual costs (shares and
        multipliers), a new one starts with costs of zero, and the projection onto zero sums splits
        what is left over. So if all old slaves are still there and the new ones hold copies of
        their cliques, the bound is the same as before.
        """
        share = old.spread(old.unary(w) / np.maximum(old.count, 1.0))
        theta = self.recall(old.keep(share + lam, [g.prepare(w) for g in old.groups]))
        return theta - self.spread(self.mean(theta))

    # ------------------------------------------------------------------ slaves that come later

    def grow(self, mean: np.ndarray, theta: np.ndarray) -> Slaves | None:
        """Slaves to go on with where an ascent has come to rest; None: these are all.

        The ascent goes on from the multipliers that it has (see `carry`). So slaves may come in
        when they are needed, such as cycles that the relaxation cuts once, or larger windows where
        labels stay fractional. What comes in must cost nothing that is not taken from others.

        Parameters
        ----------
        mean : float (n_coords,), averages of the slaves' minimisers over many rounds: close to a
            solution of the relaxation.
        theta : float (D,), the present costs of all dual variables.
        """
        return None

    @property
    def grows(self) -> bool:
        """Does a subclass say which slaves come later?"""
        return type(self).grow is not Slaves.grow

    @property
    def of_labels(self) -> bool:
        """Are the first coordinates those of the labels [x_v = l]?"""
        return type(self).indicators is Slaves.indicators

    def indicators(self, labels: np.ndarray) -> np.ndarray:
        """The coordinates (n_coords,) of a labelling (V,)."""
        out = np.zeros(self.n_coords)
        out[self.crf.offsets[:-1] + labels] = 1.0
        for cliques in self.shared:
            out[cliques.chosen(labels)] = 1.0
        return out

    def proposals(self, results: Sequence[SlaveResult], mean: np.ndarray) -> list[np.ndarray]:
        """Labellings (V,) read off the slaves' minimisers: the label that most slaves chose
        (ties to the lowest), and this with the labels of each slave that holds most variables.
        """
        starts = self.crf.offsets[:-1]
        if len(starts) == 0:
            return [np.zeros(0, np.int64)]
        mean = mean[: self.crf.n_coords]
        if self.crf.uniform:
            most = mean.reshape(self.crf.n_vars, -1).argmax(axis=1)
        else:
            top = np.repeat(np.maximum.reduceat(mean, starts), self.crf.n_states)
            hit = np.flatnonzero(mean == top)
            most = hit[np.searchsorted(hit, starts)] - starts
        return [most, *self._large_minimisers(results, most)]

    def _large_minimisers(
        self, results: Sequence[SlaveResult], labels: np.ndarray
    ) -> Iterator[np.ndarray]:
        """`labels` with those of each slave that holds half of all labels or more (a few of each
        group), where they differ.
        """
        offsets, n = self.crf.offsets, self.crf.n_coords
        for group, result in zip(self.groups, results):
            for m in np.flatnonzero(2 * np.diff(group.indptr) >= n)[:MAX_LARGE]:
                mine = slice(group.indptr[m], group.indptr[m + 1])
                coords = group.coords[mine][result.ind[mine] > 0.5]
                coords = coords[coords < n]
                variable = np.searchsorted(offsets, coords, side="right") - 1
                x = labels.copy()
                x[variable] = coords - offsets[variable]
                if (x != labels).any():
                    yield x


class Decomposition(ABC):
    """A way to cover a model by slaves. Larger slaves give tighter bounds."""

    registry_kind: ClassVar[str] = "decomposition"
    name: ClassVar[str] = ""
    #: are the slaves of a joined model those of its parts? Then many small models cost one call
    joint: ClassVar[bool] = False

    def resolve(self, crf: CRF) -> Decomposition:
        """The decomposition that is used for the model: this one, or one that it chooses."""
        return self

    def resolve_each(self, crfs: Sequence[CRF]) -> list[Decomposition]:
        """The same for each of some models."""
        return [self.resolve(crf) for crf in crfs]

    def claims(self, crf: CRF) -> bool:
        """Should ``decomposition="auto"`` use this one for the model? Plugins with models of
        their own say yes.
        """
        return False

    @abstractmethod
    def decompose(self, crf: CRF, power: str | None = None) -> Slaves:
        """Slave groups whose copies of every clique of `crf` sum to the clique.

        Parameters
        ----------
        power : a power that every slave must have: None, "min_marginals" or "log_partition".
        """


def part_of(block: Block, parts: np.ndarray) -> np.ndarray:
    """int (M,): the joined model of each clique, by where the variables of each begin."""
    return np.searchsorted(parts, block.members[block.indptr[:-1]], side="right") - 1


def model_keys(number: np.ndarray) -> np.ndarray:
    """uint64: what the keys of slaves of the joined model of this number differ by; 0 for the
    first one, and so for a model on its own.
    """
    # not the keys of labels: these are combined with them
    return np.where(number > 0, hashed(number + 2**48), np.uint64(0))


def joint_keys(block: Block, shape: tuple[int, ...], parts: np.ndarray) -> np.ndarray:
    """uint64 (n, joint labels): a key of each joint label of cliques of one shape, by its scope
    within its joined model.
    """
    key = np.zeros((len(block), 1), np.uint64)
    members = block.members.reshape(len(block), -1) - parts[part_of(block, parts)][:, None]
    for column in members.T:
        key = hashed(key + column[:, None].astype(np.uint64))
    return hashed(key + np.arange(math.prod(shape), dtype=np.uint64))


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
    held = np.zeros(crf.n_coords, bool)
    for group in groups:
        held[group.coords[group.coords < crf.n_coords]] = True
    if crf.n_vars:
        held = np.logical_or.reduceat(held, crf.offsets[:-1])
    free = np.flatnonzero(~held)
    return [*groups, FreeGroup(free, crf.offsets)] if len(free) else groups


def split_by_part(variables: np.ndarray, parts: np.ndarray) -> list[np.ndarray]:
    """The cliques (n, k) of each part of a joined model, in the part's own variables."""
    if len(parts) == 2:
        return [variables]
    home = np.searchsorted(parts, variables[:, 0], side="right") - 1
    order = np.argsort(home, kind="stable")
    own = (variables - parts[home][:, None])[order]
    return np.split(own, np.searchsorted(home[order], np.arange(1, len(parts) - 1)))
