"""Learning to cluster: banks, cross-fitting, calibration, the learner and its errors."""

import subprocess
import sys

import numpy as np
import pytest
from gmlearn_clustering import (
    DistanceBank,
    ExemplarClusteringLearner,
    LDAPosterior,
    LDAProjection,
    MLCAProjection,
    noisy_gaussians,
)
from gmlearn_clustering.calibration import calibrate_rate, choose_point, clustering_path, thinned
from gmlearn_clustering.crossfit import cross_fit
from gmlearn_clustering.distances import DimensionBank, PrecomputedBank
from gmlearn_clustering.metrics import squared_euclidean
from gmlearn_clustering.scores import accuracy, nearest_neighbour_accuracy, nmi, pair_f


def small_sets(rho=0.5, **settings):
    return noisy_gaussians(
        rho,
        **{
            "n_points": 60,
            "n_dimensions": 20,
            "n_clusters": 5,
            "n_sets": 3,
            "separation": 6.0,
            **settings,
        },
    )


def test_learnt_distance_finds_clusters_among_noise():
    sets = small_sets()
    learner = ExemplarClusteringLearner().fit(sets.train, sets.train_labels)
    found = [learner.cluster(X) for X in sets.test]
    assert np.mean([pair_f(y, labels) for y, labels in zip(sets.test_labels, found)]) >= 0.97
    assert (
        learner.weights_[sets.noisy].sum() <= 0.05 * learner.weights_.sum()
        and (learner.weights_ >= 0).all()
    )
    assert min(learner.history_["objective"]) < 0.6 * learner.history_["objective"][0]
    assert learner.score(sets.test, sets.test_labels) >= 0.97
    X = sets.test[0]
    assert np.allclose(squared_euclidean(*[learner.transform(X)] * 2), learner.distance(X))
    assert np.allclose(learner.distance(X, X), learner.distance(X))
    assert learner.cluster(X, n_clusters=3).max() == 2
    assert learner.nearest_neighbour_score(X, sets.test_labels[0], X, sets.test_labels[0]) == 1.0
    for ax in (learner.plot_weights(), learner.plot_objective()):
        assert ax.get_title()


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "stochastic"},
        {"n_inner": 3},
        {"penalty": "learn"},
        {"regularizer": "l2"},
        {"constraints": "none"},
        {"penalty_rule": "training"},
    ],
)
def test_variants_learn(settings):
    sets = small_sets(0.3)
    learner = ExemplarClusteringLearner(**settings).fit(sets.train, sets.train_labels)
    assert min(learner.history_["objective"]) < 0.8 * learner.history_["objective"][0]
    if not {"penalty_rule", "constraints"} & set(settings):
        assert learner.score(sets.test, sets.test_labels) >= 0.9


def test_rule_transfers_to_clusters_of_other_sizes():
    big, small = small_sets(n_points=150), small_sets(n_points=30, seed=5)
    learner = ExemplarClusteringLearner().fit(big.train, big.train_labels)
    assert learner.score(small.test, small.test_labels) >= 0.95


def test_normalisation_is_the_mean_over_training_pairs():
    X = [np.random.default_rng(k).normal(size=(9 + k, 3)) * [1, 5, 0] for k in range(2)]
    bank = DimensionBank().fit(X)
    pairs = [((x[:, None] - x[None]) ** 2)[~np.eye(len(x), dtype=bool)] for x in X]
    assert (
        np.allclose(bank.scale_[:2], np.concatenate(pairs).mean(axis=0)[:2])
        and bank.scale_[2] == 1.0
    )
    stacks = [np.stack([squared_euclidean(x, x), np.abs(x[:, :1] - x[:, 0])]) for x in X]
    given = PrecomputedBank().fit(stacks)
    assert np.allclose(
        given.scale_[1],
        np.concatenate([s[1][~np.eye(len(s[1]), dtype=bool)] for s in stacks]).mean(),
    )


def views(seed=0, n=60):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 4
    return [3 * rng.normal(size=(4, 5))[y] + rng.normal(size=(n, 5)), rng.normal(size=(n, 30))], y


