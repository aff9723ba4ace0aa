"""Does learning help where distances are unsupervised? The tables of ``cluster-multiview``.

Four distances a view (l2, l1, chi2, rbf), as in the paper. Two protocols: *new points*, half of the
points of every class for training and the others clustered; *new classes*, half of the classes for
training and the others clustered. Every split draws its own test points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gmlearn as gm
from gmlearn_clustering.distances import DistanceBank
from gmlearn_clustering.graph import nearest_neighbours
from gmlearn_clustering.learner import ExemplarClusteringLearner
from gmlearn_clustering.metrics import deviations
from gmlearn_clustering.multiview import Split, best_single, lda_kmeans, load_views
from gmlearn_clustering.scores import accuracy

_SETS = ("kth", "letters", "mfeat", "msrcv1", "orl", "scene15")
_HEADER = ["data", "method", "accuracy", "s.e.", "clusters / classes"]
_HEADER += ["accuracy, k given", "s.e.", "minus average", "s.e."]
#: the same columns in result.json
_KEYS = ["accuracy", "accuracy_se", "number_ratio", "accuracy_k_given", "accuracy_k_given_se"]
_KEYS += ["minus_average", "minus_average_se"]
#: points of a class at most
_MOST_POINTS = {"letters": 40, "mfeat": 100, "scene15": 80}
_AVERAGE = "average"
#: near, and random, partners of a point in the graphs of correlation clustering
_N_PARTNERS = 10
#: what learners are made of: name of the row -> settings
_LEARNERS: dict[str, dict[str, Any]] = {
    "learnt": {},
    "learnt, as in the paper": {
        "weighting": "max-margin",
        "graph": False,
        "penalty_rule": "training",
    },
    "latent SVM (CCCP)": {
        "weighting": "max-margin",
        "graph": False,
        "penalty_rule": "training",
        "method": "cccp",
    },
    "max-margin weights, graph": {"weighting": "max-margin"},
    "pair weights, graph": {"weighting": "pairs"},
    "alignment weights, graph": {"weighting": "alignment"},
    "weights through the graph": {"weighting": "through-graph"},
    "average, graph": {"weighting": "average"},
    "contrast only": {"weighting": "contrast", "graph": False},
    _AVERAGE: {"weighting": "average", "graph": False},
}


def compare_methods(run: gm.Run) -> None:
    """One table a protocol: accuracy with the number found and given, and paired differences."""
    names = ("msrcv1",) if run.quick else _SETS
    seeds = range(2 if run.quick else 5)
    for protocol in ("new points", "new classes"):
        cells = [(name, seed + 100 * run.seed) for name in names for seed in seeds]
        scores: dict[str, list[dict[str, list[float]]]] = {}
        for name, seed in run.progress(cells, desc=protocol):
            scores.setdefault(name, []).append(_cell(run, name, protocol, seed))
        rows = [row for name, found in scores.items() for row in _summary(name, found)]
        title = f"Unsupervised distances, {protocol}: means and standard errors"
        run.table(f"{title} over {len(seeds)} splits", _HEADER, rows)
        for row in rows:
            run.value(f"{protocol}: {row[0]}: {row[1]}", dict(zip(_KEYS, row[2:])))
    run.note(
        "learnt: triplet weights, graph distance, calibrated fee (the default). minus average: "
        "paired difference of the accuracies with k given. Constants of these parts were chosen on "
        "msrcv1, orl and mfeat with other splits and fewer views."
    )


def _cell(run: gm.Run, name: str, protocol: str, seed: int) -> dict[str, list[float]]:
    """The scores of one split."""

    def scores() -> dict[str, list[float]]:
        return scores_of(draw_split(*load_views(run, name)[:2], name, protocol, seed))

    return run.cell(f"{name}-{protocol.replace(' ', '-')}-{seed}", scores)


def draw_split(
    views: list[np.ndarray], labels: np.ndarray, name: str, protocol: str, seed: int
) -> Split:
    """Training and test points by the protocol, in random order."""
    random = np.random.default_rng(seed)
    limit = _MOST_POINTS.get(name)
    members = [random.permutation(np.flatnonzero(labels == c))[:limit] for c in np.unique(labels)]
    if protocol == "new points":
        train = np.concatenate([m[: len(m) // 2] for m in members])
        test = np.concatenate([m[len(m) // 2 :] for m in members])
    else:
        order = random.permutation(len(members))
        half = len(members) // 2
        train = np.concatenate([members[c] for c in order[:half]])
        test = np.concatenate([members[c] for c in order[half:]])
    # sorted classes would break ties in our favour
    train, test = random.permutation(train), random.permutation(test)
    parts = [[view[points] for view in views] for points in (train, test)]
    return Split(parts[0], labels[train], parts[1], labels[test])


def scores_of(split: Split) -> dict[str, list[float]]:
    """Accuracy with the number found, clusters found / classes, accuracy with k given, by method;
    nan where a method finds no number.
    """
    bank = DistanceBank("unsupervised").fit([split.train])
    train, test = bank.prepare(split.train).matrices, bank.prepare(split.test).matrices
    best = best_single(train, split.train_labels)
    found = {}
    for method, settings in _LEARNERS.items():
        found[method] = _learner_scores(settings, train, test, split)
    single = slice(best, best + 1)
    found["best single"] = _learner_scores(_LEARNERS[_AVERAGE], train[single], test[single], split)
    found["multicut SVM"] = _multicut_scores(train, test, split)
    rivals: dict[str, Callable[[Split], np.ndarray]] = {
        "kNN-spectral, k given": _spectral,
        "k-means, k given": _kmeans,
        "LDA + k-means, k given": lambda split: lda_kmeans(split)[0],
    }
    for method, cluster in rivals.items():
        found[method] = [np.nan, np.nan, accuracy(split.test_labels, cluster(split))]
    return found


def _learner_scores(
    settings: dict[str, Any], train: np.ndarray, test: np.ndarray, split: Split
) -> list[float]:
    learner = ExemplarClusteringLearner("precomputed", **settings)
    learner.fit([train], [split.train_labels])
    labels = learner.cluster(test)
    given = learner.cluster(test, split.n_classes)
    number = len(np.unique(labels)) / split.n_classes
    truth = split.test_labels
    return [accuracy(truth, labels), number, accuracy(truth, given)]


def _multicut_scores(train: np.ndarray, test: np.ndarray, split: Split) -> list[float]:
    """Correlation clustering trained as a structured SVM (Finley and Joachims 2005) on sparse
    graphs; nan without the plugin that brings it.
    """
    if not any(entry.owner == "multicut" for entry in gm.plugins()):
        return [np.nan] * 3
    classes = np.unique(split.train_labels, return_inverse=True)[1]
    crf = _signed_graph(train, 2 * (int(classes.max()) + 1))
    weight = 1.0 / sum(len(block) for block in crf.clique_blocks)
    model = gm.train(
        [gm.Sample(crf, classes, weight=weight)],
        loss="pairs",
        regularizer=gm.L2(1e-3),
        max_iter=50,
        show_progress=False,
    )
    new = _signed_graph(test, len(split.test_labels))
    labels = gm.solve(new, model.weights, solver="kernighan-lin").labels
    number = len(np.unique(labels)) / split.n_classes
    return [accuracy(split.test_labels, labels), number, np.nan]


def _signed_graph(matrices: np.ndarray, n_labels: int) -> gm.CRF:
    """Learnt edges between every point and its nearest neighbours under the average, and as many
    random points.
    """
    n = matrices.shape[1]
    near = nearest_neighbours(matrices.mean(axis=0), min(_N_PARTNERS, n - 1))
    far = np.random.default_rng(0).integers(0, n, near.shape)
    pairs = np.stack([np.tile(np.arange(n)[:, None], 2 * near.shape[1]), np.hstack([near, far])])
    edges = np.unique(np.sort(pairs.reshape(2, -1).T, axis=1), axis=0)
    edges = edges[edges[:, 0] != edges[:, 1]]
    features = matrices[:, edges[:, 0], edges[:, 1]].T
    crf = gm.CRF(n, n_labels)
    features = np.column_stack([features, np.ones(len(edges))])
    crf.add("signed_graph", edges=edges, features=features, weight="edge")
    return crf


def _standardised(split: Split) -> np.ndarray:
    """All views of the test points side by side, (N, D), each column and each view with the same
    say.
    """
    scaled = [(v - v.mean(axis=0)) / deviations(v) / np.sqrt(v.shape[1]) for v in split.test]
    return np.hstack(scaled)


def _spectral(split: Split) -> np.ndarray:
    import warnings

    from sklearn.cluster import SpectralClustering

    rows = _standardised(split)
    method = SpectralClustering(
        split.n_classes, affinity="nearest_neighbors", n_neighbors=10, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # graphs in several parts are usual
        return method.fit_predict(rows)


def _kmeans(split: Split) -> np.ndarray:
    from sklearn.cluster import KMeans

    method = KMeans(split.n_classes, n_init=10, random_state=0)
    return method.fit_predict(_standardised(split))


def _summary(name: str, found: list[dict[str, list[float]]]) -> list[list[Any]]:
    """Means and standard errors over the splits, and of the paired differences to the average."""
    rows = []
    for method in found[0]:
        own = np.array([scores[method] for scores in found])
        apart = own[:, 2] - np.array([scores[_AVERAGE][2] for scores in found])
        mean, error = gm.mean_and_error(np.column_stack([own, apart]))
        row = [name, method, mean[0], error[0], mean[1], mean[2], error[2], mean[3], error[3]]
        rows.append([float(v) if isinstance(v, np.floating) else v for v in row])
    return rows
