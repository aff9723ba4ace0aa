"""Vision models: grids, denoising with a learnt V(|a - b|), stereo with a learnt gradient-modulated Potts term.

Names are imported on first use, so that registering the plugin does not load scikit-learn.
"""

import gmlearn as gm

__getattr__, __dir__, __all__ = gm.lazy_exports(
    __name__,
    {
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
    },
)
