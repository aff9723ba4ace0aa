"""Slaves that are whole trees: chains, spanning trees, forests over the edges of several blocks.

min over x of sum_i theta_i(x_i) + sum over the edges of T_e(x_i, x_j), exactly, by dynamic
programming from the leaves to a root and back; the same passes with sums of exponentials in the
place of minima give log Z and marginals (Pearl 1988).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gmlearn._utils.ranges import ranges
from gmlearn.potentials.base import Block
from gmlearn.slaves.base import Features, SlaveGroup, SlaveResult, SoftResult
from gmlearn.slaves.junction_tree import (
    JunctionTreeGroup,
    Part,
    by_shape,
    pair_tables,
    sum_features,
)


class Forest(NamedTuple):
    """Trees of slots (copies of variables), parents before their children.

    ptr : the states of slot i are ptr[i]:ptr[i + 1].   tree_ptr : the slots of each tree.
    parent : the parent slot, -1 for roots.   pedge : the edge to it.   child_first : is the child
        the first end of that edge?
    """

    ptr: np.ndarray
    tree_ptr: np.ndarray
    parent: np.ndarray
    pedge: np.ndarray
    child_first: np.ndarray


class Factors(NamedTuple):
    """The tables exp(-cost / temperature) of edges, each scaled to at most 1.

    first : int (E,), where the table of each edge begins; rows are the labels of its first end.
    turned : the same, transposed.
    """

    first: np.ndarray
    tables: np.ndarray
    turned: np.ndarray


class EdgeCosts(NamedTuple):
    """The pairwise forms of several blocks, one after the other, as the compiled kernels read
    them.

    pool : int (blocks + 1,), where the values of each block begin.
    """

    values: np.ndarray
    start: np.ndarray
    stride: np.ndarray
    scale: np.ndarray
    kind: np.ndarray
    cut: np.ndarray
    pool: np.ndarray

    @classmethod
    def of(cls, blocks: Sequence[Block], w: Mapping[str, np.ndarray]) -> EdgeCosts:
        forms = [b.pairwise(w) for b in blocks]
        begin = np.cumsum([0] + [len(f.values) for f in forms])

        def joined(parts: list[np.ndarray], dtype: Any) -> np.ndarray:
            return np.concatenate(parts).astype(dtype) if parts else np.zeros(0, dtype)

        return cls(
            joined([f.values for f in forms], float),
            joined([f.start + s for f, s in zip(forms, begin)], np.int64),
            joined([f.stride for f in forms], np.int64),
            joined([f.scale for f in forms], float),
            joined([np.full(len(f.start), f.kind) for f in forms], np.int64),
            joined([np.full(len(f.start), f.cut) for f in forms], float),
            begin,
        )

    def take(self, edge: np.ndarray) -> EdgeCosts:
        """Those of the edges with these numbers; the values are shared."""
        return self._replace(
            start=self.start[edge],
            stride=self.stride[edge],
            scale=self.scale[edge],
            kind=self.kind[edge],
            cut=self.cut[edge],
        )

    def alike(self, other: EdgeCosts) -> bool:
        """Do edges read the same values, with the same factors, as those of `other`?"""
        return (
            np.array_equal(self.start, other.start)
            and np.array_equal(self.stride, other.stride)
            and np.array_equal(self.scale, other.scale)
        )


#: exponents below which scaled probabilities are not trusted: e^-600 is about 1e-261
DEEPEST = 600.0


class EdgeTables:
    """Tables of label pairs, written out once for consecutive edges that have the same one.

    Blocks that know their features from their form alone (`Block.form_features`), or that have no
    weights, share tables; the others need the joint marginals of every edge.

    Attributes
    ----------
    first : int (E,), where the table of each edge begins; rows are the labels of its first end.
    index : int, which of the values each entry reads.   scale : float, its factor.
    """

    def __init__(self, blocks: Sequence[Block], costs: EdgeCosts):
        self.blocks, self.costs = blocks, costs
        self.edge_ptr = np.cumsum([0, *(len(b) for b in blocks)])
        states = np.concatenate([np.zeros((0, 2), np.int64), *(b.states for b in blocks)])
        shared = [not b.segments() or b.shares_form for b in blocks]
        apart = np.repeat(~np.array(shared, bool), np.diff(self.edge_ptr))
        keys = costs.start, costs.stride, costs.scale, states[:, 0], states[:, 1]
        new = apart | np.any([np.diff(k, prepend=np.nan) != 0 for k in keys], axis=0)
        new[self.edge_ptr[:-1][np.diff(self.edge_ptr) > 0]] = True
        lead = np.flatnonzero(new)
        self.number = np.cumsum(new) - 1
        sizes = states[lead].prod(axis=1)
        self.ptr = np.concatenate([[0], np.cumsum(sizes)])
        self.first = self.ptr[self.number]
        table = np.repeat(lead, sizes)
        row, column = np.divmod(ranges(np.zeros(len(lead), np.int64), sizes), states[table, 1])
        self.index = costs.start[table] + costs.stride[table] * row + column
        self.scale = costs.scale[table]
        #: int, where each entry of the transposed tables is in the tables
        self.turn = np.repeat(self.ptr[:-1], sizes) + _transposed(states[table], sizes)
        self.sizes = sizes

    def exponents(self, costs: EdgeCosts, temperature: float) -> tuple[np.ndarray, np.ndarray]:
        """-(cost - least) / temperature of all entries, and `least` (E,) of each edge."""
        cost = self.scale * costs.values[self.index]
        least = np.minimum.reduceat(cost, self.ptr[:-1])
        least[least == np.inf] = 0.0
        return (np.repeat(least, self.sizes) - cost) / temperature, least[self.number]

    def reach(self, exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(range of the finite exponents, has it infinite ones?) of each edge, (E,)."""
        hard = exponents == -np.inf
        finite = np.where(hard, 0.0, exponents)
        range_ = -np.minimum.reduceat(finite, self.ptr[:-1])
        return range_[self.number], np.logical_or.reduceat(hard, self.ptr[:-1])[self.number]

    def features(self, joint: np.ndarray) -> Features:
        """Expected features from joint marginals, summed over the edges of each table."""
        found = []
        for b, block in enumerate(self.blocks):
            lo, hi = self.edge_ptr[b], self.edge_ptr[b + 1]
            if not block.segments() or lo == hi:
                continue
            where = slice(self.first[lo], self.ptr[self.number[hi - 1] + 1])
            if block.shares_form:
                begin, end = self.costs.pool[b], self.costs.pool[b + 1]
                slope = self.scale[where] * joint[where]
                found.append(
                    block.form_features(np.bincount(self.index[where] - begin, slope, end - begin))
                )
                continue
            for index, _, shape in by_shape(block):
                entries = self.first[lo + index][:, None] + np.arange(math.prod(shape))
                part = block if len(index) == len(block) else block.take(index)
                found.append(part.expected_features(joint[entries].reshape(-1, *shape)))
        return sum_features(found)


