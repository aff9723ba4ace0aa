"""Label costs: a label that is used anywhere in a clique costs once (Delong et al. 2012)."""

from __future__ import annotations

from typing import Any

import numpy as np

import gmlearn as gm
from gmlearn_highorder.listed import Weights, others_product, shares_by_label, times

#: labels beyond which subsets of labels are not enumerated
MAX_LABELS = 12


class LabelCost(gm.RaggedBlock):
    r"""Cliques :math:`h_c(x) = \sum_l cost_l^c\,[\text{some member takes } l]`, in the manner of a
    description length.

    Parameters
    ----------
    cliques : list of int arrays, or int (M, k); sizes may differ. One clique of all variables is
        the usual choice.
    costs : a number, (L,) or (M, L); with `weight` these are factors of the weights, 1 by default.
    weight : name of the segment with weights (L,): :math:`cost_l^c = costs_l^c\, w_l`.

    Examples
    --------
    >>> import gmlearn as gm
    >>> crf = gm.CRF(3, 3)
    >>> _ = crf.add("label_cost", cliques=[[0, 1, 2]], costs=[1.0, 2.0, 4.0])
    >>> crf.energy([0, 0, 0]), crf.energy([0, 2, 2]), crf.energy([0, 1, 2])
    (1.0, 5.0, 7.0)
    """

    name = "label_cost"
    per_clique = ("costs",)

    def __init__(self, cliques: Any, costs: Any = None, weight: str | None = None):
        super().__init__(cliques)
        if costs is None and weight is None:
            raise ValueError(
                "LabelCost: give `costs` (fixed, or factors) or `weight` (learnt costs), or both"
            )
        array = np.atleast_1d(
            gm.check_array(
                "LabelCost.costs", 1.0 if costs is None else costs, allow_inf=weight is None
            )
        )
        if array.ndim > 2 or (array.ndim == 2 and len(array) != len(self)):
            raise ValueError(
                f"LabelCost.costs: expected a number, (L,) or ({len(self)}, L), got shape "
                f"{array.shape}"
            )
        self.costs = np.ascontiguousarray(np.broadcast_to(array, (len(self), array.shape[-1])))
        self.weight = self.segment_name(weight)

    def check(self) -> None:
        self.size = self.max_states
        if self.costs.shape[1] not in (1, self.size):
            raise ValueError(
                f"{self}: expected costs of {self.max_states} labels, got {self.costs.shape[1]}"
            )

    def segments(self) -> dict[str, tuple[int, ...]]:
        return {} if self.weight is None else {self.weight: (self.size,)}

    def label_costs(self, w: Weights) -> np.ndarray:
        """float (M, L)."""
        costs = self.costs if self.weight is None else self.costs * w[self.weight]
        return np.broadcast_to(costs, (len(self), self.size))

    def used(self, x: np.ndarray) -> np.ndarray:
        """float (M, L): 1 where a label is used."""
        counts = np.bincount(self.owner * self.size + x, minlength=len(self) * self.size)
        return (counts > 0).astype(float).reshape(len(self), self.size)

    def energy(self, x: np.ndarray, w: Weights) -> np.ndarray:
        return times(self.used(x), self.label_costs(w)).sum(axis=1)

    def features(self, x: np.ndarray, weight: np.ndarray | None = None) -> dict[str, np.ndarray]:
        if self.weight is None:
            return {}
        used = self.used(x) * self.costs
        return {self.weight: used.sum(axis=0) if weight is None else weight @ used}

    def clique_features(self, x: np.ndarray) -> dict[str, np.ndarray]:
        return {} if self.weight is None else {self.weight: self.used(x) * self.costs}

    def expected_energy(self, q: np.ndarray, w: Weights) -> np.ndarray:
        used = 1.0 - others_product(1.0 - q, self.indptr)
        share = shares_by_label(used, np.ones_like(used))
        return times(share, self.label_costs(w)[self.owner][:, None, :]).sum(axis=2)


class LabelCostSlave(gm.SlaveSolver):
    r"""Label costs over the subsets of labels, the minimum being a facility location problem in L
    facilities.

    Costs >= 0: every subset U is opened, members take their best label in U; a depth-first search
    over subsets with the bound :math:`\sum_i \min_l \theta_i(l)`, O(k 2^L) at worst. A clique with
    negative (learnt) costs needs labels to be used in fact: dynamic programming over the members
    with the set of labels used so far, O(k L 2^L), which is also how min-marginals are found. More
    than 12 labels are refused.
    """

    name = "label-cost"

    def refuses(self, block: gm.Block) -> str | None:
        if not isinstance(block, LabelCost):
            return "not label costs"
        return (
            None
            if block.max_states <= MAX_LABELS
            else f"{block.max_states} labels have more than 2**{MAX_LABELS} subsets"
        )

    def cost(self, block: gm.Block, power: str = "minimise") -> float:
        scale = 0.5 if power == "minimise" else 0.5 * block.max_states
        return scale * len(block.members) * 2.0**block.max_states

    def prepare(self, block: LabelCost, w: Weights) -> np.ndarray:
        return np.ascontiguousarray(block.label_costs(w))

    def minimise(
        self, block: LabelCost, theta: np.ndarray, w: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        from gmlearn_highorder._label_cost_numba import minimise_label_costs

        labels, value = np.zeros(len(theta), np.int64), np.empty(len(block))
        minimise_label_costs(theta, block.indptr, w, labels, value)
        return labels, value

    def min_marginals(self, block: LabelCost, theta: np.ndarray, w: np.ndarray) -> np.ndarray:
        from gmlearn_highorder._label_cost_numba import min_marginals_label_costs

        out = np.empty_like(theta)
        min_marginals_label_costs(theta, block.indptr, w, out)
        return out

    def examples(self, rng: np.random.Generator) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        cliques, states = [[0, 1, 2], [1, 2, 3]], np.array([2, 3, 4, 3])
        return [
            (LabelCost(cliques, rng.random((2, 4))).bind(states), {}),
            (LabelCost(cliques, rng.normal(size=4)).bind(states), {}),
            (LabelCost(cliques, weight="label").bind(np.full(4, 3)), {"label": rng.normal(size=3)}),
        ]

    def large_examples(
        self, rng: np.random.Generator
    ) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        cliques = [rng.choice(100, size, replace=False) for size in rng.integers(20, 40, 20)]
        block = LabelCost(cliques, weight="label").bind(np.full(100, 6))
        return [(block, {"label": rng.random(6)})]
