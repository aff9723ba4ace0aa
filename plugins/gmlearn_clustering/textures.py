"""Texture descriptors of grey images: several views for the clustering of KTH-TIPS."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy import ndimage

#: images described at a time
_AT_ONCE = 8


@lru_cache(maxsize=1)
def kth_views(path: Path) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Descriptors (views), classes and scales of the KTH-TIPS images in an archive."""
    with np.load(path) as archive:
        images, labels = archive["images"].astype(np.float64), archive["labels"].astype(np.int64)
        scale = archive["scale"].astype(np.int64)
    return texture_views(images), labels, scale


def texture_views(images: np.ndarray) -> list[np.ndarray]:
    """Local binary patterns, rotation-invariant patterns, oriented gradients, filter energies,
    spectrum, grey histogram.

    images : (N, H, W). Every image is brought to zero mean and unit variance first, but for the
    grey histogram. A few images at a time, so that the filtered ones stay in the cache.
    """
    parts = [_views_of(images[i : i + _AT_ONCE]) for i in range(0, len(images), _AT_ONCE)]
    return [np.vstack(view) for view in zip(*parts)]


def _views_of(images: np.ndarray) -> list[np.ndarray]:
    normal = (images - images.mean(axis=(1, 2), keepdims=True)) / np.maximum(
        images.std(axis=(1, 2), keepdims=True), 1e-12
    )
    codes = [_binary_pattern(normal, radius) for radius in (1, 2, 4)]
    patterns = np.hstack([np.sqrt(_histograms(c, 256)) for c in codes])
    invariant = np.hstack([np.sqrt(_histograms(_ROTATION_CLASS[c], 36)) for c in codes])
    return [
        patterns,
        invariant,
        _oriented_gradients(normal),
        _filter_energies(normal),
        _radial_spectrum(normal),
        np.sqrt(_histograms((images / 8).astype(np.int64), 32)),
    ]


def _binary_pattern(images: np.ndarray, radius: int) -> np.ndarray:
    """Codes 0..255: which of eight neighbours at a distance are brighter than the pixel."""
    steps = [(0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1)]
    size_y, size_x = images.shape[1] - 2 * radius, images.shape[2] - 2 * radius
    centre = images[:, radius:-radius, radius:-radius]
    code = np.zeros(centre.shape, dtype=np.int64)
    for bit, (dy, dx) in enumerate(steps):
        y, x = radius + dy * radius, radius + dx * radius
        code |= (images[:, y : y + size_y, x : x + size_x] >= centre).astype(np.int64) << bit
    return code


def _rotation_classes() -> np.ndarray:
    """The class 0..35 of every 8-bit code up to rotation."""
    smallest = [
        min(((code >> r) | (code << (8 - r))) & 255 for r in range(8)) for code in range(256)
    ]
    return np.unique(smallest, return_inverse=True)[1]


_ROTATION_CLASS = _rotation_classes()


def _histograms(codes: np.ndarray, n_bins: int) -> np.ndarray:
    """Relative frequencies (N, n_bins) of the codes of every image."""
    flat = codes.reshape(len(codes), -1)
    offset = np.arange(len(codes))[:, None] * n_bins
    return (
        np.bincount((flat + offset).ravel(), minlength=len(codes) * n_bins).reshape(
            len(codes), n_bins
        )
        / flat.shape[1]
    )


def _oriented_gradients(images: np.ndarray, n_bins: int = 12) -> np.ndarray:
    """Gradient magnitude by orientation at three scales."""
    views = []
    for sigma in (1.0, 2.0, 4.0):
        gy = ndimage.gaussian_filter(images, (0, sigma, sigma), order=(0, 1, 0))
        gx = ndimage.gaussian_filter(images, (0, sigma, sigma), order=(0, 0, 1))
        angle = ((np.arctan2(gy, gx) % np.pi) / np.pi * n_bins).astype(np.int64) % n_bins
        magnitude = np.hypot(gx, gy)
        views.append(
            np.stack(
                [np.where(angle == b, magnitude, 0.0).mean(axis=(1, 2)) for b in range(n_bins)],
                axis=1,
            )
        )
    return np.sqrt(np.hstack(views))


def _filter_energies(images: np.ndarray) -> np.ndarray:
    """Mean, spread and kurtosis-like moment of Laplacian, edge and ridge responses at five
    scales (rotation invariant).
    """
    columns = []
    for sigma in (0.7, 1.0, 2.0, 3.5, 6.0):
        second = [
            ndimage.gaussian_filter(images, (0, sigma, sigma), order=(0, *o))
            for o in ((2, 0), (0, 2), (1, 1))
        ]
        trace = second[0] + second[1]
        gap = np.hypot(second[0] - second[1], 2 * second[2])
        edge = ndimage.gaussian_gradient_magnitude(images, (0, sigma, sigma))
        for response in (trace, 0.5 * (trace + gap), 0.5 * (trace - gap), edge):
            spread = response.std(axis=(1, 2))
            # its mean is 0 but for rounding, which must not become a feature
            if response is not trace:
                columns.append(response.mean(axis=(1, 2)))
            columns += [
                np.log(spread + 1e-9),
                np.log((np.abs(response) ** 3).mean(axis=(1, 2)) / (spread**3 + 1e-9) + 1e-9),
            ]
    return np.stack(columns, axis=1)


def _radial_spectrum(images: np.ndarray, n_rings: int = 16, n_angles: int = 8) -> np.ndarray:
    """Log power in rings and in angular sectors of the Fourier plane."""
    power = np.abs(np.fft.fftshift(np.fft.fft2(images), axes=(1, 2))) ** 2
    height, width = images.shape[1:]
    y, x = np.indices((height, width))
    y, x = y - height // 2, x - width // 2
    ring = np.minimum(
        (np.log1p(np.hypot(x, y)) / np.log1p(min(height, width) / 2) * n_rings).astype(int),
        n_rings - 1,
    )
    sector = ((np.arctan2(y, x) % np.pi) / np.pi * n_angles).astype(int) % n_angles
    flat = power.reshape(len(images), -1)
    sums = [flat[:, (ring == r).ravel()].mean(axis=1) for r in range(n_rings) if (ring == r).any()]
    sums += [
        flat[:, ((sector == s) & (ring >= n_rings // 2)).ravel()].mean(axis=1)
        for s in range(n_angles)
    ]
    return np.log(np.stack(sums, axis=1) + 1e-9)
