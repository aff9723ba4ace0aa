"""The partition loss for training: Delta = ||C(x) - C||^2, dataset by dataset."""

from __future__ import annotations

import numpy as np

import gmlearn as gm
from gmlearn_mlca.potentials import KMeansEnergy, PartitionDistance, small_problem


class PartitionLoss(gm.Loss):
    r"""Delta(x, truth) = sum over datasets of :math:`\|C(x) - C(\bar x)\|^2`, blind to how clusters
    are numbered.

    The datasets are those of the model's `KMeansEnergy` block; without one, all variables are one
    dataset.
    """

    name = "partition"

    def value(self, crf: gm.CRF, x: np.ndarray, truth: np.ndarray, observed: np.ndarray) -> float:
        block = self.blocks(crf, truth, observed)[0].bind(crf.n_states)
        return 0.0 - float(block.energy(block.gather(np.asarray(x)), {}).sum())

    def blocks(self, crf: gm.CRF, truth: np.ndarray, observed: np.ndarray) -> list[gm.Block]:
        if not np.all(observed):
            raise ValueError(
                "loss 'partition': every label must be observed; a partition with unknown members "
                "has no projector"
            )
        energies = [b for b in crf.blocks if isinstance(b, KMeansEnergy)]
        cliques = (
            np.split(energies[0].members, energies[0].indptr[1:-1])
            if energies
            else [np.arange(crf.n_vars)]
        )
        return [PartitionDistance(cliques, np.concatenate([truth[c] for c in cliques]))]

    @classmethod
    def examples(cls, rng: np.random.Generator) -> list[tuple[gm.Loss, gm.CRF, np.ndarray]]:
        """Two datasets in one model, and a model without a k-means energy."""
        return [(cls(), *small_problem(rng)), (cls(), gm.CRF(5, 3), rng.integers(0, 3, 5))]
