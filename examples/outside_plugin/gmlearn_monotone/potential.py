"""The potential: labels that must not fall."""

from __future__ import annotations

from typing import Any

import numpy as np

import gmlearn as gm


class Monotone(gm.Block):
    r"""Cliques h(x) = price (x_k - x_1) if x_1 <= x_2 <= ... <= x_k, else inf.

    Parameters
    ----------
    variables : int (M, k), in the order that the labels must follow.
    price : fixed price of one step up; used without `weight`.
    weight : name of a segment with one weight, for a learnt price.

    Examples
    --------
    >>> import gmlearn as gm, gmlearn_monotone
    >>> crf = gm.CRF(3, 4).add_unary([[2, 0, 2, 2], [0, 2, 2, 2], [2, 2, 2, 0]])
    >>> block = crf.add(gmlearn_monotone.Monotone([[0, 1, 2]], price=0.5))
    >>> crf.energy([1, 0, 3]), crf.energy([1, 1, 3])
    (inf, 3.0)
    """

    name = "monotone"

    def __init__(self, variables: Any, price: float = 0.0, weight: str | None = None):
        super().__init__(variables)
        self.price, self.weight = gm.check_number("Monotone.price", price), weight
        if weight is not None and price != 0.0:
            raise ValueError(
                f"Monotone.price: a learnt price (weight={weight!r}) leaves no room for a fixed "
                f"one, got {price:g}"
            )

    def segments(self) -> dict[str, tuple[int, ...]]:
        return {} if self.weight is None else {self.weight: ()}

    def step_price(self, w: Any) -> float:
        """What one step up costs."""
        return self.price if self.weight is None else float(w[self.weight])

    def energy(self, x: np.ndarray, w: Any) -> np.ndarray:
        falls = (np.diff(x, axis=1) < 0).any(axis=1)
        return np.where(falls, np.inf, self.step_price(w) * self._rise(x))

    def features(self, x: np.ndarray, weight: np.ndarray | None = None) -> dict[str, np.ndarray]:
        return (
            {}
            if self.weight is None
            else {self.weight: np.sum(self._rise(x) * (1.0 if weight is None else weight))}
        )

    def clique_features(self, x: np.ndarray) -> dict[str, np.ndarray]:
        return {} if self.weight is None else {self.weight: self._rise(x).astype(float)}

    def _rise(self, x: np.ndarray) -> np.ndarray:
        return x[:, -1] - x[:, 0]
