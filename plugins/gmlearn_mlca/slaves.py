"""The spectral slave: whole datasets minimised over relaxed partitions, without dual
coordinates.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import gmlearn as gm
from gmlearn_mlca.assign import fill_empty, kmeans_labels
from gmlearn_mlca.potentials import (
    KMeansEnergy,
    PartitionDistance,
    orthonormal_indicator,
    small_problem,
)
from gmlearn_mlca.spectral import ReducedDataset, SpectralMinimum, spectral_minimum


class SpectralGroup(gm.SlaveGroup):
    """One subproblem per dataset: min over rank-k projectors of -<Chat, X M X'> (- ||Chat - C||^2
    where there is a truth).

    A relaxation: every partition is such a projector, so the value never exceeds the minimum over
    labellings. The labels occur in no other slave, hence there are no dual variables.
    """

    exact = False

    def __init__(
        self,
        energy: KMeansEnergy,
        truth: PartitionDistance | None,
        reduced: Sequence[ReducedDataset] | None = None,
    ):
        self.energy, self.truth, self.n = energy, truth, len(energy)
        self.coords = self.owner = np.zeros(0, np.int64)
        self.reduced = (
            [self._reduce(m) for m in range(self.n)] if reduced is None else list(reduced)
        )

    def part(self, m: int) -> slice:
        """The members of dataset m."""
        return slice(*self.energy.indptr[m : m + 2])

    def factors(self, m: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows X (n, d) of dataset m, and the factor J (n, k) of its true partition, (n, 0) if
        there is none.
        """
        rows = self.energy.rows[self.part(m)]
        if self.truth is None:
            return rows, np.zeros((len(rows), 0))
        return rows, orthonormal_indicator(self.truth.truth[self.part(m)], self.energy.n_clusters)

    def _reduce(self, m: int) -> ReducedDataset:
        return ReducedDataset.from_data(*self.factors(m), n_clusters=self.energy.n_clusters)

    def prepare(self, w: Mapping[str, np.ndarray]) -> np.ndarray:
        return w[self.energy.weight]

    def solve(self, theta: np.ndarray, prepared: np.ndarray) -> gm.SlaveResult:
        minima = [
            spectral_minimum(r, prepared, augmented=self.truth is not None) for r in self.reduced
        ]
        return gm.SlaveResult(np.zeros(0), np.array([s.value for s in minima]), minima)

    def features(self, result: gm.SlaveResult) -> dict[str, np.ndarray]:
        """-X'ChatX summed over the datasets."""
        return {
            self.energy.weight: -sum(
                (s.features for s in result.labels), np.zeros(self.energy.rows.shape[1:] * 2)
            )
        }

    def take(self, index: np.ndarray) -> SpectralGroup:
        index = np.atleast_1d(np.arange(self.n)[index])
        truth = None if self.truth is None else self.truth.take(index)
        return SpectralGroup(self.energy.take(index), truth, [self.reduced[m] for m in index])

    def round_labels(
        self, minima: Sequence[SpectralMinimum], n_init: int = 10, seed: int = 0
    ) -> np.ndarray:
        """Hard labels (S,) without empty clusters, by k-means on the rows of U (n, r), the top
        eigenvectors of each dataset.
        """
        from sklearn.exceptions import ConvergenceWarning

        labels = np.zeros(len(self.energy.members), np.int64)
        for m, minimum in enumerate(minima):
            rows, indicator = self.factors(m)
            U = np.hstack([rows, indicator]) @ (self.reduced[m].lift @ minimum.vectors)
            with warnings.catch_warnings():  # rows that coincide give fewer clusters
                warnings.simplefilter("ignore", ConvergenceWarning)
                labels[self.part(m)] = kmeans_labels(
                    U if U.shape[1] else rows, self.energy.n_clusters, n_init, seed
                )
            fill_empty(labels[self.part(m)], np.zeros((len(rows), self.energy.n_clusters)))
        return labels


class SpectralSlaves(gm.Slaves):
    """Slaves without coordinates: nothing to agree on, and no unary costs to share."""

    def __init__(self, crf: gm.CRF, group: SpectralGroup):
        super().__init__(crf, [group], n_coords=0)

    def unary(self, w: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.zeros(0)

    def unary_features(self, mean: np.ndarray) -> dict[str, np.ndarray]:
        return {}

    def indicators(self, labels: np.ndarray) -> np.ndarray:
        return np.zeros(0)

    def proposals(self, results: Sequence[gm.SlaveResult], mean: np.ndarray) -> list[np.ndarray]:
        """k-means on the slaves' eigenvectors.

        Without results there is nothing to read off, so all go to one cluster.
        """
        group: Any = self.groups[0]
        labels = np.zeros(self.crf.n_vars, np.int64)
        if results:
            labels[group.energy.members] = group.round_labels(results[0].labels)
        return [labels]


def why_not_spectral(crf: gm.CRF) -> str | None:
    """None if the cliques are those of one `KMeansEnergy`, with or without a `PartitionDistance`
    over the same datasets; else what is wrong.
    """
    energies = [b for b in crf.clique_blocks if isinstance(b, KMeansEnergy)]
    truths = [b for b in crf.clique_blocks if isinstance(b, PartitionDistance)]
    if len(energies) != 1 or len(truths) > 1 or len(crf.clique_blocks) != 1 + len(truths):
        return "expected one kmeans_energy block and at most one partition_distance"
    for truth in truths:
        if not np.array_equal(truth.members, energies[0].members) or not np.array_equal(
            truth.indptr, energies[0].indptr
        ):
            return "the loss must be over the same datasets as the energy"
    return None


def spectral_group(crf: gm.CRF) -> SpectralGroup:
    """The slaves of all datasets of a model that `why_not_spectral` has nothing against."""
    blocks: dict[type, Any] = {type(block): block for block in crf.clique_blocks}
    return SpectralGroup(blocks[KMeansEnergy], blocks.get(PartitionDistance))


class SpectralDecomposition(gm.Decomposition):
    """Covers a model made of one `KMeansEnergy` block, with or without a `PartitionDistance`, by
    one spectral slave per dataset.
    """

    name = "spectral"

    def claims(self, crf: gm.CRF) -> bool:
        return any(isinstance(b, KMeansEnergy) for b in crf.blocks) and not has_unary_costs(crf)

    def decompose(self, crf: gm.CRF, power: str | None = None) -> gm.Slaves:
        if power is not None:
            raise ValueError(f"decomposition 'spectral': spectral slaves cannot give {power}")
        reason = why_not_spectral(crf)
        if reason is None and has_unary_costs(crf):
            reason = "unary costs are not part of the relaxed k-means energy"
        if reason is not None:
            raise ValueError(f"decomposition 'spectral': {reason}, got {crf}")
        return SpectralSlaves(crf, spectral_group(crf))

    def examples(self, rng: np.random.Generator) -> list[tuple[gm.CRF, dict[str, np.ndarray]]]:
        """The energy alone and with a loss, under a metric and under a matrix that is none."""
        made = []
        for _ in range(2):
            crf, truth = small_problem(rng)
            factor = rng.normal(size=(2, 2))
            augmented = crf.copy()
            augmented.add(PartitionDistance(np.split(np.arange(7), [4]), truth))
            made += [(crf, {"metric": factor @ factor.T}), (augmented, {"metric": factor})]
        return made


def has_unary_costs(crf: gm.CRF) -> bool:
    """Are there costs of single labels, which the spectral relaxation cannot hold?"""
    return bool(crf.unary_blocks) or bool(np.any(crf.unary != 0))
