"""Bounds of log Z hold on every kind of model; approximate methods say what they are."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from probability_cases import KINDS, enumerated, random_model

import gmlearn as gm
from gmlearn.probabilities.auto import AutoMarginals
from gmlearn.probabilities.method import MarginalProblem

seeds = st.integers(0, 10**6)


def check_bounds(seed, kind, temperature):
    crf, w = random_model(np.random.default_rng(seed), kind)
    log_z, _, _ = enumerated(crf, w, temperature)
    slack = 1e-6 * max(1.0, abs(log_z)) if np.isfinite(log_z) else 1e-6
    trees = gm.SpanningHypertrees(2, seed=seed % 7)
    found = [
        gm.marginals(crf, w, "trw", temperature, max_iter=20, decomposition="chains"),
        gm.marginals(crf, w, "mean-field", temperature),
        gm.marginals(crf, w, "mean-field", temperature, structure="naive"),
        gm.marginals(crf, w, "trw", temperature, max_iter=20, decomposition=trees),
    ]
    for m in found:
        assert m.lower <= log_z + slack, (m, log_z)
        assert m.upper >= log_z - slack, (m, log_z)
        if log_z > -np.inf and m.status != "no bounds":
            np.testing.assert_allclose(m.node.sum(axis=1), 1.0, atol=1e-6)
    if log_z > -np.inf:
        assert found[0].upper < np.inf
        assert found[1].lower >= found[2].lower - slack


# slaves at temperatures so low that scaled probabilities underflow
@example(39, "implication", 0.2)
@example(58, "hard", 1.0)
@example(276, "cardinality", 0.2)
@settings(deadline=None, max_examples=20)
@given(seeds, st.sampled_from(KINDS), st.sampled_from([0.4, 1.0]))
def test_bounds_hold(seed, kind, temperature):
    check_bounds(seed, kind, temperature)


@pytest.mark.slow
@settings(deadline=None, max_examples=2000)
@given(seeds, st.sampled_from(KINDS), st.sampled_from([0.2, 1.0, 3.0]))
def test_bounds_hold_on_thousands_of_models(seed, kind, temperature):
    check_bounds(seed, kind, temperature)


@pytest.mark.parametrize("kind", ["loopy", "triples", "hard", "pn_potts", "cardinality"])
def test_both_bounds_where_elimination_is_out_of_reach(kind, monkeypatch):
    crf, w = random_model(np.random.default_rng(5), kind)
    log_z, node, _ = enumerated(crf, w, 1.0)
    monkeypatch.setattr(AutoMarginals, "_eliminate", lambda self, problem: None)
    m = gm.marginals(crf, w)
    assert m.lower <= log_z + 1e-8 <= m.upper + 2e-8
    assert m.upper - m.lower < 5.0
    np.testing.assert_allclose(m.clique(0).reshape(len(crf.blocks[0]), -1).sum(axis=1), 1.0)
    assert np.abs(m.node - node).mean() < 0.3


@pytest.mark.parametrize("kind", ["loopy", "triples", "hard"])
def test_both_bounds_meet_the_least_energy_at_low_temperatures(kind, monkeypatch):
    monkeypatch.setattr(AutoMarginals, "_eliminate", lambda self, problem: None)
    crf, w = random_model(np.random.default_rng(7), kind)
    least = gm.solve(crf, w, solver="exact").energy
    for temperature in (1e-3, 1e-6):
        m = gm.marginals(crf, w, temperature=temperature)
        spread = temperature * np.log(crf.n_states).sum() + 1e-3 * abs(least)
        assert least - spread <= -temperature * m.upper <= least + 1e-9
        assert -temperature * m.upper <= -temperature * m.lower <= least + spread


def test_slaves_without_a_soft_minimum_leave_a_bound_by_counting():
    rng = np.random.default_rng(0)
    n = 25
    crf = gm.CRF(n, 2).add_unary(rng.normal(size=(n, 2)))
    crf.add("label_cost", cliques=[list(range(n))], costs=[0.5, 0.3])
    m = gm.marginals(crf)
    # all labellings but two pay for both labels
    free = np.logaddexp(-crf.unary[::2], -crf.unary[1::2]).sum()
    ends = [-crf.unary[k::2].sum() for k in (0, 1)]
    log_z = np.log(
        np.exp(free - 0.8)
        + sum(np.exp(e) * (np.exp(-c) - np.exp(-0.8)) for e, c in zip(ends, (0.5, 0.3)))
    )
    assert m.lower <= log_z <= m.upper < np.inf
    assert m.status == "bounds"


def test_on_a_grid_the_convex_bound_is_the_tree_reweighted_one():
    """Rows and columns at temperature 1/2 each; one slave would be exact."""
    rng = np.random.default_rng(1)
    crf = gm.CRF(9, 2).add_unary(rng.normal(size=(9, 2)))
    crf.add(gm.Potts(gm.grid_edges(3, 3), 1.0))
    exact = gm.marginals(crf, method="elimination")
    trw = gm.marginals(crf, method="trw", decomposition="rows-columns")
    assert 0 < trw.upper - exact.log_partition < 1.0
    np.testing.assert_allclose(trw.node, exact.node, atol=0.15)
    whole = gm.marginals(crf, method="trw")
    assert whole.status == "exact"
    assert whole.upper == pytest.approx(exact.log_partition)
    joint = trw.clique(0)
    edges = crf.blocks[0].variables
    np.testing.assert_allclose(joint.sum(axis=2), trw.node[edges[:, 0]], atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_overlapping_trees_bound_more_tightly_than_chains(seed):
    rng = np.random.default_rng(seed)
    edges = gm.grid_edges(4, 4)
    crf = gm.CRF(16, 3).add_unary(rng.normal(size=(16, 3)))
    block = crf.add(gm.Table(edges, rng.normal(size=(len(edges), 3, 3))))
    exact = gm.marginals(crf, method="elimination")
    excess, apart = [], []
    for slaves in ("chains", gm.SpanningHypertrees(4), gm.SpanningHypertrees(4, 27)):
        m = gm.marginals(crf, method="trw", decomposition=slaves)
        excess.append(m.upper - exact.log_partition)
        apart.append(np.abs(m.node - exact.node).mean())
    assert excess[0] > excess[1] > 2 * excess[2] > 0
    assert apart[0] > apart[1] > 2 * apart[2]
    joint = m.clique(block)
    np.testing.assert_allclose(joint.sum(axis=2), m.node[edges[:, 0]], atol=5e-3)
    np.testing.assert_allclose(joint, exact.clique(block), atol=0.1)


def test_loopy_propagation_is_exact_on_a_tree_and_says_that_it_bounds_nothing():
    crf, w = random_model(np.random.default_rng(2), "forest")
    log_z, node, _ = enumerated(crf, w, 1.0)
    m = gm.marginals(crf, w, "loopy-bp")
    assert m.log_partition == pytest.approx(log_z, abs=1e-4)
    np.testing.assert_allclose(m.node, node, atol=1e-4)
    assert (m.lower, m.upper, m.status) == (-np.inf, np.inf, "no bounds")
    assert "no bound" in m.reason


def test_loopy_propagation_on_an_infeasible_model_is_not_a_number_but_minus_infinity():
    never = np.full((2, 2), np.inf)
    crf = gm.CRF(3, 2)
    crf.add(gm.Table([[0, 1], [1, 2]], [never, np.zeros((2, 2))]))
    m = gm.marginals(crf, method="loopy-bp")
    assert m.log_partition == -np.inf and not np.isnan(m.node).any()


@pytest.mark.parametrize("calls", range(0, 240, 7))
def test_time_may_run_out_at_any_moment(calls, monkeypatch):
    crf, w = random_model(np.random.default_rng(4), "loopy")
    log_z, _, _ = enumerated(crf, w, 1.0)
    left = iter([1.0] * calls)
    monkeypatch.setattr(MarginalProblem, "time_left", property(lambda self: next(left, -1.0)))
    slaves = "chains" if calls % 2 else gm.SpanningHypertrees(3)
    assert gm.marginals(crf, w, "trw", decomposition=slaves).upper >= log_z - 1e-9


def test_a_time_limit_of_nothing_still_gives_valid_bounds():
    rng = np.random.default_rng(0)
    crf = gm.CRF(400, 3).add_unary(rng.normal(size=(400, 3)))
    crf.add(gm.Potts(gm.grid_edges(20, 20), 1.0))
    m = gm.marginals(crf, time_limit=0.0)
    better = gm.marginals(crf, method="trw", max_iter=30)
    assert better.status == "bounds"
    assert m.lower <= better.upper <= m.upper


def test_a_coarse_upper_bound_is_a_bound_in_less_work():
    crf = gm.CRF(256, 2).add_unary(np.random.default_rng(0).normal(size=(256, 2)))
    crf.add(gm.Potts(gm.grid_edges(16, 16), 1.0))
    exact = gm.marginals(crf, method="elimination")
    fine = gm.marginals(crf, method="trw", tol=1e-9)
    coarse = gm.marginals(crf, method="trw", tol=1e-4)
    assert exact.log_partition <= fine.upper <= coarse.upper <= fine.upper + 1.0
    assert coarse.iterations < fine.iterations
    assert gm.marginals(crf, tol=1e-4).status == "exact"


@pytest.mark.filterwarnings("error")
def test_forbidden_labels_cause_no_warning_in_the_upper_bound():
    rng = np.random.default_rng(0)
    crf = gm.CRF(6, 3).add_unary(rng.normal(size=(6, 3)) * 2)
    crf.unary[4] = np.inf
    crf.add(gm.Potts(np.array(np.triu_indices(6, 1)).T, rng.normal(size=15)))
    crf.add("pn_potts", cliques=[[0, 1, 2], [2, 3, 4]], beta=0.3, beta_max=1.0)
    exact = gm.marginals(crf, method="brute-force").log_partition
    found = gm.marginals(crf, method="trw", decomposition="per-clique")
    assert exact <= found.upper <= exact + 1.2
