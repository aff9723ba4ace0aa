"""Slaves that are whole sub-hypergraphs of small induced width, solved by variable elimination.

Eliminating the variables of a slave in a good order joins its cliques to tables whose separators
form a junction tree (Lauritzen and Spiegelhalter 1988). One pass over it gives the minimum, a
second one min-marginals; with sums of exponentials, log Z and marginals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gmlearn._utils.ranges import ranges
from gmlearn.potentials.base import Block
from gmlearn.potentials.ragged_block import RaggedBlock
from gmlearn.slaves.base import Features, SlaveGroup, SlaveResult, SoftResult
from gmlearn.slaves.elimination import (
    MAX_TABLE,
    MAX_TOTAL,
    Cliques,
    Order,
    Program,
    c_strides,
    elimination_order,
    one_after_the_other,
    program_of,
)


def by_shape(block: Block) -> Iterator[tuple[np.ndarray, np.ndarray, tuple[int, ...]]]:
    """(index (n,), variables (n, k), numbers of states) of the cliques of each shape."""
    sizes = np.diff(block.indptr)
    for k in np.unique(sizes).tolist():
        index = np.flatnonzero(sizes == k)
        member = ranges(block.indptr[index], sizes[index])
        variables = block.members[member].reshape(-1, k)
        states = block.member_states[member].reshape(-1, k)
        shapes, which = states[:1], np.zeros(len(index), np.int64)
        if (states != shapes).any():
            shapes, which = np.unique(states, axis=0, return_inverse=True)
        for i, shape in enumerate(shapes.tolist()):
            of_shape = which.ravel() == i
            yield index[of_shape], variables[of_shape], tuple(shape)


def pair_tables(costs: Any, shape: tuple[int, ...], edge: Any = slice(None)) -> np.ndarray:
    """Costs (n, joint labels) of some edges of one shape, out of a pool like `PairwiseForm`."""
    a, b = np.indices(shape).reshape(2, -1)
    index = costs.start[edge][:, None] + costs.stride[edge][:, None] * a + b
    return costs.scale[edge][:, None] * costs.values[index]


def dense_tables(block: Block, shape: tuple[int, ...], w: Mapping[str, np.ndarray]) -> np.ndarray:
    """Energies (n, joint labels) of cliques of one shape."""
    if block.arity == 2 and not isinstance(block, RaggedBlock):
        return pair_tables(block.pairwise(w), shape)
    return block.table(w)[(slice(None), *map(slice, shape))].reshape(len(block), math.prod(shape))


@dataclass(frozen=True)
class Part:
    """Cliques of one shape inside the slaves of a `JunctionTreeGroup`.

    owner : int (n,), ascending, the slave of each.   position : int (n, k), where its variables
        stand in that slave.   shape : the numbers of states of a clique's variables.
    block : the n cliques, where the slaves pay for them.   joint : int (n,), instead, the first
        coordinate of the joint labels of cliques that several slaves hold: their costs are dual
        costs.
    """

    owner: np.ndarray
    position: np.ndarray
    shape: tuple[int, ...]
    block: Block | None = None
    joint: np.ndarray | None = None

    @property
    def size(self) -> int:
        """Joint labels of one clique."""
        return math.prod(self.shape)

    def entries(self, begin: np.ndarray) -> np.ndarray:
        """int (n, joint labels): where all entries of tables are that `begin` (n,) at."""
        return begin[:, None] + np.arange(self.size)

    @property
    def number(self) -> np.ndarray:
        """int (n,): each clique's number among those in the same slave."""
        return np.arange(len(self.owner)) - np.searchsorted(self.owner, self.owner)

    def take(self, index: np.ndarray) -> Part:
        """The cliques inside the slaves at `index`, which are renumbered."""
        low = np.searchsorted(self.owner, index)
        count = np.searchsorted(self.owner, index, side="right") - low
        where = ranges(low, count)
        return Part(
            np.repeat(np.arange(len(index)), count),
            self.position[where],
            self.shape,
            None if self.block is None else self.block.take(where),
            None if self.joint is None else self.joint[where],
        )


