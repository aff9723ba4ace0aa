"""The spectral slave: whole datasets minimised over relaxed partitions, without dual coordinates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import gmlearn as gm
from gmlearn_mlca.assign import kmeans_labels
from gmlearn_mlca.potentials import (
    KMeansEnergy,
    PartitionDistance,
    orthonormal_indicator,
    small_problem,
)
from gmlearn_mlca.spectral import ReducedDataset, SpectralMinimum, spectral_minimum


class SpectralGroup(gm.SlaveGroup):
    """One subproblem per dataset: min over rank-k projectors of -<Chat, X M X'> (- ||Chat - C||^2 where there is a truth).

    A relaxation: every partition is such a projector, so the value never exceeds the minimum over labellings. The labels
    occur in no other slave, hence there are no dual variables.
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

    def _factors(self, m: int) -> tuple[np.ndarray, np.ndarray]:
        part = slice(*self.energy.indptr[m : m + 2])
        rows = self.energy.rows[part]
        if self.truth is None:
            return rows, np.zeros((len(rows), 0))
        return rows, orthonormal_indicator(self.truth.truth[part], self.energy.n_clusters)

    def _reduce(self, m: int) -> ReducedDataset:
        return ReducedDataset.from_data(*self._factors(m), n_clusters=self.energy.n_clusters)

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

    def round_labels(self, minima: Sequence[SpectralMinimum]) -> np.ndarray:
        """Hard labels (S,) by k-means on the rows of U (n, r), the top eigenvectors of each dataset."""
        labels = np.zeros(len(self.energy.members), np.int64)
        for m, minimum in enumerate(minima):
            U = np.hstack(self._factors(m)) @ (self.reduced[m].lift @ minimum.vectors)
            if U.shape[1] == 0:
                U = self.energy.rows[slice(*self.energy.indptr[m : m + 2])]
            labels[slice(*self.energy.indptr[m : m + 2])] = kmeans_labels(
                U, self.energy.n_clusters, 10, 0
            )
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
        """k-means on the slaves' eigenvectors. Without results there is nothing to read off, so all go to one cluster."""
        group: Any = self.groups[0]
        labels = np.zeros(self.crf.n_vars, np.int64)
        if results:
            labels[group.energy.members] = group.round_labels(results[0].labels)
        return [labels]


class SpectralDecomposition(gm.Decomposition):
    """Covers a model made of one `KMeansEnergy` block, with or without a `PartitionDistance`, by one spectral slave per dataset."""

    name = "spectral"

    def claims(self, crf: gm.CRF) -> bool:
        return any(isinstance(b, KMeansEnergy) for b in crf.blocks)

    def decompose(self, crf: gm.CRF, power: str | None = None) -> gm.Slaves:
        energies = [b for b in crf.blocks if isinstance(b, KMeansEnergy)]
        truths = [b for b in crf.blocks if isinstance(b, PartitionDistance)]
        if len(energies) != 1 or len(truths) > 1 or len(crf.blocks) != len(energies) + len(truths):
            raise ValueError(
                "decomposition 'spectral': expected one kmeans_energy block and at most one partition_distance, "
                f"got {crf}"
            )
        if power is not None:
            raise ValueError(f"decomposition 'spectral': spectral slaves cannot give {power}")
        if np.any(crf.unary != 0):
            raise ValueError(
                "decomposition 'spectral': unary costs are not part of the relaxed k-means energy"
            )
        if truths and (
            not np.array_equal(truths[0].members, energies[0].members)
            or not np.array_equal(truths[0].indptr, energies[0].indptr)
        ):
            raise ValueError(
                "decomposition 'spectral': the loss must be over the same datasets as the energy"
            )
        return SpectralSlaves(crf, SpectralGroup(energies[0], truths[0] if truths else None))

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
