"""Mean field by expected energies, where cliques are too large for tables."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from probability_cases import enumerated, random_model

import gmlearn as gm
from gmlearn._utils._exp_numba import exp_all, log_all
from gmlearn.probabilities import expected

seeds = st.integers(0, 10**6)
HIGH = ("pn_potts", "robust_pn", "pattern", "cardinality", "exactly_one", "at_most", "label_cost", *(
    "exactly",
    "value_sum",
))  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(seeds, st.sampled_from(HIGH), st.sampled_from([0.1, 1.0, 3.0]))
def test_without_tables_the_lower_bound_is_that_of_tables(seed, kind, temperature):
    crf, w = random_model(np.random.default_rng(seed), kind)
    log_z, _, _ = enumerated(crf, w, temperature)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expected, "MAX_TABLE_ENTRIES", 0)
        patch.setattr(expected, "open_blocks", only_known)
        patch.setattr("gmlearn.probabilities.mean_field.open_blocks", only_known)
        m = gm.marginals(crf, w, "mean-field", temperature)
    slack = 1e-8 * max(1.0, abs(log_z)) if np.isfinite(log_z) else 0.0
    assert m.lower <= log_z + slack
    if log_z > -np.inf:
        np.testing.assert_allclose(m.node.sum(axis=1), 1.0)
        best = -gm.solve(crf, w, solver="brute-force").energy / temperature
        assert m.lower >= best - 0.05 * max(1.0, abs(best))


def only_known(crf):
    return [b for b in crf.clique_blocks if b.expected_energy is not None]


@pytest.mark.parametrize("more_colours", [False, True])
def test_variables_of_a_large_clique_move_one_by_one_or_together(more_colours, monkeypatch):
    if more_colours:
        monkeypatch.setattr(expected, "MOST_GROUPS", 3)
    rng = np.random.default_rng(0)
    n = 40
    crf = gm.CRF(n, 2).add_unary(rng.normal(size=(n, 2)))
    crf.add("cardinality", cliques=[range(n)], costs=0.05 * (np.arange(n + 1) - 10.0) ** 2)
    exact = gm.marginals(crf, method="trw")
    lower = gm.marginals(crf, method="mean-field")
    assert exact.status == "exact"
    assert exact.log_partition - 1.5 < lower.lower < exact.log_partition
    np.testing.assert_allclose(lower.node, exact.node, atol=0.1)
    with pytest.raises(ValueError, match="a dense table would have"):
        lower.clique(0)


def test_large_label_costs_have_close_bounds():
    """All labellings but two pay for both labels, so log Z has a closed form."""
    rng = np.random.default_rng(0)
    n = 60
    crf = gm.CRF(n, 2).add_unary(rng.normal(size=(n, 2)))
    crf.add("label_cost", cliques=[range(n)], costs=[0.5, 0.3])
    m = gm.marginals(crf)
    log_z = np.logaddexp(-crf.unary[::2], -crf.unary[1::2]).sum() - 0.8
    assert m.status == "bounds"
    assert log_z - 0.01 < m.lower <= log_z + 1e-9 <= m.upper < log_z + 0.6


def test_a_block_without_tables_and_expectations_is_named():
    class Parity(gm.RaggedBlock):
        name = "parity"

        def energy(self, x, w):
            return np.bincount(self.owner, x, len(self)) % 2

    crf = gm.CRF(40, 2)
    crf.add(Parity([range(40)]))
    with pytest.raises(gm.MethodRefusal, match="neither a table nor expected_energy"):
        gm.marginals(crf, method="mean-field")


def test_exponentials_and_logarithms_of_arrays():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-700, 5, 999), [0.0, -np.inf, -800.0, -1e-12]])
    y, room = x.copy(), np.empty(len(x), np.int64)
    exp_all(y, room)
    np.testing.assert_allclose(y, np.where(x < -708, 0, np.exp(x)), rtol=2e-15)
    x = np.concatenate([np.exp(rng.uniform(-700, 600, 999)), 1 + 1e-9 * rng.normal(size=99)])
    y, room = x.copy(), np.empty(len(x), np.int64)
    log_all(y, room)
    np.testing.assert_allclose(y, np.log(x), rtol=1e-15, atol=1e-16)
    y = np.array([0.0, 1.0])
    log_all(y, np.empty(2, np.int64))
    assert y.tolist() == [-np.inf, 0.0]
