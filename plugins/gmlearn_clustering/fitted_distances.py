"""Supervised distances for the bank: squared distance after a linear projection fitted on labelled training points."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator


class LDAProjection(BaseEstimator):
    """Regularised linear discriminant projection of one view, or of all views side by side.

    The view is standardised and reduced by principal components first; within-class scatter is shrunk (Ledoit and Wolf),
    so that small classes do not overfit.

    Parameters
    ----------
    view : index of the view, or None for the concatenation of all standardised views.
    n_components : dimension kept by the principal components.
    """

    kind = "lda"

    def __init__(self, view: int | None = None, n_components: int = 150):
        self.view = view
        self.n_components = n_components

    @property
    def label(self) -> str:
        """Name in plots and tables."""
        return f"{'all views' if self.view is None else f'view {self.view}'} {self.kind}"

    def fit(self, views: list[np.ndarray], y: np.ndarray) -> LDAProjection:
        """Fit on training points: list of (N, D_v), labels (N,)."""
        from sklearn.decomposition import PCA
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

        self.means_ = [v.mean(axis=0) for v in views]
        self.stds_ = [np.where(v.std(axis=0) > 0, v.std(axis=0), 1.0) * np.sqrt(v.shape[1]) for v in views]
        X = self._chosen(views)
        n_components = min(self.n_components, X.shape[1], max(1, len(X) - 1))
        self.reduction_ = PCA(n_components, random_state=0).fit(X)
        self.projection_ = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(self.reduction_.transform(X), y)
        return self

    def transform(self, views: list[np.ndarray]) -> np.ndarray:
        """Projected points (N, number of classes - 1)."""
        return self.projection_.transform(self.reduction_.transform(self._chosen(views)))

    def _chosen(self, views: list[np.ndarray]) -> np.ndarray:
        scaled = [(v - m) / s for v, m, s in zip(views, self.means_, self.stds_)]
        return np.hstack(scaled) if self.view is None else scaled[self.view]


class LDAPosterior(LDAProjection):
    """Square roots of the class probabilities under the discriminant model, so that distances are Hellinger distances.

    Two points are near if the model is unsure between the same classes.
    """

    kind = "posterior"

    def transform(self, views: list[np.ndarray]) -> np.ndarray:
        """Embedded points (N, number of classes), of unit length."""
        return np.sqrt(self.projection_.predict_proba(self.reduction_.transform(self._chosen(views))))
