"""``method="auto"``: exact where it can be, else both bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gmlearn.decompositions.base import clique_groups
from gmlearn.decompositions.forests import is_forest
from gmlearn.potentials.base import Block
from gmlearn.probabilities.exact import MAX_MEMORY, TreeMarginals, run_elimination
from gmlearn.probabilities.junction import JunctionTree
from gmlearn.probabilities.mean_field import MeanField, point_mass
from gmlearn.probabilities.method import MarginalMethod, MarginalProblem, lacks_tables
from gmlearn.probabilities.result import Marginals, MarginalStatus
from gmlearn.probabilities.trw import TRW
from gmlearn.slaves.choose import NoSolverError, choose_solver
from gmlearn.solvers.api import solve

#: joined entries that are eliminated without a time limit (some ten seconds), and those that are
#: expected in one second of a time limit
MAX_ENTRIES, ENTRIES_PER_SECOND = 2.0**30, 4e7
#: variables beyond which a model that is no forest is not tried by elimination
MAX_VARIABLES = 20_000


class AutoMarginals(MarginalMethod):
    """Forests by messages; small induced width by elimination; else the convex upper bound, whose
    marginals are returned, and the mean-field lower bound.

    Without a time limit the choice depends on counts of operations alone.

    settings : tol, of the upper bound as in "trw".
    """

    name = "auto"
    settings = ("tol",)
    limits = {"tol": TRW.limits["tol"]}

    def run(self, problem: MarginalProblem) -> Marginals:
        if is_forest(problem.crf):
            found = TreeMarginals().run(problem)
            found.reason = "the model is a forest"
            return found
        exact = self._eliminate(problem)
        return self._bounds(problem) if exact is None else exact

    def _eliminate(self, problem: MarginalProblem) -> Marginals | None:
        tree = eliminable(problem)
        return (
            None if tree is None else run_elimination(problem, tree, "the induced width is small")
        )

    def _bounds(self, problem: MarginalProblem) -> Marginals:
        """Both bounds, and the marginals of the upper one."""
        whole = problem.time_limit
        if whole is not None:  # the upper bound is iterated longest
            problem.time_limit = problem.elapsed + 0.7 * max(problem.time_left, 0.0)
        upper = self._upper(problem)
        problem.time_limit = whole
        if upper.status in (MarginalStatus.EXACT, MarginalStatus.INFEASIBLE):
            return upper
        if MeanField().refuses(problem.crf) is None:
            lower = MeanField().run(problem)
        else:
            lower = point_mass(problem, "mean-field")
        upper.upper = min(upper.upper, problem.upper_by_count)
        if upper.upper == -np.inf:
            return problem.exact(self.name, -np.inf, np.zeros(problem.crf.n_coords))
        upper.lower = min(lower.lower, upper.upper)
        upper.log_partition = upper.upper
        upper.iterations += lower.iterations
        upper.seconds = problem.elapsed
        upper.reason = f"{upper.method} from above, {lower.method} from below"
        upper.method = self.name
        return upper

    def _upper(self, problem: MarginalProblem) -> Marginals:
        """The convex bound; where some cliques have no soft minimum, the lower of two: that of the
        model in which they cost as little as they ever can, and log Z <= -bound/T + log (number of
        labellings).
        """
        if TRW().refuses(problem.crf) is None:
            return TRW().run(problem)
        found = _with_least_costs(problem)
        if found.upper == -np.inf:
            return found
        crf = problem.crf
        limit = None if problem.time_limit is None else max(problem.time_left, 0.0)
        solved = solve(crf, problem.w, time_limit=limit, seed=problem.seed)
        problem.least_energy = max(problem.least_energy, solved.bound)
        upper = min(found.upper, problem.upper_by_count)
        q = found.node[np.arange(found.node.shape[1]) < crf.n_states[:, None]]
        if upper == -np.inf:
            return problem.exact(found.method, upper, q)
        return problem.answer(found.method, upper, q, upper=upper, iterations=found.iterations)


def _with_least_costs(problem: MarginalProblem) -> Marginals:
    """The model without the cliques that have no soft minimum, which pay their least cost: its
    log Z is not below.
    """
    crf, least = problem.crf, 0.0
    hard = [b for b in crf.clique_blocks if not _is_soft(b)]
    for group in clique_groups(crf, hard, None):
        theta = np.where(np.isfinite(crf.unary), 0.0, np.inf)[group.coords]
        least += float(group.solve(theta, group.prepare(problem.w)).value.sum())
    rest = crf.copy()
    rest.blocks = [b for b in crf.blocks if not any(b is c for c in hard)]
    rest.constant += least
    if least == np.inf:
        return problem.exact("least costs", -np.inf, np.zeros(crf.n_coords))
    smaller = replace(problem, crf=rest)
    if is_forest(rest):
        return TreeMarginals().run(smaller)
    tree = eliminable(smaller)
    return TRW().run(smaller) if tree is None else run_elimination(smaller, tree)


def _is_soft(block: Block) -> bool:
    """Has some slave solver a soft minimum of the block's cliques?"""
    try:
        choose_solver(block, "log_partition")
    except NoSolverError:
        return False
    return True


def eliminable(problem: MarginalProblem) -> JunctionTree | None:
    """The elimination of a model, if its memory and work are within the limits."""
    if problem.crf.n_vars > MAX_VARIABLES or lacks_tables(problem.crf) is not None:
        return None
    most = MAX_ENTRIES
    if problem.time_limit is not None:
        most = ENTRIES_PER_SECOND * max(problem.time_left, 0.0)
    tree = JunctionTree(problem.graph, problem.temperature, problem.seed, most)
    if tree.possible and (tree.order.entries > most or tree.bytes > MAX_MEMORY * 2**30):
        return None
    return tree
