"""Edges whose cost is a shared table of the two labels: Potts, truncated distances, learnt
tables.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Self

import numpy as np

from gmlearn._utils.validation import check_array, check_flag, check_number, is_number
from gmlearn.potentials.base import Block, Weights, weighted_bincount
from gmlearn.potentials.form import DENSE, LINEAR, POTTS, PairwiseForm


def _edges(owner: str, edges: Any) -> np.ndarray:
    return check_array(f"{owner}.edges", edges, shape=(None, 2), dtype=np.int64)


class ScaledDistance(Block):
    r"""Edges :math:`h_e(a, b) = s_e\, D(a, b)` with a fixed distance D and a strength :math:`s_e`.

    Parameters
    ----------
    edges : int (M, 2).
    contrast : float (M,), :math:`s_e = contrast_e` if `weight` is None, else :math:`w \cdot
        contrast_e` with one weight.
    features : float (M, F) instead of `contrast`: :math:`s_e = w \cdot features_e` with F weights.
    weight : name of the weight segment; None for fixed strengths.
    """

    per_clique = ("contrast",)
    #: is D(a, b) a function of |a - b| alone? Then no table of label pairs is ever written
    of_difference: ClassVar[bool] = False

    def __init__(
        self, edges: Any, contrast: Any = None, weight: str | None = None, *, features: Any = None
    ):
        kind = type(self).__name__
        super().__init__(_edges(kind, edges))
        if features is not None:
            if contrast is not None or weight is None:
                raise ValueError(
                    f"{kind}.features: needs the name of a weight segment and no `contrast`"
                )
            self.contrast = check_array(f"{kind}.features", features, shape=(len(self), None))
        else:
            contrast = 1.0 if contrast is None else contrast
            self.contrast = check_array(
                f"{kind}.contrast",
                np.broadcast_to(contrast, (len(self),)) if is_number(contrast) else contrast,
                shape=(len(self),),
            )
        self.weight = self.segment_name(weight)

    def state(self) -> dict[str, Any]:
        strength = "features" if self.contrast.ndim == 2 else "contrast"
        return {"edges": self.variables, strength: self.contrast, "weight": self.weight}

    def distance(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """D(a, b), elementwise."""
        raise TypeError(f"{type(self).__name__} must define distance(a, b)")

    def segments(self) -> dict[str, tuple[int, ...]]:
        own = {} if self.weight is None else {self.weight: self.contrast.shape[1:]}
        return own | self.gradient_segments()

    def own_costs(self) -> np.ndarray:
        return np.ones(len(self), np.int64)

    def cost_gradient(self, found: np.ndarray, w: Weights) -> np.ndarray:
        """The derivative in `contrast` (M,), or in `features` (M, F)."""
        if self.weight is None:
            return found
        return (
            found[:, None] * w[self.weight] if self.contrast.ndim == 2 else found * w[self.weight]
        )

    def strength(self, w: Weights) -> np.ndarray:
        """s_e (M,)."""
        if self.weight is None:
            return self.contrast
        return (
            self.contrast @ w[self.weight]
            if self.contrast.ndim == 2
            else self.contrast * w[self.weight]
        )

    def with_costs(self, numbers: Any) -> Self:
        other = copy.copy(self)
        name = f"{type(self).__name__}.contrast"
        other.contrast = check_array(name, numbers, shape=self.contrast.shape)
        return other

    def energy(self, x: np.ndarray, w: Weights) -> np.ndarray:
        return self.strength(w) * self.distance(x[:, 0], x[:, 1])

    def features(self, x: np.ndarray, weight: np.ndarray | None = None) -> dict[str, np.ndarray]:
        if not self.segments():
            return {}
        d = self.distance(x[:, 0], x[:, 1]).astype(float)
        return self._features_at(d if weight is None else d * weight)

    def _features_at(self, distance: np.ndarray) -> dict[str, np.ndarray]:
        """Features where the edges have these (expected) distances (M,)."""
        own = {} if self.weight is None else {self.weight: distance @ self.contrast}
        return own | self.gradient_features(0, distance)

    def clique_features(self, x: np.ndarray) -> dict[str, np.ndarray]:
        if not self.segments():
            return {}
        d = self.distance(x[:, 0], x[:, 1]).astype(float)
        found = self.clique_gradient_features(0, d[:, None])
        if self.weight is not None:
            two = self.contrast.ndim == 2
            found[self.weight] = d[:, None] * self.contrast if two else d * self.contrast
        return found

    def expected_features(self, joint: np.ndarray) -> dict[str, np.ndarray]:
        if not self.segments():
            return {}
        rows, columns = (np.arange(n) for n in joint.shape[1:])
        table = self.distance(rows[:, None], columns).astype(float)
        return self._features_at(np.einsum("eab,ab->e", joint, table))

    def form_size(self) -> float:
        return 2.0 * self.max_states if self.of_difference else self.table_size()

    def pairwise(self, w: Weights) -> PairwiseForm:
        labels, m = np.arange(self.max_states), len(self)
        strength = np.array(self.strength(w), float)
        if self.of_difference:
            values = self.distance(labels, np.zeros_like(labels))
            return PairwiseForm.of_difference(values, strength, *self.kind())
        self.check_size(self.form_size())
        table = self.distance(labels[:, None], labels[None, :]).astype(float)
        start, stride = np.zeros(m, np.int64), np.full(m, len(labels))
        return PairwiseForm(table.ravel(), start, stride, strength, *self.kind())

    def kind(self) -> tuple[int, float]:
        """How kernels may treat the distance, and its truncation."""
        return DENSE, np.inf


class Potts(ScaledDistance):
    r"""Potts edges :math:`s_e\,[a \ne b]`; parameters as in `ScaledDistance`.

    Examples
    --------
    >>> import gmlearn as gm
    >>> crf = gm.CRF(3, 2).add_unary([[0, 1], [1, 0], [0.4, 0.6]])
    >>> _ = crf.add(gm.Potts([[0, 1], [1, 2]], weight="smooth"))
    >>> gm.solve(crf, weights={"smooth": 2.0}).labels.tolist()
    [0, 0, 0]
    """

    name = "potts"
    of_difference = True

    def distance(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a != b

    def kind(self) -> tuple[int, float]:
        return POTTS, np.inf


class Truncated(ScaledDistance):
    r"""Edges :math:`s_e \min(|a - b|^{power}, truncation)`; power 1 is truncated linear, 2
    truncated quadratic.
    """

    name = "truncated"
    of_difference = True

    def __init__(
        self,
        edges: Any,
        truncation: float = np.inf,
        power: float = 1,
        contrast: Any = None,
        weight: str | None = None,
        *,
        features: Any = None,
    ):
        super().__init__(edges, contrast, weight, features=features)
        self.truncation = check_number("Truncated.truncation", truncation, low=0)
        self.power = check_number("Truncated.power", power, low=0, strict=True)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "truncation": self.truncation, "power": self.power}

    def distance(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.minimum(np.abs(a - b).astype(float) ** self.power, self.truncation)

    def kind(self) -> tuple[int, float]:
        return (LINEAR if self.power == 1 else DENSE), float(self.truncation)


class SharedTable(Block):
    """Edges that share one learnt table: ``contrast_e * w[index(a, b)]``."""

    per_clique = ("contrast",)
    shares_form = True

    def __init__(self, edges: Any, weight: str, contrast: Any = None):
        kind = type(self).__name__
        super().__init__(_edges(kind, edges))
        self.contrast = (
            None
            if contrast is None
            else check_array(f"{kind}.contrast", contrast, shape=(len(self),))
        )
        self.weight = self.segment_name(weight)

    def index(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Which entry of the flattened weight segment the labels a, b pay."""
        raise TypeError(f"{type(self).__name__} must define index(a, b)")

    def energy(self, x: np.ndarray, w: Weights) -> np.ndarray:
        values = w[self.weight].ravel()[self.index(x[:, 0], x[:, 1])]
        return values if self.contrast is None else self.contrast * values

    def features(self, x: np.ndarray, weight: np.ndarray | None = None) -> dict[str, np.ndarray]:
        shape = self.segments()[self.weight]
        factor = (
            self.contrast
            if weight is None
            else (weight if self.contrast is None else weight * self.contrast)
        )
        return {
            self.weight: weighted_bincount(
                self.index(x[:, 0], x[:, 1]), factor, int(np.prod(shape))
            ).reshape(shape)
        }

    def clique_features(self, x: np.ndarray) -> dict[str, np.ndarray]:
        shape = self.segments()[self.weight]
        out = np.zeros((len(self), int(np.prod(shape))))
        out[np.arange(len(self)), self.index(x[:, 0], x[:, 1])] = (
            1.0 if self.contrast is None else self.contrast
        )
        return {self.weight: out.reshape(-1, *shape)}

    def features_by(self, x: np.ndarray, group: np.ndarray, n: int) -> dict[str, np.ndarray]:
        shape = self.segments()[self.weight]
        size = int(np.prod(shape))
        found = weighted_bincount(
            group * size + self.index(x[:, 0], x[:, 1]), self.contrast, n * size
        )
        return {self.weight: found.reshape(n, *shape)}

    def expected_features(self, joint: np.ndarray) -> dict[str, np.ndarray]:
        shape = self.segments()[self.weight]
        rows, columns = (np.arange(n) for n in joint.shape[1:])
        total = (
            joint.sum(axis=0) if self.contrast is None else np.tensordot(self.contrast, joint, 1)
        )
        index = self.index(rows[:, None], columns)
        return {self.weight: weighted_bincount(index, total, int(np.prod(shape))).reshape(shape)}

    def form_size(self) -> float:
        return float(self.n_labels) ** 2

    def pairwise(self, w: Weights) -> PairwiseForm:
        labels, m = np.arange(self.n_labels), len(self)
        table = w[self.weight].ravel()[self.index(labels[:, None], labels[None, :])]
        scale = np.ones(m) if self.contrast is None else self.contrast
        return PairwiseForm(table.ravel(), np.zeros(m, np.int64), np.full(m, len(labels)), scale)

    def form_features(self, used: np.ndarray) -> dict[str, np.ndarray]:
        shape, labels = self.segments()[self.weight], np.arange(self.n_labels)
        index = self.index(labels[:, None], labels[None, :])
        return {self.weight: weighted_bincount(index, used, int(np.prod(shape))).reshape(shape)}


