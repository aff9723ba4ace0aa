"""How many clusters: a penalty rule that is calibrated on training partitions and transfers to sets
of other sizes.

The penalty at which a true cluster of n points neither splits nor merges grows with n: splitting
saves a share of n distances. A fixed d_qq therefore fails on sets whose clusters are much smaller
or larger than in training. Instead a new set is clustered at many penalties and the solution that
minimises

    (sum of distances to exemplars) / (N - k) + rate * level * (log(k) + 4 k / N),     k = number of
    exemplars,

is taken; `level` is the mean distance at the fewest clusters, so that distances which are larger or
smaller throughout than in training change nothing. The penalty is about rate * level * N / k and
scales with the size of the clusters by itself; `rate` is a property of the distance alone and is
chosen to give the best clusterings of the training partitions. The second term counters the drop of
the mean distance when every outlier becomes an exemplar (k near N / 2).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gmlearn_clustering.energy import assign, with_penalty
from gmlearn_clustering.facility import facility_problem
from gmlearn_clustering.local_search import local_search
from gmlearn_clustering.scores import accuracy, pair_f

#: by how much the logarithm of the best rate is taken to vary from set to set (standard deviation)
_SPREAD = 0.3


@dataclass(frozen=True)
class PathPoint:
    """The clustering found at one penalty."""

    penalty: float
    exemplars: np.ndarray
    labels: np.ndarray
    mean_distance: float

    def cost(self, price: float) -> float:
        """What the rule minimises; price = rate * level."""
        k = self.n_clusters
        return self.mean_distance + price * (np.log(k) + 4.0 * k / len(self.labels))

    @property
    def n_clusters(self) -> int:
        return len(self.exemplars)


def clustering_path(
    distances: np.ndarray,
    rate: float | None = None,
    n_penalties: int = 61,
    n_kicks: int = 30,
    seed: int = 0,
) -> list[PathPoint]:
    """Clusterings over a geometric range of penalties, from few to many clusters, the best found
    for each number.

    The range is halved again and again, but not where both ends already have the same number of
    clusters (or one that differs by 4 % at most), so that wide ranges over which nothing happens
    cost nothing.

    Parameters
    ----------
    distances : (N, N). The range ends where one cluster is left, and at clusters of about three
        points.
    rate : only what `choose_point` at this rate may prefer is looked for: no range whose price at
        its fewest clusters and mean distance at its most clusters together exceed the best cost so
        far.
    """
    n = len(distances)
    spread = float(np.median(distances[~np.eye(n, dtype=bool)])) if n > 1 else 0.0
    if spread <= 0.0:
        return [PathPoint(1.0, np.array([0]), np.zeros(n, dtype=np.int64), 0.0)]
    penalties = spread * np.geomspace(max(1.0, 0.5 * n), 0.05, n_penalties)
    whole = facility_problem(
        with_penalty(distances, max(penalties[0], float(distances.max())) + 1.0)
    )
    path: dict[int, PathPoint] = {}

    def allowed() -> list[PathPoint]:
        return [path[k] for k in sorted(path) if 3 * k <= n or k == min(path)]

    def point_at(i: int) -> PathPoint:
        point = path_point(
            distances,
            penalties[i],
            local_search(whole.at_penalty(penalties[i]), n_kicks, seed=seed),
        )
        k = point.n_clusters
        if k not in path or point.mean_distance < path[k].mean_distance:
            path[k] = point
        return point

    intervals = [(0.0, 0, point_at(0), n_penalties - 1, point_at(n_penalties - 1))]
    price = 0.0 if rate is None else rate * intervals[0][2].mean_distance
    while intervals:
        least, i, few, j, many = heapq.heappop(intervals)
        if rate is not None and least > min(point.cost(price) for point in allowed()):
            break
        if (
            j - i > 1
            and 3 * few.n_clusters <= n
            and many.n_clusters - few.n_clusters > max(1.0, 0.04 * few.n_clusters)
        ):
            middle = (i + j) // 2
            between = point_at(middle)
            for left, a, right, b in ((few, i, between, middle), (between, middle, many, j)):
                heapq.heappush(
                    intervals,
                    (
                        right.mean_distance + left.cost(price) - left.mean_distance,
                        a,
                        left,
                        b,
                        right,
                    ),
                )
    return allowed()


def path_point(distances: np.ndarray, penalty: float, exemplars: np.ndarray) -> PathPoint:
    """The clustering of given exemplars, as a point of a path."""
    target = assign(distances, exemplars)
    total, n = float(distances[np.arange(len(target)), target].sum()), len(target)
    return PathPoint(
        float(penalty),
        exemplars,
        np.searchsorted(exemplars, target),
        total / max(n - len(exemplars), 1),
    )


def choose_point(path: Sequence[PathPoint], rate: float) -> PathPoint:
    """The clustering that the rule prefers at this rate."""
    level = max(point.mean_distance for point in path)
    return min(path, key=lambda point: point.cost(rate * level))


def thinned(cluster: np.ndarray, seed: int = 0) -> np.ndarray:
    """The points (ascending indices) that are left when one cluster of a partition loses three
    quarters of its points.

    At least two stay. Training sets rarely hold their smallest possible cluster, but new sets may;
    a calibration on thinned copies as well keeps the rate below the one at which such a cluster
    merges with its neighbour.
    """
    random = np.random.default_rng(seed)
    members = random.permutation(np.flatnonzero(cluster == random.integers(cluster.max() + 1)))
    return np.setdiff1d(np.arange(len(cluster)), members[max(2, -(-len(members) // 4)) :])


def calibrate_rate(
    paths: Sequence[Sequence[PathPoint]], partitions: Sequence[np.ndarray], n_rates: int = 120
) -> float:
    """The rate whose clusterings of the training sets agree best with the true partitions, with a
    margin on both sides.

    The score of a rate is the mean over the sets of pair-F plus matching accuracy. Its best range
    is wide and has steep ends, which lie elsewhere for new sets. So the score is averaged over
    log-normal deviations of the rate: the maximum keeps away from both ends, and farther from the
    one at which more is lost.
    """
    rates = np.geomspace(1e-3, 3.0, n_rates)
    quality = [
        {id(point): pair_f(truth, point.labels) + accuracy(truth, point.labels) for point in path}
        for path, truth in zip(paths, partitions)
    ]
    score = np.array(
        [
            np.mean([q[id(choose_point(path, rate))] for path, q in zip(paths, quality)])
            for rate in rates
        ]
    )
    return smoothed_argmax(rates, score)


def smoothed_argmax(values: np.ndarray, score: np.ndarray) -> float:
    """The value (ascending, > 0) of the best score when scores are averaged over log-normal
    deviations of the value.
    """
    deviation = np.log(values[:, None] / values) / _SPREAD
    share = np.exp(-0.5 * deviation**2)
    return float(values[np.argmax(share @ score / share.sum(axis=1))])


def calibrated_rate(
    distances: Sequence[np.ndarray], partitions: Sequence[np.ndarray], seed: int = 0
) -> float:
    """`calibrate_rate` on training sets, given by their distances (N, N) and true clusters (N,),
    and on thinned copies of them.
    """
    paths, truths = [], []
    for k, (matrix, cluster) in enumerate(zip(distances, partitions)):
        for kept in (np.arange(len(cluster)), thinned(cluster, seed + k)):
            paths.append(
                clustering_path(np.ascontiguousarray(matrix[np.ix_(kept, kept)]), seed=seed)
            )
            truths.append(cluster[kept])
    return calibrate_rate(paths, truths)