def test_bank_of_views_with_fitted_and_callable_distances():
    X, y = views()
    bank = DistanceBank(
        [
            (0, "l2"),
            (0, "cosine"),
            (1, "l1"),
            (1, lambda A, B: np.abs(A[:, :1] - B[:, 0])),
            LDAProjection(0),
            LDAPosterior(),
        ]
    )
    learner = ExemplarClusteringLearner(bank).fit([X], [y])
    assert len(learner.weights_) == 6 and learner.feature_names_[4] == "view 0 lda"
    assert accuracy(y, learner.cluster(X)) >= 0.95
    assert np.allclose(learner.distance(X, X), learner.distance(X))
    with pytest.raises(ValueError, match="transform: only"):
        learner.transform(X)


def test_cross_fitting_does_not_flatter_a_useless_view():
    X, y = views()
    plain = DistanceBank([LDAPosterior(1)]).fit([X], [y]).prepare(X).matrices[0]
    crossed = cross_fit(DistanceBank([LDAPosterior(1)]), [X], [y])[0].matrices[0]
    same = (y[:, None] == y) & ~np.eye(len(y), dtype=bool)

    def contrast(d):
        return d[y[:, None] != y].mean() / d[same].mean()

    assert contrast(plain) > 2.0 and contrast(crossed) < 1.15
    assert np.allclose(crossed, crossed.T) and np.isclose(
        crossed[~np.eye(len(y), dtype=bool)].mean(), 1.0, atol=0.05
    )


def test_mlca_is_its_closed_form():
    X, y = views()
    Z = (X[0] - X[0].mean(axis=0)) / X[0].std(axis=0) / np.sqrt(X[0].shape[1])
    member = np.eye(4)[y]
    W = np.linalg.pinv(Z) @ (member / np.sqrt(member.sum(axis=0)))
    found = MLCAProjection(0, shrinkage=1e-9).fit(X, y).transform(X)
    assert np.allclose(squared_euclidean(found, found), squared_euclidean(Z @ W, Z @ W), atol=1e-6)
    with pytest.raises(ValueError, match="shrinkage: expected"):
        MLCAProjection(shrinkage=0.0).fit(X, y)
    with pytest.raises(ValueError, match="view: expected"):
        MLCAProjection(view=2).fit(X, y)


def test_lda_is_scikit_learns():
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    X, y = views()
    Z = (X[0] - X[0].mean(axis=0)) / X[0].std(axis=0)
    other = LinearDiscriminantAnalysis(solver="eigen").fit(Z, y)
    found = LDAProjection(0, shrinkage=1e-9).fit(X, y).transform(X)
    assert np.allclose(
        squared_euclidean(found, found),
        squared_euclidean(other.transform(Z), other.transform(Z)),
        rtol=1e-4,
    )
    share = LDAPosterior(0, shrinkage=1e-9).fit(X, y).transform(X) ** 2
    assert np.allclose(share, other.predict_proba(Z), atol=1e-4)


@pytest.mark.parametrize("projection", [LDAProjection(), LDAPosterior(), MLCAProjection()])
def test_new_points_may_vary_where_training_points_do_not(projection):
    (X, _), y = views()
    # a constant and a dependent part
    flat = [np.hstack([X, 0.1 * np.ones((60, 1)), X[:, :2] @ np.ones((2, 3))])]
    moved = [flat[0] + np.random.default_rng(1).normal(size=flat[0].shape)]
    found = projection.fit(flat, y).transform(moved)
    assert (
        np.isfinite(found).all()
        and np.abs(found).max() < 50 * np.abs(projection.transform(flat)).max()
    )


def test_equal_labels_are_one_class_in_all_samples():
    X, y = views()
    halves = [[v[y < 2] for v in X], [v[y >= 1] for v in X]]
    learner = ExemplarClusteringLearner(DistanceBank([LDAProjection(0), (1, "l2")])).fit(
        halves, [y[y < 2], y[y >= 1]]
    )
    assert (
        learner.bank_.features_[0].projection.centres_.shape[0] == 4
        and accuracy(y, learner.cluster(X)) >= 0.9
    )


