"""Cliques whose energy is a function of one whole number, a count or a sum of values."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

import gmlearn as gm
from gmlearn_highorder.listed import Weights


class FunctionBlock(gm.RaggedBlock):
    """Cliques :math:`h_c(x) = f_c(n)` for a whole number n >= 0 of the labels, `argument`.

    Attributes
    ----------
    pool, start : the values of all functions; clique m reads ``pool[start[m] + n]``.
    weight : name of the segment that holds f instead, one function for all cliques.
    n_entries : the number of weights.
    form : the shape of the costs that were given, or int (M,), the lengths of a list of functions;
        None where none were given.
    """

    weight: str | None
    pool: np.ndarray
    start: np.ndarray
    n_entries: int
    form: Any = None

    def argument(self, x: np.ndarray) -> np.ndarray:
        """n (M,)."""
        raise TypeError(f"{type(self).__name__} must define argument(x)")

    def largest(self) -> np.ndarray:
        """int (M,): the largest n of each clique."""
        raise TypeError(f"{type(self).__name__} must define largest()")

    def set_functions(self, name: str, costs: Any, argument: str) -> None:
        """Take fixed functions, (K,), (M, K) or a list of arrays."""
        self.pool, self.start = pooled_functions(name, costs, self.largest(), argument)
        self.form = [len(row) for row in costs] if is_list(costs) else np.shape(costs)

    def set_weights(self) -> None:
        """Read a learnt function."""
        self.pool, self.start = np.zeros(0), np.zeros(len(self), np.int64)

    def entries(self) -> np.ndarray:
        """int: where the values of each clique's function are in the pool, clique after clique."""
        sizes = self.largest() + 1
        return np.repeat(self.start - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())

    def function(self, w: Weights) -> np.ndarray:
        """The pool of function values; clique m reads ``start[m] + n``."""
        return self.pool if self.weight is None else np.ascontiguousarray(w[self.weight], float)

    def segments(self) -> dict[str, tuple[int, ...]]:
        own = {} if self.weight is None else {self.weight: (self.n_entries,)}
        return own | self.gradient_segments()

    def energy(self, x: np.ndarray, w: Weights) -> np.ndarray:
        return self.function(w)[self.start + self.argument(x)]

    def features(self, x: np.ndarray, weight: np.ndarray | None = None) -> dict[str, np.ndarray]:
        n = self.argument(x)
        amount = np.ones(len(self)) if weight is None else weight
        own = {}
        if self.weight is not None:
            own[self.weight] = np.bincount(n, amount, self.n_entries).astype(float)
        return own | self.gradient_features(n[:, None], amount[:, None])

    def clique_features(self, x: np.ndarray) -> dict[str, np.ndarray]:
        n, own = self.argument(x), {}
        if self.weight is not None:
            own[self.weight] = np.zeros((len(self), self.n_entries))
            own[self.weight][np.arange(len(self)), n] = 1.0
        return own | self.clique_gradient_features(n[:, None], np.ones((len(self), 1)))

    def distribution_features(self, chance: np.ndarray) -> dict[str, np.ndarray]:
        """Expected features from the probabilities (M, at least largest n + 1) of each n."""
        own, largest = {}, self.largest()
        n = np.arange(int(largest.max(initial=-1)) + 1)
        chance = np.where(n <= largest[:, None], chance[:, : len(n)], 0.0)
        if self.weight is not None:
            own[self.weight] = np.zeros(self.n_entries)
            own[self.weight][: len(n)] = chance.sum(axis=0)
        return own | self.gradient_features(np.minimum(n, largest[:, None]), chance)

    # ------------------------------------------------------------------ their own numbers

    def own_costs(self) -> np.ndarray | None:
        return None if self.form is None else self.largest() + 1

    def cost_gradient(self, found: np.ndarray, w: Weights) -> Any:
        """The derivative in the costs, in the form in which they were given."""
        return self._formed(np.bincount(self.entries(), found, len(self.pool)))

    def _formed(self, pool: np.ndarray) -> Any:
        if isinstance(self.form, list):
            return np.split(pool, np.cumsum(self.form)[:-1])
        return pool.reshape(self.form)

    def with_costs(self, numbers: Any) -> Self:
        other, name = copy.copy(self), f"{type(self).__name__}.costs"
        if isinstance(self.form, list):
            given = gm.RaggedArrays.of(numbers)
            if given.sizes.tolist() != self.form:
                raise ValueError(f"{name}: expected {len(self.form)} arrays of lengths {self.form}")
            other.pool = gm.check_array(name, given.values, ndim=1, allow_inf=True)
        else:
            other.pool = gm.check_array(name, numbers, shape=self.form, allow_inf=True).ravel()
        other.check()
        return other


def is_list(costs: Any) -> bool:
    return isinstance(costs, Sequence) and len(costs) > 0 and np.ndim(costs[0]) == 1


def pooled_functions(
    name: str, costs: Any, most: np.ndarray, argument: str = "count"
) -> tuple[np.ndarray, np.ndarray]:
    """The functions of all cliques in one array, and where that of each clique begins (M,).

    most : int (M,), the functions are those of 0..most.   argument : what they are functions of.
    """
    m = len(most)
    if is_list(costs):
        rows = gm.RaggedArrays.of(costs)
        if len(rows) != m or (rows.sizes <= most).any():
            raise ValueError(
                f"{name}: expected {m} arrays with one entry for each {argument} that "
                f"can be reached, got {len(rows)} with lengths {rows.sizes.tolist()[:8]}"
            )
        pool = gm.check_array(name, rows.values, ndim=1, allow_inf=True)
        return pool, np.cumsum(rows.sizes) - rows.sizes
    array = gm.check_array(name, costs, ndim=(1, 2), allow_inf=True)
    needed = int(most.max(initial=0)) + 1
    if array.shape[-1] < needed or (array.ndim == 2 and len(array) != m):
        raise ValueError(
            f"{name}: expected ({needed},) or ({m}, {needed}), one entry for each {argument} "
            f"that can be reached, got shape {array.shape}"
        )
    start = np.zeros(m, np.int64) if array.ndim == 1 else np.arange(m) * array.shape[1]
    return array.ravel(), start
