"""Robust Pn cliques: a Pn-Potts cost that grows with the number of deviating variables and is
truncated (Kohli, Ladicky and Torr 2009)."""

from __future__ import annotations

from typing import Any

import numpy as np

import gmlearn as gm
from gmlearn_highorder.listed import (
    Weights,
    expected_of_counts,
    for_each_clique,
    shares_by_label,
)
from gmlearn_highorder.pn_potts import PnPotts


class RobustPn(PnPotts):
    r"""Robust Pn cliques: with d the number of members that do not take label l,

    .. math:: h_c(x) = \beta_{max} + (\beta_l - \beta_{max})\,(1 - d / Q)
        \text{ if } d < Q \text{ for a label } l,
              \text{ else } \beta_{max}.

    With :math:`\beta_l \le \beta_{max}` this is :math:`\min(\beta_{max}, \min_l \beta_l +
    d(\beta_{max} - \beta_l)/Q)` as in the paper. It is linear in all betas since at most one label
    can have d < Q, for which Q, rounded up, may be at most half of a clique (a single variable
    always counts as constant). Q = 1 is the Pn-Potts clique.

    Parameters
    ----------
    cliques, beta, beta_max, features, weight, weight_max : as in `PnPotts`.
    truncation : Q > 0, a number or (M,), for example ``0.3 * sizes``.

    References
    ----------
    P. Kohli, L. Ladicky, P. H. S. Torr. Robust higher order potentials for enforcing label
    consistency. CVPR 2008.

    Examples
    --------
    >>> import gmlearn as gm
    >>> crf = gm.CRF(6, 2)
    >>> _ = crf.add("robust_pn", cliques=[range(6)], truncation=3, beta=-3.0)
    >>> [crf.energy([1] * n + [0] * (6 - n)) for n in range(7)]
    [-3.0, -2.0, -1.0, 0.0, -1.0, -2.0, -3.0]
    """

    name = "robust_pn"
    per_clique = (*PnPotts.per_clique, "truncation")

    def __init__(
        self,
        cliques: Any,
        truncation: Any,
        beta: Any = None,
        beta_max: Any = 0.0,
        features: Any = None,
        weight: str | None = None,
        weight_max: str | None = None,
    ):
        super().__init__(cliques, beta, beta_max, features, weight, weight_max)
        self.truncation = for_each_clique(
            "RobustPn.truncation", truncation, len(self), allow_inf=False
        )
        self._check_truncation()

    def state(self) -> dict[str, Any]:
        return {**super().state(), "truncation": self.truncation}

    def check(self) -> None:
        super().check()
        self._check_truncation()

    def _check_truncation(self) -> None:
        """The kernels select so many members; Q may be at most half of a clique."""
        wrong = np.flatnonzero(
            (self.truncation <= 0) | (np.ceil(self.truncation) > np.maximum(self.sizes // 2, 1))
        )
        if wrong.size:
            m = int(wrong[0])
            raise ValueError(
                f"RobustPn.truncation: expected 0 < Q, rounded up at most half of the clique's "
                f"{int(self.sizes[m])} "
                f"variables, got {self.truncation[m]:g} for clique {m}"
            )

    def selected(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        counts = np.bincount(self.owner * self.n_options + x, minlength=len(self) * self.n_options)
        counts = counts.reshape(len(self), self.n_options)
        deviating = self.sizes - counts.max(axis=1, initial=0)
        return counts.argmax(axis=1), np.maximum(1.0 - deviating / self.truncation, 0.0)

    def expected_energy(self, q: np.ndarray, w: Weights) -> np.ndarray:
        start = self.indptr[:-1] + np.arange(len(self))
        size, truncation = (np.repeat(a, self.sizes + 1) for a in (self.sizes, self.truncation))
        agreeing = np.arange(len(size)) - np.repeat(start, self.sizes + 1)
        share = np.maximum(1.0 - (size - agreeing) / truncation, 0.0)
        found = np.stack([expected_of_counts(p, self.indptr, share, start) for p in q.T], axis=1)
        return self.expected_costs(shares_by_label(found[..., 0], found[..., 1]), w)


class RobustPnSlave(gm.SlaveSolver):
    r"""Robust Pn cliques in O(L (k + selection of Q)): for each label and each number of deviations
    below Q the cheapest deviations; and the best labelling in which no label has that few,
    charged :math:`\beta_{max}`.

    Exact for betas of any order: the last labelling starts from the members' own minimisers, and if
    these are too uniform the cheapest further changes are made.
    """

    name = "robust-pn"

    def refuses(self, block: gm.Block) -> str | None:
        return None if isinstance(block, RobustPn) else "not robust Pn cliques"

    def cost(self, block: gm.Block, power: str = "minimise") -> float:
        # with a label fixed, every label's selection of deviating members is made again
        scale = 1.0 if power == "minimise" else 2.0 * block.max_states
        return scale * len(block.members) * block.max_states

    def prepare(self, block: RobustPn, w: Weights) -> tuple[np.ndarray, ...]:
        return block.option_costs(w), block.other_costs(w), block.truncation

    def minimise(self, block: RobustPn, theta: np.ndarray, w: Any) -> tuple[np.ndarray, np.ndarray]:
        from gmlearn_highorder._robust_numba import minimise_robust

        labels, value = np.empty(len(theta), np.int64), np.empty(len(block))
        minimise_robust(theta, block.indptr, *w, labels, value)
        return labels, value

    def min_marginals(self, block: RobustPn, theta: np.ndarray, w: Any) -> np.ndarray:
        from gmlearn_highorder._robust_numba import min_marginals_robust

        out = np.empty_like(theta)
        min_marginals_robust(theta, block.indptr, *w, out)
        return out

    def examples(self, rng: np.random.Generator) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        cliques = [[0, 1, 2, 3], [4, 2, 3, 1]]
        states = np.array([2, 3, 3, 2, 3])
        return [
            (RobustPn(cliques, [1.5, 2], rng.normal(size=(2, 3)), 0.3).bind(states), {}),
            (
                RobustPn(
                    cliques,
                    2,
                    features=rng.normal(size=(2, 3, 2)),
                    beta_max=rng.normal(size=2),
                    weight="r",
                    weight_max="t",
                ).bind(np.full(5, 3)),
                {"r": rng.normal(size=(3, 2)), "t": rng.normal(size=())},
            ),
        ]

    def large_examples(
        self, rng: np.random.Generator
    ) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        cliques = [rng.choice(100, size, replace=False) for size in rng.integers(20, 40, 20)]
        block = RobustPn(cliques, 4.0, rng.random((20, 5)), 2.0).bind(np.full(100, 5))
        return [(block, {})]