def _transposed(states: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Places of the entries of transposed tables, within their table; `states` (n, 2) of each."""
    place = ranges(np.zeros(len(sizes), np.int64), sizes)
    column, row = np.divmod(place, states[:, 0])
    return row * states[:, 1] + column


class ForestGroup(SlaveGroup):
    """Trees over the edges of pairwise blocks, minimised by dynamic programming. O(sum of edge
    tables).

    Parameters
    ----------
    blocks : bound blocks of arity 2; all their edges are covered.
    tree : int (E,), the tree of each edge (blocks one after the other); every tree is connected and
        has no cycle.
    n_trees : number of trees.
    offsets : int (V + 1,), first coordinate of each variable.
    """

    weighs_marginals = True

    def __init__(
        self, blocks: Sequence[Block], tree: np.ndarray, n_trees: int, offsets: np.ndarray
    ):
        from gmlearn.slaves._forest_numba import build_forest

        self.blocks = list(blocks)
        self.tree = np.asarray(tree, np.int64)
        self.offsets = offsets
        self.n = int(n_trees)
        self.edges = (
            np.concatenate([b.variables for b in blocks]) if blocks else np.zeros((0, 2), np.int64)
        )
        found = build_forest(self.edges, self.tree, self.n, len(offsets) - 1)
        if found[5] >= 0:
            raise ValueError(
                f"tree: the edges of tree {int(found[5])} do not form one tree (a cycle, or "
                f"several components)"
            )
        self.variable, self.parent, self.pedge, self.child_first, self.tree_ptr, _ = found
        states = np.diff(offsets)[self.variable]
        self.ptr = np.concatenate([[0], np.cumsum(states)])
        self.coords = ranges(offsets[self.variable], states)
        self.owner = np.repeat(np.repeat(np.arange(self.n), np.diff(self.tree_ptr)), states)
        self._tables: EdgeTables | None = None

    def cost(self, power: str = "minimise") -> float:
        # messages of a shared form (Potts, truncated) are linear in the labels
        return float(sum(max(b.form_size(), 2.0 * len(b) * b.max_states) for b in self.blocks))

    @property
    def _forest(self) -> Forest:
        return Forest(self.ptr, self.tree_ptr, self.parent, self.pedge, self.child_first)

    def prepare(self, w: Mapping[str, np.ndarray]) -> EdgeCosts:
        return EdgeCosts.of(self.blocks, w)

    def solve(self, theta: np.ndarray, prepared: EdgeCosts) -> SlaveResult:
        from gmlearn.slaves._forest_numba import minimise_forest

        labels, value = np.empty(len(self.variable), np.int64), np.empty(self.n)
        minimise_forest(theta, self._forest, prepared, labels, value)
        return SlaveResult(None, value, labels, self.ptr[:-1] + labels, len(self.coords))

    @cached_property
    def _end_slots(self) -> np.ndarray:
        """int (E, 2): the slots of the edges' ends."""
        ends = np.zeros((len(self.edges), 2), np.int64)
        child = np.flatnonzero(self.parent >= 0)
        flip = self.child_first[child].astype(np.int64)
        ends[self.pedge[child], 1 - flip] = child
        ends[self.pedge[child], flip] = self.parent[child]
        return ends

    @cached_property
    def _edge_parts(self) -> list[tuple[Block, np.ndarray, tuple[int, ...]]]:
        """(block, edges (n,), shape) of the edges of each shape, ordered by tree."""
        parts, begin = [], 0
        for block in self.blocks:
            for index, _, shape in by_shape(block):
                index = index[np.argsort(self.tree[begin + index], kind="stable")]
                parts.append((block.take(index), begin + index, shape))
            begin += len(block)
        return parts

    @cached_property
    def junction(self) -> JunctionTreeGroup:
        """The same slaves, with the same dual variables, for what needs no compiled messages."""
        parts = []
        for block, edge, shape in self._edge_parts:
            tree = self.tree[edge]
            position = self._end_slots[edge] - self.tree_ptr[tree][:, None]
            parts.append(Part(tree, position, shape, block))
        return JunctionTreeGroup(np.split(self.variable, self.tree_ptr[1:-1]), parts, self.offsets)

    def slave_features(self, result: SlaveResult) -> Features:
        return self.junction.slave_features(result)

    def features(self, result: SlaveResult) -> Features:
        return self.weighted_features(result, None)

    def weighted_features(self, result: SlaveResult, weight: np.ndarray | None) -> Features:
        found, begin = [], 0
        for block in self.blocks:
            edges = slice(begin, begin + len(block))
            labels = result.labels[self._end_slots[edges]]
            own = None if weight is None else weight[self.tree[edges]]
            found.append(block.features(block.shape_members(labels.ravel()), own))
            begin = edges.stop
        return sum_features(found)

    def take(self, index: np.ndarray) -> ForestGroup:
        renumber = np.full(self.n, -1)
        renumber[index] = np.arange(len(index))
        blocks, trees, begin = [], [], 0
        for block in self.blocks:
            tree = renumber[self.tree[begin : begin + len(block)]]
            keep = np.flatnonzero(tree >= 0)
            if len(keep):
                blocks.append(block.take(keep))
                trees.append(tree[keep])
            begin += len(block)
        return ForestGroup(
            blocks,
            np.concatenate(trees) if trees else np.zeros(0, np.int64),
            len(index),
            self.offsets,
        )

    def min_marginals(self, theta: np.ndarray, prepared: EdgeCosts) -> np.ndarray:
        """For each dual variable the minimum of its tree with that label fixed, (D,)."""
        from gmlearn.slaves._forest_numba import min_marginals_forest

        return min_marginals_forest(theta, self._forest, prepared)

    def log_partition(
        self,
        theta: np.ndarray,
        prepared: EdgeCosts,
        temperature: float,
        weight: np.ndarray | None = None,
    ) -> SoftResult:
        """Soft minima, marginals and expected features at a temperature, the features of each tree
        with its factor `weight` (M,).

        With scaled probabilities; the trees where these underflow by elimination with logarithms.
        """
        from gmlearn.slaves._forest_soft_numba import scaled_exp, soft_forest

        belief, low, log_z = np.empty(len(theta)), np.empty(len(self.variable)), np.empty(self.n)
        scaled_exp(theta, self.ptr, temperature, belief, low)
        tables = self._tables_of(prepared)
        factor = np.ones(self.n) if weight is None else weight
        entries, least = tables.exponents(prepared, temperature)
        wide = self._underflows(belief, entries, tables)
        np.exp(belief, out=belief)
        np.exp(entries, out=entries)
        # a tree without any weight is lost, and goes the long way
        belief[wide] = 0.0
        joint = np.zeros(len(entries))
        factors = Factors(tables.first, entries, entries[tables.turn])
        soft_forest(belief, self._forest, factors, factor, joint, log_z)
        features = tables.features(joint * entries)
        value = np.add.reduceat(low, self.tree_ptr[:-1]) - temperature * log_z
        value += np.bincount(self.tree, least, self.n)
        lost = np.flatnonzero(np.isnan(log_z))
        if len(lost):
            mine = np.isin(self.owner, lost)
            found = self._with_logarithms(lost, theta[mine], prepared, temperature, factor[lost])
            value[lost], belief[mine] = found.value, found.marginals
            features = sum_features([features, found.features])
        return SoftResult(value, belief, features)

    def _underflows(self, belief: np.ndarray, weight: np.ndarray, tables: EdgeTables) -> np.ndarray:
        """Dual variables (indices or a mask) of trees whose scaled probabilities may underflow.

        The entries of a message differ by no more than those of its edge, so that what a slot
        multiplies spans at most its own range and those of its edges; behind entries of zero
        probability, at most the ranges of the whole tree.
        """
        degree = 2.0 + self._most_edges
        if belief.min(initial=0.0) + degree * weight.min(initial=0.0) > -DEEPEST:
            return np.zeros(0, np.int64)
        own = -np.minimum.reduceat(np.where(belief == -np.inf, 0.0, belief), self.ptr[:-1])
        edge, hard = tables.reach(weight)
        slot = own + np.bincount(self._end_slots.ravel(), np.repeat(edge, 2), len(own))
        tree = np.maximum.reduceat(slot, self.tree_ptr[:-1])
        whole = np.add.reduceat(own, self.tree_ptr[:-1]) + np.bincount(self.tree, edge, self.n)
        has_hard = np.bincount(self.tree, hard, self.n) > 0
        return (np.where(has_hard, whole, tree) > DEEPEST)[self.owner]

    @cached_property
    def _most_edges(self) -> int:
        """The most edges at one slot."""
        return int(np.bincount(self._end_slots.ravel()).max(initial=0))

    def _tables_of(self, prepared: EdgeCosts) -> EdgeTables:
        """The tables of the edges; the last ones as long as edges share them alike."""
        if self._tables is None or not self._tables.costs.alike(prepared):
            self._tables = EdgeTables(self.blocks, prepared)
        return self._tables

    def _with_logarithms(
        self,
        index: np.ndarray,
        theta: np.ndarray,
        prepared: EdgeCosts,
        temperature: float,
        weight: np.ndarray,
    ) -> SoftResult:
        """`log_partition` of the trees at `index`, by elimination."""
        part = self.take(index)
        edges = np.flatnonzero(np.isin(self.tree, index))
        tables = np.empty(int(part.junction.table_ptr[-1]))
        for (_, edge, shape), (_, cliques, _, at) in zip(part._edge_parts, part.junction.paid):
            tables[cliques.entries(at)] = pair_tables(prepared, shape, edges[edge])
        return part.junction.log_partition(theta, tables, temperature, weight)

    def clique_marginals(
        self, theta: np.ndarray, w: Mapping[str, np.ndarray], temperature: float
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return self.junction.clique_marginals(theta, w, temperature)

    def energy(self, labels: np.ndarray, w: Mapping[str, np.ndarray]) -> np.ndarray:
        """Pairwise energies (M,) of slot labels (S,), without theta."""
        return self.junction.energy(labels, w)

    def __repr__(self) -> str:
        return f"ForestGroup({self.n} trees, {len(self.edges)} edges)"


class FreeGroup(SlaveGroup):
    """Variables that no clique touches: each takes its cheapest label."""

    weighs_marginals = True

    def __init__(self, variables: np.ndarray, offsets: np.ndarray):
        self.variables = np.asarray(variables, np.int64)
        self.offsets = offsets
        self.n = len(variables)
        states = np.diff(offsets)[self.variables]
        self.ptr = np.concatenate([[0], np.cumsum(states)])
        self.coords = ranges(offsets[self.variables], states)
        self.owner = np.repeat(np.arange(self.n), states)

    def solve(self, theta: np.ndarray, prepared: Any) -> SlaveResult:
        value = np.minimum.reduceat(theta, self.ptr[:-1]) if self.n else np.zeros(0)
        hit = np.flatnonzero(theta == np.repeat(value, np.diff(self.ptr)))
        first = hit[np.searchsorted(hit, self.ptr[:-1])] if self.n else hit
        return SlaveResult(None, value, first - self.ptr[:-1], first, len(theta))

    def features(self, result: SlaveResult) -> Features:
        return {}

    def slave_features(self, result: SlaveResult) -> Features:
        return {}

    def take(self, index: np.ndarray) -> SlaveGroup:
        return FreeGroup(self.variables[index], self.offsets)

    def min_marginals(self, theta: np.ndarray, prepared: Any) -> np.ndarray:
        """The costs themselves."""
        return theta.copy()

    def log_partition(
        self,
        theta: np.ndarray,
        prepared: Any,
        temperature: float,
        weight: np.ndarray | None = None,
    ) -> SoftResult:
        """Soft minima and marginals of single variables, which have no features to weigh."""
        low = np.minimum.reduceat(theta, self.ptr[:-1]) if self.n else np.zeros(0)
        feasible = np.where(np.isfinite(low), low, 0.0)
        weight = np.exp(-(theta - np.repeat(feasible, np.diff(self.ptr))) / temperature)
        norm = np.maximum(np.add.reduceat(weight, self.ptr[:-1]), 1e-300) if self.n else np.zeros(0)
        return SoftResult(
            low - temperature * np.log(norm), weight / np.repeat(norm, np.diff(self.ptr)), {}
        )

    def energy(self, labels: np.ndarray, w: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.zeros(self.n)

    def __repr__(self) -> str:
        return f"FreeGroup({self.n} variables)"
