"""The hard finish: every image to its nearest centre, every centre to the mean of its aligned
members.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .distance import hard_match, match_pairs
from .sets import PointSets
from .state import Motions, Pairs


@dataclass
class Clustering:
    """A hard clustering: distance (I, A), partner (I, A, J), rotation (I, A, D, D), shift (I, A,
    D), scale (I, A).
    """

    centres: PointSets
    distance: np.ndarray
    partner: np.ndarray
    rotation: np.ndarray
    shift: np.ndarray
    scale: np.ndarray

    @property
    def labels(self) -> np.ndarray:
        return self.distance.argmin(1)

    @property
    def energy(self) -> float:
        return float(self.distance.min(1).sum())


def match_all(
    images: PointSets, centres: PointSets, motions: Motions, n_starts: int, n_refine: int
) -> Clustering:
    """All images against all centres from many starts."""
    image, centre = np.indices((len(images), len(centres))).reshape(2, -1)
    found = match_pairs(images, centres, image, centre, motions, "hard", n_starts, n_refine)[:5]
    return Clustering(
        centres, *(part.reshape(len(images), len(centres), *part.shape[1:]) for part in found)
    )


def rematch(
    images: PointSets, centres: PointSets, motions: Motions, before: Clustering
) -> Clustering:
    """All images against moved centres, each pair from where it was."""
    n, m, dims = len(images), len(centres), images.dims
    image, centre = np.indices((n, m)).reshape(2, -1)
    pairs = Pairs(
        images,
        centres,
        image,
        centre,
        before.rotation.reshape(-1, 1, dims, dims),
        before.scale,
        motions,
    )
    found = hard_match(pairs, before.shift.reshape(-1, 1, dims), before.scale.reshape(-1, 1))
    return Clustering(centres, *(part.reshape(n, m, *part.shape[1:]) for part in found))


def aligned(
    images: PointSets, found: Clustering, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Each image's points (I, J, D) in the frame of its centre, R'(X - t) / s, and their
    partners (I, J).
    """
    index = np.arange(len(images)), labels
    moved = images.points - found.shift[index][:, None]
    return moved @ found.rotation[index] / found.scale[index][:, None, None], found.partner[index]


def mean_centres(images: PointSets, found: Clustering, labels: np.ndarray) -> PointSets:
    """Y_ak = sum_i s R'(X_ij - t) / sum_i s^2 over members i and their points j matched to k."""
    points, partner = aligned(images, found, labels)
    image, j = np.nonzero(partner >= 0)
    where = labels[image], partner[image, j]
    weight = found.scale[image, labels[image]] ** 2
    total, pull = np.zeros(found.centres.points.shape[:2]), np.zeros(found.centres.points.shape)
    np.add.at(total, where, weight)
    np.add.at(pull, where, weight[:, None] * points[image, j])
    known = total[:, :, None] > 0
    return PointSets(
        np.where(known, pull / np.where(known, total[:, :, None], 1.0), found.centres.points),
        found.centres.sizes,
    )


def fill_empty(images: PointSets, centres: PointSets, found: Clustering) -> PointSets:
    """Put every centre without members on the image that fits its own centre worst."""
    labels, left = found.labels, found.distance.min(1)
    empty = np.setdiff1d(np.arange(len(centres)), labels)
    points, sizes = centres.points.copy(), centres.sizes.copy()
    for a in empty:
        worst = int(left.argmax())
        left[worst] = -np.inf
        size = min(images.sizes[worst], points.shape[1])
        points[a] = 0.0
        points[a, :size], sizes[a] = images.points[worst, :size], size
    return PointSets(points, sizes)


def finish(
    images: PointSets,
    centres: PointSets,
    motions: Motions,
    n_starts: int,
    n_refine: int,
    max_iter: int = 50,
) -> Clustering:
    """Alternate nearest centre and mean of aligned members until the energy stands still; it
    never rises.
    """
    found = match_all(images, centres, motions, n_starts, n_refine)
    for _ in range(max_iter):
        if len(np.unique(found.labels)) < len(centres):
            found = match_all(
                images, fill_empty(images, centres, found), motions, n_starts, n_refine
            )
        centres = mean_centres(images, found, found.labels)
        better = rematch(images, centres, motions, found)
        if better.energy >= found.energy * (1 - 1e-9):
            # the warm alternation is stuck: look at all starts once more before stopping
            better = match_all(images, centres, motions, n_starts, n_refine)
            if better.energy >= found.energy * (1 - 1e-9):
                return better if better.energy < found.energy else found
        found = better
    return found
