"""Fixed dense tables of any arity; every clique may have its own shape."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from gmlearn._utils.ranges import ranges
from gmlearn._utils.validation import check_array
from gmlearn.potentials.base import Block, Weights
from gmlearn.potentials.form import PairwiseForm


class Table(Block):
    """Cliques with a fixed cost for each joint labelling; ``inf`` forbids one.

    Parameters
    ----------
    variables : int (M, k).
    tables : one array (L_1, ..., L_k) shared by all cliques, an array (M, L_1, ..., L_k), or a list
        of M arrays whose shapes may differ. The last variable changes fastest.

    Attributes
    ----------
    values : float, all tables flattened, one after the other.   start : int (M,), where each
        begins.
    shapes : int (M, k).
    """

    name = "table"
    per_clique = ("start", "shapes")

    def __init__(self, variables: Any, tables: Any):
        super().__init__(variables)
        m, k = self.variables.shape
        if isinstance(tables, (list, tuple)) and len(tables) and isinstance(tables[0], np.ndarray):
            self._from_list(tables, m, k)
            return
        #: do all cliques share one table?
        self.one_table = False
        array = check_array("Table.tables", tables, allow_inf=True)
        if array.ndim == k:
            self.one_table = True
            self.values, self.start = array.ravel(), np.zeros(m, np.int64)
            self.shapes = np.tile(np.array(array.shape, np.int64), (m, 1))
        elif array.ndim == k + 1 and len(array) == m:
            self.values = array.ravel()
            self.start = np.arange(m, dtype=np.int64) * int(np.prod(array.shape[1:]))
            self.shapes = np.tile(np.array(array.shape[1:], np.int64), (m, 1))
        else:
            raise ValueError(
                f"Table.tables: expected {k} dimensions (shared) or {k + 1} with a leading {m}, "
                f"got shape {array.shape}"
            )

    def _from_list(self, tables: Any, m: int, k: int) -> None:
        if len(tables) != m:
            raise ValueError(f"Table.tables: expected {m} tables, got {len(tables)}")
        checked = [
            check_array(f"Table.tables[{i}]", t, ndim=k, allow_inf=True)
            for i, t in enumerate(tables)
        ]
        self.one_table = False
        self.shapes = np.array([t.shape for t in checked], np.int64).reshape(m, k)
        sizes = np.array([t.size for t in checked], np.int64)
        self.start = np.cumsum(sizes) - sizes
        self.values = np.concatenate([t.ravel() for t in checked]) if checked else np.zeros(0)

    def state(self) -> dict[str, Any]:
        """Tables may be shared, so the pool is stored, not what it would be written out."""
        names = ("variables", "values", "start", "shapes")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Table:
        block = cls(state["variables"], np.zeros((1,) * np.shape(state["variables"])[1]))
        m, k = block.variables.shape
        block.values = check_array("Table.values", state["values"], ndim=1, allow_inf=True)
        block.start = check_array("Table.start", state["start"], shape=(m,), dtype=np.int64)
        block.shapes = check_array("Table.shapes", state["shapes"], shape=(m, k), dtype=np.int64)
        return block

    def check(self) -> None:
        wrong = np.flatnonzero((self.shapes != self.states).any(axis=1))
        if wrong.size:
            m = int(wrong[0])
            raise ValueError(
                f"{self}: table {m} has shape {tuple(self.shapes[m].tolist())}, but its variables "
                f"{self.variables[m].tolist()} have {tuple(self.states[m].tolist())} states"
            )
        # compiled kernels rely on it
        end = self.start + self.states.prod(axis=1, dtype=float)
        if (self.start < 0).any() or (end > self.values.size).any():
            raise ValueError("start: a table reaches beyond the values")

    def fits(self, other: Block) -> bool:
        return type(self) is type(other) and self.arity == other.arity

    def join(self, blocks: Sequence[Block], shifts: Sequence[int]) -> Block:
        whole: Any = super().join(blocks, shifts)
        pools = [vars(b)["values"] for b in blocks]
        if any(pool is not self.values for pool in pools):
            begin = np.cumsum([0, *(len(pool) for pool in pools[:-1])])
            whole.values = np.concatenate(pools)
            whole.start = whole.start + np.repeat(begin, [len(b) for b in blocks])
        return whole

    def select(self, index: np.ndarray, shift: np.ndarray) -> Table:
        part = super().select(index, shift)
        first, number = np.unique(part.start, return_inverse=True)
        size = np.zeros(len(first), np.int64)
        np.maximum.at(size, number, part.shapes.prod(axis=1))
        if 2 * size.sum() < len(part.values):  # few of the tables
            part.values = part.values[ranges(first, size)]
            part.start = (np.cumsum(size) - size)[number]
        return part

    def dense(self, w: Weights) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.values, self.start, self.strides

    @property
    def strides(self) -> np.ndarray:
        """int (M, k): how far one more in a label moves within the table."""
        steps = np.ones(self.shapes.shape, np.int64)
        steps[:, :-1] = self.shapes[:, :0:-1].cumprod(axis=1)[:, ::-1]
        return steps

    def energy(self, x: np.ndarray, w: Weights) -> np.ndarray:
        return self.values[self.start + (x * self.strides).sum(axis=1)]

    def segments(self) -> dict[str, tuple[int, ...]]:
        return self.gradient_segments()

    def own_costs(self) -> np.ndarray:
        return self.shapes.prod(axis=1)

    def cost_gradient(self, found: np.ndarray, w: Weights) -> Any:
        """The derivative in the tables: one array if they share it, (M, L_1, ..., L_k) if all have
        one shape, else a list of arrays.
        """
        if len(self) == 0 or (self.shapes != self.shapes[0]).any():
            ends = np.cumsum(self.own_costs())
            return [t.reshape(s) for t, s in zip(np.split(found, ends[:-1]), self.shapes.tolist())]
        tables = found.reshape(len(self), *self.shapes[0].tolist())
        return tables.sum(axis=0) if self.one_table else tables

    def with_costs(self, numbers: Any) -> Self:
        own = type(self)(self.variables, numbers)
        other = copy.copy(self)
        other.values, other.start, other.shapes = own.values, own.start, own.shapes
        other.check()
        return other

    def features(self, x: np.ndarray, weight: np.ndarray | None = None) -> dict[str, np.ndarray]:
        amount = np.ones(len(self)) if weight is None else weight
        return self.gradient_features((x * self.strides).sum(axis=1)[:, None], amount)

    def clique_features(self, x: np.ndarray) -> dict[str, np.ndarray]:
        place = (x * self.strides).sum(axis=1)[:, None]
        return self.clique_gradient_features(place, np.ones((len(self), 1)))

    def expected_features(self, joint: np.ndarray) -> dict[str, np.ndarray]:
        if self.gradient_segment is None:
            return {}
        entry = np.indices(joint.shape[1:]).reshape(joint.ndim - 1, -1)
        amount = joint.reshape(len(self), -1)
        # entries beyond the states of a variable have no probability, and no place
        return self.gradient_features(np.where(amount > 0, self.strides @ entry, 0), amount)

    def form_size(self) -> float:
        return 0.0  # the tables are there already

    def pairwise(self, w: Weights) -> PairwiseForm:
        return PairwiseForm(self.values, self.start, self.shapes[:, 1], np.ones(len(self)))


def Pairwise(
    edges: Any,
    weight: str | None = None,
    symmetric: bool = False,
    table: Any = None,
    contrast: Any = None,
) -> Block:
    """Edges with a table of label pairs: learnt and shared (`weight`), or fixed (`table`, shared or
    one for each edge).

    Parameters
    ----------
    edges : int (M, 2).
    weight : name of the segment that holds the learnt table: weights of shape (L, L), the rows for
        the first end of an edge; L(L+1)/2 weights if `symmetric`.
    table : float (L, L), or (M, L_1, L_2), or a list of M arrays: a fixed table instead of a learnt
        one.
    contrast : float (M,), scales the learnt table edge by edge.
    """
    from gmlearn.potentials.pairwise import LearntTable

    if (weight is None) == (table is None):
        raise ValueError(
            "Pairwise: give either `weight` (a learnt table) or `table` (a fixed one), not both "
            "or neither"
        )
    if table is not None:
        if contrast is not None:
            raise ValueError(
                "Pairwise.contrast: only for learnt tables; multiply a fixed table yourself"
            )
        return Table(edges, table)
    return LearntTable(edges, weight, symmetric, contrast)  # type: ignore[arg-type]
