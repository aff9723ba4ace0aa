"""What a potential is: a block of cliques of one type, with an energy that is linear in the weights."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gmlearn._utils.validation import check_array

Weights = Mapping[str, np.ndarray]
#: joint states that a dense table of a whole block may have before `Block.table` refuses
MAX_TABLE_ENTRIES = 20_000_000


class Block(ABC):
    r"""M cliques of one type: :math:`h_c(x_c; w) = w \cdot g_c(x_c) + \mathrm{const}_c(x_c)`.

    A subclass sets `name`, stores arrays with a leading M, names them in `per_clique`, and writes `energy` and
    `features`; everything else has a default. Hard constraints are ``inf`` and carry no weight.

    Attributes
    ----------
    variables : int (M, k), the variables of each clique.
    states : int (M, k), how many states each of them has; set by `bind` when the block joins a model.
    """

    registry_kind: ClassVar[str] = "potential"
    name: ClassVar[str] = ""
    #: attributes with a leading M, cut by `take` (None values are left alone)
    per_clique: ClassVar[tuple[str, ...]] = ()
    #: the largest number of states when the block was bound; unlike `max_states` it is the same for every part of the block
    n_labels: int = 0

    def __init__(self, variables: Any):
        self.variables = check_array(
            f"{type(self).__name__}.variables", variables, ndim=2, dtype=np.int64
        )
        if self.variables.shape[1] == 0 and len(self.variables):
            raise ValueError(
                f"{type(self).__name__}.variables: a clique needs at least one variable, got shape "
                f"{self.variables.shape}"
            )
        self.states: np.ndarray = None  # type: ignore[assignment]  # known once bound

    # ------------------------------------------------------------------ what a subclass writes

    @abstractmethod
    def energy(self, x: np.ndarray, w: Weights) -> np.ndarray:
        """Energies (M,) of clique labellings `x` (M, k); always const + w . features."""

    def features(self, x: np.ndarray, weight: np.ndarray | None = None) -> dict[str, np.ndarray]:
        r"""Features summed over the cliques, :math:`\sum_m weight_m\, g_m(x_m)`, by weight segment."""
        return {}

    def clique_features(self, x: np.ndarray) -> dict[str, np.ndarray] | None:
        """Features (M, *shape) clique by clique; None if only their sum is known (training then takes coarser steps)."""
        return None if self.segments() else {}

    def features_by(self, x: np.ndarray, group: np.ndarray, n: int) -> dict[str, np.ndarray] | None:
        """Features (n, *shape) summed within groups of cliques, `group` int (M,) below `n`; None as in `clique_features`."""
        parts = self.clique_features(x)
        if parts is None:
            return None
        sums = {}
        for name, value in parts.items():
            size = int(np.prod(value.shape[1:]))
            index = group[:, None] * size + np.arange(size)
            sums[name] = weighted_bincount(index, np.asarray(value), n * size).reshape(
                n, *value.shape[1:]
            )
        return sums

    def segments(self) -> dict[str, tuple[int, ...]]:
        """The weight segments that this block reads, with their shapes; empty for a fixed potential."""
        return {}

    def check(self) -> None:
        """Further checks once `states` is known; raise ValueError with the reason."""
        return None

    # ------------------------------------------------------------------ what every block has

    def bind(self, n_states: np.ndarray) -> Block:
        """This block within a model whose variables have `n_states` (V,) states: range and shape checks."""
        n = len(n_states)
        bad = self.members[(self.members < 0) | (self.members >= n)]
        if bad.size:
            raise ValueError(f"{self}: variables must lie in 0..{n - 1}, got {int(bad[0])}")
        self._check_distinct()
        bound = copy.copy(self)
        bound.states = np.ascontiguousarray(n_states[self.variables])
        bound.n_labels = bound.max_states
        bound.check()
        return bound

    def _check_distinct(self) -> None:
        ordered = np.sort(self.variables, axis=1)
        repeated = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if repeated.size:
            raise ValueError(
                f"{self}: clique {int(repeated[0])} names a variable twice: "
                f"{self.variables[repeated[0]].tolist()}"
            )

    def take(self, index: Any) -> Block:
        """The cliques at `index` (M',), repeats allowed, as a block."""
        part = copy.copy(self)
        for attribute in ("variables", "states", *self.per_clique):
            value = getattr(self, attribute)
            if value is not None:
                setattr(part, attribute, value[index])
        return part

    def __len__(self) -> int:
        return len(self.variables)

    @property
    def arity(self) -> int:
        """Variables per clique (the largest, if cliques differ)."""
        return self.variables.shape[1]

    @property
    def members(self) -> np.ndarray:
        """int (S,): the variables of all cliques, one after the other."""
        return self.variables.ravel()

    @property
    def member_states(self) -> np.ndarray:
        """int (S,): the number of states of each member."""
        assert self.states is not None, "bind the block to a model first"
        return self.states.ravel()

    @property
    def indptr(self) -> np.ndarray:
        """int (M + 1,): clique m owns members indptr[m]:indptr[m + 1]."""
        return np.arange(len(self) + 1) * self.variables.shape[1]

    def gather(self, x: np.ndarray) -> np.ndarray:
        """The part (M, k) of a whole labelling (V,) that `energy` and `features` expect."""
        return x[self.variables]

    def shape_members(self, per_member: np.ndarray) -> np.ndarray:
        """Per-member values (S, ...) as (M, k, ...)."""
        return per_member.reshape(len(self), self.arity, *per_member.shape[1:])

    @property
    def max_states(self) -> int:
        return int(self.member_states.max(initial=1))

    def table_size(self) -> float:
        """Entries of the dense table of one clique, padded to the largest number of states."""
        return float(self.max_states) ** self.arity

    def table(self, w: Weights) -> np.ndarray:
        """Dense energies (M, L, ..., L), L = `max_states`; inf where a variable has fewer states. O(M L^k)."""
        if self.table_size() * len(self) > MAX_TABLE_ENTRIES:
            raise ValueError(
                f"{self}: a dense table would have {self.table_size() * len(self):.3g} entries "
                f"(limit {MAX_TABLE_ENTRIES})"
            )
        size, arity = self.max_states, self.arity
        configurations = np.indices((size,) * arity).reshape(arity, -1).T
        clique = np.repeat(np.arange(len(self)), len(configurations))
        x = np.tile(configurations, (len(self), 1))
        possible = (x < self.member_states.reshape(-1, max(arity, 1))[clique]).all(axis=1)
        values = np.full(len(x), np.inf)
        part = self.take(clique[possible])
        values[possible] = part.energy(part.shape_members(x[possible].ravel()), w)
        return values.reshape((len(self),) + (size,) * arity)

    def pairwise(self, w: Weights) -> PairwiseForm:
        """The edges' costs, for blocks of arity 2."""
        table = self.table(w)
        m, size = len(self), self.max_states
        return PairwiseForm(table.ravel(), np.arange(m) * size * size, np.full(m, size), np.ones(m))

    def __repr__(self) -> str:
        labels = "" if self.states is None else f", L={self.max_states}"
        return f"{type(self).__name__}(M={len(self)}, k={self.arity}{labels})"


class RaggedBlock(Block):
    """Cliques of different sizes: labels and thetas come flat, member by member, with `indptr`.

    `energy` and `features` receive `x` (S,) and may use ``np.add.reduceat(..., self.indptr[:-1])``.
    """

    #: attributes with a leading S (one entry per member)
    per_member: ClassVar[tuple[str, ...]] = ()

    def __init__(self, cliques: Any):
        try:
            cliques = [np.asarray(c, dtype=np.int64).ravel() for c in cliques]
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{type(self).__name__}.cliques: expected a list of integer arrays ({error})"
            ) from None
        empty = [m for m, c in enumerate(cliques) if c.size == 0]
        if empty:
            raise ValueError(f"{type(self).__name__}.cliques: clique {empty[0]} is empty")
        self._members = np.concatenate(cliques) if cliques else np.zeros(0, np.int64)
        self._indptr = np.concatenate([[0], np.cumsum([len(c) for c in cliques])]).astype(np.int64)
        self.states = None  # type: ignore[assignment]  # known once bound

    @property
    def members(self) -> np.ndarray:
        return self._members

    @property
    def indptr(self) -> np.ndarray:
        return self._indptr

    @property
    def sizes(self) -> np.ndarray:
        """int (M,): members of each clique."""
        return np.diff(self._indptr)

    @property
    def owner(self) -> np.ndarray:
        """int (S,): the clique of each member."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @property
    def arity(self) -> int:
        return int(self.sizes.max(initial=0))

    def __len__(self) -> int:
        return len(self._indptr) - 1

    def bind(self, n_states: np.ndarray) -> Block:
        n = len(n_states)
        bad = self._members[(self._members < 0) | (self._members >= n)]
        if bad.size:
            raise ValueError(f"{self}: variables must lie in 0..{n - 1}, got {int(bad[0])}")
        pairs = self.owner * np.int64(n) + self._members
        if len(np.unique(pairs)) != len(pairs):
            ordered = np.sort(pairs)
            clique = int(ordered[1:][ordered[1:] == ordered[:-1]][0] // n)
            raise ValueError(f"{self}: clique {clique} names a variable twice")
        bound = copy.copy(self)
        bound.states = n_states[self._members]
        bound.n_labels = bound.max_states
        bound.check()
        return bound

    def take(self, index: Any) -> Block:
        index = np.atleast_1d(np.arange(len(self))[index])
        part = copy.copy(self)
        sizes = self.sizes[index]
        part._indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        where = np.repeat(self._indptr[index] - part._indptr[:-1], sizes) + np.arange(
            part._indptr[-1]
        )
        part._members = self._members[where]
        for attribute, cut in [
            *((a, index) for a in self.per_clique),
            *((a, where) for a in ("states", *self.per_member)),
        ]:
            value = getattr(self, attribute)
            if value is not None:
                setattr(part, attribute, value[cut])
        return part

    def gather(self, x: np.ndarray) -> np.ndarray:
        return x[self._members]

    def shape_members(self, per_member: np.ndarray) -> np.ndarray:
        return per_member

    def table(self, w: Weights) -> np.ndarray:
        """Dense energies (M, L, ..., L) for cliques of one size."""
        sizes = self.sizes
        if len(sizes) and (sizes != sizes[0]).any():
            raise ValueError(
                f"{self}: cliques of different sizes have no common table; take cliques of one size"
            )
        return super().table(w)


#: how compiled kernels may treat the costs of an edge
DENSE, POTTS, LINEAR = 0, 1, 2


@dataclass(frozen=True)
class PairwiseForm:
    """Costs of edges as compiled kernels read them: ``scale[e] * values[start[e] + a * stride[e] + b]``.

    values : float, a pool of tables shared by edges.   start, stride : int (M,).   scale : float (M,).
    kind : `POTTS`, the table is [a != b]; `LINEAR`, it is min(|a - b|, cut); both allow messages in O(L). Else `DENSE`.
    """

    values: np.ndarray
    start: np.ndarray
    stride: np.ndarray
    scale: np.ndarray
    kind: int = DENSE
    cut: float = np.inf


def weighted_bincount(index: np.ndarray, weight: np.ndarray | None, minlength: int) -> np.ndarray:
    """``np.bincount`` with float output and optional weights."""
    return np.bincount(index.ravel(), None if weight is None else weight.ravel(), minlength).astype(
        float
    )
