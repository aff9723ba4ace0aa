"""Losses on single labels: Hamming, weighted Hamming, truncated label distance."""

from __future__ import annotations

from typing import Any

import numpy as np

from gmlearn._utils.validation import check_array, check_number
from gmlearn.losses.base import Loss
from gmlearn.model.crf import CRF


class LabelLoss(Loss):
    """Delta = sum over observed variables of delta_v(x_v); a subclass writes `costs`."""

    def costs(self, crf: CRF, truth: np.ndarray) -> np.ndarray:
        """delta_v(l) for every coordinate, (n_coords,)."""
        raise TypeError(f"{type(self).__name__} must define costs(crf, truth)")

    def outside(self, possible: np.ndarray) -> Loss:
        return OutsideAllowed(self, possible)

    def _masked(self, crf: CRF, truth: np.ndarray, observed: np.ndarray) -> np.ndarray:
        return np.where(np.repeat(observed, crf.n_states), self.costs(crf, truth), 0.0)

    def unary(self, crf: CRF, truth: np.ndarray, observed: np.ndarray) -> np.ndarray:
        return -self._masked(crf, truth, observed)

    def value(self, crf: CRF, x: np.ndarray, truth: np.ndarray, observed: np.ndarray) -> float:
        return float(self._masked(crf, truth, observed)[crf.offsets[:-1] + x].sum())


def _labels(crf: CRF) -> np.ndarray:
    return np.arange(crf.n_coords) - np.repeat(crf.offsets[:-1], crf.n_states)


class Hamming(LabelLoss):
    """The number of wrong labels; times `scale`, and per variable with `weights` (V,).

    Parameters
    ----------
    scale : loss of one wrong label.
    weights : float (V,) >= 0, one factor for each variable; None for 1.
    """

    name = "hamming"

    def __init__(self, scale: float = 1.0, weights: Any = None):
        self.scale = check_number("scale", scale, low=0)
        self.weights = None if weights is None else check_array("weights", weights, ndim=1)
        if self.weights is not None and self.weights.size and self.weights.min() < 0:
            raise ValueError(f"weights: expected numbers >= 0, got {self.weights.min():g}")

    def costs(self, crf: CRF, truth: np.ndarray) -> np.ndarray:
        wrong = _labels(crf) != np.repeat(truth, crf.n_states)
        if self.weights is None:
            return self.scale * wrong
        if len(self.weights) != crf.n_vars:
            raise ValueError(
                f"weights: expected one for each of the {crf.n_vars} variables, got "
                f"{len(self.weights)}"
            )
        return self.scale * wrong * np.repeat(self.weights, crf.n_states)

    def joined_unary(self, crf: CRF, truth: np.ndarray) -> np.ndarray | None:
        # a subclass may look at the whole of its model
        alone = type(self) is not Hamming or self.weights is not None
        return None if alone else -self.costs(crf, truth)


class WeightedHamming(Hamming):
    """Hamming loss with a factor for each true label, to balance rare classes: delta_v(l) =
    weight[truth_v] [l != truth_v].
    """

    name = "weighted-hamming"

    def __init__(self, label_weights: Any):
        super().__init__()
        self.label_weights = check_array("label_weights", label_weights, ndim=1)
        if self.label_weights.size and self.label_weights.min() < 0:
            raise ValueError(
                f"label_weights: expected numbers >= 0, got {self.label_weights.min():g}"
            )

    def costs(self, crf: CRF, truth: np.ndarray) -> np.ndarray:
        if crf.n_vars and int(truth.max()) >= len(self.label_weights):
            raise ValueError(
                f"label_weights: {len(self.label_weights)} weights, but the truth has label "
                f"{int(truth.max())}"
            )
        return super().costs(crf, truth) * np.repeat(self.label_weights[truth], crf.n_states)


class OutsideAllowed(LabelLoss):
    """Another loss on single labels, where the truth is one of several: the least over them.

    Parameters
    ----------
    loss : the other one.   possible : bool (n_coords,), the labels that may be true.
    """

    name = "outside-allowed"

    def __init__(self, loss: LabelLoss, possible: np.ndarray):
        self.loss, self.possible = loss, possible

    def costs(self, crf: CRF, truth: np.ndarray) -> np.ndarray:
        least = np.full(crf.n_coords, np.inf)
        for label in range(int(crf.n_states.max(initial=0))):
            own = np.minimum(label, crf.n_states - 1)
            known = self.possible[crf.offsets[:-1] + own]
            found = self.loss.costs(crf, np.where(known, own, truth))
            least = np.where(np.repeat(known, crf.n_states), np.minimum(least, found), least)
        return np.where(self.possible, 0.0, least)

    def _masked(self, crf: CRF, truth: np.ndarray, observed: np.ndarray) -> np.ndarray:
        return self.costs(crf, truth)


class LabelDistance(LabelLoss):
    """Delta = sum_v min(|x_v - truth_v|, truncation) / scale: wrong labels near the truth cost
    less.
    """

    name = "label-distance"

    def __init__(self, truncation: float = np.inf, scale: float = 1.0, tolerance: float = 0.0):
        self.truncation = check_number("truncation", truncation, low=0)
        self.scale = check_number("scale", scale, low=0, strict=True)
        self.tolerance = check_number("tolerance", tolerance, low=0)

    def costs(self, crf: CRF, truth: np.ndarray) -> np.ndarray:
        distance = np.abs(_labels(crf) - np.repeat(truth, crf.n_states)).astype(float)
        return np.minimum(np.maximum(distance - self.tolerance, 0.0), self.truncation) / self.scale
