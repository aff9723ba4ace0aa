"""Supervised distances for the bank: squared distance after a projection fitted on labelled
training points.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

import gmlearn as gm
from gmlearn_clustering.metrics import deviations


def location(views: list[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Means (D_v,) of every view, and deviations times the square root of its dimension."""
    return [v.mean(axis=0) for v in views], [deviations(v) * np.sqrt(v.shape[1]) for v in views]


class FittedView(BaseEstimator):
    """What the projections share: one view, or all views side by side, standardised and reduced to
    principal components.

    Views are divided by the square root of their dimension, so that each counts the same beside the
    others. Directions in which the training points do not vary are dropped: a projection that
    divides by their spread would send new points anywhere.

    Parameters
    ----------
    view : index of the view, or None for the concatenation of all views.
    n_components : number of principal components kept at most.
    shrinkage : share of the identity in the scatter matrix that is inverted, in (0, 1].
    align : standardise every set by its own means and deviations instead of those of the training
        points. If a set was taken under other conditions, which move or stretch all its points
        alike (light, distance, another device), this undoes the
        change. It needs whole sets in which the classes are about as frequent as in training: not
        single points, and not sets that lack classes.
    """

    kind = ""

    def __init__(
        self,
        view: int | None = None,
        n_components: int = 300,
        shrinkage: float = 0.1,
        align: bool = False,
    ):
        self.view = view
        self.n_components = n_components
        self.shrinkage = shrinkage
        self.align = align

    @property
    def label(self) -> str:
        """Name in plots and tables."""
        views = "all views" if self.view is None else f"view {self.view}"
        return f"{views} {'aligned ' if self.align else ''}{self.kind}"

    def fit(self, views: list[np.ndarray], y: np.ndarray) -> Any:
        """Fit on training points: list of (N, D_v), labels (N,)."""
        gm.check_number("n_components", self.n_components, low=1, integer=True)
        gm.check_number("shrinkage", self.shrinkage, low=0.0, high=1.0, strict=True)
        if self.view is not None:
            gm.check_number("view", self.view, low=0, high=len(views) - 1, integer=True)
        if not isinstance(self.align, (bool, np.bool_)):
            raise ValueError(f"align: expected True or False, got {self.align!r}")
        y = np.unique(y, return_inverse=True)[1]
        self.means_, self.deviations_ = location(views)
        X = self._chosen(views, self.means_, self.deviations_)
        _, singular, axes = np.linalg.svd(X, full_matrices=False)
        kept = max(1, min(self.n_components, int((singular > 1e-6 * singular[0]).sum())))
        self.basis_ = axes[:kept].T
        self._fit(X @ self.basis_, np.eye(y.max() + 1)[y])
        return self

    def transform(self, views: list[np.ndarray]) -> np.ndarray:
        """Projected points (N, d); they are compared by squared distance."""
        if self.align and len(views[0]) < 2:
            raise ValueError(
                f"X: aligned distances need a set of points, got {len(views[0])}; set align=False "
                f"for single points"
            )
        place = location(views) if self.align else (self.means_, self.deviations_)
        return self._chosen(views, *place) @ (self.basis_ @ self.projection_)

    def _fit(self, X: np.ndarray, member: np.ndarray) -> None:
        raise TypeError("a fitted view must define _fit(X, member), which sets projection_")

    def _shrunk(self, scatter: np.ndarray) -> np.ndarray:
        """(1 - shrinkage) S + shrinkage tr(S)/d I, positive definite."""
        d = len(scatter)
        level = max(float(np.trace(scatter)) / d, 1e-300)
        return (1.0 - self.shrinkage) * scatter + self.shrinkage * level * np.eye(d)

    def _chosen(
        self, views: list[np.ndarray], means: list[np.ndarray], scales: list[np.ndarray]
    ) -> np.ndarray:
        scaled = [(v - m) / s for v, m, s in zip(views, means, scales)]
        return np.hstack(scaled) if self.view is None else scaled[self.view]


class LDAProjection(FittedView):
    """Regularised linear discriminants: the leading v of S_between v = mu S_within v, with v'
    S_within v = 1; at most (number of classes - 1) of them. O(N D min(N, D))."""

    kind = "lda"

    def _fit(self, X: np.ndarray, member: np.ndarray) -> None:
        import scipy.linalg

        counts = member.sum(axis=0)
        centres = (member / counts).T @ X
        within = X - member @ centres
        between = centres * np.sqrt(counts / len(X))[:, None]
        d, n_kept = X.shape[1], min(X.shape[1], len(centres) - 1)
        _, vectors = scipy.linalg.eigh(
            between.T @ between,
            self._shrunk(within.T @ within / len(X)),
            subset_by_index=[d - n_kept, d - 1],
        )
        self.projection_ = vectors[:, ::-1]
        self.centres_ = centres @ self.projection_
        self.log_share_ = np.log(counts / len(X))


class LDAPosterior(LDAProjection):
    """Square roots of the class probabilities under the discriminant model (Gaussians of one
    covariance), so that distances are Hellinger distances.

    Two points are near if the model is unsure between the same classes.
    """

    kind = "posterior"

    def transform(self, views: list[np.ndarray]) -> np.ndarray:
        """Embedded points (N, number of classes), of unit length."""
        from scipy.special import softmax

        from gmlearn_clustering.metrics import squared_euclidean

        return np.sqrt(
            softmax(
                self.log_share_ - 0.5 * squared_euclidean(super().transform(views), self.centres_),
                axis=1,
            )
        )


class MLCAProjection(FittedView):
    """The closed-form metric for supervised clustering: W = (X'X)^+ X'J with J = Y (Y'Y)^(-1/2), Y
    one-hot, X centred.

    k-means under M = W W' has the true partition as its relaxed optimum where X can express it. X'X
    is shrunk as in ridge regression; with little shrinkage small sets are fitted perfectly, so
    cross-fit.
    """

    kind = "mlca"

    def _fit(self, X: np.ndarray, member: np.ndarray) -> None:
        J = member / np.sqrt(member.sum(axis=0))
        self.projection_ = np.linalg.solve(self._shrunk(X.T @ X), X.T @ J)
