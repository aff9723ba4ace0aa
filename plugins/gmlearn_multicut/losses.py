"""The pair loss: edges on which two partitions disagree."""

from __future__ import annotations

import numpy as np

import gmlearn as gm
from gmlearn_multicut.graph import unique_pairs
from gmlearn_multicut.potentials import SignedGraph, small_models


class PairLoss(gm.Loss):
    r"""Delta = scale times the number of edges of the model that are cut by one of two partitions
    and not by the other; both ends observed.

    On a complete graph it is the number of wrong pairs (Rand distance). Blind to how clusters are
    numbered.
    """

    name = "pairs"

    def __init__(self, scale: float = 1.0):
        self.scale = float(gm.check_number("scale", scale, low=0.0))

    def value(self, crf: gm.CRF, x: np.ndarray, truth: np.ndarray, observed: np.ndarray) -> float:
        edges = self._edges(crf, observed)
        return self.scale * float(np.sum(_apart(edges, x) != _apart(edges, truth)))

    def blocks(self, crf: gm.CRF, truth: np.ndarray, observed: np.ndarray) -> list[gm.Block]:
        edges = self._edges(crf, observed)
        # |y - 1| = 1 - y where the truth cuts, y elsewhere; with the sign turned
        return [SignedGraph(edges, self.scale * np.where(_apart(edges, truth), 1.0, -1.0))]

    def constant(self, crf: gm.CRF, truth: np.ndarray, observed: np.ndarray) -> float:
        return -self.scale * float(np.sum(_apart(self._edges(crf, observed), truth)))

    @staticmethod
    def _edges(crf: gm.CRF, observed: np.ndarray) -> np.ndarray:
        blocks = [b.variables for b in crf.clique_blocks if isinstance(b, gm.Potts)]
        edges = np.concatenate([np.zeros((0, 2), np.int64), *blocks])
        pairs = unique_pairs(crf.n_vars, edges)[0]
        return pairs[np.asarray(observed)[pairs].all(axis=1)]

    @classmethod
    def examples(cls, rng: np.random.Generator) -> list[tuple[gm.Loss, gm.CRF, np.ndarray]]:
        """Partitions of small graphs."""
        models = [crf for crf, _ in small_models(rng)]
        return [(cls(1.0 + rng.random()), crf, rng.integers(0, 2, crf.n_vars)) for crf in models]


def _apart(edges: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return labels[edges[:, 0]] != labels[edges[:, 1]]
