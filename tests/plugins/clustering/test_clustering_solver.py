"""The solver that claims exemplar models, and the estimators' way through ``gm.solve``."""

import time
from itertools import product

import numpy as np
import pytest
from gmlearn_clustering import (
    ExemplarClustering,
    ExemplarClusteringLearner,
    exemplar_energy,
    exemplar_model,
    minimise_exemplars,
    noisy_gaussians,
)
from gmlearn_clustering.distances import EuclideanSample, MatrixSample
from gmlearn_clustering.energy import with_penalty
from gmlearn_clustering.metrics import squared_euclidean
from gmlearn_clustering.potentials import ExemplarCountBlock
from gmlearn_clustering.solver import ExemplarSolver, optimise

import gmlearn as gm


def model_and_weights(n, seed, penalty=2.0, d=3):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d)) + 3.0 * rng.integers(0, 2, (n, d))
    return exemplar_model(EuclideanSample(Z), penalty), {"distance": rng.random(d)}


@pytest.mark.parametrize("n", [30, 150, 500])
@pytest.mark.parametrize("seed", range(2))
def test_auto_has_energy_and_bound_of_the_optimiser(n, seed):
    crf, w = model_and_weights(n, seed)
    result = gm.solve(crf, w)
    costs = crf.blocks[0].costs(w)
    found = optimise(costs)
    energy = exemplar_energy(costs, found.exemplars)
    assert "exemplar: it claims this model" in result.reason
    assert result.energy == pytest.approx(energy, rel=1e-12)
    assert result.bound == pytest.approx(min(found.bound, energy), rel=1e-12)
    assert result.gap == result.energy - result.bound
    assert np.array_equal(np.unique(result.labels), found.exemplars)
    assert result.energy == pytest.approx(crf.energy(result.labels, w))


@pytest.mark.parametrize("penalty", [0.3, -4.0, [0.2, np.inf, 0.1, 0.4, -0.1], None])
@pytest.mark.parametrize("seed", range(3))
def test_against_enumeration_with_evidence_and_unary_costs(penalty, seed):
    rng = np.random.default_rng(seed)
    crf = exemplar_model(MatrixSample(rng.random((2, 5, 5))), penalty)
    w = {"distance": rng.random(2), "penalty": np.array([0.2])}
    w = {name: w[name] for name in crf.layout.shapes}
    crf.constant = 1.5
    learnt = crf.copy()
    learnt.add(gm.Unary(rng.normal(size=(5, 2)), weight="u"))
    for model in (
        crf,
        crf.copy().add_unary(rng.normal(size=(5, 5))),
        crf.clamp({0: 2}),
        crf.clamp({0: 2, 2: 3}),
        learnt,
    ):
        weights = {k: w.get(k, rng.normal(size=s)) for k, s in model.layout.shapes.items()}
        best = min(model.energy(x, weights) for x in product(range(5), repeat=5))
        result = gm.solve(model, weights, solver="exemplar")
        assert result.energy == pytest.approx(best)
        assert result.status == (gm.Status.INFEASIBLE if np.isinf(best) else gm.Status.OPTIMAL)


def test_claims_only_exemplar_models():
    solver = ExemplarSolver()
    crf, w = model_and_weights(10, 0)
    assert solver.claims(crf, w) and solver.claims(crf.clamp({0: 1}), w)
    counted = crf.copy()
    counted.add(ExemplarCountBlock([[0, 1, 2]], 0.5))
    pair = crf.copy()
    pair.add(gm.Potts([[0, 1]], 1.0))
    larger = gm.CRF(np.full(11, 10))
    larger.add(crf.blocks[0])
    for other in (counted, pair, larger, gm.CRF(3, 3)):
        assert not solver.claims(other, w)
        with pytest.raises(gm.SolverRefusal, match="one exemplar block over all variables"):
            gm.solve(other, {k: np.ones(v) for k, v in other.layout.shapes.items()}, "exemplar")


