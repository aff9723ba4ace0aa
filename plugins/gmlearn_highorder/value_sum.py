"""Functions of a sum: any cost of the total of values that the labels of a clique stand for."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import gmlearn as gm
from gmlearn_highorder.functions import FunctionBlock
from gmlearn_highorder.listed import Weights

#: the largest total of a clique: its slave goes through all totals for every member
MAX_TOTAL = 2**20


class ValueSum(FunctionBlock):
    r"""Cliques :math:`h_c(x) = f_c(\sum_{i \in c} a_i(x_i))` with whole values :math:`a_i \ge 0`.

    Covers sums of labels, linear constraints (knapsacks), and the number of members whose label is
    in a set (a = 1 there, 0 elsewhere). For the count of one label `Cardinality` is faster.

    Parameters
    ----------
    cliques : list of int arrays, or int (M, k); sizes may differ.
    values : a: int (L,), the same for all members, or (S, L), one row for each member of the first
        clique, then of the second, and so on.
    costs : f: (T,) shared by all cliques, T > the largest total; (M, T); or a list of M arrays with
        one entry for each total. ``inf`` forbids a total.
    weight : name of the segment that holds f, one weight for each total, instead of `costs`.
    n_totals : the number of weights, more than the largest total here where other models reach
        larger ones.

    Examples
    --------
    >>> import gmlearn as gm
    >>> crf = gm.CRF(3, 3).add_unary([[0, -1, -2]] * 3)
    >>> costs = [0, 0, 0, 0, 9, 9, 9]  # a total of at most 3 is free
    >>> _ = crf.add("value_sum", cliques=[[0, 1, 2]], values=[0, 1, 2], costs=costs)
    >>> crf.energy([1, 1, 1]), crf.energy([2, 2, 0])
    (-3.0, 5.0)
    """

    name = "value_sum"
    per_clique: ClassVar[tuple[str, ...]] = ("start", "most")
    per_member: ClassVar[tuple[str, ...]] = ("values",)

    def __init__(
        self,
        cliques: Any,
        values: Any,
        costs: Any = None,
        weight: str | None = None,
        n_totals: int | None = None,
    ):
        super().__init__(cliques)
        if (costs is None) == (weight is None):
            raise ValueError(
                "ValueSum: give either `costs` (a fixed function) or `weight` (a learnt one), not "
                "both or neither"
            )
        self.values = self._checked_values(values)
        largest = self.values.max(axis=1, initial=0)
        self.most = np.bincount(self.owner, largest, len(self)).astype(np.int64)
        top = int(self.most.max(initial=0))
        if top > MAX_TOTAL:
            raise ValueError(f"ValueSum.values: a clique may reach {top}, at most {MAX_TOTAL}")
        self.weight = self.segment_name(weight)
        self.n_entries = top + 1
        if weight is None:
            self.set_functions("ValueSum.costs", costs, "total")
        else:
            self.set_weights()
            if n_totals is not None:
                gm.check_number(
                    "ValueSum.n_totals", n_totals, low=top + 1, high=MAX_TOTAL + 1, integer=True
                )
                self.n_entries = int(n_totals)

    def _checked_values(self, values: Any) -> np.ndarray:
        """`values` as int (S, L), whole numbers >= 0 that cannot overflow in a sum."""
        given = gm.check_array("ValueSum.values", values, ndim=(1, 2), dtype=np.int64)
        if given.ndim == 1:
            given = np.tile(given, (len(self.members), 1))
        if len(given) != len(self.members):
            raise ValueError(
                f"ValueSum.values: expected (L,), or one row for each of the "
                f"{len(self.members)} members, got shape {given.shape}"
            )
        if given.size and not (given.min() >= 0 and given.max() <= MAX_TOTAL):
            raise ValueError(f"ValueSum.values: expected whole numbers in 0..{MAX_TOTAL}")
        return np.ascontiguousarray(given)

    def state(self) -> dict[str, Any]:
        own: dict[str, Any] = {"cliques": self.cliques, "values": self.values}
        if self.weight is not None:
            return {**own, "weight": self.weight, "n_totals": self.n_entries}
        return {**own, "costs": gm.RaggedArrays(self.pool[self.entries()], self.most + 1)}

    def check(self) -> None:
        if len(self) and self.values.shape[1] < self.max_states:
            raise ValueError(
                f"{self}: values: expected one for each of {self.max_states} labels, got "
                f"{self.values.shape[1]}"
            )

    def argument(self, x: np.ndarray) -> np.ndarray:
        """int (M,): the sums of the members' values."""
        value = self.values[np.arange(len(x)), x]
        return np.bincount(self.owner, value, len(self)).astype(np.int64)

    def largest(self) -> np.ndarray:
        return self.most

    def expected_energy(self, q: np.ndarray, w: Weights) -> np.ndarray:
        from gmlearn_highorder._expected_numba import expected_of_totals

        out = np.empty(q.shape)
        values = np.ascontiguousarray(np.broadcast_to(self.values, q.shape), np.int64)
        given = np.ascontiguousarray(q), values, self.indptr, self.most
        expected_of_totals(*given, self.function(w), self.start, out)
        return out


