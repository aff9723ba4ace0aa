"""Softassign and assignment against scipy, enumeration and a plain log-domain Sinkhorn."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from gmlearn_pointsets import hard_assignment, softassign
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp

SHAPES = [(5, 5), (3, 6), (6, 3), (1, 4), (1, 1)]


def scipy_minimum(cost):
    return cost[linear_sum_assignment(cost)].sum()


def slow_sinkhorn(cost, temperature, sweeps=4000):
    """The specification: alternate log-domain normalisation of a square matrix."""
    f, g = np.zeros(cost.shape[0]), np.zeros(cost.shape[1])
    for _ in range(sweeps):
        f = -temperature * logsumexp((g[None] - cost) / temperature, axis=1)
        g = -temperature * logsumexp((f[:, None] - cost) / temperature, axis=0)
    return np.exp((f[:, None] + g[None] - cost) / temperature)


@pytest.mark.parametrize("shape", SHAPES)
def test_zero_temperature_is_linear_sum_assignment(shape):
    costs = np.random.default_rng(0).normal(size=(40, *shape))
    found = softassign(costs, 0.0)
    np.testing.assert_allclose(found.value, [scipy_minimum(c) for c in costs], atol=1e-12)
    assert set(np.unique(found.plan)) <= {0.0, 1.0}
    assert (found.plan.sum((1, 2)) == min(shape)).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_temperature_towards_zero_tends_to_linear_sum_assignment(shape):
    costs = np.random.default_rng(1).normal(size=(40, *shape))
    minima = np.array([scipy_minimum(c) for c in costs])
    size = max(shape)
    for temperature in (1.0, 0.1, 1e-2, 1e-4, 1e-7, 1e-12):
        found = softassign(costs, temperature)
        assert found.converged.all()
        assert np.isfinite(found.plan).all()
        # the entropy of a doubly stochastic matrix lies between 0 and size log size, that of the
        # slack row below it
        bound = temperature * (size * np.log(size) + size)
        assert (np.abs(found.value - minima) <= bound + 1e-12).all()
    np.testing.assert_allclose(found.plan, softassign(costs, 0.0).plan, atol=1e-9)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(2, 7), st.integers(2, 7), st.floats(-9, 1.5), st.integers(0, 10_000), st.booleans()
)
def test_sums_are_right_at_any_temperature(n, m, log_temperature, seed, priced):
    cost = np.random.default_rng(seed).normal(size=(n, m))
    found = softassign(cost, 10.0**log_temperature, outlier_cost=0.4 if priced else None)
    rows, cols = found.plan.sum(1), found.plan.sum(0)
    assert found.converged and (found.plan >= 0).all()
    assert rows.max() <= 1 + 1e-8 and cols.max() <= 1 + 1e-8
    if not priced:
        np.testing.assert_allclose(rows if n <= m else cols, 1.0, atol=1e-8)
    if not priced and n == m:
        np.testing.assert_allclose(cols, 1.0, atol=1e-8)


@pytest.mark.parametrize("temperature", [1.0, 0.3, 0.15])
def test_plan_equals_plain_sinkhorn(temperature):
    cost = np.random.default_rng(5).normal(size=(5, 5))
    np.testing.assert_allclose(
        softassign(cost, temperature).plan, slow_sinkhorn(cost, temperature), atol=1e-7
    )


def test_value_bounds_the_soft_minimum_over_permutations():
    costs, temperature, n = np.random.default_rng(2).normal(size=(30, 4, 4)), 0.5, 4
    for cost, value in zip(costs, softassign(costs, temperature).value):
        exact = -temperature * logsumexp(
            [-cost[range(n), p].sum() / temperature for p in permutations(range(n))]
        )
        assert value <= exact + 1e-9 <= value + temperature * np.log(n**n / 24) + 2e-9


def test_plan_is_the_gradient_of_the_value():
    rng = np.random.default_rng(3)
    cost, move = rng.normal(size=(4, 6)), rng.normal(size=(4, 6))
    value = [softassign(cost + step * move, 0.3).value for step in (-1e-5, 1e-5)]
    assert (value[1] - value[0]) / 2e-5 == pytest.approx(
        (softassign(cost, 0.3).plan * move).sum(), rel=1e-6
    )


def test_outliers_are_left_out_when_dear():
    cost = np.array([[0.1, 5.0], [5.0, 4.0]])
    found = softassign(cost, 0.0, outlier_cost=1.0)
    np.testing.assert_array_equal(found.plan, [[1.0, 0.0], [0.0, 0.0]])
    assert found.value == pytest.approx(0.1 + 2 * 1.0)
    assert softassign(cost, 0.0, outlier_cost=2.5).value == pytest.approx(4.1)
    np.testing.assert_allclose(softassign(cost, 1e-3, outlier_cost=1.0).plan, found.plan, atol=1e-9)


def test_duals_prove_the_assignment():
    costs = np.random.default_rng(4).normal(size=(50, 6, 9))
    column, row_dual, col_dual = hard_assignment(costs)
    slack = costs - row_dual[:, :, None] - col_dual[:, None, :]
    assert slack.min() > -1e-9
    np.testing.assert_allclose(np.take_along_axis(slack, column[:, :, None], 2), 0.0, atol=1e-9)


def test_forbidden_pairs():
    cost = np.array([[[np.inf, 1.0], [2.0, np.inf]]])
    assert hard_assignment(cost)[0].tolist() == [[1, 0]]
    with pytest.raises(ValueError, match="cost: matrix 0 of the batch forbids"):
        hard_assignment(np.array([[[np.inf, 1.0], [np.inf, 1.0]]]))


def test_batch_equals_one_by_one_and_empty_batch():
    costs = np.random.default_rng(6).normal(size=(2, 3, 5, 4))
    together = softassign(costs, 0.2)
    for index in np.ndindex(2, 3):
        np.testing.assert_allclose(
            together.plan[index], softassign(costs[index], 0.2).plan, atol=1e-9
        )
    assert softassign(np.zeros((0, 3, 3)), 0.1).plan.shape == (0, 3, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(cost=[1.0, 2.0], temperature=1.0), "cost: expected a matrix"),
        (dict(cost=[[np.nan]], temperature=1.0), "cost: contains NaN"),
        (dict(cost=[[1.0]], temperature=-1.0), "temperature: expected a number in"),
        (
            dict(cost=[[1.0]], temperature=1.0, outlier_cost=-2.0),
            "outlier_cost: expected a number in",
        ),
        (dict(cost=[[1.0]], temperature=1.0, tol=0.0), "tol: expected"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        softassign(**options)


@pytest.mark.parametrize("beta", [1.0, 1e3, 1e6, 1e9])
def test_cold_kernel_is_rescued_in_the_log_domain(beta):
    """Zero duals at a low temperature underflow whole rows; the log-domain sweeps must bring
    them back.
    """
    from gmlearn_pointsets._sinkhorn_numba import softassign_batch

    cost = 2.0 + np.random.default_rng(7).random((5, 6, 6))
    duals, plan, sweeps, ones = (
        np.zeros((2, 5, 6)),
        np.empty(cost.shape),
        np.zeros(5, np.int64),
        np.ones(6),
    )
    softassign_batch(cost, beta, duals[0], duals[1], ones, ones, plan, sweeps, 1e-6, 5000)
    assert np.isfinite(plan).all() and np.isfinite(duals).all()
    np.testing.assert_allclose(plan.sum(1), 1.0, atol=1e-6)
    if beta == 1.0:
        np.testing.assert_allclose(plan, softassign(cost, 1.0).plan, atol=1e-5)
    else:
        assert (np.exp(-beta * cost) == 0).all()
