"""Implications between two variables: if a takes label i, then b takes label j."""

from __future__ import annotations

from typing import Any

import numpy as np

import gmlearn as gm
from gmlearn_highorder.listed import Weights, for_each_clique, times, whole_for_each_clique


class Implication(gm.Block):
    r"""Pairs :math:`h(x_a, x_b) = cost\,[x_a = i \text{ and } x_b \ne j]`; hard (inf) by default.

    Parameters
    ----------
    pairs : int (M, 2), the variables a and b.
    premise, conclusion : the labels i and j, numbers or (M,).
    cost : what a broken implication costs, a number or (M,); inf by default.
    weight : name of a segment with one weight that multiplies the (finite) costs.

    Examples
    --------
    >>> import gmlearn as gm
    >>> crf = gm.CRF(2, 2)
    >>> _ = crf.add("implication", pairs=[[0, 1]])
    >>> [crf.energy(x) for x in ([0, 0], [0, 1], [1, 0], [1, 1])]
    [0.0, 0.0, inf, 0.0]
    """

    name = "implication"
    per_clique = ("premise", "conclusion", "costs")

    def __init__(
        self,
        pairs: Any,
        premise: Any = 1,
        conclusion: Any = 1,
        cost: Any = np.inf,
        weight: str | None = None,
    ):
        super().__init__(
            gm.check_array("Implication.pairs", pairs, shape=(None, 2), dtype=np.int64)
        )
        self.premise = whole_for_each_clique("Implication.premise", premise, len(self))
        self.conclusion = whole_for_each_clique("Implication.conclusion", conclusion, len(self))
        self.costs = for_each_clique("Implication.cost", cost, len(self), allow_inf=weight is None)
        self.weight = self.segment_name(weight)

    def state(self) -> dict[str, Any]:
        return {
            "pairs": self.variables,
            "premise": self.premise,
            "conclusion": self.conclusion,
            "cost": self.costs,
            "weight": self.weight,
        }

    def check(self) -> None:
        for place, name in enumerate(("premise", "conclusion")):
            label = getattr(self, name)
            wrong = np.flatnonzero((label < 0) | (label >= self.states[:, place]))
            if wrong.size:
                m = int(wrong[0])
                raise ValueError(
                    f"{self}: {name} {int(getattr(self, name)[m])} of pair {m}, but variable "
                    f"{int(self.variables[m, place])} has {int(self.states[m, place])} states"
                )

    def segments(self) -> dict[str, tuple[int, ...]]:
        return {} if self.weight is None else {self.weight: ()}

    def broken(self, x: np.ndarray) -> np.ndarray:
        """float (M,): 1 where the implication does not hold."""
        return ((x[:, 0] == self.premise) & (x[:, 1] != self.conclusion)).astype(float)

    def strength(self, w: Weights) -> np.ndarray:
        """float (M,): what a broken implication costs."""
        return self.costs if self.weight is None else self.costs * w[self.weight]

    def energy(self, x: np.ndarray, w: Weights) -> np.ndarray:
        return times(self.broken(x), self.strength(w))

    def features(self, x: np.ndarray, weight: np.ndarray | None = None) -> dict[str, np.ndarray]:
        if self.weight is None:
            return {}
        broken = self.broken(x)
        return {
            self.weight: np.asarray((broken if weight is None else broken * weight) @ self.costs)
        }

    def clique_features(self, x: np.ndarray) -> dict[str, np.ndarray]:
        return {} if self.weight is None else {self.weight: self.broken(x) * self.costs}


class ImplicationSlave(gm.SlaveSolver):
    """Implications in O(L): premise or not, conclusion or not, for costs of either sign."""

    name = "implication"

    def refuses(self, block: gm.Block) -> str | None:
        return None if isinstance(block, Implication) else "not implications"

    def cost(self, block: gm.Block, power: str = "minimise") -> float:
        return 2.0 * len(block) * block.max_states  # whichever power

    def prepare(self, block: Implication, w: Weights) -> tuple[np.ndarray, ...]:
        return block.premise, block.conclusion, block.strength(w)

    def minimise(
        self, block: Implication, theta: np.ndarray, w: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        from gmlearn_highorder._implication_numba import minimise_implications

        labels, value = np.empty((len(block), 2), np.int64), np.empty(len(block))
        minimise_implications(theta, *w, labels, value)
        return labels, value

    def min_marginals(self, block: Implication, theta: np.ndarray, w: Any) -> np.ndarray:
        from gmlearn_highorder._implication_numba import min_marginals_implications

        out = np.empty_like(theta)
        min_marginals_implications(theta, *w, out)
        return out

    def examples(self, rng: np.random.Generator) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        pairs, states = [[0, 1], [1, 2], [2, 0]], np.array([2, 3, 2])
        return [
            (Implication(pairs, premise=[1, 2, 0], conclusion=[2, 0, 1]).bind(states), {}),
            (
                Implication(pairs, cost=rng.normal(size=3), weight="imply").bind(states),
                {"imply": rng.normal(size=())},
            ),
        ]

    def large_examples(
        self, rng: np.random.Generator
    ) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        pairs = rng.integers(0, 200, 1000)[:, None] + [0, 1]
        block = Implication(pairs, cost=rng.random(1000), weight="imply").bind(np.full(201, 20))
        return [(block, {"imply": np.ones(())})]
