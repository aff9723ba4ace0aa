"""Signed graphs as slave groups: cycles that share the indicators y_e of cut edges.

Coordinate e is y_e = [ends of e are apart]. A slave holds the edges of one cycle and may cut none
or at least two of them; with theta its costs,

    min over y in {0, 1}^k, sum(y) != 1, of theta . y

is sum of min(theta, 0), and where a single theta is negative the smaller of two corrections: cut it
not, or cut the cheapest other edge as well. Exact, O(k). Together the slaves give the LP relaxation
with their cycle inequalities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

import gmlearn as gm
from gmlearn_multicut.graph import EdgeGraph, unique_pairs
from gmlearn_multicut.losses import PairLoss
from gmlearn_multicut.potentials import SignedGraph, small_models
from gmlearn_multicut.primal import at_most
from gmlearn_multicut.relaxation import violated_cycles

#: triangles of an edge, and edges of a cycle, at most
_MOST_TRIANGLES, _LONGEST = 20, 8
#: violation from which on a cycle comes in: the averages of an ascent are no exact solution
_VISIBLE = 0.02


class CycleGroup(gm.SlaveGroup):
    """Cycles of edges; a "cycle" of one edge is that edge alone, and free.

    Parameters
    ----------
    coords : int (D,) edges of all cycles, one after the other.   sizes : int (n,) of the cycles.
    """

    def __init__(self, coords: np.ndarray, sizes: np.ndarray):
        self.coords, self.edges_of = coords, sizes
        self.n = len(sizes)
        self.owner = np.repeat(np.arange(self.n), sizes)
        self.first = np.cumsum(sizes) - sizes

    def solve(self, theta: np.ndarray, prepared: Any) -> gm.SlaveResult:
        """Which edges are cut, and the minima."""
        if self.n == 0:
            return gm.SlaveResult(np.zeros(0), np.zeros(0))
        negative = theta < 0.0
        value = np.add.reduceat(np.minimum(theta, 0.0), self.first)
        single = (np.add.reduceat(negative.astype(np.int64), self.first) == 1) & (self.edges_of > 1)
        # the cheapest edge that is not cut (ties: the first), for the cycles that cut one
        others = np.where(negative, np.inf, theta)
        cheapest = np.minimum.reduceat(others, self.first)
        spare = single & (cheapest < -value)
        drop = single & ~spare
        value = np.where(drop, 0.0, value + np.where(spare, cheapest, 0.0))
        ind = (negative & ~drop[self.owner]).astype(np.float64)
        hit = np.flatnonzero((others == cheapest[self.owner]) & spare[self.owner])
        ind[hit[np.unique(self.owner[hit], return_index=True)[1]]] = 1.0
        return gm.SlaveResult(ind, value)

    def features(self, result: gm.SlaveResult) -> dict[str, np.ndarray]:
        """None: all costs belong to coordinates."""
        return {}

    def slave_features(self, result: gm.SlaveResult) -> dict[str, np.ndarray]:
        return {}

    def joined(self, coords: np.ndarray, sizes: np.ndarray) -> CycleGroup:
        """These cycles and others."""
        both = np.concatenate([self.coords, coords]), np.concatenate([self.edges_of, sizes])
        return CycleGroup(*(part.astype(np.int64) for part in both))

    def take(self, index: np.ndarray) -> CycleGroup:
        kept = np.isin(self.owner, index)
        return CycleGroup(self.coords[kept], self.edges_of[index])


class MulticutSlaves(gm.Slaves):
    """A model of Potts edges without unary costs, covered by cycles; coordinates y_e.

    Short cycles at first; those whose inequality is violated come in when the ascent is at rest.
    """

    def __init__(self, crf: gm.CRF, cycles: CycleGroup | None = None):
        reason = why_not_multicut(crf)
        if reason is not None:
            raise ValueError(f"decomposition 'cycles': {reason}")
        self.blocks: list[Any] = list(crf.clique_blocks)
        edges = np.concatenate([np.zeros((0, 2), np.int64), *(b.variables for b in self.blocks)])
        pairs, where = unique_pairs(crf.n_vars, edges)
        ends = np.cumsum([len(b) for b in self.blocks])[:-1]
        self.pair_of = np.split(where, ends) if self.blocks else []
        self.graph = EdgeGraph(crf.n_vars, pairs, np.zeros(len(pairs)))
        self.cycles = short_cycles(self.graph) if cycles is None else cycles
        super().__init__(crf, [self.cycles], len(pairs))

    def grow(self, mean: np.ndarray, theta: np.ndarray) -> MulticutSlaves | None:
        """The same with the violated cycles of the relaxed cuts."""
        violated = violated_cycles(self.graph, np.clip(mean, 0.0, 1.0), _VISIBLE)
        if violated.shape[0] == 0:
            return None
        return MulticutSlaves(
            self.crf, self.cycles.joined(violated.indices, np.diff(violated.indptr))
        )

    def unary(self, w: Mapping[str, np.ndarray]) -> np.ndarray:
        total = np.zeros(self.n_coords)
        for block, where in zip(self.blocks, self.pair_of):
            kept = where >= 0
            total += np.bincount(where[kept], block.strength(w)[kept], self.n_coords)
        return total

    def unary_features(self, mean: np.ndarray) -> dict[str, np.ndarray]:
        total: dict[str, np.ndarray] = {}
        for block, where in zip(self.blocks, self.pair_of):
            if block.weight is not None:
                cut = np.where(where >= 0, mean[where], 0.0)
                total[block.weight] = total.get(block.weight, 0.0) + cut @ block.contrast
        return total

    def indicators(self, labels: np.ndarray) -> np.ndarray:
        return self.graph.cut(labels).astype(np.float64)

    def proposals(self, results: Sequence[gm.SlaveResult], mean: np.ndarray) -> list[np.ndarray]:
        """The parts that are left when the edges that most slaves cut are removed."""
        graph = EdgeGraph(self.graph.n_nodes, self.graph.edges, 0.5 - mean)
        n_labels = int(self.crf.n_states.max(initial=1))
        return [at_most(graph, graph.components(mean >= 0.5), n_labels)]


def short_cycles(graph: EdgeGraph) -> CycleGroup:
    """Triangles, at most 20 an edge; for edges in none a shortest cycle through them, of at most 8
    edges; edges in no such cycle alone.
    """
    from gmlearn_multicut import _cycles_numba as kernels

    ends = graph.edges[:, 0], graph.edges[:, 1]
    found = kernels.triangles(*graph.adjacency, *ends, _MOST_TRIANGLES)
    left = np.setdiff1d(np.arange(len(graph.edges)), found)
    cycles = kernels.shortest_cycles(*graph.adjacency, *ends, left, _LONGEST)
    alone = left[cycles[:, 0] < 0]
    cycles = np.unique(np.sort(cycles[cycles[:, 0] >= 0], axis=1), axis=0)
    covered = np.concatenate([found.ravel(), cycles[cycles >= 0], alone])
    sizes = [np.full(len(found), 3), (cycles >= 0).sum(axis=1), np.ones(len(alone), np.int64)]
    return CycleGroup(covered, np.concatenate(sizes).astype(np.int64))


def why_not_multicut(crf: gm.CRF) -> str | None:
    """None if the model is made of Potts edges over variables with one number of labels, without
    unary costs; else what is wrong.
    """
    if not all(isinstance(b, gm.Potts) for b in crf.clique_blocks):
        return "expected no cliques but signed_graph and potts edges"
    if crf.unary_blocks or crf.unary.any():
        return "expected no unary costs: the clusters of a multicut have no names"
    if crf.n_vars and (crf.n_states != crf.n_states[0]).any():
        return "expected the same number of labels for all variables"
    return None


def is_multicut(crf: gm.CRF) -> bool:
    """Does the model have a signed graph, and nothing that a multicut cannot have?"""
    signed = any(isinstance(b, SignedGraph) for b in crf.clique_blocks)
    return signed and why_not_multicut(crf) is None


class CycleDecomposition(gm.Decomposition):
    """Short cycles, for models of a signed graph."""

    name = "cycles"
    known_failures: ClassVar[dict[str, str]] = {
        "check_slaves_sum_to_the_energy": "the slaves share indicators of cut edges, not labels: "
        "the kit cannot read a slave's energy off a labelling; the plugin's own tests do"
    }

    def claims(self, crf: gm.CRF) -> bool:
        return is_multicut(crf)

    def decompose(self, crf: gm.CRF, power: str | None = None) -> MulticutSlaves:
        if power is not None:
            raise ValueError(f"decomposition 'cycles': its slaves cannot do {power!r}")
        return MulticutSlaves(crf)

    def examples(self, rng: np.random.Generator) -> list[tuple[gm.CRF, dict[str, np.ndarray]]]:
        """Small models alone and with the pair loss."""
        made = []
        for crf, w in small_models(rng):
            truth = rng.integers(0, 2, crf.n_vars)
            made += [(crf, w), (PairLoss().augment(crf, truth), w)]
        return made
