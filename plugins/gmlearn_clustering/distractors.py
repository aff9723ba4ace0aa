"""The synthetic set that needs learning: second table of ``gmlearn run cluster-synthetic``."""

from __future__ import annotations

from typing import Any

import numpy as np

import gmlearn as gm
from gmlearn_clustering.learner import ExemplarClusteringLearner
from gmlearn_clustering.scores import pair_f
from gmlearn_clustering.synthetic import SyntheticSets, distractor_gaussians

#: name of the row -> settings of the learner; k is given, so that no rule is calibrated
_LEARNERS: dict[str, dict[str, Any]] = {
    "max-margin": {},
    "latent SVM (CCCP)": {"method": "cccp"},
    "triplet weights": {"weighting": "triplets"},
    "triplet weights, graph": {"weighting": "triplets", "graph": True},
    "pair weights": {"weighting": "pairs"},
    "alignment weights": {"weighting": "alignment"},
    "contrast only": {"weighting": "contrast"},
    "standardised Euclid": {"weighting": "average"},
}


def needs_learning(run: gm.Run) -> None:
    """Test pair-F with k given: mean and standard error over seeds."""
    seeds = range(2 if run.quick else 5)
    n_sets = 2 if run.quick else 5
    scores: dict[str, list[float]] = {}
    for seed in run.progress(seeds, desc="distractors"):
        sets = distractor_gaussians(n_sets=n_sets, seed=100 * run.seed + seed)
        for method, settings in _LEARNERS.items():
            learner = ExemplarClusteringLearner(penalty_rule="training", **settings)
            learner.fit(sets.train, sets.train_labels)
            pairs = zip(sets.test, sets.test_labels)
            found = [pair_f(y, learner.cluster(x, len(np.unique(y)))) for x, y in pairs]
            scores.setdefault(method, []).append(float(np.mean(found)))
        for method, value in _kmeans_scores(sets).items():
            scores.setdefault(method, []).append(value)
    rows = []
    for method, values in scores.items():
        mean, error = map(float, gm.mean_and_error(values))
        rows.append([method, mean, error])
        run.value(f"distractors: {method}", {"pair_f": mean, "standard_error": error})
    title = f"A set that needs learning, k given: {len(seeds)} seeds"
    run.table(title, ["method", "test pair-F", "s.e."], rows)


def _kmeans_scores(sets: SyntheticSets) -> dict[str, float]:
    """k-means after a discriminant analysis of the training sets (classes of different sets are
    different), and on the dimensions as they are.
    """
    from sklearn.cluster import KMeans
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    classes = [f"{k} {c}" for k, y in enumerate(sets.train_labels) for c in y]
    lda = LinearDiscriminantAnalysis().fit(np.concatenate(sets.train), classes)
    found: dict[str, list[float]] = {"LDA + k-means": [], "k-means": []}
    for x, y in zip(sets.test, sets.test_labels):
        method = KMeans(len(np.unique(y)), n_init=10, random_state=0)
        found["LDA + k-means"].append(pair_f(y, method.fit_predict(lda.transform(x))))
        found["k-means"].append(pair_f(y, method.fit_predict(x)))
    return {name: float(np.mean(values)) for name, values in found.items()}
