"""The global search: a covering of rotations, outliers and missing points, mirror images."""

import numpy as np
import pytest
from gmlearn_pointsets import PointSetClustering, point_set_distance
from gmlearn_pointsets.distance import hard_match
from gmlearn_pointsets.rigid import covering, planar_rotation
from gmlearn_pointsets.sets import check_point_sets
from gmlearn_pointsets.state import Pairs, checked_motions
from scipy.spatial.transform import Rotation


def angles(A, B):
    """Angles (a, b) in degrees between rotations (a, 3, 3) and (b, 3, 3)."""
    trace = np.einsum("aij,bij->ab", A, B)
    return np.rad2deg(np.arccos(np.clip((trace - 1) / 2, -1, 1)))


@pytest.mark.parametrize("n_cells", [2, 3, 6])
def test_the_covering_leaves_no_rotation_far_away(n_cells):
    turns = covering(n_cells)
    assert turns.shape == (4 * n_cells**3, 3, 3)
    np.testing.assert_allclose(np.linalg.det(turns), 1.0)
    anything = Rotation.random(500, random_state=0).as_matrix()
    assert angles(anything, turns).min(axis=1).max() <= 156 / n_cells


def test_the_covering_is_closed_under_half_turns_about_the_axes():
    turns = covering(3)
    for axis in range(3):
        half = -np.eye(3)
        half[axis, axis] = 1.0
        for other in (half @ turns, turns @ half):
            assert angles(other, turns).min(axis=1).max() < 1e-4


def truth_distance(X, Y, R, t, price):
    x, y = check_point_sets("X", X), check_point_sets("Y", Y)
    one = np.zeros(1, np.int64)
    motions = checked_motions(True, True, False, price, None)
    pairs = Pairs(x, y, one, one, R[None, None], np.ones((1, 1)), motions)
    return hard_match(pairs, t[None, None], np.ones((1, 1)))[0][0]


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize(
    ("kind", "price"), [("outliers", 0.1), ("outliers", None), ("missing", None), ("missing", 0.05)]
)
def test_no_worse_than_the_true_motion(dims, kind, price):
    """20 points, 30 % of them outliers or missing, 20 trials, at most one of them trapped."""
    rng = np.random.default_rng(dims)
    right = 0
    for _ in range(20):
        Y = rng.normal(size=(20, dims))
        R = planar_rotation(rng.uniform(0, 6.3))
        if dims == 3:
            R = Rotation.random(random_state=int(rng.integers(1000))).as_matrix()
        t = rng.normal(size=dims)
        X = t + Y @ R.T + 0.02 * rng.normal(size=Y.shape)
        X = X[6:] if kind == "missing" else np.concatenate([t + rng.normal(size=(6, dims)), X[6:]])
        found = point_set_distance(X, Y, outlier_cost=price).distance
        right += found <= truth_distance(X, Y, R, t, price) * (1 + 1e-9)
    assert right >= 19


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("method", ["global", "softassign", "hard"])
def test_mirror_images(dims, method):
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(8, dims))
    turn = Rotation.random(random_state=1).as_matrix() if dims == 3 else planar_rotation(1.0)
    mirror = turn @ np.diag([-1.0] + [1.0] * (dims - 1))
    X = 2.0 + Y @ mirror.T
    found = point_set_distance(X, Y, reflection=True, method=method, n_starts=60, n_refine=60)
    assert found.distance == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(found.rotation, mirror, atol=1e-6)
    np.testing.assert_allclose(found.shift + Y[found.partner] @ found.rotation.T, X, atol=1e-6)
    assert point_set_distance(X, Y, method="global").distance > 0.1
    with pytest.raises(ValueError, match="reflection: needs rotation=True"):
        point_set_distance(X, Y, rotation=False, reflection=True)


def test_mirrored_and_scaled_sets_share_a_cluster():
    rng = np.random.default_rng(3)
    shapes = rng.normal(size=(2, 8, 2))
    labels = np.arange(8) % 2
    images = shapes[labels] * np.array([1.0, -1.0, 1.0, -1.0, 1.0, 1.0, -1.0, -1.0])[:, None, None]
    images[2:6, :, 0] *= -1
    images = images + 0.02 * rng.normal(size=images.shape)
    model = PointSetClustering(2, reflection=True, n_init=2, random_state=0).fit(images)
    assert len(set(zip(labels, model.labels_))) == 2
    plain = PointSetClustering(2, n_init=2, random_state=0).fit(images)
    assert model.energy_ < plain.energy_


def test_the_global_search_turns_with_the_sets():
    rng = np.random.default_rng(5)
    X, Y = rng.normal(size=(12, 3)), rng.normal(size=(9, 3))
    turn = Rotation.random(random_state=2).as_matrix()
    for price in (None, 0.3):
        found = [point_set_distance(Z, Y, outlier_cost=price).distance for Z in (X, X @ turn.T)]
        assert found[0] == pytest.approx(found[1])
