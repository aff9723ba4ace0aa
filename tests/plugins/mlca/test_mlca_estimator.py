"""MLCA as an estimator: every way to pass the data gives one metric, partitions are found, bad
input is named.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from gmlearn_mlca import MLCA, delta_loss
from gmlearn_mlca.synthetic import two_layer_categories


@pytest.fixture(scope="module")
def data():
    X, y = two_layer_categories((300, 400, 500), rng=0)
    return np.c_[X, np.random.default_rng(1).normal(size=(len(X), 3))], y


def metric(model):
    return model.get_mahalanobis_matrix()


def test_every_way_in_gives_the_same_metric(data, tmp_path):
    X, y = data
    expected = metric(MLCA().fit(X, y))
    thirds = np.array_split(np.arange(len(X)), 3)
    np.testing.assert_allclose(
        metric(MLCA().fit([X[i] for i in thirds], [y[i] for i in thirds])), expected, rtol=1e-9
    )
    # grows its classes
    np.testing.assert_allclose(
        metric(MLCA().fit((X[i], y[i]) for i in thirds)), expected, rtol=1e-9
    )
    np.testing.assert_allclose(metric(MLCA().fit(sp.csr_array(X), y)), expected, rtol=1e-9)
    np.testing.assert_allclose(metric(MLCA().fit(X, np.eye(3)[y])), expected, rtol=1e-9)
    np.testing.assert_allclose(
        metric(MLCA().fit(X, np.array(["a", "b", "c"])[y])), expected, rtol=1e-9
    )
    mapped = np.memmap(tmp_path / "rows.bin", np.float64, "w+", shape=X.shape)
    mapped[:] = X
    np.testing.assert_allclose(metric(MLCA().fit(mapped, y)), expected, rtol=1e-9)
    stream = MLCA()
    for i in thirds:  # the first chunk holds one class only
        stream.partial_fit(X[i], y[i], classes=[0, 1, 2])
    np.testing.assert_allclose(metric(stream), expected, rtol=1e-9)


def test_statistics_do_not_depend_on_chunks_or_on_how_rows_are_stored(data, monkeypatch):
    import gmlearn_mlca.statistics as module

    X, y = data
    table = np.c_[X, np.eye(3)[y], np.ones(len(X))]
    expected = table.T @ table
    np.testing.assert_allclose(raw_moments(MLCA().fit(X, y)), expected, atol=1e-8)
    monkeypatch.setattr(module, "CHUNK_BYTES", 1)
    np.testing.assert_allclose(raw_moments(MLCA().fit(X, y)), expected, atol=1e-8)
    mixed = MLCA().fit([X[:500], sp.csr_array(X[500:])], [y[:500], y[500:]])
    np.testing.assert_allclose(raw_moments(mixed), expected, atol=1e-8)


def raw_moments(model):
    return model.statistics_.about(np.zeros(model.n_features_in_))


def test_statistics_add_up(data):
    X, y = data
    classes = np.arange(3)
    whole = module_statistics(X, y, classes)
    halves = module_statistics(X[::2], y[::2], classes) + module_statistics(
        X[1::2], y[1::2], classes
    )
    np.testing.assert_allclose(halves.about(whole.origin), whole.moments, atol=1e-8)
    with pytest.raises(
        ValueError, match="expected statistics of 6 features and 3 classes, got 6 and 4"
    ):
        whole + whole.with_classes(4, classes)


def module_statistics(X, y, classes):
    from gmlearn_mlca import PartitionStatistics

    return PartitionStatistics(X.shape[1], len(classes)).add(X, y, classes)


@pytest.mark.parametrize("assign", ["auto", "whitened", "singular-vectors", "projection"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_finds_the_partition_of_a_new_dataset(assign, fit_intercept, dtype):
    X, y = two_layer_categories((1000, 1000, 1000), rng=0)
    X_test, y_test = two_layer_categories((200, 300, 100), rng=1)
    model = MLCA(assign=assign, fit_intercept=fit_intercept, random_state=0).fit(X.astype(dtype), y)
    assert model.transform(X_test.astype(dtype)).dtype == dtype
    assert -model.score(X_test.astype(dtype), y_test) < 0.15


def test_whitened_axes_make_the_training_clusters_round():
    from gmlearn_mlca.assign import round_clusters
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    model = MLCA(random_state=0).fit(X, y)
    Z = model.transform(X) * round_clusters(model.eigenvalues_)
    within = Z - np.array([Z[y == c].mean(axis=0) for c in range(3)])[y]
    np.testing.assert_allclose(within.T @ within, np.eye(2), atol=1e-8)
    paper = MLCA(assign="singular-vectors", random_state=0).fit(X, y)
    assert -model.score(X, y) < 0.5 < -paper.score(X, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rank_erratum_on_centred_data(dtype):
    """On centred data W has rank k - 1; the paper's k-th singular vector would be rounding
    noise.
    """
    X, y = two_layer_categories(rng=0)
    X_test, y_test = two_layer_categories(rng=1)
    X_test = (X_test - X.mean(axis=0)).astype(dtype)
    X = (X - X.mean(axis=0)).astype(dtype)
    model = MLCA(assign="singular-vectors", fit_intercept=False, random_state=0).fit(X, y)
    assert model.n_components_ == 2
    assert -model.score(X_test, y_test) < 0.08
    assert model.predict(X_test).max() == 2  # still three clusters


def test_float32_rank_tolerance():
    """Dependent float32 columns leave eigenvalues of about 1e-6 in X'X: the default sees the
    rank, a tiny tolerance takes rounding for directions.
    """
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(20000, 6)).astype(np.float32), np.arange(20000) % 3
    Z[:, :2] += np.eye(3)[y][:, :2]
    mix = rng.normal(size=(6, 4)).astype(np.float32)
    X = np.hstack([Z, Z @ mix])
    nothing = np.vstack([mix, -np.eye(4)])  # directions in which X does not vary
    good, bad = MLCA().fit(X, y), MLCA(rank_tol=1e-7).fit(X, y)
    reference = MLCA().fit(Z.astype(np.float64), y).transform(Z.astype(np.float64))
    np.testing.assert_allclose(good.transform(X), reference, atol=2e-3 * np.abs(reference).max())
    assert good.n_components_ == 2
    seen, wrongly_seen = (np.abs(nothing.T @ metric(m) @ nothing).max() for m in (good, bad))
    assert wrongly_seen > 1e3 * seen
    np.testing.assert_allclose(
        metric(good), metric(MLCA(rank_tol=1e-3).fit(X.astype(np.float64), y)), atol=1e-9
    )


def test_constant_and_empty_columns_do_not_matter(data):
    X, y = data
    wide = np.c_[X, np.zeros(len(X)), np.full(len(X), 1234.5)]
    expected = np.zeros((8, 8))
    expected[:6, :6] = metric(MLCA().fit(X, y))
    np.testing.assert_allclose(metric(MLCA().fit(wide, y)), expected, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(
        metric(MLCA().fit(wide.astype(np.float32), y)), expected, rtol=1e-2, atol=1e-5
    )


def test_origin_does_not_matter_with_an_intercept(data):
    X, y = data
    near, far = MLCA().fit(X, y), MLCA().fit(X + 50.0, y)
    np.testing.assert_allclose(near.transform(X), far.transform(X + 50.0), atol=1e-8)


def test_float32_far_from_the_origin_keeps_its_digits(data):
    """With a mean of a thousand standard deviations X'X alone would hold nothing but the mean."""
    X, y = data
    far = (X + 1000.0).astype(np.float32)
    expected = metric(MLCA().fit(far.astype(np.float64), y))
    np.testing.assert_allclose(
        metric(MLCA().fit(far, y)), expected, rtol=1e-2, atol=1e-3 * np.abs(expected).max()
    )


