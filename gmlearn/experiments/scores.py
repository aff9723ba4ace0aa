"""How well two partitions agree, from their contingency table: O(n + k khat)."""

from __future__ import annotations

from typing import Any

import numpy as np


def contingency_table(labels: Any, truth: Any) -> np.ndarray:
    """N (khat, k): how many samples have the i-th predicted and the j-th true label."""
    labels, truth = np.asarray(labels), np.asarray(truth)
    if labels.ndim != 1 or labels.shape != truth.shape or not labels.size:
        raise ValueError(
            "labels, truth: expected two non-empty vectors of one length, got shapes "
            f"{labels.shape} and {truth.shape}"
        )
    rows, i = np.unique(labels, return_inverse=True)
    columns, j = np.unique(truth, return_inverse=True)
    table = np.bincount(i * len(columns) + j, minlength=len(rows) * len(columns))
    return table.reshape(len(rows), len(columns)).astype(np.float64)


def clustering_accuracy(labels: Any, truth: Any) -> float:
    """ACC: the share of samples on the best one-to-one matching of clusters and classes
    (Hungarian method).
    """
    from scipy.optimize import linear_sum_assignment

    table = contingency_table(labels, truth)
    return float(table[linear_sum_assignment(table, maximize=True)].sum() / table.sum())


def normalised_mutual_information(labels: Any, truth: Any) -> float:
    """NMI = 2 I(labels; truth) / (H(labels) + H(truth)); 1 if both are a single cluster."""
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(truth, labels))