class JunctionTreeGroup(SlaveGroup):
    """Sub-hypergraphs, minimised by variable elimination. O(entries of the joined tables).

    A slave has a slot for each of its variables and then one for each clique that it shares with
    other slaves: the label of such a slot is the clique's joint label. Structures that occur more
    than once are planned once.

    Parameters
    ----------
    sets : list of int arrays, the variables of each slave.
    parts : the cliques inside them.
    offsets : int (V + 1,), first coordinate of each variable.
    """

    own_temperatures = True
    weighs_marginals = True

    def __init__(
        self,
        sets: Sequence[np.ndarray],
        parts: Sequence[Part],
        offsets: np.ndarray,
    ):
        self.sets = list(sets)
        self.parts = list(parts)
        self.offsets = offsets
        self.n = len(sets)
        sizes = np.array([len(s) for s in sets], np.int64)
        filled, entries = sizes.copy(), np.zeros(self.n, np.int64)
        place = []  # of each part's cliques in their slave: slots, or positions in its tables
        for part in self.parts:
            taken, size = (entries, part.size) if part.joint is None else (filled, 1)
            place.append(taken[part.owner] + part.number * size)
            taken += np.bincount(part.owner, minlength=self.n) * size
        self.table_ptr = np.concatenate([[0], np.cumsum(entries)])
        self.slot_ptr = np.concatenate([[0], np.cumsum(filled)])
        self.members = [self.slot_ptr[p.owner][:, None] + p.position for p in self.parts]
        self.place = [
            place + (self.table_ptr if p.joint is None else self.slot_ptr)[p.owner]
            for p, place in zip(self.parts, place)
        ]
        first, states = np.empty((2, int(self.slot_ptr[-1])), np.int64)
        variable = ranges(self.slot_ptr[:-1], sizes)
        names = np.concatenate([*sets, np.zeros(0, np.int64)])
        first[variable], states[variable] = offsets[names], np.diff(offsets)[names]
        for p, slot in zip(self.parts, self.place):
            if p.joint is not None:
                first[slot], states[slot] = p.joint, p.size
        #: int (S,): the states of each slot, 1 where its label follows from others
        self.free_states = np.ones(len(states), np.int64)
        self.free_states[variable] = states[variable]
        self.ptr = np.concatenate([[0], np.cumsum(states)])
        self.coords = ranges(first, states)
        self.owner = np.repeat(np.repeat(np.arange(self.n), filled), states)
        self.theta_ptr = self.ptr[self.slot_ptr]

    @cached_property
    def plan(self) -> tuple[Program, np.ndarray]:
        """An elimination for each distinct structure among the slaves, and which one (M,) each
        slave follows; a ValueError if the tables of a slave pass `MAX_TABLE` or `MAX_TOTAL`
        entries.
        """
        bounds = [np.searchsorted(p.owner, np.arange(self.n + 1)) for p in self.parts]
        known: dict[tuple[bytes, ...], int] = {}
        structure, programs = np.empty(self.n, np.int64), []
        for m in range(self.n):
            states = self.free_states[self.slot_ptr[m] :][: len(self.sets[m])]
            cliques = [slice(b[m], b[m + 1]) for b in bounds]
            positions = [p.position[c] for p, c in zip(self.parts, cliques)]
            key = (states.tobytes(), *(p.tobytes() for p in positions))
            if key not in known:
                known[key] = len(known)
                tables = self._cliques(m, cliques)
                order = self._order(m, states, tables)
                given = self.theta_ptr[m + 1] - self.theta_ptr[m]
                given += self.table_ptr[m + 1] - self.table_ptr[m]
                programs.append(program_of(order.variables, states, tables, int(given)))
            structure[m] = known[key]
        if not programs:
            nothing = np.zeros(0, np.int64)
            programs.append(
                program_of(nothing, nothing, Cliques(np.zeros(1, np.int64), *[nothing] * 3), 0)
            )
        return one_after_the_other(programs), structure

    def cost(self, power: str = "minimise") -> float:
        program, structure = self.plan
        entries = np.concatenate([[0.0], np.cumsum(program.rest * program.states)])
        return float(np.diff(entries[program.step_ptr])[structure].sum())

    def _order(self, m: int, states: np.ndarray, cliques: Cliques) -> Order:
        """An order of elimination of slave m, if there is one within the limits."""
        order = elimination_order(cliques.indptr, cliques.slots, states)
        if order is not None:
            return order
        order = elimination_order(cliques.indptr, cliques.slots, states, np.inf, np.inf)
        assert order is not None
        raise ValueError(
            f"sets: the set of {len(states)} variables that begins with "
            f"{self.sets[m][:5].tolist()} has an induced width of {order.width}, a table of "
            f"{order.largest:.3g} entries and {order.entries:.3g} in all (limits "
            f"{MAX_TABLE:.3g} and {MAX_TOTAL:.3g}); use smaller sets"
        )

    def _cliques(self, m: int, cliques: list[slice]) -> Cliques:
        """The tables of slave m: costs of its variables' labels and of its cliques' joint labels,
        among its dual costs, and the cliques that it pays for, behind them.
        """
        begin, n = self.theta_ptr[m], len(self.sets[m])
        sizes, slots = [np.ones(n, np.int64)], [np.arange(n)]
        at, strides = [self.ptr[self.slot_ptr[m] :][:n] - begin], [np.ones(n, np.int64)]
        for p, c, place in zip(self.parts, cliques, self.place):
            count, arity = p.position[c].shape
            sizes.append(np.full(count, arity))
            slots.append(p.position[c].ravel())
            strides.append(np.tile(c_strides(p.shape), count))
            if p.joint is None:
                at.append(place[c] + self.theta_ptr[m + 1] - begin - self.table_ptr[m])
            else:
                at.append(self.ptr[place[c]] - begin)
        indptr = np.concatenate([[0], *sizes]).cumsum()
        return Cliques(indptr, *map(np.concatenate, (slots, at, strides)))

    @property
    def paid(self) -> Iterator[tuple[Block, Part, np.ndarray, np.ndarray]]:
        """(block, part, member slots, where its tables begin) of the cliques that the slaves pay
        for.
        """
        for p, members, place in zip(self.parts, self.members, self.place):
            if p.block is not None:
                yield p.block, p, members, place

    @property
    def blocks(self) -> list[Block]:
        """The cliques that the slaves pay for."""
        return [block for block, *_ in self.paid]

    def prepare(self, w: Mapping[str, np.ndarray]) -> np.ndarray:
        tables = np.empty(int(self.table_ptr[-1]))
        for block, part, _, at in self.paid:
            tables[part.entries(at)] = dense_tables(block, part.shape, w)
        return tables

    def solve(self, theta: np.ndarray, prepared: np.ndarray) -> SlaveResult:
        from gmlearn.slaves._elimination_numba import minimise

        labels, value = np.zeros(int(self.slot_ptr[-1]), np.int64), np.empty(self.n)
        minimise(*self._given(theta, prepared), self.slot_ptr, labels, value)
        labels = self.complete(labels)
        return SlaveResult(None, value, labels, self.ptr[:-1] + labels, len(self.coords))

    def _given(self, theta: np.ndarray, prepared: np.ndarray) -> tuple:
        """What the compiled kernels take first."""
        return *self.plan, theta, self.theta_ptr, prepared, self.table_ptr

    def complete(self, labels: np.ndarray) -> np.ndarray:
        """Slot labels (S,) with the joint labels of shared cliques that follow from the others."""
        labels = labels.copy()
        for part, members, slot in zip(self.parts, self.members, self.place):
            if part.joint is not None:
                labels[slot] = labels[members] @ c_strides(part.shape)
        return labels

    def features(self, result: SlaveResult) -> Features:
        return self.weighted_features(result, None)

    def weighted_features(self, result: SlaveResult, weight: np.ndarray | None) -> Features:
        return sum_features(
            b.features(_shaped(b, result, at), *(() if weight is None else (weight[part.owner],)))
            for b, part, at, _ in self.paid
        )

    def slave_features(self, result: SlaveResult) -> Features:
        return sum_features(
            b.features_by(_shaped(b, result, at), part.owner, self.n)
            for b, part, at, _ in self.paid
        )

    def take(self, index: np.ndarray) -> SlaveGroup:
        some = JunctionTreeGroup(
            [self.sets[i] for i in index], [p.take(index) for p in self.parts], self.offsets
        )
        program, structure = self.plan
        some.plan = program, structure[index]
        return some

    def min_marginals(self, theta: np.ndarray, prepared: np.ndarray) -> np.ndarray:
        """For each dual variable the minimum of its slave with that (joint) label fixed, (D,)."""
        from gmlearn.slaves._elimination_numba import min_marginals

        out = np.empty(len(theta))
        min_marginals(*self._given(theta, prepared), out, np.empty(len(prepared)))
        return out

    def _marginals(
        self, theta: np.ndarray, prepared: np.ndarray, temperature: float | np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Soft minima (M,), marginals (D,), and those of all table entries."""
        from gmlearn.slaves._elimination_soft_numba import soft_marginals

        out = np.empty(self.n), np.empty(len(theta)), np.empty(len(prepared))
        each = np.full(self.n, temperature, float)
        soft_marginals(*self._given(theta, prepared), each, *out)
        return out

    def log_partition(
        self,
        theta: np.ndarray,
        prepared: np.ndarray,
        temperature: float | np.ndarray,
        weight: np.ndarray | None = None,
    ) -> SoftResult:
        """Soft minima, marginals and expected features at a temperature, or at one for each slave
        (M,); the features of each slave with its factor `weight` (M,).
        """
        value, out, joint = self._marginals(theta, prepared, temperature)
        holder = np.repeat(np.arange(self.n), np.diff(self.table_ptr))
        energy = np.bincount(self.owner, expected(theta, out), self.n)
        energy += np.bincount(holder, expected(prepared, joint), self.n)
        if weight is not None:
            joint *= weight[holder]
        features = sum_features(
            b.expected_features(joint[part.entries(at)].reshape(-1, *part.shape))
            for b, part, _, at in self.paid
        )
        return SoftResult(value, out, features, energy)

    def clique_marginals(
        self, theta: np.ndarray, w: Mapping[str, np.ndarray], temperature: float | np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        _, out, joint = self._marginals(theta, self.prepare(w), temperature)
        for block, part, _, at in self.paid:
            scopes = block.members.reshape(len(block), -1)
            yield scopes, joint[part.entries(at)].reshape(-1, *part.shape)
        for part, slot in zip(self.parts, self.place):
            if part.joint is not None:
                scopes = np.array([self.sets[o][p] for o, p in zip(part.owner, part.position)])
                entries = self.ptr[slot][:, None] + np.arange(part.size)
                yield scopes, out[entries].reshape(-1, *part.shape)

    def energy(self, labels: np.ndarray, w: Mapping[str, np.ndarray]) -> np.ndarray:
        """Energies (M,) of slot labels (S,), without theta."""
        total = np.zeros(self.n)
        for b, part, at, _ in self.paid:
            total += np.bincount(
                part.owner, b.energy(b.shape_members(labels[at].ravel()), w), self.n
            )
        return total

    def __repr__(self) -> str:
        return f"JunctionTreeGroup({self.n} subgraphs of {len(self.coords)} labels)"


def expected(costs: np.ndarray, p: np.ndarray) -> np.ndarray:
    """costs * p, where a cost of inf at probability 0 counts nothing."""
    return np.where(p > 0, costs, 0.0) * p


def _shaped(block: Block, result: SlaveResult, members: np.ndarray) -> np.ndarray:
    """The minimisers' labels of a block's cliques as it expects them."""
    return block.shape_members(result.labels[members].ravel())


def sum_features(found: Iterable[Features]) -> Features:
    """Features of several blocks together."""
    total: Features = {}
    for features in found:
        for name, value in features.items():
            # nothing is added to the first: these arrays may be large
            total[name] = total[name] + value if name in total else value
    return total
