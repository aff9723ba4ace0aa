"""What it costs to give a left pixel a disparity: truncated absolute differences, plain or after
Birchfield and Tomasi.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import gmlearn as gm


def _pair(left: Any, right: Any) -> tuple[np.ndarray, np.ndarray]:
    """Both images as float (H, W, C)."""
    left = gm.check_array("left", left, ndim=(2, 3))
    right = gm.check_array("right", right, ndim=(2, 3))
    if left.shape != right.shape:
        raise ValueError(
            f"right: expected the shape {left.shape} of the left image, got {right.shape}"
        )
    return left.reshape(*left.shape[:2], -1), right.reshape(*right.shape[:2], -1)


def absolute_differences(
    left: Any, right: Any, disparities: int, truncation: float = np.inf
) -> np.ndarray:
    """min(|I_left(p) - I_right(p - d)|, truncation) for d = 0..disparities-1, mean over channels,
    (H, W, disparities).

    Pixels that would match outside the right image are compared with its border.
    """
    left, right = _pair(left, right)
    return _volume(
        left.shape[1],
        disparities,
        truncation,
        lambda columns: np.abs(left - right[:, columns]).mean(axis=2),
    )


def birchfield_tomasi(
    left: Any, right: Any, disparities: int, truncation: float = np.inf
) -> np.ndarray:
    """The same, insensitive to sampling: the smallest difference between a pixel and the other's
    half-pixel neighbourhood.

    References
    ----------
    S. Birchfield, C. Tomasi. A pixel dissimilarity measure that is insensitive to image sampling.
    PAMI 1998.
    """
    left, right = _pair(left, right)
    left_low, left_high = _half_pixel_range(left)
    right_low, right_high = _half_pixel_range(right)

    def cost(columns: np.ndarray) -> np.ndarray:
        one = np.maximum(
            np.maximum(left - right_high[:, columns], right_low[:, columns] - left), 0.0
        )
        other = np.maximum(
            np.maximum(right[:, columns] - left_high, left_low - right[:, columns]), 0.0
        )
        return np.minimum(one, other).mean(axis=2)

    return _volume(left.shape[1], disparities, truncation, cost)


def _half_pixel_range(image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest value within half a pixel along the row, by linear interpolation."""
    padded = np.pad(image, ((0, 0), (1, 1), (0, 0)), mode="edge")
    before, after = 0.5 * (image + padded[:, :-2]), 0.5 * (image + padded[:, 2:])
    return np.minimum(np.minimum(before, after), image), np.maximum(
        np.maximum(before, after), image
    )


def _volume(width: int, disparities: int, truncation: float, cost: Any) -> np.ndarray:
    gm.check_number("disparities", disparities, low=1, integer=True)
    gm.check_number("truncation", truncation, low=1e-300)  # inf is fine
    slices = [cost(np.maximum(np.arange(width) - d, 0)) for d in range(disparities)]
    return np.minimum(np.stack(slices, axis=2), truncation)
