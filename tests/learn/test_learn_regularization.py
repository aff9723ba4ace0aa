"""Proximal maps and projections against numerical optimisation."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learn_cases import chain_samples

import gmlearn as gm
from gmlearn.learn.regularization import Regularization

seeds = st.integers(0, 10**6)
FEW = settings(deadline=None, max_examples=15)


def solved(cost, u, constraints=()):
    cp.Problem(cp.Minimize(cost), list(constraints)).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10
    )
    return u.value


GROUPS = np.array([0, 1, 0, 2, 1, 2])
REGULARIZERS = {
    "L2": (gm.L2(0.7), lambda u: 0.35 * cp.sum_squares(u)),
    "L1": (gm.L1(0.4), lambda u: 0.4 * cp.norm1(u)),
    "elastic": (gm.ElasticNet(0.7, 0.4), lambda u: 0.35 * cp.sum_squares(u) + 0.4 * cp.norm1(u)),
    "group": (
        gm.GroupL2(0.4, GROUPS),
        lambda u: 0.4 * sum(cp.norm(u[[i for i in range(6) if GROUPS[i] == g]]) for g in range(3)),
    ),
    "none": (gm.NoRegularizer(), lambda u: 0.0),
}


@pytest.mark.parametrize("name", sorted(REGULARIZERS))
@FEW
@given(seeds)
def test_proximal_map(name, seed):
    rng = np.random.default_rng(seed)
    regularizer, term = REGULARIZERS[name]
    w = rng.normal(size=6)
    # groups: one step, the closed form needs it
    step = np.full(6, 0.8) if name == "group" else rng.random(6) + 0.1
    u = cp.Variable(6)
    expected = solved(term(u) + cp.sum(cp.multiply(0.5 / step, cp.square(u - w))), u)
    np.testing.assert_allclose(regularizer.prox(w, step), expected, atol=1e-4)
    u.value = w
    assert regularizer.value(w) == pytest.approx(float(getattr(term(u), "value", 0.0)), abs=1e-12)


def test_groups_are_rows_by_default():
    w = np.array([[3.0, 4.0], [0.1, 0.1]])
    assert gm.GroupL2(2.0).value(w) == pytest.approx(2 * (5 + np.sqrt(0.02)))
    moved = gm.GroupL2(1.0).prox(w, np.ones_like(w))
    np.testing.assert_allclose(moved, [[3 * 0.8, 4 * 0.8], [0, 0]])
    with pytest.raises(
        ValueError, match=r"groups: expected a number for each weight of shape \(2, 2\), got 6"
    ):
        gm.GroupL2(1.0, GROUPS).value(w)


@FEW
@given(seeds, st.sampled_from([0.5, 1.0, 3.0]))
def test_projection_onto_a_simplex(seed, total):
    w = np.random.default_rng(seed).normal(size=(2, 3))
    u = cp.Variable(6)
    expected = solved(cp.sum_squares(u - w.ravel()), u, [u >= 0, cp.sum(u) == total])
    found = gm.Simplex(total).project(w)
    assert found.sum() == pytest.approx(total) and found.min() >= 0
    np.testing.assert_allclose(found.ravel(), expected, atol=1e-5)


@FEW
@given(seeds)
def test_boxes_clip_and_frozen_weights_stay(seed):
    w = np.random.default_rng(seed).normal(size=5)
    np.testing.assert_array_equal(gm.NonNegative().project(w), np.maximum(w, 0))
    np.testing.assert_array_equal(
        gm.Box(-0.1, [0.2, 0.3, 0.4, 0.5, 0.6]).project(w),
        np.clip(w, -0.1, [0.2, 0.3, 0.4, 0.5, 0.6]),
    )
    np.testing.assert_array_equal(gm.Fixed(2.0).project(w), np.full(5, 2.0))


def test_segments_have_priors_of_their_own():
    regularization = Regularization(
        gm.WeightLayout({"a": (2,), "b": (3,)}), {"a": gm.L2(2.0)}, {"b": gm.NonNegative()}
    )
    w = np.array([1.0, -1.0, 2.0, -2.0, 0.5])
    assert regularization.value(w) == pytest.approx(2.0)
    np.testing.assert_allclose(regularization.prox(w, 0.5), [0.5, -0.5, 2.0, 0.0, 0.5])
    np.testing.assert_array_equal(regularization.curvature, [2, 2, 0, 0, 0])
    assert not regularization.plain


def test_coupled_weights_move_at_one_rate():
    """A projection is the proximal map for equal steps only, so optimisers even them out where a
    set couples weights.
    """
    regularization = Regularization(
        gm.WeightLayout({"a": (3,), "b": (2,)}), None, {"a": gm.Simplex(1.0)}
    )
    np.testing.assert_array_equal(
        regularization.even(np.array([3.0, 1.0, 2.0, 5.0, 4.0])), [1.0, 1.0, 1.0, 5.0, 4.0]
    )


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: gm.L2(-1.0), "mu"),
        (lambda: gm.L1(np.nan), "tau"),
        (lambda: gm.Simplex(0.0), "total"),
        (lambda: gm.Box(1.0, 0.0), "low, high: expected low <= high"),
        (lambda: gm.Fixed([np.nan]), "value"),
    ],
)
def test_bad_parameters_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    "regularizer, constraints, error, message",
    [
        ({"zz": gm.L2()}, None, ValueError, "regularizer: no weight segment 'zz'; the model has"),
        ("L2", None, TypeError, "regularizer: expected a Regularizer"),
        ({"a": 3}, None, TypeError, r"regularizer\['a'\]: expected a Regularizer, got 3"),
        (None, {"a": gm.L2()}, TypeError, r"constraints\['a'\]: expected a ConvexSet"),
    ],
)
def test_bad_priors_are_refused(regularizer, constraints, error, message):
    with pytest.raises(error, match=message):
        Regularization(gm.WeightLayout({"a": (2,)}), regularizer, constraints)


def test_a_projection_that_returns_nonsense_is_refused():
    with pytest.raises(ValueError, match=r"the projection returned shape \(1,\)"):
        gm.Projection(lambda w: w[:1]).project(np.zeros(3))


@pytest.mark.parametrize(
    "options, message",
    [
        (
            dict(constraints={"pair": gm.Box(np.zeros(4), 1)}),
            r"constraints\['pair'\].low: expected a number or shape \(6,\), got shape \(4,\)",
        ),
        (
            dict(constraints={"pair": gm.Box(0, np.ones((2, 6)))}),
            r"constraints\['pair'\].high: .* got shape \(2, 6\)",
        ),
        (
            dict(constraints={"u": gm.Fixed(np.zeros(4))}),
            r"constraints\['u'\].value: expected a number or shape \(3, 3\), got shape \(4,\)",
        ),
        (
            dict(regularizer={"pair": gm.GroupL2(0.1, groups=[0, 1])}),
            r"regularizer\['pair'\].groups: .* shape \(6,\), got 2",
        ),
    ],
)
def test_what_does_not_fit_a_segment_is_refused_by_its_name(options, message):
    with pytest.raises(ValueError, match=message):
        gm.train(chain_samples(), max_iter=1, **options)


def test_group_numbers_are_not_negative():
    with pytest.raises(ValueError, match="groups: expected numbers >= 0, got -1"):
        gm.GroupL2(0.1, groups=[0, -1])