class ValueSumSlave(gm.SlaveSolver):
    """Functions of a sum by dynamic programming over the members, with the total so far as the
    state: O(k T L) for a clique of k members, L labels and totals below T.
    """

    name = "value-sum"

    def refuses(self, block: gm.Block) -> str | None:
        return None if isinstance(block, ValueSum) else "not a function of a sum"

    def cost(self, block: ValueSum, power: str = "minimise") -> float:
        steps = float((block.sizes * (block.most + 1.0)).sum()) * block.max_states
        return steps * {"minimise": 2.0, "min_marginals": 4.0, "log_partition": 40.0}[power]

    def prepare(self, block: ValueSum, w: Weights) -> tuple[np.ndarray, ...]:
        return block.values, block.function(w), block.start, block.most

    def minimise(self, block: ValueSum, theta: np.ndarray, w: Any) -> tuple[np.ndarray, np.ndarray]:
        from gmlearn_highorder._value_sum_numba import minimise_sums

        labels = np.empty(len(theta), np.int64)
        value = np.empty(len(block))
        minimise_sums(theta, block.indptr, *w, labels, value)
        return labels, value

    def min_marginals(self, block: ValueSum, theta: np.ndarray, w: Any) -> np.ndarray:
        from gmlearn_highorder._value_sum_numba import min_marginals_sums

        out = np.empty_like(theta)
        min_marginals_sums(theta, block.indptr, *w, out)
        return out

    def log_partition(
        self, block: ValueSum, theta: np.ndarray, w: Any, temperature: float
    ) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        from gmlearn_highorder._value_sum_numba import sum_distribution

        values, function, start, most = w
        log_z = np.empty(len(block))
        marginals = np.empty_like(theta)
        totals = np.zeros((len(block), int(most.max(initial=0)) + 1))
        sum_distribution(
            -theta / temperature,
            block.indptr,
            values,
            -function / temperature,
            start,
            most,
            log_z,
            marginals,
            totals,
        )
        features = block.distribution_features(totals)
        return -temperature * log_z, marginals, features

    def examples(self, rng: np.random.Generator) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        cliques = [[0, 1, 2], [1, 2, 3]]
        states = np.array([2, 3, 2, 3])
        hard = rng.normal(size=(2, 7))
        hard[0, 2] = np.inf
        learnt = ValueSum(cliques, rng.integers(0, 3, (6, 3)), weight="f")
        return [
            (ValueSum(cliques, [0, 1, 2], hard).bind(states), {}),
            (ValueSum([[0, 1], [3, 1]], [0, 1, 1], np.arange(3.0)).bind(states), {}),
            (learnt.bind(states), {"f": rng.normal(size=learnt.n_entries)}),
        ]

    def large_examples(
        self, rng: np.random.Generator
    ) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        cliques = [rng.choice(60, size, replace=False) for size in rng.integers(15, 25, 8)]
        learnt = ValueSum(cliques, [0, 2, 3], weight="f")
        return [
            (ValueSum(cliques, [0, 1, 2], rng.normal(size=(8, 50))).bind(np.full(60, 3)), {}),
            (learnt.bind(np.full(60, 3)), {"f": rng.normal(size=learnt.n_entries)}),
        ]
