"""The assignment potential: the variables of a clique take different labels."""

from __future__ import annotations

import numpy as np

import gmlearn as gm


class Assignment(gm.Block):
    """Cliques whose k variables must take k different labels: a one-to-one match of k points into L, L >= k.

    h_c(x) = 0 if all labels differ, else inf. What a match costs is in the unary terms of the variables, so that a clique
    with its unaries is a linear assignment problem; the potential carries no weight.

    Parameters
    ----------
    variables : int (M, k).

    Examples
    --------
    >>> block = Assignment([[0, 1, 2]]).bind(np.array([3, 3, 3]))
    >>> block.energy(np.array([[2, 0, 1]]), {}), block.energy(np.array([[2, 0, 2]]), {})
    (array([0.]), array([inf]))
    """

    name = "assignment"

    def check(self) -> None:
        short = np.flatnonzero(self.states.max(axis=1, initial=0) < self.arity)
        if short.size:
            clique = int(short[0])
            raise ValueError(
                f"Assignment.variables: clique {clique} has {self.arity} variables but only "
                f"{int(self.states[clique].max(initial=0))} labels, too few for all to differ"
            )

    def energy(self, x: np.ndarray, w) -> np.ndarray:
        """0 or inf (M,) for labels x (M, k)."""
        ordered = np.sort(x, axis=1)
        return np.where((ordered[:, 1:] == ordered[:, :-1]).any(axis=1), np.inf, 0.0)
