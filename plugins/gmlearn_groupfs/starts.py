"""Where the loop starts: random labels, spectral clustering of the fused graph, or the pool of
stable clusters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gmlearn_groupfs.assignment import sized_assignment
from gmlearn_groupfs.kernel_kmeans import kernel_kmeans

#: neighbours in the graph of the mean kernel, as usual for spectral clustering
N_NEAR = 10


def random_labels(n: int, n_clusters: int, rng: np.random.Generator) -> np.ndarray:
    """Clusters of equal size (to within one), at random."""
    return rng.permutation(np.arange(n) % n_clusters)


def spectral_embedding(graph: np.ndarray, n_clusters: int) -> np.ndarray:
    """Rows of the leading eigenvectors of the normalised graph, scaled to unit length, (n, C)."""
    degree = np.maximum(graph.sum(axis=1), 1e-12)
    normalised = graph / np.sqrt(degree[:, None] * degree[None, :])
    # all eigenvectors, by divide and conquer: LAPACK's partial solvers can fail on a graph in many
    # pieces
    vectors = np.linalg.eigh(normalised)[1][:, -n_clusters:]
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def bounded_kmeans(
    points: np.ndarray, n_clusters: int, sizes: Any, rng: np.random.Generator, max_iter: int = 30
) -> tuple[np.ndarray, float]:
    """k-means whose assignment step keeps the size bounds: labels and sum of squares, from
    k-means++ seeds.

    Plain Lloyd steps come first (a matrix product each), bounded ones after they have settled.
    """
    squares = np.einsum("ij,ij->i", points, points)
    centres = points[_plus_plus(points, squares, n_clusters, rng)]
    labels = np.full(len(points), -1)
    bounded = sizes is None
    for _ in range(2 * max_iter):
        distances = np.maximum(
            squares[:, None] - 2.0 * points @ centres.T + np.einsum("ij,ij->i", centres, centres),
            0.0,
        )
        new = (
            sized_assignment(distances, sizes)
            if bounded and sizes is not None
            else distances.argmin(axis=1)
        )
        if np.array_equal(new, labels):
            if bounded:
                break
            bounded = True
        labels = new
        member = np.eye(n_clusters)[labels]
        count = member.sum(axis=0)
        centres = np.where(
            count[:, None] > 0, member.T @ points / np.maximum(count, 1)[:, None], centres
        )
    if sizes is not None:
        labels = sized_assignment(distances, sizes)
    return labels, float(distances[np.arange(len(points)), labels].sum())


def best_kmeans(
    points: np.ndarray, n_clusters: int, sizes: Any, rng: np.random.Generator, n_init: int = 10
) -> np.ndarray:
    """Labels of the best of `n_init` plain k-means runs, by the sum of squares, with the size
    bounds kept at the end.
    """
    runs = [bounded_kmeans(points, n_clusters, None, rng) for _ in range(n_init)]
    labels = min(runs, key=lambda run: run[1])[0]
    member = np.eye(n_clusters)[labels]
    centres = member.T @ points / np.maximum(member.sum(axis=0), 1)[:, None]
    return sized_assignment(
        np.einsum("ij,ij->i", centres, centres) - 2.0 * points @ centres.T, sizes
    )


def _plus_plus(
    points: np.ndarray, squares: np.ndarray, n_clusters: int, rng: np.random.Generator
) -> np.ndarray:
    """k-means++ seeds: each next one with probability proportional to its squared distance from
    those chosen.
    """
    chosen = [int(rng.integers(len(points)))]
    nearest = np.full(len(points), np.inf)
    while len(chosen) < n_clusters:
        last = chosen[-1]
        nearest = np.minimum(
            nearest, np.maximum(squares - 2.0 * points @ points[last] + squares[last], 0.0)
        )
        total = nearest.sum()
        share = nearest / total if total > 0 else np.full(len(points), 1.0 / len(points))
        chosen.append(int(rng.choice(len(points), p=share)))
    return np.array(chosen)


def nearest_graph(kernel: np.ndarray, n_neighbours: int) -> np.ndarray:
    """Who is among whose nearest, (n, n): 1, or 1/2 if on one side only."""
    similar = kernel.copy()
    np.fill_diagonal(similar, -np.inf)
    n = len(kernel)
    k = min(n_neighbours, n - 1)
    near = similar >= np.partition(similar, n - k, axis=1)[:, n - k, None]
    return 0.5 * (near.astype(float) + near.T)


class StartPool:
    """Starts drawn from neighbour graphs W_m (M, n, n), one graph for each kernel.

    Every draw offers rival starts, and the loss of the refined labels decides between them:

    * *views*: bounded k-means in every view's spectral embedding, several times; each cluster is
      scored by its
      stability (mean best Jaccard overlap with the other runs) times its isolation (share of its
      edges that stay inside it, in its own view); the best nearly disjoint ones are kept and the
      rest filled in by constrained assignment. Right where clusters are visible in different views.
    * *consensus*: bounded k-means in the spectral embedding of how often two points share a cluster
      in those runs.
    * *fused*: bounded k-means in the spectral embedding of the sum of all graphs. Right where views
      agree.
    * *near*: bounded k-means in the spectral embedding of the nearest-neighbour graph of the mean
      kernel. Right where views agree and clusters are of any shape.
    * *mean*: bounded kernel k-means on the average of the kernels themselves. Right where views
      agree and clusters are
      round.
    """

    def __init__(
        self,
        graphs: np.ndarray,
        kernels: np.ndarray,
        n_clusters: int,
        sizes: Any,
        n_labellings: int = 5,
        overlap: float = 0.2,
    ):
        self.graphs, self.n_clusters, self.sizes = graphs, n_clusters, sizes
        self.mean = kernels.mean(axis=0)
        self.n_labellings, self.overlap = n_labellings, overlap
        self.fused = spectral_embedding(graphs.sum(axis=0), n_clusters)
        self._near = spectral_embedding(nearest_graph(self.mean, N_NEAR), n_clusters)
        self._embeddings: list[np.ndarray] | None = None

    def draw(self, rng: np.random.Generator, n_fused: int = 1) -> list[tuple[str, np.ndarray]]:
        """The rivals by name."""
        found = self._labellings(rng)
        return [
            ("views", self.views(found, rng)),
            ("consensus", self.consensus(found, rng)),
            *(("fused", self.spectral(rng)) for _ in range(n_fused)),
            ("near", best_kmeans(self._near, self.n_clusters, self.sizes, rng)),
            ("mean", kernel_kmeans(self.mean, self.n_clusters, self.sizes, rng, n_init=10)),
        ]

    def spectral(self, rng: np.random.Generator) -> np.ndarray:
        """Bounded k-means in the fused embedding."""
        return best_kmeans(self.fused, self.n_clusters, self.sizes, rng)

    def _labellings(self, rng: np.random.Generator) -> np.ndarray:
        """Memberships (M, R, C, n) of R bounded k-means runs in each view's embedding."""
        if self._embeddings is None:
            self._embeddings = [spectral_embedding(graph, self.n_clusters) for graph in self.graphs]
        return np.stack(
            [
                [
                    np.eye(self.n_clusters)[
                        bounded_kmeans(embedding, self.n_clusters, self.sizes, rng)[0]
                    ].T
                    for _ in range(self.n_labellings)
                ]
                for embedding in self._embeddings
            ]
        )

    def consensus(self, found: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The start from how often two points fall into the same cluster."""
        flat = found.reshape(-1, found.shape[3])
        together = flat.T @ flat / (found.shape[0] * found.shape[1])
        return best_kmeans(
            spectral_embedding(together, self.n_clusters), self.n_clusters, self.sizes, rng
        )

    def views(self, found: np.ndarray, rng: np.random.Generator) -> np.ndarray:
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
            labels = bounded_kmeans(self.fused[where], n_missing, None, rng)[0]
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
