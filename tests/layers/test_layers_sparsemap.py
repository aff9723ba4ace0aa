"""SparseMAP: starts from earlier calls, models beyond a few variables, joint labels of slaves."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import gmlearn as gm


def grid(side, seed=0):
    """(model without unary costs, costs before and after a small change, labels)."""
    rng = np.random.default_rng(seed)
    crf = gm.CRF(side * side, 3)
    crf.add(gm.Potts(gm.grid_edges(side, side), 0.4))
    crf.add("pn_potts", cliques=gm.grid_cliques(side, side, 3, 3), beta=-0.3)
    unary = rng.normal(size=(side * side, 3))
    return crf, unary, unary + 0.01 * rng.normal(size=unary.shape), rng.integers(0, 3, side * side)


def test_an_earlier_call_is_the_start():
    crf, before, after, truth = grid(6)
    first, second = (crf.copy().add_unary(u) for u in (before, after))
    state = gm.structured_loss(first, truth, kind="sparsemap").state
    options = {"kind": "sparsemap", "max_iter": 1}  # ten passes
    cold = gm.structured_loss(second, truth, **options)
    warm = [gm.structured_loss(second, truth, **options, state=state) for _ in range(2)]
    assert warm[0].gap < 0.01 * cold.gap
    assert warm[0].value == warm[1].value  # a state is not changed
    exact = gm.structured_loss(second, truth, kind="sparsemap")
    assert warm[0].value == pytest.approx(exact.value, abs=1e-3)
    bare = pickle.loads(pickle.dumps(state))
    assert bare.mixtures == []
    assert gm.structured_loss(second, truth, **options, state=bare).gap < cold.gap


def test_a_grid_is_solved_and_certified():
    crf, unary, _, truth = grid(8)
    answer = gm.structured_loss(crf.add_unary(unary), truth, kind="sparsemap", tol=1e-7)
    assert 0.0 <= answer.gap < 1e-5
    chains = gm.structured_loss(crf, truth, kind="sparsemap", tol=1e-7, decomposition="chains")
    assert answer.value == pytest.approx(chains.value, abs=1e-5)
    np.testing.assert_allclose(answer.unary, chains.unary, atol=1e-4)


def test_many_models_without_weights():
    rng = np.random.default_rng(0)
    edges = np.stack([np.arange(7), np.arange(1, 8)], axis=1)
    crfs = []
    for _ in range(100):
        crf = gm.CRF(8, 26).add_unary(rng.normal(size=(8, 26)))
        crf.add(gm.Table(edges, rng.normal(size=(7, 26, 26))))
        crfs.append(crf)
    truths = [np.zeros(8, int)] * len(crfs)
    together = gm.structured_loss(crfs, truths, kind="sparsemap", tol=1e-7)
    assert (together.gap >= -1e-9).all()
    assert together.gap.sum() < 1e-3
    alone = gm.structured_loss(crfs[5], truths[5], kind="sparsemap", tol=1e-9)
    assert together.value[5] == pytest.approx(alone.value, abs=1e-3)
    with pytest.raises(MemoryError, match="too large for gradients of kind='sparsemap'"):
        together.blocks  # noqa: B018
    assert pickle.loads(pickle.dumps(together)).gap.sum() < 1e-3


def test_slaves_that_share_joint_labels():
    crf, unary, _, _ = grid(4)
    step, change = 1e-5, np.random.default_rng(1).normal(size=unary.shape)

    def solution(moved):
        own = crf.copy().add_unary(unary + moved)
        return gm.relaxed(
            own, method="sparsemap", decomposition=gm.Strips(3, 2), tol=1e-10, max_iter=3000
        )

    sides = [solution(sign * step * change) for sign in (1, -1)]
    found = solution(0.0 * change)
    assert found.bound >= gm.relaxed(crf.copy().add_unary(unary), method="sparsemap").bound - 1e-3
    np.testing.assert_allclose(
        found.pull_back(change), (sides[0].node - sides[1].node) / (2 * step), atol=1e-4
    )
