"""Grids, contrast bins, and the convex sets of V."""

import cvxpy
import numpy as np
import pytest
from gmlearn_vision import DifferenceShape, contrast_bins, edge_gradients, grid_crf
from gmlearn_vision.grids import edge_lengths
from hypothesis import given, settings
from hypothesis import strategies as st

import gmlearn as gm


def test_grid_crf_energy_is_that_of_the_pixels_and_edges(rng_seed=0):
    rng = np.random.default_rng(rng_seed)
    costs = rng.normal(size=(3, 4, 3))
    crf, edges = grid_crf(costs, 8)
    crf.add(gm.Potts(edges, contrast=0.7))
    x = rng.integers(3, size=(3, 4))
    across = (x[:, 1:] != x[:, :-1]).sum() + (x[1:] != x[:-1]).sum()
    diagonal = (x[1:, 1:] != x[:-1, :-1]).sum() + (x[1:, :-1] != x[:-1, 1:]).sum()
    expected = np.take_along_axis(costs, x[..., None], axis=2).sum() + 0.7 * (across + diagonal)
    assert crf.energy(x.ravel()) == pytest.approx(expected)


def test_rows_columns_decomposition_takes_the_grid():
    crf, edges = grid_crf(np.random.default_rng(0).normal(size=(4, 5, 3)))
    crf.add(gm.Potts(edges, contrast=0.2))
    assert gm.decompose(crf, "rows-columns").n_slaves == 4 + 5


def test_edge_lengths():
    edges = gm.grid_edges(3, 4, 8)
    y, x = np.divmod(edges, 4)
    assert np.allclose(edge_lengths(edges, 4), np.hypot(np.diff(y)[:, 0], np.diff(x)[:, 0]))


def test_edge_gradients_grey_and_colour():
    image = np.arange(6.0).reshape(2, 3)
    edges = gm.grid_edges(2, 3)
    assert edge_gradients(image, edges).tolist() == [1, 1, 1, 1, 3, 3, 3]
    colour = np.stack([image, 3 * image], axis=2)
    assert np.allclose(edge_gradients(colour, edges), 2 * edge_gradients(image, edges))


def test_contrast_bins_are_a_step_function():
    values = np.array([0.0, 2.0, 2.5, 10.0])
    bins = contrast_bins(values, [2.0, 5.0])
    assert (bins.sum(axis=1) == 1).all()
    assert (bins @ [7.0, 5.0, 1.0]).tolist() == [7.0, 5.0, 5.0, 1.0]
    assert contrast_bins(values, []).tolist() == [[1.0]] * 4


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: contrast_bins([1.0], [2.0, 2.0]), "thresholds: expected strictly increasing"),
        (
            lambda: edge_gradients(np.zeros((2, 2)), [[0, 4]]),
            "edges: expected indices in 0..3, got 4",
        ),
        (lambda: grid_crf(np.zeros((2, 2))), "costs: expected 3 dimension"),
        (lambda: DifferenceShape("convex"), "shape: expected one of"),
        (lambda: DifferenceShape("monotone", 0), "truncation: expected a number in"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def nearest(v, shape, truncation):
    """The projection as a quadratic program."""
    x = cvxpy.Variable(len(v))
    constraints = [x[0] == 0]
    if shape != "free":
        constraints.append(cvxpy.diff(x) >= 0)
    if shape == "concave" and len(v) > 2:
        constraints.append(cvxpy.diff(x, k=2) <= 0)
    if truncation is not None and truncation < len(v) - 1:
        constraints.append(x[truncation + 1 :] == x[truncation])
    cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(x - v)), constraints).solve(
        solver=cvxpy.CLARABEL
    )
    return x.value


@settings(deadline=None, max_examples=25)
@given(
    st.integers(2, 8),
    st.sampled_from(["free", "monotone", "concave"]),
    st.sampled_from([None, 1, 2, 5]),
    st.integers(0, 1000),
)
def test_shapes_project_to_the_nearest_point(n, shape, truncation, seed):
    v = np.random.default_rng(seed).normal(size=n) + 0.5
    assert np.allclose(
        DifferenceShape(shape, truncation).project(v), nearest(v, shape, truncation), atol=1e-4
    )
