"""``method="auto"``: exact where it can be, else both bounds."""

from __future__ import annotations

import numpy as np

from gmlearn.decompositions.forests import is_forest
from gmlearn.probabilities.exact import MAX_MEMORY, TreeMarginals, run_elimination
from gmlearn.probabilities.junction import JunctionTree
from gmlearn.probabilities.mean_field import MeanField, point_mass
from gmlearn.probabilities.method import MarginalMethod, MarginalProblem, lacks_tables
from gmlearn.probabilities.result import Marginals, MarginalStatus
from gmlearn.probabilities.trw import TRW
from gmlearn.solvers.api import solve

#: joined entries that are eliminated without a time limit (some ten seconds), and those that are
#: expected in one second of a time limit
MAX_ENTRIES, ENTRIES_PER_SECOND = 2.0**28, 1.5e7
#: variables beyond which a model that is no forest is not tried by elimination
MAX_VARIABLES = 20_000


class AutoMarginals(MarginalMethod):
    """Forests by messages; small induced width by elimination; else the convex upper bound, whose
    marginals are returned, and the mean-field lower bound.

    Without a time limit the choice depends on counts of operations alone.
    """

    name = "auto"

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
        if lacks_tables(problem.crf) is None:
            lower = MeanField().run(problem)
        else:
            lower = point_mass(problem, "mean-field")
        upper.lower = min(lower.lower, upper.upper)
        upper.log_partition = upper.upper
        upper.iterations += lower.iterations
        upper.seconds = problem.elapsed
        upper.reason = f"{upper.method} from above, {lower.method} from below"
        upper.method = self.name
        return upper

    def _upper(self, problem: MarginalProblem) -> Marginals:
        """The convex bound; where a slave has no soft minimum, log Z <= -bound/T + log (number of
        labellings), with the labelling of least energy.
        """
        if TRW().refuses(problem.crf) is None:
            return TRW().run(problem)
        found = solve(problem.crf, problem.w, time_limit=problem.time_limit, seed=problem.seed)
        q = np.zeros(problem.crf.n_coords)
        if np.isfinite(found.energy):
            q[problem.crf.offsets[:-1] + found.labels] = 1.0
        possible = np.add.reduceat(np.isfinite(problem.crf.unary), problem.crf.offsets[:-1])
        count = float(np.log(np.maximum(possible, 1)).sum())
        upper = -found.bound / problem.temperature + count
        if found.bound == np.inf:
            return problem.exact("least energy", -np.inf, q)
        return problem.answer("least energy", upper, q, upper=upper)


def eliminable(problem: MarginalProblem) -> JunctionTree | None:
    """The elimination of a model, if its memory and work are within the limits."""
    if problem.crf.n_vars > MAX_VARIABLES or lacks_tables(problem.crf) is not None:
        return None
    tree = JunctionTree(problem.graph, problem.temperature, problem.seed)
    most = MAX_ENTRIES
    if problem.time_limit is not None:
        most = ENTRIES_PER_SECOND * max(problem.time_left, 0.0)
    if tree.possible and (tree.order.entries > most or tree.bytes > MAX_MEMORY * 2**30):
        return None
    return tree