class LearntTable(SharedTable):
    r"""Edges with one learnt table of label pairs.

    Symmetric: L(L+1)/2 weights, one for each unordered pair, in the order (0,0), (0,1), ...,
    (0,L-1), (1,1), ...; otherwise weights of shape (L, L).
    """

    name = "learnt_table"

    def __init__(
        self, edges: Any, weight: str = "pair", symmetric: bool = True, contrast: Any = None
    ):
        super().__init__(edges, weight, contrast)
        self.symmetric = check_flag("LearntTable.symmetric", symmetric)

    def segments(self) -> dict[str, tuple[int, ...]]:
        n = self.n_labels
        return {self.weight: (n * (n + 1) // 2,) if self.symmetric else (n, n)}

    def index(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        n = self.n_labels
        if not self.symmetric:
            return a * n + b
        low, high = np.minimum(a, b), np.maximum(a, b)
        return low * n - low * (low - 1) // 2 + high - low


class Difference(SharedTable):
    r"""Edges :math:`V(|a - b|)` with a learnt function V: L weights."""

    name = "difference"

    def __init__(self, edges: Any, weight: str = "V", contrast: Any = None):
        super().__init__(edges, weight, contrast)

    def segments(self) -> dict[str, tuple[int, ...]]:
        return {self.weight: (self.n_labels,)}

    def form_size(self) -> float:
        return 2.0 * self.n_labels

    def pairwise(self, w: Weights) -> PairwiseForm:
        scale = np.ones(len(self)) if self.contrast is None else self.contrast
        return PairwiseForm.of_difference(w[self.weight], scale)

    def form_features(self, used: np.ndarray) -> dict[str, np.ndarray]:
        distance = np.abs(np.arange(1 - self.n_labels, self.n_labels))
        return {self.weight: weighted_bincount(distance, used, self.n_labels)}

    def index(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.abs(a - b)
