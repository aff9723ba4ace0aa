"""Stereo with a learnt gradient-modulated Potts term and a learnt data weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

import gmlearn as gm
from gmlearn_vision.consistency import check_and_fill
from gmlearn_vision.estimators import ImageEstimator
from gmlearn_vision.grids import contrast_bins, edge_gradients, edge_lengths, grid_crf
from gmlearn_vision.matching_costs import absolute_differences, birchfield_tomasi


class ToleranceLoss(gm.Loss):
    r"""Delta = number of known pixels with :math:`|x_p - d_p| > tolerance`; unknown ones (NaN) cost
    nothing.

    Parameters
    ----------
    disparity : float (V,), the true disparities in pixels.   tolerance : in pixels.
    """

    name = "disparity-tolerance"

    def __init__(self, disparity: Any, tolerance: float = 1.0):
        self.disparity = gm.check_array("disparity", disparity, ndim=1, allow_nan=True)
        self.tolerance = gm.check_number("tolerance", tolerance, low=0)

    def wrong(self, labels: int) -> np.ndarray:
        """bool (V, labels): labels that count as an error.

        Where no label is near enough, the nearest one is right.
        """
        with np.errstate(invalid="ignore"):
            distance = np.abs(np.arange(labels) - self.disparity[:, None])
            nearest = np.nanmin(
                np.where(np.isnan(distance), np.inf, distance), axis=1, keepdims=True
            )
            return distance > np.maximum(self.tolerance, nearest)

    def unary(self, crf: gm.CRF, truth: np.ndarray, observed: np.ndarray) -> np.ndarray:
        return -(self.wrong(int(crf.n_states[0])) & observed[:, None]).astype(float).ravel()

    def value(self, crf: gm.CRF, x: np.ndarray, truth: np.ndarray, observed: np.ndarray) -> float:
        return -float(self.unary(crf, truth, observed)[crf.offsets[:-1] + x].sum())


class StereoMatcher(ImageEstimator):
    r"""Disparities by the energy :math:`\sum_p a\,C_p(x_p) + \sum_{pq} f(|\nabla I|)\,[x_p \ne
    x_q]`, with a and f learnt.

    C are truncated matching costs in units of the truncation; f is a step function of the contrast
    of the edge, one weight >= 0 for each bin. Trained by maximum margin with the loss [error >
    tolerance]. What a pair should come out as is not one labelling but any within the tolerance of
    the truth: the cheapest of those is the target, found again as the weights improve (a latent
    completion), and unknown pixels are free.

    Parameters
    ----------
    disparities : number of labels, 0..disparities-1.
    cost : "birchfield-tomasi" or "absolute"; `truncation` : in grey levels.
    thresholds : float (B - 1,), borders of the contrast bins in grey levels; () learns a constant.
    tolerance : of the loss, in pixels.
    connectivity : 4 or 8; f is divided by the length of diagonal edges.
    regularization : mu of mu/2 |w|^2, against the loss for each pixel.
    initial : (data weight, weight of all bins) at the start.   step : how far a weight may move in
        the first pass.
    max_iter, completion_every : passes; how many between two completions.
    solver, solver_iter : MAP solver and its rounds.
    n_jobs : threads over pairs.   random_state : of the training: int, `RandomState` or None.

    Attributes
    ----------
    data_weight_ : a.   contrast_weights_ : float (B,), f.   model_ : `gmlearn.TrainedModel`.
    """

    def __init__(
        self,
        disparities: int = 20,
        *,
        cost: str = "birchfield-tomasi",
        truncation: float = 20.0,
        thresholds: Sequence[float] = (2.0, 4.0, 7.0, 12.0, 20.0),
        tolerance: float = 1.0,
        connectivity: int = 4,
        regularization: float = 1e-4,
        initial: tuple[float, float] = (10.0, 3.0),
        step: float = 1.0,
        max_iter: int = 30,
        completion_every: int = 10,
        solver: str = "trws",
        solver_iter: int = 30,
        n_jobs: int = 1,
        random_state: Any = 0,
    ) -> None:
        self.disparities = disparities
        self.cost = cost
        self.truncation = truncation
        self.thresholds = thresholds
        self.tolerance = tolerance
        self.connectivity = connectivity
        self.regularization = regularization
        self.initial = initial
        self.step = step
        self.max_iter = max_iter
        self.completion_every = completion_every
        self.solver = solver
        self.solver_iter = solver_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ------------------------------------------------------------------ training

    def fit(self, X: Any, y: Any = None, *, callbacks: Sequence[Any] = ()) -> StereoMatcher:
        """Learn the data weight and f.

        Parameters
        ----------
        X : list of (left, right), images (H, W) or (H, W, C).
        y : list of float (H, W), true disparities of the left pixels in pixels, NaN where unknown.
        callbacks : for `gmlearn.train`, called with (passes, weights, history).
        """
        self._check_parameters()
        if y is None:
            raise ValueError("y: expected the true disparities, got None; StereoMatcher requires y")
        pairs, truths = list(X), list(y)
        if not pairs or len(pairs) != len(truths):
            raise ValueError(
                f"y: expected one map for each of the {len(pairs)} pairs (at least "
                f"one), got {len(truths)}"
            )
        n_known = sum(int(np.isfinite(t).sum()) for t in truths)
        if n_known == 0:
            raise ValueError("y: no pixel is known (all NaN)")
        samples = [
            self._sample(i, pair, truth, n_known)
            for i, (pair, truth) in enumerate(zip(pairs, truths))
        ]
        self.model_ = gm.train(
            samples,
            regularizer=gm.L2(self.regularization),
            constraints=gm.NonNegative(),
            weights=self._start(),
            max_iter=self.max_iter,
            completion_every=self.completion_every,
            n_jobs=self.n_jobs,
            seed=self._seed(),
            callbacks=callbacks,
            step=self.step,
        )
        return self.set_weights(self.model_.weights)

    def set_weights(self, weights: Any) -> StereoMatcher:
        """Use the given weights, "data" (1,) and "contrast" (B,), for example those that a
        callback saw.
        """
        self._check_parameters()
        self.data_weight_ = float(gm.check_array("weights['data']", weights["data"], shape=(1,))[0])
        bins = (len(self.thresholds) + 1,)
        self.contrast_weights_ = gm.check_array(
            "weights['contrast']", weights["contrast"], shape=bins
        ).copy()
        return self

    def _start(self) -> dict[str, np.ndarray]:
        data, contrast = self.initial
        return {
            "data": np.full(1, float(data)),
            "contrast": np.full(len(self.thresholds) + 1, float(contrast)),
        }

    def _check_parameters(self) -> None:
        gm.check_number("disparities", self.disparities, low=2, integer=True)
        gm.check_choice("cost", self.cost, ("birchfield-tomasi", "absolute"))
        gm.check_number("truncation", self.truncation, low=0, high=np.inf, strict=True)
        gm.check_choice("connectivity", self.connectivity, (4, 8))  # type: ignore[arg-type]
        gm.check_array("initial", self.initial, shape=(2,))
        contrast_bins([], self.thresholds)

    def _sample(self, i: int, pair: Any, truth: Any, n_known: int) -> gm.Sample:
        left, right = pair
        truth = gm.check_array(f"y[{i}]", truth, shape=np.shape(left)[:2], allow_nan=True).ravel()
        loss = ToleranceLoss(truth, self.tolerance)
        forbidden = np.where(loss.wrong(self.disparities), np.inf, 0.0)

        def cheapest_within_tolerance(sample: gm.Sample, weights: Any) -> np.ndarray:
            return self._solve(sample.crf.copy().add_unary(forbidden), weights).labels

        start = np.clip(np.rint(np.nan_to_num(truth)), 0, self.disparities - 1).astype(np.int64)
        return gm.Sample(
            self.crf(left, right),
            start,
            weight=1.0 / n_known,
            loss=loss,
            completion=cheapest_within_tolerance,
        )

    # ------------------------------------------------------------------ the model of one pair

    def crf(self, left: Any, right: Any) -> gm.CRF:
        """The model of a pair, with the weight segments "data" (1,) and "contrast" (B,)."""
        matching = birchfield_tomasi if self.cost == "birchfield-tomasi" else absolute_differences
        costs = matching(left, right, self.disparities, self.truncation) / self.truncation
        crf, edges = grid_crf(np.zeros_like(costs), self.connectivity)
        crf.add(gm.Unary(costs.reshape(-1, self.disparities, 1), weight="data"))
        bins = contrast_bins(edge_gradients(left, edges), self.thresholds)
        if self.connectivity == 8:
            bins /= edge_lengths(edges, costs.shape[1])[:, None]
        crf.add(gm.Potts(edges, features=bins, weight="contrast"))
        return crf

    def _solve(self, crf: gm.CRF, weights: Any) -> gm.Result:
        return gm.solve(crf, weights, solver=self.solver, max_iter=self.solver_iter)

    # ------------------------------------------------------------------ use

    def predict(self, left: Any, right: Any, check: bool = False) -> np.ndarray:
        """Disparities (H, W) of the left pixels, in whole pixels.

        With `check`, the right map is computed as well, and pixels that it contradicts are filled
        from their row.
        """
        check_is_fitted(self, "contrast_weights_")
        found = self._disparity(left, right)
        return check_and_fill(found, self.predict_right(left, right)) if check else found

    def predict_right(self, left: Any, right: Any) -> np.ndarray:
        """Disparities (H, W) of the right pixels: the same model on the mirrored pair."""
        check_is_fitted(self, "contrast_weights_")
        return self._disparity(np.asarray(right)[:, ::-1], np.asarray(left)[:, ::-1])[:, ::-1]

    def _disparity(self, left: Any, right: Any) -> np.ndarray:
        weights = {"data": np.array([self.data_weight_]), "contrast": self.contrast_weights_}
        return (
            self._solve(self.crf(left, right), weights)
            .labels.reshape(np.shape(left)[:2])
            .astype(float)
        )

    def plot_contrast(self, ax: Any = None) -> Any:
        """The learnt f against the contrast, relative to the data weight."""
        check_is_fitted(self, "contrast_weights_")
        ax = gm.plot.axes(ax, xlabel="contrast of the edge (grey levels)", ylabel="f / data weight")
        borders = np.concatenate(
            [[0.0], self.thresholds, [1.5 * max(self.thresholds, default=1.0)]]
        )
        ax.stairs(self.contrast_weights_ / max(self.data_weight_, 1e-12), borders)
        return ax
