"""The matching distance: invariances, closed forms, brute force, bad input."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from gmlearn_pointsets import fit_rigid, point_set_distance
from gmlearn_pointsets.rigid import planar_rotation
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation


def random_rotation(dims, rng):
    if dims == 2:
        return planar_rotation(rng.uniform(0, 2 * np.pi))
    return Rotation.random(random_state=rng.integers(2**31)).as_matrix()


def moved(points, rng, scale=1.0):
    dims = points.shape[1]
    return (
        scale * points[rng.permutation(len(points))] @ random_rotation(dims, rng).T
        + rng.normal(size=dims) * 5
    )


# ---------------------------------------------------------------------- invariances


@pytest.mark.parametrize("method", ["global", "softassign", "hard"])
@settings(deadline=None, max_examples=25)
@given(st.integers(0, 100_000), st.integers(3, 9), st.integers(3, 9), st.sampled_from([2, 3]))
def test_invariant_under_motion_and_order_of_either_set(method, seed, n, m, dims):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(n, dims)), rng.normal(size=(m, dims))
    before = point_set_distance(X, Y, method=method)
    after = point_set_distance(moved(X, rng), moved(Y, rng), method=method)
    assert after.distance == pytest.approx(before.distance, abs=1e-6)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 100_000), st.sampled_from([2, 3]), st.booleans())
def test_a_moved_copy_is_at_distance_zero_and_the_motion_is_found(seed, dims, scale):
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(12, dims))
    X = moved(Y, rng, 1.7 if scale else 1.0)
    match = point_set_distance(X, Y, scale=scale, method="hard", n_refine=12)
    assert match.distance == pytest.approx(0.0, abs=1e-6)
    back = match.shift + match.scale * Y[match.partner] @ match.rotation.T
    np.testing.assert_allclose(back, X, atol=1e-6)
    assert match.scale == pytest.approx(1.7 if scale else 1.0)


def test_symmetric_and_self_distance_matrix():
    rng = np.random.default_rng(0)
    sets = [rng.normal(size=(size, 2)) for size in (6, 8, 6, 7)]
    half, full = (
        point_set_distance(sets, method="hard"),
        point_set_distance(sets, sets, method="hard"),
    )
    np.testing.assert_allclose(half.distance, full.distance, atol=1e-9)
    np.testing.assert_allclose(half.distance, half.distance.T)
    np.testing.assert_allclose(np.diag(half.distance), 0.0, atol=1e-12)
    # the mirrored half holds valid matches of its own
    for i, a in np.ndindex(4, 4):
        own = half.partner[i, a][: len(sets[i])]
        matched = own >= 0
        image = half.shift[i, a] + sets[a][own[matched]] @ half.rotation[i, a].T
        assert ((sets[i][matched] - image) ** 2).sum() == pytest.approx(
            half.distance[i, a], abs=1e-9
        )


# ---------------------------------------------------------------------- closed forms


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize(
    "flags",
    [
        (True, True, False),
        (True, False, False),
        (False, True, False),
        (True, True, True),
        (False, False, True),
    ],
)
def test_closed_form_equals_a_numerical_optimiser(dims, flags):
    rng = np.random.default_rng(dims)
    X, Y, match = rng.normal(size=(6, dims)), rng.normal(size=(5, dims)), rng.random((6, 5))
    n_angles = 1 if dims == 2 else 3

    def cost(p):
        R = planar_rotation(p[0]) if dims == 2 else Rotation.from_rotvec(p[:3]).as_matrix()
        R = R if flags[0] else np.eye(dims)
        t = p[n_angles : n_angles + dims] * flags[1]
        s = np.exp(p[-1]) if flags[2] else 1.0
        return (match * ((X[:, None] - t - s * Y[None] @ R.T) ** 2).sum(2)).sum()

    best = min(
        (minimize(cost, rng.normal(size=n_angles + dims + 1)) for _ in range(12)),
        key=lambda r: r.fun,
    )
    R, t, s = fit_rigid(X, Y, match, rotation=flags[0], translation=flags[1], scale=flags[2])
    value = (match * ((X[:, None] - t - s * Y[None] @ R.T) ** 2).sum(2)).sum()
    assert value == pytest.approx(best.fun, rel=1e-5)
    assert np.linalg.det(R) == pytest.approx(1.0)


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("scale", [False, True])
def test_compiled_closed_form_equals_the_numpy_one(dims, scale):
    from gmlearn_pointsets._match_numba import fit_soft

    rng = np.random.default_rng(7)
    X, Y, match = rng.normal(size=(6, dims)), rng.normal(size=(5, dims)), rng.random((6, 5))
    R, t = np.eye(dims), np.zeros(dims)
    work = np.empty(dims), np.empty(dims), np.empty(dims), np.empty((dims, dims))
    s, residual = fit_soft(match, X, 6, Y, 5, np.array([True, True, scale]), R, t, 1.0, *work)
    R2, t2, s2 = fit_rigid(X, Y, match, scale=scale)
    np.testing.assert_allclose(R, R2, atol=1e-10)
    np.testing.assert_allclose(t, t2, atol=1e-10)
    assert s == pytest.approx(s2)
    assert residual == pytest.approx(
        (match * ((X[:, None] - t - s * Y[None] @ R.T) ** 2).sum(2)).sum()
    )


# ---------------------------------------------------------------------- against brute force


def brute_force(X, Y):
    """Every injection of the smaller set into the larger, each with its closed form."""
    n, m = len(X), len(Y)
    best = np.inf
    for order in permutations(range(max(n, m)), min(n, m)):
        match = np.zeros((n, m))
        match[(range(n), order) if n <= m else (order, range(m))] = 1.0
        R, t, s = fit_rigid(X, Y, match)
        best = min(best, (match * ((X[:, None] - t - s * Y[None] @ R.T) ** 2).sum(2)).sum())
    return best


@pytest.mark.parametrize("method", ["softassign", "hard"])
@pytest.mark.parametrize("sizes", [(5, 5), (4, 5), (5, 4)])
def test_never_below_brute_force_and_mostly_equal(method, sizes):
    rng = np.random.default_rng(11)
    ratios = []
    for _ in range(15):
        X, Y = rng.normal(size=(sizes[0], 2)), rng.normal(size=(sizes[1], 2))
        found = point_set_distance(X, Y, method=method, n_refine=24)
        exact = brute_force(X, Y)
        assert found.distance >= exact - 1e-9
        ratios.append(found.distance <= exact + 1e-9)
    assert np.mean(ratios) >= 0.8


def test_noisy_copies_are_matched_right():
    rng = np.random.default_rng(3)
    for dims in (2, 3):
        Y = rng.random((20, dims))
        order = rng.permutation(20)
        X = Y[order] @ random_rotation(dims, rng).T + 0.02 * rng.normal(size=Y.shape)
        for method in ("softassign", "hard"):
            assert (point_set_distance(X, Y, method=method).partner == order).mean() > 0.9


def test_outliers_are_recognised():
    rng = np.random.default_rng(5)
    Y = rng.random((12, 2))
    X = np.vstack([Y[:10] + 0.001 * rng.normal(size=(10, 2)), [[30.0, 30.0], [-20.0, 5.0]]])
    match = point_set_distance(X, Y, outlier_cost=0.01, translation=False, max_rotation=0.5)
    assert match.partner.tolist() == [*range(10), -1, -1]
    assert match.distance == pytest.approx(4 * 0.01, abs=1e-3)


def test_positive_temperature_gives_a_doubly_stochastic_plan():
    rng = np.random.default_rng(6)
    X, Y = rng.random((4, 7, 2)), rng.random((3, 7, 2))
    for temperature in (0.3, 1e-2, 1e-5, 1e-9):
        match = point_set_distance(X, Y, temperature=temperature)
        np.testing.assert_allclose(match.plan.sum(2), 1.0, atol=1e-7)
        np.testing.assert_allclose(match.plan.sum(3), 1.0, atol=1e-7)
        assert match.correspondence is match.plan and np.isfinite(match.distance).all()
    hard = point_set_distance(X, Y)
    assert (hard.distance <= match.distance + 1e-6).mean() > 0.8
    assert (hard.correspondence.sum(3) == 1).all()


def test_batch_equals_single_pairs():
    rng = np.random.default_rng(8)
    X, Y = rng.random((3, 8, 2)), [rng.random((n, 2)) for n in (8, 6)]
    together = point_set_distance(X, Y)
    for i, a in np.ndindex(3, 2):
        alone = point_set_distance(X[i], Y[a])
        assert alone.distance == pytest.approx(together.distance[i, a], abs=1e-9)
        np.testing.assert_allclose(alone.angle, together.angle[i, a], atol=1e-6)
        assert isinstance(alone.distance, float)


def test_coincident_points_and_all_zero_sets():
    X, zeros = np.random.default_rng(1).random((5, 2)), np.zeros((5, 2))
    assert point_set_distance(zeros, zeros).distance == 0.0
    assert point_set_distance(X, zeros).distance == pytest.approx(((X - X.mean(0)) ** 2).sum())


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((np.zeros((4, 2)), np.zeros((4, 3))), {}, "different dimensions, 2 and 3"),
        ((np.zeros((4, 2)), np.full((4, 2), np.nan)), {}, "Y: contains NaN"),
        ((np.zeros((1, 2)), np.zeros((4, 2))), {}, "X: a point set needs at least two points"),
        (
            (np.zeros((4, 4)), np.zeros((4, 4))),
            {},
            "X: expected points in 2 or 3 dimensions, got 4",
        ),
        ((np.zeros((4, 2)), np.zeros((4, 2))), {"dims": 3}, "X: dims=3 was asked for"),
        ((np.zeros((4, 2)), np.zeros((4, 2))), {"dims": 5}, "dims: expected 2, 3 or None, got 5"),
        (
            (np.zeros((4, 2)), np.zeros((4, 2))),
            {"method": "soft"},
            "method: expected one of 'global', 'softassign', 'hard'",
        ),
        (
            (np.zeros((4, 2)), np.zeros((4, 2))),
            {"method": "hard", "temperature": 1.0},
            "temperature: method 'hard' has none",
        ),
        (
            (np.zeros((4, 2)), np.zeros((4, 2))),
            {"outlier_cost": 0.0},
            "outlier_cost: expected a number",
        ),
        ((np.zeros((4, 2)), np.zeros((4, 2))), {"n_starts": 0}, "n_starts: expected a number"),
        (
            ([np.zeros((4, 2)), np.zeros((4, 3))], np.zeros((4, 2))),
            {},
            "X: all sets must have one dimension",
        ),
        ((np.zeros(4), np.zeros((4, 2))), {}, "X: expected"),
    ],
)
def test_bad_input(args, options, message):
    with pytest.raises(ValueError, match=message):
        point_set_distance(*args, **options)


def test_angle_is_for_the_plane():
    match = point_set_distance(np.eye(3), np.eye(3))
    with pytest.raises(ValueError, match="angle: defined in the plane only"):
        _ = match.angle


@pytest.mark.parametrize("method", ["softassign", "hard"])
def test_blocks_of_images_change_nothing(monkeypatch, method):
    from gmlearn_pointsets import distance

    rng = np.random.default_rng(9)
    X = rng.random((7, 6, 2))
    whole = point_set_distance(X, method=method)
    monkeypatch.setattr(distance, "STATE_ENTRIES", 300)
    cut = point_set_distance(X, method=method)
    np.testing.assert_array_equal(whole.distance, cut.distance)
    np.testing.assert_array_equal(whole.partner, cut.partner)
