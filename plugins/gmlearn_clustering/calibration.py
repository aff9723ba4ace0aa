"""How many clusters: a penalty rule that is calibrated on training partitions and transfers to sets of other sizes.

The penalty at which a true cluster of n points neither splits nor merges grows with n: splitting saves a share of n
distances. A fixed d_qq therefore fails on sets whose clusters are much smaller or larger than in training. Instead a new
set is clustered at many penalties and the solution that minimises

    (sum of distances to exemplars) / (N - k) + rate * (log(k) + 4 k / N),     k = number of exemplars,

is taken. Its penalty is about rate * N / k, so it scales with the size of the clusters by itself; `rate` is a property of
the distance alone and is chosen to give the best clusterings of the training partitions. The second term counters the
drop of the mean distance when every outlier becomes an exemplar (k near N / 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gmlearn_clustering.energy import assign, with_penalty
from gmlearn_clustering.facility import facility_problem
from gmlearn_clustering.local_search import local_search
from gmlearn_clustering.scores import accuracy, pair_f

#: rates whose score (of 2) is that close to the best count as equally good
_TOLERANCE = 0.03


@dataclass(frozen=True)
class PathPoint:
    """The clustering found at one penalty."""

    penalty: float
    exemplars: np.ndarray
    labels: np.ndarray
    mean_distance: float

    def cost(self, rate: float) -> float:
        """What the rule minimises."""
        k = self.n_clusters
        return self.mean_distance + rate * (np.log(k) + 4.0 * k / len(self.labels))

    @property
    def n_clusters(self) -> int:
        return len(self.exemplars)


def clustering_path(distances: np.ndarray, n_penalties: int = 30, n_kicks: int = 30, seed: int = 0) -> list[PathPoint]:
    """Clusterings over a geometric range of penalties, from few to many clusters, one per number of clusters.

    Parameters
    ----------
    distances : (N, N). The range ends where one cluster is left, and at clusters of about three points.
    """
    n = len(distances)
    spread = float(np.median(distances[~np.eye(n, dtype=bool)])) if n > 1 else 0.0
    if spread <= 0.0:
        return [PathPoint(1.0, np.array([0]), np.zeros(n, dtype=np.int64), 0.0)]
    path: dict[int, PathPoint] = {}
    for penalty in spread * np.geomspace(max(1.0, 0.5 * n), 0.05, n_penalties):
        costs = with_penalty(distances, penalty)
        exemplars = local_search(facility_problem(costs), n_kicks, seed=seed)
        k = len(exemplars)
        if 3 * k > n and path:
            break
        if k not in path:
            target = assign(costs, exemplars)
            total = float(costs[np.arange(n), target].sum() - penalty * k)
            path[k] = PathPoint(float(penalty), exemplars, np.searchsorted(exemplars, target), total / max(n - k, 1))
    return list(path.values())


def choose_point(path: Sequence[PathPoint], rate: float) -> PathPoint:
    """The clustering that the rule prefers at this rate."""
    return min(path, key=lambda point: point.cost(rate))


def calibrate_rate(paths: Sequence[Sequence[PathPoint]], partitions: Sequence[np.ndarray], n_rates: int = 120) -> float:
    """The rate whose clusterings of the training sets agree best with the true partitions.

    The score is pair-F plus matching accuracy. New sets differ from the training sets, so not the best rate is taken but
    the geometric middle of the longest range of rates that are nearly as good.
    """
    level = np.mean([np.mean([p.mean_distance for p in path]) for path in paths])
    rates = max(level, 1e-12) * np.geomspace(1e-3, 3.0, n_rates)
    quality = [{id(point): pair_f(truth, point.labels) + accuracy(truth, point.labels) for point in path}
               for path, truth in zip(paths, partitions)]
    score = np.array([np.mean([q[id(choose_point(path, rate))] for path, q in zip(paths, quality)]) for rate in rates])
    good = np.flatnonzero(score >= score.max() - _TOLERANCE)
    runs = np.split(good, np.flatnonzero(np.diff(good) > 1) + 1)
    longest = max(runs, key=len)
    return float(np.sqrt(rates[longest[0]] * rates[longest[-1]]))
