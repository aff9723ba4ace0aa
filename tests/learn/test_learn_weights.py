"""Samples of different weights in one batch: the same sums as batches of one sample each."""

import dataclasses

import numpy as np
import pytest
from learn_cases import KINDS, random_problem

import gmlearn as gm
from gmlearn.learn.batch import Recipe, SampleBatch, batch_sizes
from gmlearn.model import WeightLayout

WEIGHTS = (0.2, 3.0, 1.0, 0.05, 3.0)


def weighted(samples):
    return [dataclasses.replace(s, weight=c) for s, c in zip(samples, WEIGHTS)]


def batches(samples, options):
    """(all samples in one batch, one batch each)"""
    layout = WeightLayout.merged([s.crf.layout.shapes for s in samples], "samples")
    recipe = Recipe(
        options["loss"],
        options.get("decomposition", "auto"),
        layout,
        options.get("temperature", 0.0),
        options.get("likelihood", "trw"),
    )
    each = [SampleBatch(k, [s], recipe) for k, s in enumerate(samples)]
    return SampleBatch(0, samples, recipe), each, layout


def multipliers(rng, together, each):
    """Random multipliers of every sample, and the same in the joined slaves."""
    slaves = together.dual.slaves
    lams = [0.3 * b.dual.centred(rng.normal(size=len(b.dual.coords))) for b in each]
    kept = [b.dual.slaves.keep(lam, b.dual.prepared) for b, lam in zip(each, lams)]
    return slaves.recall_each(kept), lams


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("decomposition", ["per-clique", "chains", "trees", "components"])
def test_a_batch_is_the_weighted_sum_of_its_samples(kind, decomposition):
    rng = np.random.default_rng(KINDS.index(kind))
    samples, options = random_problem(rng, kind, 5, 2, False, decomposition=decomposition)
    together, each, layout = batches(weighted(samples), options)
    assert together.shares is not None
    lam, lams = multipliers(rng, together, each)
    w = rng.normal(size=layout.size)
    found, alone = together.vertex(w, lam), [b.vertex(w, x) for b, x in zip(each, lams)]
    np.testing.assert_allclose(together.minima_by_sample(found), [v.value for v in alone])
    hinges = [b.hinge(w, v.value) for b, v in zip(each, alone)]
    assert together.hinge(w, found.value) == pytest.approx(sum(hinges))
    slope = sum(b.slope(v.features) for b, v in zip(each, alone))
    np.testing.assert_allclose(together.slope(found.features), slope, atol=1e-9)


@pytest.mark.parametrize("likelihood", ["trw", "piecewise", "pseudo"])
@pytest.mark.parametrize("kind", ["tree", "loopy", "table", "pn_potts"])
def test_the_same_of_soft_slaves(kind, likelihood):
    rng = np.random.default_rng(3)
    samples, options = random_problem(rng, kind, 5, 2, False, loss=gm.NoLoss())
    options |= {"temperature": 0.7, "likelihood": likelihood}
    together, each, layout = batches(weighted(samples), options)
    w = rng.normal(size=layout.size)
    found, alone = together.vertex(w), [b.vertex(w) for b in each]
    hinges = [b.hinge(w, v.value) for b, v in zip(each, alone)]
    assert together.hinge(w, found.value) == pytest.approx(sum(hinges))
    slope = sum(b.slope(v.features) for b, v in zip(each, alone))
    np.testing.assert_allclose(together.slope(found.features), slope, atol=1e-9)


def test_samples_of_different_weights_share_batches():
    rng = np.random.default_rng(0)
    samples, _ = random_problem(rng, "tree", 5, 2, False)
    assert batch_sizes(weighted(samples), "auto", 64, 10**6) == [5]


def problem(rng, n=12):
    samples = []
    for _ in range(n):
        truth = rng.integers(0, 3, 6)
        crf = gm.CRF(6, 3)
        crf.add(gm.Unary(np.eye(3)[truth] + rng.normal(size=(6, 3)), weight="u"))
        crf.add(gm.Pairwise([[i, i + 1] for i in range(5)], weight="p"))
        crf.add(gm.Potts([[0, 5], [1, 4]], weight="s"))
        samples.append(gm.Sample(crf, truth, weight=float(rng.choice([0.1, 1.0, 7.0]))))
    return samples


@pytest.mark.parametrize(
    "optimizer, settings",
    [
        ("bcfw", {}),
        ("bcfw", {"batch": 0}),
        ("subgradient", {"max_iter": 1500}),
        ("stochastic", {"max_iter": 1500}),
        ("incremental", {"max_iter": 1500}),
    ],
)
def test_every_optimiser_reaches_the_optimum(optimizer, settings):
    """Whatever shares a batch; cutting planes look at samples one by one."""
    samples = problem(np.random.default_rng(1))
    exact = gm.train(samples, optimizer="cutting-plane", decomposition="trees", tol=1e-7)
    model = gm.train(
        samples, optimizer=optimizer, decomposition="trees", tol=1e-7,
        **({"max_iter": 600} | settings),
    )  # fmt: skip
    assert exact.objective * (1 - 1e-6) <= model.objective
    assert model.objective <= exact.objective * 1.005
    assert model.bound <= exact.objective * (1 + 1e-6)


def test_likelihood_of_weighted_samples():
    samples = problem(np.random.default_rng(2))
    whole = [s for s in samples for _ in range(round(10 * s.weight))]
    repeated = [gm.Sample(s.crf, s.labels, weight=0.1) for s in whole]
    settings = {"loss": "none", "temperature": 1.0, "tol": 1e-9}
    a = gm.train(samples, **settings)
    b = gm.train(repeated, **settings)
    assert a.objective == pytest.approx(b.objective, rel=1e-5)
    for name, value in a.weights.items():
        np.testing.assert_allclose(value, b.weights[name], atol=2e-3)
