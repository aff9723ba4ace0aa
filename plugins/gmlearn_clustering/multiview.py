"""Learnt distances on real data: ``gmlearn run cluster-multiview --data DIR``."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

import gmlearn as gm
from gmlearn_clustering.adaptation import adapted_clustering
from gmlearn_clustering.calibration import calibrated_rate, choose_point, clustering_path
from gmlearn_clustering.crossfit import cross_fit, range_folds
from gmlearn_clustering.distances import DistanceBank
from gmlearn_clustering.fitted_distances import (
    LDAPosterior,
    LDAProjection,
    MLCAProjection,
)
from gmlearn_clustering.learner import ExemplarClusteringLearner
from gmlearn_clustering.metrics import deviations, squared_euclidean
from gmlearn_clustering.number import exemplars_of_number
from gmlearn_clustering.plots import plot_weights
from gmlearn_clustering.scores import accuracy, nearest_neighbour_accuracy, nmi

_SETS = ("kth", "kth by scale", "kth far scales", "mfeat", "msrcv1", "orl", "scene15")
_HEADER = ["data", "noise", "method", "accuracy", "s.e.", "clusters", "NMI"]
_HEADER += ["accuracy, k given", "s.e.", "nearest neighbour", "learnt minus this", "s.e."]
#: the same columns in result.json
_KEYS = ["accuracy", "accuracy_se", "clusters", "nmi", "accuracy_k_given", "accuracy_k_given_se"]
_KEYS += ["nearest_neighbour", "learnt_minus_this", "learnt_minus_this_se"]
#: training scales of "kth far scales", one set a split; the test scales lie outside
_NEAR_SCALES = [(1, 2, 3, 4, 5), (5, 6, 7, 8, 9), (1, 2, 3, 4), (6, 7, 8, 9), (3, 4, 5, 6, 7)]
_NOISE_DIMENSION = 20
_N_SHOWN = 15


@dataclass
class Split:
    """Standardised views of training and test points, and their classes 0..K-1; folds for
    cross-fitting if the test points were taken under other conditions."""

    train: list[np.ndarray]
    train_labels: np.ndarray
    test: list[np.ndarray]
    test_labels: np.ndarray
    folds: np.ndarray | None = None

    @property
    def n_classes(self) -> int:
        """Classes of the test points."""
        return len(np.unique(self.test_labels))


@dataclass
class Features:
    """Distance features (F, ., .) within the training points (cross-fitted), within the test
    points, and test to train.
    """

    train: np.ndarray
    test: np.ndarray
    cross: np.ndarray
    names: list[str]


def cluster_multiview(run: gm.Run) -> None:
    """Unsupervised distances first, as in the paper; then a bank with supervised ones."""
    from gmlearn_clustering.unsupervised import compare_methods

    if run.choices["distances"] != "supervised":
        compare_methods(run)
    if run.choices["distances"] != "unsupervised":
        supervised_distances(run)


def supervised_distances(run: gm.Run) -> None:
    """Accuracy with automatic k and with k given, NMI, number of clusters and nearest neighbours,
    with and without noise distances.
    """
    names = ("msrcv1", "orl") if run.quick else _SETS
    seeds = range(2 if run.quick else 5)
    cells = [(name, seed + 100 * run.seed) for name in names for seed in seeds]
    found: dict[str, list[dict[str, Any]]] = {}
    for name, seed in run.progress(cells, desc="splits"):
        found.setdefault(name, []).append(_supervised_cell(run, name, seed))
    rows = [
        row
        for name, splits in found.items()
        for noise in ("no", "yes")
        for row in _summary(name, noise, [split[noise] for split in splits])
    ]
    title = "Supervised distances in the bank (fitted on the training classes)"
    run.table(f"{title}: means and standard errors over {len(seeds)} splits", _HEADER, rows)
    for name, noise, method, *scores in rows:
        run.value(f"{name}{' + noise' * (noise == 'yes')}: {method}", dict(zip(_KEYS, scores)))
    shares = {name: [split["noise share"] for split in splits] for name, splits in found.items()}
    run.value("share of weight on noise", {name: float(np.mean(s)) for name, s in shares.items()})
    run.table(
        "Share of the learnt weight on noise distances",
        ["data", "mean", "largest"],
        [[name, float(np.mean(s)), float(max(s))] for name, s in shares.items()],
    )
    run.note(
        "The number of clusters is found by a rule calibrated on the training partition; LDA + "
        "k-means is given it. learnt minus this: paired difference of the accuracies with k given."
    )
    _figure(
        run, {name: (splits[0]["weights"], splits[0]["names"]) for name, splits in found.items()}
    )


def _supervised_cell(run: gm.Run, name: str, seed: int) -> dict[str, Any]:
    """The scores of one split by method, without and with noise distances, and the weights."""

    def scores() -> dict[str, Any]:
        split = load_split(run, name, seed)
        plain = distance_features(split)
        learner, without = evaluate(split, plain)
        noisy, scores = evaluate(split, with_noise(plain, seed))
        share = noisy.weights_[len(plain.names) :].sum() / noisy.weights_.sum()
        return {
            "no": without,
            "yes": scores,
            "noise share": float(share),
            "weights": learner.weights_.tolist(),
            "names": plain.names,
        }

    return run.cell(f"{name.replace(' ', '-')}-supervised-{seed}", scores)


def _summary(name: str, noise: str, splits: list[dict[str, list[float]]]) -> list[list[Any]]:
    """A row a method: means and standard errors over splits, and what the learnt distance is ahead
    by, paired.
    """
    rows = []
    for method in splits[0]:
        own = np.array([scores[method] for scores in splits])
        ahead = np.array([scores["learnt"][3] for scores in splits]) - own[:, 3]
        mean, error = gm.mean_and_error(np.column_stack([own, ahead]))
        found, number, shared, given, nearest, gain = mean
        scores = [found, error[0], number, shared, given, error[3], nearest, gain, error[5]]
        rows.append([name, noise, method, *(float(score) for score in scores)])
    return rows


def distance_features(split: Split) -> Features:
    """Plain and fitted distances of every view and of all views together; the fitted ones
    aligned where conditions change.
    """
    align = split.folds is not None

    def fitted(view: int | None) -> list[Any]:
        return [kind(view, align=align) for kind in (LDAProjection, LDAPosterior, MLCAProjection)]

    entries: list[Any] = fitted(None)
    for v in range(len(split.train)):
        entries += [(v, "l2"), (v, "l1"), (v, "rbf"), *fitted(v)]
    bank = DistanceBank(entries)
    folds = None if split.folds is None else [split.folds]
    train = cross_fit(bank, [split.train], [split.train_labels], folds=folds)[0].matrices
    return Features(
        train,
        bank.prepare(split.test).matrices,
        bank.cross_features(split.test, split.train),
        bank.names_,
    )


def with_noise(features: Features, seed: int) -> Features:
    """As many distances again, between random Gaussian vectors."""
    random = np.random.default_rng(seed)
    n_train, n_test = features.train.shape[1], features.test.shape[1]
    parts: list[tuple[np.ndarray, ...]] = []
    for _ in features.names:
        A, B = (random.normal(size=(n, _NOISE_DIMENSION)) for n in (n_train, n_test))
        parts.append(
            tuple(
                squared_euclidean(x, y) / (2.0 * _NOISE_DIMENSION)
                for x, y in ((A, A), (B, B), (B, A))
            )
        )
    stacked = [
        np.concatenate([old, np.stack(new)])
        for old, new in zip((features.train, features.test, features.cross), zip(*parts))
    ]
    train, test, cross = stacked
    names = features.names + [f"noise {i}" for i in range(len(parts))]
    return Features(train, test, cross, names)


def evaluate(
    split: Split, features: Features
) -> tuple[ExemplarClusteringLearner, dict[str, list[float]]]:
    """The learner, and the scores of all methods on one split; the learnt distance is adapted
    where conditions change.
    """
    learner: Any = ExemplarClusteringLearner("precomputed", weighting="max-margin", graph=False)
    learner.fit([features.train], [split.train_labels])
    n_features = len(features.names)
    scaled = learner.weights_ / learner.scale_
    candidates = {
        "learnt": scaled,
        "average of all": np.full(n_features, 1.0 / n_features),
        "best single": np.eye(n_features)[best_single(features.train, split.train_labels)],
    }
    found = {}
    for method, w in candidates.items():
        rate = (
            learner.rule_.rate
            if method == "learnt"
            else calibrated_rate([np.tensordot(w, features.train, 1)], [split.train_labels])
        )
        adapt = method == "learnt" and split.folds is not None
        found[method] = _scores(
            np.tensordot(w, features.test, 1),
            np.tensordot(w, features.cross, 1),
            rate,
            split,
            adapt,
        )
    found["affinity propagation"] = _affinity_propagation(features, split)
    found["LDA + k-means, k given"] = _lda_scores(split)
    return learner, found


def _scores(
    distances: np.ndarray, cross: np.ndarray, rate: float, split: Split, adapt: bool
) -> list[float]:
    """Accuracy, clusters, NMI, accuracy with k given, nearest-neighbour accuracy."""
    truth = split.test_labels

    def automatic(d: np.ndarray) -> np.ndarray:
        return choose_point(clustering_path(d, rate), rate).labels

    def given(d: np.ndarray) -> np.ndarray:
        return np.argmin(d[:, exemplars_of_number(d, int(truth.max()) + 1)[1]], axis=1)

    found, with_k = (
        adapted_clustering(distances, split.test, cluster) if adapt else cluster(distances)
        for cluster in (automatic, given)
    )
    return [
        accuracy(truth, found),
        int(found.max()) + 1,
        nmi(truth, found),
        accuracy(truth, with_k),
        nearest_neighbour_accuracy(cross, split.train_labels, truth),
    ]


def best_single(matrices: np.ndarray, labels: np.ndarray) -> int:
    """The feature whose leave-one-out nearest neighbours in training agree best with the
    classes.
    """
    apart = np.where(np.eye(len(labels), dtype=bool), np.inf, 0.0)
    agree = [(labels[np.argmin(matrix + apart, axis=1)] == labels).mean() for matrix in matrices]
    return int(np.argmax(agree))


def _affinity_propagation(features: Features, split: Split) -> list[float]:
    """On the average distance, with the default preference."""
    import warnings

    from sklearn.cluster import AffinityPropagation
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # its last state is scored all the same
        labels = (
            AffinityPropagation(affinity="precomputed", random_state=0)
            .fit(-features.test.mean(axis=0))
            .labels_
        )
    labels = np.where(labels < 0, 0, labels)
    truth = split.test_labels
    return [
        accuracy(truth, labels),
        int(labels.max()) + 1,
        nmi(truth, labels),
        np.nan,
        nearest_neighbour_accuracy(features.cross.mean(axis=0), split.train_labels, truth),
    ]


def lda_kmeans(split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Clusters of the test points by k-means after a discriminant analysis, k given; the distances
    there to the training points.
    """
    from sklearn.cluster import KMeans

    projection = LDAProjection().fit(split.train, split.train_labels)
    test = projection.transform(split.test)
    labels = KMeans(split.n_classes, n_init=10, random_state=0).fit_predict(test)
    return labels, squared_euclidean(test, projection.transform(split.train))


