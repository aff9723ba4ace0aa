"""Matching costs, the tolerance loss, left/right checks, loaders, StereoMatcher."""

import pathlib

import matplotlib.image
import numpy as np
import pytest
from gmlearn_vision import (
    StereoMatcher,
    absolute_differences,
    bad_pixels,
    birchfield_tomasi,
    check_and_fill,
    load_middlebury,
    non_occluded,
)
from gmlearn_vision.stereo import ToleranceLoss

import gmlearn as gm

DATA = pathlib.Path(__file__).parents[4] / "shared" / "data" / "stereo"


def test_absolute_differences_by_hand():
    left, right = np.array([[10.0, 20.0, 40.0]]), np.array([[12.0, 35.0, 36.0]])
    expected = np.array([[[2, 2], [15, 8], [4, 5]]])
    assert np.array_equal(absolute_differences(left, right, 2), expected)
    assert np.array_equal(absolute_differences(left, right, 2, 5.0), np.minimum(expected, 5))
    colour = absolute_differences(np.stack([left, left + 2], 2), np.stack([right, right], 2), 2)
    assert colour[0, 2, 0] == 5.0


def test_birchfield_tomasi_forgives_sampling():
    """A ramp sampled half a pixel later costs nothing, and no pixel costs more than by absolute
    differences.
    """
    x = np.arange(20.0)
    left, right = np.tile(10 * x, (3, 1)), np.tile(10 * (x + 0.5), (3, 1))
    assert (birchfield_tomasi(left, right, 1)[:, 1:-1] == 0).all()
    assert (absolute_differences(left, right, 1) == 5).all()
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 6, 9, 3))
    assert (birchfield_tomasi(a, b, 4) <= absolute_differences(a, b, 4) + 1e-12).all()


def test_tolerance_loss():
    crf = gm.CRF(4, 5)
    loss = ToleranceLoss([2.5, np.nan, 0.0, 9.0], 1.0)
    wrong = loss.wrong(5)
    assert wrong.tolist() == [
        [True, True, False, False, True],
        [False] * 5,
        [False, False, True, True, True],
        [True] * 4 + [False],
    ]
    x, observed = np.array([4, 4, 1, 0]), np.ones(4, bool)
    assert loss.value(crf, x, x, observed) == 2
    augmented = loss.augment(crf, x)
    assert augmented.energy(x) == -2


def scene(rng, height=24, width=40, front=5, back=2, labels=8):
    """A textured square in front of a textured background, and its two true maps."""
    disparity, disparity_right = (
        np.full((height, width), float(back)),
        np.full((height, width), float(back)),
    )
    disparity[6:18, 15:30] = front
    disparity_right[6:18, 15 - front : 30 - front] = front
    texture = rng.random((height, width + labels)) * 200
    near = rng.random((height, width + labels)) * 200
    x = np.arange(width)
    left = np.where(disparity == front, near[:, x], texture[:, x])
    right = np.where(disparity_right == front, near[:, x + front], texture[:, x + back])
    return left, right, disparity, disparity_right


def test_non_occluded_and_fill():
    _, _, disparity, disparity_right = scene(np.random.default_rng(0))
    seen = non_occluded(disparity, disparity_right)
    assert not seen[10, 12:15].any() and seen[10, 15:30].all() and seen[10, 5:12].all()
    guess = np.where(seen, disparity, 7.0)
    assert np.array_equal(check_and_fill(guess, disparity_right)[:, 2:], disparity[:, 2:])
    hopeless = np.full((2, 4), 3.0)
    assert np.array_equal(check_and_fill(hopeless, np.zeros((2, 4))), hopeless)


def test_bad_pixels_leaves_out_border_unknown_and_region():
    truth, found = np.zeros((30, 30)), np.zeros((30, 30))
    found[0, :], found[15, 15], found[15, 16], found[15, 17] = 9, 2, 1, 5
    truth[15, 17] = np.nan
    assert bad_pixels(found, truth) == pytest.approx(1 / 99)
    region = np.zeros((30, 30), bool)
    region[15, 15:17] = True
    assert bad_pixels(found, truth, region) == 0.5
    with pytest.raises(ValueError, match="no pixel is left"):
        bad_pixels(found, truth, ~np.ones((30, 30), bool))


@pytest.fixture(scope="module")
def trained():
    left, right, disparity, _ = scene(np.random.default_rng(1))
    noise = np.random.default_rng(2).normal(scale=25, size=(2, *left.shape))
    truth = disparity.copy()
    truth[:3] = np.nan
    matcher = StereoMatcher(
        8,
        cost="absolute",
        truncation=60.0,
        thresholds=(20.0, 80.0),
        max_iter=12,
        completion_every=5,
    )
    return matcher.fit([(left + noise[0], right + noise[1])], [truth])


def test_training_beats_no_smoothing(trained):
    left, right, disparity, disparity_right = scene(np.random.default_rng(5))
    noise = np.random.default_rng(6).normal(scale=25, size=(2, *left.shape))
    left, right = left + noise[0], right + noise[1]
    seen = non_occluded(disparity, disparity_right)
    learnt = bad_pixels(trained.predict(left, right), disparity, seen, border=1)
    pointwise = bad_pixels(
        absolute_differences(left, right, 8).argmin(axis=2).astype(float), disparity, seen, border=1
    )
    assert learnt < 0.5 * pointwise
    assert trained.data_weight_ >= 0 and (trained.contrast_weights_ >= 0).all()
    filled = check_and_fill(trained.predict(left, right), trained.predict_right(left, right))
    assert np.array_equal(trained.predict(left, right, check=True), filled)


