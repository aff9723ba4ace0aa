"""The k-means energy and its spectral slave as parts of a CRF, against enumeration of all
labellings.
"""

import itertools

import numpy as np
import pytest
from gmlearn_mlca.metrics import delta_loss
from gmlearn_mlca.potentials import KMeansEnergy, PartitionDistance
from gmlearn_mlca.slaves import SpectralDecomposition
from hypothesis import given, settings
from hypothesis import strategies as st

import gmlearn as gm


def model(seed, sizes=(5, 4), d=3, k=2, with_truth=True):
    """Two small datasets in one model, with their truth."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    cliques = np.split(np.arange(n), np.cumsum(sizes)[:-1])
    truth = np.concatenate([rng.permutation(np.arange(m) % k) for m in sizes])
    crf = gm.CRF(n, k)
    crf.add(KMeansEnergy(cliques, rng.normal(size=(n, d))))
    if with_truth:
        crf.add(PartitionDistance(cliques, truth))
    L = rng.normal(size=(d, rng.integers(1, d + 1)))
    return crf, {"metric": L @ L.T}, truth, rng


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), k=st.integers(2, 3), with_truth=st.booleans())
def test_slave_bounds_every_labelling(seed, k, with_truth):
    crf, w, _, _ = model(seed, sizes=(7,), k=k, with_truth=with_truth)
    slaves = SpectralDecomposition().decompose(crf)
    answer = gm.Dual(slaves, w).round()
    best = min(crf.energy(x, w) for x in itertools.product(range(k), repeat=7))
    assert answer.bound <= best + 1e-8
    assert not slaves.exact
    rounded = slaves.proposals(answer.results, answer.mean)[0]
    assert np.isfinite(crf.energy(rounded, w))


def test_energy_is_the_trace_formula_and_linear_in_the_metric():
    crf, w, truth, rng = model(3)
    block = crf.blocks[0]
    x = rng.permutation(truth)
    expected = 0.0
    for part in (slice(0, 5), slice(5, 9)):
        Y = np.eye(2)[x[part]]
        expected -= np.sum(
            (Y @ np.linalg.pinv(Y)) * (block.rows[part] @ w["metric"] @ block.rows[part].T)
        )
    assert block.energy(x, w).sum() == pytest.approx(expected)
    assert np.sum(block.features(x)["metric"] * w["metric"]) == pytest.approx(expected)
    loss = sum(delta_loss(x[part], truth[part]) for part in (slice(0, 5), slice(5, 9)))
    assert crf.energy(x, w) == pytest.approx(expected - loss)
    assert crf.blocks[1].energy(truth)[0] == 0.0
    assert crf.energy([0] * 5 + [0, 1, 0, 1], w) == np.inf  # an empty cluster


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6))
def test_features_are_a_supergradient_in_the_metric(seed):
    crf, w, _, rng = model(seed)
    group = SpectralDecomposition().decompose(crf).groups[0]
    here = group.solve(np.zeros(0), group.prepare(w))
    L = rng.normal(size=(3, 3))
    there = group.solve(np.zeros(0), L @ L.T)
    slope = np.sum(group.features(here)["metric"] * (L @ L.T - w["metric"]))
    assert there.value.sum() <= here.value.sum() + slope + 1e-8
    single = group.take(np.array([1]))
    assert single.solve(np.zeros(0), w["metric"]).value[0] == pytest.approx(here.value[1])


def test_well_separated_clusters_are_found_and_the_bound_is_nearly_tight():
    rng = np.random.default_rng(0)
    truth = np.arange(60) % 3
    rows = 10 * np.eye(3)[truth] + 0.01 * rng.normal(size=(60, 3))
    crf = gm.CRF(60, 3)
    crf.add(KMeansEnergy([np.arange(60)], rows))
    w = {"metric": np.eye(3)}
    slaves = SpectralDecomposition().decompose(crf)
    answer = gm.Dual(slaves, w).round()
    labels = slaves.proposals(answer.results, answer.mean)[0]
    assert delta_loss(labels, truth) == 0.0
    assert crf.energy(labels, w) - answer.bound < 1e-4 * abs(answer.bound)


def test_bad_models_are_named():
    crf, _, _, _ = model(0)
    with pytest.raises(ValueError, match=r"KMeansEnergy.rows: expected shape \(3, any\)"):
        KMeansEnergy([[0, 1, 2]], np.ones((2, 2)))
    with pytest.raises(ValueError, match="dataset 0 has 2 rows, fewer than the 3 clusters"):
        gm.CRF(2, 3).add(KMeansEnergy([[0, 1]], np.ones((2, 2))))
    with pytest.raises(ValueError, match="same number of states"):
        gm.CRF([2, 3]).add(KMeansEnergy([[0, 1]], np.ones((2, 2))))
    crf.add_unary(np.ones((9, 2)))
    with pytest.raises(ValueError, match="unary costs are not part"):
        SpectralDecomposition().decompose(crf)


def test_map_with_a_valid_bound_through_the_generic_solver():
    crf, w, _, _ = model(5, sizes=(7,), with_truth=False)
    best = min(crf.energy(x, w) for x in itertools.product(range(2), repeat=7))
    result = gm.solve(
        crf, w, solver="dual-subgradient", decomposition=SpectralDecomposition(), max_iter=3
    )
    assert result.bound <= best + 1e-9 <= result.energy + 2e-9
    assert np.isfinite(result.energy)
