"""Larger slaves: sub-hypergraphs given by sets of variables, solved as one clique each."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gmlearn._utils.validation import check_array, check_index
from gmlearn.decompositions.base import Decomposition, Slaves, clique_groups, with_free_variables
from gmlearn.model.crf import CRF
from gmlearn.potentials.base import Block, RaggedBlock
from gmlearn.slaves import SlaveGroup


@dataclass(frozen=True)
class Component:
    """Cliques of one block inside the cliques of a `JointBlock`.

    block : n cliques.   owner : int (n,), ascending, the joint clique of each.   position : int (n, arity), where each of
    its variables stands within the joint clique.
    """

    block: Block
    owner: np.ndarray
    position: np.ndarray

    def take(self, index: np.ndarray) -> Component:
        """The parts of the joint cliques at `index`, repeats allowed."""
        low, high = (
            np.searchsorted(self.owner, index),
            np.searchsorted(self.owner, index, side="right"),
        )
        count = high - low
        where = np.repeat(low - (np.cumsum(count) - count), count) + np.arange(int(count.sum()))
        return Component(
            self.block.take(where), np.repeat(np.arange(len(index)), count), self.position[where]
        )


class JointBlock(Block):
    """Cliques that are whole sub-hypergraphs: the sum of the smaller cliques inside each."""

    name = "joint"

    def __init__(self, variables: Any, components: Sequence[Component], states: np.ndarray):
        super().__init__(variables)
        self.components = list(components)
        self.states = states

    def segments(self) -> dict[str, tuple[int, ...]]:
        return {name: shape for c in self.components for name, shape in c.block.segments().items()}

    def _parts(self, x: np.ndarray):
        for c in self.components:
            yield c, x[c.owner[:, None], c.position]

    def energy(self, x: np.ndarray, w: Mapping[str, np.ndarray]) -> np.ndarray:
        total = np.zeros(len(self))
        for c, labels in self._parts(x):
            total += np.bincount(c.owner, c.block.energy(labels, w), len(self))
        return total

    def features(self, x: np.ndarray, weight: np.ndarray | None = None) -> dict[str, np.ndarray]:
        total: dict[str, np.ndarray] = {}
        for c, labels in self._parts(x):
            for name, value in c.block.features(
                labels, None if weight is None else weight[c.owner]
            ).items():
                total[name] = total.get(name, 0.0) + value
        return total

    def clique_features(self, x: np.ndarray) -> dict[str, np.ndarray] | None:
        total: dict[str, np.ndarray] = {}
        for c, labels in self._parts(x):
            found = c.block.clique_features(labels)
            if found is None:
                return None
            for name, value in found.items():
                total.setdefault(name, np.zeros((len(self), *value.shape[1:])))
                np.add.at(total[name], c.owner, value)
        return total

    def take(self, index: Any) -> Block:
        index = np.atleast_1d(np.arange(len(self))[index])
        part = copy.copy(self)
        part.variables, part.states = self.variables[index], self.states[index]
        part.components = [c.take(index) for c in self.components]
        return part


class Subgraphs(Decomposition):
    """Slaves given by sets of variables; each holds every clique that fits into it and no earlier set.

    Cliques that fit nowhere get a slave of their own. The bound is at least that of one slave per clique, and
    strictly better where the sets close cycles that matter.

    Parameters
    ----------
    sets : list of int arrays, or int (n, k), for example ``gm.grid_cliques(h, w, 2, 2)`` for the cells of a grid.
    """

    name = "subgraphs"

    def __init__(self, sets: Any = ()):
        self.sets = [
            check_array(f"sets[{i}]", s, ndim=1, dtype=np.int64) for i, s in enumerate(sets)
        ]
        for i, s in enumerate(self.sets):
            if len(np.unique(s)) != len(s) or len(s) == 0:
                raise ValueError(
                    f"sets[{i}]: is empty or names a variable twice: {s.tolist()[:10]}"
                )

    def decompose(self, crf: CRF, power: str | None = None) -> Slaves:
        if not self.sets:
            raise ValueError(
                "decomposition 'subgraphs': give the sets of variables, gm.Subgraphs(sets)"
            )
        for i, s in enumerate(self.sets):
            check_index(f"sets[{i}]", s, crf.n_vars)
        home = _first_set_containing(self.sets, crf)
        groups: list[SlaveGroup] = []
        by_size: dict[int, list[int]] = {}
        for i, s in enumerate(self.sets):
            by_size.setdefault(len(s), []).append(i)
        for size, members in by_size.items():
            joint = _joint_block(crf, self.sets, np.array(members), size, home)
            if joint is not None:
                groups += clique_groups(crf, [joint], power)
        rest = [b.take(np.flatnonzero(h < 0)) for b, h in zip(crf.clique_blocks, home)]
        groups += clique_groups(crf, [b for b in rest if len(b)], power)
        return Slaves(crf, with_free_variables(crf, groups))


def _first_set_containing(sets: list[np.ndarray], crf: CRF) -> list[np.ndarray]:
    """For every block the set (M,) that each clique goes to, -1 for none."""
    holding: dict[int, list[int]] = {}
    for i, s in enumerate(sets):
        for v in s.tolist():
            holding.setdefault(v, []).append(i)
    as_set = [set(s.tolist()) for s in sets]
    home = []
    for block in crf.clique_blocks:
        if isinstance(block, RaggedBlock):
            home.append(np.full(len(block), -1))
            continue
        home.append(
            np.array(
                [
                    next((i for i in holding.get(c[0], ()) if as_set[i].issuperset(c)), -1)
                    for c in block.variables.tolist()
                ]
            )
        )
    return home


def _joint_block(
    crf: CRF, sets: list[np.ndarray], members: np.ndarray, size: int, home: list[np.ndarray]
) -> JointBlock | None:
    """One block of all sets of one size, with the cliques that live in them."""
    used = np.array([m for m in members if any((h == m).any() for h in home)], np.int64)
    if len(used) == 0:
        return None
    variables = np.stack([sets[i] for i in used])
    order = np.argsort(variables, axis=1)
    ordered = np.take_along_axis(variables, order, axis=1)
    number = {int(s): j for j, s in enumerate(used)}
    components = []
    for block, h in zip(crf.clique_blocks, home):
        clique = np.array([m for m in range(len(block)) if int(h[m]) in number], np.int64)
        if len(clique) == 0:
            continue
        owner = np.array([number[int(h[m])] for m in clique])
        clique, owner = clique[np.argsort(owner, kind="stable")], np.sort(owner, kind="stable")
        scope = block.variables[clique]
        rank = (ordered[owner][:, None, :] < scope[:, :, None]).sum(axis=2)
        components.append(
            Component(block.take(clique), owner, np.take_along_axis(order[owner], rank, axis=1))
        )
    return JointBlock(variables, components, crf.n_states[variables])
