"""What may move, and the state of all pairs that the sweeps carry on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import gmlearn as gm

from .sets import PointSets


class PairArrays(NamedTuple):
    """Pairs (image[p], centre[p]) of the sets x (I, J, D) and y (A, K, D), padded, with their
    sizes (I,), (A,).
    """

    x: np.ndarray
    x_size: np.ndarray
    y: np.ndarray
    y_size: np.ndarray
    image: np.ndarray
    centre: np.ndarray


class SoftState(NamedTuple):
    """The arrays of a `MatchState`.

    rotation (I, A, D, D), shift (I, A, D), scale (I, A), row_dual (I, A, J + 1), col_dual (I, A,
    K + 1).   distance, free_energy (I, A).
    pull (I, A, K, D) = sum_j m_jk s R'(x_j - t), pull_weight (I, A, K) = sum_j m_jk s^2 : their
        ratio is where the pair would put the centre's points.
    """

    rotation: np.ndarray
    shift: np.ndarray
    scale: np.ndarray
    row_dual: np.ndarray
    col_dual: np.ndarray
    distance: np.ndarray
    free_energy: np.ndarray
    pull: np.ndarray
    pull_weight: np.ndarray


class HardState(NamedTuple):
    """The best match of each pair: rotation (P, D, D), shift (P, D), scale (P,), partner (P, J),
    -1 for none, distance (P,).
    """

    rotation: np.ndarray
    shift: np.ndarray
    scale: np.ndarray
    partner: np.ndarray
    distance: np.ndarray


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

    @property
    def arrays(self) -> PairArrays:
        """The sets and the pairs, as compiled kernels read them."""
        x, y = self.x, self.y
        return PairArrays(x.points, x.sizes, y.points, y.sizes, self.image, self.centre)


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

        images = self.images
        pairs = PairArrays(images.points, images.sizes, centres, self.sizes, image, centre)
        state = SoftState(*(getattr(self, name) for name in SoftState._fields))
        price = self.motions.outlier_cost
        return soft_sweep(pairs, beta, price, self.motions.free, state, tol, max_iter)
