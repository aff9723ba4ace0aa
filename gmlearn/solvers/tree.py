"""Exact dynamic programming on pairwise forests."""

from __future__ import annotations

import numpy as np

from gmlearn.decompositions.base import is_edge_block
from gmlearn.model.crf import CRF
from gmlearn.solvers.problem import MapSolver, Problem


def is_forest(crf: CRF) -> bool:
    """Are all cliques edges, without a cycle (or a double edge)?"""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    blocks = crf.clique_blocks
    if not all(is_edge_block(b) for b in blocks):
        return False
    edges = np.concatenate([b.variables for b in blocks]) if blocks else np.zeros((0, 2), np.int64)
    if len(edges) >= crf.n_vars and len(edges):
        return False
    graph = coo_array(
        (np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(crf.n_vars, crf.n_vars)
    )
    n_components, _ = connected_components(graph, directed=False)
    return n_components == crf.n_vars - len(edges)


class Tree(MapSolver):
    """Dynamic programming on a forest: exact, in one round of the slaves."""

    name = "tree"

    def refuses(self, crf: CRF) -> str | None:
        return None if is_forest(crf) else "the model is not a pairwise forest"

    def run(self, problem: Problem) -> None:
        from gmlearn.decompositions import decompose
        from gmlearn.master import Dual

        slaves = decompose(problem.crf, "trees")
        current = Dual(slaves, problem.w).round()
        problem.iterations = 1
        for labels in slaves.proposals(current.results, current.mean):
            problem.offer(labels, "dynamic programming")
        # the slaves are disjoint and exact, so their sum is the minimum; the model's own sum avoids
        # rounding
        problem.raise_bound(problem.energy if np.isfinite(current.bound) else np.inf)
