"""Sub-hypergraphs of small induced width against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from core_cases import KINDS, random_model
from hypothesis import given, settings
from hypothesis import strategies as st

import gmlearn as gm
from gmlearn.slaves.elimination import elimination_order
from gmlearn.testing.brute_force import SlaveTables

SETS = ([0, 1, 2, 3], [4, 3, 1], [2, 0, 4], [3], [1, 0])
CASES = {
    "seed": st.integers(0, 10_000),
    "kind": st.sampled_from(KINDS),
    "coarse": st.booleans(),
    "share": st.booleans(),
}


def random_group(seed, kind, coarse, share):
    """(group, weights, theta, rng): overlapping subgraphs of a random model, some without any
    clique; with hard models some labels are forbidden.
    """
    rng = np.random.default_rng(seed)
    crf, w = random_model(rng, kind, coarse)
    slaves = gm.decompose(crf, gm.Subgraphs(SETS, share=share))
    group = slaves.groups[0]
    assert isinstance(group, gm.JunctionTreeGroup)
    w = crf.check_weights(w)
    theta = (
        rng.integers(-2, 3, len(group.coords)).astype(float)
        if coarse
        else rng.normal(size=len(group.coords))
    )
    if kind == "hard":
        theta[rng.random(len(theta)) < 0.1] = np.inf
    return group, w, theta, rng


@settings(max_examples=60, deadline=None)
@given(**CASES)
def test_minima_and_min_marginals(seed, kind, coarse, share):
    group, w, theta, _ = random_group(seed, kind, coarse, share)
    tables = SlaveTables(group, w)
    found = group.solve(theta, group.prepare(w))
    np.testing.assert_allclose(found.value, tables.minima(theta), atol=1e-9)
    marginals = tables.min_marginals(theta)
    np.testing.assert_allclose(group.min_marginals(theta, group.prepare(w)), marginals, atol=1e-9)
    feasible = np.isfinite(found.value)
    with np.errstate(invalid="ignore"):
        paid = np.bincount(group.owner, np.where(found.ind > 0, theta, 0.0), group.n)
        paid = paid + group.energy(found.labels, w)
    np.testing.assert_allclose(paid[feasible], found.value[feasible], atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(**CASES, temperature=st.sampled_from([0.1, 1.0, 5.0]))
def test_soft_minima_marginals_and_expected_features(seed, kind, coarse, share, temperature):
    group, w, theta, _ = random_group(seed, kind, coarse, share)
    tables = SlaveTables(group, w)
    found = group.log_partition(theta, group.prepare(w), temperature)
    marginals, features = np.zeros(len(theta)), {}
    for m, total in enumerate(tables.totals(theta)):
        value, p = tables.distribution(m, total, temperature)
        assert found.value[m] == pytest.approx(value, abs=1e-8)
        np.add.at(marginals, tables.dual[m], np.broadcast_to(p[:, None], tables.dual[m].shape))
        for x, weight in zip(tables.labels[m], p):
            labels = np.zeros(len(group.ptr) - 1, np.int64)
            labels[tables.members[m]] = x
            result = gm.SlaveResult(None, np.zeros(group.n), labels, labels)
            for name, value in group.slave_features(result).items():
                features[name] = features.get(name, 0.0) + weight * value[m]
    np.testing.assert_allclose(found.marginals, marginals, atol=1e-9)
    for name, value in features.items():
        np.testing.assert_allclose(found.features[name], value, atol=1e-8)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("kind", ["mixed", "high-order", "constant"])
def test_some_slaves_are_those_of_the_whole(kind, share):
    group, w, theta, rng = random_group(3, kind, False, share)
    whole = group.solve(theta, group.prepare(w))
    index = np.flatnonzero(rng.random(group.n) < 0.6)
    some = group.take(index)
    own = np.isin(group.owner, index)
    assert np.array_equal(some.coords, group.coords[own])
    found = some.solve(theta[own], some.prepare(w))
    np.testing.assert_allclose(found.value, whole.value[index])
    np.testing.assert_array_equal(found.ind, whole.ind[own])
    for name, value in group.slave_features(whole).items():
        np.testing.assert_allclose(some.slave_features(found)[name], value[index])
        np.testing.assert_allclose(some.features(found)[name], value[index].sum(axis=0))


def test_no_slaves_at_all():
    group = gm.JunctionTreeGroup([], [], np.array([0, 2, 4]))
    assert group.solve(np.zeros(0), group.prepare({})).value.shape == (0,)
    assert group.min_marginals(np.zeros(0), group.prepare({})).shape == (0,)


def test_costs_far_above_the_temperature_do_not_underflow():
    rng = np.random.default_rng(0)
    crf = gm.CRF(3 * 50, 2).add_unary(1e4 * rng.normal(size=(150, 2)))
    crf.add(gm.Potts(gm.grid_edges(3, 50), 1e4 * rng.normal(size=247)))
    slaves = gm.decompose(crf, "strips")
    (group,) = slaves.groups
    theta, tables = slaves.unary({})[group.coords], group.prepare({})
    soft, hard = group.log_partition(theta, tables, 1e-3), group.solve(theta, tables)
    np.testing.assert_allclose(soft.value, hard.value)
    np.testing.assert_allclose(soft.marginals, hard.ind, atol=1e-6)


def test_repeated_structures_are_planned_once():
    crf = gm.CRF(400, 2)
    crf.add(gm.Potts(gm.grid_edges(20, 20), 1.0))
    (group,) = gm.decompose(crf, "strips").groups
    program, structure = group.plan
    assert group.n == 10 and len(program.size) == len(np.unique(structure)) == 3


def test_the_order_of_elimination_is_as_wide_as_the_strip():
    index = np.arange(90).reshape(3, 30).T  # across the strip first
    place = np.empty(90, int)
    place[index.ravel()] = np.arange(90)
    edges = place[gm.grid_edges(3, 30)]
    order = elimination_order(2 * np.arange(len(edges) + 1), edges.ravel(), np.full(90, 2))
    assert order.width == 3 and order.largest == pytest.approx(16)


def test_wide_sets_are_refused_before_memory_is_asked_for():
    crf = gm.CRF(900, 2)
    crf.add(gm.Potts(gm.grid_edges(30, 30), 1.0))
    with pytest.raises(
        ValueError,
        match=r"sets: the set of 900 variables that begins with \[0, 1, 2, 3, 4\] has an induced "
        r"width of 3\d, a table of .* entries and .* in all \(limits .*\); use smaller sets",
    ):
        gm.decompose(crf, gm.Subgraphs([np.arange(900)]))
