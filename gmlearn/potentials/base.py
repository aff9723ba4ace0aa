"""What a potential is: a block of cliques of one type, with an energy that is linear in the
weights.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from gmlearn._utils.ranges import ranges
from gmlearn._utils.validation import check_array
from gmlearn.potentials.arguments import arguments_of, check_lengths, check_names
from gmlearn.potentials.form import PairwiseForm
from gmlearn.potentials.gradient import CostGradient, Weights
from gmlearn.potentials.inputs import alike, same, stacked

#: joint states that a dense table of a whole block may have before `Block.table` refuses
MAX_TABLE_ENTRIES = 20_000_000
#: labellings that `Block.expected_features` writes out at a time
EXPECTED_ROWS = 2_000_000

#: entries that `Block.table` evaluates at a time
TABLE_PART = 1_000_000


class Block(CostGradient, ABC):
    r"""M cliques of one type: :math:`h_c(x_c; w) = w \cdot g_c(x_c) + \mathrm{const}_c(x_c)`.

    A subclass sets `name`, stores arrays with a leading M, names them in `per_clique`, and writes
    `energy` and `features`; everything else has a default. Hard constraints are ``inf`` and carry
    no weight.

    Attributes
    ----------
    variables : int (M, k), the variables of each clique.
    states : int (M, k), how many states each of them has; set by `bind` when the block joins a
        model.
    """

    registry_kind: ClassVar[str] = "potential"
    name: ClassVar[str] = ""
    #: attributes with a leading M, cut by `take` (None values are left alone)
    per_clique: ClassVar[tuple[str, ...]] = ()
    #: the largest number of states when the block was bound; unlike `max_states` it is the same for
    #: every part of the block
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
        r"""Features summed over the cliques, :math:`\sum_m weight_m\, g_m(x_m)`, by weight
        segment.
        """
        return {}

    def clique_features(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Features (M, *shape) clique by clique; here by one call of `features` for each."""
        return self._features_of(x, np.arange(len(self)), len(self))

    def _features_of(self, x: np.ndarray, group: np.ndarray, n: int) -> dict[str, np.ndarray]:
        """`features_by` from nothing but `features`."""
        sums = {name: np.zeros((n, *shape)) for name, shape in self.segments().items()}
        order = np.argsort(group, kind="stable") if sums else np.zeros(0, np.int64)
        number, first = np.unique(group[order], return_index=True)
        for g, cliques in zip(number, np.split(order, first[1:])):
            part = self.take(cliques)
            own = part.shape_members(np.ravel(x)[self._places(cliques)])
            for name, value in part.features(own).items():
                sums[name][g] = value
        return sums

    def _places(self, cliques: np.ndarray) -> np.ndarray:
        """Where the members of some cliques stand among all members."""
        return ranges(self.indptr[cliques], np.diff(self.indptr)[cliques])

    def features_by(self, x: np.ndarray, group: np.ndarray, n: int) -> dict[str, np.ndarray]:
        """Features (n, *shape) summed within groups of cliques, `group` int (M,) below `n`."""
        if type(self).clique_features is Block.clique_features:
            return self._features_of(x, group, n)
        sums = {}
        for name, value in self.clique_features(x).items():
            size = int(np.prod(value.shape[1:]))
            index = group[:, None] * size + np.arange(size)
            flat = weighted_bincount(index, np.asarray(value), n * size)
            sums[name] = flat.reshape(n, *value.shape[1:])
        return sums

    def expected_features(self, joint: np.ndarray) -> dict[str, np.ndarray]:
        """Features under joint label distributions `joint` (M, L, ..., L) of the cliques, summed.

        The default writes out every labelling of positive probability, O(M L^k).
        """
        total: dict[str, np.ndarray] = {}
        shape = joint.shape[1:]
        configurations = np.indices(shape).reshape(len(shape), -1).T
        step = max(1, EXPECTED_ROWS // max(1, len(configurations)))
        for first in range(0, len(self) if self.segments() else 0, step):
            index = np.arange(first, min(first + step, len(self)))
            weight = joint[index].ravel()
            used = weight > 0
            part = self.take(np.repeat(index, len(configurations))[used])
            x = np.tile(configurations, (len(index), 1))[used]
            for name, value in part.features(part.shape_members(x.ravel()), weight[used]).items():
                total[name] = total.get(name, 0.0) + value
        return total

    @classmethod
    def segment_name(cls, weight: Any, argument: str = "weight") -> Any:
        """`weight`, the name of a weight segment or None; for constructors, which refuse others."""
        if weight is not None and not isinstance(weight, str):
            raise TypeError(
                f"{cls.__name__}.{argument}: weight segments are named by strings, got {weight!r}"
            )
        return weight

    #: do the features follow from how much each value of `pairwise` is used? Then edges with the
    #: same table are added up before they are looked at, by `form_features`
    shares_form: ClassVar[bool] = False

    def form_features(self, used: np.ndarray) -> dict[str, np.ndarray]:
        """The gradient in w of <used, values>, `values` those of ``pairwise(w)``, for blocks with
        `shares_form`.
        """
        raise TypeError(f"{type(self).__name__} must define form_features(used)")

    def segments(self) -> dict[str, tuple[int, ...]]:
        """The weight segments that this block reads, with their shapes; empty for a fixed
        potential.
        """
        return {}

    def repair(self, x: np.ndarray, w: Weights) -> np.ndarray | None:
        """Labels near `x` (M, k) that break no hard constraint of their clique; None if the
        block knows none (a slave solver's `propose` is asked then).
        """
        return None

    #: optional, a method (q, w) -> float, like q; mean field needs it where cliques are too large
    #: for tables. q (M, k, L), for a ragged block (S, L): probabilities of the members' labels, 0
    #: beyond a variable's states. The answer: for each label of each member the expected energy of
    #: its clique if it takes that label and the others choose independently, like q; inf where a
    #: labelling of positive probability is forbidden. Beyond a variable's states it means nothing
    expected_energy: Any = None

    def check(self) -> None:
        """Further checks once `states` is known; raise ValueError with the reason."""

    # ------------------------------------------------------------------ what every block has

    def bind(self, n_states: np.ndarray) -> Self:
        """This block within a model whose variables have `n_states` (V,) states: range and shape
        checks.
        """
        n = len(n_states)
        bad = self.members[(self.members < 0) | (self.members >= n)]
        if bad.size:
            raise ValueError(f"{self}: variables must lie in 0..{n - 1}, got {int(bad[0])}")
        self._check_distinct()
        check_lengths(self)
        bound = copy.copy(self)
        bound.states = np.ascontiguousarray(self.shape_members(n_states[self.members]))
        # without cliques, weights have the shapes that the model's variables ask for
        bound.n_labels = bound.max_states if len(self) else int(n_states.max(initial=1))
        bound.check()
        check_names(bound)
        return bound

    def _check_distinct(self) -> None:
        ordered = np.sort(self.variables, axis=1)
        repeated = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if repeated.size:
            raise ValueError(
                f"{self}: clique {int(repeated[0])} names a variable twice: "
                f"{self.variables[repeated[0]].tolist()}"
            )

    def state(self) -> dict[str, Any]:
        """The arguments that make this block again: arrays, numbers, strings, bools, None, or
        sequences of arrays.

        Here the cliques as the constructor's first argument, and the attributes named like the
        others. A class whose attributes have other names than its arguments overrides it.
        """
        return arguments_of(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The block that `state` describes, made by the constructor with all its checks."""
        return cls(**state)

    @property
    def cliques(self) -> Any:
        """The members as the constructor takes them."""
        return self.variables

    def take(self, index: Any) -> Self:
        """The cliques at `index` (M',), repeats allowed, as a block."""
        part = copy.copy(self)
        for attribute in (*self._joined, *self.per_clique):
            value = getattr(self, attribute)
            if value is not None:
                setattr(part, attribute, value[index])
        return part

    #: what `take` cuts and `join` puts together besides `per_clique` (the members of cliques)
    _joined: ClassVar[tuple[str, ...]] = ("variables", "states", "gradient_start")

    def all_finite(self) -> bool:
        """Are all features and costs known to be finite? False if only trying labels can tell."""
        return False

    def fits(self, other: Block) -> bool:
        """Can the cliques of `other` join these in one block? All that they share must be equal."""
        mine, theirs = vars(self), vars(other)
        if type(self) is not type(other) or len(mine) != len(theirs):
            return False
        rows = (*self._joined, *self.per_clique)
        # a loop without calls: thousands of small models are joined for one prediction
        for name, a in mine.items():
            b = theirs.get(name, self)
            if a is b:
                continue
            if type(a) is type(b) is np.ndarray and name in rows:
                if a.shape[1:] != b.shape[1:]:
                    return False
            elif not (alike if name in rows else same)(a, b):
                return False
        return True

    def join(self, blocks: Sequence[Block], shifts: Sequence[int]) -> Block:
        """The cliques of `blocks`, which all fit, in one block; their variables are shifted."""
        whole = copy.copy(self)
        for name in (*self._joined, *self.per_clique):
            if getattr(self, name) is not None:
                setattr(whole, name, stacked([getattr(b, name) for b in blocks]))
        whole.variables = whole.variables + np.repeat(shifts, [len(b) for b in blocks])[:, None]
        return whole

    def select(self, index: np.ndarray, shift: np.ndarray) -> Self:
        """The cliques at `index` (M',), repeats allowed, each on variables `shift` (M',) further on
        that have as many states.
        """
        part = self.take(index)
        part.variables = part.variables + shift[:, None]
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

    @np.errstate(over="ignore")
    def table_size(self) -> float:
        """Entries of the dense table of one clique, padded to the largest number of states; inf
        beyond what a float holds.
        """
        return float(np.float64(self.max_states) ** self.arity)

    @np.errstate(over="ignore")
    def form_size(self) -> float:
        """Numbers that `pairwise` (`dense`, if these are no edges) writes out for the whole block.
        A block with a smaller form of its own overrides it together with `pairwise`.
        """
        states = self.member_states.astype(float)
        return float(np.multiply.reduceat(states, self.indptr[:-1]).sum()) if len(self) else 0.0

    def check_size(self, entries: float) -> None:
        """Refuse a dense table of so many entries before any memory is asked for."""
        if entries > MAX_TABLE_ENTRIES:
            raise ValueError(
                f"{self}: a dense table would have {entries:.3g} entries "
                f"(limit {MAX_TABLE_ENTRIES}); a slave solver for {self.name!r} needs none"
            )

    def dense(self, w: Weights) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Energies of all joint states: (values, start (M,), stride (M, k)), clique m at labels x
        costs ``values[start[m] + (stride[m] * x).sum()]``. O(sum of table sizes).
        """
        self.check_size(Block.form_size(self))
        states = self.member_states.reshape(-1, max(self.arity, 1))
        steps = np.cumprod(states[:, ::-1], axis=1)[:, ::-1]
        stride = np.concatenate([steps[:, 1:], np.ones((len(self), 1), np.int64)], axis=1)
        start = np.cumsum(steps[:, 0]) - steps[:, 0]
        values = np.empty(int(steps[:, 0].sum()))
        for first in range(0, len(values), TABLE_PART):
            place = np.arange(first, min(first + TABLE_PART, len(values)))
            clique = np.searchsorted(start, place, side="right") - 1
            x = (place - start[clique])[:, None] // stride[clique] % states[clique]
            part = self.take(clique)
            values[place] = part.energy(part.shape_members(x.ravel()), w)
        return values, start, stride

    def table(self, w: Weights) -> np.ndarray:
        """Dense energies (M, L, ..., L), L = `max_states`; inf where a variable has fewer
        states. O(M L^k).
        """
        self.check_size(self.table_size() * max(len(self), 1))
        values, start, _ = self.dense(w)
        padded = np.full((len(self),) + (self.max_states,) * self.arity, np.inf)
        each = padded.size // max(len(self), 1)
        if len(values) == padded.size and np.array_equal(start, each * np.arange(len(self))):
            return values.reshape(padded.shape)
        states = self.member_states.reshape(-1, max(self.arity, 1))
        for m, (first, shape) in enumerate(zip(start.tolist(), states.tolist())):
            own = values[first : first + int(np.prod(shape))].reshape(shape)
            padded[m][tuple(slice(n) for n in shape)] = own
        return padded

    def pairwise(self, w: Weights) -> PairwiseForm:
        """The edges' costs, for blocks of arity 2."""
        values, start, stride = self.dense(w)
        return PairwiseForm(values, start, stride[:, 0], np.ones(len(self)))

    def __repr__(self) -> str:
        labels = "" if self.states is None else f", L={self.max_states}"
        return f"{type(self).__name__}(M={len(self)}, k={self.arity}{labels})"


def weighted_bincount(index: np.ndarray, weight: np.ndarray | None, minlength: int) -> np.ndarray:
    """``np.bincount`` with float output and optional weights."""
    return np.bincount(index.ravel(), None if weight is None else weight.ravel(), minlength).astype(
        float
    )
