"""The assignment potential and its slave solver, through the core's contracts."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from gmlearn_pointsets import Assignment, SoftassignSolver
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp

import gmlearn as gm


def injections(theta):
    """Costs and labellings of every one-to-one match of the rows of theta (k, L)."""
    k, size = theta.shape
    labels = np.array(list(permutations(range(size), k)))
    return theta[np.arange(k), labels].sum(1), labels


def cases(rng):
    for k, size in ((3, 3), (2, 4), (4, 4), (1, 2)):
        yield (
            Assignment(np.arange(5 * k).reshape(5, k)).bind(np.full(5 * k, size)),
            rng.normal(size=(5, k, size)),
        )


def test_energy_is_infinite_unless_labels_differ():
    block = Assignment([[0, 1, 2]]).bind(np.array([3, 3, 3]))
    for labels in product(range(3), repeat=3):
        assert block.energy(np.array([labels]), {})[0] == (0.0 if len(set(labels)) == 3 else np.inf)


def test_minimise_equals_linear_sum_assignment_and_enumeration():
    solver = SoftassignSolver()
    for block, theta in cases(np.random.default_rng(0)):
        labels, value = solver.minimise(block, theta, {})
        assert (block.energy(labels, {}) == 0).all()
        for t, v in zip(theta, value):
            assert v == pytest.approx(t[linear_sum_assignment(t)].sum())
            assert v == pytest.approx(injections(t)[0].min())


def test_min_marginals_equal_enumeration():
    solver = SoftassignSolver()
    for block, theta in cases(np.random.default_rng(1)):
        found = solver.min_marginals(block, theta, {})
        for t, marginals in zip(theta, found):
            costs, labels = injections(t)
            expected = [
                [costs[labels[:, j] == l].min() for l in range(t.shape[1])]
                for j in range(t.shape[0])
            ]
            np.testing.assert_allclose(marginals, expected, atol=1e-9)


@pytest.mark.parametrize("temperature", [1.0, 0.2, 1e-3, 1e-6])
def test_soft_minimum_is_a_bound_that_meets_the_minimum(temperature):
    solver = SoftassignSolver()
    for block, theta in cases(np.random.default_rng(2)):
        value, marginals, features = solver.log_partition(block, theta, {}, temperature)
        size = theta.shape[2]
        for t, v in zip(theta, value):
            exact = -temperature * logsumexp(-injections(t)[0] / temperature)
            assert v <= exact + 1e-9
            assert (
                exact
                <= v
                + temperature * (size * np.log(size) - np.log(np.arange(1, size + 1)).sum())
                + 1e-9
            )
        np.testing.assert_allclose(marginals.sum(2), 1.0, atol=1e-7)
        assert features == {}
    labels, minimum = solver.minimise(block, theta, {})
    if temperature <= 1e-6:
        np.testing.assert_allclose(value, minimum, atol=1e-4)
        np.testing.assert_array_equal(marginals.argmax(2), labels)


def test_marginals_are_the_gradient():
    rng = np.random.default_rng(3)
    solver = SoftassignSolver()
    for block, theta in cases(rng):
        move = rng.normal(size=theta.shape)
        low, high = (
            solver.log_partition(block, theta + s * move, {}, 0.5)[0] for s in (-1e-5, 1e-5)
        )
        slope = (solver.log_partition(block, theta, {}, 0.5)[1] * move).sum((1, 2))
        np.testing.assert_allclose((high - low) / 2e-5, slope, rtol=1e-4, atol=1e-6)


def test_forbidden_labels_are_honoured():
    solver = SoftassignSolver()
    block = Assignment([[0, 1], [2, 3]]).bind(np.full(4, 2))
    theta = np.array([[[0.0, 1.0], [np.inf, 5.0]], [[np.inf, 1.0], [np.inf, 1.0]]])
    labels, value = solver.minimise(block, theta, {})
    assert labels[0].tolist() == [0, 1] and value.tolist() == [5.0, np.inf]
    soft, marginals, _ = solver.log_partition(block, theta, {}, 0.1)
    assert soft[0] == pytest.approx(5.0) and soft[1] == np.inf and marginals[0, 1, 0] == 0.0
    assert solver.min_marginals(block, theta, {})[0].tolist() == [[5.0, np.inf], [np.inf, 5.0]]


def test_theta_is_not_written_to_and_empty_batches_work():
    solver, rng = SoftassignSolver(), np.random.default_rng(4)
    block = Assignment([[0, 1, 2]]).bind(np.full(3, 3))
    theta = rng.normal(size=(1, 3, 3))
    before = theta.copy()
    solver.minimise(block, theta, {})
    solver.min_marginals(block, theta, {})
    solver.log_partition(block, theta, {}, 0.3)
    np.testing.assert_array_equal(theta, before)
    empty = block.take(np.arange(0))
    assert solver.minimise(empty, theta[:0], {})[0].shape == (0, 3)
    assert solver.min_marginals(empty, theta[:0], {}).shape == (0, 3, 3)
    assert solver.log_partition(empty, theta[:0], {}, 1.0)[1].shape == (0, 3, 3)


def test_slave_groups_of_the_core_carry_it():
    """Mixed numbers of states come padded with inf; all powers pass through the group."""
    rng, solver = np.random.default_rng(6), SoftassignSolver()
    for block, w in solver.examples(rng):
        n_states = np.zeros(block.members.max() + 1, int)
        n_states[block.members] = block.member_states
        offsets = np.concatenate([[0], np.cumsum(n_states)[:-1]])
        group = gm.CliqueGroup(block, solver, offsets)
        theta = rng.normal(size=len(group.coords))
        found, soft = (
            group.solve(theta, group.prepare(w)),
            group.log_partition(theta, group.prepare(w), 1e-6),
        )
        shaped = group.shaped(theta)
        for clique in range(group.n):
            costs, _ = injections(shaped[clique])
            assert found.value[clique] == pytest.approx(costs.min())
        assert np.bincount(group.owner, found.ind * theta) == pytest.approx(found.value)
        np.testing.assert_allclose(soft.value, found.value, atol=1e-4)
        np.testing.assert_allclose(soft.marginals, found.ind, atol=1e-6)
        lowest = np.minimum.reduceat(group.min_marginals(theta, w), group.ptr[:-1])
        np.testing.assert_allclose(lowest, np.repeat(found.value, block.arity))


def test_too_few_labels_is_an_error():
    with pytest.raises(
        ValueError, match=r"Assignment.variables: clique 0 has 3 variables but only 2 labels"
    ):
        Assignment([[0, 1, 2]]).bind(np.full(3, 2))


def test_refuses_other_potentials():
    assert SoftassignSolver().refuses(gm.Potts([[0, 1]])) == "not an assignment potential"
    assert all(
        SoftassignSolver().refuses(block) is None
        for block, _ in SoftassignSolver().examples(np.random.default_rng(0))
    )


def test_the_plugin_registers_both_and_the_master_uses_them():
    from gmlearn_pointsets import plugin

    if not any(entry.name == "softassign" for entry in gm.plugins()):
        gm.register(plugin)
    rng = np.random.default_rng(5)
    costs = rng.normal(size=(5, 5))
    crf = gm.CRF(np.full(5, 5))
    crf.add_unary(costs)
    crf.add("assignment", variables=[np.arange(5)])
    result = gm.solve(crf)
    assert result.energy == pytest.approx(costs[linear_sum_assignment(costs)].sum())
    assert sorted(result.labels) == [0, 1, 2, 3, 4]
