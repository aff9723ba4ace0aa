"""The k-means energy under a learnt metric, and the partition loss, as blocks of a CRF."""

from __future__ import annotations

from typing import Any

import numpy as np

import gmlearn as gm


class KMeansEnergy(gm.RaggedBlock):
    r"""-<C(x), X M X'>: the part of the k-means energy under the metric M that depends on the
    partition C(x) = Y Y^+.

    Minimising it over labellings without empty clusters is k-means in the metric M: with s_c the
    sum of the n_c rows of cluster c it is :math:`-\sum_c s_c^T M s_c / n_c`. A labelling that
    leaves a cluster empty costs inf. Linear in M, which is the weight segment (d, d). One clique is
    one dataset.

    Parameters
    ----------
    cliques : variables of each dataset, one for each of its rows; all have k states.
    rows : (S, d), the rows of all datasets, one after the other, or a list of arrays (n_m, d).
    weight : name of the weight segment that holds M.
    """

    name = "kmeans_energy"
    per_member = ("rows",)

    def __init__(self, cliques: Any, rows: Any, weight: str = "metric"):
        super().__init__(cliques)
        rows = (
            np.concatenate([np.atleast_2d(r) for r in rows])
            if isinstance(rows, (list, tuple))
            else rows
        )
        self.rows = gm.check_array("KMeansEnergy.rows", rows, shape=(len(self.members), None))
        self.weight = self.segment_name(weight)

    def segments(self) -> dict[str, tuple[int, ...]]:
        return {self.weight: (self.rows.shape[1],) * 2}

    def check(self) -> None:
        check_clusters(self)

    def energy(self, x: np.ndarray, w: Any) -> np.ndarray:
        M = w[self.weight]
        k = self.n_clusters
        values = np.empty(len(self))
        for m, (labels, rows) in enumerate(self._datasets(x)):
            sums, counts = _cluster_sums(labels, rows, k)
            values[m] = -np.sum((sums @ M) * sums / counts[:, None]) if counts.min() > 0 else np.inf
        return values

    def repair(self, x: np.ndarray, w: Any) -> np.ndarray:
        """The same labels with a row of a larger cluster in each that is empty."""
        from gmlearn_mlca.assign import fill_empty

        x = np.array(x, np.int64)
        for labels, rows in self._datasets(x):  # views
            fill_empty(labels, np.zeros((len(rows), self.n_clusters)))
        return x

    def features(self, x: np.ndarray, weight: np.ndarray | None = None) -> dict[str, np.ndarray]:
        total = np.zeros(self.segments()[self.weight])
        for m, (labels, rows) in enumerate(self._datasets(x)):
            sums, counts = _cluster_sums(labels, rows, self.n_clusters)
            scaled = sums / np.sqrt(np.maximum(counts, 1.0))[:, None]
            total -= (1.0 if weight is None else weight[m]) * scaled.T @ scaled
        return {self.weight: total}

    @property
    def n_clusters(self) -> int:
        """k, the number of states of every variable."""
        return self.max_states

    def _datasets(self, x: np.ndarray):
        for start, stop in zip(self.indptr[:-1], self.indptr[1:]):
            yield x[start:stop], self.rows[start:stop]

    @classmethod
    def examples(cls, rng: np.random.Generator) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        """One dataset, and two of different sizes."""
        made: list[tuple[gm.Block, dict[str, np.ndarray]]] = []
        for cliques, k in (([[1, 3, 0, 2]], 3), ([[4, 0, 1], [2, 3, 5, 6]], 2)):
            block = cls(cliques, rng.normal(size=(sum(map(len, cliques)), 2)))
            made.append((block.bind(np.full(7, k)), {block.weight: rng.normal(size=(2, 2))}))
        return made

    @classmethod
    def large_examples(
        cls, rng: np.random.Generator
    ) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        """Two datasets of forty-five points, three clusters each, under a metric."""
        factor = rng.normal(size=(2, 2))
        block = cls(np.split(np.arange(90), 2), rng.normal(size=(90, 2)))
        return [(block.bind(np.full(90, 3)), {block.weight: factor @ factor.T})]


class PartitionDistance(gm.RaggedBlock):
    r"""-Delta = -||C(x) - C||^2 to given partitions C, with the sign already turned for
    loss-augmented minimisation.

    Parameters
    ----------
    cliques : variables of each dataset.
    truth : int (S,), the true label of every member.
    """

    name = "partition_distance"
    per_member = ("truth",)

    def __init__(self, cliques: Any, truth: Any):
        super().__init__(cliques)
        self.truth = gm.check_array(
            "PartitionDistance.truth", truth, shape=(len(self.members),), dtype=np.int64
        )

    def check(self) -> None:
        check_clusters(self)

    def energy(self, x: np.ndarray, w: Any = None) -> np.ndarray:
        from gmlearn_mlca.metrics import delta_loss

        return np.array(
            [
                -delta_loss(x[a:b], self.truth[a:b])
                for a, b in zip(self.indptr[:-1], self.indptr[1:])
            ]
        )

    @classmethod
    def examples(cls, rng: np.random.Generator) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        """Datasets of different sizes; three clusters and two."""
        return [
            (cls([[1, 3, 0, 2], [4, 5, 6]], rng.integers(0, k, 7)).bind(np.full(7, k)), {})
            for k in (3, 2)
        ]


def small_problem(rng: np.random.Generator) -> tuple[gm.CRF, np.ndarray]:
    """For checks: a model of two datasets in two dimensions, and a partition of each into two
    clusters near the data.
    """
    truth = np.array([0, 1, 0, 1, 0, 1, 1])
    rows = np.where(truth == 0, -1.0, 1.0)[:, None] * [1.0, 0.0] + 0.5 * rng.normal(size=(7, 2))
    crf = gm.CRF(len(truth), 2)
    crf.add(KMeansEnergy([np.arange(4), np.arange(4, 7)], rows))
    return crf, truth


def check_clusters(block: gm.RaggedBlock) -> None:
    """All members have one number of states, k, and every dataset has at least k rows."""
    states = block.member_states
    if len(states) and (states != states[0]).any():
        raise ValueError(
            f"{block}: all variables of a partition need the same number of states, got "
            f"{int(states.min())}..{int(states.max())}"
        )
    short = np.flatnonzero(block.sizes < block.max_states)
    if short.size:
        raise ValueError(
            f"{block}: dataset {int(short[0])} has {int(block.sizes[short[0]])} rows, fewer than "
            f"the "
            f"{block.max_states} clusters"
        )


def orthonormal_indicator(labels: np.ndarray, n_clusters: int) -> np.ndarray:
    """J (n, k): column c is y_c / ||y_c||, zero for an empty cluster."""
    Y = (labels[:, None] == np.arange(n_clusters)).astype(float)
    return Y / np.sqrt(np.maximum(Y.sum(axis=0), 1.0))


def _cluster_sums(labels: np.ndarray, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    Y = (labels[:, None] == np.arange(k)).astype(float)
    return Y.T @ rows, Y.sum(axis=0)
