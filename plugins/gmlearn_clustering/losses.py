"""The clustering loss Delta(x; C) of Komodakis (2011)."""

from __future__ import annotations

import numpy as np

import gmlearn as gm
from gmlearn_clustering.potentials import ExemplarCountBlock, small_models


def clustering_loss(
    assignment: np.ndarray, cluster: np.ndarray, alpha: float = 1.0, beta: float = 1.0
) -> float:
    """alpha sum_C |1 - number of exemplars in C| + beta * number of points assigned to an exemplar
    outside their cluster.

    Zero exactly for the x that are consistent with the partition.

    Parameters
    ----------
    assignment : (N,) the exemplar of every point; exemplars are the points assigned to themselves.
    cluster : (N,) true clusters 0..K-1.
    """
    is_exemplar = assignment == np.arange(len(assignment))
    exemplars = np.bincount(cluster[is_exemplar], minlength=int(cluster.max()) + 1)
    wrong = cluster[assignment] != cluster
    return float(alpha * np.abs(1 - exemplars).sum() + beta * wrong.sum())


class ClusteringLoss(gm.Loss):
    """The same for models with an `ExemplarBlock`; the true labels are any assignment that is
    consistent with the partition.
    """

    name = "clustering"

    def __init__(self, alpha: float = 1.0, beta: float = 1.0):
        self.alpha = float(gm.check_number("alpha", alpha, low=0.0))
        self.beta = float(gm.check_number("beta", beta, low=0.0))

    def value(self, crf: gm.CRF, x: np.ndarray, truth: np.ndarray, observed: np.ndarray) -> float:
        return clustering_loss(x, _clusters(truth, observed), self.alpha, self.beta)

    def unary(self, crf: gm.CRF, truth: np.ndarray, observed: np.ndarray) -> np.ndarray:
        cluster = _clusters(truth, observed)
        return (self.beta * (cluster[:, None] == cluster[None, :])).ravel()

    def blocks(self, crf: gm.CRF, truth: np.ndarray, observed: np.ndarray) -> list[gm.Block]:
        cluster = _clusters(truth, observed)
        return [
            ExemplarCountBlock(
                [np.flatnonzero(cluster == c) for c in range(cluster.max() + 1)], self.alpha
            )
        ]

    def constant(self, crf: gm.CRF, truth: np.ndarray, observed: np.ndarray) -> float:
        return -self.beta * crf.n_vars

    @classmethod
    def examples(cls, rng: np.random.Generator) -> list[tuple[gm.Loss, gm.CRF, np.ndarray]]:
        """Two clusters, one cluster, and singletons."""
        truths = np.array([[2, 3, 2, 3], [1, 1, 1, 1], [0, 1, 2, 3]])
        return [
            (cls(*rng.random(2)), crf, truth) for (crf, _), truth in zip(small_models(rng), truths)
        ]


def _clusters(truth: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """The true cluster of every point, numbered 0..K-1."""
    if not np.all(observed):
        raise ValueError(
            "loss 'clustering': the cluster of every point must be known, "
            f"got {int(np.sum(~observed))} hidden ones"
        )
    if np.any(truth[truth] != truth):
        point = int(np.flatnonzero(truth[truth] != truth)[0])
        raise ValueError(
            f"loss 'clustering': the true labels must assign every point to an exemplar, but "
            f"point {point} "
            f"is assigned to {int(truth[point])}, which is assigned to {int(truth[truth[point]])}"
        )
    return np.unique(truth, return_inverse=True)[1]
