"""ExemplarClusteringLearner: learn a distance for clustering from given partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, check_random_state

import gmlearn as gm
from gmlearn_clustering.adaptation import adapted_clustering
from gmlearn_clustering.calibration import (
    PathPoint,
    calibrated_rate,
    choose_point,
    clustering_path,
    path_point,
)
from gmlearn_clustering.contrast import contrasts, with_contrast
from gmlearn_clustering.crossfit import cross_fit, is_supervised
from gmlearn_clustering.distances import DimensionBank, PrecomputedBank, as_views
from gmlearn_clustering.fee import calibrated_fee, penalty_of
from gmlearn_clustering.graph import graph_distance, set_distance
from gmlearn_clustering.losses import ClusteringLoss
from gmlearn_clustering.number import exemplars_of_number
from gmlearn_clustering.potentials import DISTANCE, PENALTY, exemplar_model, local_scales
from gmlearn_clustering.scores import accuracy, nearest_neighbour_accuracy
from gmlearn_clustering.slaves import training_sample
from gmlearn_clustering.weighting import WEIGHTINGS


class ExemplarClusteringLearner(BaseEstimator):
    """Learn d_pq = w . f_pq such that clustering new sets around exemplars gives partitions like
    those in training.

    Three parts, each by name: how features are weighed (`weighting`), which distance of a new set
    is clustered (`graph`), and how many clusters it has (`penalty_rule`). "auto" takes for banks of
    unsupervised distances what clusters new sets best: triplet weights, the graph distance of their
    combination, and a fee per exemplar calibrated on the training partitions; for dimensions and
    for supervised distances: max-margin weights, plain distances and the rule "transfer".

    ``weighting="max-margin"`` is training of the exemplar energy by dual decomposition (Komodakis
    2011): one slave per point and per true cluster, the exemplars of the true partitions being
    latent; a round costs about the distances' matrix product, O(N^2 F) time and O(N^2) memory a
    sample. A share of the weight then goes to all features by how well each alone tells the
    clusters apart (`contrast`). The paper's learner, and nothing else, is ``weighting="max-margin",
    contrast_share=0, graph=False, penalty_rule="training"``.

    Parameters
    ----------
    features : "dimensions": X_k is (N_k, D), one weight per dimension; "precomputed": X_k is (F,
        N_k, N_k); or a `DistanceBank` over views, which may hold supervised distances: they are
        cross-fitted, and take equal labels in
        different samples for the same class.
    weighting : "max-margin", "triplets", "pairs", "alignment" (see `weighting`), "average" (no
        learning), or "auto".
    graph : True clusters the graph distance of the learnt combination (see `graph`), every feature
        at mean 1 within the set; False the combination itself; or "auto".
    alpha, beta : weights of the loss (number of exemplars per cluster, wrong assignments).
    tau : weight of the regulariser. regularizer : "l1", "l2" or a `gm.Regularizer`, which brings
        its own weight. constraints : "nonnegative", "none" or a set such as `gm.Simplex()`.
    method, optimizer : of ``gm.train``, by name: "dual-decomposition" with "subgradient" (as in the
        paper), "stochastic", "bcfw", ...; method "cccp" is the latent SVM with whole convex
        problems between two completions.   n_jobs : workers over training sets.
    penalty : d_qq during training, or "learn", or "features": d_qq = v . g_q with learnt v, for g_q
        = (1, the local scale of q, see `potentials.local_scales`).
    contrast_share : share of the weight, in [0, 1], that is given out by contrast; 0 leaves the
        weights of training alone. "auto": 0 for dimensions, .5 for banks.
    n_rounds : training rounds. n_inner : rounds between two completions (T of the paper).
        stochastic : one sample a step, the optimiser "stochastic".
    step, lambda_step : first steps of the weights and of the multipliers; they fall as training
        goes on.
    penalty_rule : how `cluster` finds the number of clusters: "transfer", calibrated, for sets with
        clusters of any size; "fee", calibrated, for graph distances (see `fee`); "training", the
        penalty of training; or "auto".
    adapt : `cluster` adapts the distance to every set by the clusters found in it (`adaptation`):
        for sets from other conditions than those of training, to which the weights transfer badly.
        It takes points, not precomputed distances.
    random_state : of folds, stochastic order and searches.

    Attributes
    ----------
    weights_ : (F,) learnt weights, contrast included. feature_names_ : their names.
    scale_ : (F,) normalisation stored with the model.
    penalty_ : d_qq at the end of training. rate_, fee_ : the calibrated rule. history_ :
        {"objective": [...]} by round of max-margin training.
    parts_ : {"weighting", "graph", "penalty_rule"}: what "auto" took.

    Examples
    --------
    >>> from gmlearn_clustering import ExemplarClusteringLearner, noisy_gaussians
    >>> sizes = dict(n_points=60, n_dimensions=20, n_clusters=4, n_sets=2)
    >>> sets = noisy_gaussians(rho=0.5, separation=6.0, **sizes)
    >>> learner = ExemplarClusteringLearner(random_state=0).fit(sets.train, sets.train_labels)
    >>> len(set(learner.cluster(sets.test[0])))
    4
    """

    def __init__(
        self,
        features: Any = "dimensions",
        *,
        weighting: str = "auto",
        graph: bool | str = "auto",
        alpha: float = 1.0,
        beta: float = 1.0,
        tau: float = 0.1,
        regularizer: Any = "l1",
        constraints: Any = "nonnegative",
        method: str = "dual-decomposition",
        optimizer: str = "subgradient",
        n_jobs: int = 1,
        penalty: Any = 1.0,
        contrast_share: float | str = "auto",
        n_rounds: int = 100,
        n_inner: int = 1,
        stochastic: bool = False,
        step: float = 0.03,
        lambda_step: float = 0.1,
        penalty_rule: str = "auto",
        adapt: bool = False,
        random_state: int | None = 0,
    ) -> None:
        self.features = features
        self.weighting = weighting
        self.graph = graph
        self.alpha = alpha
        self.beta = beta
        self.tau = tau
        self.regularizer = regularizer
        self.constraints = constraints
        self.method = method
        self.optimizer = optimizer
        self.n_jobs = n_jobs
        self.penalty = penalty
        self.contrast_share = contrast_share
        self.n_rounds = n_rounds
        self.n_inner = n_inner
        self.stochastic = stochastic
        self.step = step
        self.lambda_step = lambda_step
        self.penalty_rule = penalty_rule
        self.adapt = adapt
        self.random_state = random_state

    def fit(
        self, X: Sequence[Any], y: Sequence[Any], folds: Sequence[np.ndarray] | None = None
    ) -> ExemplarClusteringLearner:
        """Learn from samples and their true partitions (labels of any kind, one array a sample; in
        arrays of integers -1 means that the cluster of the point is not known).

        folds : for supervised distances, what is left out together when they are cross-fitted: the
            fold 0, 1, ... of every point, an array a sample, such as its condition or `range_folds`
            of it; random if None.
        """
        self._check_parameters()
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        partitions = _check_partitions(X, y)
        banks: dict[str, Any] = {"dimensions": DimensionBank, "precomputed": PrecomputedBank}
        self.bank_ = banks[self.features]() if isinstance(self.features, str) else self.features
        if is_supervised(self.bank_):
            if any((truth < 0).any() for truth in partitions):
                raise ValueError(
                    "y: supervised distances need the class of every point, got unknown ones (-1)"
                )
            samples = cross_fit(self.bank_, X, _linked_classes(y), seed=self._seed, folds=folds)
        elif folds is not None:
            raise ValueError(
                "folds: only banks with supervised distances are cross-fitted; leave folds out"
            )
        else:
            self.bank_.fit(X, partitions)
            samples = [self.bank_.prepare(x) for x in X]
        for k, (sample, truth) in enumerate(zip(samples, partitions)):
            if sample.n_points != len(truth):
                raise ValueError(
                    f"y[{k}]: expected {sample.n_points} labels, one a point of X[{k}], got "
                    f"{len(truth)}"
                )
        self.parts_ = self._chosen_parts()
        self.history_: dict[str, list[float]] = {"objective": []}
        self.penalty_: Any = 1.0 if isinstance(self.penalty, str) else float(self.penalty)
        self.weights_ = self._weigh(samples, partitions)
        self.feature_names_, self.scale_ = list(self.bank_.names_), self.bank_.scale_
        self._calibrate(samples, partitions)
        return self

    def _chosen_parts(self) -> dict[str, Any]:
        """The parts by name, "auto" resolved."""
        many = not isinstance(self.bank_, DimensionBank) and not is_supervised(self.bank_)
        if self.penalty == "features":
            many = False
        weighting = "triplets" if many else "max-margin"
        parts = {"weighting": weighting, "graph": many, "penalty_rule": "transfer"}
        asked = {"weighting": self.weighting, "graph": self.graph}
        parts.update({name: value for name, value in asked.items() if value != "auto"})
        if parts["graph"]:
            parts["penalty_rule"] = "fee"
        if self.penalty == "features":
            parts["penalty_rule"] = "training"
        if self.penalty_rule != "auto":
            parts["penalty_rule"] = self.penalty_rule
        learnt = parts["weighting"] == "max-margin" and parts["penalty_rule"] == "training"
        if self.penalty == "features" and (parts["graph"] or not learnt):
            raise ValueError(
                "penalty: 'features' needs weighting='max-margin', graph=False and "
                f"penalty_rule='training', got {parts}"
            )
        return parts

    def _weigh(self, samples: list[Any], partitions: list[np.ndarray]) -> np.ndarray:
        """The learnt weights (F,) by the chosen part."""
        name = self.parts_["weighting"]
        if name != "max-margin":
            return WEIGHTINGS[name](samples, partitions)
        found = self._train(samples, partitions)
        if self.penalty == "learn":
            self.penalty_ = float(found.weights[PENALTY][0])
        elif self.penalty == "features":
            self.penalty_ = found.weights[PENALTY]
        self.history_ = {"objective": [float(value) for value in found.history.evaluated()]}
        share: Any = self.contrast_share
        if share == "auto":
            share = 0.0 if isinstance(self.bank_, DimensionBank) else 0.5
        contrast = contrasts(*_known_points(samples, partitions))
        return with_contrast(found.weights[DISTANCE], contrast, share)

    def _calibrate(self, samples: list[Any], partitions: list[np.ndarray]) -> None:
        """The rule for the number of clusters, on the distances that `cluster` will see."""
        if self.parts_["penalty_rule"] == "transfer":
            known, clusters = _known_points(samples, partitions)
            matrices = [self._clustered(sample, self.weights_) for sample in known]
            self.rate_ = calibrated_rate(matrices, clusters, self._seed)
        if self.parts_["penalty_rule"] == "fee":
            refit = WEIGHTINGS.get(self.parts_["weighting"])
            self.fee_ = calibrated_fee(
                samples, partitions, self.weights_, self._clustered, refit, self._seed
            )

    def _clustered(self, sample: Any, weights: np.ndarray) -> np.ndarray:
        """The matrix (N, N) in which exemplars are sought."""
        return set_distance(sample, weights) if self.parts_["graph"] else sample.matrix(weights)

    def _train(self, samples: list[Any], partitions: list[np.ndarray]) -> gm.TrainedModel:
        """The generic trainer on the samples' models; the objective is per point."""
        penalty = None if isinstance(self.penalty, str) else float(self.penalty)
        n_points = sum(int((truth >= 0).sum()) for truth in partitions)
        loss = ClusteringLoss(self.alpha, self.beta)
        features = [local_scales(s) if self.penalty == "features" else None for s in samples]
        problem = [
            training_sample(s, truth, penalty, 1.0 / n_points, loss, g)
            for s, truth, g in zip(samples, partitions, features)
        ]
        n_features = samples[0].n_features
        start = {DISTANCE: np.full(n_features, 1.0 / n_features)}
        norms: dict[Any, Any] = {"l1": gm.L1(self.tau), "l2": gm.L2(self.tau)}
        named = isinstance(self.regularizer, str)
        regularizer: dict[str, Any] = {
            DISTANCE: norms[self.regularizer] if named else self.regularizer
        }
        constraints: dict[str, Any] = {DISTANCE: self.constraints}
        if isinstance(self.constraints, str):
            constraints = {DISTANCE: gm.NonNegative()} if self.constraints != "none" else {}
        if penalty is None:
            start[PENALTY], regularizer[PENALTY], constraints[PENALTY] = (
                np.ones(1) if features[0] is None else np.array([1.0, 0.0]),
                gm.NoRegularizer(),
                gm.NonNegative(),
            )
        optimizer = "stochastic" if self.stochastic else self.optimizer
        steps: dict[str, Any] = {}
        if optimizer in ("subgradient", "stochastic", "incremental"):
            steps = {"step": self.step, "lambda_step": self.lambda_step}
        return gm.train(
            problem,
            loss=loss,
            decomposition="exemplar",
            method=self.method,
            optimizer=optimizer,
            n_jobs=self.n_jobs,
            regularizer=regularizer,
            constraints=constraints or None,
            weights=start,
            max_iter=self.n_rounds,
            tol=0.0,
            completion_every=self.n_inner,
            seed=self._seed,
            show_progress=False,
            **steps,
        )

    def distance(self, X: Any, Y: Any = None) -> np.ndarray:
        """Learnt distances within X (N, N), or from the points of X to those of Y (N, M)."""
        check_is_fitted(self, "weights_")
        if len(X) == 0:
            raise ValueError("X: expected at least one point, got an empty set")
        return (
            self.bank_.prepare(X).matrix(self.weights_)
            if Y is None
            else self.bank_.cross(X, Y, self.weights_)
        )

    def transform(self, X: Any) -> np.ndarray:
        """Points in the space whose squared Euclidean distance is the learnt one; only for
        features="dimensions".
        """
        check_is_fitted(self, "weights_")
        if not isinstance(self.bank_, DimensionBank):
            raise ValueError(
                'transform: only features="dimensions" embed points; use distance(X) instead'
            )
        return gm.check_array("X", X, shape=(None, len(self.scale_))) * np.sqrt(
            np.maximum(self.weights_, 0.0) / self.scale_
        )

    def cluster(self, X: Any, n_clusters: int | None = None) -> np.ndarray:
        """Labels (N,) of a new set; the number of clusters is found automatically unless given."""
        check_is_fitted(self, "weights_")
        if not self.adapt:
            if len(X) == 0:
                raise ValueError("X: expected at least one point, got an empty set")
            sample = self.bank_.prepare(X)
            matrix = self._clustered(sample, self.weights_)
            if self.penalty == "features" and n_clusters is None:
                penalty = local_scales(sample) @ self.penalty_
                return self._at_penalty(matrix, penalty).labels
            return self._labels(matrix, n_clusters)
        return adapted_clustering(
            self.distance(X), as_views(X), lambda d: self.cluster_distances(d, n_clusters)
        )

    def cluster_distances(self, distances: np.ndarray, n_clusters: int | None = None) -> np.ndarray:
        """Labels (N,) from a matrix of learnt distances; their graph distance is clustered if this
        is one of the learner's parts.
        """
        check_is_fitted(self, "weights_")
        matrix = graph_distance(distances) if self.parts_["graph"] else distances
        return self._labels(matrix, n_clusters)

    def _labels(self, distances: np.ndarray, n_clusters: int | None) -> np.ndarray:
        if n_clusters is not None:
            exemplars = exemplars_of_number(distances, n_clusters, seed=self._seed)[1]
            labels = np.argmin(distances[:, exemplars], axis=1)
            labels[exemplars] = np.arange(len(exemplars))
            return labels
        return self._choose(distances).labels

    def choose(self, distances: np.ndarray) -> PathPoint:
        """The clustering that the learner's rule prefers, with its exemplars and penalty."""
        check_is_fitted(self, "weights_")
        return self._choose(graph_distance(distances) if self.parts_["graph"] else distances)

    def _choose(self, distances: np.ndarray) -> PathPoint:
        rule = self.parts_["penalty_rule"]
        if rule == "transfer":
            path = clustering_path(distances, self.rate_, seed=self._seed)
            return choose_point(path, self.rate_)
        if self.penalty == "features":
            raise ValueError(
                "distances: penalty='features' takes local scales from the points; use cluster(X)"
            )
        penalty = self.penalty_ if rule == "training" else penalty_of(self.fee_, len(distances))
        return self._at_penalty(distances, penalty)

    def _at_penalty(self, distances: np.ndarray, penalty: float | np.ndarray) -> PathPoint:
        """The clustering of least energy that is found with d_qq = penalty, a number or (N,)."""
        model = exemplar_model(np.asarray(distances), penalty)
        options: dict[str, Any] = {"method": "local", "seed": self._seed}
        found = gm.solve(model, solver="exemplar", **options)
        return path_point(distances, float(np.mean(penalty)), np.unique(found.labels))

    def score(self, X: Sequence[Any], y: Sequence[Any]) -> float:
        """Mean clustering accuracy on new sets with automatic numbers of clusters."""
        if len(X) != len(y) or len(X) == 0:
            raise ValueError(
                f"y: expected one partition for each of at least one sample, got {len(y)} for "
                f"{len(X)} samples"
            )
        found = [self.cluster(x) for x in X]
        truths = [
            _check_labels(f"y[{k}]", truth, len(labels))
            for k, (truth, labels) in enumerate(zip(y, found))
        ]
        return float(np.mean([accuracy(truth, labels) for truth, labels in zip(truths, found)]))

    def nearest_neighbour_score(
        self, X_train: Any, y_train: Any, X_test: Any, y_test: Any
    ) -> float:
        """Accuracy of nearest-neighbour classification of X_test under the learnt distance."""
        distances = self.distance(X_test, X_train)
        train, test = (
            _check_labels("y_train", y_train, distances.shape[1]),
            _check_labels("y_test", y_test, distances.shape[0]),
        )
        return nearest_neighbour_accuracy(distances, train, test)

    def plot_weights(self, ax: Any = None) -> Any:
        """Bars of the learnt weights."""
        from gmlearn_clustering.plots import plot_weights

        check_is_fitted(self, "weights_")
        return plot_weights(self.weights_, self.feature_names_, ax)

    def plot_objective(self, ax: Any = None) -> Any:
        """The training objective by round."""
        from gmlearn_clustering.plots import plot_objective

        check_is_fitted(self, "weights_")
        return plot_objective(self.history_["objective"], ax)

    def _check_parameters(self) -> None:
        if isinstance(self.features, str):
            gm.check_choice("features", self.features, ("dimensions", "precomputed"))
        elif not all(hasattr(self.features, name) for name in ("fit", "prepare")):
            raise ValueError(
                f"features: expected 'dimensions', 'precomputed' or a DistanceBank, got "
                f"{self.features!r}"
            )
        for name in ("alpha", "beta", "tau"):
            gm.check_number(name, getattr(self, name), low=0.0)
        if self.contrast_share != "auto":
            gm.check_number("contrast_share", self.contrast_share, low=0.0, high=1.0)
        for name in ("step", "lambda_step"):
            gm.check_number(name, getattr(self, name), low=0.0, strict=True)
        gm.check_number("n_rounds", self.n_rounds, low=1, integer=True)
        gm.check_number("n_inner", self.n_inner, low=1, integer=True)
        if isinstance(self.regularizer, str):
            gm.check_choice("regularizer", self.regularizer, ("l1", "l2"))
        if isinstance(self.constraints, str):
            gm.check_choice("constraints", self.constraints, ("nonnegative", "none"))
        rules = ("auto", "transfer", "fee", "training")
        gm.check_choice("penalty_rule", self.penalty_rule, rules)
        gm.check_choice("weighting", self.weighting, ("auto", "max-margin", *WEIGHTINGS))
        if self.graph not in (True, False, "auto"):
            raise ValueError(f"graph: expected True, False or 'auto', got {self.graph!r}")
        if not isinstance(self.adapt, (bool, np.bool_)):
            raise ValueError(f"adapt: expected True or False, got {self.adapt!r}")
        if self.adapt and (
            isinstance(self.features, PrecomputedBank) or self.features == "precomputed"
        ):
            raise ValueError(
                "adapt: precomputed distances hold no points to adapt to; set adapt=False"
            )
        if self.penalty not in ("learn", "features"):
            gm.check_number("penalty", self.penalty)


