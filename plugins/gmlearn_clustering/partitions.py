"""Given partitions: labels of any kind as clusters 0..K-1, -1 where not known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gmlearn_clustering.distances import SampleDistances


def check_partitions(X: Sequence[Any], y: Sequence[Any]) -> list[np.ndarray]:
    """Every partition as clusters 0..K-1, with clear errors for what is no partition."""
    for name, value in (("X", X), ("y", y)):
        if not isinstance(value, (list, tuple)) or len(value) == 0:
            raise ValueError(
                f"{name}: expected a non-empty list with one entry a sample, got "
                f"{type(value).__name__}"
            )
    if len(X) != len(y):
        raise ValueError(f"y: expected one partition a sample, got {len(y)} for {len(X)} samples")
    return [_clusters(f"y[{k}]", truth) for k, truth in enumerate(y)]


def _clusters(name: str, labels: Any) -> np.ndarray:
    labels = np.asarray(labels)
    if labels.ndim == 1 and len(labels) and all(isinstance(label, str) for label in labels):
        labels = labels.astype(str)  # names in an array of objects, as pandas gives them
    if (
        labels.ndim != 1
        or labels.dtype.kind == "O"
        or (labels.dtype.kind == "f" and not np.isfinite(labels).all())
    ):
        raise ValueError(
            f"{name}: expected one cluster label a point (a partition), got an array of shape "
            f"{labels.shape} and type {labels.dtype}"
        )
    if len(labels) < 2:
        raise ValueError(f"{name}: expected a sample of at least two points, got {len(labels)}")
    known = labels != -1 if labels.dtype.kind == "i" else np.ones(len(labels), dtype=bool)
    cluster = np.full(len(labels), -1, dtype=np.int64)
    cluster[known] = np.unique(labels[known], return_inverse=True)[1]
    if cluster.max() <= 0:
        raise ValueError(
            f"{name}: expected at least two clusters, got {int(cluster.max()) + 1}; a single "
            f"cluster says nothing about distances"
        )
    return cluster


def check_labels(name: str, labels: Any, n_points: int) -> np.ndarray:
    """One label a point, of any kind."""
    labels = np.asarray(labels)
    if labels.shape != (n_points,):
        raise ValueError(
            f"{name}: expected {n_points} labels, one a point, got an array of shape {labels.shape}"
        )
    return labels


def linked_classes(y: Sequence[Any]) -> list[np.ndarray]:
    """The labels of all samples numbered together, so that equal labels stay equal from sample
    to sample.
    """
    numbers = np.unique(np.concatenate([np.asarray(truth) for truth in y]), return_inverse=True)[1]
    return np.split(numbers, np.cumsum([len(truth) for truth in y])[:-1])


def known_points(
    samples: Sequence[SampleDistances], partitions: Sequence[np.ndarray]
) -> tuple[list[SampleDistances], list[np.ndarray]]:
    """Samples and partitions of the points whose cluster is known."""
    kept = [np.flatnonzero(truth >= 0) for truth in partitions]
    sizes = zip(samples, partitions, kept)
    found = [s if len(p) == len(truth) else s.take(p) for s, truth, p in sizes]
    return found, [truth[p] for truth, p in zip(partitions, kept)]
