"""The rival metrics against their definitions over all pairs."""

import numpy as np
import pytest
from gmlearn_mlca import ITML, KISSME, XQDA, delta_loss
from gmlearn_mlca.baselines import pair_scatters, psd_factor
from gmlearn_mlca.synthetic import two_layer_categories


def test_scatters_equal_the_sums_over_pairs():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(25, 3)) + 7.0, rng.integers(0, 3, 25)
    differences = X[:, None] - X[None]
    same = (y[:, None] == y) & ~np.eye(25, dtype=bool)
    different = y[:, None] != y
    similar, dissimilar = pair_scatters(X, y, ridge=0.0)
    np.testing.assert_allclose(
        similar, np.einsum("ija,ijb->ab", differences, differences * same[..., None]) / same.sum()
    )
    np.testing.assert_allclose(
        dissimilar,
        np.einsum("ija,ijb->ab", differences, differences * different[..., None]) / different.sum(),
    )


def test_psd_factor_drops_the_negative_part():
    M = np.diag([2.0, 0.0, -3.0])
    L = psd_factor(M)
    np.testing.assert_allclose(L @ L.T, np.diag([2.0, 0.0, 0.0]), atol=1e-12)


@pytest.mark.parametrize(
    "rival",
    [KISSME(random_state=0), XQDA(random_state=0), XQDA(2, random_state=0), ITML(random_state=0)],
)
def test_rivals_learn_the_synthetic_problem(rival):
    X, y = two_layer_categories((200, 200, 200), rng=0)
    X_test, y_test = two_layer_categories((200, 200, 200), rng=1)
    assert delta_loss(rival.fit(X, y).predict(X_test), y_test) < 0.2


def test_itml_brings_similar_pairs_nearer():
    X, y = two_layer_categories((200, 200, 200), noise=0.0, rng=0)
    Z = ITML(random_state=0).fit(X, y).transform(X)

    def contrast(points):
        means = np.array([points[y == c].mean(axis=0) for c in range(3)])
        return np.linalg.norm(means[0] - means[1]) / points[y == 0].std(axis=0).max()

    assert contrast(Z) > 5 * contrast(X)


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="y: expected at least two classes"):
        KISSME().fit(np.eye(3), [1, 1, 1])
