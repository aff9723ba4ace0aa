r"""The paper's cluster classifiers: boosting over dyadic hypercuts drawn from all kernels.

A hypercut is :math:`h(x) = a\,\mathrm{sign}(k_m(x_p, x) - k_m(x_n, x) - \theta) + b` with one
positive sample, one negative sample and one kernel (equation 8 of Lin, Liu and Fuh, ECCV 2010); the
kernels of the chosen cuts tell which features a cluster uses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LOSSES = ("log", "exp")


@dataclass(frozen=True, eq=False)
class BoostedModel:
    """Trained boosted classifiers, one per cluster: cuts (C, S, 6), offsets (C,), usage (C, M)."""

    offsets: np.ndarray
    cuts: np.ndarray
    usage: np.ndarray

    def decision(self, cross: np.ndarray) -> np.ndarray:
        """Scores (k, C) from cross-kernels (M, k, n)."""
        from gmlearn_groupfs._boosting_numba import evaluate

        narrow = np.ascontiguousarray(cross, dtype=np.float32)
        scores = np.empty((len(self.offsets), narrow.shape[1]))
        for c in range(len(scores)):
            evaluate(narrow, float(self.offsets[c]), self.cuts[c], scores[c])
        return scores.T


class BoostedClassifiers:
    """LogitBoost (or gentle boosting for ExpLoss) over hypercuts, with k-fold cross-fitted scores.

    Parameters
    ----------
    kernels : (M, n, n).   n_clusters : C.
    base, step : a classifier has base + step * iteration weak learners.
    folds : folds of the cross-fitting; 1 scores points by classifiers trained on them (not
        advised).
    n_hypercuts : random hypercuts tried at a stage; None searches all N+ N- M of them.
    loss : "log" or "exp".   shrinkage : factor on every weak learner, in (0, 1].

    Notes
    -----
    One stage costs O(n_hypercuts n): thresholds are searched over 32 bins of the projection.
    """

    name = "boosted"

    def __init__(
        self,
        kernels: np.ndarray,
        n_clusters: int,
        base: int = 5,
        step: int = 2,
        folds: int = 10,
        n_hypercuts: int | None = 20,
        loss: str = "log",
        shrinkage: float = 1.0,
    ):
        self.kernels = np.ascontiguousarray(kernels, dtype=np.float32)
        self.n_clusters, self.base, self.step, self.folds = n_clusters, base, step, folds
        self.n_hypercuts, self.loss, self.shrinkage = n_hypercuts, loss, shrinkage

    def scores(self, labels: np.ndarray, iteration: int, seed: int) -> np.ndarray:
        """Cross-fitted f_c(x_i), (n, C): each point scored by classifiers that saw neither its
        label nor its cuts.
        """
        n = labels.size
        rng = np.random.default_rng([seed, iteration])
        fold = rng.permutation(n) % self.folds
        seeds = rng.integers(1, 2**31, (self.n_clusters, self.folds))
        scores = np.empty((n, self.n_clusters))
        for f in range(self.folds):
            held = (fold == f) & (self.folds > 1)
            scored = fold == f
            for c in range(self.n_clusters):
                scores[scored, c] = self._train(labels == c, held, iteration, int(seeds[c, f]))[3][
                    scored
                ]
        return scores

    def model(self, labels: np.ndarray, iteration: int, seed: int) -> BoostedModel:
        """The classifiers trained on all points; usage is each kernel's share of the summed
        gains.
        """
        seeds = np.random.default_rng([seed, iteration, 1]).integers(1, 2**31, self.n_clusters)
        nobody = np.zeros(labels.size, dtype=bool)
        trained = [
            self._train(labels == c, nobody, iteration, int(seeds[c]))
            for c in range(self.n_clusters)
        ]
        usage = np.zeros((self.n_clusters, len(self.kernels)))
        for c, (_, cuts, gains, _) in enumerate(trained):
            np.add.at(usage[c], cuts[:, 0].astype(int), gains)
        total = usage.sum(axis=1, keepdims=True)
        usage = np.where(
            total > 0, usage / np.where(total > 0, total, 1.0), 1.0 / len(self.kernels)
        )
        return BoostedModel(
            np.array([t[0] for t in trained]), np.stack([t[1] for t in trained]), usage
        )

    def _train(self, member: np.ndarray, held: np.ndarray, iteration: int, seed: int) -> tuple:
        """Constant, cuts, gains and scores of one cluster's classifier."""
        from gmlearn_groupfs._boosting_numba import boost

        n_stages = self.base + self.step * iteration
        cuts, gains, scores = np.zeros((n_stages, 6)), np.zeros(n_stages), np.empty(member.size)
        present = member[~held]
        # one class only: nothing to separate, a constant of the right sign
        if present.all() or not present.any():
            scores[:] = 10.0 if present.all() else -10.0
            return scores[0], cuts, gains, scores
        offset = boost(
            self.kernels,
            np.where(member, 1.0, -1.0),
            held,
            n_stages,
            self.n_hypercuts or 0,
            self.loss == "exp",
            self.shrinkage,
            np.uint64(seed),
            cuts,
            gains,
            scores,
        )
        return offset, cuts, gains, scores
