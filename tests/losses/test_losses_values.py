"""Losses: their values, and loss-augmented minima against enumeration, high-order ones included."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learn_cases import KINDS, CountLoss, random_loss, random_sample

import gmlearn as gm
from gmlearn.testing.brute_force import energy_table

seeds = st.integers(0, 10**6)
FEW = settings(deadline=None, max_examples=30)


@gm.testing.parametrize_with_checks(
    [gm.Hamming, gm.WeightedHamming, gm.LabelDistance(1.5), gm.NoLoss, CountLoss]
)
def test_kit(thing, check):
    check(thing)


def test_values():
    crf, truth, x, all_ = (
        gm.CRF(4, 4),
        np.array([0, 1, 2, 3]),
        np.array([0, 3, 0, 0]),
        np.ones(4, bool),
    )
    assert gm.Hamming().value(crf, x, truth, all_) == 3
    assert gm.Hamming(0.5, [1, 2, 0, 4]).value(crf, x, truth, all_) == 3.0
    assert gm.Hamming().value(crf, x, truth, np.array([True, True, False, False])) == 1
    assert gm.WeightedHamming([9, 1, 2, 5]).value(crf, x, truth, all_) == 8
    assert gm.LabelDistance(9.0).value(crf, x, truth, all_) == 7
    assert gm.LabelDistance(2.0, 4.0, tolerance=1.0).value(crf, x, truth, all_) == (1 + 1 + 2) / 4
    assert gm.NoLoss().value(crf, x, truth, all_) == 0
    assert CountLoss(label=0, scale=2.0).value(crf, x, truth, all_) == 4


def test_label_distance_is_not_truncated_by_default():
    crf = gm.CRF(2, 3)
    assert gm.LabelDistance().value(crf, np.array([2, 0]), np.array([0, 0]), np.ones(2, bool)) == 2


@FEW
@given(seeds, st.sampled_from(KINDS), st.booleans())
def test_augmented_minimum_by_enumeration(seed, kind, latent):
    rng = np.random.default_rng(seed)
    sample = random_sample(rng, kind, 4, 3, latent)
    loss, labels = random_loss(rng, 3), np.asarray(sample.labels)
    w = {name: rng.normal(size=shape) for name, shape in sample.crf.layout.shapes.items()}
    energy = energy_table(sample.crf, w)
    delta = np.array(
        [
            loss.value(sample.crf, np.array(x), labels, sample.observed)
            for x in np.ndindex(energy.shape)
        ]
    )
    augmented = loss.augment(sample.crf, labels, sample.observed)
    answer = gm.solve(augmented, w, solver="exact")
    assert answer.energy == pytest.approx((energy - delta.reshape(energy.shape)).min(), abs=1e-8)
    assert gm.Dual(gm.decompose(augmented), w).round().bound <= answer.energy + 1e-9


def test_a_count_loss_is_not_seen_by_unary_costs_alone():
    """The most violated labelling under a count loss has the wrong count, though every single
    label looks harmless.
    """
    crf = gm.CRF(4, 2).add_unary(np.tile([0.0, 0.4], (4, 1)))
    truth, loss = np.zeros(4, np.int64), CountLoss()
    augmented = loss.augment(crf, truth)
    np.testing.assert_array_equal(augmented.unary, crf.unary)
    answer = gm.solve(augmented, solver="exact")
    assert answer.labels.tolist() == [1, 1, 1, 1] and answer.energy == pytest.approx(1.6 - 4)


def counts_samples(rng, n=12):
    """Rows of variables whose label-1 count is what matters."""
    samples = []
    for _ in range(n):
        truth = (rng.random(8) < 0.3).astype(int)
        crf = gm.CRF(8, 2)
        crf.add(gm.Unary(np.stack([truth + 1.2 * rng.normal(size=8), np.ones(8)], axis=1), "u"))
        samples.append(gm.Sample(crf, truth, weight=1.0 / n))
    return samples


def test_training_with_a_count_loss_learns_counts_better():
    rng = np.random.default_rng(0)
    samples, held_out = counts_samples(rng, 40), counts_samples(rng, 200)

    def count_error(model):
        return np.mean(
            [abs(int(model.predict(s.crf).labels.sum()) - int(s.labels.sum())) for s in held_out]
        )

    by_count, by_label = (
        gm.train(samples, loss=loss, regularizer=gm.L2(0.01), optimizer="cutting-plane", tol=1e-4)
        for loss in (CountLoss(), gm.Hamming())
    )
    assert "certified" in by_count.status
    assert count_error(by_count) < count_error(by_label)


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: gm.Hamming(-1), "scale"),
        (lambda: gm.Hamming(1, [-1.0]), "weights: expected numbers >= 0"),
        (lambda: gm.WeightedHamming([-0.5]), "label_weights: expected numbers >= 0"),
        (lambda: gm.LabelDistance(-1.0), "truncation"),
    ],
)
def test_bad_parameters(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_weights_that_do_not_fit_the_model():
    crf = gm.CRF(3, 2)
    with pytest.raises(
        ValueError, match="weights: expected one for each of the 3 variables, got 2"
    ):
        gm.Hamming(weights=[1.0, 1.0]).augment(crf, np.zeros(3, np.int64))
    with pytest.raises(ValueError, match="label_weights: 1 weights, but the truth has label 1"):
        gm.WeightedHamming([1.0]).augment(crf, np.ones(3, np.int64))
