"""The clustering estimator: recovery, descent, invariance, conventions, bad input."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from gmlearn_pointsets import PointSetClustering, centre_errors, make_point_sets, point_set_distance
from gmlearn_pointsets.rigid import planar_rotation
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score


@pytest.fixture(scope="module")
def data():
    return make_point_sets(
        n_centres=4, images_per_centre=4, n_points=15, sigma=0.02, random_state=3
    )


@pytest.fixture(scope="module")
def model(data):
    return PointSetClustering(4, n_init=2, random_state=0).fit(data.images)


def test_recovers_the_clusters_and_centres(data, model):
    assert adjusted_rand_score(data.labels, model.labels_) == 1.0
    assert centre_errors(model.cluster_centers_, data.centres).mean() < 1.1 * data.floor


def test_fitted_attributes_agree(data, model):
    np.testing.assert_allclose(model.memberships_.sum(1), 1.0)
    assert (model.memberships_.argmax(1) == model.labels_).all()
    assert model.energy_ == pytest.approx(model.distances_.min(1).sum())
    for points, label, distance in zip(model.aligned_, model.labels_, model.distances_):
        plain = point_set_distance(
            points, model.cluster_centers_[label], rotation=False, translation=False, method="hard"
        )
        assert plain.distance <= distance[label] * (1 + 1e-6)


def test_predict_knows_moved_images(data, model):
    rng = np.random.default_rng(0)
    assert (model.predict(data.images) == model.labels_).all()
    turned = np.array(
        [
            image[rng.permutation(15)] @ planar_rotation(rng.uniform(0, 6)).T + rng.normal(size=2)
            for image in data.images
        ]
    )
    assert (model.predict(turned) == model.labels_).all()


def test_energy_never_rises_within_a_temperature():
    noisy = make_point_sets(
        n_centres=3, images_per_centre=4, n_points=10, sigma=0.08, random_state=1
    )
    model = PointSetClustering(
        3,
        n_init=1,
        random_state=0,
        anneal_rate=1.8,
        max_sweeps=12,
        sinkhorn_tol=1e-8,
        sinkhorn_sweeps=10_000,
        membership_ratio=0.1,
    ).fit(noisy.images)
    rises = [
        (after - before) / abs(before)
        for _, energies, _ in model.history_
        for before, after in pairwise(energies)
    ]
    assert len(rises) > 15
    assert max(rises) < 1e-7
    assert min(rises) < -1e-4  # and it does fall


def test_energy_never_rises_with_outliers_priced():
    noisy = make_point_sets(
        n_centres=3, images_per_centre=3, n_points=10, sigma=0.05, random_state=2
    )
    model = PointSetClustering(
        3,
        n_init=1,
        random_state=0,
        anneal_rate=2.0,
        max_sweeps=10,
        sinkhorn_tol=1e-9,
        sinkhorn_sweeps=20_000,
        outlier_cost=0.02,
    ).fit(noisy.images)
    for _, energies, _ in model.history_:
        assert (np.diff(energies) <= 1e-7 * np.abs(energies[0])).all()


def test_pairs_are_pruned(model):
    swept = [pairs for _, _, pairs in model.history_]
    assert swept[0] == 16 * 4
    assert swept[-1] < 16 * 4 / 2
    assert (np.diff(swept) <= 0).all()


def test_invariant_under_motion_of_the_images(data, model):
    rng = np.random.default_rng(1)
    turned = np.array(
        [image @ planar_rotation(rng.uniform(0, 6)).T + rng.normal(size=2) for image in data.images]
    )
    again = PointSetClustering(4, n_init=2, random_state=0).fit(turned)
    assert again.energy_ == pytest.approx(model.energy_, rel=1e-6)
    assert adjusted_rand_score(again.labels_, model.labels_) == 1.0


def test_invariant_under_units(data, model):
    again = PointSetClustering(4, n_init=2, random_state=0).fit(1000 * data.images)
    assert again.energy_ == pytest.approx(1e6 * model.energy_, rel=1e-6)


def test_same_seed_same_answer(data, model):
    again = clone(model).fit(data.images)
    np.testing.assert_array_equal(again.labels_, model.labels_)
    np.testing.assert_array_equal(again.cluster_centers_, model.cluster_centers_)


def test_three_dimensions_and_scale():
    rng = np.random.default_rng(2)
    from scipy.spatial.transform import Rotation

    centres, labels = rng.normal(size=(2, 10, 3)), np.repeat([0, 1], 5)
    turns = Rotation.random(10, random_state=3).as_matrix()
    images = np.array(
        [
            rng.uniform(0.8, 1.2) * centres[a] @ R.T + rng.normal(size=3)
            for a, R in zip(labels, turns)
        ]
    )
    model = PointSetClustering(
        2, scale=True, n_init=2, n_starts=24, n_refine=8, random_state=0
    ).fit(images)
    assert adjusted_rand_score(labels, model.labels_) == 1.0
    assert model.energy_ < 1e-6 * (images**2).sum()


def test_sets_of_different_sizes(data):
    rng = np.random.default_rng(4)
    images = [image[rng.permutation(15)[: rng.integers(12, 16)]] for image in data.images]
    model = PointSetClustering(4, n_init=4, outlier_cost=0.01, random_state=0).fit(images)
    assert adjusted_rand_score(data.labels, model.labels_) == 1.0
    assert [len(points) for points in model.aligned_] == [len(image) for image in images]


def test_one_cluster_and_as_many_as_images(data):
    one = PointSetClustering(1, n_init=1, random_state=0).fit(data.images)
    assert (one.labels_ == 0).all()
    every = PointSetClustering(4, n_init=1, random_state=0).fit(data.images[:4])
    assert sorted(every.labels_) == [0, 1, 2, 3]
    assert every.energy_ == pytest.approx(0.0, abs=1e-9)


def test_plot(model):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    axes = model.plot()
    assert len(axes) == 4 and "images" in axes[0].get_title(loc="left")
    plt.close("all")
    with pytest.raises(ValueError, match="ax: expected at least 4"):
        model.plot(ax=plt.subplots()[1])
    plt.close("all")


@pytest.mark.parametrize(
    ("images", "options", "message"),
    [
        (
            np.zeros((3, 5, 2)),
            dict(n_clusters=4),
            "n_clusters: expected at most the number of images, 3, got 4",
        ),
        (np.full((3, 5, 2), np.nan), dict(n_clusters=2), "X: contains NaN"),
        (np.zeros((3, 1, 2)), dict(n_clusters=2), "X: a point set needs at least two points"),
        (
            [np.zeros((4, 2)), np.zeros((4, 3))],
            dict(n_clusters=1),
            "X: all sets must have one dimension",
        ),
        (np.zeros((5, 2)), dict(n_clusters=1), "X: expected many point sets"),
        (np.zeros((3, 5, 2)), dict(n_clusters=0), "n_clusters: expected a number"),
        (np.zeros((3, 5, 2)), dict(n_clusters=1, init="best"), "init: expected one of"),
        (
            np.zeros((3, 5, 2)),
            dict(n_clusters=1, anneal_rate=1.0),
            "anneal_rate: expected a number",
        ),
        (
            np.zeros((3, 5, 2)),
            dict(n_clusters=1, beta_start=9.0, beta_end=8.0),
            "beta_end: expected at least",
        ),
        (
            np.zeros((3, 5, 2)),
            dict(n_clusters=1, max_rotation=9.0),
            "max_rotation: expected a number",
        ),
    ],
)
def test_bad_input(images, options, message):
    with pytest.raises(ValueError, match=message):
        PointSetClustering(**options).fit(images)


def test_predict_checks(model):
    with pytest.raises(ValueError, match="X: fitted on points in 2 dimensions, got 3"):
        model.predict(np.zeros((2, 4, 3)))


def test_random_start_is_the_papers(data):
    model = PointSetClustering(4, init="random", n_init=1, random_state=0).fit(data.images)
    assert model.cluster_centers_.shape == (4, 15, 2)