def _lda_scores(split: Split) -> list[float]:
    labels, cross = lda_kmeans(split)
    truth = split.test_labels
    score = accuracy(truth, labels)
    nearest = nearest_neighbour_accuracy(cross, split.train_labels, truth)
    return [score, split.n_classes, nmi(truth, labels), score, nearest]


def load_views(run: gm.Run, name: str) -> tuple[list[np.ndarray], np.ndarray, np.ndarray | None]:
    """The views of a data set, its classes, and the scales of the images of KTH."""
    if name.startswith("kth"):
        from gmlearn_clustering.textures import kth_views

        return kth_views(run.path("texture/kth_tips_gray_128.npz"))
    if name == "letters":
        from scipy.ndimage import gaussian_filter

        with np.load(run.path("structured/letters.npz")) as archive:
            pixels = np.unpackbits(archive["pixels"], axis=1).reshape(-1, 16, 8)
            labels = archive["labels"].astype(np.int64)
        smooth = gaussian_filter(pixels.astype(np.float64), (0, 1, 1))
        return (
            [part.reshape(len(labels), -1).astype(float) for part in (pixels, smooth)],
            labels,
            None,
        )
    with np.load(run.path(f"multiview/{name}.npz")) as archive:
        keys = [key for key in sorted(archive.files) if key.startswith("view")]
        views = [archive[key].astype(np.float64) for key in keys]
        return views, archive["labels"].astype(np.int64), None


