from gmlearn_vision.consistency import (
    bad_pixels as bad_pixels,
    check_and_fill as check_and_fill,
    non_occluded as non_occluded,
)
from gmlearn_vision.denoiser import Denoiser as Denoiser
from gmlearn_vision.grids import (
    contrast_bins as contrast_bins,
    edge_gradients as edge_gradients,
    grid_crf as grid_crf,
)
from gmlearn_vision.matching_costs import (
    absolute_differences as absolute_differences,
    birchfield_tomasi as birchfield_tomasi,
)
from gmlearn_vision.middlebury import (
    StereoPair as StereoPair,
    load_middlebury as load_middlebury,
    read_image as read_image,
)
from gmlearn_vision.pattern_denoiser import PatternDenoiser as PatternDenoiser
from gmlearn_vision.posterior import posterior_marginals as posterior_marginals
from gmlearn_vision.rivals import (
    median_filter as median_filter,
    non_local_means as non_local_means,
    psnr as psnr,
    total_variation as total_variation,
)
from gmlearn_vision.shapes import DifferenceShape as DifferenceShape
from gmlearn_vision.stereo import StereoMatcher as StereoMatcher
from gmlearn_vision.synthetic import (
    patch_samples as patch_samples,
    piecewise_constant as piecewise_constant,
)
