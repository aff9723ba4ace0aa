"""Learnt cliques of pixels: the mixture of patterns, its CRF, and the posterior mean."""

import copy
import pathlib

import matplotlib.pyplot as plt
import numpy as np
import pytest
from gmlearn_vision import PatternDenoiser, psnr, total_variation
from gmlearn_vision.patterns import _scatter, gaussian_mean, learn_patterns, windows

import gmlearn as gm

CROPS = pathlib.Path(__file__).parents[4] / "shared" / "data" / "denoise" / "bsd68_crops160.npz"


def drawing(rng, side=64):
    """Stripes of several directions, divided by straight borders, on grey ground."""
    y, x = np.mgrid[:side, :side]
    image = np.full((side, side), 120.0)
    for _ in range(3):
        angle, offset = rng.uniform(0, np.pi), rng.uniform(0.2, 0.8) * side
        turned = rng.uniform(0, np.pi)
        stripes = np.sin((x * np.cos(turned) + y * np.sin(turned)) * 2 * np.pi / 9)
        image += 30.0 * stripes * (x * np.cos(angle) + y * np.sin(angle) > offset)
    return image


@pytest.fixture(scope="module")
def pairs():
    rng = np.random.default_rng(0)
    clean = [drawing(rng) for _ in range(6)]
    return clean, [x + 25.0 * rng.normal(size=x.shape) for x in clean]


@pytest.fixture(scope="module")
def fitted(pairs):
    clean, noisy = pairs
    return PatternDenoiser(8, max_iter=3).fit(noisy[:2], clean[:2])


def test_fit_raises_the_likelihood_and_finds_planted_patterns():
    """Two planted covariances, one hundred times as large as the other, come back."""
    rng = np.random.default_rng(1)
    small, large = (s * rng.normal(size=(120, 120)) for s in (1.0, 10.0))
    patterns = learn_patterns([small, large], 2, 3, seed=0)
    sizes = np.trace(patterns.covariance, axis1=1, axis2=2) / 8
    np.testing.assert_allclose(sizes, [1.5, 100.5], rtol=0.1)  # half a level is added
    np.testing.assert_allclose(patterns.share, 0.5, atol=0.03)
    costs = patterns.costs(small, 0.0)
    assert np.mean(costs.argmin(axis=1) == 0) > 0.99


def test_posterior_mean_solves_the_normal_equations(fitted):
    """Against the dense system on a small image."""
    rng = np.random.default_rng(2)
    image = 100.0 + 20.0 * rng.normal(size=(7, 8))
    patterns = fitted.patterns_
    q = rng.dirichlet(np.ones(len(patterns)), 5 * 6)
    A = np.eye(56) / 400.0
    places = windows(np.arange(56).reshape(7, 8), 3).astype(int)
    for place, probability in zip(places, q):
        moment = np.tensordot(probability, patterns.covariance, axes=1)
        A[np.ix_(place, place)] += patterns.basis @ np.linalg.inv(moment) @ patterns.basis.T / 9.0
    expected = np.linalg.solve(A, image.ravel() / 400.0).reshape(7, 8)
    np.testing.assert_allclose(gaussian_mean(image, patterns, q, 400.0), expected, atol=0.1)


def test_scatter_is_the_transpose_of_windows():
    rng = np.random.default_rng(3)
    image, rows = rng.normal(size=(6, 7)), rng.normal(size=(20, 9))
    left = (windows(image, 3) * rows).sum()
    assert left == pytest.approx((image * _scatter(rows, (6, 7), 3)).sum())


@pytest.mark.slow
@pytest.mark.skipif(not CROPS.exists(), reason="the Berkeley crops are not here")
def test_learnt_cliques_beat_total_variation_on_other_images():
    """Photographs at sigma 25. The weight of total variation is the best of five on the test images
    themselves; the neighbours of a window help on top of the window.
    """
    rng = np.random.default_rng(0)
    crops = np.load(CROPS)["images"].astype(float)
    clean = [crop[40:104, 40:104] for crop in crops[1::8]]
    test = [crop[32:96, 32:96] for crop in crops[2::16]]
    noisy, seen = ([x + 25.0 * rng.normal(size=x.shape) for x in part] for part in (clean, test))
    rival = max(
        np.mean([psnr(total_variation(z, w), x) for z, x in zip(seen, test)])
        for w in (8.0, 12.0, 16.0, 20.0, 25.0)
    )
    alone, together = (
        np.mean([psnr(p, x) for p, x in zip(model.fit(noisy, clean).predict(seen), test)])
        for model in (
            PatternDenoiser(12, neighbours=False, looks=1),
            PatternDenoiser(12, max_iter=4, looks=1),
        )
    )
    assert rival < alone < together


def test_a_second_look_sees_flat_ground_more_clearly():
    """By a decibel or more, on borders that training has not seen."""
    rng = np.random.default_rng(4)
    y, x = np.mgrid[:64, :64]
    slopes = (-1.7, -0.6, 0.0, 0.4, 0.9, 2.2)
    clean = [60.0 + 80.0 * (y - 32 > a * (x - 32)) + 0.5 * x for a in slopes]
    noisy = [image + 25.0 * rng.normal(size=image.shape) for image in clean]
    model = PatternDenoiser(6, neighbours=False, looks=1, random_state=0)
    once = model.fit(noisy[::2], clean[::2]).predict(noisy[1])
    twice = copy.copy(model).set_params(looks=2).predict(noisy[1])
    assert psnr(twice, clean[1]) > psnr(once, clean[1]) + 1.0
    with pytest.raises(ValueError, match="looks: expected"):
        PatternDenoiser(6, looks=3).fit(noisy[:1], clean[:1])


def test_bands_of_a_large_image_join(fitted, pairs, monkeypatch):
    """Cut into five bands, whose overlap is as far as messages reach."""
    image = pairs[1][5]
    whole = fitted.probabilities(image)
    monkeypatch.setattr("gmlearn_vision.pattern_denoiser.TABLE_ENTRIES", 2 * 62 * 64 * 46)
    parts = fitted.probabilities(image)
    np.testing.assert_allclose(parts, whole, atol=0.02)


def test_marginals_come_from_the_core(fitted, pairs, monkeypatch):
    seen, marginals = [], gm.marginals
    monkeypatch.setattr(gm, "marginals", lambda *a, **k: seen.append(k) or marginals(*a, **k))
    image = pairs[1][5][:20, :24]
    assert fitted.predict(image).shape == (20, 24) and len(seen) == 1
    assert [f.shape for f in fitted.predict([image, image[:9]])] == [(20, 24), (9, 24)]
    assert len(fitted.plot_patterns()) >= 8
    plt.close("all")


def test_wrong_images_are_named(pairs):
    clean, noisy = pairs
    with pytest.raises(ValueError, match="requires y"):
        PatternDenoiser().fit(noisy)
    with pytest.raises(ValueError, match="y: expected images of the shapes"):
        PatternDenoiser().fit(noisy[:1], [clean[0][:9]])
    with pytest.raises(ValueError, match="y: expected at least 30 windows of 3 x 3 pixels"):
        PatternDenoiser().fit([noisy[0][:5, :5]], [clean[0][:5, :5]])
