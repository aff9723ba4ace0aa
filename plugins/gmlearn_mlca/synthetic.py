"""The synthetic problem of the paper's section 5.1: three categories, each made of two far-apart
halves.
"""

from __future__ import annotations

import numpy as np

CENTRES = np.array([[0.0, 1.0], [-0.866, -0.5], [0.866, -0.5]])
LAYER_HEIGHT = 5.0


def two_layer_categories(
    sizes: tuple[int, int, int] = (1000, 1000, 1000),
    noise: float = 0.005,
    spread: float = 0.15,
    rng: np.random.Generator | int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """X (n, 3) and y (n,): category c sits above and below one corner of a triangle.

    The two halves of a category are 10 apart, neighbouring categories of one layer less than 2:
    Euclidean k-means separates the layers. A share `noise` of every category lies in halves that
    belong to other categories.
    """
    rng = np.random.default_rng(rng)
    y = np.repeat(np.arange(3), sizes)
    place = y.copy()
    for c, size in enumerate(sizes):
        members = np.flatnonzero(y == c)
        strays = rng.choice(members, size=round(noise * size), replace=False)
        place[strays] = (c + rng.integers(1, 3, size=len(strays))) % 3
    layer = rng.permutation(np.arange(len(y)) % 2) * 2.0 - 1.0
    X = np.column_stack([CENTRES[place], LAYER_HEIGHT * layer])
    return X + spread * rng.normal(size=X.shape), y
