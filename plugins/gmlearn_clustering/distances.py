"""Distance features f_pq: what the learnt distance d_pq = w . f_pq is made of.

A *bank* is fitted on training samples (it stores one normalisation per feature: the mean over
training pairs) and turns a sample into `SampleDistances`, which gives d(w) and sums of features
over chosen pairs without ever holding N x N x D numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

import gmlearn as gm
from gmlearn_clustering.energy import check_costs, with_penalty
from gmlearn_clustering.metrics import METRICS, deviations, named_distance, squared_euclidean


class SampleDistances(Protocol):
    """The features of one sample: F features for each of its N x N pairs."""

    n_points: int
    n_features: int

    def matrix(self, w: Any) -> np.ndarray:
        """d_pq = w . f_pq, (N, N), zero diagonal; w is None where there are no features."""

    def gather(self, target: np.ndarray) -> np.ndarray:
        """sum over p of f_{p, target_p}, (F,); target (N,)."""

    def rows(self, points: np.ndarray, target: np.ndarray) -> np.ndarray:
        """f_{p, target_p} of some points, (M, F); points, target (M,)."""

    def take(self, points: np.ndarray) -> SampleDistances:
        """The sample of some points (M,) alone."""

    def means(self) -> np.ndarray:
        """Mean of every feature over the ordered pairs p != q, (F,)."""


class FixedDistances:
    """Given distances d_pq (N, N), asymmetric allowed, +inf forbids: no features, no weights."""

    n_features = 0

    def __init__(self, distances: np.ndarray):
        self.distances = with_penalty(check_costs("distances", distances), 0.0)
        self.n_points = len(self.distances)

    def matrix(self, w: np.ndarray | None) -> np.ndarray:
        """The given distances, zero diagonal."""
        return self.distances

    def gather(self, target: np.ndarray) -> np.ndarray:
        """No features, (0,)."""
        return np.zeros(0)

    def rows(self, points: np.ndarray, target: np.ndarray) -> np.ndarray:
        """No features, (M, 0)."""
        return np.zeros((len(points), 0))

    def take(self, points: np.ndarray) -> FixedDistances:
        return FixedDistances(self.distances[np.ix_(points, points)])

    def means(self) -> np.ndarray:
        """No features, (0,)."""
        return np.zeros(0)


class _RemembersLast:
    """Keeps the matrix of the last weights: completion and slaves ask for the same one in every
    round.
    """

    _last: tuple[np.ndarray, np.ndarray] | None = None

    def matrix(self, w: np.ndarray) -> np.ndarray:
        """d_pq = w . f_pq, (N, N), zero diagonal; not to be written to."""
        if self._last is None or not np.array_equal(self._last[0], w):
            distances = self._matrix(w)
            distances.flags.writeable = False
            self._last = (np.array(w), distances)
        return self._last[1]

    def _matrix(self, w: np.ndarray) -> np.ndarray:
        raise TypeError("a sample of distances must define _matrix(w)")


class EuclideanSample(_RemembersLast):
    """f_pq,i = (z_pi - z_qi)^2: distances by one matrix product O(N^2 D), gathered features O(N
    D).
    """

    _gathered: tuple[np.ndarray, np.ndarray] | None = None

    def __init__(self, Z: np.ndarray):
        self.Z = np.ascontiguousarray(Z - Z.mean(axis=0))
        self.n_points, self.n_features = Z.shape

    def _matrix(self, w: np.ndarray) -> np.ndarray:
        distances = (self.Z * (-2.0 * w)) @ self.Z.T
        own = -0.5 * np.diagonal(distances)
        distances += own[:, None]
        distances += own[None, :]
        np.fill_diagonal(distances, 0.0)
        return distances

    def gather(self, target: np.ndarray) -> np.ndarray:
        from gmlearn_clustering import _slaves_numba as kernels

        # energy and features of a completion ask for the same one
        target = np.asarray(target, dtype=np.int64)
        if self._gathered is None or not np.array_equal(self._gathered[0], target):
            found = kernels.squared_differences(self.Z, target)
            found.flags.writeable = False
            self._gathered = (target.copy(), found)
        return self._gathered[1]

    def rows(self, points: np.ndarray, target: np.ndarray) -> np.ndarray:
        return (self.Z[points] - self.Z[target]) ** 2

    def take(self, points: np.ndarray) -> EuclideanSample:
        return EuclideanSample(self.Z[points])

    def means(self) -> np.ndarray:
        # the sum over ordered pairs of (z_p - z_q)^2 is 2 N^2 times the variance
        return 2.0 * self.n_points * self.Z.var(axis=0) / max(self.n_points - 1, 1)


class MatrixSample(_RemembersLast):
    """Given distance matrices, (F, N, N)."""

    def __init__(self, matrices: np.ndarray):
        self.matrices = np.array(matrices, dtype=np.float64)
        self.n_features, self.n_points = matrices.shape[:2]
        # the diagonal belongs to the penalty
        self.matrices[:, np.arange(self.n_points), np.arange(self.n_points)] = 0.0

    def _matrix(self, w: np.ndarray) -> np.ndarray:
        return (w @ self.matrices.reshape(self.n_features, -1)).reshape(
            self.n_points, self.n_points
        )

    def gather(self, target: np.ndarray) -> np.ndarray:
        return self.matrices[:, np.arange(self.n_points), target].sum(axis=1)

    def rows(self, points: np.ndarray, target: np.ndarray) -> np.ndarray:
        return self.matrices[:, points, target].T

    def take(self, points: np.ndarray) -> MatrixSample:
        return MatrixSample(self.matrices[:, points[:, None], points[None, :]])

    def means(self) -> np.ndarray:
        return pair_means([self.matrices])


class DimensionBank:
    """One feature per dimension: d_pq = sum_i w_i (x_pi - x_qi)^2 / scale_i.

    Attributes
    ----------
    scale_ : (D,) mean squared difference over training pairs; a constant dimension keeps scale 1
        and never matters.
    """

    def fit(
        self, samples: Sequence[Any], labels: Sequence[np.ndarray] | None = None
    ) -> DimensionBank:
        """Learn the normalisation from samples (N_k, D)."""
        samples = [self._check(f"X[{k}]", X) for k, X in enumerate(samples)]
        total, pairs = np.zeros(samples[0].shape[1]), 0
        for k, X in enumerate(samples):
            if X.shape[1] != len(total):
                raise ValueError(
                    f"X[{k}]: expected {len(total)} features as in X[0], got {X.shape[1]}"
                )
            # the sum over ordered pairs of (x_p - x_q)^2
            total += 2.0 * len(X) ** 2 * X.var(axis=0)
            pairs += len(X) * (len(X) - 1)
        mean = total / max(pairs, 1)
        self.scale_ = np.where(mean > 0, mean, 1.0)
        self.names_ = [f"dimension {i}" for i in range(len(total))]
        return self

    def prepare(self, X: Any) -> EuclideanSample:
        """The features within one sample."""
        return EuclideanSample(self._rows(X) / np.sqrt(self.scale_))

    def cross(self, X: Any, Y: Any, w: np.ndarray) -> np.ndarray:
        """d(x, y) between two sets, (N, M)."""
        return squared_euclidean(self._rows(X), self._rows(Y), w / self.scale_)

    def _rows(self, X: Any) -> np.ndarray:
        X = self._check("X", X)
        if X.shape[1] != len(self.scale_):
            raise ValueError(
                f"X: expected {len(self.scale_)} features as in training, got {X.shape[1]}"
            )
        return X

    @staticmethod
    def _check(name: str, X: Any) -> np.ndarray:
        return gm.check_array(name, X, ndim=2)


class PrecomputedBank:
    """Given matrices: a sample is an (F, N, N) array (or a list of F matrices), one weight each;
    asymmetric allowed.
    """

    def fit(
        self, samples: Sequence[Any], labels: Sequence[np.ndarray] | None = None
    ) -> PrecomputedBank:
        """Learn the normalisation: the mean of every feature over training pairs p != q."""
        stacks = [_matrices(f"X[{k}]", X) for k, X in enumerate(samples)]
        n_features = len(stacks[0])
        for k, stack in enumerate(stacks):
            if len(stack) != n_features:
                raise ValueError(
                    f"X[{k}]: expected {n_features} distance matrices as in X[0], got {len(stack)}"
                )
        self.scale_ = pair_means(stacks)
        self.names_ = [f"matrix {i}" for i in range(n_features)]
        return self

    def prepare(self, X: Any) -> MatrixSample:
        """The features within one sample."""
        stack = _matrices("X", X)
        if len(stack) != len(self.scale_):
            raise ValueError(
                f"X: expected {len(self.scale_)} distance matrices as in training, got {len(stack)}"
            )
        return MatrixSample(stack / self.scale_[:, None, None])

    def cross(self, X: Any, Y: Any, w: np.ndarray) -> np.ndarray:
        raise ValueError(
            "cross: precomputed distances hold no points; give the matrix between the sets yourself"
        )


class DistanceBank:
    """Several distances over one or several views of the points, one weight each.

    A sample is one array (N, D), or a sequence of views, arrays (N, D_v) of the same N points.

    Parameters
    ----------
    distances : list of (view, metric) with metric "l2", "euclidean", "l1", "chi2", "shifted-chi2",
        "cosine", "rbf", or a callable (X, Y) -> (N, M) matrix; (view, metric, "standardised")
        divides the columns of the view by their deviations in training; or objects with
        ``fit(views, labels)`` and ``transform(views)`` such as `LDAProjection`, compared by squared
        distance after the projection. None: "l2" and "l1" of every view. "unsupervised": l2, l1
        and rbf of the standardised columns and chi2 of every view (Komodakis 2011).
    """

    def __init__(self, distances: Sequence[Any] | str | None = None):
        self.distances = distances

    def fit(
        self, samples: Sequence[Any], labels: Sequence[np.ndarray] | None = None
    ) -> DistanceBank:
        """Fit the supervised distances and the normalisations on the training samples."""
        views = [as_views(X) for X in samples]
        self.view_sizes_ = [v.shape[1] for v in views[0]]
        for k, sample in enumerate(views):
            self._check_views(f"X[{k}]", sample)
        n_views = len(self.view_sizes_)
        chosen: Any = self.distances
        if chosen is None:
            chosen = [(v, m) for v in range(n_views) for m in ("l2", "l1")]
        elif isinstance(chosen, str):
            gm.check_choice("distances", chosen, ("unsupervised",))
            chosen = [entry for v in range(n_views) for entry in _unsupervised(v)]
        if len(chosen) == 0:
            raise ValueError(
                "distances: expected at least one distance, got an empty list; None takes l2 and "
                "l1 of every view"
            )
        stacked = [np.concatenate([s[v] for s in views]) for v in range(len(self.view_sizes_))]
        self.features_ = [_Feature(entry, stacked, labels) for entry in chosen]
        self.names_ = [f.name for f in self.features_]
        self.scale_ = np.ones(len(self.features_))
        self.scale_ = pair_means([self._stack(s, s) for s in views])
        return self

    def prepare(self, X: Any) -> MatrixSample:
        """The features within one sample."""
        views = self._check_views("X", as_views(X))
        return MatrixSample(self._stack(views, views))

    def cross(self, X: Any, Y: Any, w: np.ndarray) -> np.ndarray:
        """d(x, y) between two sets, (N, M)."""
        return np.tensordot(w, self.cross_features(X, Y), axes=1)

    def cross_features(self, X: Any, Y: Any) -> np.ndarray:
        """The features between two sets, (F, N, M)."""
        return self._stack(self._check_views("X", as_views(X)), self._check_views("Y", as_views(Y)))

    def _stack(self, X: list[np.ndarray], Y: list[np.ndarray]) -> np.ndarray:
        return np.stack([f(X, Y) / s for f, s in zip(self.features_, self.scale_)])

    def _check_views(self, name: str, views: list[np.ndarray]) -> list[np.ndarray]:
        sizes = [v.shape[1] for v in views]
        if sizes != self.view_sizes_:
            raise ValueError(
                f"{name}: expected views with {self.view_sizes_} features as in training, got "
                f"{sizes}"
            )
        return views


class _Feature:
    """One entry of a bank, ready to compare two lists of views."""

    def __init__(self, entry: Any, views: list[np.ndarray], labels: Sequence[np.ndarray] | None):
        self.projection: Any = None
        if hasattr(entry, "transform"):
            if labels is None:
                raise ValueError(f"distances: {entry!r} is supervised and needs labels")
            from sklearn.base import clone

            self.projection = clone(entry).fit(views, np.concatenate(labels))
            self.name = str(entry.label)
            self.distance: Callable = squared_euclidean
            return
        try:
            self.view, metric, *how = entry
        except (TypeError, ValueError):
            raise ValueError(
                f"distances: expected (view, metric) or a projection, got {entry!r}"
            ) from None
        if how not in ([], ["standardised"]):
            raise ValueError(
                f"distances: expected (view, metric) or (view, metric, 'standardised'), got "
                f"{entry!r}"
            )
        gm.check_number("distances: view", self.view, low=0, high=len(views) - 1, integer=True)
        if not callable(metric):
            gm.check_choice("distances: metric", metric, METRICS)
        self.deviation = deviations(views[self.view]) if how else None
        rows = self._rows(views)
        self.distance = metric if callable(metric) else named_distance(metric, rows)
        self.name = f"view {self.view} {getattr(metric, '__name__', metric)}"

    def __call__(self, X: list[np.ndarray], Y: list[np.ndarray]) -> np.ndarray:
        if self.projection is not None:
            A = self.projection.transform(X)
            return squared_euclidean(A, A if X is Y else self.projection.transform(Y))
        rows = self._rows(X)
        others = rows if X is Y else self._rows(Y)
        matrix = np.asarray(self.distance(rows, others), dtype=np.float64)
        expected = (len(X[self.view]), len(Y[self.view]))
        if matrix.shape != expected:
            raise ValueError(
                f"distances: {self.name} must return a matrix of shape {expected}, got shape "
                f"{matrix.shape}"
            )
        if not (np.isfinite(matrix) & (matrix >= 0.0)).all():
            worst = matrix[np.nonzero(~(np.isfinite(matrix) & (matrix >= 0.0)))][0]
            raise ValueError(
                f"distances: {self.name} must return finite distances >= 0, got {worst:g}"
            )
        return matrix

    def _rows(self, views: list[np.ndarray]) -> np.ndarray:
        """The view's rows, columns divided by their deviations if asked for."""
        rows = views[self.view]
        return rows if self.deviation is None else rows / self.deviation


