"""Learnt affinities: the pair loss, and training over cycles."""

from __future__ import annotations

import numpy as np
import pytest
from gmlearn_multicut import MulticutLearner, PairLoss, multicut_model

import gmlearn as gm


def point_set(seed, n=18, n_noise=2):
    """Distances (F, n, n): one dimension shows three clusters, the others nothing."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % 3)
    rows = np.c_[3.0 * labels + 0.4 * rng.normal(size=n), 3 * rng.normal(size=(n, n_noise))]
    return np.abs(rows[:, None] - rows[None]).transpose(2, 0, 1), labels


def rand(a, b):
    return ((a[:, None] == a) == (b[:, None] == b)).mean()


@pytest.mark.parametrize("optimizer", ["auto", "subgradient"])
def test_learner_finds_the_feature_that_counts(optimizer):
    sets = [point_set(s) for s in range(4)]
    learner = MulticutLearner(optimizer=optimizer)
    learner.fit([x for x, _ in sets], [y for _, y in sets])
    assert learner.weights_[0] < 0.0 < learner.intercept_
    assert abs(learner.weights_[0]) > 3 * np.abs(learner.weights_[1:]).max()
    for seed in (10, 11):
        x, y = point_set(seed)
        assert rand(learner.cluster(x), y) > 0.95


def test_edge_lists_and_unknown_labels():
    x, y = point_set(0)
    edges = np.stack(np.triu_indices(len(y), 1), axis=1)
    listed = (edges, x[:, edges[:, 0], edges[:, 1]].T)
    whole = MulticutLearner(max_iter=20).fit([x], [y])
    same = MulticutLearner(max_iter=20).fit([listed], [y])
    np.testing.assert_allclose(whole.weights_, same.weights_)
    part = np.where(np.arange(len(y)) < 4, -1, y)
    learner = MulticutLearner(max_iter=20).fit([x], [part])
    assert rand(learner.cluster(point_set(5)[0]), point_set(5)[1]) > 0.9
    with pytest.raises(ValueError, match="y"):
        MulticutLearner().fit([x], [])
    for wrong in (y[:3], np.full(len(y), -1)):
        with pytest.raises(ValueError, match=r"y\[0\]"):
            MulticutLearner().fit([x], [wrong])
    for seed in (None, np.random.RandomState(0)):
        assert MulticutLearner(max_iter=2, random_state=seed).fit([x], [y]).weights_.shape == (3,)


def test_pair_loss_counts_wrong_pairs():
    crf = multicut_model(4, np.stack(np.triu_indices(4, 1), axis=1), np.zeros(6))
    x, truth = np.array([0, 0, 1, 1]), np.array([2, 2, 2, 0])
    everybody = np.ones(4, bool)
    # wrong: the pairs (0, 2), (1, 2) apart, (2, 3) together
    assert PairLoss(2.0).value(crf, x, truth, everybody) == 6.0
    augmented = PairLoss(2.0).augment(crf, truth)
    assert augmented.energy(x) == -6.0
    known = np.array([True, True, False, True])
    assert PairLoss().value(crf, x, truth, known) == 0.0


def test_objective_bounds_the_hinge_from_above():
    sets = [point_set(s, n=6) for s in range(2)]
    edges = np.stack(np.triu_indices(6, 1), axis=1)
    samples = []
    for x, y in sets:
        features = x[:, edges[:, 0], edges[:, 1]].T
        samples.append(gm.Sample(multicut_model(6, edges, features=features, n_labels=4), y))
    model = gm.train(samples, loss="pairs", regularizer=gm.L2(0.1), max_iter=50)
    w = model.weights["edge"]
    total = 0.05 * w @ w
    for sample in samples:
        augmented = PairLoss().augment(sample.crf, sample.labels)
        least = gm.solve(augmented, model.weights, solver="brute-force").energy
        total += sample.crf.energy(sample.labels, model.weights) - least
    assert total <= model.objective + 1e-6
    assert model.objective <= total + 0.2 * abs(total)
