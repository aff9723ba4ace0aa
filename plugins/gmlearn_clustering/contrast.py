"""How well every distance feature alone tells clusters apart, and weights made of that.

Max-margin weights gather on the few features that together fit the training sets best. New sets
taken under other conditions may be told apart better by features that were a little worse in
training, so that a sum over many of them is safer: as in any average, their errors cancel out.
Features are weighed by the square of their contrast here, which leaves next to nothing for noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gmlearn_clustering.distances import SampleDistances


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


def with_contrast(weights: np.ndarray, contrast: np.ndarray, share: float) -> np.ndarray:
    """Weights (F,) of which a share is given out anew, in proportion to squared contrasts (F,),
    none to negative ones.

    The sum of absolute weights stays what it was; it is 1 if all of them were 0, which then count
    for nothing.
    """
    given = np.maximum(contrast, 0.0) ** 2
    if share == 0.0 or given.sum() == 0.0:
        return weights
    level = float(np.abs(weights).sum())
    if level == 0.0:
        return given / given.sum()
    return (1.0 - share) * weights + share * level * given / given.sum()


def _partners(cluster: np.ndarray) -> Iterator[np.ndarray]:
    """Targets (N,) that together pair every point once with every other one of its cluster, and
    else with itself (distance 0).
    """
    order = np.argsort(cluster, kind="stable")
    size = np.bincount(cluster)
    start = np.repeat(np.cumsum(size) - size, size)
    place, size_of = np.arange(len(cluster)) - start, np.repeat(size, size)
    for step in range(1, int(size.max())):
        target = np.empty(len(cluster), dtype=np.int64)
        target[order] = order[start + np.where(step < size_of, (place + step) % size_of, place)]
        yield target
