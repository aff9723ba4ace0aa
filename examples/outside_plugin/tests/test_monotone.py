"""The contracts, by gmlearn's own kit; and a model of our own against brute force."""

import numpy as np
import pytest
from gmlearn_monotone import Monotone

import gmlearn as gm


@gm.testing.parametrize_with_checks("monotone")
def test_contracts(thing, check):
    check(thing)


def layers(rng, n_columns=6, n_layers=3, height=4, **price):
    """Layer boundaries in the columns of a scan: ordered within a column, smooth across columns."""
    crf = gm.CRF(n_columns * n_layers, height).add_unary(
        rng.normal(size=(n_columns * n_layers, height))
    )
    variable = np.arange(n_columns * n_layers).reshape(n_columns, n_layers)
    neighbours = np.stack([variable[:-1].ravel(), variable[1:].ravel()], axis=1)
    crf.add(gm.Truncated(neighbours, truncation=2, contrast=0.3))
    crf.add("monotone", variables=variable, **price)
    return crf, variable


@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold_and_layers_never_cross(seed):
    crf, variable = layers(np.random.default_rng(seed), n_columns=3, price=0.2)
    optimum = gm.solve(crf, solver="brute-force").energy
    for solver in ("auto", "bcfw", "mplp", "dual-subgradient"):
        answer = gm.solve(crf, solver=solver)
        assert answer.bound <= optimum + 1e-6 <= answer.energy + 2e-6
        assert (np.diff(answer.labels[variable], axis=1) >= 0).all()


def test_training_learns_a_price_for_the_rise():
    rng = np.random.default_rng(0)
    samples = []
    for _ in range(8):
        crf, variable = layers(rng, weight="rise")
        flat = np.repeat(rng.integers(0, 4, len(variable)), variable.shape[1])
        samples.append(gm.Sample(crf, flat))
    model = gm.train(samples, regularizer=gm.L2(0.1), max_iter=30)
    assert model.weights["rise"] > 0  # layers that coincide in the training data: rising must cost


def test_a_learnt_price_excludes_a_fixed_one():
    with pytest.raises(ValueError, match="leaves no room for a fixed one, got 2"):
        Monotone([[0, 1]], price=2.0, weight="rise")
