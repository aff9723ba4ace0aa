"""Count potentials: any function of how many members take a label; exactly one; at most k."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import gmlearn as gm
from gmlearn_highorder.functions import FunctionBlock
from gmlearn_highorder.listed import Weights, expected_of_counts, whole_for_each_clique

#: weights that a learnt function may have
MAX_COUNTS = 2**20


class Cardinality(FunctionBlock):
    r"""Cliques :math:`h_c(x) = f_c(n)`, n the number of members that take `label`; f may be
    anything, convex or not.

    Parameters
    ----------
    cliques : list of int arrays, or int (M, k); sizes may differ.
    costs : f: (K,) shared by all cliques, K > the largest size; (M, K); or a list of M arrays with
        k_m + 1 entries each. ``inf`` forbids a count.
    weight : name of the segment that holds f, one weight for each count 0..largest size, instead of
        `costs`.
    label : the label that is counted, a number or (M,).
    n_counts : the number of weights, more than the largest size here where other models have
        larger cliques.

    Examples
    --------
    >>> import gmlearn as gm
    >>> crf = gm.CRF(4, 2).add_unary([[0, -1], [0, -2], [0, -3], [0, -4]])
    # none, or a pair
    >>> _ = crf.add("cardinality", cliques=[[0, 1, 2, 3]], costs=[0, 9, 0, 9, 9])
    >>> crf.energy([0, 0, 1, 1]), crf.energy([0, 1, 1, 1])
    (-7.0, 0.0)
    """

    name = "cardinality"
    per_clique: ClassVar[tuple[str, ...]] = ("start", "top", "label")

    def __init__(
        self,
        cliques: Any,
        costs: Any = None,
        weight: str | None = None,
        label: Any = 1,
        n_counts: int | None = None,
    ):
        super().__init__(cliques)
        kind = type(self).__name__
        if (costs is None) == (weight is None):
            raise ValueError(
                f"{kind}: give either `costs` (a fixed function) or `weight` (a learnt one), not "
                f"both or neither"
            )
        self.label = whole_for_each_clique(f"{kind}.label", label, len(self))
        self.weight, self.n_entries = self.segment_name(weight), self.arity + 1
        if n_counts is not None and weight is not None:
            least = self.n_entries
            gm.check_number(
                f"{kind}.n_counts", n_counts, low=least, high=max(MAX_COUNTS, least), integer=True
            )
            self.n_entries = int(n_counts)
        if weight is None:
            self.set_functions(f"{kind}.costs", costs, "count")
            self.top = _last_finite(self.pool, self.start, self.sizes)
        else:
            self.set_weights()
            self.top = self.sizes.copy()

    def state(self) -> dict[str, Any]:
        own: dict[str, Any] = {"cliques": self.cliques, "label": self.label}
        if self.weight is not None:
            return {**own, "weight": self.weight, "n_counts": self.n_entries}
        return {**own, "costs": gm.RaggedArrays(self.pool[self.entries()], self.sizes + 1)}

    def _counts(self) -> np.ndarray:
        """int (S + M,): the counts 0..size of each clique, one after the other."""
        first = np.repeat(self.indptr[:-1] + np.arange(len(self)), self.sizes + 1)
        return np.arange(len(first)) - first

    def _hard(self, allowed: np.ndarray) -> gm.RaggedArrays:
        """Costs 0 of counts that are allowed (S + M,), inf of the others."""
        return gm.RaggedArrays(np.where(allowed, 0.0, np.inf), self.sizes + 1)

    def check(self) -> None:
        if not len(self):
            return
        # compiled kernels rely on all three
        known = self.n_entries if self.weight is not None else len(self.pool)
        if (self.start < 0).any() or (self.start >= known - self.sizes).any():
            raise ValueError(f"{self}: start: a function reaches beyond the values")
        if self.weight is None:
            self.top = _last_finite(self.pool, self.start, self.sizes)
        else:
            self.top = self.sizes.copy()
        most = np.maximum.reduceat(self.states, self.indptr[:-1])
        wrong = np.flatnonzero((self.label < 0) | (self.label >= most))
        if len(wrong):
            raise ValueError(
                f"{self}: no member of clique {int(wrong[0])} has the counted label "
                f"{int(self.label[wrong[0]])}"
            )

    def argument(self, x: np.ndarray) -> np.ndarray:
        """int (M,): members that take the label."""
        return np.bincount(self.owner[x == self.label[self.owner]], minlength=len(self))

    def largest(self) -> np.ndarray:
        return self.sizes

    def expected_energy(self, q: np.ndarray, w: Weights) -> np.ndarray:
        label = self.label[self.owner]
        known = label < q.shape[1]
        chance = np.where(known, q[np.arange(len(q)), np.where(known, label, 0)], 0.0)
        found = expected_of_counts(chance, self.indptr, self.function(w), self.start)
        return np.where(np.arange(q.shape[1]) == label[:, None], found[:, 1:], found[:, :1])


class AtMost(Cardinality):
    """Hard constraint: at most `number` (a number or (M,)) members of a clique take `label`."""

    name = "at_most_k"
    per_clique = (*Cardinality.per_clique, "number")

    def __init__(self, cliques: Any, number: Any = 1, label: Any = 1):
        gm.RaggedBlock.__init__(self, cliques)
        number = whole_for_each_clique("AtMost.number", number, len(self))
        allowed = self._counts() <= np.repeat(number, self.sizes + 1)
        super().__init__(self.cliques, self._hard(allowed), label=label)
        self.number = number
        self.form = None  # a constraint, no numbers of its own

    def state(self) -> dict[str, Any]:
        return {"cliques": self.cliques, "number": self.number, "label": self.label}


class Exactly(Cardinality):
    """Hard constraint: exactly `number` (a number or (M,)) members of a clique take `label`."""

    name = "exactly_k"
    per_clique = (*Cardinality.per_clique, "number")

    def __init__(self, cliques: Any, number: Any = 1, label: Any = 1):
        gm.RaggedBlock.__init__(self, cliques)
        kind = type(self).__name__
        number = whole_for_each_clique(f"{kind}.number", number, len(self))
        short = np.flatnonzero(number > self.sizes)
        if len(short):
            m = short[0]
            raise ValueError(
                f"{kind}.number: clique {m} has {self.sizes[m]} members, {number[m]} were asked for"
            )
        allowed = self._counts() == np.repeat(number, self.sizes + 1)
        super().__init__(self.cliques, self._hard(allowed), label=label)
        self.number = number
        self.form = None  # a constraint, no numbers of its own

    def state(self) -> dict[str, Any]:
        return {"cliques": self.cliques, "number": self.number, "label": self.label}


class ExactlyOne(Exactly):
    """Hard constraint: exactly one member of a clique takes `label`."""

    name = "exactly_one"

    def __init__(self, cliques: Any, label: Any = 1):
        super().__init__(cliques, 1, label)

    def state(self) -> dict[str, Any]:
        return {"cliques": self.cliques, "label": self.label}


class CardinalitySlave(gm.SlaveSolver):
    """Count potentials by sort and scan: for each count the members for which the label is
    relatively cheapest.

    O(k (L + log k)); where only few counts are possible (exactly one, at most k) a selection
    replaces the sort. Min-marginals cost the same, the log-partition O(k top) with top the largest
    possible count.
    """

    name = "cardinality"

    def refuses(self, block: gm.Block) -> str | None:
        return None if isinstance(block, Cardinality) else "not a count potential"

    def cost(self, block: gm.Block, power: str = "minimise") -> float:
        # the log-partition goes through all counts of every clique
        per_label = {"minimise": 1.0, "min_marginals": 3.0, "log_partition": 3.0}[power]
        counts = 30.0 * block.arity if power == "log_partition" else 0.0
        return len(block.members) * (per_label * block.max_states + counts)

    def prepare(self, block: Cardinality, w: Weights) -> tuple[np.ndarray, ...]:
        return block.label, block.function(w), block.start, block.top

    def minimise(
        self, block: Cardinality, theta: np.ndarray, w: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        from gmlearn_highorder._cardinality_numba import minimise_counts

        labels, value = np.empty(len(theta), np.int64), np.empty(len(block))
        minimise_counts(theta, block.indptr, *w, labels, value)
        return labels, value

    def min_marginals(self, block: Cardinality, theta: np.ndarray, w: Any) -> np.ndarray:
        from gmlearn_highorder._cardinality_numba import min_marginals_counts

        out = np.empty_like(theta)
        min_marginals_counts(theta, block.indptr, *w, out)
        return out

    def log_partition(
        self, block: Cardinality, theta: np.ndarray, w: Any, temperature: float
    ) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Dynamic programming over the members, with the number on so far as the state."""
        from gmlearn_highorder._cardinality_numba import count_distribution

        label, f, start, top = w
        score = -theta / temperature
        counted = np.arange(theta.shape[1]) == label[block.owner][:, None]
        log_on, log_off = (
            _log_sum(np.where(counted, score, -np.inf)),
            _log_sum(np.where(counted, -np.inf, score)),
        )
        log_z, p_on, p_count = (
            np.empty(len(block)),
            np.empty(len(theta)),
            np.empty((len(block), block.arity + 2)),
        )
        count_distribution(
            log_on, log_off, block.indptr, -f / temperature, start, top, log_z, p_on, p_count
        )
        with np.errstate(invalid="ignore"):
            within = np.exp(score - np.where(counted, log_on[:, None], log_off[:, None]))
        feasible = ~np.isneginf(log_z)[block.owner][:, None]
        marginals = np.where(
            np.isneginf(score) | ~feasible,
            0.0,
            within * np.where(counted, p_on[:, None], 1.0 - p_on[:, None]),
        )
        features = block.distribution_features(p_count)
        return -temperature * log_z, marginals, features

    def examples(self, rng: np.random.Generator) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        cliques, states = [[0, 1, 2], [1, 2, 3]], np.array([2, 3, 2, 3])
        forbidden = rng.normal(size=(2, 4))
        forbidden[0, 2] = np.inf
        return [
            (Cardinality(cliques, forbidden, label=[1, 0]).bind(states), {}),
            (Cardinality(cliques, weight="f").bind(np.full(4, 2)), {"f": rng.normal(size=4)}),
            (ExactlyOne(cliques).bind(states), {}),
            (Exactly(cliques, [2, 1]).bind(states), {}),
            (AtMost(cliques, [1, 2]).bind(np.full(4, 2)), {}),
        ]

    def large_examples(
        self, rng: np.random.Generator
    ) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        cliques = [rng.choice(100, size, replace=False) for size in rng.integers(20, 40, 20)]
        learnt = Cardinality(cliques, weight="f")
        return [
            (Cardinality(cliques, rng.normal(size=(20, 40))).bind(np.full(100, 3)), {}),
            (learnt.bind(np.full(100, 3)), {"f": rng.normal(size=(learnt.n_entries,))}),
            (ExactlyOne(cliques).bind(np.full(100, 3)), {}),
            (AtMost(cliques, 5).bind(np.full(100, 2)), {}),
        ]


def _log_sum(score: np.ndarray) -> np.ndarray:
    """log sum exp of each row; -inf for a row of -inf."""
    return np.logaddexp.reduce(score, axis=1)


def _last_finite(values: np.ndarray, start: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """int (M,): the largest count 0..size whose cost is finite, 0 if there is none."""
    if len(start) == 0:
        return np.zeros(0, np.int64)
    ahead = np.maximum.accumulate(np.where(np.isfinite(values), np.arange(len(values)), -1))
    return np.clip(ahead[start + sizes] - start, 0, sizes)
