"""The closed form against the theory: the optimum of the worst-case risk on random small
problems.
"""

import numpy as np
import pytest
from gmlearn_mlca import MLCA, SpectralMetric, delta_loss
from gmlearn_mlca.assign import kmeans_labels
from gmlearn_mlca.baselines import psd_factor
from gmlearn_mlca.spectral import ReducedDataset
from gmlearn_mlca.synthetic import two_layer_categories
from hypothesis import given, settings
from hypothesis import strategies as st
from mlca_cases import structured_hinge


def partition_matrix(y, k):
    Y = np.eye(k)[y]
    return Y @ np.linalg.pinv(Y)


def worst_case_risk(X, C, M, k):
    """max ||Chat - C||^2 over all maximisers Chat of <Chat, X M X'>: ties at the k-th eigenvalue
    go to the adversary.
    """
    values, vectors = np.linalg.eigh(X @ M @ X.T)
    values, vectors = values[::-1], vectors[:, ::-1]
    tie = np.abs(values - values[k - 1]) <= 1e-9 * max(1e-30, np.abs(values).max())
    above = (values > values[k - 1]) & ~tie
    fixed, free = vectors[:, above], vectors[:, tie]
    n_free = k - fixed.shape[1]
    overlap = np.trace(fixed.T @ C @ fixed) + np.linalg.eigvalsh(free.T @ C @ free)[:n_free].sum()
    return k + np.sum(C**2) - 2 * overlap


def analytic_optimum(X, C, k):
    """The proof's bound (29) and (34), from an orthonormal basis of the column space of X and of
    its complement.
    """
    left, singular, _ = np.linalg.svd(X)
    s = int(np.sum(singular > 1e-9 * singular[0]))
    U, V = left[:, :s], left[:, s:]
    inside = np.linalg.eigvalsh(U.T @ C @ U)[::-1]
    overlap = inside[:k].sum()
    if np.sum(inside > 1e-9) <= k and k > s:
        overlap += np.linalg.eigvalsh(V.T @ C @ V)[: k - s].sum()
    return k + np.sum(C**2) - 2 * overlap


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(5, 14),
    d=st.integers(1, 8),
    k=st.integers(2, 4),
    centred=st.booleans(),
)
def test_attains_the_analytic_optimum_and_nothing_beats_it(seed, n, d, k, centred):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if d > 2:
        X[:, -1] = X[:, 0] - X[:, 1]  # rank deficient
    if centred:
        X -= X.mean(axis=0)
    y = rng.permutation(np.r_[np.arange(k), rng.integers(0, k, n - k)])
    C = partition_matrix(y, k)
    M = MLCA(fit_intercept=False).fit(X, y).get_mahalanobis_matrix()
    optimum = worst_case_risk(X, C, M, k)
    assert optimum == pytest.approx(analytic_optimum(X, C, k), abs=1e-7)
    for _ in range(40):
        L = rng.normal(size=(d, rng.integers(1, d + 1)))
        assert worst_case_risk(X, C, L @ L.T, k) >= optimum - 1e-7


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), rank=st.integers(1, 6), k=st.integers(1, 4))
def test_general_target_of_any_rank(seed, rank, k):
    """C = F F', any positive semidefinite matrix: theorem 3.1 keeps the best rank-k part."""
    rng = np.random.default_rng(seed)
    X, F = rng.normal(size=(12, 5)), rng.normal(size=(12, rank + 1))
    C = F @ F.T
    model = MLCA(n_components=k, projector=False, fit_intercept=False).fit(X, F)
    M = model.get_mahalanobis_matrix()
    optimum = worst_case_risk(X, C, M, k)
    assert optimum == pytest.approx(analytic_optimum(X, C, k), rel=1e-7)
    pseudo, P = np.linalg.pinv(X), X @ np.linalg.pinv(X)
    values, vectors = np.linalg.eigh(P @ C @ P)
    best = (vectors[:, -model.n_components_ :] * values[-model.n_components_ :]) @ vectors[
        :, -model.n_components_ :
    ].T
    np.testing.assert_allclose(M, pseudo @ best @ pseudo.T, atol=1e-8)
    np.testing.assert_allclose(model.eigenvalues_, values[::-1][: model.n_components_], atol=1e-8)


