"""The structured alternative to MLCA as an estimator: the convex surrogate of Lajugie, Bach and
Arlot (ICML 2014).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import gmlearn as gm
from gmlearn_mlca.baselines import MetricClusterer, psd_factor
from gmlearn_mlca.inputs import check_target, dataset_pairs
from gmlearn_mlca.losses import PartitionLoss
from gmlearn_mlca.potentials import KMeansEnergy
from gmlearn_mlca.slaves import SpectralDecomposition
from gmlearn_mlca.spectral import project_psd


class SpectralMetric(MetricClusterer):
    """min_M lam ||M||^2 + sum_i max_Chat [ ||Chat - C_i||^2 + <Chat - C_i, X_i M X_i'> ] over PSD
    M.

    ``gm.train`` with its default optimiser on models of one `KMeansEnergy`, with the loss
    `PartitionLoss`, the spectral slave and the cone of PSD matrices as the feasible set. Every
    dataset is reduced to a basis of d + k vectors once, so a round costs O((d + k)^3) for each,
    whatever its length. Unlike MLCA it needs no link between the clusters of different datasets.
    Each dataset is centred by itself, and all are scaled by one number so that `regularisation`
    has no unit.

    Parameters
    ----------
    regularisation : lam.   n_rounds : passes of the training at most.
    """

    def __init__(
        self, regularisation: float = 1e-3, n_rounds: int = 150, random_state: Any = None
    ) -> None:
        self.regularisation = regularisation
        self.n_rounds = n_rounds
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> SpectralMetric:
        """Learn from one dataset X (n, d), y (n,), or from lists of them."""
        gm.check_number("regularisation", self.regularisation, low=0.0, high=1e100)
        gm.check_number("n_rounds", self.n_rounds, low=1, integer=True)
        datasets, classes = [], []
        for i, (Xi, yi) in enumerate(dataset_pairs(X, y)):
            Xi = gm.validate_data(self, Xi, reset=i == 0, dtype=[np.float64, np.float32])
            names, codes = np.unique(check_target(yi, len(Xi)), return_inverse=True)
            if len(names) < 2:
                raise ValueError(
                    f"y: expected at least two classes in every dataset, got {len(names)} class"
                )
            datasets.append((Xi, codes))
            classes.append(names)
        self.classes_ = np.unique(np.concatenate(classes))
        self.n_clusters_ = max(len(names) for names in classes)
        self.components_ = self._minimise(datasets).T
        return self

    def _learn(self, X: np.ndarray, codes: np.ndarray) -> np.ndarray:
        return self._minimise([(X, codes)])

    def _minimise(self, datasets: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        centred = [X - X.mean(axis=0, dtype=np.float64) for X, _ in datasets]
        d = centred[0].shape[1]
        scale = np.sqrt(np.mean([np.sum(X**2) for X in centred]) / d)
        samples = []
        for X, (_, codes) in zip(centred, datasets):
            crf = gm.CRF(len(X), int(codes.max()) + 1)
            crf.add(KMeansEnergy([np.arange(len(X))], X / (scale if scale > 0 else 1.0)))
            samples.append(gm.Sample(crf, codes))
        found = gm.train(
            samples,
            loss=PartitionLoss(),
            decomposition=SpectralDecomposition(),
            regularizer=gm.L2(2.0 * self.regularisation),
            constraints={"metric": gm.Projection(project_psd)},
            weights={"metric": np.eye(d)},
            max_iter=self.n_rounds,
            show_progress=False,
        )
        self.history_ = np.array(found.history.evaluated())
        return psd_factor(found.weights["metric"])
