"""The named parts of the learner: graph distance, weights without clustering, the calibrated fee."""

from __future__ import annotations

import numpy as np
import pytest
from gmlearn_clustering import (
    DistanceBank,
    ExemplarClusteringLearner,
    alignment_weights,
    clustering_loss,
    distractor_gaussians,
    exemplar_model,
    graph_distance,
    graph_embedding,
    noisy_gaussians,
    pair_weights,
    training_sample,
    training_slaves,
    triplet_weights,
)
from gmlearn_clustering.completion import completed
from gmlearn_clustering.distances import EuclideanSample, MatrixSample
from gmlearn_clustering.fee import penalty_of
from gmlearn_clustering.graph import nearest_neighbours, set_distance
from gmlearn_clustering.metrics import squared_euclidean
from gmlearn_clustering.rules import TrainingRule
from gmlearn_clustering.scores import accuracy
from gmlearn_clustering.through_graph import _candidates as candidates
from gmlearn_clustering.through_graph import spreading_loss, through_graph_weights
from gmlearn_clustering.unsupervised import draw_split


def rings(n=60, seed=0):
    """Two rings, one within the other: no two balls around exemplars."""
    random = np.random.default_rng(seed)
    labels = np.repeat([0, 1], n)
    angle = random.uniform(0, 2 * np.pi, 2 * n)
    radius = np.where(labels, 3.0, 1.0) + 0.1 * random.normal(size=2 * n)
    return np.c_[radius * np.cos(angle), radius * np.sin(angle)], labels


def two_views(n_classes, seed, n=20):
    """A view that shows the classes, one that shows other groups, and their labels."""
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_classes), n)
    other = random.permutation(labels)
    first = random.normal(size=(n_classes, 6))[labels] * 3 + random.normal(size=(len(labels), 6))
    second = random.normal(size=(n_classes, 6))[other] * 3 + random.normal(size=(len(labels), 6))
    return [first, second], labels


def test_graph_distance_follows_its_formula():
    distances = np.random.default_rng(0).random((9, 9))
    W = np.zeros((9, 9))
    for p in range(9):
        order = [q for q in np.argsort(distances[p]) if q != p][:3]
        W[p, order] = 1.0 / np.arange(1, 4)
    W = (W + W.T) / 2
    degree = W.sum(axis=1)
    K = np.linalg.inv(np.eye(9) - 0.9 * W / np.sqrt(np.outer(degree, degree)))
    norm = np.linalg.norm(K, axis=1)
    expected = 1.0 - K @ K.T / np.outer(norm, norm)
    np.testing.assert_allclose(graph_distance(distances, 3), expected, atol=1e-12)


def test_graph_distance_finds_rings():
    X, labels = rings()
    d = graph_distance(squared_euclidean(X, X))
    same = labels[:, None] == labels
    assert d[same].max() < 1.0
    np.testing.assert_allclose(d[~same], 1.0)


def test_graph_distance_of_few_points_and_bad_input():
    assert graph_distance(np.zeros((1, 1))).shape == (1, 1)
    assert graph_distance(np.ones((2, 2))).shape == (2, 2)
    with pytest.raises(ValueError, match="n_neighbors"):
        graph_distance(np.ones((3, 3)), 0)
    with pytest.raises(ValueError, match="decay"):
        graph_distance(np.ones((3, 3)), decay=1.0)


def test_embedding_sketches_the_graph_distance():
    X, _ = rings()
    distances = squared_euclidean(X, X)
    U = graph_embedding(nearest_neighbours(distances, 5), n_components=4000)
    np.testing.assert_allclose(squared_euclidean(U, U) / 2, graph_distance(distances), atol=0.1)
    with pytest.raises(ValueError, match="nearest"):
        graph_embedding(np.ones(4))
    with pytest.raises(ValueError, match="nearest"):
        graph_embedding([[1], [2]])


def test_set_distance_does_not_depend_on_scales():
    stack = np.random.default_rng(1).random((3, 12, 12))
    w = np.array([1.0, 2.0, 0.5])
    scaled = MatrixSample(stack * np.array([1.0, 100.0, 0.01])[:, None, None])
    np.testing.assert_allclose(set_distance(MatrixSample(stack), w), set_distance(scaled, w))


@pytest.mark.parametrize("weigh", [triplet_weights, pair_weights, alignment_weights])
def test_weights_prefer_the_view_that_shows_the_classes(weigh):
    views, labels = two_views(4, 0)
    stack = np.stack([squared_euclidean(v, v) for v in views])
    sample = MatrixSample(stack / stack.mean(axis=(1, 2))[:, None, None])
    w = weigh([sample], [labels])
    assert (w >= 0).all()
    assert w[0] > 2 * w[1]
    half = np.where(np.arange(len(labels)) % 2, labels, -1)
    w = weigh([sample], [half])
    assert w[0] > 2 * w[1]


