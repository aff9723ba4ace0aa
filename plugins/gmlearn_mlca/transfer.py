"""Other uses of a learnt metric than new rows of known classes: data sets whose clusters do not
correspond, and classes that training has not seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import adjusted_rand_score

import gmlearn as gm
from gmlearn_mlca.estimator import MLCA
from gmlearn_mlca.surrogate import SpectralMetric

#: of the generated data sets: features that show the clusters, all features, clusters, rows,
#: data sets for training and for the test
USEFUL, FEATURES, CLUSTERS, ROWS, TRAINING, TEST = 4, 30, 4, 60, 6, 10


def run_transfer(run: gm.Run) -> None:
    """Both tables, adjusted Rand index ± one standard error over draws."""
    n_draws = 2 if run.quick else 5
    _table(run, "Data sets with clusters of their own", _own_clusters, n_draws)
    _table(run, "Digits: learnt on five classes, tested on the other five", _unseen, n_draws)


def _table(run: gm.Run, title: str, draw: Callable, n_draws: int) -> None:
    found: dict[str, list[float]] = {}
    for k in run.progress(range(n_draws), desc=title):
        for name, score in draw(np.random.default_rng([run.seed, k])).items():
            found.setdefault(name, []).append(score)
    error = np.sqrt(max(n_draws - 1, 1))
    rows = [[name, np.mean(s), np.std(s) / error] for name, s in found.items()]
    run.table(f"{title}, {n_draws} draws", ["method", "ARI", "standard error"], rows)
    run.value(title, found)


def _kmeans(points: np.ndarray, n_clusters: int) -> np.ndarray:
    return KMeans(n_clusters, n_init=10, random_state=0).fit_predict(points)


def _own_clusters(rng: np.random.Generator) -> dict[str, float]:
    """Every data set has clusters at random places of one and the same four features, which larger
    noise in the others hides.
    """
    turn = np.linalg.qr(rng.normal(size=(FEATURES, FEATURES)))[0]
    scale = np.where(np.arange(FEATURES) < USEFUL, 1.0, 6.0)

    def one() -> tuple[np.ndarray, np.ndarray]:
        y = rng.permutation(np.arange(ROWS) % CLUSTERS)
        points = rng.normal(size=(ROWS, FEATURES))
        points[:, :USEFUL] += 3.0 * rng.normal(size=(CLUSTERS, USEFUL))[y]
        X = (points * scale) @ turn.T
        return X - X.mean(axis=0), y

    known, new = [one() for _ in range(TRAINING)], [one() for _ in range(TEST)]
    rows = [X for X, _ in known]
    apart = [y + CLUSTERS * k for k, (_, y) in enumerate(known)]
    lda = LinearDiscriminantAnalysis().fit(np.concatenate(rows), np.concatenate(apart))
    mlca = MLCA(random_state=0).fit(rows, apart)
    spectral = SpectralMetric().fit(rows, [y for _, y in known])
    methods: dict[str, Callable[[np.ndarray], Any]] = {
        "k-means": lambda X: _kmeans(X, CLUSTERS),
        "LDA, clusters of all data sets as classes, + k-means": lambda X: _kmeans(
            lda.transform(X), CLUSTERS
        ),
        "MLCA, clusters of all data sets as classes": lambda X: mlca.predict(X, CLUSTERS),
        "SpectralMetric": spectral.predict,
    }
    return {
        name: float(np.mean([adjusted_rand_score(y, find(X)) for X, y in new]))
        for name, find in methods.items()
    }


def _unseen(rng: np.random.Generator) -> dict[str, float]:
    """The metric is learnt on five digits and clusters the five others."""
    X, y = load_digits(return_X_y=True)
    X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    known = np.isin(y, rng.permutation(10)[:5])
    lda = LinearDiscriminantAnalysis().fit(X[known], y[known])
    mlca = MLCA(random_state=0).fit(X[known], y[known])
    new, truth = X[~known], y[~known]
    labels = {
        "k-means": _kmeans(new, 5),
        "LDA + k-means": _kmeans(lda.transform(new), 5),
        "MLCA": mlca.predict(new, 5),
    }
    return {name: float(adjusted_rand_score(truth, found)) for name, found in labels.items()}
