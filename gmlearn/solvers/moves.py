"""What a move costs: energy changes of batches of moves, by the energies of the changed cliques
alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from gmlearn._utils.ranges import ranges
from gmlearn.model.crf import CRF
from gmlearn.model.factors import FactorGraph, Tables
from gmlearn.potentials.base import Block
from gmlearn.slaves.choose import has_edge_form
from gmlearn.solvers.problem import Problem

#: table entries that local search writes out for the sake of compiled moves
MAX_ENTRIES = 5e6
#: what a broken hard constraint costs within a search, times the largest cost: more than anything
#: else, and finite, so that a move which mends one of two is a better labelling
BROKEN = 2.0**32
#: clique members whose labels are looked up at a time
PART = 2_000_000
#: members of a clique beyond which its variables may be tried at the same time
LARGE = 16
#: pairs of variables whose labels may be exchanged
MAX_PAIRS = 20_000


@dataclass(frozen=True)
class Moves:
    """N moves: move m sets ``variable[i] = label[i]`` for i in ``ptr[m]:ptr[m + 1]``."""

    ptr: np.ndarray
    variable: np.ndarray
    label: np.ndarray

    @classmethod
    def of(cls, variables: np.ndarray, labels: np.ndarray) -> Moves:
        """Moves of one size each, variables and labels (N,) or (N, size)."""
        size = 1 if variables.ndim == 1 else variables.shape[1]
        return cls(np.arange(len(variables) + 1) * size, variables.ravel(), labels.ravel())

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def joined_with(self, other: Moves) -> Moves:
        """The moves of both."""
        return Moves(
            np.concatenate([self.ptr, self.ptr[-1] + other.ptr[1:]]),
            np.concatenate([self.variable, other.variable]),
            np.concatenate([self.label, other.label]),
        )

    def take(self, index: np.ndarray) -> Moves:
        """The moves at `index`."""
        size = np.diff(self.ptr)[index]
        where = ranges(self.ptr[index], size)
        return Moves(
            np.concatenate([[0], np.cumsum(size)]), self.variable[where], self.label[where]
        )

    def at_once(self) -> Moves:
        """All of them as one move."""
        return Moves(np.array([0, len(self.variable)]), self.variable, self.label)


class OpenBlock:
    """A block that is asked for energies, with the places of each variable in it."""

    def __init__(self, block: Block, w: Mapping[str, np.ndarray], n_vars: int, broken: float):
        from gmlearn._utils._sorting_numba import counting_order

        self.block, self.w, self.broken = block, w, broken
        self.ptr, self.slots = counting_order(block.members, n_vars)
        self.clique = np.repeat(np.arange(len(block)), np.diff(block.indptr))
        self.place = np.arange(len(self.clique)) - block.indptr[self.clique]
        self._at: np.ndarray | None = None
        #: has an infinite energy been seen?
        self.hard = False

    def energy(self, part: Block, labels: np.ndarray) -> np.ndarray:
        """Energies of a part of the block, a broken constraint at its finite price."""
        found = np.asarray(part.energy(part.shape_members(labels), self.w), float)
        broken = np.isposinf(found)
        self.hard |= bool(broken.any())
        return np.where(broken, self.broken, found)

    def now(self, x: np.ndarray) -> np.ndarray:
        """Energies (M,) at x; only cliques that changed since the last time are asked."""
        if self._at is None:
            self._at, self._now = x.copy(), self.energy(self.block, x[self.block.members])
        changed = x != self._at
        if changed.any():
            cliques = np.unique(self.clique[changed[self.block.members]])
            part = self.block.take(cliques)
            self._now[cliques] = self.energy(part, x[part.members])
            self._at = x.copy()
        return self._now

    def add_changes(self, moves: Moves, x: np.ndarray, change: np.ndarray) -> int:
        """Add to `change` (N,) what this block pays more for each move; returns how many cliques
        were looked at.
        """
        hits = np.diff(self.ptr)[moves.variable]
        # about how many labels are looked up before each move
        work = np.concatenate([[0], np.cumsum(hits * self.block.arity)])[moves.ptr]
        cuts = np.searchsorted(work, np.arange(PART, work[-1], PART), side="right")
        bounds = np.unique(np.concatenate([[0], cuts, [len(change)]])).tolist()
        for first, last in pairwise(bounds):
            entry = np.arange(moves.ptr[first], moves.ptr[last])
            n = hits[entry]
            slot = self.slots[ranges(self.ptr[moves.variable[entry]], n)]
            entry = np.repeat(entry, n)
            move = np.searchsorted(moves.ptr, entry, side="right") - 1
            cliques, row = self.clique[slot], np.arange(len(slot))
            if len(moves) < len(moves.variable):  # a move may touch a clique more than once
                pair, row = np.unique(move * len(self.block) + cliques, return_inverse=True)
                move, cliques = np.divmod(pair, len(self.block))
            part = self.block.take(cliques)
            labels = x[part.members]
            labels[part.indptr[row] + self.place[slot]] = moves.label[entry]
            more = self.energy(part, labels) - self.now(x)[cliques]
            change += np.bincount(move, more, len(change))
        return int(hits.sum())


class MoveCosts:
    """A model as local search sees it: compiled tables where they are small, block energies of the
    changed cliques for the rest.

    graph : the tables, and the unary costs.   rest : the blocks without tables.   tol : changes
        below it are rounding.   broken : the price of a broken constraint.
    """

    def __init__(self, problem: Problem):
        self.crf, w = problem.crf, problem.w
        tabled, rest = split_by_size(self.crf)
        self.graph = g = FactorGraph.of(self.crf, w, tabled)
        finite = np.isfinite(g.unary)
        highest = g.unary.max(where=finite, initial=0.0)
        largest = max(problem.scale, highest, -g.unary.min(where=finite, initial=0.0)) or 1.0
        self.tol, self.broken = 1e-10 * largest, BROKEN * largest
        self.rest = [OpenBlock(b, w, self.crf.n_vars, self.broken) for b in rest]
        self._pairs: dict[tuple[bool, ...], np.ndarray] = {}
        #: moves tried so far, and cliques asked for their energies
        self.spent = 0
        #: do tables have hard constraints?
        self.hard = not np.isfinite(g.values).all()

    @cached_property
    def _tables(self) -> Tables:
        return self.graph.tables(forbidden=self.broken)

    @cached_property
    def cliques(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(sizes (C,), clique, variable) of all cliques and their members, the tables' first."""
        parts = [(self.graph.indptr, self.graph.scope)]
        parts += [(p.block.indptr, p.block.members) for p in self.rest]
        sizes = np.concatenate([np.diff(indptr) for indptr, _ in parts])
        clique = np.repeat(np.arange(len(sizes)), sizes)
        return sizes, clique, np.concatenate([members for _, members in parts])

    def cliques_of(self, variables: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(place among the variables, clique), int (n,): the cliques that hold each of these."""
        ptr, slots = self.graph.adjacency
        parts = [(ptr, slots, self.graph.owner)]
        parts += [(b.ptr, b.slots, b.clique) for b in self.rest]
        rows, found, first = [], [], 0
        for ptr, slots, owner in parts:
            count = ptr[variables + 1] - ptr[variables]
            rows.append(np.repeat(np.arange(len(variables)), count))
            found.append(first + owner[slots[ranges(ptr[variables], count)]])
            first += int(owner[-1]) + 1 if len(owner) else 0
        return np.concatenate(rows), np.concatenate(found)

    def changes(self, moves: Moves, x: np.ndarray, without: Block | None = None) -> np.ndarray:
        """How much the energy rises with each move from x (N,), the cliques of the block
        `without` left aside.
        """
        from gmlearn.solvers._moves_numba import table_changes

        change = np.zeros(len(moves))
        self.spent += len(moves)
        table_changes(moves.ptr, moves.variable, moves.label, x, self._tables, change)
        for part in self.rest:
            if part.block is not without:
                self.spent += part.add_changes(moves, x, change)
        return change

    def near(self, variables: np.ndarray) -> np.ndarray:
        """bool (V,): the variables that share a clique with one of these, and these."""
        found, (sizes, clique, member) = np.zeros(self.crf.n_vars, bool), self.cliques
        found[variables] = True
        touched = np.zeros(len(sizes), bool)
        touched[clique[found[member]]] = True
        found[member[touched[clique]]] = True
        return found

    @cached_property
    def order(self) -> tuple[np.ndarray, np.ndarray, bool]:
        """The variables in a random order, colour by colour, and their colours (V,): those of
        one colour share no clique, unless it is a large one; are there none of these?
        """
        from gmlearn._utils._sorting_numba import counting_order
        from gmlearn.slaves._colouring_numba import greedy_colouring

        sizes, clique, member = self.cliques
        small = sizes[clique] <= LARGE
        ptr, slots = counting_order(member[small], self.crf.n_vars)
        colour = greedy_colouring(clique[small][slots], ptr, len(sizes))
        order = np.lexsort((np.random.default_rng(0).random(len(colour)), colour))
        return order, colour, bool(small.all())

    def singles(self, variables: np.ndarray, x: np.ndarray) -> Moves:
        """Every other label of each of the variables."""
        n = self.crf.n_states[variables] - 1
        label = ranges(np.zeros_like(n), n)
        return Moves.of(np.repeat(variables, n), label + (label >= np.repeat(x[variables], n)))

    def swaps(self, x: np.ndarray) -> Moves:
        """Every exchange of the labels of two variables that share a hard clique."""
        pairs = self.pairs
        labels = x[pairs[:, ::-1]]
        can = (labels[:, 0] != labels[:, 1]) & (labels < self.crf.n_states[pairs]).all(axis=1)
        return Moves.of(pairs[can], labels[can])

    @property
    def pairs(self) -> np.ndarray:
        """int (n, 2): the variables that share a hard clique; if they are too many, some."""
        hard = (self.hard, *(p.hard for p in self.rest))
        if not any(hard):
            return np.zeros((0, 2), np.int64)
        if hard not in self._pairs:
            counts = [self.graph.n_factors, *(len(p.block) for p in self.rest)]
            self._pairs[hard] = self._find_pairs(np.repeat(hard, counts))
        return self._pairs[hard]

    def _find_pairs(self, hard: np.ndarray) -> np.ndarray:
        """The pairs within the hard cliques, bool (C,): in each, number k is (i, j), i < j, with
        k = j (j - 1) / 2 + i.
        """
        sizes, _, member = self.cliques
        total = np.cumsum(np.where(hard, sizes * (sizes - 1) // 2, 0))
        n, rng = int(total[-1]), np.random.default_rng(0)
        number = np.arange(n) if n <= MAX_PAIRS else np.unique(rng.integers(0, n, MAX_PAIRS))
        clique = np.searchsorted(total, number, side="right")
        k = number - total[clique] + (sizes * (sizes - 1) // 2)[clique]
        j = ((1 + np.sqrt(1 + 8 * k)) / 2).astype(np.int64)
        places = np.stack([k - j * (j - 1) // 2, j], axis=1)
        first = np.cumsum(sizes) - sizes
        return np.unique(np.sort(member[first[clique][:, None] + places], axis=1), axis=0)


def split_by_size(crf: CRF) -> tuple[list[Block], list[Block]]:
    """The clique blocks that local search reads as tables, smallest first while there is room,
    and those that it asks for energies.
    """
    blocks = sorted(crf.clique_blocks, key=lambda b: b.form_size())
    fits = np.cumsum([b.form_size() for b in blocks]) <= MAX_ENTRIES
    fits &= np.array([b.arity != 2 or has_edge_form(b) for b in blocks], bool)
    return [b for b, f in zip(blocks, fits) if f], [b for b, f in zip(blocks, fits) if not f]
