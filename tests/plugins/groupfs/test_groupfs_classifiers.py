"""The boosted and the contrast classifiers against plain, slow versions."""

import numpy as np
import pytest
from gmlearn_groupfs._boosting_numba import N_BINS, best_hypercut, boost, working_set
from gmlearn_groupfs._contrast_numba import fit_logistic
from gmlearn_groupfs.boosting import BoostedClassifiers
from gmlearn_groupfs.contrast import ContrastClassifiers, leave_one_out_contrasts
from gmlearn_groupfs.kernels import KernelBank
from scipy.optimize import minimize


@pytest.fixture(scope="module")
def two_views():
    """Two clusters; view 0 parts them, view 1 is noise."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 20)
    views = [labels[:, None] * 4.0 + rng.normal(size=(40, 2)), rng.normal(size=(40, 2))]
    return KernelBank.from_views(views).kernels, labels


def slow_stage(kernels, positives, negatives, weight, response):
    """The best gain over all hypercuts with thresholds at the bins' edges."""
    best = -1.0
    for kernel in kernels:
        for p in positives:
            for q in negatives:
                projection = kernel[p] - kernel[q]
                edges = np.linspace(projection.min(), projection.max(), N_BINS + 1)[1:-1]
                for threshold in edges:
                    above = projection > threshold
                    if above.any() and not above.all():
                        best = max(
                            best,
                            sum(response[s].sum() ** 2 / weight[s].sum() for s in (above, ~above)),
                        )
    return best


def test_full_search_finds_the_best_hypercut(two_views):
    kernels, labels = two_views
    kernels = np.ascontiguousarray(kernels[:, 12:28, 12:28], dtype=np.float32)
    labels = labels[12:28]
    rng = np.random.default_rng(1)
    weight, response = rng.random(16), rng.normal(size=16)
    positives, negatives = np.flatnonzero(labels == 0), np.flatnonzero(labels == 1)
    cut, state = np.zeros(6), np.array([1], np.uint64)
    work = np.empty(16, np.float32), np.empty((N_BINS, 2))
    gain = best_hypercut(kernels, positives, negatives, weight, response, 0, state, *work, cut)
    # the compiled bins are a hair narrower, so that the largest value falls into the last one
    assert gain == pytest.approx(
        slow_stage(kernels, positives, negatives, weight, response), rel=0.02
    )
    above = kernels[int(cut[0]), int(cut[1])] - kernels[int(cut[0]), int(cut[2])] > cut[3]
    direct = sum(response[s].sum() ** 2 / weight[s].sum() for s in (above, ~above))
    assert direct == pytest.approx(gain, rel=1e-6)
    assert cut[4] == pytest.approx(response[~above].sum() / weight[~above].sum(), rel=1e-6)
    sampled = best_hypercut(kernels, positives, negatives, weight, response, 5, state, *work, cut)
    assert 0 < sampled <= gain + 1e-12


@pytest.mark.parametrize("exponential", [False, True])
def test_working_set_is_the_newton_step_of_its_loss(exponential):
    scores, signs = np.array([0.3, -1.2, 2.0]), np.array([1.0, 1.0, -1.0])
    weight, response = np.empty(3), np.empty(3)
    working_set(scores, signs, np.zeros(3, bool), exponential, weight, response)
    loss = (
        (lambda f: np.exp(-signs * f)) if exponential else (lambda f: np.log1p(np.exp(-signs * f)))
    )
    step = 1e-5
    slope = (loss(scores + step) - loss(scores - step)) / (2 * step)
    clipped = np.clip(response / weight, -4, 4)
    if exponential:
        np.testing.assert_allclose(response, -slope, rtol=1e-6)
    else:
        np.testing.assert_allclose(clipped, np.clip(-slope / weight, -4, 4), rtol=1e-5)


