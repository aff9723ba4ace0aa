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


def make_graphs(
    n_centres: int = 4,
    graphs_per_centre: int = 8,
    n_nodes: int = 10,
    sigma: float = 0.04,
    missing: float = 0.1,
    random_state=None,
) -> tuple[list[tuple[np.ndarray, np.ndarray, np.ndarray]], np.ndarray]:
    """Triangulated points in a unit square as graphs that know the lengths of their edges only.

    Every graph is a noisy copy (points moved by sigma, a share `missing` of its edges left out)
    with its nodes in an order of its own. Returns the graphs (nodes (J, 0), edges, lengths) and the
    number (I,) of the drawing that each was made from.
    """
    from scipy.spatial import Delaunay

    rng = np.random.default_rng(random_state)
    graphs = []
    labels = np.repeat(np.arange(n_centres), graphs_per_centre)
    rng.shuffle(labels)
    drawings = rng.uniform(-0.5, 0.5, (n_centres, n_nodes, 2))
    triangles = [Delaunay(points).simplices for points in drawings]
    sides = [np.concatenate([t[:, [0, 1]], t[:, [1, 2]], t[:, [0, 2]]]) for t in triangles]
    lines = [np.unique(np.sort(side, axis=1), axis=0) for side in sides]
    for label in labels:
        points = drawings[label] + sigma * rng.normal(size=(n_nodes, 2))
        edges = lines[label][rng.random(len(lines[label])) >= missing]
        lengths = np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1)
        number = rng.permutation(n_nodes)
        graphs.append((np.zeros((n_nodes, 0)), number[edges], lengths[:, None]))
    return graphs, labels


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
