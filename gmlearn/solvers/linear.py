"""The local-polytope relaxation as a linear program (HiGHS), and the integer program on what
pruning leaves of it.

min over mu >= 0 of <c, mu>, with sum_l mu_v(l) = 1 and sum over x_c with x_v = l of mu_c(x_c) =
mu_v(l) for every clique c, member v and label l (Schlesinger 1976; Wainwright and Jordan 2008). Its
value is the best bound of any decomposition into single cliques; with whole labels it is MAP.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gmlearn._utils.threads import in_thread
from gmlearn.decompositions.base import Slaves, clique_groups, with_free_variables
from gmlearn.master import Dual
from gmlearn.model.crf import CRF
from gmlearn.model.factors import FactorGraph, blocks_by_size, table_entries
from gmlearn.solvers.dual import one_round_bound
from gmlearn.solvers.problem import MapSolver, Problem

#: table entries beyond which a linear program is refused
MAX_ENTRIES = 5_000_000


@dataclass(frozen=True)
class LocalPolytope:
    """min c.mu over marginals mu: one variable per allowed label and per allowed joint state of
    each clique.

    cost (n,).   rows, columns, entries, right : equality constraints.   label : int (n_coords,),
    the column of each label or -1.   constraint : int, the row that ties each (clique member,
    label) to the label, -1 if absent.
    first_joint : int (F + 1,), the first column of each clique.   allowed : bool (n_coords,).
    """

    cost: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    entries: np.ndarray
    right: np.ndarray
    label: np.ndarray
    constraint: np.ndarray
    first_joint: np.ndarray
    allowed: np.ndarray

    @classmethod
    def of(cls, graph: FactorGraph, allowed: np.ndarray) -> LocalPolytope:
        """The polytope on the labels with ``allowed[coord]``."""
        n_labels = int(allowed.sum())
        label = np.full(len(allowed), -1)
        label[allowed] = np.arange(n_labels)
        owner = np.repeat(np.arange(graph.n_vars), graph.n_states)[allowed]
        cost = [graph.unary[allowed]]
        rows, columns, entries = [owner], [np.arange(n_labels)], [np.ones(n_labels)]
        n_rows, n_columns = graph.n_vars, n_labels
        sizes = graph.n_states[graph.scope]
        slot_ptr = np.concatenate([[0], np.cumsum(sizes)])
        constraint = np.full(int(slot_ptr[-1]), -1)
        first_joint = np.zeros(graph.n_factors + 1, np.int64)
        for f in range(graph.n_factors):
            first_joint[f] = n_columns
            lo, hi = int(graph.indptr[f]), int(graph.indptr[f + 1])
            scope = graph.scope[lo:hi]
            keep = [
                np.flatnonzero(allowed[graph.offsets[v] : graph.offsets[v + 1]])
                for v in scope.tolist()
            ]
            table = graph.table(f)[np.ix_(*keep)]
            joint = np.argwhere(np.isfinite(table))
            here = n_columns + np.arange(len(joint))
            cost.append(table[tuple(joint.T)])
            for i, v in enumerate(scope.tolist()):
                row = n_rows + np.arange(len(keep[i]))
                constraint[slot_ptr[lo + i] + keep[i]] = row
                rows += [n_rows + joint[:, i], row]
                columns += [here, label[graph.offsets[v] + keep[i]]]
                entries += [np.ones(len(joint)), -np.ones(len(keep[i]))]
                n_rows += len(keep[i])
            n_columns += len(joint)
        first_joint[-1] = n_columns
        right = np.zeros(n_rows)
        right[: graph.n_vars] = 1.0
        return cls(
            np.concatenate(cost),
            np.concatenate(rows),
            np.concatenate(columns),
            np.concatenate(entries),
            right,
            label,
            constraint,
            first_joint,
            allowed,
        )

    def joint(self, graph: FactorGraph, f: int) -> tuple[np.ndarray, np.ndarray]:
        """Joint states (n, k) of clique f that have a column, and their columns (n,)."""
        scope = graph.scope[graph.indptr[f] : graph.indptr[f + 1]].tolist()
        keep = [
            np.flatnonzero(self.allowed[graph.offsets[v] : graph.offsets[v + 1]]) for v in scope
        ]
        index = np.argwhere(np.isfinite(graph.table(f)[np.ix_(*keep)]))
        states = np.stack([k[i] for k, i in zip(keep, index.T)], axis=1)
        return states, np.arange(self.first_joint[f], self.first_joint[f + 1])

    def label_marginals(self, mu: np.ndarray) -> np.ndarray:
        """float (n_coords,): the marginals of labels in a solution (n,), -1 where one is not
        allowed.
        """
        return np.where(self.label >= 0, mu[np.maximum(self.label, 0)], -1.0)

    def matrix(self):
        """The constraint matrix, sparse."""
        from scipy.sparse import csc_array

        return csc_array(
            (self.entries, (self.rows, self.columns)), shape=(len(self.right), len(self.cost))
        )


def labels_from_marginals(
    crf: CRF | FactorGraph, polytope: LocalPolytope, mu: np.ndarray
) -> np.ndarray:
    """The label of largest marginal of each variable."""
    value = polytope.label_marginals(mu)
    top = np.repeat(np.maximum.reduceat(value, crf.offsets[:-1]), crf.n_states)
    hit = np.flatnonzero(value == top)
    return hit[np.searchsorted(hit, crf.offsets[:-1])] - crf.offsets[:-1]


def allowed_labels(graph: FactorGraph) -> np.ndarray:
    """bool (n_coords,): labels that no unary cost forbids."""
    return np.isfinite(graph.unary)


class LinearProgram(MapSolver):
    """The local-polytope LP by HiGHS.

    Its dual solution is turned into multipliers, so that the bound is our own.
    """

    name = "lp"

    def refuses(self, crf: CRF) -> str | None:
        size = table_entries(crf)
        return None if size <= MAX_ENTRIES else f"{size:.3g} table entries > {MAX_ENTRIES}"

    def run(self, problem: Problem) -> None:
        from scipy.optimize import linprog

        def search() -> Any:
            graph = FactorGraph.of(problem.crf, problem.w)
            polytope = LocalPolytope.of(graph, allowed_labels(graph))
            if len(polytope.cost) == 0:  # every label is forbidden
                return polytope, None
            options = {"time_limit": max(problem.clock_left, 0.01)} if problem.limited else {}
            unit = problem.scale or 1.0  # HiGHS's tolerances are absolute
            return polytope, linprog(
                polytope.cost / unit,
                A_eq=polytope.matrix(),
                b_eq=polytope.right,
                bounds=(0, None),
                method="highs",
                options=options,
            )

        found = in_thread(search, problem.clock_left)
        problem.iterations = 1
        if found is None:  # out of time
            one_round_bound(problem)
            return
        polytope, answer = found
        if answer is None:
            problem.raise_bound(np.inf)
            return
        if answer.status == 2:
            problem.raise_bound(np.inf)
            return
        if answer.x is not None:
            marginals = polytope.label_marginals(answer.x)
            problem.relaxed = problem.crf.rows(np.maximum(marginals, 0.0))
            problem.polisher(
                problem, labels_from_marginals(problem.crf, polytope, answer.x), "LP rounding"
            )
            prices = (problem.scale or 1.0) * answer.eqlin.marginals
            self._certify(problem, polytope, prices)
        else:
            one_round_bound(problem)

    def _certify(self, problem: Problem, polytope: LocalPolytope, marginals: np.ndarray) -> None:
        """Evaluate the dual at HiGHS's multipliers: a bound that does not rest on the LP
        solver's tolerances.
        """
        crf = problem.crf
        slaves = Slaves(
            crf, with_free_variables(crf, clique_groups(crf, blocks_by_size(crf), None))
        )
        dual = Dual(slaves, problem.w)
        problem.raise_bound(dual.round().bound)
        theta = np.zeros(len(dual.coords))
        # in the order of the cliques' dual variables; free variables come after them
        rows = polytope.constraint
        # row sum(mu_c) - mu_v(l) = 0 with multiplier y: the clique pays -y and the variable +y
        theta[: len(rows)] = np.where(rows >= 0, -marginals[np.maximum(rows, 0)], 0.0)
        missing = slaves.unary(problem.w) - np.bincount(dual.coords, theta, slaves.n_coords)
        share = missing / np.maximum(slaves.count, 1.0)
        problem.raise_bound(dual.round(theta=theta + share[dual.coords]).bound)