def test_triplets_shrink_towards_the_average():
    views, labels = two_views(4, 0)
    sample = MatrixSample(np.stack([squared_euclidean(v, v) / 10 for v in views]))
    w = triplet_weights([sample], [labels], shrinkage=1e6)
    np.testing.assert_allclose(w[0], w[1], rtol=1e-3)
    assert triplet_weights([sample], [np.arange(len(labels))]).tolist() == [0.5, 0.5]


def test_gradient_through_the_graph():
    """Soft ranks, degrees, inverse and shares, against differences; unknown clusters too."""
    views, labels = two_views(4, 0, n=10)
    sample = MatrixSample(np.stack([squared_euclidean(v, v) for v in views]))
    cluster = np.where(np.arange(len(labels)) % 5, labels, -1)
    w = np.array([0.3, 0.7])
    one = candidates(sample, cluster, w)
    gradient = spreading_loss(one, w)[1]
    for i, step in enumerate(1e-6 * np.eye(2)):
        slope = (spreading_loss(one, w + step)[0] - spreading_loss(one, w - step)[0]) / 2e-6
        assert gradient[i] == pytest.approx(slope, rel=1e-5, abs=1e-9)


def test_weights_through_the_graph_lower_its_loss_and_stay_near_the_start():
    views, labels = two_views(5, 1, n=10)
    sample = MatrixSample(np.stack([squared_euclidean(v, v) for v in views]))
    start = np.array([0.5, 0.5])
    near = through_graph_weights([sample], [labels], start, shrinkage=1e6)
    np.testing.assert_allclose(near, start, atol=1e-3)
    free = through_graph_weights([sample], [labels], start, shrinkage=1e-3)
    assert free[0] > 0.6 and free.sum() == pytest.approx(1.0)
    one = candidates(sample, labels, free)
    assert spreading_loss(one, free)[0] < spreading_loss(one, start)[0]


def test_samples_take_points_and_know_their_means():
    Z = np.random.default_rng(2).normal(size=(10, 3))
    dense = np.stack([(Z[:, None, i] - Z[None, :, i]) ** 2 for i in range(3)])
    euclid, matrix = EuclideanSample(Z), MatrixSample(dense)
    np.testing.assert_allclose(euclid.means(), matrix.means())
    points = np.array([4, 1, 7])
    w = np.array([1.0, 0.5, 2.0])
    np.testing.assert_allclose(euclid.take(points).matrix(w), matrix.take(points).matrix(w))


def test_default_learner_of_a_bank_clusters_unseen_classes():
    X, y = two_views(10, 1)
    new, truth = two_views(5, 3)
    learner = ExemplarClusteringLearner(DistanceBank("unsupervised")).fit([X], [y])
    assert learner.parts_ == {"weighting": "triplets", "graph": True, "penalty_rule": "fee"}
    labels = learner.cluster(new)
    assert 4 <= len(np.unique(labels)) <= 6
    average = ExemplarClusteringLearner(DistanceBank("unsupervised"), weighting="average")
    plain = accuracy(truth, average.fit([X], [y]).cluster(new, 5))
    assert accuracy(truth, learner.cluster(new, 5)) > max(0.85, plain)
    point = learner.choose(learner.distance(new))
    assert point.penalty == penalty_of(learner.rule_.fee, len(truth))


def test_the_papers_learner_is_named_by_its_parts():
    X, y = two_views(4, 1, n=8)
    learner = ExemplarClusteringLearner(
        DistanceBank("unsupervised"),
        weighting="max-margin",
        graph=False,
        penalty_rule="training",
        n_rounds=5,
    ).fit([X], [y])
    assert len(learner.history_["objective"]) > 0
    assert learner.rule_ == TrainingRule(1.0)
    with pytest.raises(ValueError, match="weighting"):
        ExemplarClusteringLearner(weighting="best").fit([X], [y])
    with pytest.raises(ValueError, match="graph"):
        ExemplarClusteringLearner(graph="yes").fit([X], [y])


def test_unsupervised_bank_has_four_distances_a_view():
    X, _ = two_views(3, 0)
    bank = DistanceBank("unsupervised").fit([X])
    metrics = [name.split(" ", 2)[2] for name in bank.names_]
    assert metrics == ["l2", "l1", "rbf", "shifted-chi2"] * 2
    # new points may lie below the least training value
    assert np.isfinite(bank.prepare([v - 5.0 for v in X]).matrices).all()
    scaled = DistanceBank("unsupervised").fit([[10.0 * v for v in X]])
    plain, large = bank.prepare(X).matrices, scaled.prepare([10.0 * v for v in X]).matrices
    np.testing.assert_allclose(plain, large)
    with pytest.raises(ValueError, match="distances"):
        DistanceBank("supervised").fit([X])
    with pytest.raises(ValueError, match="standardised"):
        DistanceBank([(0, "l2", "ranked")]).fit([X])


