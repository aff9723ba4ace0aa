"""Generated images: piecewise-constant scenes, and labellings with patch features for high-order
models.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import gmlearn as gm


def piecewise_constant(
    rng: np.random.Generator, height: int, width: int, labels: int, n_shapes: int = 12
) -> np.ndarray:
    """Labels (height, width) of random rectangles and discs, one painted over the other."""
    y, x = np.mgrid[:height, :width]
    image = np.full((height, width), int(rng.integers(labels)))
    size = max(min(height, width) / 2.5, 2.0)
    for k in range(n_shapes):
        cy, cx = rng.random(2) * (height, width)
        a, b = 2.0 + rng.random(2) * size / 2
        inside = (
            (np.abs(y - cy) < a) & (np.abs(x - cx) < b)
            if k % 2
            else ((y - cy) / a) ** 2 + ((x - cx) / b) ** 2 < 1
        )
        image[inside] = rng.integers(labels)
    return image


def blocky(rng: np.random.Generator, height: int, width: int, labels: int, side: int) -> np.ndarray:
    """Labels (height, width) of square blocks."""
    coarse = rng.integers(labels, size=(-(-height // side), -(-width // side)))
    return np.kron(coarse, np.ones((side, side), np.int64))[:height, :width]


def patch_samples(
    rng: np.random.Generator,
    n: int,
    side: int = 50,
    labels: int = 5,
    n_features: int = 3,
    noise: float = 1.0,
    clique: int = 3,
) -> list[dict[str, Any]]:
    """Samples for learning Pn-Potts cliques: a noisy labelling and features that tell how well each
    label suits a patch.

    Each is a mapping with ``truth`` (side * side,), ``unary`` (side * side, labels), ``cliques``
    (M, clique^2) and ``features`` z (M, labels, n_features): z_l is (the share of label l in the
    patch, a constant, noise ...) plus noise, so that a good weight vector makes :math:`\\beta_l =
    w_l \\cdot z_l` low exactly where a patch is all of label l.
    """
    cliques = gm.grid_cliques(side, side, clique, clique)
    samples = []
    for _ in range(n):
        truth = piecewise_constant(rng, side, side, labels).ravel()
        unary = rng.normal(scale=noise, size=(side * side, labels))
        unary[np.arange(side * side), truth] -= 1.0
        share = (truth[cliques][:, :, None] == np.arange(labels)).mean(axis=1)
        features = rng.normal(scale=0.3, size=(len(cliques), labels, n_features))
        features[:, :, 0] += share
        features[:, :, 1] = 1.0
        samples.append({"truth": truth, "unary": unary, "cliques": cliques, "features": features})
    return samples
