"""Scores of a clustering against true classes, and of a distance by its nearest neighbours."""

from __future__ import annotations

import numpy as np


def contingency(truth: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Counts (number of classes, number of clusters)."""
    truth, labels = (
        np.unique(truth, return_inverse=True)[1],
        np.unique(labels, return_inverse=True)[1],
    )
    table = np.zeros((truth.max() + 1, labels.max() + 1), dtype=np.int64)
    np.add.at(table, (truth, labels), 1)
    return table


def pair_f(truth: np.ndarray, labels: np.ndarray) -> float:
    """F-measure over pairs of points: harmonic mean of precision and recall of "in the same
    cluster"; 1 if no pairs exist.
    """
    table = contingency(truth, labels)

    def pairs(counts: np.ndarray) -> float:
        return float((counts * (counts - 1) // 2).sum())

    both, total = pairs(table), pairs(table.sum(axis=1)) + pairs(table.sum(axis=0))
    return 2.0 * both / total if total > 0 else 1.0


def accuracy(truth: np.ndarray, labels: np.ndarray) -> float:
    """Share of points in agreement under the best one-to-one matching of clusters and classes."""
    from scipy.optimize import linear_sum_assignment

    table = contingency(truth, labels)
    return float(table[linear_sum_assignment(-table)].sum() / table.sum())


def nmi(truth: np.ndarray, labels: np.ndarray) -> float:
    """Normalised mutual information (arithmetic mean of the entropies)."""
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(truth, labels))


def nearest_neighbour_accuracy(
    distances: np.ndarray, train_labels: np.ndarray, test_labels: np.ndarray
) -> float:
    """Share of test points whose nearest training point, by `distances` (test, train), has their
    class.
    """
    return float((train_labels[np.argmin(distances, axis=1)] == test_labels).mean())
