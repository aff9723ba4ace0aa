"""How well every distance feature alone tells clusters apart, and weights made of that: a rival
of learning, which looks at one feature at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gmlearn_clustering.distances import SampleDistances
from gmlearn_clustering.partitions import known_points


def contrasts(samples: Sequence[SampleDistances], partitions: Sequence[np.ndarray]) -> np.ndarray:
    """By how much every feature is smaller within the true clusters than over all pairs, (F,); 0
    for noise, 1 at best.

    samples : features that have mean 1 over all training pairs, as banks make them. partitions :
        clusters 0..K-1, (N_k,) each.
    """
    total, pairs = np.zeros(samples[0].n_features), 0
    for sample, cluster in zip(samples, partitions):
        for target in _partners(cluster):
            total += sample.gather(target)
        sizes = np.bincount(cluster)
        pairs += int((sizes * (sizes - 1)).sum())
    return 1.0 - total / pairs if pairs else total  # clusters of single points tell nothing


def contrast_weights(
    samples: Sequence[SampleDistances], partitions: Sequence[np.ndarray]
) -> np.ndarray:
    """Squared contrasts (F,), none for negative ones, brought to sum 1; equal weights if no feature
    tells anything. Clusters of -1 are not known.
    """
    given = np.maximum(contrasts(*known_points(samples, partitions)), 0.0) ** 2
    if given.sum() == 0.0:
        given = np.ones(samples[0].n_features)
    return given / given.sum()


def _partners(cluster: np.ndarray) -> Iterator[np.ndarray]:
    """Targets (N,) that together pair every point once with every other one of its cluster, and
    else with itself (distance 0).
    """
    order = np.argsort(cluster, kind="stable")
    size = np.bincount(cluster)
    start = np.repeat(np.cumsum(size) - size, size)
    place = np.arange(len(cluster)) - start
    size_of = np.repeat(size, size)
    for step in range(1, int(size.max())):
        target = np.empty(len(cluster), dtype=np.int64)
        target[order] = order[start + np.where(step < size_of, (place + step) % size_of, place)]
        yield target
