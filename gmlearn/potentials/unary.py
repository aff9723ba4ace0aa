"""Unary potentials with features: u_p(l) = w . g_p(l)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from gmlearn._utils.validation import check_array
from gmlearn.potentials.base import Block, Weights
from gmlearn.potentials.inputs import all_finite, check_features, from_arrays, to_arrays

#: multiplications from which on products skip marginals that are 0, and the share of others up to
#: which that is faster
LARGE, FEW = 50_000, 0.2


class Unary(Block):
    r"""Learnt costs of single variables.

    Parameters
    ----------
    features : (V, F), dense or scipy sparse: weights of shape (L, F), cost :math:`u_p(l) = w_l
        \cdot z_p`;
        or (V, L, F): weights of shape (F,), cost :math:`u_p(l) = w \cdot g_p(l)`.
    weight : name of the weight segment.
    variables : int (V,), the variables concerned; all of them, in order, by default.
    """

    name = "unary"
    per_clique = ("inputs",)
    #: is every variable named once only? known once bound
    distinct = False

    def __init__(self, features: Any, weight: str = "unary", variables: Any = None):
        self.inputs = check_features("Unary.features", features, (2, 3))
        variables = (
            np.arange(self.inputs.shape[0])
            if variables is None
            else check_array("Unary.variables", variables, ndim=1, dtype=np.int64)
        )
        if len(variables) != self.inputs.shape[0]:
            raise ValueError(
                f"Unary.features: expected one row per variable ({len(variables)}), got "
                f"{self.inputs.shape[0]}"
            )
        super().__init__(variables[:, None])
        self.weight = self.segment_name(weight)

    def check(self) -> None:
        if len(self) and (self.states != self.max_states).any():
            raise ValueError(
                f"{self}: all variables of one Unary block must have the same number of states; "
                f"add one for each"
            )
        if self.inputs.ndim == 3 and len(self) and self.inputs.shape[1] != self.max_states:
            raise ValueError(
                f"Unary.features: expected shape (V, {self.max_states}, F), got {self.inputs.shape}"
            )
        self.distinct = len(np.unique(self.members)) == len(self)

    def all_finite(self) -> bool:
        return all_finite(self.inputs)

    def segments(self) -> dict[str, tuple[int, ...]]:
        n_features = self.inputs.shape[-1]
        shape = (n_features,) if self.inputs.ndim == 3 else (self.max_states, n_features)
        return {self.weight: shape} | self.gradient_segments()

    def own_costs(self) -> np.ndarray | None:
        dense = isinstance(self.inputs, np.ndarray)  # sparse ones come from no network
        return np.full(len(self), self.max_states) if dense else None

    def cost_gradient(self, found: np.ndarray, w: Weights) -> np.ndarray:
        """The derivative in the features (V, F) or (V, L, F)."""
        change, weights = found.reshape(len(self), -1), w[self.weight]
        return change[:, :, None] * weights if self.inputs.ndim == 3 else change @ weights

    def with_costs(self, numbers: Any) -> Self:
        other = copy.copy(self)
        other.inputs = check_array("Unary.features", numbers, shape=self.inputs.shape)
        return other

    def costs(self, w: Weights) -> np.ndarray:
        """Costs (M, L) of all labels."""
        weights = w[self.weight]
        if self.inputs.ndim == 3:
            return self.inputs @ weights
        return self.inputs @ np.ascontiguousarray(weights.T)  # BLAS is slower on a transposed view

    def energy(self, x: np.ndarray, w: Weights) -> np.ndarray:
        return np.take_along_axis(self.costs(w), x, axis=1)[:, 0]

    def features(self, x: np.ndarray, weight: np.ndarray | None = None) -> dict[str, np.ndarray]:
        chosen = np.zeros((len(self), self.max_states))
        chosen[np.arange(len(self)), x[:, 0]] = 1.0 if weight is None else weight
        return self.expected_features(chosen)

    def expected_features(self, marginals: np.ndarray) -> dict[str, np.ndarray]:
        """Features under label marginals (M, L): the gradient of <marginals, costs(w)> in w."""
        own = self.gradient_features(np.arange(marginals.shape[1]), marginals)
        if self.inputs.ndim == 3:
            return {self.weight: np.einsum("vl,vlf->f", marginals, self.inputs)} | own
        return {self.weight: self._weighted_rows(marginals)} | own

    def _weighted_rows(self, marginals: np.ndarray) -> np.ndarray:
        """marginals^T (L, V) times the features (V, F); most marginals of a move are 0."""
        inputs = self.inputs
        large = isinstance(inputs, np.ndarray) and marginals.size * inputs.shape[1] >= LARGE
        if not large or np.count_nonzero(marginals) > FEW * marginals.size:
            return marginals.T @ inputs
        from gmlearn.potentials._rows_numba import add_rows

        found = np.zeros((marginals.shape[1], inputs.shape[1]))
        add_rows(np.ascontiguousarray(marginals), np.ascontiguousarray(inputs), found)
        return found

    def state(self) -> dict[str, Any]:
        return {"weight": self.weight, "variables": self.members, **to_arrays(self.inputs)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        return cls(**from_arrays(state))
