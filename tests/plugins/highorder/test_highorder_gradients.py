"""Gradients of structured losses in the functions of counts and sums."""

from __future__ import annotations

import numpy as np
import pytest

import gmlearn as gm

CLIQUES = [[0, 1, 2], [2, 3]]
TRUTH = [1, 0, 2, 1]
STEP = 1e-5


def given(form, rng):
    if form == "list":
        return [rng.normal(size=4), rng.normal(size=5)]
    return rng.normal(size=(5,) if form == "shared" else (2, 5))


def moved(costs, change, step):
    if isinstance(costs, list):
        return [a + step * d for a, d in zip(costs, change)]
    return costs + step * change


@pytest.mark.parametrize("kind", ["hinge", "likelihood", "sparsemap"])
@pytest.mark.parametrize("form", ["shared", "each", "list"])
@pytest.mark.parametrize("name", ["cardinality", "value_sum"])
def test_gradients_in_the_function_agree_with_differences(name, form, kind):
    rng = np.random.default_rng(0)
    unary = rng.normal(size=(2, 4, 3))
    costs, change = given(form, rng), given(form, rng)

    def answer(numbers):
        crfs = [gm.CRF(4, 3).add_unary(u) for u in unary]
        for crf in crfs:
            crf.add(name, **arguments(name), costs=numbers)
        return gm.structured_loss(
            crfs, [TRUTH, TRUTH], kind=kind, decomposition="per-clique", max_iter=500, tol=1e-13
        )

    def arguments(name):
        own = {"cliques": CLIQUES}
        return own if name == "cardinality" else {**own, "values": [0, 1, 1]}

    sides = [answer(moved(costs, change, sign * STEP)).value.sum() for sign in (1, -1)]
    found = [own[0] for own in answer(costs).blocks]
    assert all(np.shape(a) == np.shape(b) for own in found for a, b in zip(own, costs))
    products = [np.sum(np.asarray(a) * d) for own in found for a, d in zip(own, change)]
    assert sum(products) == pytest.approx((sides[0] - sides[1]) / (2 * STEP), abs=1e-5)
    assert np.abs(np.concatenate([np.ravel(a) for a in found[0]])).max() > 0


def test_constraints_have_no_numbers():
    crf = gm.CRF(3, 2).add_unary(np.zeros((3, 2)))
    crf.add("exactly_one", cliques=[[0, 1, 2]])
    assert gm.structured_loss(crf, [0, 1, 0]).blocks == [None]
