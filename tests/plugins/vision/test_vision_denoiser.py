"""Denoiser, posterior marginals, and the classical filters it is compared with."""

import itertools

import numpy as np
import pytest
from gmlearn_vision import (
    Denoiser,
    median_filter,
    non_local_means,
    piecewise_constant,
    posterior_marginals,
    psnr,
    total_variation,
)
from sklearn.base import clone


def enumerated_marginals(costs, table, temperature):
    """Marginals by summing over all labellings."""
    h, w, n = costs.shape
    total = np.zeros(costs.shape)
    for x in itertools.product(range(n), repeat=h * w):
        x = np.array(x).reshape(h, w)
        energy = np.take_along_axis(costs, x[..., None], axis=2).sum()
        energy += table[x[:, :-1], x[:, 1:]].sum() + table[x[:-1], x[1:]].sum()
        np.put_along_axis(
            total,
            x[..., None],
            np.take_along_axis(total, x[..., None], 2) + np.exp(-energy / temperature),
            axis=2,
        )
    return total / total.sum(axis=2, keepdims=True)


@pytest.mark.parametrize("shape", [(1, 6), (6, 1), (1, 1)])
def test_posterior_marginals_are_exact_on_a_line(shape):
    rng = np.random.default_rng(0)
    costs, table = rng.normal(size=(*shape, 3)), rng.normal(size=(3, 3))
    costs[0, 0, 1] = np.inf
    assert np.allclose(
        posterior_marginals(costs, table, 0.7, tol=1e-12), enumerated_marginals(costs, table, 0.7)
    )


def test_posterior_marginals_are_near_on_a_grid():
    rng = np.random.default_rng(1)
    costs, potential = rng.normal(size=(3, 3, 2)), np.array([0.0, 0.4])
    table = potential[np.abs(np.subtract.outer(np.arange(2), np.arange(2)))]
    exact = enumerated_marginals(costs, table, 1.0)
    assert (
        np.abs(posterior_marginals(costs, potential, max_iter=100, tol=1e-9) - exact).max() < 0.01
    )


def images(rng, n, labels=4, sigma=0.9, side=24):
    clean = [piecewise_constant(rng, side, side, labels, 6).astype(float) for _ in range(n)]
    return [c + sigma * rng.normal(size=c.shape) for c in clean], clean


@pytest.fixture(scope="module")
def fitted():
    noisy, clean = images(np.random.default_rng(0), 6)
    return Denoiser(np.arange(4), max_iter=20).fit(noisy[:4], clean[:4]), noisy[4:], clean[4:]


def test_learnt_potential_denoises(fitted):
    denoiser, noisy, clean = fitted
    before = np.mean([np.mean(np.clip(np.rint(z), 0, 3) != c) for z, c in zip(noisy, clean)])
    after = np.mean([np.mean(f != c) for f, c in zip(denoiser.predict(noisy), clean)])
    assert before > 0.35
    assert after < 0.12
    assert denoiser.potential_[0] == 0
    assert (np.diff(denoiser.potential_) >= 0).all()


def test_missing_pixels_are_filled_from_their_neighbours(fitted):
    denoiser, _, _ = fitted
    image = np.full((6, 7), 2.0)
    image[2:4, 2:5] = np.nan
    assert (denoiser.predict(image) == 2.0).all()
    garbage = np.where(np.isnan(image), 99.0, image)
    assert (denoiser.predict(garbage, mask=~np.isnan(image)) == 2.0).all()


def test_masked_training_ignores_what_was_not_observed():
    noisy, clean = images(np.random.default_rng(2), 2, side=12)
    mask = [np.random.default_rng(3).random(c.shape) < 0.8 for c in clean]
    spoilt = [np.where(m, z, 1e3) for z, m in zip(noisy, mask)]
    one = Denoiser(np.arange(4), max_iter=5).fit(noisy, clean, masks=mask)
    other = Denoiser(np.arange(4), max_iter=5).fit(spoilt, clean, masks=mask)
    assert np.array_equal(one.potential_, other.potential_)


