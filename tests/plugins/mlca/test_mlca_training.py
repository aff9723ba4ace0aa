"""Training the metric of a k-means energy: in closed form, and by projected subgradient with the
spectral slave.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from gmlearn_mlca import MLCA, SpectralMetric, delta_loss
from gmlearn_mlca.assign import kmeans_labels
from gmlearn_mlca.baselines import psd_factor
from gmlearn_mlca.potentials import KMeansEnergy, orthonormal_indicator
from gmlearn_mlca.slaves import SpectralDecomposition
from gmlearn_mlca.spectral import ReducedDataset, project_psd
from gmlearn_mlca.synthetic import two_layer_categories
from gmlearn_mlca.training import closed_form_weights
from mlca_cases import surrogate_objective

import gmlearn as gm


def draw(seed):
    X, y = two_layer_categories((60, 80, 100), rng=seed)
    X -= X.mean(axis=0)
    return X / np.sqrt(np.sum(X**2) / 3), y


def model(X):
    crf = gm.CRF(len(X), 3)
    crf.add(KMeansEnergy([np.arange(len(X))], X))
    return crf


@pytest.fixture(scope="module")
def problem():
    pairs = [draw(seed) for seed in range(3)]
    return pairs, [SimpleNamespace(crf=model(X), labels=y) for X, y in pairs]


def test_closed_form_is_mlca_on_the_joined_datasets(problem):
    pairs, samples = problem
    M = closed_form_weights(samples)["metric"]
    joined = (
        MLCA(fit_intercept=False)
        .fit([X for X, _ in pairs], [y for _, y in pairs])
        .get_mahalanobis_matrix()
    )
    np.testing.assert_allclose(M, joined / np.trace(joined), atol=1e-10)
    X, y = draw(9)
    assert delta_loss(kmeans_labels(X @ psd_factor(M), 3, 10, 0), y) < 0.15


def test_closed_form_names_what_is_wrong(problem):
    with pytest.raises(ValueError, match="samples: expected at least one"):
        closed_form_weights([])
    with pytest.raises(
        ValueError, match=r"samples\[0\].crf: expected exactly one kmeans_energy block, got 0"
    ):
        closed_form_weights([SimpleNamespace(crf=gm.CRF(3, 2), labels=[0, 1, 0])])
    other = gm.CRF(4, 2)
    other.add(KMeansEnergy([np.arange(4)], np.eye(4)))
    with pytest.raises(
        ValueError,
        match=r"samples\[3\].crf: expected the weight segment 'metric' for 3 features and 3 clusters",
    ):
        closed_form_weights([*problem[1], SimpleNamespace(crf=other, labels=[0, 1, 0, 1])])


def test_generic_trainer_learns_the_metric_and_agrees_with_the_closed_form(problem):
    from gmlearn_mlca.losses import PartitionLoss

    pairs, samples = problem
    trained = gm.train(
        [gm.Sample(s.crf, s.labels) for s in samples],
        loss=PartitionLoss(),
        decomposition=SpectralDecomposition(),
        optimizer="subgradient",
        regularizer=gm.L2(2e-3),
        constraints={"metric": project_psd},
        weights={"metric": np.eye(3)},
        max_iter=200,
        step=3.0,
    )
    M = trained.weights["metric"]
    datasets = [ReducedDataset.from_data(X, orthonormal_indicator(y, 3)) for X, y in pairs]
    assert surrogate_objective(datasets, M, 1e-3)[0] == pytest.approx(trained.objective, rel=1e-6)
    assert trained.objective < 0.7 * surrogate_objective(datasets, np.eye(3), 1e-3)[0]
    assert np.linalg.eigvalsh(M).min() >= -1e-9
    X = draw(9)[0]
    at_once = gm.train(
        [gm.Sample(s.crf, s.labels) for s in samples], method="mlca", regularizer=gm.L2(2e-3)
    )
    closed = at_once.weights["metric"]
    # the surrogate is what the generic trainer minimises
    assert at_once.objective >= trained.objective
    labels = [kmeans_labels(X @ psd_factor(metric), 3, 10, 0) for metric in (M, closed)]
    assert delta_loss(*labels) < 0.1


def test_spectral_metric_passes_through_the_generic_trainer(problem, monkeypatch):
    seen, train = [], gm.train
    monkeypatch.setattr(gm, "train", lambda *a, **k: seen.append(k) or train(*a, **k))
    X, y = zip(*problem[0])
    model = SpectralMetric(n_rounds=20).fit(list(X), list(y))
    assert len(seen) == 1 and isinstance(seen[0]["decomposition"], SpectralDecomposition)
    assert model.components_.shape[1] == 3
    assert "optimizer" not in seen[0] and 1 < len(model.history_) <= 21
    assert model.history_[-1] < model.history_[0]


@pytest.mark.parametrize("constraints", [None, {"metric": gm.Projection(project_psd)}])
@pytest.mark.parametrize("mu", [2e-2, 2e-3, 2e-4])
def test_default_optimizer_leaves_the_zero_matrix(problem, constraints, mu):
    """At M = 0 every partition costs the same, so the first slaves say little; training once stayed
    there and called it converged.
    """
    samples = [gm.Sample(s.crf, s.labels) for s in problem[1]]
    common = dict(loss="partition", regularizer=gm.L2(mu), constraints=constraints)
    zero = sum(len(np.unique(s.labels)) * 2.0 for s in problem[1])
    default = gm.train(samples, **common)
    slow = gm.train(samples, **common, optimizer="subgradient")
    assert np.linalg.norm(default.weights["metric"]) > 1.0
    # 1e-4 is the gap at which training ends
    assert default.objective <= slow.objective * (1.0 + 1e-4) < zero
