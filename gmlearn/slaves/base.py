"""The two contracts below the master: a slave solver for blocks, and a slave group of
subproblems.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from gmlearn.potentials.base import Block

Features = dict[str, np.ndarray]
#: the blocks that a slave solver takes, for type checkers: ``SlaveSolver[MyBlock]``
BlockT = TypeVar("BlockT", bound=Block)


#: table entries read for each dual variable by a solver that does not state its cost
UNSTATED = 100.0


class SlaveResult:
    """Minimisers of one slave group.

    ind : float (D,), the minimisers' indicators, laid out like ``group.coords``; fractions only
        from relaxations.
    value : float (M,), the minima (lower bounds if the solver is a relaxation).
    labels : whatever the group needs to evaluate features at the minimisers; for CRF slaves, int
        (S,), one per member.
    chosen, size : instead of `ind`, int (S,), ascending, which of its D = `size` entries are 1: far
        fewer, so that who only counts or moves them never pays for the whole of `ind`, which is
        written out when it is asked for.
    """

    def __init__(
        self,
        ind: np.ndarray | None,
        value: np.ndarray,
        labels: Any = None,
        chosen: np.ndarray | None = None,
        size: int = 0,
    ):
        self._ind = ind
        self.value = value
        self.labels = labels
        self.chosen = chosen
        self._size = size

    @property
    def ind(self) -> np.ndarray:
        if self._ind is None:
            self._ind = np.zeros(self._size)
            self._ind[self.chosen] = 1.0
        return self._ind


@dataclass(frozen=True)
class SoftResult:
    """Soft minima :math:`-\\epsilon \\log \\sum_x e^{-E/\\epsilon}` (M,), marginals (D,),
    expected clique features; optionally the expected energies (M,) of the slaves.
    """

    value: np.ndarray
    marginals: np.ndarray
    features: Features
    energy: np.ndarray | None = None


class SlaveSolver(ABC, Generic[BlockT]):
    r"""Exact minimiser of single cliques, :math:`\min_x \sum_i \theta_i(x_i) + h_c(x; w)`, for a
    whole block at once.

    A subclass sets `name`, says in `refuses` what it cannot do, and writes `minimise`. Further
    powers are optional: define `min_marginals` (and `member_marginals`, where one member is cheaper
    than all of them) or `log_partition` and the masters that can use them will find them.
    """

    registry_kind: ClassVar[str] = "slave solver"
    name: ClassVar[str] = ""
    #: False for a relaxation that only bounds the minimum from below
    exact: ClassVar[bool] = True
    #: "padded": theta comes as (M, k, L), inf beyond a variable's states; "flat": as (D,) with
    #: `ptr` (S + 1,)
    layout: ClassVar[str] = "padded"

    def refuses(self, block: Block) -> str | None:
        """None if this solver can take `block`, else the reason in a few words."""
        return None

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        own = cls.__dict__.get("cost")
        if own is not None and len(inspect.signature(own).parameters) == 2:
            # written as cost(block): speaks of `minimise` only
            cls.cost = lambda self, block, power="minimise": (  # type: ignore[method-assign]
                own(self, block) * minimisations(block, power)
            )

    def cost(self, block: BlockT, power: str = "minimise") -> float:
        """About how many operations one call of `power` takes on the block: "minimise",
        "min_marginals" or "log_partition".

        The cheapest exact solver with the wanted power is chosen, and a power is used only where
        it is worth its cost. The default: all joint states, and for a power beyond `minimise` one
        minimisation for each label of a clique.
        """
        return float(len(block)) * block.table_size() * minimisations(block, power)

    def prepare(self, block: BlockT, w: Mapping[str, np.ndarray]) -> Any:
        """What `minimise` needs of the weights, computed once for many rounds; by default the
        weights themselves.
        """
        return w

    @abstractmethod
    def minimise(self, block: BlockT, theta: np.ndarray, w: Any) -> tuple[np.ndarray, np.ndarray]:
        """Minimisers and minima of all M cliques; `theta` must not be written to.

        Parameters
        ----------
        theta : (M, k, L), costs of the labels; for a ragged block (S, L). Ties are broken
            deterministically.
        w : what `prepare` returned.

        Returns
        -------
        labels : int (M, k) (ragged: (S,)).   values : float (M,).
        """

    def propose(self, block: BlockT, theta: np.ndarray, w: Any) -> np.ndarray:
        """Labels (M, k) of low cost that break no hard constraint, for local search; by default
        the minimisers. For a relaxation, or where something faster will do.
        """
        return self.minimise(block, theta, w)[0]

    def examples(self, rng: np.random.Generator) -> list[tuple[Block, dict[str, np.ndarray]]]:
        """Small random blocks, bound, with weights, for the conformance kit (see
        `gmlearn.testing`).
        """
        return []

    def large_examples(self, rng: np.random.Generator) -> list[tuple[Block, dict[str, np.ndarray]]]:
        """The same, too large for enumeration: the kit compares solvers with one another, and
        times them.
        """
        return []

    @classmethod
    def has(cls, power: str) -> bool:
        """Does the solver define the optional power (`min_marginals`, `log_partition`, ...)?"""
        own = getattr(cls, power, None)
        return callable(own) and own is not getattr(SlaveSolver, power, None)


def minimisations(block: Block, power: str) -> float:
    """How many minimisations `power` is worth where its cost is not stated: one for each label of
    a clique, by which every power can be had.
    """
    if power == "minimise":
        return 1.0
    return float(block.member_states.sum()) / max(len(block), 1)


class SlaveGroup(ABC):
    """A batch of subproblems of one kind, seen by the master only through coordinates.

    Attributes
    ----------
    coords : int (D,), the coordinate of each dual variable.
    owner : int (D,), the subproblem of each dual variable, ascending.
    n : number of subproblems M.
    own_temperatures : does `log_partition` take a temperature for each subproblem, and give their
        expected energies?
    """

    coords: np.ndarray
    owner: np.ndarray
    n: int
    exact: bool = True
    own_temperatures: ClassVar[bool] = False
    #: does ``log_partition(theta, prepared, temperature, weight)`` take a factor (M,) for the
    #: features of each slave?
    weighs_marginals: ClassVar[bool] = False

    def prepare(self, w: Mapping[str, np.ndarray]) -> Any:
        """What `solve` needs of the weights."""
        return w

    @abstractmethod
    def solve(self, theta: np.ndarray, prepared: Any) -> SlaveResult:
        """Minimise all subproblems for the dual costs `theta` (D,)."""

    @abstractmethod
    def features(self, result: SlaveResult) -> Features:
        """Features of the group's own cliques at the minimisers, summed: the slaves' part of dw."""

    @property
    def knows_slaves(self) -> bool:
        """Does the group define `slave_features`? If not, its slaves move as one in training."""
        return type(self).slave_features is not SlaveGroup.slave_features

    def slave_features(self, result: SlaveResult) -> Features:
        """The same slave by slave, (M, *shape) for each segment; optional, training then takes
        finer steps."""
        raise TypeError(f"{type(self).__name__} knows the features of its slaves as a sum only")

    def weighted_features(self, result: SlaveResult, weight: np.ndarray | None) -> Features:
        """`features` with a factor (M,) for each slave; None: 1. A group that does not know its
        slaves takes equal factors only.
        """
        if weight is None:
            return self.features(result)
        if self.knows_slaves:
            each = self.slave_features(result)
            return {name: np.tensordot(weight, value, 1) for name, value in each.items()}
        return scaled_features(self.features(result), weight)

    def soft_features(
        self, theta: np.ndarray, prepared: Any, temperature: Any, weight: np.ndarray | None
    ) -> SoftResult:
        """``log_partition``, its features with a factor (M,) for each slave; None: 1. Only a group
        that weighs marginals takes different factors.
        """
        if weight is not None and self.weighs_marginals:
            return self.log_partition(theta, prepared, temperature, weight)  # type: ignore[attr-defined]
        found: SoftResult = self.log_partition(theta, prepared, temperature)  # type: ignore[attr-defined]
        if weight is None:
            return found
        return replace(found, features=scaled_features(found.features, weight))

    @abstractmethod
    def take(self, index: np.ndarray) -> SlaveGroup:
        """The subproblems at `index` (ascending, no repeats) as a group."""

    def has(self, power: str) -> bool:
        """Can this group do `min_marginals` or `log_partition`?"""
        return callable(getattr(self, power, None))

    def clique_marginals(
        self, theta: np.ndarray, w: Mapping[str, np.ndarray], temperature: float
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(variables (n, k), joint marginals (n, L_1, ..., L_k)) of the slaves' cliques, those of
        one shape together; optional.
        """
        return iter(())

    def cost(self, power: str = "minimise") -> float:
        """About how many operations one call of `power` takes ("minimise" is `solve`); by default
        the same for all.
        """
        return float(len(self.coords))

    @property
    def work(self) -> float:
        """About how many table entries one call of `solve` reads, as far as that is known."""
        return self.cost()

    def affordable(self, power: str, rounds: float = 100.0) -> bool:
        """Has the group the power, at no more than the cost of so many calls of `solve`?"""
        return self.has(power) and self.cost(power) <= rounds * self.cost()

    @cached_property
    def indptr(self) -> np.ndarray:
        """int (M + 1,): subproblem m owns dual variables indptr[m]:indptr[m + 1]."""
        return np.searchsorted(self.owner, np.arange(self.n + 1))

    @cached_property
    def colours(self) -> list[np.ndarray]:
        """Sets of subproblems that share no coordinate, so that they can move at the same time
        (greedy).
        """
        from gmlearn.slaves._colouring_numba import greedy_colouring

        n_coords = int(self.coords.max(initial=-1)) + 1
        colour = greedy_colouring(self.coords, self.indptr, n_coords)
        return [np.flatnonzero(colour == c) for c in range(int(colour.max(initial=-1)) + 1)]


