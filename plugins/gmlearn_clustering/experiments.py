"""The paper's synthetic experiment: ``gmlearn run cluster-synthetic``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gmlearn as gm
from gmlearn_clustering.distractors import needs_learning
from gmlearn_clustering.learner import ExemplarClusteringLearner
from gmlearn_clustering.metrics import squared_euclidean
from gmlearn_clustering.number import exemplars_of_number
from gmlearn_clustering.plots import plot_clustering, plot_objective, plot_weights
from gmlearn_clustering.scores import pair_f
from gmlearn_clustering.synthetic import SyntheticSets, noisy_gaussians

_METHODS = ("learnt", "squared Euclid", "standardised Euclid", "affinity propagation", "k-means")


def cluster_synthetic(run: gm.Run) -> None:
    """Test pair-F and number of clusters against the share rho of noisy dimensions; baselines
    with k given except learnt and AP.
    """
    rhos = (0.0, 0.5, 0.9) if run.quick else (0.0, 0.3, 0.5, 0.7, 0.9)
    sizes = (100,) if run.quick else (100, 300, 500)
    seeds = range(1 if run.quick else 5)
    n_sets = 5 if run.quick else 10
    rows: list[list] = []
    scores: dict[Any, list] = {}
    shown: Any = None
    cells = [(rho, n, seed) for rho in rhos for n in sizes for seed in seeds]
    for rho, n, seed in run.progress(cells, desc="cells"):
        sets = noisy_gaussians(
            rho, n, n_sets=n_sets, seed=1000 * run.seed + 10 * seed + 7 * n + int(100 * rho)
        )
        learner = ExemplarClusteringLearner(random_state=seed).fit(sets.train, sets.train_labels)
        cell, numbers = _scores(learner, sets)
        noise = float(learner.weights_[sets.noisy].sum() / learner.weights_.sum())
        rows.append([rho, n, seed, *(cell[m] for m in _METHODS), min(numbers), max(numbers), noise])
        for method in _METHODS:
            scores.setdefault((method, rho), []).append(cell[method])
        scores.setdefault("objective", []).append(learner.history_["objective"])
        if rho == 0.5 and n == sizes[-1] and seed == 0:
            shown = (learner, sets)
    learnt = np.array([row[3] for row in rows])
    right = float(np.mean([row[-3] == row[-2] == 10 for row in rows]))
    run.value("test_pair_f_learnt_min", float(learnt.min()))
    run.value("test_pair_f_learnt_mean", float(learnt.mean()))
    run.value("cells_with_right_number", right)
    run.value("noise_weight_share_max", max(row[-1] for row in rows))
    for method in _METHODS:
        run.value(
            f"pair_f {method}", {str(rho): float(np.mean(scores[method, rho])) for rho in rhos}
        )
    run.table(
        "Test pair-F by cell",
        ["rho", "N", "seed", *_METHODS, "clusters min", "clusters max", "noise weight"],
        rows,
    )
    run.note(
        "k-means and the two Euclidean baselines are given the number of clusters; learnt and "
        "affinity propagation find it."
    )
    _figure(run, scores, rhos, *shown)
    needs_learning(run)


def _scores(
    learner: ExemplarClusteringLearner, sets: SyntheticSets
) -> tuple[dict[str, float], list[int]]:
    """Mean test pair-F of every method, and the numbers of clusters found by the learnt
    distance.
    """
    found: dict[str, list[float]] = {m: [] for m in _METHODS}
    numbers = []
    for X, y in zip(sets.test, sets.test_labels):
        labels = learner.cluster(X)
        numbers.append(int(labels.max()) + 1)
        found["learnt"].append(pair_f(y, labels))
        for method, baseline in _BASELINES.items():
            found[method].append(pair_f(y, baseline(X, int(y.max()) + 1)))
    return {m: float(np.mean(v)) for m, v in found.items()}, numbers


def _medoids(X: np.ndarray, k: int) -> np.ndarray:
    distances = squared_euclidean(X, X)
    return np.argmin(distances[:, exemplars_of_number(distances, k, n_kicks=20)[1]], axis=1)


def _affinity_propagation(X: np.ndarray, k: int) -> np.ndarray:
    import warnings

    from sklearn.cluster import AffinityPropagation
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # its last state is scored all the same
        labels = AffinityPropagation(random_state=0).fit(X / X.std(axis=0)).labels_
    return np.where(labels < 0, 0, labels)


def _kmeans(X: np.ndarray, k: int) -> np.ndarray:
    from sklearn.cluster import KMeans

    return KMeans(k, n_init=5, random_state=0).fit_predict(X / X.std(axis=0))


_BASELINES: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "squared Euclid": _medoids,
    "standardised Euclid": lambda X, k: _medoids(X / X.std(axis=0), k),
    "affinity propagation": _affinity_propagation,
    "k-means": _kmeans,
}


def _figure(
    run: gm.Run,
    scores: dict,
    rhos: tuple[float, ...],
    learner: ExemplarClusteringLearner,
    sets: SyntheticSets,
) -> None:
    """The four panels of the paper's Fig. 2."""

    with gm.plot.styled() as plt:
        figure, axes = plt.subplots(2, 2, figsize=(9.5, 7.0))
        plot_objective(np.mean(scores["objective"], axis=0), axes[0, 0]).set_title(
            f"(a) objective, mean of {len(scores['objective'])} runs"
        )
        plot_weights(learner.weights_, None, axes[0, 1]).set_title(
            "(b) learnt weights, last half of the dimensions noisy"
        )
        X, y = sets.test[0], sets.test_labels[0]
        exemplars = learner.choose(learner.distance(X)).exemplars
        plot_clustering(X, y, exemplars, _widest(X, y, ~sets.noisy), axes[1, 0]).set_title(
            f"(c) test set, N = {len(X)}, {len(exemplars)} exemplars found"
        )
        for method, marker in zip(_METHODS, "os^dv"):
            axes[1, 1].plot(
                rhos, [np.mean(scores[method, rho]) for rho in rhos], marker=marker, label=method
            )
        axes[1, 1].set(
            xlabel="share of noisy dimensions",
            ylabel="pair-F on test sets",
            ylim=(0, 1.05),
            title="(d) F-measure",
        )
        axes[1, 1].legend(fontsize=8, loc="lower left")
    run.figure(
        "synthetic.png",
        figure,
        "Objective, weights, a clustered test set, and F-measure against noise.",
    )


def _widest(X: np.ndarray, y: np.ndarray, informative: np.ndarray) -> tuple[int, int]:
    """The two informative dimensions in which the cluster means lie farthest apart."""
    means = np.stack([X[y == c].mean(axis=0) for c in np.unique(y)])
    first, second = np.argsort(np.where(informative, -means.var(axis=0), np.inf))[:2]
    return int(first), int(second)
