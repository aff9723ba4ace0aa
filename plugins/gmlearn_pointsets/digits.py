"""Handwritten digits of scikit-learn as point sets of inked pixels."""

from __future__ import annotations

import numpy as np


def digit_point_sets(
    classes=(0, 1, 2, 3, 4), per_class: int = 30, n_points: int = 20, random_state=None
):
    """The first images of each class, of those with at least `n_points` inked pixels, as points
    spread over the ink.

    Each 8 x 8 image becomes `n_points` points in a unit square, placed by k-means on the pixels
    weighted with their ink, so that every set has the same size and covers the stroke evenly.

    Returns
    -------
    points : float (I, n_points, 2), y upwards.   labels : int (I,).   In random order.
    """
    from sklearn.cluster import KMeans
    from sklearn.datasets import load_digits

    digits = load_digits()
    rng = np.random.default_rng(random_state)
    enough = (digits.data > 0).sum(1) >= n_points
    chosen = rng.permutation(
        np.concatenate([np.flatnonzero((digits.target == c) & enough)[:per_class] for c in classes])
    )
    row, column = np.indices((8, 8)).reshape(2, -1)
    pixels = np.stack([column, 7 - row], axis=1) / 7.0
    points = np.empty((len(chosen), n_points, 2))
    for place, index in enumerate(chosen):
        ink = digits.data[index]
        inked = ink > 0
        fit = KMeans(n_points, n_init=1, random_state=int(rng.integers(2**31))).fit(
            pixels[inked], sample_weight=ink[inked]
        )
        points[place] = fit.cluster_centers_
    return points, digits.target[chosen]
