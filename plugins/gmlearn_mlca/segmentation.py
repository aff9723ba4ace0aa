"""Per-pixel features of small colour images: gradient histograms like SIFT, colour, and both
over several scales.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter, uniform_filter

import gmlearn as gm

ORIENTATIONS = 8
CELLS = 4
#: where `colour_channels` keeps Lab
LAB = slice(3, 6)
#: sRGB (D65) to XYZ, divided by the white point
TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
) / np.array([[0.95047], [1.0], [1.08883]])


def load_images(path: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Colour images (H, W, 3) uint8 and figure masks (H, W) from an npz with ``image_00``,
    ``mask_00``, ...
    """
    with np.load(path, allow_pickle=False) as archive:
        numbers = sorted(name[6:] for name in archive.files if name.startswith("image_"))
        return [archive[f"image_{i}"] for i in numbers], [archive[f"mask_{i}"] for i in numbers]


def colour_channels(image: Any) -> np.ndarray:
    """RGB in 0..1, CIE Lab over 100, and intensity: (H, W, 7) float32."""
    rgb = np.asarray(image, np.float32) / 255.0
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = linear @ TO_XYZ.T.astype(np.float32)
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    lab = (
        np.stack(
            [116 * f[..., 1] - 16, 500 * (f[..., 0] - f[..., 1]), 200 * (f[..., 1] - f[..., 2])],
            axis=-1,
        )
        / 100.0
    )
    return np.concatenate([rgb, lab, rgb.mean(axis=-1, keepdims=True)], axis=-1).astype(np.float32)


def gradient_histograms(intensity: np.ndarray, cell: int = 3, root: bool = False) -> np.ndarray:
    """A SIFT-like descriptor of the patch around every pixel: 4 x 4 cells of 8 orientations, (H, W,
    128) float32.

    Gradient magnitudes are shared linearly between the two nearest orientations and summed over
    cells of `cell` x `cell` pixels; the descriptor has unit length, is clipped at 0.2 and
    normalised again (Lowe 2004). With `root`, cells are Gaussian windows and the descriptor is the
    square root of its shares of the sum (Arandjelovic and Zisserman 2012).
    """
    H, W = intensity.shape
    dy, dx = np.gradient(gaussian_filter(intensity, cell / 4.0))
    angle = (np.arctan2(dy, dx) % (2 * np.pi)) * (ORIENTATIONS / (2 * np.pi))
    magnitude = np.hypot(dx, dy)
    centre = np.arange(ORIENTATIONS)[:, None, None]
    distance = np.abs(angle - centre)
    share = np.maximum(0.0, 1.0 - np.minimum(distance, ORIENTATIONS - distance)) * magnitude
    smooth = np.stack(
        [
            gaussian_filter(channel, cell / 2.0) if root else uniform_filter(channel, cell)
            for channel in share
        ]
    ).astype(np.float32)
    margin = 2 * cell
    padded = np.pad(smooth, ((0, 0), (margin, margin), (margin, margin)), mode="reflect")
    offsets = margin + (np.arange(CELLS) * cell - (CELLS - 1) * cell // 2)
    descriptor = np.stack([padded[:, a : a + H, b : b + W] for a in offsets for b in offsets])
    # running sums leave -1e-18
    descriptor = np.maximum(np.moveaxis(descriptor.reshape(-1, H, W), 0, -1), 0.0)
    if root:
        return np.sqrt(descriptor / (descriptor.sum(axis=-1, keepdims=True) + 1e-3)).astype(
            np.float32
        )
    for limit in (0.2, np.inf):
        norm = np.sqrt(np.einsum("hwf,hwf->hw", descriptor, descriptor))[..., None]
        descriptor = np.minimum(descriptor / (norm + 1e-3), limit)
    return descriptor.astype(np.float32)


def border_contrast(channels: np.ndarray, blur: float) -> np.ndarray:
    """How far colours are from those within 3 pixels of the image's edge, background more often
    than not: (H, W, 8).

    For `channels` (H, W, 7) averaged with standard deviation `blur`: |difference to the border's
    mean| by channel, and log(1 + m), m the Mahalanobis distance to the border in Lab.
    """
    edges = channels[:3], channels[-3:], channels[:, :3], channels[:, -3:]
    border = np.concatenate([edge.reshape(-1, channels.shape[-1]) for edge in edges])
    difference = gaussian_filter(channels, (blur, blur, 0.0)) - border.mean(axis=0)
    spread = np.cov(border[:, LAB].T) + 1e-4 * np.eye(3)  # a plain border has no spread of its own
    lab = difference[..., LAB]
    distance = np.sqrt(np.einsum("hwi,ij,hwj->hw", lab, np.linalg.inv(spread), lab))
    return np.concatenate([np.abs(difference), np.log1p(distance)[..., None]], axis=-1)


def patch_features(
    image: Any, cell: int = 3, blur: float = 1.0, colour: str = "contrast", root: bool = True
) -> np.ndarray:
    """SIFT-like and colour, the latter averaged over the pixel's neighbours: (H W, 135) float32.

    Parameters
    ----------
    image : (H, W, 3) uint8.
    cell, root : of `gradient_histograms`; the patch is 4 cells wide.
    blur : standard deviation, in pixels, of the Gaussian that averages colours.
    colour : "plain": RGB, Lab and intensity; "contrast": Lab and its contrast to the image's
        border.
    """
    gm.check_choice("colour", colour, ("plain", "contrast"))
    channels = colour_channels(image)
    colours = gaussian_filter(channels, (blur, blur, 0.0))
    if colour == "contrast":
        contrast = border_contrast(channels, blur)
        colours = np.concatenate(
            [colours[..., LAB], contrast[..., LAB], contrast[..., -1:]], axis=-1
        )
    return _rows([gradient_histograms(channels[..., 6], cell, root), colours])


def multiscale_features(
    image: Any, cells: tuple[int, int] = (4, 8), root: bool = True
) -> np.ndarray:
    """Gradient histograms at two scales, colour means and spreads at four, contrast to the border,
    and position.

    (H W, 316) float32; the position is a quadratic without the side to side slope.
    """
    colours = colour_channels(image)
    H, W = colours.shape[:2]
    parts = [*(gradient_histograms(colours[..., 6], cell, root) for cell in cells), colours]
    for sigma in (2.0, 4.0, 8.0):
        mean = gaussian_filter(colours, (sigma, sigma, 0))
        parts += [
            mean,
            np.sqrt(np.maximum(gaussian_filter(colours**2, (sigma, sigma, 0)) - mean**2, 0.0)),
        ]
    parts.append(border_contrast(colours, 2.0))
    y, x = np.meshgrid(np.linspace(-1, 1, H), np.linspace(-1, 1, W), indexing="ij")
    return _rows([*parts, np.stack([y, x * x, y * y], axis=-1)])


def _rows(parts: list[np.ndarray]) -> np.ndarray:
    """Maps (H, W, f) side by side, one row per pixel."""
    table = np.concatenate(parts, axis=-1).astype(np.float32)
    return table.reshape(-1, table.shape[-1])
