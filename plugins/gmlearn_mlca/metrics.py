"""Distances between partitions, all from the contingency table: O(n + k khat), never an n x n
matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import gmlearn as gm

clustering_accuracy = gm.clustering_accuracy
contingency_table = gm.contingency_table
normalised_mutual_information = gm.normalised_mutual_information


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
