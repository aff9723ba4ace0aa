"""How many clusters on the graph distance: a fee per exemplar, calibrated on training partitions.

Graph distances lie in [0, 1] whatever the features, so that one fee serves sets of other sizes:
d_qq = fee N^(1/4). It is the one whose clusterings agree best with the classes on the training sets
and on sets drawn from them:

- some of the classes with some of their points, so that numbers and sizes of clusters vary;
- half of the classes with weights learnt from the other half, where distances were not fitted to
  the classes that are clustered: as in new sets, clusters are less compact than in training. They
  count twice where they have at least four classes; two or three say little about numbers.

The score of a fee is the mean over these sets of pair-F plus matching accuracy minus
2 |log(k found / k)|, averaged over log-normal deviations of the fee.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gmlearn_clustering.calibration import PathPoint, clustering_path, smoothed_argmax
from gmlearn_clustering.distances import SampleDistances
from gmlearn_clustering.scores import accuracy, pair_f

#: how the penalty grows with the number of points; between 0 (best for other numbers of classes
#: than in training) and 1/2 (best for the same)
_EXPONENT = 0.25
#: weight of the number of clusters in the score
_NUMBER = 2.0
#: classes of a left-out set that counts twice
_ENOUGH = 4
#: sets of either kind that are drawn from a training set, and their points at most
_N_DRAWN, _MOST_POINTS = 4, 600

Distances = Callable[[SampleDistances, np.ndarray], np.ndarray]
Weights = Callable[[Sequence[SampleDistances], Sequence[np.ndarray]], np.ndarray]


def penalty_of(fee: float, n_points: int) -> float:
    """d_qq of a set of N points."""
    return fee * n_points**_EXPONENT


def calibrated_fee(
    samples: Sequence[SampleDistances],
    partitions: Sequence[np.ndarray],
    weights: np.ndarray,
    distances: Distances,
    refit: Weights | None = None,
    seed: int = 0,
) -> float:
    """The fee for new sets.

    Parameters
    ----------
    samples, partitions : training sets and their clusters, -1 where not known.
    weights : (F,) learnt weights.
    distances : (sample, weights) -> the matrix (N, N) that is clustered.
    refit : learns weights anew where classes are left out; None: the given ones are kept.
    """
    random = np.random.default_rng(seed)
    paths: list[list[PathPoint]] = []
    truths: list[np.ndarray] = []
    for sample, cluster in zip(samples, partitions):
        known = np.flatnonzero(cluster >= 0)
        drawn = [(known, weights)]
        drawn += [(points, weights) for points in _class_bootstraps(cluster, random)]
        drawn += _left_out_classes(sample, cluster, weights, refit, random)
        for i, (points, w) in enumerate(drawn):
            path = clustering_path(distances(sample.take(points), w), seed=seed)
            truth = cluster[points]
            left_out = i > _N_DRAWN
            n_times = 2 if left_out and len(np.unique(truth)) >= _ENOUGH else 1
            paths += [path] * n_times
            truths += [truth] * n_times
    return _best_fee(paths, truths)


def _best_fee(paths: Sequence[Sequence[PathPoint]], truths: Sequence[np.ndarray]) -> float:
    fees = np.geomspace(0.005, 5.0, 120)
    total = np.zeros(len(fees))
    for path, truth in zip(paths, truths):
        number = np.array([point.n_clusters for point in path])
        cost = np.array([point.mean_distance for point in path]) * (len(truth) - number)
        ratio = np.log(number / len(np.unique(truth)))
        agreement = [accuracy(truth, p.labels) + pair_f(truth, p.labels) for p in path]
        quality = np.array(agreement) - _NUMBER * np.abs(ratio)
        penalties = np.array([penalty_of(fee, len(truth)) for fee in fees])
        total += quality[np.argmin(cost + penalties[:, None] * number, axis=1)]
    return smoothed_argmax(fees, total / len(paths))


def _class_bootstraps(cluster: np.ndarray, random: np.random.Generator) -> Iterator[np.ndarray]:
    """Points of 50 to 100 % of the classes, 40 to 100 % of each."""
    classes = np.unique(cluster[cluster >= 0])
    for _ in range(_N_DRAWN):
        n_classes = max(2, round(len(classes) * random.uniform(0.5, 1.0)))
        share = random.uniform(0.4, 1.0)
        yield _some_points(cluster, random.permutation(classes)[:n_classes], share, random)


def _left_out_classes(
    sample: SampleDistances,
    cluster: np.ndarray,
    weights: np.ndarray,
    refit: Weights | None,
    random: np.random.Generator,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Points of half of the classes, and weights learnt from the other half if it has two."""
    classes = np.unique(cluster[cluster >= 0])
    for _ in range(_N_DRAWN):
        order = random.permutation(classes)
        n_out = max(2, len(classes) // 2)
        out, rest = order[:n_out], order[n_out:]
        w = weights
        if refit is not None and len(rest) >= 2:
            points = np.flatnonzero(np.isin(cluster, rest))
            numbers = np.unique(cluster[points], return_inverse=True)[1]
            w = refit([sample.take(points)], [numbers])
        yield _some_points(cluster, out, 1.0, random), w


def _some_points(
    cluster: np.ndarray, classes: np.ndarray, share: float, random: np.random.Generator
) -> np.ndarray:
    """A share of the points of every class, at least two, at most `_MOST_POINTS` of all."""
    members = [random.permutation(np.flatnonzero(cluster == c)) for c in classes]
    share = min(share, _MOST_POINTS / sum(len(m) for m in members))
    return np.concatenate([m[: max(2, round(share * len(m)))] for m in members])
