"""Exact marginals and log Z against enumeration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from probability_cases import KINDS, enumerated, random_model

import gmlearn as gm
from gmlearn.probabilities.junction import JunctionTree
from gmlearn.probabilities.method import MarginalProblem
from gmlearn.registry import registry

seeds = st.integers(0, 10**6)
FEW = settings(deadline=None, max_examples=60)


@FEW
@given(seeds, st.sampled_from(KINDS), st.sampled_from([0.3, 1.0, 2.5]))
def test_elimination_is_enumeration(seed, kind, temperature):
    crf, w = random_model(np.random.default_rng(seed), kind)
    log_z, node, cliques = enumerated(crf, w, temperature)
    for method in ("elimination", "brute-force", "auto"):
        m = gm.marginals(crf, w, method, temperature)
        assert m.log_partition == pytest.approx(log_z, abs=1e-8)
        assert m.lower == m.upper == m.log_partition
        if log_z == -np.inf:
            assert m.status == "infeasible" and not m.node.any()
            continue
        assert m.status == "exact"
        np.testing.assert_allclose(m.node, node, atol=1e-9)
        for number, block in enumerate(crf.blocks):
            found = m.clique(block)
            for c, joint in enumerate(cliques[number]):
                mine = np.asarray(found[c])[tuple(slice(n) for n in joint.shape)]
                np.testing.assert_allclose(mine, joint, atol=1e-9)


@FEW
@given(seeds, st.sampled_from([0.5, 1.0]))
def test_messages_on_a_forest_are_enumeration(seed, temperature):
    crf, w = random_model(np.random.default_rng(seed), "forest")
    log_z, node, cliques = enumerated(crf, w, temperature)
    m = gm.marginals(crf, w, "tree", temperature)
    assert m.log_partition == pytest.approx(log_z, abs=1e-8)
    np.testing.assert_allclose(m.node, node, atol=1e-8)
    np.testing.assert_allclose(m.clique(0), np.array(cliques[0]), atol=1e-8)


def test_towards_zero_temperature_the_answer_is_map():
    crf, w = random_model(np.random.default_rng(3), "loopy")
    best = gm.solve(crf, w)
    m = gm.marginals(crf, w, "elimination", temperature=1e-3)
    assert (m.labels == best.labels).all()
    assert 1e-3 * m.log_partition == pytest.approx(-best.energy, abs=1e-2)


def test_evidence_is_a_clamped_variable():
    crf = gm.CRF(3, 2).add_unary([[0, 1], [0, 0], [0.5, 0]])
    crf.add(gm.Potts([[0, 1], [1, 2], [0, 2]], 0.7))
    _, node, _ = enumerated(crf.clamp({1: 1}), {}, 1.0)
    m = gm.marginals(crf.clamp({1: 1}))
    assert m.node[1].tolist() == [0.0, 1.0]
    np.testing.assert_allclose(m.node, node)


def test_labels_that_no_table_allows_are_removed_before_the_order_is_chosen():
    n = 12
    crf = gm.CRF(n, 3)
    edges = [(a, b) for a in range(n) for b in range(a)]
    tables = np.zeros((len(edges), 3, 3))
    crf.add(gm.Table(edges, tables))
    equal = np.where(np.eye(3, dtype=bool), 0.0, np.inf)
    crf.add(gm.Table([(0, v) for v in range(1, n)], equal))
    problem = MarginalProblem(crf.clamp({0: 2}), {})
    tree = JunctionTree(problem.graph)
    assert len(tree.live) == 0
    assert gm.marginals(crf.clamp({0: 2})).log_partition == pytest.approx(0.0)


def test_a_width_beyond_memory_is_refused_with_its_number():
    n = 30
    edges = [(a, b) for a in range(n) for b in range(a)]
    crf = gm.CRF(n, 4)
    crf.add(gm.Potts(edges, 0.1))
    with pytest.raises(gm.MethodRefusal, match=r"induced width of 29.*entries.*GB"):
        gm.marginals(crf, method="elimination")


def test_no_feasible_labelling_is_an_answer():
    crf = gm.CRF(2, 2).add_unary([[np.inf, np.inf], [0, 0]])
    m = gm.marginals(crf)
    assert m.status == "infeasible" and m.log_partition == -np.inf
    assert "hard constraint" in m.status.meaning
    crf = gm.CRF(3, 2)
    crf.add(gm.Table([[0, 1], [1, 2], [0, 2]], [[np.inf, 0], [0, np.inf]]))
    assert gm.marginals(crf).status == "infeasible"
    with pytest.raises(ValueError, match="no probabilities"):
        gm.marginals(crf).clique(0)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, "warm"])
def test_bad_temperatures_are_refused(bad):
    with pytest.raises(ValueError, match="temperature"):
        gm.marginals(gm.CRF(2, 2), temperature=bad)


def test_bad_input_is_named():
    crf = gm.CRF(2, 2)
    with pytest.raises(TypeError, match="crf: expected"):
        gm.marginals("model")
    with pytest.raises(gm.UnknownNameError, match="elimination"):
        gm.marginals(crf, method="eliminaton")
    with pytest.raises(TypeError, match="has no setting 'depth'"):
        gm.marginals(crf, method="elimination", depth=3)
    with pytest.raises(ValueError, match="nan at 0"):
        crf.unary[0] = np.nan
        gm.marginals(crf)
    with pytest.raises(gm.MethodRefusal, match="forest"):
        ring = gm.CRF(3, 2)
        ring.add(gm.Potts([[0, 1], [1, 2], [0, 2]], 1.0))
        gm.marginals(ring, method="tree")


def test_the_result_describes_itself():
    crf = gm.CRF([2, 3]).add_unary([[0, 0], [0, np.inf, 0]])
    m = gm.marginals(crf)
    np.testing.assert_allclose(m.node, [[0.5, 0.5, 0], [0.5, 0, 0.5]])
    np.testing.assert_allclose(m.entropy, np.log(2))
    assert "log_partition=1.386" in repr(m) and "exact" in repr(m)
    assert "exact" in m._repr_html_()
    answer = m.as_dict()
    assert [len(p) for p in answer["node"]] == [2, 3]
    assert m.confidence.tolist() == [0.5, 0.5]
    ax = m.plot()
    assert len(ax.patches) == 2


@pytest.mark.parametrize("bad", [None, "x", np.nan, -1, 1j, []], ids=repr)
@pytest.mark.parametrize("method", ["auto", "trw", "mean-field", "loopy-bp", "elimination"])
def test_numbers_among_the_settings_are_checked_by_name(method, bad):
    crf = gm.CRF(3, 2)
    crf.add(gm.Potts([[0, 1], [1, 2], [0, 2]], 1.0))
    limits = registry.get("marginal method", method).limits
    assert limits
    for name in limits:
        with pytest.raises((TypeError, ValueError), match=f"^{name}: "):
            gm.marginals(crf, method=method, **{name: bad})
