"""Where the loop starts: random labels, spectral clustering of the fused graph, or the pool of
rival starts.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, eigh, get_lapack_funcs

from gmlearn_groupfs.assignment import sized_assignment
from gmlearn_groupfs.similarity import Similarity

#: neighbours in the graphs of the starts: two thirds of a cluster, within these limits
LEAST_NEAR, MOST_NEAR = 5, 10
#: how far a random walk on a graph goes on before it stops, see `diffused`
WALK = 0.9


def random_labels(n: int, n_clusters: int, rng: np.random.Generator) -> np.ndarray:
    """Clusters of equal size (to within one), at random."""
    return rng.permutation(np.arange(n) % n_clusters)


def spectral_embedding(graph: np.ndarray, n_clusters: int) -> np.ndarray:
    """Rows of the leading eigenvectors of the normalised graph, scaled to unit length, (n, C); in
    single precision, which is half the time and enough to start from.
    """
    normalised, n = _normalised(graph.astype(np.float32)), len(graph)
    try:
        vectors = eigh(normalised, subset_by_index=[n - n_clusters, n - 1])[1]
    except LinAlgError:
        # on a graph in many pieces LAPACK's partial solver can fail to converge; the full one does
        # not
        vectors = eigh(normalised, driver="evd")[1][:, -n_clusters:]
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def kmeans_runs(
    points: np.ndarray, n_clusters: int, rng: np.random.Generator, n_runs: int, max_iter: int = 100
) -> tuple[np.ndarray, np.ndarray]:
    """Labels (R, n) and sums of squares (R,) of R runs of k-means, all side by side: a matrix
    product each step. Seeds are those of greedy k-means++.
    """
    squares = np.einsum("ij,ij->i", points, points)
    centres = points[_plus_plus(points, squares, n_clusters, rng, n_runs)]
    labels = np.full((n_runs, len(points)), -1)
    for _ in range(max_iter):
        lengths = np.einsum("rcd,rcd->rc", centres, centres)
        distances = lengths[:, None, :] - 2.0 * points @ centres.transpose(0, 2, 1)
        new = distances.argmin(axis=2)
        if np.array_equal(new, labels):
            break
        labels = new
        member = np.eye(n_clusters)[labels]
        count = member.sum(axis=1)[:, :, None]
        means = member.transpose(0, 2, 1) @ points / np.maximum(count, 1.0)
        centres = np.where(count > 0, means, centres)
    sums = np.take_along_axis(distances, labels[:, :, None], axis=2).sum(axis=(1, 2))
    return labels, sums + squares.sum()


def _plus_plus(
    points: np.ndarray,
    squares: np.ndarray,
    n_clusters: int,
    rng: np.random.Generator,
    n_runs: int,
) -> np.ndarray:
    """Seeds (R, C): each next one is the best of a few that are drawn with probability proportional
    to their squared distance from those chosen.
    """
    n, n_tries = len(points), 2 + int(np.log(n_clusters))
    chosen = rng.integers(n, size=(n_runs, 1))
    nearest = np.full((n_runs, n), np.inf)
    runs = np.arange(n_runs)
    for k in range(n_clusters):
        tried = chosen if k == 0 else _drawn(nearest, rng.random((n_runs, n_tries)))
        to = squares + squares[tried][:, :, None] - 2.0 * points[tried] @ points.T
        reached = np.minimum(nearest[:, None], np.maximum(to, 0.0))
        best = reached.sum(axis=2).argmin(axis=1)
        nearest = reached[runs, best]
        if k:
            chosen = np.concatenate([chosen, tried[runs, best][:, None]], axis=1)
    return chosen


def _drawn(weights: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Indices (R, L) drawn by the rows of weights (R, n), evenly where all are zero."""
    total = weights.sum(axis=1, keepdims=True)
    share = np.cumsum(np.where(total > 0, weights, 1.0), axis=1)
    return np.stack(
        [
            np.searchsorted(s, u * s[-1], side="right").clip(max=len(s) - 1)
            for s, u in zip(share, uniform)
        ]
    )


def kmeans(
    points: np.ndarray, n_clusters: int, rng: np.random.Generator, n_init: int = 10
) -> np.ndarray:
    """Labels (n,) of the best of `n_init` k-means runs."""
    labels, sums = kmeans_runs(points, n_clusters, rng, n_init)
    return labels[sums.argmin()]


def spectral_labels(
    graph: np.ndarray, n_clusters: int, rng: np.random.Generator, n_init: int = 10
) -> np.ndarray:
    """Spectral clustering of a graph (Ng, Jordan and Weiss, 2002)."""
    return kmeans(spectral_embedding(graph, n_clusters), n_clusters, rng, n_init)


