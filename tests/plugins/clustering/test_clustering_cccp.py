"""The latent SVM by CCCP, as a trainer by name and as a setting of the learner."""

from __future__ import annotations

import numpy as np
import pytest
from gmlearn_clustering import ExemplarClusteringLearner, noisy_gaussians

import gmlearn as gm


def chains(seed, n=3):
    """Chains with some hidden labels."""
    rng = np.random.default_rng(seed)
    samples = []
    for _ in range(n):
        truth = np.repeat(rng.integers(0, 2, 4), 3)
        crf = gm.CRF(12, 2)
        crf.add(gm.Unary(np.stack([truth + 0.7 * rng.normal(size=12), np.ones(12)], axis=1)))
        crf.add(gm.Potts([[i, i + 1] for i in range(11)], weight="smooth"))
        samples.append(gm.Sample(crf, truth, hidden=rng.random(12) < 0.3))
    return samples


def latent_objective(samples, weights, mu):
    """R + sum of [min over hidden of E - min over x of (E - Delta)], by exact solvers."""
    total = 0.5 * mu * sum(float(np.sum(w**2)) for w in weights.values())
    for sample in samples:
        clamped = sample.crf.clamp(np.asarray(sample.labels), sample.observed)
        augmented = gm.Hamming().augment(sample.crf, np.asarray(sample.labels), sample.observed)
        total += gm.solve(clamped, weights).energy - gm.solve(augmented, weights).energy
    return total


def test_objective_falls_over_completions_and_bounds_the_latent_one():
    samples = chains(0)
    options = dict(regularizer=gm.L2(0.3), method="cccp", max_iter=100, tol=1e-5)
    one = gm.train(samples, n_completions=1, **options)
    many = gm.train(samples, n_completions=8, **options)
    assert many.objective <= one.objective + 1e-9
    assert many.settings["method"] == "cccp"
    assert latent_objective(samples, many.weights, 0.3) <= many.objective + 1e-3


def test_without_hidden_labels_it_is_the_convex_problem():
    samples = [gm.Sample(s.crf, s.labels) for s in chains(1)]
    options = dict(regularizer=gm.L2(0.3), max_iter=100, tol=1e-5)
    plain = gm.train(samples, **options)
    found = gm.train(samples, method="cccp", **options)
    assert found.objective == pytest.approx(plain.objective, rel=1e-3)


def test_settings_are_checked():
    with pytest.raises(ValueError, match="n_completions"):
        gm.train(chains(0), method="cccp", n_completions=0)
    with pytest.raises(ValueError, match="checkpoint"):
        gm.train(chains(0), method="cccp", checkpoint="somewhere.npz")


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "cccp"},
        {"optimizer": "bcfw", "regularizer": gm.L2(0.1), "n_rounds": 30},
        {"constraints": gm.Simplex(), "regularizer": gm.NoRegularizer()},
        {"regularizer": gm.ElasticNet(0.05, 0.05)},
    ],
    ids=lambda s: next(iter(s)),
)
def test_learner_takes_methods_optimisers_regularisers_and_sets(settings):
    sets = noisy_gaussians(0.5, 60, 12, 4, n_sets=2, separation=6.0)
    learner = ExemplarClusteringLearner(**settings)
    learner.fit(sets.train, sets.train_labels)
    assert (learner.weights_ >= 0).all()
    assert learner.weights_[sets.noisy].sum() < 0.2 * learner.weights_.sum()
    if "constraints" in settings:
        assert learner.weights_.sum() == pytest.approx(1.0)
