"""Pattern-based cliques: a short list of labellings with costs of their own, all others pay the
same (Komodakis and Paragios 2009; Rother et al. 2009)."""

from __future__ import annotations

from typing import Any

import numpy as np

import gmlearn as gm
from gmlearn_highorder.listed import ListedCosts, Weights, others_product


class Pattern(ListedCosts, gm.Block):
    r"""Cliques :math:`h_c(x) = \psi_p^c` if x is the listed pattern p, else :math:`\psi_{max}^c`.

    The costs may be fixed, or linear in weights, :math:`\psi_p^c = w_p \cdot z_p^c`. Nothing is
    assumed about their signs or order: the slave is exact also where a learnt :math:`\psi_p`
    exceeds :math:`\psi_{max}`.

    Parameters
    ----------
    variables : int (M, k).
    patterns : int (P, k), different labellings, shared by the cliques of the block.
    psi : fixed costs: a number, (P,) or (M, P); inf forbids.
    psi_max : a number or (M,); multiplied by a learnt weight if `weight_max` is given.
    features : z, float (M, P, F), or (M, F) if the patterns share their features; by default one
        constant feature.
    weight : name of the segment with the weights (P, F), instead of `psi`.
    weight_max : name of a segment with one weight, for a learnt psi_max.

    References
    ----------
    N. Komodakis, N. Paragios. Beyond pairwise energies: efficient optimization for higher-order
    MRFs. CVPR 2009.

    Examples
    --------
    >>> import gmlearn as gm
    >>> crf = gm.CRF(3, 3)
    >>> patterns = [[0, 1, 2], [2, 1, 0]]
    >>> _ = crf.add("pattern", variables=[[0, 1, 2]], patterns=patterns, psi=[-1.0, -2.0])
    >>> crf.energy([2, 1, 0]), crf.energy([0, 0, 0])
    (-2.0, 0.0)
    """

    name = "pattern"
    per_clique = ("fixed", "inputs", "other")

    def __init__(
        self,
        variables: Any,
        patterns: Any,
        psi: Any = None,
        psi_max: Any = 0.0,
        features: Any = None,
        weight: str | None = None,
        weight_max: str | None = None,
    ):
        super().__init__(variables)
        self.patterns = gm.check_array(
            "Pattern.patterns", patterns, shape=(None, self.arity), dtype=np.int64
        )
        if len(self.patterns) == 0:
            raise ValueError("Pattern.patterns: expected at least one pattern, got none")
        if len(np.unique(self.patterns, axis=0)) != len(self.patterns):
            raise ValueError(
                "Pattern.patterns: a pattern is listed twice; every pattern has one cost"
            )
        self.set_costs(("psi", "psi_max"), psi, psi_max, features, weight, weight_max)

    def state(self) -> dict[str, Any]:
        costs = self.cost_state("psi", "psi_max")
        return {"variables": self.variables, "patterns": self.patterns, **costs}

    def check(self) -> None:
        self.check_options(len(self.patterns))
        fewest = (
            self.states.min(axis=0) if len(self) else np.full(self.arity, np.iinfo(np.int64).max)
        )
        wrong = np.argwhere((self.patterns < 0) | (self.patterns >= fewest))
        if len(wrong):
            p, i = wrong[0]
            raise ValueError(
                f"{self}: pattern {p} has label {self.patterns[p, i]} in place {i}, where a "
                f"variable has only "
                f"{fewest[i]} states"
            )

    def selected(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        option, share = np.zeros(len(x), np.int64), np.zeros(len(x))
        for p, pattern in enumerate(self.patterns):
            hit = (x == pattern).all(axis=1)
            option[hit], share[hit] = p, 1.0
        return option, share

    def expected_energy(self, q: np.ndarray, w: Weights) -> np.ndarray:
        m, k, n_labels = q.shape
        of_pattern = np.take_along_axis(q, self.patterns.T[None].repeat(m, 0), axis=2)
        others = others_product(of_pattern.reshape(m * k, -1), self.indptr).reshape(m * k, 1, -1)
        wants = self.patterns.T[:, None, :] == np.arange(n_labels)[:, None]
        return self.expected_costs(others * np.tile(wants, (m, 1, 1)), w).reshape(q.shape)


class PatternSlave(gm.SlaveSolver):
    r"""Pattern cliques in O(k (P + L)): the best listed pattern against the best labelling that is
    not listed.

    :math:`\sum_i \min_l \theta_i(l) + \psi_{max}` bounds the latter from below. Only where it is
    lower than every pattern, and the members' own minimisers are listed (with :math:`\psi_p >
    \psi_{max}`), the best unlisted labelling is searched for: it leaves the tree of patterns at
    some node, by a label that no pattern takes there, and is free afterwards.
    """

    name = "pattern"

    def refuses(self, block: gm.Block) -> str | None:
        return None if isinstance(block, Pattern) else "not pattern cliques"

    def cost(self, block: Pattern, power: str = "minimise") -> float:
        # whichever power
        return float(len(block)) * block.arity * (len(block.patterns) + block.max_states)

    def prepare(self, block: Pattern, w: Weights) -> tuple[np.ndarray, ...]:
        # a tree of patterns needs them in lexicographic order
        order = np.lexsort(block.patterns.T[::-1])
        patterns = block.patterns[order]
        return (
            patterns,
            common_prefix(patterns),
            np.ascontiguousarray(block.option_costs(w)[:, order]),
            block.other_costs(w),
        )

    def minimise(self, block: Pattern, theta: np.ndarray, w: Any) -> tuple[np.ndarray, np.ndarray]:
        from gmlearn_highorder._pattern_numba import minimise_patterns

        labels, value = np.zeros(block.variables.shape, np.int64), np.empty(len(block))
        minimise_patterns(theta, *w, labels, value)
        return labels, value

    def min_marginals(self, block: Pattern, theta: np.ndarray, w: Any) -> np.ndarray:
        from gmlearn_highorder._pattern_numba import min_marginals_patterns

        out = np.empty_like(theta)
        min_marginals_patterns(theta, *w, out)
        return out

    def examples(self, rng: np.random.Generator) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        variables = [[0, 1, 2], [3, 2, 1]]
        states = np.array([3, 2, 3, 3])
        patterns = np.array([[0, 0, 0], [2, 1, 0], [0, 1, 1], [1, 1, 0], [0, 0, 1]])
        learnt = Pattern(
            variables,
            patterns,
            psi_max=rng.normal(size=2),
            features=rng.normal(size=(2, 5, 2)),
            weight="p",
            weight_max="t",
        )
        return [
            (Pattern(variables, patterns, rng.normal(size=(2, 5)), 0.1).bind(states), {}),
            (learnt.bind(np.full(4, 3)), {"p": rng.normal(size=(5, 2)), "t": rng.normal(size=())}),
        ]

    def large_examples(
        self, rng: np.random.Generator
    ) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        variables = np.stack([rng.permutation(100)[:25] for _ in range(20)])
        patterns = rng.integers(0, 4, (30, 25))
        block = Pattern(variables, patterns, -rng.random((20, 30)), 1.0).bind(np.full(100, 4))
        return [(block, {})]


def common_prefix(patterns: np.ndarray) -> np.ndarray:
    """int (P,): how many first labels each (sorted) pattern shares with the one before; -1 for
    the first.
    """
    same = np.cumprod(patterns[1:] == patterns[:-1], axis=1).sum(axis=1)
    return np.concatenate([[-1], same]).astype(np.int64)
