"""MLCA as a scikit-learn transformer and clusterer."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils.random import sample_without_replacement
from sklearn.utils.validation import check_is_fitted

import gmlearn as gm
from gmlearn_mlca.assign import (
    ASSIGN,
    kmeans_labels,
    leading_left_singular_vectors,
    round_clusters,
)
from gmlearn_mlca.closed_form import GRAM_TOLERANCE, RANK_TOLERANCE, closed_form, partition_factor
from gmlearn_mlca.inputs import (
    check_target,
    dataset_pairs,
    distinct,
    is_dataset_list,
    merge_classes,
)
from gmlearn_mlca.metrics import delta_loss
from gmlearn_mlca.statistics import PartitionStatistics


class MLCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """Metric learning for cluster analysis: the Mahalanobis matrix for supervised clustering in
    closed form.

    From data X (n, d) with a known partition C = Y Y^+ it learns M = W W' so that k-means under M
    finds that partition, and partitions further datasets under the same metric. M = X^+ C X^{+T}
    minimises the worst-case risk of Delta = ||Chat - C||^2 exactly (Law, Yu, Cord and Xing, CVPR
    2016). Only X'X, X'Y and counts are needed, so training costs O(n d^2 + d^3), streams, and adds
    up over datasets. ``gm.train(method="mlca")`` learns the same metric for models, whose variable
    for every row would make `fit` take 7 to 13 times as long.

    Parameters
    ----------
    kind : "multivariate" (any number of classes) or "univariate" (two classes, M = m m', labels by
        the sign of X m).
    n_components : k of the theorem, the largest rank of M; None for the number of classes. Smaller
        values keep the best part.
    ridge : adds ``ridge * trace(X'X)/d`` to the diagonal of X'X; 0 is the theorem.
    fit_intercept : apply the theorem to X minus its mean, so that the origin does not matter. With
        False, X as it is (the paper).
    assign : what k-means runs on. "whitened": X_t W with axis j divided by sqrt(l_j (1 - l_j)), l_j
        its eigenvalue, so that the training clusters are round, as k-means takes them to be (the
        scale of linear discriminant analysis); "singular-vectors": the r = rank(X_t W) leading left
        singular vectors of X_t W (the relaxed k-means solution, the paper's); "projection": X_t W;
        "auto": "whitened" where C is a partition (`projector`), else "singular-vectors".
    projector : for memberships y (n, k): True orthonormalises them, C = Y Y^+; False takes any C =
        Y Y'.
    rank_tol : relative singular value that counts as zero; None for 1e-4 (float32) or 1e-7
        (float64). Eigenvalues of X'X are cut at ``rank_tol**2``; None: 4e-6 and 1e-12, what their
        own rounding asks for.
    subsample : share of the rows, in (0, 1], drawn from every dataset or chunk; below 1 the fit is
        approximate and costs that share.
    n_init, random_state : of k-means, and of the subsampling.

    Attributes
    ----------
    components_ : (r, d), the transpose of W.  intercept_ : (r,).  n_components_ : r.
    eigenvalues_ : (r,) of P_X C P_X in decreasing order; on the training data Delta = k + tr C - 2
        sum(eigenvalues_).
    classes_ : (k,) sorted labels, or column numbers of y.  n_clusters_ : how many clusters
        ``predict`` makes.
    statistics_ : the `PartitionStatistics` of all rows seen.  n_features_in_.

    Examples
    --------
    >>> import numpy as np
    >>> from gmlearn_mlca import MLCA
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1, 2], 50)
    >>> X = np.c_[np.eye(3)[y] + 0.1 * rng.normal(size=(150, 3)), 20 * rng.normal(size=150)]
    >>> model = MLCA(random_state=0).fit(X, y)
    >>> model.score(X, y)
    0.0
    """

    def __init__(
        self,
        kind: str = "multivariate",
        n_components: int | None = None,
        *,
        ridge: float = 0.0,
        fit_intercept: bool = True,
        assign: str = "auto",
        projector: bool = True,
        rank_tol: float | None = None,
        subsample: float = 1.0,
        n_init: int = 10,
        random_state: Any = None,
    ) -> None:
        self.kind = kind
        self.n_components = n_components
        self.ridge = ridge
        self.fit_intercept = fit_intercept
        self.assign = assign
        self.projector = projector
        self.rank_tol = rank_tol
        self.subsample = subsample
        self.n_init = n_init
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> MLCA:
        """Learn the metric. Classes are linked by their label when there are several datasets.

        Parameters
        ----------
        X : (n, d) array, memory-mapped array or sparse matrix; a list of such datasets; or, for
            data that does not fit in memory, a Dask array, or an iterator of pairs (X_chunk,
            y_chunk) with ``y=None``.
        y : labels (n,), memberships (n, k), or a list of them.
        """
        self._check_parameters()
        self._random = gm.check_random_state(self.random_state)
        for i, (Xi, yi) in enumerate(dataset_pairs(X, y)):
            self._absorb(Xi, yi, first=i == 0, may_grow=True)
        self._check_enough()
        return self._solve()

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> MLCA:
        """Add rows to what was learnt. O(n d^2 + d^3) for n new rows.

        `classes` announces all labels in the first call; without it they are those of the first
        chunk. The metric is there as soon as two classes have been seen.
        """
        self._check_parameters()
        first = not hasattr(self, "statistics_")
        if first:
            self._random = gm.check_random_state(self.random_state)
            if classes is not None and len(np.unique(np.asarray(classes))) < 2:
                raise ValueError(
                    f"classes: expected at least two different labels, got {classes!r}"
                )
        self._absorb(X, y, first=first, may_grow=False, classes=classes)
        return self._solve() if np.count_nonzero(self.statistics_.overlaps.diagonal()) > 1 else self

    def fit_statistics(
        self, statistics: PartitionStatistics, classes: Any = None, dtype: Any = np.float64
    ) -> MLCA:
        """Learn from statistics gathered elsewhere, for example the sum of those of many files or
        machines.

        Parameters
        ----------
        classes : (k,) sorted labels of the columns of Y; None for 0..k-1.
        dtype : precision of the rows they were made from; it sets the rank tolerance.
        """
        self._check_parameters()
        self.classes_ = (
            np.arange(statistics.n_classes) if classes is None else np.unique(np.asarray(classes))
        )
        if len(self.classes_) != statistics.n_classes:
            raise ValueError(
                f"classes: expected {statistics.n_classes} different labels, got "
                f"{len(self.classes_)}"
            )
        # a copy
        self.statistics_ = statistics.with_classes(
            statistics.n_classes, np.arange(statistics.n_classes)
        )
        self.n_features_in_ = statistics.n_features
        self._data_dtype, self._soft = np.dtype(dtype), False
        self._random = gm.check_random_state(self.random_state)
        self._check_enough()
        return self._solve()

    def transform(self, X: Any) -> np.ndarray:
        """X W (n, r): Euclidean distances there are distances under M. Float32 stays float32."""
        check_is_fitted(self, "components_")
        X = gm.validate_data(
            self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32]
        )
        return X @ self.components_.T.astype(X.dtype) + self.intercept_.astype(X.dtype)

    def predict(self, X: Any, n_clusters: int | None = None) -> np.ndarray:
        """Partition the dataset X (n, d) into `n_clusters_` clusters, numbered from 0.

        The partition is of X as a whole: the label of a row depends on the other rows, except for
        the univariate kind, where label 1 is the side of ``classes_[1]``.
        """
        Z = self.transform(X)
        if self.kind == "univariate":
            return (Z[:, 0] > 0).astype(np.int64)
        k = (
            self.n_clusters_
            if n_clusters is None
            else gm.check_number("n_clusters", n_clusters, low=1, integer=True)
        )
        if self.fit_intercept:
            Z = Z - Z.mean(axis=0)  # like k-means itself, blind to where the dataset lies
        assign = self.assign
        if assign == "auto":
            assign = "whitened" if self.projector else "singular-vectors"
        if assign == "singular-vectors":
            Z = leading_left_singular_vectors(Z, self._tolerance(Z.dtype))
        elif assign == "whitened" and len(self.eigenvalues_):
            Z = Z * round_clusters(self.eigenvalues_).astype(Z.dtype)
        return kmeans_labels(Z, k, self.n_init, self.random_state)

    def fit_predict(self, X: Any, y: Any = None) -> np.ndarray | list[np.ndarray]:
        """Learn from the partition y of X, then partition X (a list of datasets gives a list of
        partitions).
        """
        self.fit(X, y)
        if is_dataset_list(X):
            return [self.predict(x) for x in X]
        return self.predict(X)

    def score(self, X: Any, y: Any) -> float:
        """-Delta between ``predict(X)`` and the partition y (n,): 0 is perfect."""
        y = check_target(y, np.shape(X)[0])
        return 0.0 - delta_loss(self.predict(X), y)

    def get_mahalanobis_matrix(self) -> np.ndarray:
        """M = W W' (d, d), positive semidefinite, of rank r."""
        check_is_fitted(self, "components_")
        return self.components_.T @ self.components_

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _check_parameters(self) -> None:
        gm.check_choice("kind", self.kind, ("multivariate", "univariate"))
        gm.check_choice("assign", self.assign, ASSIGN)
        gm.check_number("ridge", self.ridge, low=0.0, high=1e100)
        gm.check_number("n_init", self.n_init, low=1, integer=True)
        if self.n_components is not None:
            gm.check_number("n_components", self.n_components, low=1, integer=True)
        if self.rank_tol is not None:
            gm.check_number("rank_tol", self.rank_tol, low=0.0, high=1.0)
        if not gm.check_number("subsample", self.subsample, low=0.0, high=1.0) > 0.0:
            raise ValueError(
                f"subsample: expected a share of the rows in (0, 1], got {self.subsample!r}"
            )

    def _absorb(self, X: Any, y: Any, *, first: bool, may_grow: bool, classes: Any = None) -> None:
        """Check one dataset or chunk and add it to the statistics."""
        X = gm.validate_data(
            self,
            X,
            reset=first,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            # non-finite entries are found in X'X, without a pass of their own
            ensure_all_finite=False,
        )
        y = check_target(y, X.shape[0])
        if self.subsample < 1.0:
            n_rows = max(1, int(np.ceil(self.subsample * X.shape[0])))
            rows = np.sort(
                sample_without_replacement(X.shape[0], n_rows, random_state=self._random)
            )
            X, y = X[rows], y[rows]
        if first:
            self._data_dtype = X.dtype
            self._soft = y.ndim == 2
            self.classes_ = (
                np.arange(y.shape[1])
                if self._soft
                else distinct(y if classes is None else np.asarray(classes))
            )
            self.statistics_ = PartitionStatistics(X.shape[1], len(self.classes_))
        # the coarsest precision seen sets the rank tolerance
        self._data_dtype = min(self._data_dtype, X.dtype)
        if self._soft != (y.ndim == 2) or (self._soft and y.shape[1] != len(self.classes_)):
            kind = f"memberships (n, {len(self.classes_)})" if self._soft else "labels (n,)"
            raise ValueError(f"y: expected {kind} as in the first dataset, got shape {y.shape}")
        if not self._soft and may_grow and not first:
            self.classes_, position = merge_classes(self.classes_, distinct(y))
            self.statistics_ = self.statistics_.with_classes(len(self.classes_), position)
        self.statistics_.add(X, y, None if self._soft else self.classes_)

    def _check_enough(self) -> None:
        seen = np.count_nonzero(self.statistics_.overlaps.diagonal())
        n = self.statistics_.n_samples
        if seen < 2 and self.projector:
            raise ValueError(
                f"y: expected at least two classes, got {seen} class(es) in n_samples = {n}: with "
                f"one cluster "
                "there is nothing to learn"
            )
        if n < len(self.classes_):
            raise ValueError(
                f"X: expected at least as many samples as classes, got n_samples = {n} for "
                f"{len(self.classes_)}"
            )

    def _solve(self) -> MLCA:
        """Statistics -> W."""
        stats = self.statistics_
        if self.kind == "univariate" and stats.n_classes != 2:
            raise ValueError(
                f"kind: 'univariate' is for two classes, got {stats.n_classes}; use 'multivariate'"
            )
        self.n_clusters_ = (
            2
            if self.kind == "univariate"
            else (
                int(np.count_nonzero(stats.overlaps.diagonal()))
                if self.projector
                else (self.n_components or stats.n_classes)
            )
        )
        factor = partition_factor(stats.overlaps, self.kind, self.projector)
        gram, cross = stats.regression(self.fit_intercept)
        gram_tol = GRAM_TOLERANCE[self._data_dtype] if self.rank_tol is None else self.rank_tol**2
        W, self.eigenvalues_ = closed_form(
            gram,
            cross @ factor,
            self.n_components or self.n_clusters_,
            ridge=self.ridge,
            tol=self._tolerance(self._data_dtype),
            gram_tol=gram_tol,
            target_norm=np.sqrt(np.linalg.norm(factor.T @ stats.overlaps @ factor, 2)),
            floor=stats.rounding(self._data_dtype, gram_tol) if self.fit_intercept else None,
        )
        if not W.shape[1]:  # P_X C P_X = 0: every metric of full rank is optimal
            W = np.eye(len(gram)) / np.sqrt(len(gram))
        self.components_ = np.ascontiguousarray(W.T)
        self.n_components_ = W.shape[1]
        self.intercept_ = np.zeros(self.n_components_)
        if self.fit_intercept:
            self.intercept_ = -stats.mean @ W
            # the sign rule needs the regression's constant term, the mean of u
            if self.kind == "univariate":
                self.intercept_ += (stats.weights @ factor) / stats.n_samples
        return self

    def _tolerance(self, dtype: Any) -> float:
        return self.rank_tol if self.rank_tol is not None else RANK_TOLERANCE[np.dtype(dtype)]
