"""Overlapping hypertrees with learnt weights: a valid bound of the likelihood, and a tight one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learn_cases import random_sample
from test_learn_soft import enumerated

import gmlearn as gm
from gmlearn.learn.soft import number_of_multipliers, soft_value
from gmlearn.learn.trainer import TrainingOptions, build_objective

LIKELIHOOD = dict(loss="none", temperature=1.0, regularizer=gm.L2(0.1), max_iter=40, tol=1e-9)
#: rows and columns of a 3 x 3 grid
LINES = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8]])


def grid_samples(kind, seed, n=6):
    """3 x 3 grids with noisy features of their labels, learnt tables, and cliques of `kind`."""
    rng = np.random.default_rng(seed)
    n_labels = 3 if kind == "three labels" else 2
    samples = []
    for _ in range(n):
        truth = np.sort(rng.integers(0, n_labels, 9))
        crf = gm.CRF(9, n_labels)
        crf.add(gm.Unary(np.eye(n_labels)[truth] + rng.normal(size=(9, n_labels))))
        crf.add(gm.LearntTable(gm.grid_edges(3, 3), "pair"))
        if kind == "triples":
            crf.add(gm.FeatureTable(LINES, rng.normal(size=(6, 1)), weight="triple"))
        if kind == "pn_potts":
            crf.add(
                "pn_potts",
                cliques=LINES,
                features=rng.normal(size=(6, n_labels, 2)),
                weight="pn",
                beta_max=np.ones(6),
            )
        samples.append(gm.Sample(crf, truth))
    return samples


def exact_value(samples, weights):
    total = 0.05 * sum(float((w**2).sum()) for w in weights.values())
    for s in samples:
        found = gm.marginals(s.crf, weights, "elimination")
        total += s.crf.energy(s.labels, weights) + found.log_partition
    return total


@pytest.mark.parametrize("kind", ["two labels", "three labels", "triples", "pn_potts"])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_learnt_weights_are_within_one_percent_of_maximum_likelihood(kind, seed):
    samples = grid_samples(kind, seed)
    best = gm.train(samples, **LIKELIHOOD)
    model = gm.train(samples, decomposition=gm.SpanningHypertrees(4), **LIKELIHOOD)
    value = exact_value(samples, model.weights)
    assert best.objective_kind == "exact" and model.objective_kind == "upper bound"
    assert best.objective - 1e-6 <= value <= 1.01 * best.objective
    assert value - 1e-6 <= model.objective <= 1.12 * value
    assert model.bound <= model.objective
    low, high = model.exact_objective
    assert low - 1e-6 <= value <= high + 1e-6


def test_wider_hypertrees_bound_more_tightly():
    samples = grid_samples("three labels", 3)
    excess = []
    for table in (1, 27):
        options = dict(decomposition=gm.SpanningHypertrees(4, table))
        model = gm.train(samples, **(LIKELIHOOD | options))
        excess.append(model.objective / exact_value(samples, model.weights) - 1.0)
    assert 0.0 < excess[1] < 0.5 * excess[0]


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from(["loopy", "table", "hard"]), st.booleans())
def test_every_place_is_a_bound_and_gradients_are_differences(seed, kind, wide):
    rng = np.random.default_rng(seed)
    n_labels = int(rng.integers(2, 4))
    weights = rng.choice([0.5, 1.0, 2.0], 3)
    samples = [random_sample(rng, kind, 4, n_labels, weight=float(w)) for w in weights]
    temperature = float(rng.choice([0.5, 2.0]))
    trees = gm.SpanningHypertrees(3, 8 if wide else 1, seed=int(rng.integers(9)))
    options = TrainingOptions(
        loss="none",
        temperature=temperature,
        decomposition=trees,
        regularizer=gm.NoRegularizer(),
    )
    objective = build_objective(samples, options)
    size = objective.layout.size
    w = rng.normal(size=size)
    total = 0.0
    for batch in objective.batches:
        n = number_of_multipliers(batch)
        z, direction = rng.normal(size=size + n), rng.normal(size=size + n)
        z[:size] = w

        def value(z, batch=batch):
            return soft_value(batch, z[:size], z[size:])[1]

        slope, here, gradient = soft_value(batch, z[:size], z[size:])
        total += here
        h = 1e-6
        ahead, back = value(z + h * direction), value(z - h * direction)
        expected = float(np.concatenate([slope, gradient]) @ direction)
        assert (ahead - back) / (2 * h) == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert total >= enumerated(samples, objective.layout, 0.0, temperature)(w) - 1e-8


def test_the_lower_bound_of_training_holds():
    samples = grid_samples("two labels", 5, 3)
    options = LIKELIHOOD | dict(decomposition=gm.SpanningHypertrees(4))
    long = gm.train(samples, **(options | dict(max_iter=150)))
    for passes in (5, 20):
        short = gm.train(samples, **(options | dict(max_iter=passes)))
        assert short.bound <= long.objective <= short.objective + 1e-9
    assert long.objective - long.bound < 0.1 * long.objective


def test_training_takes_hypertrees_where_no_exact_slave_fits():
    rng = np.random.default_rng(0)
    edges = gm.grid_edges(12, 12)
    crf = gm.CRF(144, 2)
    crf.add(gm.Unary(rng.normal(size=(144, 2))))
    crf.add(gm.LearntTable(edges, "pair"))
    sample = gm.Sample(crf, rng.integers(0, 2, 144))
    options = LIKELIHOOD | dict(max_iter=10)
    model = gm.train([sample], **options)
    chains = gm.train([sample], decomposition="chains", **options)
    assert model.objective_kind == "upper bound"
    assert model.objective < chains.objective


def test_checkpoints_resume_with_the_weights_of_slaves(tmp_path):
    samples = grid_samples("two labels", 6, 3)
    options = LIKELIHOOD | dict(decomposition=gm.SpanningHypertrees(4))
    whole = gm.train(samples, **(options | dict(max_iter=6)))
    path = tmp_path / "run.npz"
    gm.train(samples, checkpoint=path, checkpoint_every=1, **(options | dict(max_iter=3)))
    again = gm.train(samples, checkpoint=path, **(options | dict(max_iter=6)))
    assert again.objective == pytest.approx(whole.objective, rel=1e-9)


@pytest.mark.parametrize(
    "settings, named",
    [
        (dict(n_slaves=0), "n_slaves"),
        (dict(n_slaves=2.5), "n_slaves"),
        (dict(max_table=0), "max_table"),
        (dict(max_table=np.nan), "max_table"),
        (dict(seed=-1), "seed"),
    ],
)
def test_bad_settings_are_refused(settings, named):
    with pytest.raises((ValueError, TypeError), match=named):
        gm.SpanningHypertrees(**settings)
