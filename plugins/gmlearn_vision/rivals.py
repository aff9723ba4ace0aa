"""Classical denoisers to compare with, in a few lines each: median, total variation, non-local
means.
"""

from __future__ import annotations

import numpy as np


def median_filter(image: np.ndarray, size: int = 3) -> np.ndarray:
    """Median over size x size windows."""
    from scipy import ndimage

    return ndimage.median_filter(image, size)


def total_variation(image: np.ndarray, weight: float, max_iter: int = 100) -> np.ndarray:
    r"""argmin_u |u - z|^2 / 2 + weight TV(u), isotropic, by Chambolle's dual projection (2004).

    O(H W) in each iteration.
    """
    p = np.zeros((2, *image.shape))
    for _ in range(max_iter):
        slope = _gradient(_divergence(p) - image / weight)
        p = (p + 0.25 * slope) / (1.0 + 0.25 * np.sqrt((slope**2).sum(axis=0)))
    return image - weight * _divergence(p)


def _gradient(u: np.ndarray) -> np.ndarray:
    g = np.zeros((2, *u.shape))
    g[0, :-1], g[1, :, :-1] = np.diff(u, axis=0), np.diff(u, axis=1)
    return g


def _divergence(p: np.ndarray) -> np.ndarray:
    d = p[0] + p[1]
    d[1:] -= p[0, :-1]
    d[:, 1:] -= p[1, :, :-1]
    return d


def non_local_means(
    image: np.ndarray, sigma: float, strength: float = 0.6, patch: int = 5, reach: int = 8
) -> np.ndarray:
    """Average over pixels with similar patches (Buades, Coll, Morel 2005).

    Weights exp(-max(d^2 - 2 sigma^2, 0) / h^2) with h = strength sigma.
    O(H W reach^2): one pass over the image for each of the (2 reach + 1)^2 shifts.
    """
    from scipy import ndimage

    padded = np.pad(image, reach, mode="reflect")
    height, width = image.shape
    total, norm = np.zeros(image.shape), np.zeros(image.shape)
    for dy in range(2 * reach + 1):
        for dx in range(2 * reach + 1):
            shifted = padded[dy : dy + height, dx : dx + width]
            distance = ndimage.uniform_filter((image - shifted) ** 2, patch)
            weight = np.exp(-np.maximum(distance - 2 * sigma**2, 0.0) / (strength * sigma) ** 2)
            total += weight * shifted
            norm += weight
    return total / norm


def psnr(image: np.ndarray, truth: np.ndarray, peak: float = 255.0) -> float:
    """Peak signal-to-noise ratio in dB, of the image clipped to 0..peak."""
    return float(10.0 * np.log10(peak**2 / np.mean((np.clip(image, 0.0, peak) - truth) ** 2)))
