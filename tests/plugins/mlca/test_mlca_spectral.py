"""The spectral slave in reduced form against dense eigendecompositions."""

import numpy as np
import pytest
import scipy.sparse as sp
from gmlearn_mlca.spectral import ReducedDataset, project_psd, spectral_minimum
from hypothesis import given, settings
from hypothesis import strategies as st
from mlca_cases import structured_hinge, surrogate_objective


def problem(seed, n, d, k):
    rng = np.random.default_rng(seed)
    y = np.r_[np.arange(k), rng.integers(0, k, n - k)]
    Y = np.eye(k)[y]
    L = rng.normal(size=(d, rng.integers(1, d + 1))) * rng.choice([0.05, 0.5, 3.0])
    return rng.normal(size=(n, d)), Y / np.sqrt(Y.sum(axis=0)), L @ L.T, rng


def dense_minimum(X, J, M, k, augmented):
    K = X @ M @ X.T
    C = J @ J.T
    vectors = np.linalg.eigh(K - 2.0 * augmented * C)[1][:, -k:]
    Chat = vectors @ vectors.T
    return -np.sum(Chat * K) - augmented * np.sum((Chat - C) ** 2)


shapes = st.tuples(st.integers(5, 20), st.integers(1, 12), st.integers(1, 4))


@settings(deadline=None, max_examples=80)
@given(seed=st.integers(0, 10**6), shape=shapes, augmented=st.booleans())
def test_value_equals_the_dense_eigenproblem(seed, shape, augmented):
    X, J, M, _ = problem(seed, *shape)
    found = spectral_minimum(ReducedDataset.from_data(X, J), M, augmented)
    expected = dense_minimum(X, J, M, shape[2], augmented)
    assert found.value == pytest.approx(expected, rel=1e-6, abs=1e-6)
    if not augmented:
        assert found.value == pytest.approx(-np.sum(found.features * M), rel=1e-6, abs=1e-6)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10**6), shape=shapes)
def test_hinge_is_convex_with_its_subgradient(seed, shape):
    X, J, M, rng = problem(seed, *shape)
    dataset = ReducedDataset.from_data(X, J)
    value, slope = structured_hinge(dataset, M)
    assert value >= -1e-6  # Chat = C is among the candidates
    L = rng.normal(size=M.shape)
    other = L @ L.T
    assert structured_hinge(dataset, other)[0] >= value + np.sum(slope * (other - M)) - 1e-5 * (
        1 + abs(value)
    )


def test_gradient_by_finite_differences_over_several_datasets():
    X, J, _, rng = problem(1, 18, 4, 3)
    # of full rank: no tie at the k-th eigenvalue, so the hinge is smooth there
    M = np.diag([0.5, 1.0, 1.5, 2.0])
    X2, J2, _, _ = problem(2, 15, 4, 3)
    datasets = [ReducedDataset.from_data(X, J), ReducedDataset.from_data(sp.csr_array(X2), J2)]
    direction = rng.normal(size=(4, 4))
    direction += direction.T
    value, slope = surrogate_objective(datasets, M, 0.1)
    step = 1e-6
    moved = surrogate_objective(datasets, M + step * direction, 0.1)[0]
    assert (moved - value) / step == pytest.approx(np.sum(slope * direction), rel=1e-3)


def test_never_larger_than_features_and_clusters():
    X, J, _, _ = problem(0, 5000, 6, 3)
    dataset = ReducedDataset.from_data(X, J)
    assert dataset.data.shape == (9, 6)
    assert np.sum(dataset.partition**2) == pytest.approx(3.0)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6))
def test_projection_on_the_cone(seed):
    rng = np.random.default_rng(seed)
    M = rng.normal(size=(4, 4))
    M += M.T
    P = project_psd(M)
    assert np.linalg.eigvalsh(P).min() >= -1e-9
    # optimality of a projection on a cone: the residual is orthogonal to the point and polar to the
    # cone
    assert abs(np.sum((M - P) * P)) < 1e-8
    assert np.linalg.eigvalsh(M - P).max() <= 1e-9
