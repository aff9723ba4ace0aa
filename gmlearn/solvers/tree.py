"""Exact dynamic programming on pairwise forests."""

from __future__ import annotations

import numpy as np

from gmlearn.decompositions.forests import is_forest
from gmlearn.model.crf import CRF
from gmlearn.solvers.problem import MapSolver, Problem


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
