"""Clustering with group-dependent feature selection as a scikit-learn estimator."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

import gmlearn as gm
from gmlearn_groupfs.alternation import Alternation, Classifiers, alternate, make_assigner
from gmlearn_groupfs.assignment import check_links, check_sizes
from gmlearn_groupfs.boosting import LOSSES, BoostedClassifiers
from gmlearn_groupfs.contrast import ContrastClassifiers
from gmlearn_groupfs.kernels import KernelBank
from gmlearn_groupfs.links import propagate_links
from gmlearn_groupfs.neighbours import NeighbourKernels, default_neighbours
from gmlearn_groupfs.ordering import canonical_bank
from gmlearn_groupfs.starts import StartPool, random_labels
from gmlearn_groupfs.tables import is_table, view_columns

INITS = ("pool", "spectral", "random")
#: starts of a draw that are followed to their end
N_FOLLOWED = 2


class GroupFeatureClustering(ClusterMixin, BaseEstimator):
    r"""Clusters, and for each cluster the kernels that show it (Lin, Liu and Fuh, ECCV 2010).

    Minimises :math:`\sum_c \sum_i \ln(1 + \exp(-\tilde y_{ic} f_c(x_i)))` over partitions with
    sizes in [l, u] and optional links, and over one classifier :math:`f_c` per cluster, by turns:
    classifiers for fixed labels (scores cross-fitted), labels for fixed classifiers
    (`constrained_assignment`, exact).

    Parameters
    ----------
    n_clusters : C.
    size_bounds : (l, u); "auto" for half to twice the average size; None for none (then clusters
        tend to collapse).
    n_init : independent starts; the smallest loss wins.
    init : "pool" (rival starts from single views, their consensus, the fused graph and the mean
        kernel, see `StartPool`), "spectral" (the fused graph only), "random" (balanced random
        labels, the paper's), or labels (n,).
    classifier : "contrast" (logistic over mean similarities) or "boosted" (the paper's hypercuts).
    n_neighbours : neighbours in the graphs (`NeighbourKernels`) of the starts and of "contrast";
        "auto" is two thirds of n / C; None lets "contrast" see the kernels' values alone (the
        starts keep "auto"), see `Similarity`.
    link_reach : in [0, 1): how far links are carried to the points around those they name, in the
        graphs (`propagate_links`); 0 for not at all. Boosted classifiers see it through their start
        only.
    shrinkage : contrast: pull of a cluster's kernel weights towards each other.
    base, step, folds, n_hypercuts, loss, learning_rate : boosted: weak learners at iteration t are
        base + step t; folds of the cross-fitting; hypercuts tried at a stage (None: all); "log" or
        "exp"; factor on weak learners.
    max_iter, patience : iterations at most; stop when the loss has not dropped for `patience` of
        them.
    metric, gamma, scale : how views become kernels, see `KernelBank.from_views`.
    random_state : int, `numpy.random.RandomState` or None; the same seed gives the same answer for
        any order of the rows.

    Attributes
    ----------
    labels_ : int (n,).   loss_ : the smallest loss met.   loss_history_ : loss by iteration, of the
        winning start.
    kernel_usage_ : (C, M), rows sum to 1: the share of each kernel in the cluster's classifier.
    view_columns_ : list of index arrays, the columns of each view of a table; empty if X was none.
    kernel_names_ : names of the kernels.   n_iter_ : iterations of the winning start.   start_ :
        what it started from.

    Examples
    --------
    >>> from gmlearn_groupfs import GroupFeatureClustering, make_grouped_views
    >>> data = make_grouped_views(n_groups=2, clusters_per_group=2, random_state=0)
    >>> model = GroupFeatureClustering(4, size_bounds=(16, 24), random_state=0).fit(data.views)
    >>> model.kernel_usage_.shape
    (4, 2)
    """

    view_columns_: list[np.ndarray]

    def __init__(
        self,
        n_clusters: int = 2,
        size_bounds: Any = "auto",
        n_init: int = 3,
        init: Any = "pool",
        *,
        classifier: str = "contrast",
        n_neighbours: Any = "auto",
        link_reach: float = 0.0,
        shrinkage: float = 10.0,
        base: int = 5,
        step: int = 2,
        folds: int = 10,
        n_hypercuts: int | None = 20,
        loss: str = "log",
        learning_rate: float = 1.0,
        max_iter: int = 20,
        patience: int = 5,
        metric: Any = "euclidean",
        gamma: Any = "median",
        scale: bool = True,
        random_state: Any = None,
    ):
        self.n_clusters = n_clusters
        self.size_bounds = size_bounds
        self.n_init = n_init
        self.init = init
        self.classifier = classifier
        self.n_neighbours = n_neighbours
        self.link_reach = link_reach
        self.shrinkage = shrinkage
        self.base = base
        self.step = step
        self.folds = folds
        self.n_hypercuts = n_hypercuts
        self.loss = loss
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.patience = patience
        self.metric = metric
        self.gamma = gamma
        self.scale = scale
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        views: Any = None,
        must_link: Any = None,
        cannot_link: Any = None,
    ) -> GroupFeatureClustering:
        """Cluster.

        Parameters
        ----------
        X : a table (n, d); or a list of M views (n, d_m); or M kernels (M, n, n); or a
            `KernelBank`. Views become kernels by `metric`, `gamma` and `scale`.
        y : ignored.
        views : how the columns of a table fall into views: a list of widths (d_1, d_2, ...) that
            add up to d, or of column selections (slices or index arrays). None: one view.
        must_link, cannot_link : (k, 2) pairs of rows that must, or must not, share a cluster.
        """
        self._check_parameters()
        seed = self._seed()
        bank, order = canonical_bank(
            self._given(X, views, reset=True), self.metric, self.gamma, self.scale, seed
        )
        n = order.size
        if n <= self.n_clusters:
            raise ValueError(
                f"n_clusters: expected fewer clusters than the {n} samples, got {self.n_clusters}"
            )
        rank = np.argsort(order)
        given = [
            check_links(name, pairs, n)
            for name, pairs in (("must_link", must_link), ("cannot_link", cannot_link))
        ]
        sizes = self._sizes(n)
        # conflicts are refused before any classifier is trained, in the caller's own numbering
        make_assigner(sizes, *given)(np.zeros((n, self.n_clusters)))
        links = [_sorted_links(rank[pairs]) for pairs in given]
        assign = make_assigner(sizes, *links)
        evidence = self._evidence(bank.kernels, *links)
        judge = self._judge(bank.kernels, evidence)
        classifiers = self._classifiers(bank.kernels, judge)
        starts = self._starts(bank.kernels, sizes, assign, order, judge, seed)
        best, best_seed = None, 0
        for number, (name, labels) in enumerate(starts, start=seed):
            found = alternate(
                classifiers,
                labels,
                assign,
                max_iter=self.max_iter,
                patience=self.patience,
                seed=number,
                loss=self.loss,
            )
            if best is None or found.loss < best.loss:
                best, best_seed, self.start_ = found, number, name
        assert best is not None  # n_init >= 1
        self._keep(best, best_seed, classifiers, bank, order)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Clusters of new samples, (k,): argmax_c f_c(x), without size bounds.

        Takes what `fit` took: a table, or views; for kernels, cross-kernels (M, k, n), new samples
        by the samples of `fit` in their order.
        """
        return self.decision_function(X).argmax(axis=1)

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores f_c(x) of new samples, (k, C)."""
        check_is_fitted(self)
        cross = self.bank_.cross(self._given(X, None, reset=False))
        return self.model_.decision(cross if self.bank_.views else cross[:, :, self.order_])

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> np.ndarray:
        """`fit` with its keyword arguments, and return the labels; y is ignored."""
        return self.fit(X, y, **options).labels_

    def plot_kernel_usage(self, ax: Any = None, order: Any = None) -> Any:
        """A picture of `kernel_usage_`, clusters by kernels; `order` lists the clusters from top
        to bottom.
        """
        from gmlearn_groupfs.plots import plot_kernel_usage

        check_is_fitted(self)
        return plot_kernel_usage(self.kernel_usage_, self.kernel_names_, ax=ax, order=order)

    def _check_parameters(self) -> None:
        for name in ("n_clusters", "n_init", "base", "folds", "max_iter", "patience"):
            gm.check_number(name, getattr(self, name), low=1, integer=True)
        gm.check_number("step", self.step, low=0, integer=True)
        gm.check_number("shrinkage", self.shrinkage, low=0.0)
        if not gm.check_number("link_reach", self.link_reach, low=0.0, high=1.0) < 1.0:
            raise ValueError(f"link_reach: expected a number in [0, 1), got {self.link_reach!r}")
        gm.check_number("learning_rate", self.learning_rate, low=0.0, high=1.0)
        gm.check_choice("classifier", self.classifier, ("contrast", "boosted"))
        gm.check_choice("loss", self.loss, LOSSES)
        if isinstance(self.init, str):
            gm.check_choice("init", self.init, INITS)
        if self.loss == "exp" and self.classifier != "boosted":
            raise ValueError(
                "loss: 'exp' is a loss of the boosted classifier; got classifier='contrast'"
            )
        if self.n_hypercuts is not None:
            gm.check_number("n_hypercuts", self.n_hypercuts, low=1, integer=True)
        if self.n_neighbours is not None and self.n_neighbours != "auto":
            gm.check_number("n_neighbours", self.n_neighbours, low=1, integer=True)

    def _seed(self) -> int:
        """The seed itself if one is given, else a draw from the `RandomState`."""
        if isinstance(self.random_state, numbers.Integral):
            return int(gm.check_number("random_state", self.random_state, low=0, integer=True))
        return int(gm.check_random_state(self.random_state).randint(2**31))

    def _given(self, X: Any, views: Any, *, reset: bool) -> Any:
        """What the bank is made from: the views of a checked table, or X itself."""
        if not is_table(X) or not (reset or self.view_columns_):
            if views is not None:
                raise ValueError("views: expected None unless X is a table (n, d)")
            if reset:
                self.view_columns_ = []
            return X
        table = gm.validate_data(self, X, reset=reset, dtype=np.float64)
        if reset:
            self.view_columns_ = view_columns(views, table.shape[1])
        return [table[:, columns] for columns in self.view_columns_]

    def _sizes(self, n: int) -> Any:
        if isinstance(self.size_bounds, str):
            gm.check_choice("size_bounds", self.size_bounds, ("auto",))
            return n // (2 * self.n_clusters), -(-2 * n // self.n_clusters)
        with gm.naming("size_bounds"):
            check_sizes(self.size_bounds, n, self.n_clusters)
        return self.size_bounds

    def _neighbours(self, n: int) -> int:
        if self.n_neighbours is None or self.n_neighbours == "auto":
            return default_neighbours(n, self.n_clusters)
        return min(self.n_neighbours, n - 1)

    def _evidence(
        self, kernels: np.ndarray, must: np.ndarray, cannot: np.ndarray
    ) -> np.ndarray | None:
        """The links spread over the sum of all graphs, (n, n); None where there are none, or
        where they are to stay.
        """
        if not self.link_reach or not len(must) + len(cannot):
            return None
        graph = NeighbourKernels(kernels, self._neighbours(kernels.shape[1])).kernels.sum(axis=0)
        return propagate_links(graph, must, cannot, self.link_reach)

    def _judge(self, kernels: np.ndarray, evidence: np.ndarray | None) -> ContrastClassifiers:
        """The classifiers by whose loss starts are compared: cheap, and without randomness."""
        neighbours = self._neighbours(kernels.shape[1])
        return ContrastClassifiers(kernels, self.n_clusters, self.shrinkage, neighbours, evidence)

    def _classifiers(self, kernels: np.ndarray, judge: ContrastClassifiers) -> Classifiers:
        if self.classifier == "boosted":
            return BoostedClassifiers(
                kernels,
                self.n_clusters,
                self.base,
                self.step,
                self.folds,
                self.n_hypercuts,
                self.loss,
                self.learning_rate,
            )
        if self.n_neighbours is not None:
            return judge
        return ContrastClassifiers(kernels, self.n_clusters, self.shrinkage)

    def _starts(
        self,
        kernels: np.ndarray,
        sizes: Any,
        assign: Any,
        order: np.ndarray,
        judge: ContrastClassifiers,
        seed: int,
    ) -> list[tuple[str, np.ndarray]]:
        """Named starts in the canonical order, n_init of them."""
        n = kernels.shape[1]
        if not isinstance(self.init, str):
            return [
                ("labels", gm.check_index("init", self.init, self.n_clusters, shape=(n,))[order])
            ]
        rng = np.random.default_rng(seed)
        if self.init == "random":
            return [("random", random_labels(n, self.n_clusters, rng)) for _ in range(self.n_init)]
        pool = StartPool(judge.similarity, kernels, self.n_clusters, sizes)
        if self.init == "spectral":
            return [("spectral", pool.spectral(rng)) for _ in range(self.n_init)]
        return [self._drawn(pool, judge, assign, rng) for _ in range(self.n_init)]

    def _drawn(
        self, pool: StartPool, judge: ContrastClassifiers, assign: Any, rng: np.random.Generator
    ) -> tuple[str, np.ndarray]:
        """The best start of one draw: the judge takes a step from each, and follows the best few to
        their end.
        """

        def follow(labels: np.ndarray, steps: int) -> Alternation:
            return alternate(judge, labels, assign, max_iter=steps, patience=2, seed=0, tol=1e-3)

        rivals = [(name, follow(labels, 1)) for name, labels in pool.draw(rng)]
        rivals = sorted(rivals, key=lambda rival: rival[1].loss)[:N_FOLLOWED]
        ends = [(name, follow(found.labels, self.max_iter)) for name, found in rivals]
        name, found = min(ends, key=lambda rival: rival[1].loss)
        return f"pool ({name})", found.labels

    def _keep(
        self,
        best: Alternation,
        seed: int,
        classifiers: Classifiers,
        bank: KernelBank,
        order: np.ndarray,
    ) -> None:
        self.model_ = classifiers.model(best.labels, best.iteration, seed)
        self.bank_, self.order_ = bank, order
        self.labels_ = np.empty(order.size, dtype=np.int64)
        self.labels_[order] = best.labels
        self.loss_ = best.loss
        self.loss_history_ = list(best.history)
        self.n_iter_ = len(best.history)
        self.kernel_usage_, self.kernel_names_ = self.model_.usage, bank.names


def _sorted_links(pairs: np.ndarray) -> np.ndarray:
    """Each pair and the list of pairs in ascending order, so that how links are written changes
    nothing.
    """
    return np.unique(np.sort(pairs, axis=1), axis=0) if len(pairs) else pairs
