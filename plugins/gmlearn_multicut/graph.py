"""A signed graph: every pair of nodes at most once, with its cost and its neighbours by node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph

import gmlearn as gm


@dataclass(frozen=True)
class EdgeGraph:
    """Nodes 0..n_nodes-1 and edges (M, 2), first < second, each once, in ascending order; cost
    (M,).
    """

    n_nodes: int
    edges: np.ndarray
    cost: np.ndarray

    @classmethod
    def of(cls, n_nodes: int, edges: np.ndarray, cost: np.ndarray) -> EdgeGraph:
        """The graph of a list of pairs; costs of equal pairs add up, loops are never cut."""
        only, where = unique_pairs(n_nodes, edges)
        kept = where >= 0
        return cls(n_nodes, only, np.bincount(where[kept], cost[kept], len(only)))

    @cached_property
    def adjacency(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(start (n + 1,), neighbour (2 M,), edge (2 M,)): the edges of every node, neighbours
        ascending.
        """
        ends = np.concatenate([self.edges[:, 0], self.edges[:, 1]])
        others = np.concatenate([self.edges[:, 1], self.edges[:, 0]])
        order = np.lexsort((others, ends))
        start = np.searchsorted(ends[order], np.arange(self.n_nodes + 1))
        return start, others[order], np.tile(np.arange(len(self.edges)), 2)[order]

    def energy(self, labels: np.ndarray) -> float:
        """The sum of the costs of cut edges."""
        return float(self.cost @ self.cut(labels))

    def cut(self, labels: np.ndarray) -> np.ndarray:
        """Which edges (M,) have ends with different labels."""
        return labels[self.edges[:, 0]] != labels[self.edges[:, 1]]

    def components(self, cut: np.ndarray) -> np.ndarray:
        """Labels (n,) of the parts that are left when the edges in `cut` (M,) bool are removed."""
        kept = self.edges[~cut]
        shape = (self.n_nodes, self.n_nodes)
        graph = scipy.sparse.csr_array((np.ones(len(kept)), (kept[:, 0], kept[:, 1])), shape=shape)
        return scipy.sparse.csgraph.connected_components(graph, directed=False)[1].astype(np.int64)


def unique_pairs(n_nodes: int, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (K, 2) of different nodes, each once, and the number of each edge's pair (M,), -1 for
    loops.
    """
    low, high = edges.min(axis=1, initial=n_nodes), edges.max(axis=1, initial=-1)
    proper = low != high
    keys, inverse = np.unique(low[proper] * n_nodes + high[proper], return_inverse=True)
    where = np.full(len(edges), -1)
    where[proper] = inverse
    return np.stack(np.divmod(keys, n_nodes), axis=1).astype(np.int64), where


def model_graph(crf: gm.CRF, w: Mapping[str, np.ndarray]) -> EdgeGraph:
    """The signed graph of a model of Potts edges."""
    blocks = [b for b in crf.clique_blocks if isinstance(b, gm.Potts)]
    edges = [np.zeros((0, 2), np.int64), *(b.variables for b in blocks)]
    costs = [np.zeros(0), *(b.strength(w) for b in blocks)]
    return EdgeGraph.of(crf.n_vars, np.concatenate(edges), np.concatenate(costs))