def test_time_limit():
    crf, w = model_and_weights(1200, 0)
    gm.solve(*model_and_weights(40, 0), time_limit=1.0)  # compiles
    began = time.process_time()
    result = gm.solve(crf, w, time_limit=0.2, n_restarts=1000, solver="exemplar")
    assert time.process_time() - began < 1.5
    assert np.isfinite(result.energy) and result.bound <= result.energy
    patient = gm.solve(crf, w, time_limit=60.0)
    free = gm.solve(crf, w)
    assert patient.energy == pytest.approx(free.energy, rel=2e-3)
    assert patient.bound <= free.energy + 1e-9


def calls(monkeypatch, name):
    seen = []
    function = getattr(gm, name)
    monkeypatch.setattr(gm, name, lambda *a, **k: seen.append(a) or function(*a, **k))
    return seen


@pytest.mark.parametrize("options", [{"penalty": 3.0}, {"n_clusters": 7}])
def test_fit_passes_through_solve(monkeypatch, options):
    seen = calls(monkeypatch, "solve")
    X = np.random.default_rng(0).normal(size=(50, 2))
    ExemplarClustering(random_state=0, **options).fit(X)
    assert len(seen) == 1 and "exemplar" in [block.name for block in seen[0][0].blocks]


def test_learner_passes_through_train_and_solve(monkeypatch):
    trained, solved = calls(monkeypatch, "train"), calls(monkeypatch, "solve")
    sizes = {"n_points": 40, "n_dimensions": 5, "n_clusters": 3, "n_sets": 2}
    sets = noisy_gaussians(rho=0.5, separation=6.0, **sizes)
    learner = ExemplarClusteringLearner(n_rounds=5, penalty_rule="training", random_state=0)
    learner.fit(sets.train, sets.train_labels).cluster(sets.test[0])
    assert len(trained) == 1 and len(solved) == 1


def test_search_starts_from_the_labels_that_are_given():
    """Also where they cannot stay: with the exemplars of a proved optimum no kick is needed."""
    crf, w = model_and_weights(60, 3)
    best = gm.solve(crf, w, solver="exemplar", method="exact")
    again = gm.solve(crf, w, solver="exemplar", method="local", n_kicks=0, initial=best.labels)
    assert again.energy == pytest.approx(best.energy) and again.status == gm.Status.OPTIMAL
    one = gm.solve(crf, w, solver="exemplar", initial=np.full(60, 7))
    assert best.energy - 1e-9 <= one.energy <= 1.05 * best.energy
    forbidden = exemplar_model(np.ones((4, 4)), np.array([np.inf, 1.0, 1.0, 1.0]))
    assert gm.solve(forbidden, solver="exemplar", initial=np.zeros(4, int)).energy == 4.0


@pytest.mark.parametrize("k", [50, 90, 97, 100, 130])
def test_a_given_number_of_clusters_of_800_points(k):
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(100, 6)) * 2
    X = np.concatenate([rng.normal(size=(8, 6)) * 0.3 + c for c in centres])
    model = ExemplarClustering(n_clusters=k, random_state=0).fit(X)
    assert len(np.unique(model.labels_)) == len(model.cluster_centers_indices_) == k
    costs = with_penalty(squared_euclidean(X, X), model.penalty_)
    assert model.energy_ == pytest.approx(exemplar_energy(costs, model.cluster_centers_indices_))
    assert 0.0 <= model.gap_ <= 0.02 * model.energy_
    assert model.lower_bound_ <= minimise_exemplars(costs).energy + 1e-9


def test_a_given_number_of_clusters_where_distances_are_forbidden():
    D = np.full((6, 6), np.inf)
    D[:3, :3] = D[3:, 3:] = 1.0
    fit = ExemplarClustering(metric="precomputed", n_clusters=2, random_state=0).fit
    assert fit(D).labels_.tolist() == [0, 0, 0, 1, 1, 1]
    with pytest.raises(ValueError, match="no allowed clustering with 1 exemplars"):
        ExemplarClustering(metric="precomputed", n_clusters=1).fit(D)
    with pytest.raises(ValueError, match="n_clusters: needs all distances"):
        ExemplarClustering(n_clusters=2, n_neighbors=3).fit(np.eye(6))
    assert (np.unique(ExemplarClustering(n_clusters=3).fit(np.zeros((8, 2))).labels_)).size == 3
