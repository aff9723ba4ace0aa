"""Adapting a learnt distance to a new set that was taken under other conditions than the training
sets.

Supervised distances tell classes apart by what did so in training, and part of that is lost under
other conditions. The clusters found with them are mostly right all the same, and the views of the
new set show how to tell these clusters apart under its own conditions. So the clusters are
predicted from the views by ridge regression, every point by the fit without it: a point that looks
like those of another cluster comes nearer to them. Half of the adapted distance is the learnt one,
half that of the predictions.

This is of use where training transfers badly. Where it transfers well the labels of training are
better than the clusters found: leave it out there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gmlearn_clustering.distances import pair_means
from gmlearn_clustering.fitted_distances import location
from gmlearn_clustering.metrics import squared_euclidean

_ROUNDS = 3
_SHRINKAGE = 0.1


def adapted_clustering(
    distances: np.ndarray, views: list[np.ndarray], cluster: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Labels (N,) of a set that is clustered again and again, each time with the distance adapted
    to the clusters found before.

    distances : (N, N) learnt distances. views : arrays (N, D_v) of the same points. cluster :
    distances (N, N) -> labels (N,). O(N^3 + N^2 D) beside the clusterings.
    """
    labels, hat = cluster(distances), ridge_hat(views)
    for _ in range(_ROUNDS):
        labels = cluster(adapted_distances(distances, hat, labels))
    return labels


def adapted_distances(distances: np.ndarray, hat: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The mean of given distances and squared distances of predicted clusters, both at the level
    of the given ones, (N, N).
    """
    if labels.max() == 0:  # one cluster: nothing to tell apart
        return distances
    predicted = left_out_predictions(hat, labels)
    between = squared_euclidean(predicted, predicted)
    np.fill_diagonal(between, 0.0)
    level, own = pair_means([np.stack([distances, between])])
    return 0.5 * distances + 0.5 * level / own * between


def ridge_hat(views: list[np.ndarray]) -> np.ndarray:
    """The matrix (N, N) that takes values of the points to their ridge regression on all views
    side by side, with intercept.
    """
    X = np.hstack([(view - mean) / scale for view, mean, scale in zip(views, *location(views))])
    n, d = X.shape
    gram = X @ X.T
    ridge = (
        _SHRINKAGE / (1.0 - _SHRINKAGE) * max(float(np.trace(gram)) / max(min(n - 1, d), 1), 1e-300)
    )
    return np.linalg.solve(gram + ridge * np.eye(n), gram) + 1.0 / n


def left_out_predictions(hat: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Cluster indicators (N, K), clusters of equal length, as the regression without the point
    itself predicts them.
    """
    member = np.eye(int(labels.max()) + 1)[labels]
    values = member / np.sqrt(np.maximum(member.sum(axis=0), 1.0))
    own = np.diagonal(hat)[:, None]
    return (hat @ values - own * values) / np.maximum(1.0 - own, 1e-12)
