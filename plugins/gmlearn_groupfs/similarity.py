"""What the contrast classifiers compare samples by: who is whose neighbour, and in part the
kernels' own values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gmlearn_groupfs.links import with_evidence
from gmlearn_groupfs.neighbours import NeighbourKernels

#: share of the kernels' values beside their neighbour graphs. Ranks do not care how a kernel is
#: scaled, nor for what is far away; values tell the middle distance apart, which helps where
#: clusters are round and all views show them.
VALUE_SHARE = 0.5


@dataclass(frozen=True, eq=False)
class Standard:
    """Shift and scale, (M,) each, that give every kernel mean 0 and variance 1 off its diagonal."""

    centre: np.ndarray
    width: np.ndarray

    @classmethod
    def of(cls, kernels: np.ndarray) -> Standard:
        """The standard of kernels (M, n, n)."""
        n = kernels.shape[1]
        pairs = max(n * (n - 1), 1)
        apart = kernels.copy()
        diagonal = np.einsum("mii->mi", apart)  # a view
        diagonal[:] = 0.0  # not subtracted from the sums: it may be all there is
        centre = apart.sum(axis=(1, 2)) / pairs
        apart -= centre[:, None, None]
        diagonal[:] = 0.0
        width = np.sqrt(np.einsum("mij,mij->m", apart, apart) / pairs)
        return cls(centre, np.maximum(width, 1e-12))

    def __call__(self, kernels: np.ndarray) -> np.ndarray:
        return (kernels - self.centre[:, None, None]) / self.width[:, None, None]


class Similarity:
    """Standardised similarities of a bank, `VALUE_SHARE` of them kernel values and the rest
    neighbour graphs.

    Parameters
    ----------
    kernels : (M, n, n).
    n_neighbours : of the `NeighbourKernels`; None for the kernels' values alone.
    evidence : (n, n) of `propagate_links`, towards which the graphs are moved; None for no links.

    Attributes
    ----------
    kernels : (M, n, n) with a zero diagonal, mean 0 and variance 1 off it.
    graphs : (M, n, n), the neighbour graphs with the evidence; only where there are neighbours.
    """

    def __init__(
        self, kernels: np.ndarray, n_neighbours: int | None, evidence: np.ndarray | None = None
    ):
        self.graph = None if n_neighbours is None else NeighbourKernels(kernels, n_neighbours)
        self.values = Standard.of(kernels)
        mixed = self.values(kernels)
        if self.graph is not None:
            self.graphs = self.graph.kernels
            if evidence is not None:
                self.graphs = with_evidence(self.graphs, evidence)
            self.ranks = Standard.of(self.graphs)
            mixed = VALUE_SHARE * mixed + (1.0 - VALUE_SHARE) * self.ranks(self.graphs)
        self.whole = Standard.of(mixed)
        self.kernels = self.whole(mixed) * ~np.eye(kernels.shape[1], dtype=bool)

    def cross(self, cross: np.ndarray) -> np.ndarray:
        """The same for new samples: cross-kernels (M, k, n) -> (M, k, n)."""
        mixed = self.values(cross)
        if self.graph is not None:
            mixed = VALUE_SHARE * mixed + (1.0 - VALUE_SHARE) * self.ranks(self.graph.cross(cross))
        return self.whole(mixed)
