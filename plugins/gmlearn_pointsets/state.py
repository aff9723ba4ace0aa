"""What may move, and the state of all pairs that the sweeps carry on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import gmlearn as gm

from .sets import PointSets


@dataclass(frozen=True)
class Motions:
    """What may move: rotation (searched up to `max_rotation` radians), translation, scale; the
    price of an unmatched point; reflection along with rotation.

    An infinite `outlier_cost` means that no point of the smaller set may go unmatched.
    """

    rotation: bool = True
    translation: bool = True
    scale: bool = False
    outlier_cost: float = np.inf
    max_rotation: float | None = None
    reflection: bool = False

    @property
    def free(self) -> np.ndarray:
        """The three flags as the kernels read them."""
        return np.array([self.rotation, self.translation, self.scale])


def checked_motions(
    rotation,
    translation,
    scale,
    outlier_cost,
    max_rotation,
    reflection: bool = False,
    unit: float = 1.0,
) -> Motions:
    """`Motions` from a user's arguments, for points measured in `unit`; `outlier_cost` None is
    infinite.
    """
    price = np.inf
    if outlier_cost is not None:
        price = float(gm.check_number("outlier_cost", outlier_cost, low=0.0, strict=True)) / unit**2
    if max_rotation is not None:
        max_rotation = float(gm.check_number("max_rotation", max_rotation, low=0.0, high=np.pi))
    if reflection and not rotation:
        raise ValueError("reflection: needs rotation=True, of which it is a part")
    return Motions(
        bool(rotation), bool(translation), bool(scale), price, max_rotation, bool(reflection)
    )


@dataclass
class Pairs:
    """Pairs p = (image[p], centre[p]) with B start rotations each, starts (P, B, D, D), and
    scales (I, A).
    """

    x: PointSets
    y: PointSets
    image: np.ndarray
    centre: np.ndarray
    starts: np.ndarray
    scale: np.ndarray
    motions: Motions


class MatchState:
    """The inner variables of all pairs (image, centre), kept from sweep to sweep so that each
    starts warm.

    rotation (I, A, D, D), shift (I, A, D), scale (I, A) and the duals of the soft match; after a
    sweep also distance and free_energy (I, A), pull (I, A, K, D) and pull_weight (I, A, K), from
    which centres are updated. Memory O(I A (J + K D)).
    """

    def __init__(
        self,
        images: PointSets,
        centres: PointSets,
        motions: Motions,
        scale: np.ndarray | None = None,
    ):
        pairs = len(images), len(centres)
        n, m, dims = images.points.shape[1], centres.points.shape[1], images.dims
        self.images, self.sizes, self.motions = images, centres.sizes, motions
        self.rotation = np.broadcast_to(np.eye(dims), (*pairs, dims, dims)).copy()
        self.shift = np.zeros((*pairs, dims))
        self.scale = np.ones(pairs) if scale is None else scale.copy()
        self.row_dual, self.col_dual = np.zeros((*pairs, n + 1)), np.zeros((*pairs, m + 1))
        self.distance, self.free_energy = np.full(pairs, np.inf), np.full(pairs, np.inf)
        self.pull, self.pull_weight = np.zeros((*pairs, m, dims)), np.zeros((*pairs, m))

    def sweep(
        self,
        centres: np.ndarray,
        image: np.ndarray,
        centre: np.ndarray,
        beta: np.ndarray,
        tol: float,
        max_iter: int,
    ) -> int:
        """One soft match and one closed-form motion for the given pairs; returns the Sinkhorn
        sweeps done.
        """
        from ._batch_numba import soft_sweep

        return soft_sweep(
            self.images.points,
            self.images.sizes,
            centres,
            self.sizes,
            image,
            centre,
            beta,
            self.motions.outlier_cost,
            self.motions.free,
            self.rotation,
            self.shift,
            self.scale,
            self.row_dual,
            self.col_dual,
            self.distance,
            self.free_energy,
            self.pull,
            self.pull_weight,
            tol,
            max_iter,
        )