def test_empty_class_changes_nothing(data):
    X, y = data
    model = MLCA().partial_fit(X, y, classes=[0, 1, 2, 9])
    np.testing.assert_allclose(metric(model), metric(MLCA().fit(X, y)), rtol=1e-9)
    assert model.n_clusters_ == 3


def test_soft_memberships_and_fewer_components(data):
    X, y = data
    soft = 0.9 * np.eye(3)[y] + 0.1 / 3
    model = MLCA(random_state=0).fit(X, soft)
    assert delta_loss(model.predict(X), y) < 0.1
    assert MLCA(n_components=1).fit(X, y).n_components_ == 1


def test_univariate_sign_rule_needs_the_intercept_away_from_the_origin():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [300, 100])
    X = rng.normal(size=(400, 3)) * 0.3 + np.outer(y, [1.0, 1.0, 0.0]) + 5.0
    assert delta_loss(MLCA("univariate").fit_predict(X, y), y) < 0.3
    # needs no other rows
    np.testing.assert_array_equal(MLCA("univariate").fit(X, y).predict(X[:5]), [0] * 5)


def test_subsample_is_close_and_ridge_shrinks(data):
    X, y = data
    model = MLCA(subsample=0.3, random_state=0).fit(X, y)
    assert model.statistics_.n_samples == 360
    assert delta_loss(model.predict(X), y) < 0.1
    assert np.trace(metric(MLCA(ridge=1.0).fit(X, y))) < np.trace(metric(MLCA().fit(X, y)))


