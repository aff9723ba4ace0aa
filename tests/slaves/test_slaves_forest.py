"""Trees and chains against enumeration, with every kind of edge in one tree."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from core_cases import forbid, numbers
from hypothesis import given, settings
from hypothesis import strategies as st

import gmlearn as gm
from gmlearn.testing.brute_force import energy_table


def random_forest(rng, mixed, coarse, hard):
    """(ForestGroup of two trees over seven variables, weights); the edges come from three
    blocks.
    """
    n = 7
    states = rng.integers(1, 5, n) if mixed else np.full(n, int(rng.integers(2, 5)))
    edges, tree = [], []
    for t, variables in enumerate((rng.permutation(n)[:5], rng.permutation(n)[:4])):
        for i in range(1, len(variables)):
            pair = [variables[i], variables[rng.integers(0, i)]]
            edges.append(pair if rng.random() < 0.5 else pair[::-1])
            tree.append(t)
    order = rng.permutation(len(edges))
    edges, tree = np.array(edges)[order], np.array(tree)[order]
    a, b = edges[:3], edges[3:5]
    c = edges[5:]
    tables = [numbers(rng, states[e], coarse) for e in c]
    blocks = [
        gm.Potts(a, numbers(rng, 3, coarse), weight="s"),
        gm.Truncated(b, 1.5, contrast=numbers(rng, 2, coarse)),
        gm.Table(c, [forbid(rng, t) for t in tables] if hard else tables),
    ]
    offsets = np.concatenate([[0], np.cumsum(states)])
    group = gm.ForestGroup([x.bind(states) for x in blocks], tree, 2, offsets)
    return group, {"s": np.array(rng.choice([-0.7, 0.7]))}


def tree_costs(group, t, theta, w):
    """(slots, labels (K, slots), costs (K,)): every labelling of one tree, in lexicographic
    order.
    """
    slots = np.arange(group.tree_ptr[t], group.tree_ptr[t + 1])
    x = np.array(list(itertools.product(*(range(n) for n in np.diff(group.ptr)[slots]))))
    place = {int(v): i for i, v in enumerate(group.variable[slots])}
    total, begin = theta[group.ptr[slots] + x].sum(axis=1), 0
    for block in group.blocks:
        for m in np.flatnonzero(group.tree[begin : begin + len(block)] == t):
            many = block.take(np.full(len(x), m))
            total += many.energy(x[:, [place[int(v)] for v in block.variables[m]]], w)
        begin += len(block)
    return slots, x, total


PROBLEMS = {
    "seed": st.integers(0, 10_000),
    "mixed": st.booleans(),
    "coarse": st.booleans(),
    "hard": st.booleans(),
}


@settings(deadline=None, max_examples=60, derandomize=True)
@given(**PROBLEMS)
def test_minima_and_min_marginals(seed, mixed, coarse, hard):
    rng = np.random.default_rng(seed)
    group, w = random_forest(rng, mixed, coarse, hard)
    theta = numbers(rng, len(group.coords), coarse)
    if hard:
        theta = forbid(rng, theta, 0.1)
    before, prepared = theta.copy(), group.prepare(w)
    r, marginals = group.solve(theta, prepared), group.min_marginals(theta, prepared)
    assert np.array_equal(before, theta)
    for t in range(2):
        slots, x, cost = tree_costs(group, t, theta, w)
        low = cost.min()
        assert r.value[t] == pytest.approx(low)
        assert cost[(x == r.labels[slots]).all(axis=1)][0] == pytest.approx(low)
        for i, s in enumerate(slots):
            for a in range(group.ptr[s + 1] - group.ptr[s]):
                assert marginals[group.ptr[s] + a] == pytest.approx(cost[x[:, i] == a].min())
    assert np.array_equal(np.flatnonzero(r.ind), group.ptr[:-1] + r.labels)
    if np.isfinite(r.value).all():
        paid = np.bincount(group.owner, np.where(r.ind > 0, theta, 0.0), 2)
        assert np.allclose(group.energy(r.labels, w) + paid, r.value)


@settings(deadline=None, max_examples=20, derandomize=True)
@given(**{**PROBLEMS, "hard": st.just(False)})
def test_features_are_those_of_the_minimiser_and_a_supergradient(seed, mixed, coarse, hard):
    rng = np.random.default_rng(seed)
    group, w = random_forest(rng, mixed, coarse, hard)
    theta = rng.normal(size=len(group.coords))
    r = group.solve(theta, group.prepare(w))
    features, single = group.features(r), group.slave_features(r)
    assert np.allclose(single["s"].sum(axis=0), features["s"])
    other = {"s": w["s"] + 1.3}
    assert (
        group.solve(theta, group.prepare(other)).value.sum()
        <= r.value.sum() + 1.3 * features["s"] + 1e-9
    )
    free = {"s": np.array(0.0)}
    assert np.allclose(
        group.energy(r.labels, w), group.energy(r.labels, free) + w["s"] * single["s"]
    )


@settings(deadline=None, max_examples=25, derandomize=True)
@given(**PROBLEMS, temperature=st.sampled_from([0.4, 1.0, 3.0]))
def test_soft_minima_marginals_and_expected_features(seed, mixed, coarse, hard, temperature):
    rng = np.random.default_rng(seed)
    group, w = random_forest(rng, mixed, coarse, hard)
    theta = numbers(rng, len(group.coords), coarse)
    prepared = group.prepare(w)
    if not np.isfinite(group.solve(theta, prepared).value).all():
        return
    r = group.log_partition(theta, prepared, temperature)
    marginals = np.zeros(len(theta))
    for t in range(2):
        slots, x, cost = tree_costs(group, t, theta, w)
        weight = np.exp(-cost / temperature)
        assert r.value[t] == pytest.approx(-temperature * np.log(weight.sum()))
        np.add.at(marginals, group.ptr[slots] + x, (weight / weight.sum())[:, None])
    assert np.allclose(r.marginals, marginals)
    h = 1e-5
    shifted = [
        group.log_partition(theta, group.prepare({"s": w["s"] + d}), temperature).value.sum()
        for d in (h, -h)
    ]
    assert r.features["s"] == pytest.approx((shifted[0] - shifted[1]) / (2 * h), abs=1e-5)


def test_soft_minima_where_probabilities_underflow():
    rng = np.random.default_rng(0)
    group, w = random_forest(rng, mixed=True, coarse=False, hard=False)
    theta, prepared = rng.normal(size=len(group.coords)), group.prepare(w)
    hard = group.solve(theta, prepared)
    for temperature in (1e-2, 1e-4, 1e-6):
        r = group.log_partition(theta, prepared, temperature)
        elsewhere = group.junction.log_partition(theta, group.junction.prepare(w), temperature)
        np.testing.assert_allclose(r.value, elsewhere.value, rtol=1e-12)
        np.testing.assert_allclose(r.marginals, elsewhere.marginals, atol=1e-9)
        np.testing.assert_allclose(r.features["s"], elsewhere.features["s"], rtol=1e-9)
    np.testing.assert_allclose(r.value, hard.value, rtol=1e-4)
    np.testing.assert_allclose(r.marginals, hard.ind, atol=1e-6)


@settings(deadline=None, max_examples=20, derandomize=True)
@given(**PROBLEMS)
def test_a_part_equals_the_whole(seed, mixed, coarse, hard):
    rng = np.random.default_rng(seed)
    group, w = random_forest(rng, mixed, coarse, hard)
    theta = numbers(rng, len(group.coords), coarse)
    whole = group.solve(theta, group.prepare(w))
    for t in range(2):
        part, mine = group.take(np.array([t])), slice(group.indptr[t], group.indptr[t + 1])
        assert np.array_equal(part.coords, group.coords[mine])
        r = part.solve(theta[mine], part.prepare(w))
        assert r.value[0] == pytest.approx(whole.value[t]) and np.array_equal(
            r.ind, whole.ind[mine]
        )


def test_long_chains_and_stars():
    rng = np.random.default_rng(0)
    n = 200
    for edges in (
        np.stack([np.arange(n - 1), np.arange(1, n)], 1),
        np.stack([np.zeros(n - 1, int), np.arange(1, n)], 1),
    ):
        block = gm.Potts(rng.permutation(edges), 0.5).bind(np.full(n, 3))
        group = gm.ForestGroup([block], np.zeros(n - 1, np.int64), 1, 3 * np.arange(n + 1))
        theta = rng.normal(size=3 * n)
        prepared = group.prepare({})
        r = group.solve(theta, prepared)
        marginals = group.min_marginals(theta, prepared).reshape(n, 3)
        assert np.allclose(marginals.min(axis=1), r.value[0])


@pytest.mark.parametrize(
    "edges, tree, bad",
    [
        ([[0, 1], [1, 2], [2, 0]], [0, 0, 0], 0),
        ([[0, 1], [2, 3]], [0, 0], 0),
        ([[0, 1], [1, 2], [1, 2]], [0, 1, 1], 1),
    ],
)
def test_what_is_no_tree_is_refused(edges, tree, bad):
    block = gm.Potts(edges).bind(np.full(4, 2))
    with pytest.raises(ValueError, match=f"tree: the edges of tree {bad} do not form one tree"):
        gm.ForestGroup([block], np.array(tree), max(tree) + 1, 2 * np.arange(5))


def test_free_variables():
    group = gm.FreeGroup(np.array([0, 2]), np.array([0, 2, 3, 6]))
    theta = np.array([1.0, 1.0, np.inf, 5.0, 4.0])
    r = group.solve(theta, None)
    assert (
        r.value.tolist() == [1.0, 4.0]
        and r.labels.tolist() == [0, 2]
        and r.ind.tolist() == [1, 0, 0, 0, 1]
    )
    assert group.coords.tolist() == [0, 1, 3, 4, 5]
    assert np.array_equal(group.min_marginals(theta, None), theta)
    soft = group.log_partition(theta, None, 2.0)
    assert soft.value[0] == pytest.approx(1 - 2 * np.log(2)) and soft.marginals[:3].tolist() == [
        0.5,
        0.5,
        0.0,
    ]
    assert group.take(np.array([1])).coords.tolist() == [3, 4, 5]
    empty = gm.FreeGroup(np.zeros(0, int), np.array([0, 2]))
    assert empty.solve(np.zeros(0), None).value.shape == (0,)


@pytest.mark.parametrize("temperature", [0.003, 0.02, 1.0])
@pytest.mark.parametrize("hard", [0.0, 0.3])
def test_soft_minima_hold_at_temperatures_where_probabilities_underflow(temperature, hard):
    rng = np.random.default_rng(4)
    for _ in range(20):
        crf = gm.CRF(5, 3).add_unary(rng.normal(size=(5, 3)) * 4)
        tables = 5 * rng.normal(size=(4, 3, 3))
        tables[rng.random(tables.shape) < hard] = np.inf
        crf.add(gm.Table([[0, 1], [1, 2], [1, 3], [3, 4]], tables))
        energy = energy_table(crf, {})
        low = energy.min()
        if low == np.inf:
            continue
        soft = low - temperature * np.log(np.exp((low - energy) / temperature).sum())
        (group,) = gm.decompose(crf, "trees", "log_partition").groups
        found = group.log_partition(crf.unary[group.coords], group.prepare({}), temperature)
        assert found.value.sum() == pytest.approx(soft, abs=1e-9)
        np.testing.assert_allclose(np.add.reduceat(found.marginals, group.ptr[:-1]), 1.0)
