"""ExemplarClustering as a scikit-learn estimator."""

import numpy as np
import pytest
import scipy.sparse
from gmlearn_clustering import ExemplarClustering, exemplar_energy, minimise_exemplars
from gmlearn_clustering.energy import with_penalty
from gmlearn_clustering.metrics import METRICS, pairwise, squared_euclidean
from gmlearn_clustering.reach import bound_within, minimise_on_points, problem_within, reach_of
from gmlearn_clustering.sparse import draw_landmarks, neighbour_costs


def blobs(n=60, k=4, d=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    return 8 * rng.normal(size=(k, d))[y] + rng.normal(size=(n, d)), y


@pytest.mark.parametrize(
    "penalty", [40.0, np.full(60, 40.0), ("quantile", 0.25), ["quantile", 0.25]]
)
def test_penalties(penalty):
    X, y = blobs()
    model = ExemplarClustering(penalty, random_state=0).fit(X)
    assert model.gap_ == model.energy_ - model.lower_bound_
    assert 0 <= model.gap_ < 0.05 * model.energy_
    assert np.array_equal(model.predict(X), model.labels_)
    costs = squared_euclidean(X, X)
    np.fill_diagonal(costs, model.penalty_)
    assert model.energy_ == pytest.approx(exemplar_energy(costs, model.cluster_centers_indices_))
    if not isinstance(penalty, (tuple, list)):
        assert (
            len(model.cluster_centers_indices_) == 4 and len(np.unique(model.labels_[y == 0])) == 1
        )


def test_precomputed_asymmetric_equals_metric_and_predicts():
    X, _ = blobs()
    D = squared_euclidean(X, X)
    a = ExemplarClustering(30.0, random_state=1).fit(X)
    b = ExemplarClustering(30.0, metric="precomputed", random_state=1).fit(D)
    assert a.energy_ == pytest.approx(b.energy_) and np.array_equal(b.predict(D), b.labels_)
    skewed = D * np.random.default_rng(0).uniform(0.5, 1.5, D.shape)
    assert ExemplarClustering(30.0, metric="precomputed").fit(skewed).energy_ > 0


def test_callable_metric_and_named_metrics():
    X = np.abs(blobs(20)[0])
    a = ExemplarClustering(5.0, metric=lambda x, y: float(np.abs(x - y).sum()), random_state=0).fit(
        X
    )
    b = ExemplarClustering(5.0, metric="l1", random_state=0).fit(X)
    assert a.energy_ == pytest.approx(b.energy_) and np.array_equal(a.predict(X), b.predict(X))
    for metric in METRICS:
        D = pairwise(metric, X, X)
        assert D.shape == (20, 20) and (D >= 0).all() and np.allclose(np.diagonal(D), 0, atol=1e-6)
    with pytest.raises(ValueError, match="chi2: expected non-negative"):
        pairwise("chi2", -X, X)


def test_neighbour_graph_is_close_to_all_pairs_and_its_bound_holds():
    X, _ = blobs(400, 8, 4, seed=2)
    dense = ExemplarClustering(60.0, random_state=0).fit(X)
    sparse = ExemplarClustering(60.0, n_neighbors=15, random_state=0).fit(X)
    assert dense.lower_bound_ - 1e-6 <= sparse.energy_ <= 1.05 * dense.energy_
    assert sparse.lower_bound_ <= dense.energy_ + 1e-6
    assert sparse.gap_ < 0.02 * sparse.energy_


def test_pairs_within_reach_are_all_there_and_any_reach_gives_a_bound(monkeypatch):
    """Against all pairs; also where the number of pairs is limited."""
    from gmlearn_clustering import reach as part

    X = np.random.default_rng(3).normal(size=(60, 3))
    X[7] = X[8]  # equal points
    X[20:23] = 0.0, 0.0, 9.0
    penalty = np.random.default_rng(4).uniform(1.0, 4.0, 60)
    penalty[5] = np.inf
    D = squared_euclidean(X, X)
    best = minimise_exemplars(with_penalty(D, penalty), "exact").energy
    for factor in (0.3, 0.99, 1.25, 5.0):
        reach = reach_of(X, penalty, np.arange(0, 60, 9), factor)
        problem = problem_within(X, penalty, reach, X[::9])
        listed = np.full((60, 60), np.inf)
        listed[problem.row_client, problem.row_exemplar] = problem.row_cost
        allowed = (reach[:, None] > D) & np.isfinite(penalty)
        np.fill_diagonal(allowed, np.isfinite(penalty))
        assert np.array_equal(np.isfinite(listed), allowed)
        assert np.allclose(listed[allowed], with_penalty(D, 0.0)[allowed])
        key = problem.row_client * 1e6 + problem.row_cost
        assert (np.diff(key) >= 0.0).all()
        assert bound_within(problem, reach, best) <= best + 1e-9
    assert bound_within(problem, reach, best) >= 0.95 * best
    monkeypatch.setattr(part, "_MOST_PAIRS", 300)
    few = reach_of(X, penalty, np.arange(0, 60, 9), 5.0)
    limited = problem_within(X, penalty, few, X[::9])
    assert len(limited.row_cost) <= 300 + 60
    assert bound_within(limited, few, best) <= best + 1e-9


def test_many_points_with_penalties_of_all_kinds():
    """Their own penalties, forbidden and free exemplars, one point, and a limit of time."""
    X = np.random.default_rng(5).normal(size=(50, 2))
    D = squared_euclidean(X, X)
    for low in (-1.0, 0.0, 2.0):
        penalty = np.random.default_rng(6).uniform(low, low + 3.0, 50)
        penalty[:4] = np.inf
        found = minimise_on_points(X, penalty, 6)
        costs = with_penalty(D, penalty)
        best = minimise_exemplars(costs, "exact").energy
        assert found.bound <= best + 1e-9 and best - 1e-9 <= found.energy <= 1.05 * abs(best)
        assert found.energy == pytest.approx(exemplar_energy(costs, np.unique(found.labels)))
    assert minimise_on_points(X[:1], 2.0, 3).energy == 2.0
    stopped = minimise_on_points(X, 2.0, 6, time_limit=0.0)
    assert stopped.bound <= stopped.energy
    assert minimise_on_points(X, np.inf, 6).bound == np.inf
    with pytest.raises(ValueError, match="n_neighbors: solver 'exact'"):
        ExemplarClustering(n_neighbors=5, solver="exact").fit(X)


def test_large_sets_see_their_nearest_landmarks_only(monkeypatch):
    """As 10^5 points do: memory does not grow with the number of landmarks."""
    from gmlearn_clustering import sparse as part

    X, _ = blobs(400, 8, 4, seed=2)
    dense = ExemplarClustering(60.0, random_state=0).fit(X)
    monkeypatch.setattr(part, "_MOST_ENTRIES", 0)
    monkeypatch.setattr(part, "_LEAST_COLUMNS", 6)
    landmarks = draw_landmarks(X)
    costs = neighbour_costs(X, 60.0, 5, landmarks)
    assert len(landmarks) == 40 and np.diff(costs.indptr).min() >= 6
    assert costs.nnz < 400 * (1 + 2 * 5 + 6)
    others = np.setdiff1d(np.arange(400), landmarks)
    far = squared_euclidean(X[others], X[landmarks])
    held = costs[others][:, landmarks].toarray()
    assert np.allclose(held[np.arange(len(others)), far.argmin(axis=1)], far.min(axis=1))
    model = ExemplarClustering(60.0, n_neighbors=15, random_state=0).fit(X)
    assert model.lower_bound_ <= dense.energy_ and model.energy_ <= 1.1 * dense.energy_


def test_sparse_precomputed_graph():
    graph = scipy.sparse.csr_array(np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    model = ExemplarClustering(3.0, metric="precomputed").fit(graph)
    assert model.labels_[0] == model.labels_[1] != model.labels_[
        2
    ] and model.energy_ == pytest.approx(7.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"penalty": "many"}, "penalty: expected a number"),
        ({"penalty": ("quantile", 2.0)}, r"penalty\[1\]"),
        ({"penalty": ("number", 2)}, r"penalty\[0\]: expected one of"),
        ({"metric": "edit"}, "metric: expected one of"),
        ({"solver": "quantum"}, "solver: expected one of"),
        ({"n_restarts": 0}, "n_restarts"),
        ({"n_neighbors": 3, "metric": "l1"}, "n_neighbors: works with metric"),
        ({"penalty": np.ones(3)}, "penalty: expected shape"),
    ],
)
def test_bad_parameters(settings, message):
    with pytest.raises(ValueError, match=message):
        ExemplarClustering(**settings).fit(np.ones((5, 2)) * np.arange(5)[:, None])


def test_bad_values():
    X = np.arange(10.0).reshape(5, 2)
    graph = scipy.sparse.csr_array(np.array([[0.0, np.nan], [1.0, 0.0]]))
    given = ExemplarClustering(1.0, metric="precomputed").fit(np.ones((3, 3)))
    for call, message in [
        (lambda: ExemplarClustering(1.0, metric="precomputed").fit(graph), "X: contains NaN"),
        (lambda: given.predict(np.full((2, 3), np.nan)), "X: contains NaN"),
        (
            lambda: ExemplarClustering(metric=lambda x, y: "far").fit(X),
            "metric: expected a callable of two rows",
        ),
        (
            lambda: ExemplarClustering(metric=lambda x, y: x - y).fit(X),
            "metric: expected a callable of two rows",
        ),
        (lambda: ExemplarClustering(metric=lambda x, y: np.nan).fit(X), "metric: contains NaN"),
        (lambda: ExemplarClustering(time_limit=-1.0).fit(X), "time_limit: expected"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