def nearest(similar: np.ndarray, n_neighbours: int) -> np.ndarray:
    """The nearest of every point, nearest first, (n, n_neighbours)."""
    apart = -similar
    np.fill_diagonal(apart, np.inf)
    near = np.argpartition(apart, n_neighbours - 1, axis=1)[:, :n_neighbours]
    order = np.argsort(np.take_along_axis(apart, near, axis=1), axis=1, kind="stable")
    return np.take_along_axis(near, order, axis=1)


def nearest_graph(near: np.ndarray, graded: bool = False) -> np.ndarray:
    """Who is among whose nearest, (n, n): 1, or 1/2 if on one side only; `graded` counts the r-th
    neighbour as 1/r.
    """
    n, k = near.shape
    graph = np.zeros((n, n), np.float32)
    graph[np.arange(n)[:, None], near] = 1.0 / np.arange(1, k + 1) if graded else 1.0
    return 0.5 * (graph + graph.T)


def diffused(graph: np.ndarray) -> np.ndarray:
    r"""Cosines of the random walks from two points, :math:`(I - a A)^{-1}` scaled to a diagonal of
    ones, A the normalised graph: two points are alike if walks from them meet.
    """
    system = np.eye(len(graph), dtype=np.float32) - np.float32(WALK) * _normalised(graph)
    potrf, potri = get_lapack_funcs(("potrf", "potri"), (system,))
    walks, _ = potri(potrf(system, lower=1)[0], lower=1)  # the lower half
    walks = np.tril(walks) + np.tril(walks, -1).T
    length = np.sqrt(np.diag(walks))
    return walks / length[:, None] / length


def locally_scaled(kernel: np.ndarray, n_neighbours: int) -> np.ndarray:
    """exp(-d_ij^2 / s_i s_j), d the kernel's distance and s_i that of the n_neighbours-th
    neighbour (Zelnik-Manor and Perona, 2004).
    """
    own = np.diag(kernel)
    squared = np.maximum(own[:, None] + own - 2.0 * kernel, 0.0)
    reach = np.sqrt(np.partition(squared, n_neighbours, axis=1)[:, n_neighbours])
    return np.exp(-squared / np.maximum(reach[:, None] * reach, 1e-12))


def _normalised(graph: np.ndarray) -> np.ndarray:
    degree = np.sqrt(np.maximum(graph.sum(axis=1), 1e-12))
    return graph / degree[:, None] / degree


