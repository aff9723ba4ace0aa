"""How well two partitions agree, from their contingency table: O(n + k khat)."""

from __future__ import annotations

from typing import Any

import numpy as np


def contingency_table(labels: Any, truth: Any) -> np.ndarray:
    """N (khat, k): how many samples have the i-th predicted and the j-th true label."""
    try:
        labels = np.asarray(labels)
        truth = np.asarray(truth)
    except ValueError as error:  # ragged lists
        raise ValueError(f"labels, truth: expected one label a sample; {error}") from None
    if labels.ndim != 1 or labels.shape != truth.shape or not labels.size:
        raise ValueError(
            "labels, truth: expected two non-empty vectors of one length, got shapes "
            f"{labels.shape} and {truth.shape}"
        )
    try:
        rows, i = np.unique(labels, return_inverse=True)
        columns, j = np.unique(truth, return_inverse=True)
    except TypeError as error:  # objects of several types
        raise TypeError(f"labels, truth: expected labels that can be sorted; {error}") from None
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

    contingency_table(labels, truth)  # refuses what are no two partitions
    return float(normalized_mutual_info_score(truth, labels))
