"""One-to-one matching as a potential: no two members of a clique may take the same label."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import gmlearn as gm

from .sinkhorn import assign


class OneToOne(gm.Block):
    r"""Cliques whose members take different labels: 0 if they do, else +inf.

    The variables are the points of one set, the labels those of another. Unary costs make it the
    linear assignment problem, pairwise costs on top of that the quadratic one (graph matching).

    Parameters
    ----------
    variables : int (M, k).
    unmatched : whether the last label of every variable means "no partner" and may be taken by any
        number of members.

    Examples
    --------
    >>> import gmlearn as gm
    >>> crf = gm.CRF(2, 3).add_unary([[0.0, 1.0, 5.0], [0.0, 3.0, 5.0]])
    >>> _ = crf.add("one_to_one", variables=[[0, 1]], unmatched=True)
    >>> gm.solve(crf).labels.tolist(), crf.energy([0, 0]), crf.energy([2, 2])
    ([1, 0], inf, 10.0)
    """

    name: ClassVar[str] = "one_to_one"

    def __init__(self, variables: Any, unmatched: bool = False):
        super().__init__(variables)
        self.unmatched = bool(unmatched)

    def check(self) -> None:
        if np.any(self.states != self.max_states):
            raise ValueError(
                f"{self}: expected the same number of states everywhere, got "
                f"{np.unique(self.states).tolist()}"
            )
        if len(self) and not self.unmatched and self.max_states < self.arity:
            raise ValueError(
                f"{self}: {self.arity} members cannot take different ones of {self.max_states} "
                f"labels; use unmatched=True"
            )

    @property
    def n_partners(self) -> int:
        """Labels that only one member may take; the one after them, if any, is "no partner"."""
        return self.max_states - self.unmatched

    def energy(self, x: np.ndarray, w: Any) -> np.ndarray:
        taken = np.sort(x, axis=1)
        twice = (taken[:, 1:] == taken[:, :-1]) & (taken[:, 1:] < self.n_partners)
        return np.where(twice.any(axis=1), np.inf, 0.0)


class MatchingSlave(gm.SlaveSolver):
    """Linear assignment by shortest augmenting paths, O(k^2 (k + L)) a clique.

    "No partner" becomes one more column for each member, open to that member alone.
    """

    name: ClassVar[str] = "matching"

    def refuses(self, block: gm.Block) -> str | None:
        return None if isinstance(block, OneToOne) else "not a one_to_one block"

    def cost(self, block: OneToOne, power: str = "minimise") -> float:
        return 2.0 * len(block) * block.arity**2 * (block.arity + block.max_states)

    def minimise(self, block: OneToOne, theta: np.ndarray, w: Any) -> tuple[np.ndarray, np.ndarray]:
        n, k, partners = len(block), block.arity, block.n_partners
        costs = theta
        if block.unmatched:
            costs = np.full((n, k, partners + k), np.inf)
            costs[:, :, :partners] = theta[:, :, :partners]
            costs[:, np.arange(k), partners + np.arange(k)] = theta[:, :, partners]
        column, _, _, feasible = assign(np.ascontiguousarray(costs))
        labels = np.clip(column, 0, block.max_states - 1)
        value = np.take_along_axis(theta, labels[:, :, None], axis=2).sum(axis=(1, 2))
        return labels, np.where(feasible, value, np.inf)

    def examples(self, rng: np.random.Generator) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        """As many labels as members, more, and fewer with "no partner"."""
        variables = np.stack([rng.permutation(4)[:3] for _ in range(2)])
        return [
            (OneToOne(variables).bind(np.full(4, 3)), {}),
            (OneToOne(variables).bind(np.full(4, 4)), {}),
            (OneToOne(variables, unmatched=True).bind(np.full(4, 3)), {}),
        ]

    def large_examples(
        self, rng: np.random.Generator
    ) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        """Twenty sets of fifteen points, with and without partners for all."""
        variables = np.arange(300).reshape(20, 15)
        return [
            (OneToOne(variables).bind(np.full(300, 15)), {}),
            (OneToOne(variables, unmatched=True).bind(np.full(300, 12)), {}),
        ]