def test_right_map_is_that_of_the_mirrored_pair(trained):
    left, right, _, disparity_right = scene(np.random.default_rng(7))
    assert np.mean(np.abs(trained.predict_right(left, right) - disparity_right) > 1) < 0.2


def test_completion_lowers_the_objective_and_stays_within_tolerance(trained):
    labels = trained.model_.completions[0].reshape(24, 40)
    disparity = scene(np.random.default_rng(1))[2]
    assert (np.abs(labels - disparity)[3:] <= 1).all()
    evaluated = [v for v in trained.model_.history.objective if np.isfinite(v)]
    assert evaluated[-1] < evaluated[0]


def test_plot_contrast(trained):
    assert trained.plot_contrast().patches[0].get_data().values == pytest.approx(
        trained.contrast_weights_ / trained.data_weight_
    )


@pytest.mark.parametrize("connectivity", [4, 8])
def test_energy_is_matching_costs_plus_the_modulated_potts_term(connectivity):
    """Pixel by pixel and edge by edge, with f a step function of the contrast; diagonals count
    by their length.
    """
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 256, (2, 5, 6)).astype(float)
    matcher = StereoMatcher(
        4, cost="absolute", truncation=50.0, thresholds=(30.0, 90.0), connectivity=connectivity
    )
    f, x = np.array([3.0, 2.0, 0.5]), rng.integers(4, size=(5, 6))
    expected = (
        7.0
        * np.take_along_axis(
            absolute_differences(left, right, 4, 50.0) / 50.0, x[..., None], axis=2
        ).sum()
    )
    for dy, dx in [(0, 1), (1, 0), (1, 1), (1, -1)][: connectivity // 2]:
        for y in range(5 - dy):
            for c in range(max(-dx, 0), 6 - max(dx, 0)):
                contrast = abs(left[y, c] - left[y + dy, c + dx])
                expected += (
                    f[np.searchsorted([30.0, 90.0], contrast, side="right")]
                    / np.hypot(dy, dx)
                    * (x[y, c] != x[y + dy, c + dx])
                )
    assert matcher.crf(left, right).energy(
        x.ravel(), {"data": np.array([7.0]), "contrast": f}
    ) == pytest.approx(expected)
    found = matcher.set_weights({"data": np.array([7.0]), "contrast": f}).predict(left, right)
    assert found.shape == (5, 6)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"cost": "census"}, "cost: expected one of"),
        ({"connectivity": 6}, "connectivity: expected one of"),
        ({"truncation": 0}, "truncation: expected a number"),
        ({"thresholds": (3.0, 1.0)}, "thresholds: expected strictly increasing"),
        ({"disparities": 1}, "disparities: expected a number"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    image = np.zeros((4, 5))
    with pytest.raises(ValueError, match=message):
        StereoMatcher(**{"disparities": 3, **parameters}).fit([(image, image)], [image])


def test_bad_pairs_are_named():
    image = np.zeros((4, 5))
    with pytest.raises(ValueError, match="y: expected one map for each of the 1 pairs"):
        StereoMatcher(3).fit([(image, image)], [])
    with pytest.raises(ValueError, match=r"y\[0\]: expected shape \(4, 5\)"):
        StereoMatcher(3).fit([(image, image)], [np.zeros((2, 2))])
    with pytest.raises(ValueError, match="no pixel is known"):
        StereoMatcher(3).fit([(image, image)], [image * np.nan])
    with pytest.raises(ValueError, match="right: expected the shape"):
        absolute_differences(image, np.zeros((4, 4)), 2)


def test_loader(tmp_path):
    folder = tmp_path / "tsukuba"
    folder.mkdir()
    with pytest.raises(FileNotFoundError, match=r"expected left\.png"):
        load_middlebury(folder)
    image = np.random.default_rng(0).integers(0, 256, (5, 6, 3)).astype(np.uint8)
    grey = np.zeros((5, 6), np.uint8)
    grey[2] = 48
    for name in ("left", "right"):
        matplotlib.image.imsave(folder / f"{name}.png", image)
    matplotlib.image.imsave(folder / "disparity.png", np.stack([grey] * 3, axis=2))
    pair = load_middlebury(folder)
    assert np.array_equal(pair.left, image)
    assert (pair.disparity[2] == 3).all() and np.isnan(pair.disparity[0]).all()
    assert pair.disparity_right is None
    other = tmp_path / "unheard_of"
    folder.rename(other)
    with pytest.raises(ValueError, match="scale: not known for 'unheard_of'"):
        load_middlebury(other)
    assert load_middlebury(other, scale=8).disparity[2, 0] == 6


@pytest.mark.skipif(not DATA.exists(), reason="needs the Middlebury pairs beside the checkout")
def test_real_scene():
    venus = load_middlebury(DATA / "venus")
    assert venus.left.shape == (383, 434, 3)
    assert np.nanmax(venus.disparity) == pytest.approx(19.8, abs=0.1)
    seen = non_occluded(venus.disparity, venus.disparity_right)
    assert 0.9 < seen.mean() < 1
    band = slice(150, 180)
    matcher = StereoMatcher(21, solver_iter=5).set_weights(
        {"data": np.ones(1), "contrast": np.full(6, 0.5)}
    )
    found = matcher.predict(venus.left[band], venus.right[band])
    assert bad_pixels(found, venus.disparity[band], seen[band], border=3) < 0.1
