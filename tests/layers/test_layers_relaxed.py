"""gm.relaxed: the relaxed solution of the dual, of the linear program, and the soft one."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

import gmlearn as gm


def frustrated(seed=0):
    """A loopy model whose relaxation is not tight."""
    rng = np.random.default_rng(seed)
    crf = gm.CRF(5, 2).add_unary(0.2 * rng.normal(size=(5, 2)))
    edges = [[a, b] for a in range(5) for b in range(a)]
    crf.add(gm.Potts(edges, rng.normal(size=10) - 0.5))
    return crf


@pytest.mark.parametrize("seed", range(3))
def test_dual_and_linear_program_agree(seed):
    crf = frustrated(seed)
    dual = gm.relaxed(crf, decomposition="per-clique", max_iter=2000, tol=1e-9)
    lp = gm.relaxed(crf, method="lp")
    assert dual.bound == pytest.approx(lp.bound, abs=1e-3)
    assert dual.bound <= lp.bound + 1e-6
    for node in (dual.node, lp.node):
        assert node.shape == (5, 2)
        np.testing.assert_allclose(node.sum(axis=1), 1.0, atol=1e-9)
    np.testing.assert_allclose(dual.node, lp.node, atol=0.05)


def test_the_linear_program_keeps_its_solution():
    crf = frustrated()
    answer = gm.solve(crf, solver="lp")
    np.testing.assert_array_equal(answer.relaxed, gm.relaxed(crf, method="lp").node)
    assert gm.solve(crf, solver="bcfw").relaxed is None


def test_a_tight_relaxation_is_the_labelling_itself():
    rng = np.random.default_rng(0)
    crf = gm.CRF(6, 3).add_unary(rng.normal(size=(6, 3)))
    crf.add(gm.Potts([[v, v + 1] for v in range(5)], 0.3))
    expected = np.eye(3)[gm.solve(crf).labels]
    for method in ("dual", "lp"):
        np.testing.assert_allclose(gm.relaxed(crf, method=method).node, expected, atol=1e-9)
    cold = gm.relaxed(crf, method="soft", temperature=0.01).node
    np.testing.assert_allclose(cold, expected, atol=1e-3)


@pytest.mark.parametrize("method", ["dual", "soft", "lp"])
def test_a_list_of_models_with_forbidden_labels(method):
    crfs = [frustrated(), gm.CRF([2, 3]).add_unary([[np.inf, 0.0], [0.5, np.inf, 1.0]])]
    found = gm.relaxed(crfs, method=method)
    assert [n.shape for n in found.node] == [(5, 2), (2, 3)]
    assert found.bound.shape == (2,)
    assert found.node[1][0].tolist() == [0.0, 1.0, 0.0]
    assert found.node[1][1, 1] == 0.0


def test_a_state_goes_on_where_the_last_call_ended():
    crf = frustrated()
    first = gm.relaxed(crf)
    again = gm.relaxed(crf, state=first.state, max_iter=0)
    assert again.bound == pytest.approx(first.bound, abs=1e-9)
    assert gm.relaxed(crf, max_iter=0).bound < first.bound - 1e-3


def test_method_is_checked():
    with pytest.raises(ValueError, match="method"):
        gm.relaxed(frustrated(), method="simplex")


@pytest.mark.parametrize("framework", ["jax", "torch"])
def test_a_missing_framework_names_its_extra(framework, monkeypatch):
    monkeypatch.setitem(sys.modules, framework, None)
    monkeypatch.delitem(sys.modules, f"gmlearn.layers.{framework}", raising=False)
    with pytest.raises(ImportError, match=rf"gmlearn\[{framework}\].*the extra `{framework}`"):
        importlib.import_module(f"gmlearn.layers.{framework}")
