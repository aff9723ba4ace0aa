"""How well labels match the truth, and pairs of points to tell the algorithm."""

from __future__ import annotations

import numpy as np

import gmlearn as gm

accuracy = gm.clustering_accuracy


def random_links(
    truth: np.ndarray, per_class: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """`per_class` must-links inside, and cannot-links out of, every class, each (k, 2)."""
    must, cannot = [], []
    for c in np.unique(truth):
        inside, outside = np.flatnonzero(truth == c), np.flatnonzero(truth != c)
        for _ in range(per_class):
            must.append(rng.choice(inside, 2, replace=False))
            cannot.append((rng.choice(inside), rng.choice(outside)))
    return np.array(must, dtype=int).reshape(-1, 2), np.array(cannot, dtype=int).reshape(-1, 2)


def top_view_share(
    usage: np.ndarray, labels: np.ndarray, truth: np.ndarray, view_of_class: np.ndarray
) -> float:
    """Share of clusters whose most used kernel is the view that shows most of their points."""
    right = [
        np.bincount(view_of_class[truth[labels == c]]).argmax() == usage[c].argmax()
        for c in range(len(usage))
    ]
    return float(np.mean(right))
