"""Every estimator of every plugin keeps scikit-learn's conventions, but for what the table lists."""

import importlib
import inspect
import pathlib
import pickle
import warnings

import numpy as np
import pytest
from gmlearn_clustering import ExemplarClustering, ExemplarClusteringLearner
from gmlearn_groupfs import GroupFeatureClustering, make_grouped_views
from gmlearn_mlca import MLCA, SpectralMetric
from gmlearn_mlca.baselines import ITML, KISSME, XQDA
from gmlearn_multicut import Multicut, MulticutLearner
from gmlearn_pointsets import GraphClustering, PointSetClustering, make_graphs, make_point_sets
from gmlearn_structured import ChainCRF, MultiClassCRF
from gmlearn_vision import Denoiser, PatternDenoiser, StereoMatcher
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator

import gmlearn as gm

PLUGINS = pathlib.Path(__file__).parents[2] / "plugins"

WHOLE_SET = "predict partitions a data set as a whole: a row's cluster depends on the other rows"
NEEDS_TRUTH = "the metric is learnt from a known partition, so fit needs y"
PARTITION = {
    "check_methods_subset_invariance": WHOLE_SET,
    "check_methods_sample_order_invariance": WHOLE_SET,
}
#: estimators of tables (n, d): the checks of scikit-learn that fail, and why
TABLES = [
    (MLCA(), PARTITION | {"check_clustering": NEEDS_TRUTH}),
    (MLCA(assign="projection", fit_intercept=False), PARTITION | {"check_clustering": NEEDS_TRUTH}),
    (KISSME(), PARTITION),
    (XQDA(), PARTITION),
    (ITML(n_pairs=50, n_sweeps=2), PARTITION),
    (SpectralMetric(n_rounds=5), PARTITION),
    (GroupFeatureClustering(2, n_init=1), {}),
    (ExemplarClustering(random_state=0), {}),
    (Multicut(), {"check_clustering": "rows are affinities of nodes, not points in space"}),
    (MultiClassCRF(max_iter=20), {}),
]
#: estimators whose samples are no rows of a table (scikit-learn runs none of its checks on them):
#: why, and data for our own
NOT_TABLES = {
    "PointSetClustering": "a sample is a set of points (J, D)",
    "GraphClustering": "a sample is a graph",
    "Denoiser": "a sample is an image",
    "PatternDenoiser": "a sample is an image",
    "StereoMatcher": "a sample is a pair of images",
    "ExemplarClusteringLearner": "a sample is a whole data set with its clusters",
    "MulticutLearner": "a sample is a whole graph with its clusters",
    "ChainCRF": "a sample is a sequence",
    "GridCRF": "a sample is an image",
    "GraphCRF": "a sample is a graph",
    "MultiLabelCRF": "y is a table of labels (n, L) for every X",
    "StructuredEstimator": "a sample is what its builder takes",
    "StructuredBase": "the base of the five above",
    "SequenceVectorizer": "a sample is a sequence of dictionaries",
    **dict.fromkeys(
        ("LDAPosterior", "LDAProjection", "MLCAProjection"),
        "a distance fitted on labelled data sets, for the learner; its rows come with their views",
    ),
}


def estimators():
    """Names of all estimators that the plugins export."""
    for package in sorted(PLUGINS.glob("gmlearn_*")):
        module = importlib.import_module(package.name)
        for name in getattr(module, "__all__", ()):
            found = getattr(module, name)
            if inspect.isclass(found) and issubclass(found, BaseEstimator):
                yield name


def test_the_table_names_every_estimator():
    assert set(estimators()) == {type(e).__name__ for e, _ in TABLES} | NOT_TABLES.keys()


@pytest.mark.parametrize(("estimator", "reasons"), TABLES, ids=lambda e: type(e).__name__)
def test_scikit_learn_checks(estimator, reasons):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_skip=None, on_fail=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed.keys() - reasons.keys(), failed
    assert sum(r["status"] == "passed" for r in results) > 38


