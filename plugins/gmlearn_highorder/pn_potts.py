"""Pn-Potts cliques: one cost for each label that the whole clique takes, another one for every
mixed labelling (Kohli, Kumar and Torr 2007)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import gmlearn as gm
from gmlearn_highorder.listed import ListedCosts, Weights, others_product, shares_by_label


class PnPotts(ListedCosts, gm.RaggedBlock):
    r"""Pn-Potts cliques :math:`h_c(x) = \beta_l^c` if all of c takes label l, else
    :math:`\beta_{max}^c`.

    The costs may be fixed, or linear in weights, :math:`\beta_l^c = w_l \cdot z_l^c`. Nothing is
    assumed about their signs or order: the slave is exact also where a learnt :math:`\beta_l`
    exceeds :math:`\beta_{max}`.

    Parameters
    ----------
    cliques : list of int arrays, or int (M, k); sizes may differ.
    beta : fixed costs: a number, (L,) or (M, L); inf forbids.
    beta_max : a number or (M,); multiplied by a learnt weight if `weight_max` is given.
    features : z, float (M, L, F), or (M, F) if the labels share their features; by default one
        constant feature.
    weight : name of the segment with the weights (L, F), instead of `beta`.
    weight_max : name of a segment with one weight, for a learnt beta_max.

    References
    ----------
    P. Kohli, M. P. Kumar, P. H. S. Torr. P3 & beyond: solving energies with higher order cliques.
    CVPR 2007.

    Examples
    --------
    >>> import gmlearn as gm
    >>> crf = gm.CRF(3, 2).add_unary([[0, 1], [0, 1], [0.6, 0]])
    >>> block = crf.add("pn_potts", cliques=[[0, 1, 2]], beta=[-1.0, -1.0])
    >>> crf.energy([0, 0, 0]), crf.energy([0, 0, 1])
    (-0.4, 0.0)
    """

    name = "pn_potts"
    per_clique: ClassVar[tuple[str, ...]] = ("fixed", "inputs", "other")

    def __init__(
        self,
        cliques: Any,
        beta: Any = None,
        beta_max: Any = 0.0,
        features: Any = None,
        weight: str | None = None,
        weight_max: str | None = None,
    ):
        super().__init__(cliques)
        self.set_costs(("beta", "beta_max"), beta, beta_max, features, weight, weight_max)

    def state(self) -> dict[str, Any]:
        return {"cliques": self.cliques, **self.cost_state("beta", "beta_max")}

    def check(self) -> None:
        self.check_options(self.max_states)

    def selected(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        from gmlearn_highorder._listed_numba import constant_labels

        option, share = np.empty(len(self), np.int64), np.empty(len(self))
        constant_labels(np.asarray(x, np.int64), self.indptr, option, share)
        return option, share

    def expected_energy(self, q: np.ndarray, w: Weights) -> np.ndarray:
        on = others_product(q, self.indptr)
        return self.expected_costs(shares_by_label(np.zeros_like(on), on), w)


class PnPottsSlave(gm.SlaveSolver):
    r"""Pn-Potts cliques in O(k L): the best constant labelling against the best mixed one.

    :math:`\sum_i \min_l \theta_i(l) + \beta_{max}` bounds every mixed labelling from below. Only
    where no constant labelling is as good are the variables' own minimisers looked at; if these
    happen to agree (possible where :math:`\beta_l > \beta_{max}`), the cheapest single change makes
    the best mixed labelling.
    """

    name = "pn-potts"

    def refuses(self, block: gm.Block) -> str | None:
        # a subclass, such as RobustPn, has another energy
        return None if type(block) is PnPotts else "not Pn-Potts cliques"

    def cost(self, block: gm.Block, power: str = "minimise") -> float:
        scale = {"minimise": 1.0, "min_marginals": 2.0, "log_partition": 40.0}[power]
        return scale * len(block.members) * block.max_states

    def prepare(self, block: PnPotts, w: Weights) -> tuple[np.ndarray, np.ndarray]:
        return block.option_costs(w), block.other_costs(w)

    def minimise(self, block: PnPotts, theta: np.ndarray, w: Any) -> tuple[np.ndarray, np.ndarray]:
        from gmlearn_highorder._pn_numba import minimise_pn

        labels, value = np.empty(len(theta), np.int64), np.empty(len(block))
        minimise_pn(theta, block.indptr, *w, labels, value)
        return labels, value

    def min_marginals(self, block: PnPotts, theta: np.ndarray, w: Any) -> np.ndarray:
        from gmlearn_highorder._pn_numba import min_marginals_pn

        out = np.empty_like(theta)
        min_marginals_pn(theta, block.indptr, *w, out)
        return out

    def member_marginals(
        self, block: PnPotts, theta: np.ndarray, w: Any, member: np.ndarray
    ) -> np.ndarray:
        """Min-marginals (M, L) of one member of each clique, `member` (M,) by its place in the
        clique.
        """
        from gmlearn_highorder._pn_numba import member_marginals_pn

        out = np.empty((len(block), theta.shape[1]))
        member_marginals_pn(theta, block.indptr, *w, member, out)
        return out

    def log_partition(
        self, block: PnPotts, theta: np.ndarray, w: Any, temperature: float
    ) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Soft minima, marginals and expected features in closed form, O(k L)."""
        from gmlearn_highorder._pn_soft_numba import log_partition_pn

        value, marginals = np.empty(len(block)), np.empty_like(theta)
        chosen, rest = np.empty((len(block), block.n_options)), np.empty(len(block))
        log_partition_pn(
            theta, block.indptr, *w, float(temperature), value, marginals, chosen, rest
        )
        return value, marginals, block.choice_features(chosen, rest)

    def examples(self, rng: np.random.Generator) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        cliques = [[0, 1, 2], [1, 2, 3], [0, 2, 3]]
        states = np.array([2, 3, 3, 4])
        uniform = np.full(4, 3)
        return [
            (PnPotts(cliques, rng.normal(size=(3, 4)), 0.2).bind(states), {}),
            (
                PnPotts(
                    cliques,
                    beta_max=rng.normal(size=3),
                    features=rng.normal(size=(3, 3, 2)),
                    weight="pn",
                    weight_max="top",
                ).bind(uniform),
                {"pn": rng.normal(size=(3, 2)), "top": rng.normal(size=())},
            ),
            (
                PnPotts(cliques, weight="b", features=rng.random((3, 2))).bind(uniform),
                {"b": rng.normal(size=(3, 2))},
            ),
        ]

    def large_examples(
        self, rng: np.random.Generator
    ) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        cliques = [rng.choice(100, size, replace=False) for size in rng.integers(20, 40, 20)]
        block = PnPotts(cliques, weight="b", features=rng.random((20, 2))).bind(np.full(100, 5))
        return [(block, {"b": rng.normal(size=(5, 2))})]