def test_folds_may_be_given():
    X, y = views()
    bank = DistanceBank([LDAProjection(0)])
    fold = (np.arange(60) // 4) % 3
    first, second = (cross_fit(bank, [X], [y], seed=s, folds=[fold])[0].matrices for s in (0, 1))
    assert np.array_equal(first, second)
    with pytest.raises(ValueError, match="folds: expected at least 3"):
        cross_fit(bank, [X], [y], folds=[fold % 2])


def test_path_has_every_number_once_at_its_own_cost():
    X, _ = views(n=80)
    distances = squared_euclidean(X[0], X[0])
    path = clustering_path(distances)
    numbers = [point.n_clusters for point in path]
    assert (
        numbers == sorted(set(numbers))
        and numbers[0] == 1
        and max(numbers) <= 80 // 3
        and 4 in numbers
    )
    for point in path:
        total = distances[:, point.exemplars].min(axis=1).sum()
        assert point.mean_distance == pytest.approx(total / (80 - point.n_clusters))
        assert np.array_equal(np.unique(point.labels), np.arange(point.n_clusters))
    for rate in (0.01, 0.05, 0.2, 1.0):
        wanted, part = choose_point(path, rate), clustering_path(distances, rate)
        assert len(part) <= len(path) and np.array_equal(
            choose_point(part, rate).labels, wanted.labels
        )


def test_calibrated_rate_keeps_a_margin():
    """The number stays right when the rate of new sets is a third lower or higher."""
    X, y = views()
    paths = [clustering_path(squared_euclidean(Z[0], Z[0])) for Z in (X, views(seed=3, n=100)[0])]
    rate = calibrate_rate(paths, [y, views(seed=3, n=100)[1]])
    for path in paths:
        assert {choose_point(path, factor * rate).n_clusters for factor in (0.67, 1.0, 1.5)} == {4}


def test_thinned_partition_keeps_every_cluster_and_shrinks_one():
    cluster = np.repeat(np.arange(4), [2, 3, 12, 20])
    for seed in range(12):
        kept = thinned(cluster, seed)
        sizes = np.bincount(cluster[kept])
        shrunk = np.flatnonzero(sizes != [2, 3, 12, 20])
        assert (np.diff(kept) > 0).all() and len(shrunk) <= 1 and len(sizes) == 4
        assert all(sizes[c] == {1: 2, 2: 3, 3: 5}[c] for c in shrunk)


def test_names_as_labels():
    X, y = views()
    names = np.array(["ash", "elm", "fir", "oak"])[y]
    wanted = ExemplarClusteringLearner(n_rounds=10).fit([X[0]], [y])
    for labels in (names, names.astype(object), list(names)):
        learner = ExemplarClusteringLearner(n_rounds=10).fit([X[0]], [labels])
        assert np.array_equal(learner.weights_, wanted.weights_)


def test_calibrated_rule_finds_the_number():
    X, y = views()
    path = clustering_path(squared_euclidean(X[0], X[0]))
    rate = calibrate_rate([path], [y])
    other, truth = views(seed=3, n=100)
    chosen = choose_point(clustering_path(squared_euclidean(other[0], other[0])), rate)
    assert (
        accuracy(y, choose_point(path, rate).labels) >= 0.95
        and accuracy(truth, chosen.labels) >= 0.9
    )


def test_scores():
    truth, labels = np.array([0, 0, 0, 1, 1]), np.array([5, 5, 2, 2, 2])
    same_t, same_l = truth[:, None] == truth, labels[:, None] == labels
    upper = np.triu(np.ones((5, 5), dtype=bool), 1)
    both = (same_t & same_l & upper).sum()
    assert pair_f(truth, labels) == pytest.approx(
        2 * both / ((same_t & upper).sum() + (same_l & upper).sum())
    )
    assert accuracy(truth, labels) == pytest.approx(0.8) and accuracy(truth, truth + 3) == 1.0
    assert nmi(truth, truth) == pytest.approx(1.0)
    assert (
        nearest_neighbour_accuracy(
            np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0, 1]), np.array([0, 0])
        )
        == 0.5
    )


