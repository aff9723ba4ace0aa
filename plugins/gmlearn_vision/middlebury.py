"""Loaders for Middlebury-style stereo folders: left.png, right.png, disparity.png and, where
given, disparity_right.png.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gmlearn as gm

#: grey levels per pixel of disparity in the published maps
SCALES = {
    "bull": 8,
    "poster": 8,
    "sawtooth": 8,
    "venus": 8,
    "barn1": 8,
    "barn2": 8,
    "tsukuba": 16,
    "teddy": 4,
    "cones": 4,
}


@dataclass(frozen=True)
class StereoPair:
    """left, right : float (H, W, C) in 0..255.   disparity, disparity_right : float (H, W) in
    pixels, NaN where unknown, or None."""

    name: str
    left: np.ndarray
    right: np.ndarray
    disparity: np.ndarray | None = None
    disparity_right: np.ndarray | None = None


def read_image(path: Any) -> np.ndarray:
    """An 8-bit image as floats 0..255, (H, W) or (H, W, 3)."""
    from matplotlib.image import imread

    image = imread(path)
    image = np.rint(255.0 * image) if image.dtype.kind == "f" else image.astype(float)
    return image[..., :3] if image.ndim == 3 else image


def load_middlebury(folder: Any, scale: float | None = None) -> StereoPair:
    """Read one scene.

    Parameters
    ----------
    folder : holds left.png, right.png and perhaps disparity.png, disparity_right.png (0 = unknown).
    scale : grey levels per pixel of disparity; None: by the folder's name, for the scenes in
        `SCALES`.
    """
    folder = Path(folder)
    missing = [n for n in ("left.png", "right.png") if not (folder / n).exists()]
    if missing:
        raise FileNotFoundError(f"folder: expected {missing[0]} in {folder}, found nothing there")
    if scale is None:
        if folder.name not in SCALES:
            raise ValueError(
                f"scale: not known for {folder.name!r} (known: {', '.join(SCALES)}); give the "
                f"grey levels per pixel"
            )
        scale = SCALES[folder.name]
    gm.check_number("scale", scale, low=0, strict=True)
    left, right = (read_image(folder / n) for n in ("left.png", "right.png"))
    return StereoPair(
        folder.name,
        left,
        right,
        _disparity(folder / "disparity.png", scale),
        _disparity(folder / "disparity_right.png", scale),
    )


def _disparity(path: Path, scale: float) -> np.ndarray | None:
    if not path.exists():
        return None
    grey = read_image(path)
    grey = grey if grey.ndim == 2 else grey[..., 0]
    return np.where(grey > 0, grey / scale, np.nan)