def test_metric_is_the_pseudo_inverse_formula_even_if_columns_are_dependent():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 5)) * [1, 10, 100, 1e-3, 1]
    X = np.c_[X, X[:, 0] + X[:, 1], np.zeros(40)]
    y = rng.integers(0, 3, 40)
    pseudo = np.linalg.pinv(X, rcond=1e-10)
    M = MLCA(fit_intercept=False).fit(X, y).get_mahalanobis_matrix()
    expected = pseudo @ partition_matrix(y, 3) @ pseudo.T
    np.testing.assert_allclose(M, expected, rtol=1e-5, atol=1e-7 * np.abs(expected).max())


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), scale=st.floats(0.01, 10.0))
def test_convex_surrogate_is_above_the_risk(seed, scale):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(11, 4)), rng.permutation(np.arange(11) % 3)
    J = np.linalg.qr(np.eye(3)[y])[0]
    L = scale * rng.normal(size=(4, rng.integers(1, 5)))
    hinge, _ = structured_hinge(ReducedDataset.from_data(X, J), L @ L.T)
    assert hinge >= worst_case_risk(X, J @ J.T, L @ L.T, 3) - 1e-8


def test_closed_form_against_the_trained_surrogate():
    """Both answer one question: the closed form has the lower risk, the surrogate's objective is
    above both, partitions agree.
    """
    X, y = two_layer_categories((30, 40, 50), rng=0)
    X -= X.mean(axis=0)
    C = partition_matrix(y, 3)
    closed = MLCA(fit_intercept=False).fit(X, y)
    scale = np.linalg.norm(X) / np.sqrt(X.shape[1])  # what SpectralMetric divides by
    dataset = ReducedDataset.from_data(X / scale, np.linalg.qr(np.eye(3)[y])[0])
    model = SpectralMetric(1e-4, n_rounds=400).fit(X, y)
    M, history = model.components_.T @ model.components_, model.history_
    risk = worst_case_risk(X, C, closed.get_mahalanobis_matrix(), 3)
    trained = worst_case_risk(X, C, M, 3)
    assert risk <= trained + 1e-9 and trained <= structured_hinge(dataset, M)[0] + 1e-9
    assert history.min() < 0.7 * history[0]
    labels = kmeans_labels(X @ psd_factor(M), 3, 10, 0)
    assert delta_loss(labels, closed.predict(X)) < 1e-9


def test_univariate_is_the_sign_of_the_leading_eigenvector():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    X = rng.normal(size=(60, 4)) + np.outer(2.0 * y - 1.0, [1.0, 0.5, 0, 0])
    model = MLCA("univariate", fit_intercept=False).fit(X, y)
    u = (2.0 * y - 1.0) / np.sqrt(60)
    np.testing.assert_allclose(model.components_[0], np.linalg.pinv(X) @ u, atol=1e-12)
    leading = np.linalg.eigh(X @ model.get_mahalanobis_matrix() @ X.T)[1][:, -1]
    agreement = np.mean((leading > 0) == model.predict(X))
    assert agreement in (0.0, 1.0)  # an eigenvector has no sign
    np.testing.assert_array_equal(model.predict(X), (X @ model.components_[0] > 0).astype(int))
    C = np.outer(u, u)
    optimum = worst_case_risk(X, C, model.get_mahalanobis_matrix(), 1)
    assert optimum == pytest.approx(2 - 2 * model.eigenvalues_.sum())
    for _ in range(100):
        L = rng.normal(size=(4, 2))
        assert worst_case_risk(X, C, L @ L.T, 1) >= optimum - 1e-9


def test_degenerate_target_gives_the_identity():
    # both class means are zero: P_X C P_X = 0
    X = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    model = MLCA().fit(X, [0, 0, 1, 1])
    np.testing.assert_allclose(model.get_mahalanobis_matrix(), np.eye(2) / 2)