def test_fit_predict_of_a_list_of_datasets(data):
    X, y = data
    first, second = MLCA(random_state=0).fit_predict([X[::2], X[1::2]], [y[::2], y[1::2]])
    assert delta_loss(first, y[::2]) < 0.1 and delta_loss(second, y[1::2]) < 0.1


@pytest.mark.parametrize(
    "X, y, message",
    [
        (np.ones((4, 2)), [1, 1, 1, 1], "y: expected at least two classes, got 1 class"),
        (
            np.array([[1.0, np.nan], [0, 1], [1, 1]]),
            [0, 1, 1],
            r"X: contains NaN \(first at row 0, column 1\)",
        ),
        (
            np.array([[1.0, 0], [0, 1], [np.inf, 1]]),
            [0, 1, 1],
            r"X: contains infinity \(first at row 2, column 0\)",
        ),
        (np.eye(3), [0, 1], "y: expected 3 labels .* got shape \\(2,\\)"),
        (np.eye(3), None, "requires y to be passed"),
        (
            np.eye(2),
            np.eye(3)[:2],
            "expected at least as many samples as classes, got n_samples = 2 for 3",
        ),
        (np.eye(3), [0.1, 0.2, 0.7], "y: Unknown label type"),
        (np.eye(3), [0, np.nan, 1], "y: contains NaN"),
        (
            [np.eye(3), np.eye(3)],
            [0, 1, 1],
            "y: expected a list of 2 label vectors, one for each dataset of X, got 3",
        ),
        (iter([]), None, "iterator of chunks yielded nothing"),
        (iter([np.eye(3)]), None, r"must yield pairs \(X_chunk, y_chunk\); item 0 is a ndarray"),
    ],
)
def test_bad_data_is_named(X, y, message):
    with pytest.raises(ValueError, match=message):
        MLCA().fit(X, y)


def test_float32_overflow_is_not_called_infinity():
    with pytest.raises(ValueError, match="squares overflow float32"):
        MLCA().fit(np.array([[1e30, 0], [0, 1], [1, 1]], np.float32), [0, 1, 1])


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"kind": "trivariate"}, "kind: expected one of 'multivariate', 'univariate'"),
        ({"assign": "nearest"}, "assign: expected one of"),
        ({"ridge": -1.0}, "ridge: expected a number"),
        ({"subsample": 0.0}, r"subsample: expected a share of the rows in \(0, 1\]"),
        ({"n_components": 0}, "n_components: expected a number"),
        ({"kind": "univariate"}, "'univariate' is for two classes, got 3"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        MLCA(**settings).fit(np.eye(3), [0, 1, 2])


def test_unannounced_label_in_a_stream():
    stream = MLCA().partial_fit(np.eye(3), [0, 1, 1])
    before = stream.statistics_.moments.copy()
    with pytest.raises(
        ValueError, match=r"y: labels \[2\] were not announced.*classes=\.\.\. in the first call"
    ):
        stream.partial_fit(np.eye(3), [0, 2, 1])
    np.testing.assert_array_equal(stream.statistics_.moments, before)


def test_too_few_rows_to_partition(data):
    model = MLCA().fit(*data)
    with pytest.raises(
        ValueError, match="X: expected at least n_clusters = 3 rows to partition, got n_samples = 2"
    ):
        model.predict(data[0][:2])


def test_dask_arrays_are_fitted_block_by_block():
    da = pytest.importorskip("dask.array")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 6)), rng.integers(0, 3, 300)
    whole = MLCA().fit(X, y).get_mahalanobis_matrix()
    lazy = da.from_array(X, chunks=(70, 4))
    for labels in (y, da.from_array(y, chunks=90)):
        np.testing.assert_allclose(
            MLCA().fit(lazy, labels).get_mahalanobis_matrix(), whole, atol=1e-9
        )
    with pytest.raises(ValueError, match="expected 300 labels"):
        MLCA().fit(lazy, y[:-1])
