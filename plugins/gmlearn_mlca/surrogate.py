"""The structured alternative to MLCA as an estimator: the convex surrogate of Lajugie, Bach and Arlot (ICML 2014)."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

import gmlearn as gm
from gmlearn_mlca.baselines import MetricClusterer, psd_factor
from gmlearn_mlca.closed_form import partition_factor
from gmlearn_mlca.inputs import check_target, dataset_pairs
from gmlearn_mlca.spectral import ReducedDataset, minimise_surrogate
from gmlearn_mlca.statistics import PartitionStatistics


class SpectralMetric(MetricClusterer):
    """min_M lam ||M||^2 + sum_i max_Chat [ ||Chat - C_i||^2 + <Chat - C_i, X_i M X_i'> ] over PSD M.

    Projected subgradient with the spectral oracle. Every dataset is reduced to a basis of d + k vectors once, so a round
    costs O((d + k)^3) for each, whatever its length. Unlike MLCA it needs no link between the clusters of different datasets.
    Each dataset is centred by itself, and all are scaled by one number so that `regularisation` and `step` have no unit.

    Parameters
    ----------
    regularisation : lam.   n_rounds, step : of `gmlearn_mlca.spectral.minimise_surrogate`.
    """

    def __init__(
        self,
        regularisation: float = 1e-3,
        n_rounds: int = 300,
        step: float = 3.0,
        random_state: Any = None,
    ) -> None:
        self.regularisation = regularisation
        self.n_rounds = n_rounds
        self.step = step
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> SpectralMetric:
        """Learn from one dataset X (n, d), y (n,), or from lists of them."""
        gm.check_number("regularisation", self.regularisation, low=0.0)
        gm.check_number("n_rounds", self.n_rounds, low=1, integer=True)
        gm.check_number("step", self.step, low=0.0, strict=True)
        datasets, classes = [], []
        for i, (Xi, yi) in enumerate(dataset_pairs(X, y)):
            Xi = validate_data(self, Xi, reset=i == 0, dtype=[np.float64, np.float32])
            yi = check_target(yi, len(Xi))
            classes.append(np.unique(yi))
            if len(classes[-1]) < 2:
                raise ValueError(
                    f"y: expected at least two classes in every dataset, got {len(classes[-1])} class"
                )
            datasets.append(
                PartitionStatistics(Xi.shape[1], len(classes[-1])).add(Xi, yi, classes[-1])
            )
        self.classes_ = np.unique(np.concatenate(classes))
        self.components_ = self._minimise(datasets).T
        return self

    def _learn(self, X: np.ndarray, codes: np.ndarray) -> np.ndarray:
        classes = np.unique(codes)
        return self._minimise(
            [PartitionStatistics(X.shape[1], len(classes)).add(X, codes, classes)]
        )

    def _minimise(self, datasets: list[PartitionStatistics]) -> np.ndarray:
        scale = np.sqrt(
            np.mean([np.trace(s.regression(centred=True)[0]) for s in datasets])
            / datasets[0].n_features
        )
        reduced = [_reduce(s, scale if scale > 0 else 1.0) for s in datasets]
        M, self.history_ = minimise_surrogate(
            reduced, self.regularisation, self.n_rounds, self.step
        )
        return psd_factor(M)


def _reduce(statistics: PartitionStatistics, scale: float) -> ReducedDataset:
    gram, cross = statistics.regression(centred=True)
    factor = partition_factor(statistics.overlaps, "multivariate")
    return ReducedDataset.from_moments(
        gram / scale**2,
        cross @ factor / scale,
        factor.T @ statistics.overlaps @ factor,
        statistics.n_samples,
        statistics.n_classes,
    )