def cases():
    sets = make_point_sets(n_centres=2, n_points=6, random_state=0).images
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 3, size=(6, 7)).astype(float) for _ in range(2)]
    pair = (rng.random((5, 8)), rng.random((5, 8)))
    return [
        (PointSetClustering(2, n_init=1, random_state=0), sets, None, "labels_"),
        (
            GraphClustering(2, n_init=1, random_state=0),
            make_graphs(2, 2, n_nodes=4, random_state=0)[0],
            None,
            "labels_",
        ),
        (Denoiser(np.arange(3), max_iter=2), images, images, "potential_"),
        (PatternDenoiser(2, max_iter=2), images, images, "noise_"),
        (StereoMatcher(3, max_iter=2), [pair], [np.ones((5, 8))], "contrast_weights_"),
    ]


@pytest.mark.parametrize(("model", "X", "y", "fitted"), cases(), ids=lambda e: type(e).__name__)
def test_conventions_where_samples_are_no_rows(model, X, y, fitted):
    assert not get_tags(model).input_tags.two_d_array
    parameters = list(inspect.signature(model.fit).parameters.values())
    assert [p.name for p in parameters[:2]] == ["X", "y"] and parameters[1].default is None
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters[2:])
    before = model.get_params()
    with pytest.raises(NotFittedError):
        model.predict(*X[0]) if isinstance(model, StereoMatcher) else model.predict(X)
    found = getattr(model.fit(X, y), fitted)
    assert model.get_params() == before
    np.testing.assert_array_equal(found, getattr(clone(model).fit(X, y), fitted))
    np.testing.assert_array_equal(found, getattr(pickle.loads(pickle.dumps(model)), fitted))
    for seed in (None, np.random.RandomState(3)):
        assert hasattr(clone(model).set_params(random_state=seed).fit(X, y), fitted)
    if get_tags(model).target_tags.required:
        with pytest.raises(ValueError, match="requires y"):
            clone(model).fit(X)
    else:
        np.testing.assert_array_equal(found, getattr(clone(model).fit(X, np.zeros(len(X))), fitted))


def main_paths():
    """Estimators on small data, and the function of the core that `fit` must reach, or None."""
    rng = np.random.default_rng(0)
    rows = np.repeat([0.0, 5.0], 10)[:, None] + rng.normal(size=(20, 3))
    y = np.repeat([0, 1], 10)
    views = make_grouped_views(2, 2, cluster_size=8, random_state=0).views
    sets = [rows, rows[::-1]], [y, y[::-1]]
    affinities = [np.abs(rows[:, None] - rows[None]).transpose(2, 0, 1)], [y]
    learner = ExemplarClusteringLearner(n_rounds=3, random_state=0)
    tables = [
        (ExemplarClustering(random_state=0), (rows,), "solve"),
        (ExemplarClustering(n_clusters=2, random_state=0), (rows,), "solve"),
        (learner, sets, "train"),
        (GroupFeatureClustering(4, n_init=1, random_state=0), (views,), "solve"),
        (SpectralMetric(n_rounds=5), (rows, y), "train"),
        (MulticutLearner(max_iter=3, random_state=0), affinities, "train"),
        (MultiClassCRF(max_iter=3), (rows, y), "train"),
        (ChainCRF(max_iter=3), sets, "train"),
        (MLCA(random_state=0), (rows, y), None),
        (Multicut(), (rng.normal(size=(4, 4)),), None),
    ]
    others = {"PointSetClustering": None, "GraphClustering": "solve"}
    for model, X, truth, _ in cases():
        tables.append((model, (X, truth), others.get(type(model).__name__, "train")))
    return [pytest.param(*row, id=type(row[0]).__name__) for row in tables]


@pytest.mark.parametrize(("model", "data", "expected"), main_paths())
def test_fit_reaches_the_core(model, data, expected, monkeypatch):
    """By counting calls; what stays apart says so in its documentation."""
    reached = set()

    def counted(name, function):
        def call(*args, **kwargs):
            reached.add(name)
            return function(*args, **kwargs)

        return call

    for name in ("solve", "train"):
        monkeypatch.setattr(gm, name, counted(name, getattr(gm, name)))
    clone(model).fit(*data)
    if expected:
        assert expected in reached
    else:
        assert not reached and "``gm." in type(model).__doc__
