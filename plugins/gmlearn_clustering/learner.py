"""ExemplarClusteringLearner: learn a distance for clustering from given partitions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

import gmlearn as gm
from gmlearn_clustering.calibration import PathPoint
from gmlearn_clustering.crossfit import cross_fit, is_supervised
from gmlearn_clustering.distances import DimensionBank, PrecomputedBank
from gmlearn_clustering.graph import graph_distance, set_distance
from gmlearn_clustering.max_margin import MaxMargin
from gmlearn_clustering.number import exemplars_of_number
from gmlearn_clustering.partitions import check_labels, check_partitions, linked_classes
from gmlearn_clustering.potentials import local_scales
from gmlearn_clustering.rules import RULES, NumberRule, Training, at_penalty
from gmlearn_clustering.scores import accuracy, nearest_neighbour_accuracy
from gmlearn_clustering.weighting import WEIGHTINGS


class ExemplarClusteringLearner(BaseEstimator):
    """Learn d_pq = w . f_pq such that clustering new sets around exemplars gives partitions like
    those in training.

    Three parts, each by name: how features are weighed (`weighting`), which distance of a new set
    is clustered (`graph`), and how many clusters it has (`penalty_rule`). "auto" takes for banks of
    unsupervised distances what clusters new sets best: triplet weights, the graph distance of their
    combination, and a fee per exemplar calibrated on the training partitions; for dimensions and
    for supervised distances: max-margin weights, plain distances and the rule "transfer".

    ``weighting="max-margin"`` is training of the exemplar energy by dual decomposition, see
    `MaxMargin`. The paper's learner, and nothing else, is ``weighting="max-margin", graph=False,
    penalty_rule="training"``.

    Parameters
    ----------
    features : "dimensions": X_k is (N_k, D), one weight per dimension; "precomputed": X_k is (F,
        N_k, N_k); or a `DistanceBank` over views, which may hold supervised distances: they are
        cross-fitted, and take equal labels in different samples for the same class.
    weighting : "max-margin", "triplets", "pairs", "alignment", "through-graph", "contrast" (see
        `weighting`), "average" (no learning), or "auto".
    graph : True clusters the graph distance of the learnt combination (see `graph`), every feature
        at mean 1 within the set; False the combination itself; or "auto".
    alpha, beta : weights of the loss (number of exemplars per cluster, wrong assignments).
    tau : weight of the regulariser. regularizer : "l1", "l2" or a `gm.Regularizer`, which brings
        its own weight. constraints : "nonnegative", "none" or a set such as `gm.Simplex()`.
    method, optimizer : of ``gm.train``, by name: "dual-decomposition" with "subgradient" (as in the
        paper), "stochastic", "bcfw" (ends with a lower objective, mostly at the same clusters),
        ...; "cutting-plane" solves linear programs in N^2 multipliers and is only for sets of some
        tens of points; method "cccp" is the latent SVM with whole
        convex problems between two completions.   n_jobs : workers over training sets.
    penalty : d_qq during training, or "learn", or "features": d_qq = v . g_q with learnt v, for g_q
        = (1, the local scale of q, see `potentials.local_scales`).
    n_rounds : training rounds. n_inner : rounds between two completions (T of the paper).
    step, lambda_step : first steps of the weights and of the multipliers; they fall as training
        goes on.
    penalty_rule : how `cluster` finds the number of clusters: "transfer", calibrated, for sets with
        clusters of any size; "fee", calibrated, for graph distances (see `fee`); "training", the
        penalty of training; or "auto".
    random_state : of folds, stochastic order and searches.

    Attributes
    ----------
    weights_ : (F,) learnt weights. feature_names_ : their names.
    scale_ : (F,) normalisation stored with the model.
    penalty_ : d_qq at the end of training. rule_ : the calibrated rule. history_ :
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
        n_rounds: int = 100,
        n_inner: int = 1,
        step: float = 0.03,
        lambda_step: float = 0.1,
        penalty_rule: str = "auto",
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
        self.n_rounds = n_rounds
        self.n_inner = n_inner
        self.step = step
        self.lambda_step = lambda_step
        self.penalty_rule = penalty_rule
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
        max_margin = MaxMargin(
            **{field.name: getattr(self, field.name) for field in dataclasses.fields(MaxMargin)}
        )
        self._seed = int(gm.check_random_state(self.random_state).randint(2**31 - 1))
        partitions = check_partitions(X, y)
        banks: dict[str, Any] = {"dimensions": DimensionBank, "precomputed": PrecomputedBank}
        self.bank_ = banks[self.features]() if isinstance(self.features, str) else self.features
        samples = self._prepared(X, y, partitions, folds)
        self.parts_ = self._chosen_parts()
        self.history_: dict[str, list[float]] = {"objective": []}
        self.penalty_: Any = 1.0 if max_margin.learns_penalty else float(self.penalty)
        weigh = WEIGHTINGS.get(self.parts_["weighting"])
        if weigh is None:
            found = max_margin.train(samples, partitions, self._seed)
            self.weights_, self.penalty_ = found.weights, found.penalty
            self.history_ = {"objective": found.objective}
        else:
            self.weights_ = weigh(samples, partitions)
        self.feature_names_, self.scale_ = list(self.bank_.names_), self.bank_.scale_
        self.rule_: NumberRule = RULES[self.parts_["penalty_rule"]].calibrated(
            Training(
                samples,
                partitions,
                self.weights_,
                self._clustered,
                weigh,
                self.penalty_,
                self._seed,
            )
        )
        return self

    def _prepared(
        self,
        X: Sequence[Any],
        y: Sequence[Any],
        partitions: list[np.ndarray],
        folds: Sequence[np.ndarray] | None,
    ) -> list[Any]:
        """The samples' features by the fitted bank, cross-fitted where it is supervised."""
        if is_supervised(self.bank_):
            if any((truth < 0).any() for truth in partitions):
                raise ValueError(
                    "y: supervised distances need the class of every point, got unknown ones (-1)"
                )
            return list(cross_fit(self.bank_, X, linked_classes(y), seed=self._seed, folds=folds))
        if folds is not None:
            raise ValueError(
                "folds: only banks with supervised distances are cross-fitted; leave folds out"
            )
        self.bank_.fit(X, partitions)
        samples = [self.bank_.prepare(x) for x in X]
        for k, (sample, truth) in enumerate(zip(samples, partitions)):
            if sample.n_points != len(truth):
                raise ValueError(
                    f"y[{k}]: expected {sample.n_points} labels, one a point of X[{k}], got "
                    f"{len(truth)}"
                )
        return samples

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

    def _clustered(self, sample: Any, weights: np.ndarray) -> np.ndarray:
        """The matrix (N, N) in which exemplars are sought."""
        return set_distance(sample, weights) if self.parts_["graph"] else sample.matrix(weights)

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
        if len(X) == 0:
            raise ValueError("X: expected at least one point, got an empty set")
        sample = self.bank_.prepare(X)
        matrix = self._clustered(sample, self.weights_)
        if self.penalty == "features" and n_clusters is None:
            return at_penalty(matrix, local_scales(sample) @ self.penalty_, self._seed).labels
        return self._labels(matrix, n_clusters)

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
        return self.rule_.choose(distances, self._seed).labels

    def choose(self, distances: np.ndarray) -> PathPoint:
        """The clustering that the learner's rule prefers, with its exemplars and penalty."""
        check_is_fitted(self, "weights_")
        matrix = graph_distance(distances) if self.parts_["graph"] else distances
        return self.rule_.choose(matrix, self._seed)

    def score(self, X: Sequence[Any], y: Sequence[Any]) -> float:
        """Mean clustering accuracy on new sets with automatic numbers of clusters."""
        if len(X) != len(y) or len(X) == 0:
            raise ValueError(
                f"y: expected one partition for each of at least one sample, got {len(y)} for "
                f"{len(X)} samples"
            )
        found = [self.cluster(x) for x in X]
        truths = [
            check_labels(f"y[{k}]", truth, len(labels))
            for k, (truth, labels) in enumerate(zip(y, found))
        ]
        return float(np.mean([accuracy(truth, labels) for truth, labels in zip(truths, found)]))

    def nearest_neighbour_score(
        self, X_train: Any, y_train: Any, X_test: Any, y_test: Any
    ) -> float:
        """Accuracy of nearest-neighbour classification of X_test under the learnt distance."""
        distances = self.distance(X_test, X_train)
        train, test = (
            check_labels("y_train", y_train, distances.shape[1]),
            check_labels("y_test", y_test, distances.shape[0]),
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
        gm.check_choice("penalty_rule", self.penalty_rule, ("auto", *RULES))
        gm.check_choice("weighting", self.weighting, ("auto", "max-margin", *WEIGHTINGS))
        if self.graph not in (True, False, "auto"):
            raise ValueError(f"graph: expected True, False or 'auto', got {self.graph!r}")