def _check_labels(name: str, labels: Any, n_points: int) -> np.ndarray:
    labels = np.asarray(labels)
    if labels.shape != (n_points,):
        raise ValueError(
            f"{name}: expected {n_points} labels, one a point, got an array of shape {labels.shape}"
        )
    return labels


def _known_points(
    samples: Sequence[Any], partitions: Sequence[np.ndarray]
) -> tuple[list[Any], list[np.ndarray]]:
    """Samples and partitions of the points whose cluster is known."""
    kept = [np.flatnonzero(truth >= 0) for truth in partitions]
    sizes = zip(samples, partitions, kept)
    found = [s if len(p) == len(truth) else s.take(p) for s, truth, p in sizes]
    return found, [truth[p] for truth, p in zip(partitions, kept)]


def _linked_classes(y: Sequence[Any]) -> list[np.ndarray]:
    """The labels of all samples numbered together, so that equal labels stay equal from sample
    to sample.
    """
    numbers = np.unique(np.concatenate([np.asarray(truth) for truth in y]), return_inverse=True)[1]
    return np.split(numbers, np.cumsum([len(truth) for truth in y])[:-1])


def _check_partitions(X: Sequence[Any], y: Sequence[Any]) -> list[np.ndarray]:
    """Every partition as clusters 0..K-1, with clear errors for what is no partition."""
    for name, value in (("X", X), ("y", y)):
        if not isinstance(value, (list, tuple)) or len(value) == 0:
            raise ValueError(
                f"{name}: expected a non-empty list with one entry a sample, got "
                f"{type(value).__name__}"
            )
    if len(X) != len(y):
        raise ValueError(f"y: expected one partition a sample, got {len(y)} for {len(X)} samples")
    partitions = []
    for k, truth in enumerate(y):
        truth = np.asarray(truth)
        if truth.ndim == 1 and len(truth) and all(isinstance(label, str) for label in truth):
            truth = truth.astype(str)  # names in an array of objects, as pandas gives them
        if (
            truth.ndim != 1
            or truth.dtype.kind == "O"
            or (truth.dtype.kind == "f" and not np.isfinite(truth).all())
        ):
            raise ValueError(
                f"y[{k}]: expected one cluster label a point (a partition), got an array of shape "
                f"{truth.shape} "
                f"and type {truth.dtype}"
            )
        if len(truth) < 2:
            raise ValueError(f"y[{k}]: expected a sample of at least two points, got {len(truth)}")
        known = truth != -1 if truth.dtype.kind == "i" else np.ones(len(truth), dtype=bool)
        cluster = np.full(len(truth), -1)
        cluster[known] = np.unique(truth[known], return_inverse=True)[1]
        if cluster.max() <= 0:
            raise ValueError(
                f"y[{k}]: expected at least two clusters, got {int(cluster.max()) + 1}; a single "
                f"cluster says nothing about distances"
            )
        partitions.append(cluster.astype(np.int64))
    return partitions
