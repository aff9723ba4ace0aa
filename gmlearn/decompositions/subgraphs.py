"""Larger slaves: sub-hypergraphs given by sets of variables, solved by variable elimination.

A clique inside several sets is shared: each slave holds a copy with an equal part of its energy,
and its joint labels are coordinates, so that the slaves exchange costs of joint labels as well.
The relaxation then asks for the same marginals of shared cliques, not just of single variables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gmlearn._utils.validation import check_array, check_flag, check_index, check_sequence
from gmlearn.decompositions.base import (
    Decomposition,
    SharedCliques,
    Slaves,
    clique_groups,
    with_free_variables,
)
from gmlearn.model.crf import CRF
from gmlearn.potentials.base import MAX_TABLE_ENTRIES, Block
from gmlearn.slaves import JunctionTreeGroup, Part, SlaveGroup
from gmlearn.slaves.junction_tree import by_shape

#: joint labels beyond which a clique keeps a slave of its own, and beyond which it is not shared
MAX_CLIQUE, MAX_SHARED = 2**16, 2**8


#: (number of a block, some of its cliques (n,)) -> which slaves hold which of them (int (m,), by
#: slave; int (m,), places among the n)
Held = Callable[[int, np.ndarray], tuple[np.ndarray, np.ndarray]]


class Subgraphs(Decomposition):
    """Slaves given by sets of variables; each holds the cliques that fit into it.

    The bound is at least that of one slave per clique, and strictly better where the sets close
    cycles that matter. The cost of a slave is exponential in its induced width, not in its number
    of variables: a strip of 3 rows of a grid has width 3, however long it is. Cliques that fit
    nowhere, and those without a small table, get a slave of their own.

    Parameters
    ----------
    sets : list of int arrays, or int (n, k), for example ``gm.grid_cliques(h, w, 2, 2)`` for the
        cells of a grid. The order within a set is tried as an order of elimination.
    share : a clique inside several sets is held by all of them, with multipliers on its joint
        labels (at most 256), which gives tighter bounds. If false, the first set holds it alone.
    """

    name = "subgraphs"

    def __init__(self, sets: Any = (), share: bool = True):
        listed = check_sequence("sets", sets, "sets of variables")
        self.sets = [
            check_array(f"sets[{i}]", s, ndim=1, dtype=np.int64) for i, s in enumerate(listed)
        ]
        self.share = check_flag("share", share)
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
        return cover(crf, self.sets, self.share, power)


class Components(Decomposition):
    """One slave for each connected part of the model: exact, where the induced width is small.

    Cliques without a small table do not connect, and get a slave of their own.
    """

    name = "components"
    joint = True

    def decompose(self, crf: CRF, power: str | None = None) -> Slaves:
        return cover(crf, components(crf), False, power)


def components(crf: CRF) -> list[np.ndarray]:
    """The variables of each connected part that has a clique with a small table."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    first, other = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for block in crf.clique_blocks:
        for _, variables, shape in by_shape(block):
            if float(np.prod(np.array(shape, float))) <= MAX_CLIQUE:
                first.append(np.repeat(variables[:, 0], len(shape)))
                other.append(variables.ravel())
    row, column = np.concatenate(first), np.concatenate(other)
    links = coo_array((np.ones(len(row)), (row, column)), shape=(crf.n_vars, crf.n_vars))
    _, part = connected_components(links, directed=False)
    touched = np.unique(column)
    order = touched[np.argsort(part[touched], kind="stable")]
    cuts = np.flatnonzero(np.diff(part[order])) + 1
    return np.split(order, cuts) if len(order) else []


def cover(
    crf: CRF,
    sets: Sequence[np.ndarray],
    share: bool,
    power: str | None,
    max_arity: float = np.inf,
    held: Held | None = None,
) -> Slaves:
    """One slave for each set, holding the cliques of at most `max_arity` variables inside it, or
    those that `held` names; a slave for each other clique.
    """
    parts: list[Part] = []
    shared: list[SharedCliques] = []
    rest: list[Block] = []
    inside = Inside(sets, crf.n_vars)
    next_coord = crf.n_coords
    for number, block in enumerate(crf.clique_blocks):
        alone = np.ones(len(block), bool)
        for index, variables, shape in by_shape(block):
            size = float(np.prod(np.array(shape, float)))
            if len(shape) > max_arity or size > MAX_CLIQUE or size * len(index) > MAX_TABLE_ENTRIES:
                continue
            if held is None:
                owner, clique = inside.pairs(variables)
            else:
                owner, clique = held(number, index)
            if not share or size > MAX_SHARED:
                clique, first = np.unique(clique, return_index=True)  # owners ascend
                by_owner = np.argsort(owner[first], kind="stable")
                owner, clique = owner[first][by_owner], clique[by_owner]
            copies = np.bincount(clique, minlength=len(index))
            alone[index[copies > 0]] = False
            several = copies > 1
            joint = next_coord + (np.cumsum(several) - 1) * int(size)
            next_coord += int(several.sum() * size)
            if several.any():
                shared.append(SharedCliques(block.take(index[several]), joint[several], shape))
            for mine in (several[clique], ~several[clique]):
                if mine.any():
                    own, which = owner[mine], clique[mine]
                    paid = (
                        {"joint": joint[which]}
                        if several[which[0]]
                        else {"block": block.take(index[which])}
                    )
                    position = inside.position(own, variables[which])
                    parts.append(Part(own, position, shape, **paid))
        if alone.any():
            rest.append(block if alone.all() else block.take(np.flatnonzero(alone)))
    groups: list[SlaveGroup] = []
    if parts:
        used = np.unique(np.concatenate([p.owner for p in parts]))
        group = JunctionTreeGroup(
            [sets[i] for i in used], [p.take(used) for p in parts], crf.offsets
        )
        _ = group.plan  # refuses what is too wide
        groups.append(group)
    groups += clique_groups(crf, rest, power)
    return Slaves(crf, with_free_variables(crf, groups), shared=shared)


class Inside:
    """Which cliques are inside which sets of variables, and where."""

    def __init__(self, sets: Sequence[np.ndarray], n_vars: int):
        from scipy.sparse import csr_array

        sizes = np.array([len(s) for s in sets], np.int64)
        owner = np.repeat(np.arange(len(sets)), sizes)
        members = np.concatenate([*sets, np.zeros(0, np.int64)])
        self.n_vars, self.begin = n_vars, np.cumsum(sizes) - sizes
        keys = owner * n_vars + members
        self.order = np.argsort(keys)
        self.keys = keys[self.order]
        self.holds = csr_array((np.ones(len(members)), (owner, members)), shape=(len(sets), n_vars))

    def pairs(self, variables: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(set, clique) wherever a set holds all variables (n, k) of a clique, by set."""
        from scipy.sparse import csr_array

        n, k = variables.shape
        clique = np.repeat(np.arange(n), k)
        common = (
            self.holds
            @ csr_array((np.ones(n * k), (variables.ravel(), clique)), shape=(self.n_vars, n))
        ).tocoo()
        owner, clique = (index[common.data == k].astype(np.int64) for index in common.coords)
        by_owner = np.lexsort((clique, owner))
        return owner[by_owner], clique[by_owner]

    def position(self, owner: np.ndarray, variables: np.ndarray) -> np.ndarray:
        """int (n, k): where variables (n, k) stand in the sets `owner` (n,)."""
        at = np.searchsorted(self.keys, owner[:, None] * self.n_vars + variables)
        return self.order[at] - self.begin[owner][:, None]
