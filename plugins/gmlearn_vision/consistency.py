"""Left/right consistency: which pixels both images see, repair of those that only one sees, and
the error that is reported.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import gmlearn as gm


def agrees(
    disparity: np.ndarray, other: np.ndarray, sign: int = -1, tolerance: float = 1.0
) -> np.ndarray:
    """bool (H, W): does the match of a pixel point back to it, within `tolerance` pixels?

    sign = -1 for a left map (its match lies at x - d in the right map), +1 for a right map. Unknown
    (NaN) never agrees.
    """
    width = disparity.shape[1]
    target = np.arange(width) + sign * np.rint(np.nan_to_num(disparity)).astype(np.int64)
    inside = (target >= 0) & (target < width)
    back = np.take_along_axis(other, np.clip(target, 0, width - 1), axis=1)
    with np.errstate(invalid="ignore"):
        return inside & (np.abs(back - disparity) <= tolerance)


def non_occluded(disparity: Any, disparity_right: Any, tolerance: float = 1.0) -> np.ndarray:
    """bool (H, W): left pixels that the right image sees too, by cross-checking the two true
    maps.
    """
    left = gm.check_array("disparity", disparity, ndim=2, allow_nan=True)
    right = gm.check_array("disparity_right", disparity_right, shape=left.shape, allow_nan=True)
    return agrees(left, right, -1, tolerance)


def check_and_fill(disparity: Any, disparity_right: Any, tolerance: float = 1.0) -> np.ndarray:
    """Replace left disparities that the right map contradicts by the smaller of the nearest
    consistent ones in the row.

    What only one image sees is background, so the smaller disparity is the better guess. Rows
    without any consistent pixel are left as they are. O(H W).
    """
    left = gm.check_array("disparity", disparity, ndim=2)
    right = gm.check_array("disparity_right", disparity_right, shape=left.shape)
    good = agrees(left, right, -1, tolerance)
    width = left.shape[1]
    position = np.arange(width)
    before = np.maximum.accumulate(np.where(good, position, -1), axis=1)
    after = np.minimum.accumulate(np.where(good, position, width)[:, ::-1], axis=1)[:, ::-1]
    from_before = np.where(
        before >= 0, np.take_along_axis(left, np.maximum(before, 0), axis=1), np.inf
    )
    from_after = np.where(
        after < width, np.take_along_axis(left, np.minimum(after, width - 1), axis=1), np.inf
    )
    guess = np.minimum(from_before, from_after)
    return np.where(good | np.isinf(guess), left, guess)


def bad_pixels(
    disparity: Any, truth: Any, region: Any = None, tolerance: float = 1.0, border: int = 10
) -> float:
    """Share of pixels with an error above `tolerance`, without unknown ones (NaN) and a border;
    `region` limits it further.
    """
    disparity = gm.check_array("disparity", disparity, ndim=2)
    truth = gm.check_array("truth", truth, shape=disparity.shape, allow_nan=True)
    counted = ~np.isnan(truth)
    if region is not None:
        counted &= np.asarray(region, bool)
    if border:
        inner = np.zeros_like(counted)
        inner[border:-border, border:-border] = True
        counted &= inner
    if not counted.any():
        raise ValueError("truth: no pixel is left to count")
    return float(np.mean(np.abs(disparity - truth)[counted] > tolerance))
