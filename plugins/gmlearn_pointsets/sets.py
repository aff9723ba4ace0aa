"""Point sets at the door: one array or a list of arrays becomes a padded batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import gmlearn as gm


@dataclass(frozen=True)
class PointSets:
    """I sets of up to J points in D dimensions.

    points : float (I, J, D), zeros beyond each set's own size.   sizes : int (I,).   single : one
        bare (J, D) was given.
    """

    points: np.ndarray
    sizes: np.ndarray
    single: bool = False

    def __len__(self) -> int:
        return len(self.points)

    @property
    def dims(self) -> int:
        return self.points.shape[2]

    @property
    def mask(self) -> np.ndarray:
        """bool (I, J): which entries are points, which padding."""
        return np.arange(self.points.shape[1]) < self.sizes[:, None]

    def means(self) -> np.ndarray:
        """Centroids (I, D)."""
        return self.points.sum(1) / self.sizes[:, None]

    def shifted(self, shift: np.ndarray) -> PointSets:
        """The sets minus `shift` (I, D), padding kept at zero."""
        return PointSets(
            (self.points - shift[:, None]) * self.mask[:, :, None], self.sizes, self.single
        )

    def spreads(self) -> np.ndarray:
        """Mean squared distance of the points to their centroid (I,), never zero."""
        spread = (self.shifted(self.means()).points ** 2).sum((1, 2)) / self.sizes
        return np.where(spread > 0, spread, 1.0)


def check_point_sets(name: str, value: Any, dims: int | None = None) -> PointSets:
    """`value` as `PointSets`: an array (J, D) or (I, J, D), or a sequence of arrays (J_i, D); D
    is 2 or 3.
    """
    if isinstance(value, PointSets):
        return value
    ragged = (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(np.ndim(part) == 2 for part in value)
    )
    if ragged:
        sets = [gm.check_array(f"{name}[{i}]", part, ndim=2) for i, part in enumerate(value)]
    else:
        array = gm.check_array(name, value, ndim=(2, 3))
        sets = [array] if array.ndim == 2 else list(array)
    if not sets:
        raise ValueError(f"{name}: expected at least one point set, got none")
    dimension = sets[0].shape[1]
    for i, part in enumerate(sets):
        if part.shape[1] != dimension:
            raise ValueError(
                f"{name}: all sets must have one dimension, got {dimension} in set 0 and "
                f"{part.shape[1]} "
                f"in set {i}"
            )
        if len(part) < 2:
            raise ValueError(
                f"{name}: a point set needs at least two points (one has no shape), set {i} has "
                f"{len(part)}"
            )
    if dimension not in (2, 3):
        raise ValueError(f"{name}: expected points in 2 or 3 dimensions, got {dimension}")
    if dims is not None and dimension != dims:
        raise ValueError(
            f"{name}: dims={dims} was asked for, but the points have {dimension} coordinates"
        )
    sizes = np.array([len(part) for part in sets])
    points = np.zeros((len(sets), sizes.max(), dimension))
    for i, part in enumerate(sets):
        points[i, : len(part)] = part
    return PointSets(points, sizes, single=not ragged and np.ndim(value) == 2)
