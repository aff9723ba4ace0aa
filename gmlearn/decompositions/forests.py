"""Slaves that are trees over the edges of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gmlearn.decompositions.base import Slaves, clique_groups, with_free_variables
from gmlearn.model.crf import CRF
from gmlearn.potentials.base import Block
from gmlearn.slaves import ForestGroup, JunctionTreeGroup, Part, SlaveGroup
from gmlearn.slaves.choose import has_edge_form
from gmlearn.slaves.junction_tree import by_shape

#: (edges (E, 2), first variables of the parts of a joined model) -> tree (E,) of each edge
Assignment = Callable[[np.ndarray, np.ndarray], np.ndarray]


def is_forest(crf: CRF) -> bool:
    """Are all cliques edges, without a cycle (or a double edge)?"""
    from gmlearn.decompositions._assign_numba import has_cycle

    blocks = crf.clique_blocks
    if not all(has_edge_form(b) for b in blocks):
        return False
    if sum(len(b) for b in blocks) >= max(crf.n_vars, 1):
        return False
    edges = [np.zeros((0, 2), np.int64), *(b.variables for b in blocks)]
    return not has_cycle(np.concatenate(edges), crf.n_vars)


def forest_slaves(crf: CRF, assign: Assignment, power: str | None) -> Slaves:
    """Trees over all edge blocks (tree ids by `assign(edges, parts)`), single cliques for the
    rest.

    Soft slaves hold parallel edges together: apart, a tree with two blocks on its edges would not
    be exact.
    """
    edge_blocks = [b for b in crf.clique_blocks if has_edge_form(b)]
    groups: list[SlaveGroup] = []
    if edge_blocks:
        edges = np.concatenate([b.variables for b in edge_blocks])
        if power == "log_partition" and has_parallel(edges, crf.n_vars):
            _, first, same, count = np.unique(
                edge_keys(edges, crf.n_vars),
                return_index=True,
                return_inverse=True,
                return_counts=True,
            )
            order = np.argsort(first)  # edges come in the order of the blocks
            rank = np.argsort(order)
            tree = assign(edges[first[order]], crf.parts)[rank[same]]
            groups += trees_of_edges(edge_blocks, tree, count[same] > 1, crf.offsets)
        else:
            tree = assign(edges, crf.parts)
            groups.append(ForestGroup(edge_blocks, tree, int(tree.max()) + 1, crf.offsets))
    groups += clique_groups(crf, [b for b in crf.clique_blocks if not has_edge_form(b)], power)
    return Slaves(crf, with_free_variables(crf, groups))


def edge_keys(edges: np.ndarray, n_vars: int) -> np.ndarray:
    """int (E,): the same number for edges with the same ends."""
    low = np.minimum(edges[:, 0], edges[:, 1])  # faster than along an axis of two
    return low * np.int64(n_vars - 1) + edges[:, 0] + edges[:, 1]


def has_parallel(edges: np.ndarray, n_vars: int) -> bool:
    """Do any two edges have the same ends?"""
    keys = np.sort(edge_keys(edges, n_vars))
    return bool((keys[1:] == keys[:-1]).any())


def trees_of_edges(
    blocks: Sequence[Block], tree: np.ndarray, parallel: np.ndarray, offsets: np.ndarray
) -> list[SlaveGroup]:
    """Groups for trees (E,) over the edges of `blocks`: those with parallel edges (E,) are solved
    by elimination, the others as forests.
    """
    doubled = np.zeros(int(tree.max()) + 1, bool)
    doubled[tree[parallel]] = True
    groups: list[SlaveGroup] = []
    for chosen in (doubled, ~doubled):
        number = np.cumsum(chosen) - 1
        parts, own, begin = [], [], 0
        for block in blocks:
            home = tree[begin : begin + len(block)]
            keep = np.flatnonzero(chosen[home])
            keep = keep[np.argsort(home[keep], kind="stable")]
            begin += len(block)
            if len(keep):
                parts.append(block.take(keep))
                own.append(number[home[keep]])
        if not parts:
            continue
        if chosen is doubled:
            groups.append(junction_trees(parts, own, offsets))
        else:
            groups.append(ForestGroup(parts, np.concatenate(own), int(chosen.sum()), offsets))
    return groups


def junction_trees(
    blocks: Sequence[Block], owner: Sequence[np.ndarray], offsets: np.ndarray
) -> JunctionTreeGroup:
    """Slaves that hold the edges of `blocks`; `owner` (n,) of each block ascends."""
    n_vars = len(offsets) - 1
    key = [o[:, None] * np.int64(n_vars) + b.variables for o, b in zip(owner, blocks)]
    members = np.unique(np.concatenate([k.ravel() for k in key]))
    begin = np.searchsorted(members // n_vars, np.arange(int(max(o[-1] for o in owner)) + 1))
    parts = []
    for block, own, keys in zip(blocks, owner, key):
        position = np.searchsorted(members, keys) - begin[own][:, None]
        for index, _, shape in by_shape(block):
            parts.append(Part(own[index], position[index], shape, block.take(index)))
    return JunctionTreeGroup(np.split(members % n_vars, begin[1:]), parts, offsets)