@pytest.mark.parametrize("exponential", [False, True])
def test_boosting_separates_and_picks_the_right_kernel(two_views, exponential):
    kernels, labels = two_views
    signs = np.where(labels == 0, 1.0, -1.0)
    cuts, gains, scores = np.zeros((10, 6)), np.zeros(10), np.empty(40)
    boost(
        kernels.astype(np.float32),
        signs,
        np.zeros(40, bool),
        10,
        30,
        exponential,
        1.0,
        np.uint64(3),
        cuts,
        gains,
        scores,
    )
    assert np.all(np.sign(scores) == signs)
    # later stages have little left to explain
    assert np.bincount(cuts[:3, 0].astype(int), minlength=2)[0] == 3
    assert np.all(gains >= 0)


@pytest.mark.parametrize("loss", ["log", "exp"])
def test_held_out_points_lend_nothing(two_views, loss):
    kernels, labels = two_views
    held = np.zeros(40, bool)
    held[[3, 25]] = True
    flipped = labels.copy()
    flipped[held] = 1 - flipped[held]
    boosted = BoostedClassifiers(kernels, 2, loss=loss)
    one, other = (boosted._train(y == 0, held, 3, 5) for y in (labels, flipped))
    np.testing.assert_array_equal(one[3], other[3])
    assert not np.isin(one[1][:, 1:3], [3, 25]).any()


def test_cross_fitting_sees_through_random_labels(two_views):
    kernels, _ = two_views
    labels = np.random.default_rng(0).permutation(40) % 2
    signs = np.where(labels == 0, 1.0, -1.0)
    fitted = BoostedClassifiers(kernels, 2, base=30, folds=1).scores(labels, 0, 0)[:, 0]
    crossed = BoostedClassifiers(kernels, 2, base=30, folds=10).scores(labels, 0, 0)[:, 0]
    assert np.mean(np.sign(fitted) == signs) > 0.9
    assert np.mean(np.sign(crossed) == signs) < 0.75


def test_weak_learners_grow_by_iteration(two_views):
    kernels, labels = two_views
    assert BoostedClassifiers(kernels, 2, base=5, step=2).model(labels, 4, 0).cuts.shape == (
        2,
        13,
        6,
    )


@pytest.mark.parametrize("family", [BoostedClassifiers, ContrastClassifiers])
def test_models_score_new_samples_like_old_ones(two_views, family):
    kernels, labels = two_views
    model = family(kernels, 2).model(labels, 3, 0)
    assert model.usage.shape == (2, 2) and np.allclose(model.usage.sum(axis=1), 1)
    assert np.all(model.usage[:, 0] > 0.6)
    assert np.mean(model.decision(kernels[:, :10]).argmax(axis=1) == labels[:10]) > 0.9


def test_contrasts_leave_the_point_out():
    rng = np.random.default_rng(1)
    kernel = rng.random((8, 8))
    kernel = kernel + kernel.T
    np.fill_diagonal(kernel, 0)
    labels = np.array([0, 0, 0, 1, 1, 2, 2, 2])
    found = leave_one_out_contrasts(kernel[None], labels, 3)
    for c in range(3):
        for i in range(8):
            inside = [j for j in range(8) if labels[j] == c and j != i]
            outside = [j for j in range(8) if labels[j] != c and j != i]
            assert found[c, i, 0] == pytest.approx(
                kernel[i, inside].mean() - kernel[i, outside].mean()
            )


def test_logistic_fit_against_a_general_solver():
    rng = np.random.default_rng(5)
    features = rng.normal(size=(60, 4)) + np.array([1.0, 0.0, -1.0, 0.5])
    signs = np.where(features[:, 0] - features[:, 2] + rng.normal(size=60) > 1, 1.0, -1.0)

    def objective(v):
        w = v[:-1]
        return (
            np.logaddexp(0, -signs * (features @ w + v[-1])).sum()
            + 2.0 * ((w - w.mean()) ** 2).sum()
            + 1e-3 * w @ w
        )

    reference = minimize(
        objective,
        np.r_[np.full(4, 0.25), 0.0],
        bounds=[(0, None)] * 4 + [(None, None)],
        options={"ftol": 1e-14, "gtol": 1e-9},
    )
    weights = np.r_[np.full(4, 0.25), 0.0]
    fit_logistic(features, signs, 2.0, 1e-3, weights)
    assert objective(weights) <= reference.fun + 1e-5
    assert np.all(weights[:-1] >= 0)
