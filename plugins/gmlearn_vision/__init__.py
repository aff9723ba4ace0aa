"""Vision models: grids, denoising with a learnt V(|a - b|), stereo with a learnt gradient-modulated Potts term.

Names are imported on first use, so that registering the plugin does not load scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS: dict[str, str] = {
    name: f"gmlearn_vision.{module}"
    for module, names in {
        "grids": "contrast_bins edge_gradients grid_crf",
        "shapes": "DifferenceShape",
        "denoiser": "Denoiser",
        "posterior": "posterior_marginals",
        "matching_costs": "absolute_differences birchfield_tomasi",
        "stereo": "StereoMatcher",
        "consistency": "bad_pixels check_and_fill non_occluded",
        "middlebury": "StereoPair load_middlebury read_image",
        "rivals": "median_filter non_local_means psnr total_variation",
        "synthetic": "patch_samples piecewise_constant",
    }.items()
    for name in names.split()
}

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'gmlearn_vision' has no attribute {name!r}")
    value = getattr(importlib.import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