class StartPool:
    """Rival starts; the loss after a step of the loop decides between them.

    * *mean*, *scaled*: spectral clustering of the nearest-neighbour graph of the mean kernel, and
      of those of the means of the standardised and of the locally scaled kernels. Right where views
      agree.
    * *fused*: of the sum of the views' graphs. Right where neighbours in any view tell.
    * *spread*: of the nearest neighbours under the summed `diffused` graphs. Right where clusters
      are small or stretched.
    * *views*: k-means in every view's spectral embedding, several times; each cluster is scored by
      its stability (mean best Jaccard overlap with the other runs) times its isolation (share of
      its edges that stay inside it, in its own view); the best nearly disjoint ones are kept and
      the rest filled in by constrained assignment. Right where clusters are visible in different
      views.
    * *consensus*: spectral clustering of how often two points share a cluster in those runs and in
      the starts above.

    Parameters
    ----------
    similarity : of the judge: its graphs, moved towards what links say.   kernels : (M, n, n).
    n_clusters, sizes : of the partition.   n_labellings : runs in each view.   overlap : share of
        its points that a cluster of "views" may have in common with better ones.
    """

    def __init__(
        self,
        similarity: Similarity,
        kernels: np.ndarray,
        n_clusters: int,
        sizes: Any,
        n_labellings: int = 5,
        overlap: float = 0.2,
    ):
        self.graphs, self.n_clusters, self.sizes = similarity.graphs, n_clusters, sizes
        self.n_labellings, self.overlap = n_labellings, overlap
        self._mean = kernels.mean(axis=0)
        # of one scale, so that single precision keeps who is nearer
        self._kernels = similarity.values(kernels).astype(np.float32)
        self._embeddings: list[tuple[str, np.ndarray]] = []
        self._by_view: list[np.ndarray] = []

    @cached_property
    def fused(self) -> np.ndarray:
        """Embedding of the sum of all graphs, (n, C)."""
        return spectral_embedding(self.graphs.sum(axis=0), self.n_clusters)

    def draw(self, rng: np.random.Generator) -> list[tuple[str, np.ndarray]]:
        """The rivals by name."""
        self._prepare()
        found = self._labellings(rng)
        agreeing = [(name, kmeans(e, self.n_clusters, rng)) for name, e in self._embeddings]
        consensus = self._consensus(found, [labels for _, labels in agreeing], rng)
        return [*agreeing, ("consensus", consensus), ("views", self._views(found, rng))]

    def spectral(self, rng: np.random.Generator) -> np.ndarray:
        """k-means in the embedding of the sum of all graphs."""
        return kmeans(self.fused, self.n_clusters, rng)

    def _prepare(self) -> None:
        """The embeddings that all draws share."""
        if self._embeddings:
            return
        kernels = self._kernels
        n = kernels.shape[1]
        near = round(2 * n / (3 * self.n_clusters))
        near = min(max(near, LEAST_NEAR), MOST_NEAR, n - 1)
        own = [nearest(k, near) for k in kernels]
        scaled = [
            kernels.mean(axis=0),
            np.mean([locally_scaled(k, near) for k in kernels], axis=0),
        ]
        spread = np.sum([diffused(nearest_graph(k, graded=True)) for k in own], axis=0)
        graphs = {
            "mean": nearest_graph(nearest(self._mean, near)),
            "scaled": np.sum([nearest_graph(nearest(k, near)) for k in scaled], axis=0),
            "fused": np.sum([nearest_graph(k) for k in own], axis=0),
            "spread": nearest_graph(nearest(spread, near)),
        }
        self._embeddings = [(k, spectral_embedding(g, self.n_clusters)) for k, g in graphs.items()]
        self._by_view = [spectral_embedding(graph, self.n_clusters) for graph in self.graphs]

    def _labellings(self, rng: np.random.Generator) -> np.ndarray:
        """Memberships (M, R, C, n) of R k-means runs in each view's embedding."""
        one = np.eye(self.n_clusters)
        return np.stack(
            [
                one[kmeans_runs(e, self.n_clusters, rng, self.n_labellings)[0]].transpose(0, 2, 1)
                for e in self._by_view
            ]
        )

    def _consensus(
        self, found: np.ndarray, agreeing: list[np.ndarray], rng: np.random.Generator
    ) -> np.ndarray:
        """How often two points fall into the same cluster; the views' runs weigh twice as much as
        the other starts.
        """
        flat = found.reshape(-1, found.shape[3])
        together = flat.T @ flat / (found.shape[0] * found.shape[1])
        for labels in agreeing:
            together += (labels[:, None] == labels) * (0.5 / len(agreeing))
        return spectral_labels(together, self.n_clusters, rng)

    def _views(self, found: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The start from stable, isolated clusters of single views."""
        scores = [
            _stability(runs) * _isolation(runs, graph) for runs, graph in zip(found, self.graphs)
        ]
        chosen = self._nearly_disjoint(
            found.reshape(-1, found.shape[3]) > 0, np.concatenate(scores).ravel()
        )
        return self._fill(chosen, rng)

    def _nearly_disjoint(self, members: np.ndarray, scores: np.ndarray) -> list[np.ndarray]:
        """Best-scored clusters first, those with more than `overlap` of their points already
        taken left out.
        """
        taken = np.zeros(members.shape[1], dtype=bool)
        chosen: list[np.ndarray] = []
        for index in np.argsort(-scores, kind="stable"):
            member = members[index]
            if len(chosen) == self.n_clusters:
                break
            if member.any() and (member & taken).sum() <= self.overlap * member.sum():
                chosen.append(member & ~taken)
                taken |= member
        return chosen

    def _fill(self, chosen: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
        """Missing clusters from the points left over; then every point to the cluster it is
        closest to in any view.
        """
        n_missing = self.n_clusters - len(chosen)
        if n_missing:
            left = ~np.any(chosen, axis=0) if chosen else np.ones(self.graphs.shape[1], dtype=bool)
            if left.sum() < n_missing:
                left[:] = True
            where = np.flatnonzero(left)
            labels = kmeans(self.fused[where], n_missing, rng, 1)
            for c in range(n_missing):
                member = np.zeros(left.size, dtype=bool)
                member[where[labels == c]] = True
                chosen = chosen + [member]
        member = np.stack(chosen).astype(float)
        closeness = self.graphs @ (member / np.maximum(member.sum(axis=1, keepdims=True), 1.0)).T
        return sized_assignment(-closeness.max(axis=0), self.sizes)


def _stability(found: np.ndarray) -> np.ndarray:
    """Mean over the other runs of a cluster's best Jaccard overlap; found (R, C, n) memberships
    -> (R, C).
    """
    n_runs, n_clusters, n = found.shape
    flat = found.reshape(-1, n)
    common = flat @ flat.T
    size = flat.sum(axis=1)
    jaccard = common / np.maximum(size[:, None] + size[None, :] - common, 1.0)
    best = jaccard.reshape(n_runs, n_clusters, n_runs, n_clusters).max(axis=3)
    own = best[np.arange(n_runs), :, np.arange(n_runs)]
    return (best.sum(axis=2) - own) / max(n_runs - 1, 1)


def _isolation(found: np.ndarray, graph: np.ndarray) -> np.ndarray:
    """Share of a cluster's edge weight that stays inside it, (R, C)."""
    flat = found.reshape(-1, found.shape[2])
    reach = flat @ graph
    return (np.einsum("an,an->a", reach, flat) / np.maximum(reach.sum(axis=1), 1e-12)).reshape(
        found.shape[:2]
    )