def test_splits_never_share_points_and_new_classes_are_new():
    labels = np.repeat(np.arange(6), 10)
    rows = [np.arange(60.0)[:, None]]
    for protocol in ("new points", "new classes"):
        split = draw_split(rows, labels, "any", protocol, 0)
        assert not set(split.train[0].ravel()) & set(split.test[0].ravel())
        assert (protocol == "new points") == bool(set(split.train_labels) & set(split.test_labels))


@pytest.mark.parametrize("weighting", ["max-margin", "triplets"])
def test_unknown_labels_are_hidden_assignments(weighting):
    X, y = two_views(6, 1, n=12)
    part = np.where(np.random.default_rng(0).random(len(y)) < 0.3, -1, y)
    bank = DistanceBank("unsupervised")
    learner = ExemplarClusteringLearner(bank, weighting=weighting).fit([X], [part])
    assert learner.weights_[:4].sum() > 2 * learner.weights_[4:].sum()
    with pytest.raises(ValueError, match="two clusters"):
        ExemplarClusteringLearner(bank).fit([X], [np.where(y == 0, 0, -1)])


def test_loss_and_completion_ignore_unknown_points():
    cluster = np.array([0, 0, 1, -1, 1, -1])
    distances = np.abs(np.subtract.outer(*[np.array([0.0, 0.1, 5.0, 0.3, 5.2, 50.0])] * 2))
    target = completed(distances, cluster, 1.0)
    assert target.tolist() == [0, 0, 2, 0, 2, 5]
    assert clustering_loss(target, cluster) == 0.0
    # a known point that leaves for an unknown exemplar is wrong, and its cluster has none
    assert clustering_loss(np.array([3, 3, 2, 3, 2, 5]), cluster) == 3.0
    sample = training_sample(MatrixSample(distances[None]), cluster)
    loss = sample.loss
    augmented = loss.augment(sample.crf, sample.labels)
    w = {"distance": np.ones(1)}
    for x in ([0, 0, 2, 0, 2, 5], [3, 3, 2, 3, 2, 5], [0, 1, 2, 3, 4, 5]):
        x = np.array(x)
        expected = sample.crf.energy(x, w) - clustering_loss(x, cluster)
        assert augmented.energy(x, w) == pytest.approx(expected)


def test_penalty_by_features_of_the_points():
    sets = noisy_gaussians(0.5, 60, 12, 4, n_sets=2, separation=6.0)
    learner = ExemplarClusteringLearner(penalty="features").fit(sets.train, sets.train_labels)
    assert learner.penalty_.shape == (2,) and (learner.penalty_ >= 0).all()
    assert accuracy(sets.test_labels[0], learner.cluster(sets.test[0], 4)) > 0.9
    assert len(np.unique(learner.cluster(sets.test[0]))) >= 2
    with pytest.raises(ValueError, match="penalty"):
        ExemplarClusteringLearner(penalty="features", graph=True).fit(sets.train, sets.train_labels)
    with pytest.raises(ValueError, match="cluster"):
        learner.choose(learner.distance(sets.test[0]))


def test_penalty_features_are_those_of_the_energy():
    rng = np.random.default_rng(0)
    features = rng.random((5, 2))
    crf = exemplar_model(MatrixSample(rng.random((2, 5, 5))), None, features)
    w = {"distance": rng.random(2), "penalty": rng.random(2)}
    x = np.array([0, 0, 3, 3, 4])
    found = crf.features(x)
    np.testing.assert_allclose(found["penalty"], features[[0, 3, 4]].sum(axis=0))
    assert sum(float(w[n] @ found[n]) for n in w) == pytest.approx(crf.energy(x, w))
    cluster = np.array([0, 0, 1, 1, 1])
    slaves = training_slaves(crf.blocks[0].sample, cluster, penalty=None)
    np.testing.assert_allclose(slaves.unary_features(np.ones(5))["penalty"], [5.0])


def test_only_learning_clusters_sets_with_distractors():
    sets = distractor_gaussians(n_sets=2, separation=3.0, seed=7)
    score = {}
    for name, settings in (("learnt", {}), ("average", {"weighting": "average"})):
        learner = ExemplarClusteringLearner(penalty_rule="training", **settings)
        learner.fit(sets.train, sets.train_labels)
        found = [accuracy(y, learner.cluster(x, 8)) for x, y in zip(sets.test, sets.test_labels)]
        score[name] = np.mean(found)
    assert score["learnt"] > 0.8 > 0.5 > score["average"]
