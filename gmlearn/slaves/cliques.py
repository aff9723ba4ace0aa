"""Built-in slave solvers of single cliques: enumeration, dense tables, edges, Potts edges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gmlearn.potentials.base import MAX_TABLE_ENTRIES, Block
from gmlearn.potentials.form import PairwiseForm
from gmlearn.potentials.pairwise import Difference, LearntTable, Potts, Truncated
from gmlearn.potentials.ragged_block import RaggedBlock
from gmlearn.potentials.table import Table
from gmlearn.slaves.base import Features, SlaveSolver

#: joint states of one clique beyond which enumeration is refused
MAX_STATES = 65_536


class Enumeration(SlaveSolver):
    """Every joint state of every clique: the specification that all other solvers are tested
    against. O(M L^k).
    """

    name = "enumeration"

    def refuses(self, block: Block) -> str | None:
        if block.table_size() > MAX_STATES:
            return f"L**k = {block.table_size():.6g} > {MAX_STATES}"
        if isinstance(block, RaggedBlock) and len(block) and (block.sizes != block.sizes[0]).any():
            return "cliques of different sizes"
        return None

    def cost(self, block: Block, power: str = "minimise") -> float:
        return (4.0 if power == "minimise" else 16.0) * len(block) * block.table_size()

    def prepare(self, block: Block, w: Mapping[str, np.ndarray]) -> np.ndarray:
        return block.table(w)

    def _totals(self, block: Block, theta: np.ndarray, table: np.ndarray) -> np.ndarray:
        m, k, size = len(block), block.arity, block.max_states
        theta = theta.reshape(m, k, size)
        total = table
        for i in range(k):
            total = total + theta[:, i].reshape((m,) + (1,) * i + (size,) + (1,) * (k - 1 - i))
        return total

    def minimise(
        self, block: Block, theta: np.ndarray, w: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        if len(block) == 0:
            return np.zeros((0, block.arity), np.int64), np.zeros(0)
        total = self._totals(block, theta, w).reshape(len(block), -1)
        best = total.argmin(axis=1)
        labels = np.stack(np.unravel_index(best, w.shape[1:]), axis=1)
        return labels, total[np.arange(len(block)), best]

    def min_marginals(self, block: Block, theta: np.ndarray, w: np.ndarray) -> np.ndarray:
        total = self._totals(block, theta, w)
        axes = set(range(1, total.ndim))
        return np.stack([total.min(axis=tuple(axes - {i + 1})) for i in range(block.arity)], axis=1)

    def log_partition(
        self, block: Block, theta: np.ndarray, w: np.ndarray, temperature: float
    ) -> tuple[np.ndarray, np.ndarray, Features]:
        if len(block) == 0:
            return np.zeros(0), theta.copy(), {}
        total = self._totals(block, theta, w)
        flat = total.reshape(len(block), -1)
        low = flat.min(axis=1, keepdims=True)
        # an infeasible clique: inf, not NaN
        weight = np.exp(-(flat - np.where(np.isfinite(low), low, 0.0)) / temperature)
        norm = np.maximum(weight.sum(axis=1, keepdims=True), 1e-300)
        joint = (weight / norm).reshape(total.shape)
        axes = set(range(1, total.ndim))
        marginals = np.stack(
            [joint.sum(axis=tuple(axes - {i + 1})) for i in range(block.arity)], axis=1
        )
        return (
            low[:, 0] - temperature * np.log(norm[:, 0]),
            marginals,
            block.expected_features(joint),
        )

    def examples(self, rng: np.random.Generator) -> list[tuple[Block, dict[str, np.ndarray]]]:
        return [
            (Table([[0, 1, 2], [1, 2, 3]], rng.normal(size=(2, 2, 2, 2))).bind(np.full(4, 2)), {})
        ]


class TableClique(SlaveSolver):
    """Dense tables of any arity and shape, compiled; other blocks of few joint states by writing
    out their tables.

    O(sum of table sizes).
    """

    name = "table"
    layout = "flat"

    def refuses(self, block: Block) -> str | None:
        if isinstance(block, Table):
            return None
        if isinstance(block, RaggedBlock) and len(block) and (block.sizes != block.sizes[0]).any():
            return "cliques of different sizes"
        if len(block) and (block.member_states != block.max_states).any():
            return "no table, and different numbers of states"
        return (
            None
            if block.table_size() <= MAX_STATES
            else f"L**k = {block.table_size():.6g} > {MAX_STATES}"
        )

    def cost(self, block: Block, power: str = "minimise") -> float:
        scale = 1.0 if power == "minimise" else 1.5
        if isinstance(block, Table):
            return scale * float(block.shapes.prod(axis=1).sum())
        return 1.5 * scale * len(block) * block.table_size()

    def prepare(self, block: Block, w: Mapping[str, np.ndarray]) -> tuple[np.ndarray, ...]:
        ptr = np.concatenate([[0], np.cumsum(block.member_states)])
        if isinstance(block, Table):
            return ptr, block.indptr, block.values, block.start
        values = np.ascontiguousarray(block.table(w)).ravel()
        return (
            ptr,
            block.indptr,
            values,
            np.arange(len(block)) * (values.size // max(len(block), 1)),
        )

    def minimise(self, block: Block, theta: np.ndarray, w: Any) -> tuple[np.ndarray, np.ndarray]:
        from gmlearn.slaves._table_numba import minimise_tables

        labels, value = np.zeros(len(block.members), np.int64), np.empty(len(block))
        minimise_tables(theta, *w, labels, value)
        return labels, value

    def min_marginals(self, block: Block, theta: np.ndarray, w: Any) -> np.ndarray:
        from gmlearn.slaves._table_numba import min_marginals_tables

        out = np.empty(len(theta))
        min_marginals_tables(theta, *w, out)
        return out

    def examples(self, rng: np.random.Generator) -> list[tuple[Block, dict[str, np.ndarray]]]:
        shapes = [(2, 3, 2), (3, 2, 2)]
        tables = [rng.normal(size=s) for s in shapes]
        tables[0][0, 1, 1] = np.inf
        return [(Table([[0, 1, 2], [1, 2, 3]], tables).bind(np.array([2, 3, 2, 2])), {})]

    def large_examples(self, rng: np.random.Generator) -> list[tuple[Block, dict[str, np.ndarray]]]:
        triples = rng.integers(0, 100, 300)[:, None] + [0, 1, 2]
        return [(Table(triples, rng.normal(size=(300, 8, 8, 8))).bind(np.full(102, 8)), {})]


class PairwiseEdge(SlaveSolver):
    """Any block of edges, through its pairwise form, compiled. O(M L^2)."""

    name = "pairwise-edge"
    layout = "flat"

    def refuses(self, block: Block) -> str | None:
        if isinstance(block, RaggedBlock) or block.arity != 2:
            return "not a block of edges"
        if block.form_size() > MAX_TABLE_ENTRIES:
            return f"its form has {block.form_size():.3g} > {MAX_TABLE_ENTRIES} entries"
        return None

    def cost(self, block: Block, power: str = "minimise") -> float:
        # the plain table kernel wins a tie
        return (1.1 if power == "minimise" else 2.2) * len(block) * block.table_size()

    def prepare(self, block: Block, w: Mapping[str, np.ndarray]) -> tuple[np.ndarray, PairwiseForm]:
        return np.concatenate([[0], np.cumsum(block.member_states)]), block.pairwise(w)

    def minimise(self, block: Block, theta: np.ndarray, w: Any) -> tuple[np.ndarray, np.ndarray]:
        from gmlearn.slaves._edge_numba import minimise_edges

        ptr, form = w
        labels, value = np.zeros(2 * len(block), np.int64), np.empty(len(block))
        minimise_edges(theta, ptr, form.values, form.start, form.stride, form.scale, labels, value)
        return labels, value

    def min_marginals(self, block: Block, theta: np.ndarray, w: Any) -> np.ndarray:
        from gmlearn.slaves._edge_numba import min_marginals_edges

        ptr, form = w
        out = np.empty(len(theta))
        min_marginals_edges(theta, ptr, form.values, form.start, form.stride, form.scale, out)
        return out

    def examples(self, rng: np.random.Generator) -> list[tuple[Block, dict[str, np.ndarray]]]:
        edges, states = [[0, 1], [1, 2], [0, 2]], np.full(3, 3)
        return [
            (Difference(edges, weight="V").bind(states), {"V": rng.normal(size=3)}),
            (LearntTable(edges, symmetric=False).bind(states), {"pair": rng.normal(size=(3, 3))}),
            (
                Truncated(edges, 1.5, contrast=rng.random(3), weight="t").bind(states),
                {"t": rng.normal(size=())},
            ),
        ]

    def large_examples(self, rng: np.random.Generator) -> list[tuple[Block, dict[str, np.ndarray]]]:
        pairs = rng.integers(0, 500, 2000)[:, None] + [0, 1]
        states = np.full(501, 20)
        block = Truncated(pairs, 3.0, contrast=rng.random(2000), weight="t").bind(states)
        return [(block, {"t": np.ones(())})]


class PottsEdge(SlaveSolver):
    """Potts edges in O(M L), for strengths of either sign."""

    name = "potts-edge"
    layout = "flat"

    def refuses(self, block: Block) -> str | None:
        return None if isinstance(block, Potts) else "not Potts edges"

    def cost(self, block: Block, power: str = "minimise") -> float:
        if power == "minimise":
            return 4.0 * len(block) * block.max_states
        return 2.0 * len(block) * block.table_size()

    def prepare(self, block: Block, w: Mapping[str, np.ndarray]) -> tuple[np.ndarray, PairwiseForm]:
        return np.concatenate([[0], np.cumsum(block.member_states)]), block.pairwise(w)

    def minimise(self, block: Block, theta: np.ndarray, w: Any) -> tuple[np.ndarray, np.ndarray]:
        from gmlearn.slaves._edge_numba import minimise_potts

        ptr, form = w
        labels, value = np.zeros(2 * len(block), np.int64), np.empty(len(block))
        minimise_potts(theta, ptr, form.scale, labels, value)
        return labels, value

    min_marginals = PairwiseEdge.min_marginals

    def examples(self, rng: np.random.Generator) -> list[tuple[Block, dict[str, np.ndarray]]]:
        edges = [[0, 1], [1, 2], [0, 2]]
        return [
            (Potts(edges, rng.normal(size=3)).bind(np.array([3, 2, 4])), {}),
            (
                Potts(edges, rng.random(3), weight="s").bind(np.full(3, 3)),
                {"s": rng.normal(size=())},
            ),
        ]

    def large_examples(self, rng: np.random.Generator) -> list[tuple[Block, dict[str, np.ndarray]]]:
        pairs = rng.integers(0, 500, 2000)[:, None] + [0, 1]
        return [(Potts(pairs, rng.normal(size=2000)).bind(np.full(501, 30)), {})]
