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

    Zero exactly for the x that are consistent with the partition. Points of unknown cluster count
    nowhere, and are in no C.

    Parameters
    ----------
    assignment : (N,) the exemplar of every point; exemplars are the points assigned to themselves.
    cluster : (N,) true clusters 0..K-1, -1 where not known.
    """
    known = cluster >= 0
    is_exemplar = (assignment == np.arange(len(assignment))) & known
    exemplars = np.bincount(cluster[is_exemplar], minlength=int(cluster.max()) + 1)
    wrong = (cluster[assignment] != cluster) & known
    return float(alpha * np.abs(1 - exemplars).sum() + beta * wrong.sum())


class ClusteringLoss(gm.Loss):
    """The same for models with an `ExemplarBlock`; the true labels are any assignment that is
    consistent with the partition.

    unknown : bool (N,), points of one sample whose cluster is not known; None for none. (They are
        not hidden variables: the exemplars of the known points are latent as well.)
    """

    name = "clustering"

    def __init__(self, alpha: float = 1.0, beta: float = 1.0, unknown: np.ndarray | None = None):
        self.unknown = unknown
        self.alpha = float(gm.check_number("alpha", alpha, low=0.0, high=1e100))
        self.beta = float(gm.check_number("beta", beta, low=0.0, high=1e100))

    def value(self, crf: gm.CRF, x: np.ndarray, truth: np.ndarray, observed: np.ndarray) -> float:
        return clustering_loss(x, self._clusters(truth, observed), self.alpha, self.beta)

    def unary(self, crf: gm.CRF, truth: np.ndarray, observed: np.ndarray) -> np.ndarray:
        cluster = self._clusters(truth, observed)
        same = (cluster[:, None] == cluster[None, :]) & (cluster >= 0)
        return (self.beta * same).ravel()

    def blocks(self, crf: gm.CRF, truth: np.ndarray, observed: np.ndarray) -> list[gm.Block]:
        cluster = self._clusters(truth, observed)
        return [
            ExemplarCountBlock(
                [np.flatnonzero(cluster == c) for c in range(cluster.max() + 1)], self.alpha
            )
        ]

    def constant(self, crf: gm.CRF, truth: np.ndarray, observed: np.ndarray) -> float:
        return -self.beta * int((self._clusters(truth, observed) >= 0).sum())

    def _clusters(self, truth: np.ndarray, observed: np.ndarray) -> np.ndarray:
        """The true cluster of every point, numbered 0..K-1; -1 where not known."""
        cluster = _clusters(truth, observed)
        if self.unknown is None:
            return cluster
        known = ~self.unknown
        numbers = np.full(len(cluster), -1)
        numbers[known] = np.unique(cluster[known], return_inverse=True)[1]
        return numbers

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
