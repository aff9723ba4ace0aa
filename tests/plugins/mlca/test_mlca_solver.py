"""MAP partitions of k-means energies: feasible, bounded, within the time limit, at any size."""

import itertools
import time
import warnings

import numpy as np
import pytest
from gmlearn_mlca.potentials import KMeansEnergy, PartitionDistance
from gmlearn_mlca.slaves import SpectralGroup
from gmlearn_mlca.solver import SpectralSolver

import gmlearn as gm


def model(n, k=2, d=2, seed=0):
    rng = np.random.default_rng(seed)
    crf = gm.CRF(n, k)
    crf.add("kmeans_energy", cliques=[np.arange(n)], rows=rng.normal(size=(n, d)))
    return crf, {"metric": np.eye(d)}, rng


@pytest.mark.parametrize("seed", range(12))
def test_bound_and_energy_against_enumeration(seed):
    n, k = 7, 2 + seed % 2
    crf, _, rng = model(n, k, 3, seed)
    if seed % 3 == 1:
        crf.add(PartitionDistance([np.arange(n)], rng.integers(0, k, n)))
    if seed % 3 == 2:
        crf = crf.add_unary(rng.normal(size=(n, k))).clamp({0: 1, 1: 0})
    M = rng.normal(size=(3, 3))
    w = {"metric": M @ M.T if seed % 4 else M}
    best = min(crf.energy(x, w) for x in itertools.product(range(k), repeat=n))
    result = gm.solve(crf, w, solver="spectral")
    assert result.bound <= best + 1e-9 and result.energy >= best - 1e-9
    assert result.energy <= best + 0.1 * abs(best)


@pytest.mark.parametrize("n", [40, 120])
def test_auto_is_feasible_and_keeps_the_time_limit(n):
    crf, w, _ = model(n)
    gm.solve(*model(20)[:2])  # imports
    began = time.perf_counter()
    result = gm.solve(crf, w, time_limit=1.0)
    assert time.perf_counter() - began < 1.5
    assert "spectral: it claims" in result.reason
    assert np.isfinite(result.energy) and -np.inf < result.bound <= result.energy
    assert result.energy == pytest.approx(crf.energy(result.labels, w))


def test_single_moves_reach_a_local_optimum():
    crf, w, _ = model(60, 3)
    result = gm.solve(crf, w)
    for v, label in itertools.product(range(60), range(3)):
        other = result.labels.copy()
        other[v] = label
        assert crf.energy(other, w) >= result.energy - 1e-9


def test_equal_rows_still_fill_every_cluster():
    crf = gm.CRF(30, 4)
    crf.add(KMeansEnergy([np.arange(30)], np.ones((30, 2))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = gm.solve(crf, {"metric": np.eye(2)})
    assert len(np.unique(result.labels)) == 4 and np.isfinite(result.energy)


def test_claims_only_its_own_models_and_leaves_small_ones_to_enumeration():
    solver = SpectralSolver()
    crf, w, _ = model(40)
    assert solver.claims(crf, w) and not solver.claims(model(8)[0], w)
    assert gm.solve(model(8)[0], w).status == gm.Status.OPTIMAL
    pair = crf.copy()
    pair.add(gm.Potts([[0, 1]], 1.0))
    shared = gm.CRF(41, 2)
    shared.add(KMeansEnergy([np.arange(30), np.arange(20, 41)], np.ones((51, 2))))
    for other in (pair, shared, gm.CRF(40, 2)):
        assert not solver.claims(other, w)


def test_a_model_trained_in_closed_form_predicts_at_any_size():
    rng = np.random.default_rng(0)
    truth = np.arange(90) % 3
    samples = []
    for _ in range(2):
        crf = gm.CRF(90, 3)
        rows = 6 * np.eye(5)[truth] + rng.normal(size=(90, 5)) * [1, 1, 1, 9, 9]
        crf.add(KMeansEnergy([np.arange(90)], rows - rows.mean(axis=0)))
        samples.append(gm.Sample(crf, truth))
    trained = gm.train(samples, method="mlca", loss="partition", show_progress=False)
    found = trained.predict(samples[1].crf).labels
    loss = PartitionDistance([np.arange(90)], truth).bind(np.full(90, 3))
    assert -loss.energy(found)[0] < 0.5


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_all_solvers_do_as_well_as_local_search(k, seed):
    crf, w, _ = model(24, k, seed=seed)
    icm = gm.solve(crf, w, solver="icm", time_limit=2.0).energy
    assert np.isfinite(icm)
    assert gm.solve(crf, w, time_limit=2.0).energy <= icm + 1e-9
    for solver in ("bcfw", "dual-subgradient"):
        found = gm.solve(crf, w, solver=solver, time_limit=2.0)
        for v, label in itertools.product(range(24), range(k)):
            other = found.labels.copy()
            other[v] = label
            assert crf.energy(other, w) >= found.energy - 1e-9


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_a_limit_that_is_over_before_k_means_leaves_local_search(k, seed, monkeypatch):
    crf, w, _ = model(24, k, seed=seed)
    slow = SpectralGroup.round_labels

    def late(self, *args):
        time.sleep(0.6)
        return slow(self, *args)

    monkeypatch.setattr(SpectralGroup, "round_labels", late)
    icm = gm.solve(crf, w, solver="icm").energy
    assert gm.solve(crf, w, time_limit=0.5).energy <= icm + 1e-9


def test_a_block_fills_its_empty_clusters():
    crf, w, _ = model(9, 3)
    block = crf.clique_blocks[0]
    mended = block.repair(np.zeros(9, np.int64), w)
    assert np.unique(mended).tolist() == [0, 1, 2] and np.isfinite(crf.energy(mended, w))