def load_split(run: gm.Run, name: str, seed: int) -> Split:
    """Half of every class for training (scene15: 40 and 40 images); KTH also by scale: five of
    nine at random, or a range of scales with tests outside, another one for every split.
    """
    views, labels, scale = load_views(run, name)
    random = np.random.default_rng(seed)
    if name.startswith("kth ") and scale is not None:
        near: Any = _NEAR_SCALES[seed % len(_NEAR_SCALES)]
        if name == "kth by scale":
            fives = list(combinations(range(1, 10), 5))
            # one shuffled order for all splits, so that no two draw the same scales
            near = np.random.default_rng(0).permutation(fives)[seed % len(fives)]
        first = np.isin(scale, near)
        train, test = np.flatnonzero(first), np.flatnonzero(~first)
    else:
        halves = [
            _halves(np.flatnonzero(labels == c), random, 80 if name == "scene15" else None)
            for c in np.unique(labels)
        ]
        train, test = (np.concatenate(part) for part in zip(*halves))
    # sorted classes would break ties in our favour
    train, test = random.permutation(train), random.permutation(test)
    scaled = []
    for view in views:
        scaled.append((view - view[train].mean(axis=0)) / deviations(view[train]))
    folds = None
    # new scales: leave out single ones for tests in between, ranges for tests beyond
    if name.startswith("kth ") and scale is not None:
        folds = (
            range_folds(scale[train])
            if name == "kth far scales"
            else np.unique(scale[train], return_inverse=True)[1]
        )
    return Split(
        [v[train] for v in scaled], labels[train], [v[test] for v in scaled], labels[test], folds
    )


def _halves(
    members: np.ndarray, random: np.random.Generator, limit: int | None
) -> tuple[np.ndarray, np.ndarray]:
    members = random.permutation(members)[:limit]
    return members[: len(members) // 2], members[len(members) // 2 :]


def _figure(run: gm.Run, weights: dict[str, tuple[list[float], list[str]]]) -> None:
    """The largest learnt weights of every data set."""

    columns = min(4, len(weights))
    with gm.plot.styled() as plt:
        figure, axes = plt.subplots(
            -(-len(weights) // columns),
            columns,
            squeeze=False,
            figsize=(3.6 * columns, 3.8 * -(-len(weights) // columns)),
        )
        for ax, (name, (values, names)) in zip(axes.flat, weights.items()):
            w = np.array(values)
            largest = np.argsort(-w, kind="stable")[:_N_SHOWN]
            plot_weights(w[largest], [names[i] for i in largest], ax).set_title(name)
        for ax in axes.flat[len(weights) :]:
            ax.set_axis_off()
    run.figure(
        "weights.png",
        figure,
        f"The {_N_SHOWN} largest weights of the distances, first split, without noise distances.",
    )
