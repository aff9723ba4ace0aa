"""Closed-form similarity transforms between weighted, softly matched point sets (weighted
Procrustes).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

import gmlearn as gm

#: a smaller (or negative) scale would collapse the moved set for good
SMALLEST_SCALE = 1e-6


def fit_rigid(X, Y, match, *, rotation: bool = True, translation: bool = True, scale: bool = False):
    r"""The rotation R, shift t and scale s that bring Y closest to X under a soft match.

    .. math:: \min_{R, t, s} \sum_{jk} m_{jk} |X_j - t - s R Y_k|^2

    With :math:`C = \sum_{jk} m_{jk} (X_j - \bar X)(Y_k - \bar Y)^\top` about the weighted means,
    :math:`R = U \operatorname{diag}(1, .., \det UV^\top) V^\top` for :math:`C = U S V^\top` (in the
    plane the angle is :math:`\operatorname{atan2}(C_{21} - C_{12}, C_{11} + C_{22})`), :math:`s =
    \operatorname{tr}(R^\top C) / \sum m |Y - \bar Y|^2` and :math:`t = \bar X - s R \bar Y`.

    Parameters
    ----------
    X : float (..., J, D).   Y : float (..., K, D), D = 2 or 3.   match : float (..., J, K),
        non-negative.
    rotation, translation, scale : which of them are free; the others stay at the identity, zero and
        one.

    Returns
    -------
    R (..., D, D), t (..., D), s (...)
    """
    X, Y, match = gm.check_array("X", X), gm.check_array("Y", Y), gm.check_array("match", match)
    if X.shape[-1] != Y.shape[-1] or X.shape[-1] not in (2, 3):
        raise ValueError(
            f"X, Y: expected points of one dimension, 2 or 3, got {X.shape[-1]} and {Y.shape[-1]}"
        )
    if match.shape[-2:] != (X.shape[-2], Y.shape[-2]):
        raise ValueError(
            f"match: expected its last axes to be {(X.shape[-2], Y.shape[-2])}, got "
            f"{match.shape[-2:]}"
        )
    if not (match >= 0).all() or not (match.sum((-2, -1)) > 0).all():
        raise ValueError("match: expected non-negative weights with a positive sum in every pair")
    total = match.sum((-2, -1))[..., None]
    x_mean = (match.sum(-1)[..., None] * X).sum(-2) / total * translation
    y_mean = (match.sum(-2)[..., None] * Y).sum(-2) / total * translation
    x, y = X - x_mean[..., None, :], Y - y_mean[..., None, :]
    covariance = np.swapaxes(x, -1, -2) @ match @ y
    R = (
        rotation_of(covariance)
        if rotation
        else np.broadcast_to(np.eye(X.shape[-1]), covariance.shape).copy()
    )
    s = np.ones(covariance.shape[:-2])
    if scale:
        spread = (match.sum(-2) * (y**2).sum(-1)).sum(-1)
        s = np.maximum(
            (R * covariance).sum((-2, -1)) / np.where(spread > 0, spread, 1.0), SMALLEST_SCALE
        )
    return R, x_mean - s[..., None] * (R @ y_mean[..., None])[..., 0], s


def rotation_of(covariance: np.ndarray) -> np.ndarray:
    """The proper rotation with the largest tr(R' C), for C (..., D, D) with D = 2 or 3."""
    if covariance.shape[-1] == 2:
        return planar_rotation(
            np.arctan2(
                covariance[..., 1, 0] - covariance[..., 0, 1],
                covariance[..., 0, 0] + covariance[..., 1, 1],
            )
        )
    left, _, right = np.linalg.svd(covariance)
    left[..., :, -1] *= np.linalg.det(left @ right)[..., None]
    return left @ right


def planar_rotation(angle) -> np.ndarray:
    """Rotation matrices (..., 2, 2) by `angle` (...), counter-clockwise."""
    cos, sin = np.cos(angle), np.sin(angle)
    return np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2)


def principal_frames(points: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Principal axes (I, D, D), columns, right-handed, of sets padded with zeros (I, J, D).

    A frame turns with its set, up to the signs of its axes, which the start rotations below take
    up.
    """
    second_moment = np.swapaxes(points, 1, 2) @ points / sizes[:, None, None]
    frames = np.linalg.eigh(second_moment)[1]
    frames[:, :, 0] *= np.linalg.det(frames)[:, None]
    return frames


@lru_cache(maxsize=16)
def start_rotations(
    dims: int, n_starts: int, max_rotation: float | None = None, reflection: bool = False
) -> np.ndarray:
    """Rotations (S, D, D) to try between two frames; with `reflection` also their mirror images.

    With no limit every change of the axes' signs maps them to each other: in the plane `n_starts`
    equal turns (made even), in space the 24 rotations of the cube, from 25 on the 60 of the
    icosahedron, from 61 on a `covering` of all rotations. Because the set absorbs the sign
    ambiguity of principal axes, the starts turn with the points, and the distance is invariant even
    where the search is not exhaustive. With a limit (radians): turns up to it, to be used without
    principal axes.
    """
    if n_starts == 1:
        turns = np.eye(dims)[None]
    else:
        turns = _turns(dims, n_starts, max_rotation)
    if reflection:
        turns = np.concatenate([turns, turns @ np.diag([-1.0] + [1.0] * (dims - 1))])
    return turns


def covering(n_cells: int) -> np.ndarray:
    """4 n^3 rotations in space (S, 3, 3), none of all farther than about 156/n degrees from one.

    Rotations are the points of the sphere of unit quaternions, opposite points being the same. Its
    half is covered by four of the eight faces of a cube, each with n x n x n points at equal
    angles. The set is closed under products with half turns about the axes, from either side: they
    only permute the coordinates of a quaternion and change their signs.
    """
    from scipy.spatial.transform import Rotation

    line = np.tan((np.arange(n_cells) + 0.5 - n_cells / 2) * (np.pi / 2) / n_cells)
    face = np.stack(np.meshgrid(line, line, line, indexing="ij"), -1).reshape(-1, 3)
    faces = [np.insert(face, axis, 1.0, axis=1) for axis in range(4)]
    return Rotation.from_quat(np.concatenate(faces)).as_matrix()


def _turns(dims: int, n_starts: int, max_rotation: float | None) -> np.ndarray:
    if dims == 2 and max_rotation is not None:
        return planar_rotation(
            np.linspace(-max_rotation, max_rotation, n_starts + 1 - n_starts % 2)
        )
    if dims == 2:
        n_starts += n_starts % 2
        return planar_rotation(2 * np.pi * np.arange(n_starts) / n_starts)
    if n_starts > 60:
        turns = covering(round((n_starts / 4) ** (1 / 3)))
    else:
        from scipy.spatial.transform import Rotation

        turns = Rotation.create_group("O" if n_starts <= 24 else "I").as_matrix()
    if max_rotation is None:
        return turns
    angle = np.arccos(np.clip((np.trace(turns, axis1=1, axis2=2) - 1) / 2, -1.0, 1.0))
    return np.concatenate([np.eye(3)[None], turns[(angle <= max_rotation) & (angle > 1e-9)]])
