"""Distances adapted to a new set by the clusters found in it."""

from functools import partial

import numpy as np
import pytest
from gmlearn_clustering import DistanceBank, ExemplarClusteringLearner, LDAProjection
from gmlearn_clustering.adaptation import (
    adapted_clustering,
    adapted_distances,
    left_out_predictions,
    ridge_hat,
)
from gmlearn_clustering.distances import pair_means
from gmlearn_clustering.metrics import squared_euclidean
from gmlearn_clustering.multiview import Features, Split, evaluate
from gmlearn_clustering.number import exemplars_of_number
from gmlearn_clustering.scores import accuracy


def four_clusters(seed=0, n=80):
    """Two views that show four clusters, and a distance that shows them dimly."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % 4)
    centres = [2.5 * np.random.default_rng(9).normal(size=(4, d)) for d in (6, 9)]
    views = [c[y] + rng.normal(size=(n, c.shape[1])) for c in centres]
    points = np.eye(4)[y] + 0.5 * rng.normal(size=(n, 4))
    return views, y, squared_euclidean(points, points)


def into_four(d):
    return np.argmin(d[:, exemplars_of_number(d, 4)[1]], axis=1)


def test_predictions_are_those_of_regressions_without_the_point():
    views, y, _ = four_clusters(n=24)
    X = np.hstack([(v - v.mean(0)) / v.std(0) / np.sqrt(v.shape[1]) for v in views])
    ridge = 0.1 / 0.9 * (X**2).sum() / X.shape[1]
    values = np.eye(4)[y] / np.sqrt(np.bincount(y))
    found = left_out_predictions(ridge_hat(views), y)
    for i in range(len(y)):
        A, target = np.delete(X, i, 0), np.delete(values, i, 0)
        centre = A.mean(0)
        slope = np.linalg.solve(
            (A - centre).T @ (A - centre) + ridge * np.eye(X.shape[1]), (A - centre).T @ target
        )
        assert np.allclose(found[i], target.mean(0) + (X[i] - centre) @ slope)


def test_adapted_distances_keep_the_level_and_half_of_what_was_given():
    views, y, d = four_clusters()
    hat = ridge_hat(views)
    adapted = adapted_distances(d, hat, y)
    assert np.allclose(pair_means([adapted[None]]), pair_means([d[None]]))
    assert np.allclose(np.diagonal(adapted), np.diagonal(d) / 2) and (adapted >= d / 2).all()
    assert adapted_distances(d, hat, np.zeros(len(d), dtype=int)) is d


@pytest.mark.parametrize("seed", range(3))
def test_views_of_the_set_correct_a_distance_that_transfers_badly(seed):
    views, y, d = four_clusters(seed)
    before, after = accuracy(y, into_four(d)), accuracy(y, adapted_clustering(d, views, into_four))
    assert before < 0.9 and after >= before + 0.1


def test_sets_that_show_nothing():
    labels = adapted_clustering(
        np.zeros((1, 1)), [np.ones((1, 3))], lambda d: np.zeros(len(d), dtype=int)
    )
    assert labels.tolist() == [0]
    _, _, d = four_clusters()
    assert (adapted_clustering(d, [np.ones((80, 2))], into_four) == into_four(d)).all()


def test_a_learnt_distance_is_adapted():
    views, y, _ = four_clusters()
    bank = DistanceBank([(0, "l2"), LDAProjection(0)])
    learner = ExemplarClusteringLearner(bank, n_rounds=20).fit([views], [y])
    rng = np.random.default_rng(5)
    new, truth, _ = four_clusters(1)
    # other conditions: the view of training is blurred
    new = [new[0] + 3.5 * rng.normal(size=new[0].shape), new[1]]
    cluster = partial(learner.cluster_distances, n_clusters=4)
    adapted = adapted_clustering(learner.distance(new), new, cluster)
    assert accuracy(truth, adapted) >= accuracy(truth, learner.cluster(new, 4)) + 0.1


def test_experiment_adapts_only_the_learnt_distance_and_only_where_conditions_change():
    train, y, d = four_clusters()
    test, truth, e = four_clusters(1)
    features = Features(np.stack([d, d]), np.stack([e, e]), np.stack([e, e]), ["one", "two"])
    same, other = (
        evaluate(Split(train, y, test, truth, folds), features)[1] for folds in (None, y % 3)
    )
    assert other["learnt"][3] >= same["learnt"][3] + 0.1
    assert (
        other["average of all"] == same["average of all"]
        and other["best single"] == same["best single"]
    )