def test_bad_training_data():
    X, y = [np.arange(8.0).reshape(4, 2)], [[0, 0, 1, 1]]
    fit = ExemplarClusteringLearner().fit
    for bad_X, bad_y, message in [
        (X, [[0, 0, 0, 0]], r"y\[0\]: expected at least two clusters"),
        (X, [[0, 1]], r"y\[0\]: expected 4 labels"),
        (X, [[[0, 1], [1, 0]]], r"y\[0\]: expected one cluster label a point"),
        (X, [[0.0, np.nan, 1, 1]], "expected one cluster label"),
        ([np.ones((1, 2))], [[0]], "at least two points"),
        ([np.ones((0, 2))], [[]], "at least two points"),
        ([], [], "X: expected a non-empty list"),
        (X, [*y, *y], "y: expected one partition a sample"),
        ([np.full((4, 2), np.nan)], y, r"X\[0\]: contains NaN"),
        ([*X, np.ones((4, 3))], [*y, *y], r"X\[1\]: expected 2 features"),
    ]:
        with pytest.raises(ValueError, match=message):
            fit(bad_X, bad_y)
    with pytest.raises(ValueError, match="expected distances >= 0"):
        ExemplarClusteringLearner("precomputed").fit([-np.ones((1, 4, 4))], y)
    with pytest.raises(ValueError, match="X: expected 2 features as in training, got 3"):
        fit(X, y).cluster(np.ones((4, 3)))
    with pytest.raises(ValueError, match="distances: view"):
        DistanceBank([(4, "l2")]).fit(X)
    with pytest.raises(ValueError, match="distances: expected at least one"):
        DistanceBank([]).fit(X)
    with pytest.raises(ValueError, match="at least three points of every class"):
        ExemplarClusteringLearner(DistanceBank([LDAProjection()])).fit([X], y)
    with pytest.raises(ValueError, match=r"y\[0\]: expected 4 labels"):
        ExemplarClusteringLearner(DistanceBank([LDAProjection()])).fit([X], [[0, 0, 0, 1, 1, 1]])
    for bad in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="must return finite distances >= 0"):
            DistanceBank([(0, lambda A, B, bad=bad: np.full((len(A), len(B)), bad))]).fit(X)


def test_bad_new_data():
    X, y = np.arange(8.0).reshape(4, 2), [0, 0, 1, 1]
    learner = ExemplarClusteringLearner(n_rounds=5).fit([X], [y])
    assert learner.cluster(X[:1]).tolist() == [0]
    for call, message in [
        (lambda: learner.cluster(X[:0]), "X: expected at least one point"),
        (lambda: learner.cluster(X, n_clusters=9), "n_clusters: expected"),
        (lambda: learner.score([X], [y[:2]]), r"y\[0\]: expected 4 labels"),
        (lambda: learner.score([X], []), "y: expected one partition"),
        (lambda: learner.nearest_neighbour_score(X, y[:3], X, y), "y_train: expected 4 labels"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": -1}, "alpha"),
        ({"features": "guess"}, "features: expected one of"),
        ({"regularizer": "l0"}, "regularizer"),
        ({"penalty": "auto"}, "penalty"),
        ({"n_rounds": 0}, "n_rounds"),
        ({"constraints": "box"}, "constraints"),
    ],
)
def test_bad_parameters(settings, message):
    with pytest.raises(ValueError, match=message):
        ExemplarClusteringLearner(**settings).fit([np.arange(8.0).reshape(4, 2)], [[0, 0, 1, 1]])


def test_hooks_import_nothing_heavy():
    code = (
        "import sys, gmlearn_clustering.plugin as p; "
        "names = {e.name for e in p.gmlearn_experiments()}; "
        "assert {'demo', 'cluster-synthetic', 'cluster-multiview'} <= names, names; "
        "heavy = {'numba', 'sklearn', 'matplotlib', 'cvxpy'} & set(sys.modules); assert not "
        "heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