def _unsupervised(view: int) -> list[tuple]:
    """Four distances of a view that need no labels."""
    plain = [(view, metric, "standardised") for metric in ("l2", "l1", "rbf")]
    return [*plain, (view, "shifted-chi2")]


def as_views(X: Any) -> list[np.ndarray]:
    """A sample as a list of arrays (N, D_v)."""
    views = list(X) if isinstance(X, (list, tuple)) and np.ndim(X[0]) == 2 else [X]
    views = [gm.check_array(f"view {v}", view, ndim=2) for v, view in enumerate(views)]
    if len({len(v) for v in views}) != 1:
        raise ValueError(
            f"X: expected views of the same points, got {[len(v) for v in views]} rows"
        )
    return views


def _matrices(name: str, X: Any) -> np.ndarray:
    stack = gm.check_array(name, X, ndim=3)
    for i, matrix in enumerate(stack):
        check_costs(f"{name}[{i}]", matrix, allow_negative=False)
    return stack


def pair_means(stacks: Sequence[np.ndarray]) -> np.ndarray:
    """Mean of every feature over the ordered pairs p != q of all samples."""
    total = sum(s.sum(axis=(1, 2)) - np.trace(s, axis1=1, axis2=2) for s in stacks)
    mean = np.asarray(total) / max(sum(s.shape[1] * (s.shape[1] - 1) for s in stacks), 1)
    return np.where(mean > 0, mean, 1.0)