def test_mean_output_is_between_the_levels_and_beats_map_on_smooth_images():
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:32, :32]
    clean = [120 + 60 * np.sin(x / (5 + k)) + 40 * np.cos(y / 6.0) for k in range(3)]
    noisy = [c + 25 * rng.normal(size=c.shape) for c in clean]
    denoiser = Denoiser(np.linspace(0, 255, 16), data="quadratic", output="mean", max_iter=15).fit(
        noisy[:2], clean[:2]
    )
    assert denoiser.noise_ == pytest.approx(25, rel=0.1)
    mean = denoiser.predict(noisy[2])
    assert mean.min() >= 0 and mean.max() <= 255
    as_map = denoiser.set_params(output="map").predict(noisy[2])
    assert psnr(mean, clean[2]) > psnr(as_map, clean[2])
    assert psnr(mean, clean[2]) > psnr(noisy[2], clean[2]) + 4


@pytest.mark.parametrize(
    "parameters",
    [
        {"shape": "concave"},
        {"shape": "free"},
        {"truncation": 1},
        {"connectivity": 8},
        {"data": "quadratic"},
    ],
)
def test_every_option_trains_and_predicts(parameters):
    noisy, clean = images(np.random.default_rng(4), 2, side=14)
    denoiser = Denoiser(np.arange(4), max_iter=6, **parameters).fit(noisy, clean)
    found = denoiser.predict(noisy[0])
    assert found.shape == clean[0].shape
    assert np.isin(found, np.arange(4)).all()
    assert np.mean(found != clean[0]) < np.mean(np.clip(np.rint(noisy[0]), 0, 3) != clean[0])
    if "truncation" in parameters:
        assert np.ptp(denoiser.potential_[1:]) == 0


def test_integer_levels_span_the_clean_images():
    noisy, clean = images(np.random.default_rng(5), 1, side=10)
    denoiser = Denoiser(3, max_iter=1).fit(noisy[0], clean[0])
    assert denoiser.levels_.tolist() == np.linspace(clean[0].min(), clean[0].max(), 3).tolist()


def test_clone_and_plot(fitted):
    denoiser = fitted[0]
    assert str(clone(denoiser).get_params()) == str(denoiser.get_params())
    line = denoiser.plot_potential().lines[0]
    assert np.array_equal(line.get_ydata(), denoiser.potential_)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"data": "cubic"}, "data: expected one of"),
        ({"output": "median"}, "output: expected one of"),
        ({"levels": [0, 1, 3]}, "levels: expected at least two increasing, evenly spaced"),
        ({"shape": "x"}, "shape: expected one of"),
        (
            {"output": "mean", "connectivity": 8, "data": "quadratic"},
            "connectivity: expected 4 for output='mean'",
        ),
        ({"output": "mean"}, "data: expected 'quadratic' for output='mean'"),
        ({"regularization": -1}, "regularization: expected a number"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    image = np.array([[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match=message):
        Denoiser(**{"levels": 2, **parameters}).fit(image, image)


def test_bad_images_are_named():
    image = np.array([[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match="y: expected images of the shapes"):
        Denoiser(2).fit(image, np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"y\[0\]: contains NaN"):
        Denoiser(2).fit(image, image * np.nan)
    with pytest.raises(ValueError, match="levels: the clean images have the single value"):
        Denoiser(2).fit(image, np.zeros((2, 2)))


def test_filters_reduce_noise_and_agree_with_scikit_image():
    rng = np.random.default_rng(0)
    clean = 40.0 * piecewise_constant(rng, 60, 60, 6, 3)
    noisy = clean + 20 * rng.normal(size=clean.shape)
    for found in (median_filter(noisy), total_variation(noisy, 20.0), non_local_means(noisy, 20.0)):
        assert psnr(found, clean) > psnr(noisy, clean) + 3
    restoration = pytest.importorskip("skimage.restoration")
    theirs = (
        restoration.denoise_tv_chambolle(noisy / 255, weight=20.0 / 255, max_num_iter=300, eps=1e-7)
        * 255
    )
    assert psnr(total_variation(noisy, 20.0, 300), theirs) > 40
