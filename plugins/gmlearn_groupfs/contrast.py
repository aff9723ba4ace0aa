r"""The cheap cluster classifiers: how much more similar a point is to the cluster than to the
rest, kernel by kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gmlearn_groupfs.similarity import Similarity


def leave_one_out_contrasts(
    kernels: np.ndarray, labels: np.ndarray, n_clusters: int, totals: np.ndarray | None = None
) -> np.ndarray:
    r"""Mean similarity to the members of a cluster less that to the rest, the point itself left
    out.

    kernels : (M, n, n) with zero diagonal.   totals : their row sums (M, n), if known. Returns
    (C, n, M): :math:`\phi_{cim} = \operatorname{mean}_{j \in c \setminus i} K_m(i, j) -
    \operatorname{mean}_{j \notin c, j \ne i} K_m(i, j)`. Cost O(M n^2 C), one matrix product.
    """
    member = np.eye(n_clusters)[labels]
    inside = kernels @ member.astype(kernels.dtype)
    totals = kernels.sum(axis=2) if totals is None else totals
    outside = totals[:, :, None] - inside
    n_inside = member.sum(axis=0) - member
    n_outside = (1 - member).sum(axis=0) - (1 - member)
    contrast = inside / np.maximum(n_inside, 1) - outside / np.maximum(n_outside, 1)
    return np.ascontiguousarray(contrast.transpose(2, 1, 0))


@dataclass(frozen=True, eq=False)
class ContrastModel:
    """Trained contrast classifiers: f_c(x) = b_c + sum_m w_cm phi_cm(x)."""

    similarity: Similarity
    labels: np.ndarray
    weights: np.ndarray
    usage: np.ndarray

    def decision(self, cross: np.ndarray) -> np.ndarray:
        """Scores (k, C) from cross-kernels (M, k, n)."""
        scaled = self.similarity.cross(cross)
        member = np.eye(len(self.weights))[self.labels]
        inside, outside = scaled @ (member / np.maximum(member.sum(axis=0), 1)), 1 - member
        contrast = inside - scaled @ (outside / np.maximum(outside.sum(axis=0), 1))
        return np.einsum("mkc,cm->kc", contrast, self.weights[:, :-1]) + self.weights[:, -1]


class ContrastClassifiers:
    """Non-negative logistic models over leave-one-out contrasts, their weights shrunk towards each
    other.

    Cross-fitting comes free with the contrasts: no point sees its own label, and M + 1 weights
    cannot memorise.

    Parameters
    ----------
    kernels : (M, n, n).   n_clusters : C.   shrinkage : strength of the pull towards equal weights.
    n_neighbours, evidence : of `Similarity`.
    """

    name = "contrast"

    def __init__(
        self,
        kernels: np.ndarray,
        n_clusters: int,
        shrinkage: float = 10.0,
        n_neighbours: int | None = None,
        evidence: np.ndarray | None = None,
    ):
        self.n_clusters, self.shrinkage = n_clusters, shrinkage
        self.similarity = Similarity(kernels, n_neighbours, evidence)
        # means of many entries: single precision does, at half the time
        self._narrow = self.similarity.kernels.astype(np.float32)
        self._totals = self.similarity.kernels.sum(axis=2)
        self._last: np.ndarray | None = None

    def scores(self, labels: np.ndarray, iteration: int, seed: int) -> np.ndarray:
        """Cross-fitted f_c(x_i), (n, C), of the classifiers trained on `labels`; from the second
        iteration on their training starts at those of the last one, which are near.
        """
        scores, self._last, _ = self._fit(labels, self._last if iteration else None)
        return scores

    def model(self, labels: np.ndarray, iteration: int, seed: int) -> ContrastModel:
        """The trained classifiers, for new samples; usage is each kernel's share of the
        separation w_m E[phi_m].
        """
        _, weights, contrasts = self._fit(labels)
        member = np.eye(self.n_clusters, dtype=bool)[labels].T
        spread = np.array(
            [
                f[y].mean(axis=0) - f[~y].mean(axis=0)
                if y.any() and not y.all()
                else np.zeros(f.shape[1])
                for f, y in zip(contrasts, member)
            ]
        )
        share = np.maximum(weights[:, :-1] * spread, 0.0)
        total = share.sum(axis=1, keepdims=True)
        usage = np.where(total > 0, share / np.where(total > 0, total, 1.0), 1.0 / share.shape[1])
        return ContrastModel(self.similarity, labels.copy(), weights, usage)

    def _fit(
        self, labels: np.ndarray, start: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        from gmlearn_groupfs._contrast_numba import fit_logistic

        contrasts = leave_one_out_contrasts(self._narrow, labels, self.n_clusters, self._totals)
        n_kernels = contrasts.shape[2]
        if start is None:
            weights = np.full((self.n_clusters, n_kernels + 1), 1.0 / n_kernels)
            weights[:, -1] = -np.log(max(self.n_clusters - 1, 1))
        else:
            weights = start.copy()
        for c in range(self.n_clusters):
            fit_logistic(
                contrasts[c], np.where(labels == c, 1.0, -1.0), self.shrinkage, 1e-3, weights[c]
            )
        scores = np.einsum("cnm,cm->nc", contrasts, weights[:, :-1]) + weights[:, -1]
        return scores, weights, contrasts
