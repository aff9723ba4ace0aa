"""Where the centres start: k-means++ under the matching distance, or the random points of the
paper.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .sets import PointSets


class DistanceRows:
    """Distances (n,) from all of n objects to one of them, computed when first asked for and kept.

    distances : index -> float (n,).
    """

    def __init__(self, n: int, distances: Callable[[int], np.ndarray]):
        self.n = n
        self._distances = distances
        self._rows: dict[int, np.ndarray] = {}

    def __getitem__(self, index: int) -> np.ndarray:
        if index not in self._rows:
            self._rows[index] = self._distances(index)
        return self._rows[index]


def k_means_plus_plus(rows: DistanceRows, n_clusters: int, rng: np.random.Generator) -> np.ndarray:
    """Indices (A,) of the images to start from: each drawn with probability proportional to its
    distance.

    Greedy as in Arthur and Vassilvitskii (2007): of 2 + log A draws the one that leaves the least
    total distance. O(I A log A) distances.
    """
    n_images, n_trials = rows.n, 2 + int(np.log(n_clusters))
    chosen = [int(rng.integers(n_images))]
    nearest = rows[chosen[0]]
    while len(chosen) < n_clusters:
        weights = np.where(np.isin(np.arange(n_images), chosen), 0.0, np.maximum(nearest, 1e-300))
        trials = rng.choice(n_images, size=n_trials, p=weights / weights.sum())
        left = [np.minimum(nearest, rows[int(trial)]) for trial in trials]
        best = int(np.argmin([remaining.sum() for remaining in left]))
        chosen.append(int(trials[best]))
        nearest = left[best]
    return np.array(chosen)


def random_centres(images: PointSets, n_clusters: int, rng: np.random.Generator) -> PointSets:
    """The paper's start: points drawn uniformly in the box of all images, as many as a typical
    image has.
    """
    points = images.points[images.mask]
    size = int(np.median(images.sizes))
    centres = rng.uniform(points.min(0), points.max(0), size=(n_clusters, size, images.dims))
    return PointSets(centres, np.full(n_clusters, size))
