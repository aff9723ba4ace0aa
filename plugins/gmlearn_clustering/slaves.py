"""Learning to cluster as slave groups: one slave per point, one per true cluster; they share the
exemplar indicators x_qq.

Section 4 of Komodakis, "Learning to cluster using high order graphical models with latent
variables" (2011). Coordinate q is the indicator x_qq; each of the n + 1 slaves that hold it gets
theta_q = ubar_qq / (n + 1) + lambda_q. The assignments x_pq, p != q, live in the slave of p alone
and need no duals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

import gmlearn as gm
from gmlearn_clustering.completion import completed
from gmlearn_clustering.distances import SampleDistances
from gmlearn_clustering.losses import ClusteringLoss
from gmlearn_clustering.potentials import (
    DISTANCE,
    PENALTY,
    ExemplarBlock,
    ExemplarCountBlock,
    exemplar_model,
    small_models,
)


class PointSlaves(gm.SlaveGroup):
    """min over x of sum over q != p of ubar_pq x_pq + theta . x_qq with x_pq <= x_qq and sum_q x_pq
    = 1, for all points p.

    ubar_pq = d_pq + extra_pq, the extra costs being what a loss adds. Exact; O(N) a point, O(N^2)
    memory for all of them.
    """

    def __init__(
        self, sample: SampleDistances, extra: np.ndarray, points: np.ndarray | None = None
    ):
        self.sample, self.extra = sample, extra
        self.points = np.arange(sample.n_points) if points is None else points
        self.n = len(self.points)
        self.coords = np.tile(np.arange(sample.n_points), self.n)
        self.owner = np.repeat(np.arange(self.n), sample.n_points)

    def prepare(self, w: Mapping[str, np.ndarray]) -> np.ndarray:
        """The distances d_pq, (N, N); `solve` adds the extra costs on its way, so that no second
        matrix is written.
        """
        return self.sample.matrix(w.get(DISTANCE))

    def solve(self, theta: np.ndarray, prepared: np.ndarray) -> gm.SlaveResult:
        """Minimisers for theta (M N,); `labels` of the result: the exemplar that every point
        chose, (M,).
        """
        from gmlearn_clustering import _slaves_numba as kernels

        ind = np.empty(theta.shape)
        value, chosen = np.empty(self.n), np.empty(self.n, dtype=np.int64)
        shape = (self.n, self.sample.n_points)
        kernels.point_slaves(
            self.points,
            theta.reshape(shape),
            prepared,
            self.extra,
            ind.reshape(shape),
            value,
            chosen,
        )
        return gm.SlaveResult(ind, value, chosen)

    def features(self, result: gm.SlaveResult) -> dict[str, np.ndarray]:
        """sum over p of f_pq at the chosen q != p."""
        if not self.sample.n_features:
            return {}
        target = np.arange(self.sample.n_points)
        target[self.points] = result.labels
        return {DISTANCE: self.sample.gather(target)}

    def slave_features(self, result: gm.SlaveResult) -> dict[str, np.ndarray]:
        """f_pq at the chosen q, point by point."""
        return {DISTANCE: self.sample.rows(self.points, np.asarray(result.labels))}

    def take(self, index: np.ndarray) -> PointSlaves:
        return PointSlaves(self.sample, self.extra, self.points[index])


class ClusterSlaves(gm.SlaveGroup):
    """min over x of theta .

    x - alpha |1 - sum over q in C of x_qq| for every true cluster C. Exact, O(|C|).
    """

    def __init__(self, members: Sequence[np.ndarray], alpha: float):
        self.members_of, self.alpha = list(members), alpha
        self.n = len(self.members_of)
        self.coords = np.concatenate(self.members_of) if self.n else np.zeros(0, dtype=np.int64)
        sizes = [len(c) for c in self.members_of]
        self.owner = np.repeat(np.arange(self.n), sizes)
        self.start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def solve(self, theta: np.ndarray, prepared: Any) -> gm.SlaveResult:
        from gmlearn_clustering import _slaves_numba as kernels

        ind, value = np.empty(len(theta)), np.empty(self.n)
        kernels.cluster_slaves(theta, self.start, self.alpha, ind, value)
        return gm.SlaveResult(ind, value)

    def features(self, result: gm.SlaveResult) -> dict[str, np.ndarray]:
        return {}

    def slave_features(self, result: gm.SlaveResult) -> dict[str, np.ndarray]:
        return {}

    def take(self, index: np.ndarray) -> ClusterSlaves:
        return ClusterSlaves([self.members_of[i] for i in index], self.alpha)


def covers(crf: gm.CRF) -> bool:
    """Is it one exemplar block, with nothing but count blocks and fixed unary costs besides?"""
    kinds = [type(b) for b in crf.clique_blocks]
    others = set(kinds) - {ExemplarBlock, ExemplarCountBlock}
    return kinds.count(ExemplarBlock) == 1 and not others and not crf.unary_blocks


class ClusteringSlaves(gm.Slaves):
    """A model with one `ExemplarBlock` (and the loss's count blocks) covered by point and
    cluster slaves; coordinates x_qq.
    """

    def __init__(self, crf: gm.CRF):
        if not covers(crf):
            raise ValueError(
                "decomposition 'exemplar': expected one exemplar block, and no others but "
                "exemplar_count blocks"
            )
        self.block = next(b for b in crf.clique_blocks if isinstance(b, ExemplarBlock))
        counts = [b for b in crf.clique_blocks if isinstance(b, ExemplarCountBlock)]
        self.sample = self.block.sample
        self.extra = np.ascontiguousarray(crf.unary.reshape(crf.n_vars, crf.n_vars))
        groups: list[gm.SlaveGroup] = [PointSlaves(self.sample, self.extra)]
        groups += [ClusterSlaves(np.split(b.members, b.indptr[1:-1]), b.alpha) for b in counts]
        super().__init__(crf, groups, crf.n_vars)

    def unary(self, w: Mapping[str, np.ndarray]) -> np.ndarray:
        return self.block.exemplar_penalty(w) + np.diagonal(self.extra)

    def unary_features(self, mean: np.ndarray) -> dict[str, np.ndarray]:
        return {PENALTY: self.block.penalty_sum(mean)} if self.block.penalty is None else {}

    def mean(self, per_dual: np.ndarray) -> np.ndarray:
        """The points' duals form an (N, N) matrix, so sums over slaves are column sums."""
        n = self.n_coords
        total = per_dual[: n * n].reshape(n, n).sum(axis=0) + np.bincount(
            self.coords[n * n :], per_dual[n * n :], n
        )
        return total / self.count

    def spread(self, per_coord: np.ndarray) -> np.ndarray:
        n = self.n_coords
        # the usual case, one penalty for all points: no N^2 numbers to write
        if n and (per_coord == per_coord[0]).all():
            return np.broadcast_to(per_coord[:1], self.coords.shape)
        out = np.empty(len(self.coords), dtype=per_coord.dtype)
        out[: n * n].reshape(n, n)[:] = per_coord
        out[n * n :] = per_coord[self.coords[n * n :]]
        return out

    def shift(self, per_coord: np.ndarray, per_dual: np.ndarray, out: np.ndarray) -> None:
        n = self.n_coords
        np.add(per_dual[: n * n].reshape(n, n), per_coord, out=out[: n * n].reshape(n, n))
        np.add(per_dual[n * n :], per_coord[self.coords[n * n :]], out=out[n * n :])

    def mean_of(self, results: Sequence[gm.SlaveResult]) -> np.ndarray:
        n = self.n_coords
        total = results[0].ind.reshape(n, n).sum(axis=0)
        for result, group in zip(results[1:], self.groups[1:]):
            total += np.bincount(group.coords, result.ind, n)
        return total / self.count

    def move(
        self, per_dual: np.ndarray, results: Sequence[gm.SlaveResult], mean: np.ndarray, size: float
    ) -> None:
        from gmlearn_clustering import _slaves_numba as kernels

        n = self.n_coords
        kernels.move_rows(
            per_dual[: n * n].reshape(n, n), results[0].ind.reshape(n, n), size * mean, size
        )
        for where, result, group in zip(self.slices[1:], results[1:], self.groups[1:]):
            per_dual[where] += size * (result.ind - mean[group.coords])

    def indicators(self, labels: np.ndarray) -> np.ndarray:
        """x_qq of an assignment (N,)."""
        return (labels == np.arange(self.n_coords)).astype(float)

    def proposals(self, results: Sequence[gm.SlaveResult], mean: np.ndarray) -> list[np.ndarray]:
        """Assignments to the exemplars that at least half of the slaves want (or the most wanted);
        points go to the exemplar that their slave chose if it is one, else to the most wanted."""
        wanted = mean >= 0.5 if (mean >= 0.5).any() else mean == mean.max()
        labels = np.full(self.n_coords, int(np.argmax(np.where(wanted, mean, -1.0))))
        if results:
            chosen = np.asarray(results[0].labels)
            labels = np.where(wanted[chosen], chosen, labels)
        return [np.where(wanted, np.arange(self.n_coords), labels)]


class ExemplarDecomposition(gm.Decomposition):
    """Points and clusters, for models with an exemplar block."""

    name = "exemplar"
    known_failures: ClassVar[dict[str, str]] = {
        "check_slaves_sum_to_the_energy": "the slaves share the indicators x_qq alone, not whole "
        "labels, so the kit cannot read "
        "a slave's energy off a labelling; the plugin's own tests do"
    }

    def claims(self, crf: gm.CRF) -> bool:
        return covers(crf)

    def decompose(self, crf: gm.CRF, power: str | None = None) -> ClusteringSlaves:
        if power is not None:
            raise ValueError(f"decomposition 'exemplar': its slaves cannot do {power!r}")
        return ClusteringSlaves(crf)

    def examples(self, rng: np.random.Generator) -> list[tuple[gm.CRF, dict[str, np.ndarray]]]:
        """Small models alone and with a loss; penalty fixed, negative, learnt."""
        made = []
        for crf, w in small_models(rng):
            truth = _first_members(np.array([0, 1, 0, 1]))
            made += [(crf, w), (ClusteringLoss(*rng.random(2)).augment(crf, truth), w)]
        return made


def training_sample(
    sample: SampleDistances,
    cluster: np.ndarray,
    penalty: float | None = 1.0,
    weight: float = 1.0,
    loss: ClusteringLoss | None = None,
    penalty_features: np.ndarray | None = None,
) -> gm.Sample:
    """What ``gm.train`` takes: the model, any assignment consistent with the true clusters (N,),
    and the medoid completion. Clusters may be -1, not known; then `loss` gives alpha and beta.
    """
    crf = exemplar_model(sample, penalty, penalty_features)
    block: Any = crf.clique_blocks[0]

    def completion(_: gm.Sample, w: Mapping[str, np.ndarray]) -> np.ndarray:
        return completed(sample.matrix(w[DISTANCE]), cluster, block.exemplar_penalty(w))

    labels = np.full(len(cluster), int(np.flatnonzero(cluster >= 0)[0]))
    known = np.flatnonzero(cluster >= 0)
    labels[known] = known[_first_members(cluster[known])]
    own = None
    if len(known) < len(cluster):
        given = loss or ClusteringLoss()
        own = ClusteringLoss(given.alpha, given.beta, cluster < 0)
    return gm.Sample(crf, labels, weight=weight, loss=own, completion=completion)


def training_slaves(
    sample: SampleDistances,
    cluster: np.ndarray,
    alpha: float = 1.0,
    beta: float = 1.0,
    penalty: float | None = 1.0,
) -> ClusteringSlaves:
    """The slaves of the loss-augmented energy of one training sample; cluster (N,) are the true
    clusters 0..K-1.
    """
    return ClusteringSlaves(
        ClusteringLoss(alpha, beta).augment(
            exemplar_model(sample, penalty), _first_members(cluster)
        )
    )


def _first_members(cluster: np.ndarray) -> np.ndarray:
    """The assignment (N,) of every point to the first member of its cluster."""
    return np.unique(cluster, return_index=True)[1][cluster]
