"""The synthetic images of Gold, Mjolsness and Rangarajan (1993), and how their results are
measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .distance import point_set_distance
from .rigid import planar_rotation


@dataclass(frozen=True)
class PointSetImages:
    """images (I, J, 2), the labels (I,) and centres (A, J, 2) they were made from, and the noise
    sigma.
    """

    images: np.ndarray
    labels: np.ndarray
    centres: np.ndarray
    sigma: float

    @property
    def line(self) -> float:
        """The paper's line k sigma / sqrt(m): k points, m images per centre."""
        return self.centres.shape[1] * self.sigma / np.sqrt(len(self.images) / len(self.centres))

    @property
    def floor(self) -> float:
        """Expected error of the mean of m images with known matches, E |N(0, sigma^2 I / m)| =
        sqrt(pi / 2) of the line.
        """
        return float(np.sqrt(np.pi / 2) * self.line)


def make_point_sets(
    n_centres: int = 4,
    images_per_centre: int = 4,
    n_points: int = 15,
    sigma: float = 0.02,
    arc: float = 54.0,
    random_state=None,
) -> PointSetImages:
    """Centres uniform in a unit square; images turned within `arc` degrees, shifted, noisy, in
    random point order.
    """
    rng = np.random.default_rng(random_state)
    centres = rng.random((n_centres, 1, 2)) + rng.uniform(-0.5, 0.5, (n_centres, n_points, 2))
    labels = np.repeat(np.arange(n_centres), images_per_centre)
    rng.shuffle(labels)
    angle = np.deg2rad(rng.uniform(-arc / 2, arc / 2, len(labels)))
    turned = centres[labels] @ np.swapaxes(planar_rotation(angle), 1, 2) + rng.random(
        (len(labels), 1, 2)
    )
    noisy = turned + sigma * rng.normal(size=turned.shape)
    return PointSetImages(_shuffle_points(noisy, rng), labels, centres, sigma)


def _shuffle_points(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each image's points in an order of its own."""
    order = rng.random(images.shape[:2]).argsort(1)
    return np.take_along_axis(images, order[:, :, None], axis=1)


def centre_errors(found: Any, truth: np.ndarray) -> np.ndarray:
    """Sum of point distances |Y_k - found_k| of each true centre to the found centre paired with
    it, both aligned.

    Centres are paired by linear assignment of the matching distance, points by the match itself.
    """
    from scipy.optimize import linear_sum_assignment

    match = point_set_distance(truth, found, method="hard")
    true, own = linear_sum_assignment(match.distance)
    moved = (
        np.einsum("ade,ake->akd", match.rotation[true, own], found[own])
        + match.shift[true, own][:, None]
    )
    partner = match.partner[true, own]
    return np.linalg.norm(
        truth[true] - np.take_along_axis(moved, partner[:, :, None], axis=1), axis=2
    ).sum(1)
