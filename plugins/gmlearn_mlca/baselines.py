"""Rivals of MLCA that no maintained library provides: KISSME, XQDA and a small ITML, on all or
on sampled pairs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

import gmlearn as gm
from gmlearn_mlca.assign import kmeans_labels
from gmlearn_mlca.inputs import check_target


class MetricClusterer(TransformerMixin, BaseEstimator, ABC):
    """A learnt M = L L' (d, d): ``transform`` is X L, ``predict`` is k-means there."""

    def fit(self, X: Any, y: Any = None) -> MetricClusterer:
        """Learn L from rows X (n, d) with labels y (n,)."""
        X = gm.validate_data(self, X, dtype=[np.float64, np.float32])
        y = check_target(y, len(X))
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y: expected at least two classes, got {len(self.classes_)} class")
        self.n_clusters_ = len(self.classes_)
        self.components_ = self._learn(X, codes).T
        return self

    def transform(self, X: Any) -> np.ndarray:
        """X L (n, r)."""
        check_is_fitted(self, "components_")
        X = gm.validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return X @ self.components_.T.astype(X.dtype)

    def predict(self, X: Any, n_clusters: int | None = None) -> np.ndarray:
        """k-means labels (n,) of X under the learnt metric; None: `n_clusters_` of them, the most
        classes of a training set.
        """
        if n_clusters is not None:
            gm.check_number("n_clusters", n_clusters, low=1, integer=True)
        points = self.transform(X)
        return kmeans_labels(points, n_clusters or self.n_clusters_, 10, self.random_state)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    @abstractmethod
    def _learn(self, X: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """L (d, r) from rows X (n, d) with class numbers (n,)."""


class KISSME(MetricClusterer):
    """Koestinger et al. 2012: M = the PSD part of Sigma_S^{-1} - Sigma_D^{-1}, over all pairs of
    samples.

    Sigma_S and Sigma_D are the mean outer products of the differences of similar and dissimilar
    pairs. They follow from class scatter matrices, so all n(n-1)/2 pairs cost O(n d^2).
    """

    def __init__(self, ridge: float = 1e-9, random_state: Any = None) -> None:
        self.ridge = ridge
        self.random_state = random_state

    def _learn(self, X: np.ndarray, codes: np.ndarray) -> np.ndarray:
        ridge = gm.check_number("ridge", self.ridge, low=0.0, high=1e100)
        similar, dissimilar = pair_scatters(X, codes, ridge)
        return psd_factor(np.linalg.inv(similar) - np.linalg.inv(dissimilar))


class XQDA(MetricClusterer):
    """Liao et al. 2015: KISSME in the subspace where dissimilar pairs spread more than similar
    ones.

    The subspace is spanned by the generalised eigenvectors of (Sigma_D, Sigma_S) with eigenvalue
    above 1 (at least one is kept, at most `n_components`).
    """

    def __init__(
        self, n_components: int | None = None, ridge: float = 1e-3, random_state: Any = None
    ) -> None:
        self.n_components = n_components
        self.ridge = ridge
        self.random_state = random_state

    def _learn(self, X: np.ndarray, codes: np.ndarray) -> np.ndarray:
        ridge = gm.check_number("ridge", self.ridge, low=0.0, high=1e100)
        similar, dissimilar = pair_scatters(X, codes, ridge)
        values, vectors = scipy.linalg.eigh(dissimilar, similar)
        n_kept = max(1, int(np.sum(values > 1.0)))
        if self.n_components is not None:
            n_kept = min(
                n_kept, gm.check_number("n_components", self.n_components, low=1, integer=True)
            )
        P = vectors[:, ::-1][:, :n_kept]
        inner = np.linalg.inv(P.T @ similar @ P) - np.linalg.inv(P.T @ dissimilar @ P)
        return P @ psd_factor(inner)


class ITML(MetricClusterer):
    """Davis et al. 2007: the M nearest to the identity in LogDet divergence with similar pairs
    near, dissimilar ones far.

    Cyclic Bregman projections onto `n_pairs` sampled pair constraints; each is a rank-one update,
    O(d^2).

    Parameters
    ----------
    n_pairs, n_sweeps : how many pairs, how often each is visited.
    gamma : weight of the slack on the distance bounds, which are the 5 and 95 % quantiles of
        sampled distances.
    """

    def __init__(
        self, n_pairs: int = 1000, n_sweeps: int = 20, gamma: float = 1.0, random_state: Any = None
    ) -> None:
        self.n_pairs = n_pairs
        self.n_sweeps = n_sweeps
        self.gamma = gamma
        self.random_state = random_state

    def _learn(self, X: np.ndarray, codes: np.ndarray) -> np.ndarray:
        gm.check_number("n_pairs", self.n_pairs, low=1, high=2**31, integer=True)
        gm.check_number("n_sweeps", self.n_sweeps, low=1, integer=True)
        gm.check_number("gamma", self.gamma, low=0.0, high=1e100, strict=True)
        rng = gm.check_random_state(self.random_state)
        i, j = rng.randint(len(X), size=(2, self.n_pairs))
        i, j = i[i != j], j[i != j]
        differences = (X[i] - X[j]).astype(np.float64)
        sign = np.where(codes[i] == codes[j], 1.0, -1.0)
        near, far = np.quantile(np.einsum("id,id->i", differences, differences), [0.05, 0.95])
        bounds = np.where(sign > 0, max(near, 1e-12), far)
        multipliers, M = np.zeros(len(i)), np.eye(X.shape[1])
        for _ in range(self.n_sweeps):
            for t, v in enumerate(differences):
                Mv = M @ v
                distance = v @ Mv
                if distance <= 1e-12:
                    continue
                step = min(
                    multipliers[t], 0.5 * sign[t] * (1.0 / distance - self.gamma / bounds[t])
                )
                multipliers[t] -= step
                beta = sign[t] * step / (1.0 - sign[t] * step * distance)
                bounds[t] = self.gamma * bounds[t] / (self.gamma + sign[t] * step * bounds[t])
                M += beta * np.outer(Mv, Mv)
        return psd_factor(M)


def pair_scatters(X: np.ndarray, codes: np.ndarray, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    """Sigma_S and Sigma_D (d, d): mean of (x_i - x_j)(x_i - x_j)' over all similar and over all
    dissimilar pairs.

    With scatters S_c about the class means, the sum over ordered similar pairs is 2 sum_c n_c S_c,
    over all pairs 2 n S.
    """
    centred = X.astype(np.float64) - X.mean(axis=0)
    n, d = X.shape
    everything = 2.0 * n * (centred.T @ centred)
    similar = np.zeros((d, d))
    counts = np.bincount(codes)
    for c, n_c in enumerate(counts):
        rows = centred[codes == c]
        total = rows.sum(axis=0)
        similar += 2.0 * (n_c * (rows.T @ rows) - np.outer(total, total))
    n_similar = max(1.0, float(np.sum(counts * (counts - 1.0))))
    pair = similar / n_similar, (everything - similar) / (n**2 - np.sum(counts.astype(float) ** 2))
    return tuple(S + ridge * np.trace(S) / d * np.eye(d) for S in pair)


def psd_factor(M: np.ndarray) -> np.ndarray:
    """L (d, r) with L L' = the positive semidefinite part of the symmetric M."""
    values, vectors = np.linalg.eigh((M + M.T) / 2.0)
    keep = values > 1e-12 * max(abs(values[0]), abs(values[-1]))
    if not keep.any():
        return np.zeros((len(M), 1))
    return vectors[:, keep] * np.sqrt(values[keep])
