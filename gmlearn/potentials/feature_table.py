"""Cliques of any arity whose learnt costs depend on features: h_c(x_c, z) = w . g_c(x_c, z)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from gmlearn._utils.validation import check_array, check_flag, naming
from gmlearn.potentials.base import Block, Weights
from gmlearn.potentials.inputs import (
    all_finite,
    check_features,
    dense_product,
    from_arrays,
    is_sparse,
    summed,
    to_arrays,
)


class FeatureTable(Block):
    r"""Cliques with learnt tables of joint labels that depend on features of the clique.

    Parameters
    ----------
    variables : int (M, k). In each place of the cliques all variables have the same number of
        states; different places may differ (typed variables).
    features : dense (M, F), or scipy sparse (M, F): weights of shape (L_1, ..., L_k, F), cost
        :math:`h_c(x) = w_x \cdot z_c`. Or dense (M, L_1, ..., L_k, F), or scipy sparse
        (M L_1 ... L_k, F) with the last label fastest: weights of shape (F,), cost :math:`h_c(x) =
        w \cdot g_c(x)`; with F = 1 a fixed table for each clique times a learnt strength.
    weight : name of the weight segment.
    symmetric : the order of labels makes no difference: True, in all places; or int (k,), the type
        of each place, in places of one type. Weights of shape (n, F), one row for each unordered
        combination of labels, in the order (0, 0), (0, 1), ..., (1, 1), ...

    Examples
    --------
    >>> import gmlearn as gm, numpy as np
    >>> crf = gm.CRF(3, 2)
    >>> block = crf.add(gm.FeatureTable([[0, 1], [1, 2]], np.ones((2, 5))))
    >>> block.segments()
    {'pair': (2, 2, 5)}
    """

    name = "feature_table"
    per_clique = ("inputs",)
    #: states of the variables in each place; known once bound
    shape: tuple[int, ...] = ()

    def __init__(self, variables: Any, features: Any, weight: str = "pair", symmetric: Any = False):
        super().__init__(check_array("FeatureTable.variables", variables, ndim=2, dtype=np.int64))
        m, k = self.variables.shape
        self.inputs = check_features("FeatureTable.features", features, (2, k + 2))
        self.weight = self.segment_name(weight)
        self.types = _check_types(symmetric, k)
        self.symmetric = bool(self.types)
        self.n_features = int(self.inputs.shape[-1])
        rows = self.inputs.shape[0]
        #: does every joint label have features of its own?
        self.per_label = self.inputs.ndim == k + 2
        if is_sparse(self.inputs) and m and rows != m and rows % m == 0:
            self.per_label = True
            self.inputs = self.inputs.reshape(m, -1).tocsr()
        elif rows != m:
            raise ValueError(
                f"FeatureTable.features: expected one row for each of the {m} cliques, got shape "
                f"{self.inputs.shape}"
            )
        if self.per_label and self.symmetric:
            raise ValueError(
                "FeatureTable.symmetric: is for weights with a row for each joint label; features "
                "of joint labels say themselves what is symmetric"
            )

    def check(self) -> None:
        states = self.states
        if len(states) and (states != states[0]).any():
            m = int(np.flatnonzero((states != states[0]).any(axis=1))[0])
            raise ValueError(
                f"{self}: cliques 0 and {m} have variables with {states[0].tolist()} and "
                f"{states[m].tolist()} states; add one block for each kind"
            )
        self.shape = tuple(states[0].tolist()) if len(states) else (self.n_labels,) * self.arity
        if len(set(zip(self.types, self.shape))) > len(set(self.types)):
            raise ValueError(
                f"FeatureTable.symmetric: needs one number of states in places of one type, got "
                f"{self.shape}"
            )
        expected = (len(self), *self.shape, self.n_features)
        if self.per_label and math.prod(self.inputs.shape) != math.prod(expected):
            raise ValueError(
                f"FeatureTable.features: expected {self.joint} rows of features for each clique, "
                f"got shape {self.inputs.shape} for {len(self)} cliques"
            )

    def all_finite(self) -> bool:
        return all_finite(self.inputs)

    # ------------------------------------------------------------------ shapes

    @property
    def joint(self) -> int:
        """Joint labels of a clique."""
        return math.prod(self.shape)

    def _place(self, x: np.ndarray) -> np.ndarray:
        """int (M,): the number of each joint label (M, k), the last one fastest."""
        place = np.zeros(len(x), np.int64)
        for column, n in zip(x.T, self.shape):
            place = place * n + column
        return place

    def _row(self, x: np.ndarray) -> np.ndarray:
        """int (M,): which row of the weights the labels (M, k) read."""
        return self._rows[self._place(x)] if self.symmetric else self._place(x)

    @property
    def _rows(self) -> np.ndarray:
        """int (joint,): the row of weights of each joint label."""
        if not self.symmetric:
            return np.arange(self.joint)
        labels = np.indices(self.shape).reshape(self.arity, -1).T
        for places in self._places_of_types:
            labels[:, places] = np.sort(labels[:, places], axis=1)
        return np.unique(labels, axis=0, return_inverse=True)[1].ravel()

    @property
    def _places_of_types(self) -> list[np.ndarray]:
        """The places of each type, whose labels may be exchanged."""
        return [np.flatnonzero(np.array(self.types) == t) for t in sorted(set(self.types))]

    def segments(self) -> dict[str, tuple[int, ...]]:
        if self.per_label:
            return {self.weight: (self.n_features,)}
        if self.symmetric:
            combinations = [
                math.comb(self.shape[places[0]] + len(places) - 1, len(places))
                for places in self._places_of_types
            ]
            return {self.weight: (math.prod(combinations), self.n_features)}
        return {self.weight: (*self.shape, self.n_features)}

    # ------------------------------------------------------------------ energies and features

    @property
    def _flat(self) -> Any:
        """Features of joint labels as rows (M joint, F)."""
        return self.inputs.reshape(len(self) * self.joint, self.n_features)

    def _at(self, x: np.ndarray) -> Any:
        """Rows (M, F) of features at the labels (M, k), for features of joint labels."""
        flat = self._flat.tocsr() if is_sparse(self.inputs) else self._flat
        return flat[np.arange(len(x)) * self.joint + self._place(x)]

    def energy(self, x: np.ndarray, w: Weights) -> np.ndarray:
        own = w[self.weight]
        if self.per_label:
            return np.asarray(self._at(x) @ own)
        rows = own.reshape(-1, own.shape[-1])
        if is_sparse(self.inputs):
            return dense_product(self.inputs, rows.T)[np.arange(len(x)), self._row(x)]
        return np.einsum("mf,mf->m", self.inputs, rows[self._row(x)])

    def features(self, x: np.ndarray, weight: np.ndarray | None = None) -> dict[str, np.ndarray]:
        shape = self.segments()[self.weight]
        if self.per_label:
            one = np.zeros(len(x), np.int64)
            return {self.weight: summed(one, self._at(x), weight, 1)[0]}
        found = summed(self._row(x), self.inputs, weight, math.prod(shape[:-1]))
        return {self.weight: found.reshape(shape)}

    def features_by(self, x: np.ndarray, group: np.ndarray, n: int) -> dict[str, np.ndarray]:
        shape = self.segments()[self.weight]
        if self.per_label:
            return {self.weight: summed(group, self._at(x), None, n)}
        size = math.prod(shape[:-1])
        found = summed(group * size + self._row(x), self.inputs, None, n * size)
        return {self.weight: found.reshape(n, *shape)}

    def clique_features(self, x: np.ndarray) -> dict[str, np.ndarray]:
        return self.features_by(x, np.arange(len(self)), len(self))

    def expected_features(self, joint: np.ndarray) -> dict[str, np.ndarray]:
        shape, flat = self.segments()[self.weight], joint.reshape(len(self), self.joint)
        if self.per_label:
            return {self.weight: dense_product(flat.ravel(), self._flat)}
        found = dense_product(flat.T, self.inputs)
        if self.symmetric:
            both = np.zeros((math.prod(shape[:-1]), shape[-1]))
            np.add.at(both, self._rows, found)
            found = both
        return {self.weight: found.reshape(shape)}

    def dense(self, w: Weights) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        self.check_size(float(len(self)) * self.joint)
        own = w[self.weight]
        if self.per_label:
            values = np.asarray(self._flat @ own)
        else:
            values = dense_product(self.inputs, own.reshape(-1, own.shape[-1]).T)
            values = values[:, self._rows] if self.symmetric else values
        steps = np.array([math.prod(self.shape[i + 1 :]) for i in range(self.arity)], np.int64)
        start = np.arange(len(self), dtype=np.int64) * self.joint
        return np.ravel(values), start, np.tile(steps, (len(self), 1))

    # ------------------------------------------------------------------ files

    def state(self) -> dict[str, Any]:
        inputs = self._flat.tocsr() if self.per_label and is_sparse(self.inputs) else self.inputs
        symmetric = np.array(self.types) if len(set(self.types)) > 1 else self.symmetric
        kept = {"variables": self.variables, "weight": self.weight, "symmetric": symmetric}
        return {**kept, **to_arrays(inputs)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        return cls(**from_arrays(state))

    # ------------------------------------------------------------------ for the conformance kit

    @classmethod
    def examples(cls, rng: np.random.Generator) -> list[tuple[Block, dict[str, np.ndarray]]]:
        """Small blocks, bound, with weights: edges of typed variables, symmetric triples, features
        of joint labels.
        """
        found = [
            cls([[0, 1], [0, 2]], rng.normal(size=(2, 3))).bind(np.array([2, 3, 3])),
            cls([[0, 1, 2], [1, 2, 3]], rng.normal(size=(2, 2)), "c", True).bind(np.full(4, 2)),
            cls([[0, 1]], rng.normal(size=(1, 3, 3, 2))).bind(np.full(2, 3)),
            cls([[0, 1, 2]], rng.normal(size=(1, 2)), "t", [5, 1, 5]).bind(np.array([2, 3, 2])),
        ]
        return [
            (b, {n: rng.normal(size=shape) for n, shape in b.segments().items()}) for b in found
        ]


def _check_types(symmetric: Any, k: int) -> tuple[int, ...]:
    """The type of each of k places; none where all places differ."""
    with naming("FeatureTable.symmetric"):
        flag = np.ndim(symmetric) == 0
    if flag:
        return (0,) * k if check_flag("FeatureTable.symmetric", symmetric) else ()
    types = check_array("FeatureTable.symmetric", symmetric, shape=(k,), dtype=np.int64)
    return tuple(types.tolist())