def scaled_features(features: Features, weight: np.ndarray) -> Features:
    """Features of slaves that all have the same factor `weight` (M,)."""
    return {name: weight[0] * value for name, value in features.items()} if len(weight) else {}


class CliqueGroup(SlaveGroup):
    """One slave per clique of a block, minimised by a slave solver."""

    def __init__(self, block: Block, solver: SlaveSolver, offsets: np.ndarray):
        self.block, self.solver, self.offsets = block, solver, offsets
        self.n, self.exact = len(block), solver.exact
        self.states = block.member_states
        self.ptr = np.concatenate([[0], np.cumsum(self.states)]).astype(np.int64)
        local = np.arange(self.ptr[-1]) - np.repeat(self.ptr[:-1], self.states)
        self.coords = np.repeat(offsets[block.members], self.states) + local
        member_owner = np.repeat(np.arange(self.n), np.diff(block.indptr))
        self.owner = np.repeat(member_owner, self.states)
        self._uniform = len(self.states) == 0 or bool((self.states == self.states[0]).all())
        self._local = local

    def shaped(self, theta: np.ndarray) -> np.ndarray:
        """Theta (D,) in the layout that the solver asks for."""
        if self.solver.layout == "flat":
            return theta
        size = self.block.max_states
        if self._uniform:
            return self.block.shape_members(theta.reshape(-1, size))
        padded = np.full((len(self.states), size), np.inf)
        padded[np.repeat(np.arange(len(self.states)), self.states), self._local] = theta
        return self.block.shape_members(padded)

    def flat(self, padded: np.ndarray) -> np.ndarray:
        """The inverse of `shaped` for per-label output of the solver."""
        if self.solver.layout == "flat":
            return padded
        if self._uniform:
            return padded.ravel()
        rows = padded.reshape(len(self.states), -1)
        return rows[np.repeat(np.arange(len(self.states)), self.states), self._local]

    def prepare(self, w: Mapping[str, np.ndarray]) -> Any:
        return self.solver.prepare(self.block, w)

    def solve(self, theta: np.ndarray, prepared: Any) -> SlaveResult:
        labels, value = self.solver.minimise(self.block, self.shaped(theta), prepared)
        labels = np.asarray(labels).ravel()
        return SlaveResult(None, value, labels, self.ptr[:-1] + labels, len(self.coords))

    def propose(self, theta: np.ndarray, prepared: Any) -> np.ndarray:
        """Member labels (S,) that the solver proposes for the dual costs `theta` (D,)."""
        found = self.solver.propose(self.block, self.shaped(theta), prepared)
        return np.asarray(found, np.int64).ravel()

    def features(self, result: SlaveResult) -> Features:
        return self.block.features(self.block.shape_members(result.labels))

    def weighted_features(self, result: SlaveResult, weight: np.ndarray | None) -> Features:
        return self.block.features(self.block.shape_members(result.labels), weight)

    def slave_features(self, result: SlaveResult) -> Features:
        return self.block.clique_features(self.block.shape_members(result.labels))

    def take(self, index: np.ndarray) -> SlaveGroup:
        return CliqueGroup(self.block.take(index), self.solver, self.offsets)

    def has(self, power: str) -> bool:
        return self.solver.has(power)

    def cost(self, power: str = "minimise") -> float:
        return self.solver.cost(self.block, power)

    @property
    def work(self) -> float:
        if type(self.solver).cost is SlaveSolver.cost:  # all joint states, of which it reads few
            return min(self.cost(), UNSTATED * len(self.coords))
        return self.cost()

    def min_marginals(self, theta: np.ndarray, prepared: Any) -> np.ndarray:
        """For each dual variable the minimum of its subproblem with that label fixed, (D,)."""
        return self.flat(self.solver.min_marginals(self.block, self.shaped(theta), prepared))  # type: ignore[attr-defined]

    def member_marginals(self, theta: np.ndarray, prepared: Any, member: np.ndarray) -> np.ndarray:
        """Min-marginals (M, L) of one member of each clique, by its place in the clique, `member`
        (M,).

        A solver may define ``member_marginals(block, theta, w, member)`` where one member is
        cheaper than all; entries beyond a variable's states mean nothing.
        """
        if self.solver.has("member_marginals"):
            return self.solver.member_marginals(self.block, self.shaped(theta), prepared, member)  # type: ignore[attr-defined]
        places = self.block.indptr[:-1] + member
        start = self.ptr[places]
        last = self.ptr[places + 1] - 1
        index = np.minimum(start[:, None] + np.arange(self.block.max_states), last[:, None])
        return self.min_marginals(theta, prepared)[index]

    def log_partition(self, theta: np.ndarray, prepared: Any, temperature: float) -> SoftResult:
        """Soft minima, marginals and expected features at a temperature."""
        value, marginals, features = self.solver.log_partition(  # type: ignore[attr-defined]
            self.block, self.shaped(theta), prepared, temperature
        )
        return SoftResult(value, self.flat(marginals), features)

    def clique_marginals(
        self, theta: np.ndarray, w: Mapping[str, np.ndarray], temperature: float
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        from gmlearn.slaves.junction_tree import by_shape, dense_tables

        for index, scopes, shape in by_shape(self.block):
            energy = dense_tables(self.block.take(index), shape, w).reshape(-1, *shape)
            for axis, n in enumerate(shape):
                first = self.ptr[self.block.indptr[index] + axis]
                own = theta[first[:, None] + np.arange(n)]
                energy = energy + own.reshape(-1, *(1,) * axis, n, *(1,) * (len(shape) - 1 - axis))
            flat = energy.reshape(len(index), -1)
            p = np.exp((flat.min(axis=1, keepdims=True) - flat) / temperature)
            yield scopes, (p / p.sum(axis=1, keepdims=True)).reshape(energy.shape)

    def energy(self, labels: np.ndarray, w: Mapping[str, np.ndarray]) -> np.ndarray:
        """Clique energies (M,) of member labels (S,), without theta."""
        return self.block.energy(self.block.shape_members(labels), w)

    def __repr__(self) -> str:
        return f"CliqueGroup({self.block}, solver={self.solver.name!r})"
