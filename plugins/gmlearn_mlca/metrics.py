"""Distances between partitions, all from the contingency table: O(n + k khat), never an n x n
matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment


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


def delta_loss(labels: Any, truth: Any) -> float:
    """Delta = ||Chat - C||^2 = khat + k - 2 sum_ij N_ij^2 / (N_i. N_.j), with C = Y Y^+.

    0 for equal partitions, at most khat + k - 2. A single cluster scores k - 1, so read it beside
    `rand_loss`.
    """
    table = contingency_table(labels, truth)
    overlap = np.sum(table**2 / np.outer(table.sum(axis=1), table.sum(axis=0)))
    return float(max(0.0, sum(table.shape) - 2.0 * overlap))


def rand_loss(labels: Any, truth: Any) -> float:
    """||Yhat Yhat' - Y Y'||^2 / (n (n - 1)): the share of pairs on which the partitions disagree
    (1 - Rand index).
    """
    table = contingency_table(labels, truth)
    n = table.sum()
    together = (
        np.sum(table.sum(axis=1) ** 2) + np.sum(table.sum(axis=0) ** 2) - 2.0 * np.sum(table**2)
    )
    return float(together / (n * (n - 1.0))) if n > 1 else 0.0


def clustering_accuracy(labels: Any, truth: Any) -> float:
    """ACC: the share of samples on the best one-to-one matching of clusters and classes
    (Hungarian method).
    """
    table = contingency_table(labels, truth)
    return float(table[linear_sum_assignment(table, maximize=True)].sum() / table.sum())


def normalised_mutual_information(labels: Any, truth: Any) -> float:
    """NMI = 2 I(labels; truth) / (H(labels) + H(truth)); 1 if both are a single cluster."""
    joint = contingency_table(labels, truth)
    joint /= joint.sum()
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    entropies = _entropy(rows) + _entropy(columns)
    if entropies <= 0.0:
        return 1.0
    return float(np.clip(2.0 * (entropies - _entropy(joint.ravel())) / entropies, 0.0, 1.0))


def _entropy(p: np.ndarray) -> float:
    p = p[p > 0]
    return float(-np.sum(p * np.log(p)))
