"""Scores of a clustering against true classes, and of a distance by its nearest neighbours."""

from __future__ import annotations

import numpy as np

import gmlearn as gm

accuracy = gm.clustering_accuracy
nmi = gm.normalised_mutual_information


def pair_f(truth: np.ndarray, labels: np.ndarray) -> float:
    """F-measure over pairs of points: harmonic mean of precision and recall of "in the same
    cluster"; 1 if no pairs exist.
    """
    table = gm.contingency_table(truth, labels)

    def pairs(counts: np.ndarray) -> float:
        return float((counts * (counts - 1) // 2).sum())

    both, total = pairs(table), pairs(table.sum(axis=1)) + pairs(table.sum(axis=0))
    return 2.0 * both / total if total > 0 else 1.0


def nearest_neighbour_accuracy(
    distances: np.ndarray, train_labels: np.ndarray, test_labels: np.ndarray
) -> float:
    """Share of test points whose nearest training point, by `distances` (test, train), has their
    class.
    """
    return float((train_labels[np.argmin(distances, axis=1)] == test_labels).mean())
