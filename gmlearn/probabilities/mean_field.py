r"""Lower bounds of :math:`\log Z`: for every distribution q,

.. math:: \log Z \ge -\langle E \rangle_q / T + H(q).

Mean field takes a product of independent parts and improves one part at a time, which never lowers
the bound: single variables (naive), or trees (structured, Saul and Jordan 1996), each solved
exactly with the mean of the others.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from gmlearn._utils.validation import check_choice
from gmlearn.decompositions import decompose
from gmlearn.master import Dual
from gmlearn.model.crf import CRF
from gmlearn.model.factors import Tables
from gmlearn.probabilities.exact import stacked
from gmlearn.probabilities.expected import (
    Expectations,
    naive_without_tables,
    open_blocks,
    softmax,
)
from gmlearn.probabilities.method import MarginalMethod, MarginalProblem
from gmlearn.probabilities.result import Marginals
from gmlearn.slaves.choose import has_edge_form
from gmlearn.solvers.api import solve

#: largest change of a probability at which a pass is the last one
TOLERANCE = 1e-7


class MeanField(MarginalMethod):
    """Mean field: a lower bound of log Z, and the marginals of the distribution that gives it.

    settings : structure, "tree" (default) or "naive"; max_iter, passes (200).
    """

    name = "mean-field"
    settings = ("structure", "max_iter")
    limits = {"max_iter": {"low": 0, "integer": True}}

    def refuses(self, crf: CRF) -> str | None:
        lacking = [b for b in open_blocks(crf) if b.expected_energy is None]
        return f"{lacking[0]} has neither a table nor expected_energy" if lacking else None

    def run(self, problem: MarginalProblem) -> Marginals:
        structure = check_choice(
            "structure", problem.settings.get("structure", "tree"), ["tree", "naive"]
        )
        (lower, q), passes = best_of_two_starts(problem, structure)
        if lower == -np.inf:
            return point_mass(problem, self.name)

        def node(v: int) -> np.ndarray:
            return q[problem.crf.offsets[v] : problem.crf.offsets[v + 1]]

        def cliques(number: int) -> Any:
            block = problem.crf.blocks[number]
            block.check_size(block.table_size() * len(block))
            scopes = np.split(block.members, block.indptr[1:-1])
            return stacked(
                block, [reduce(np.multiply.outer, map(node, s.tolist())) for s in scopes]
            )

        lower += problem.constant
        return problem.answer(self.name, lower, q, lower=lower, cliques=cliques, iterations=passes)


def best_of_two_starts(
    problem: MarginalProblem, structure: str
) -> tuple[tuple[float, np.ndarray], int]:
    """((bound, marginals (n_coords,)), passes) of the best of two starts: the costs of single
    labels, and a labelling of low energy, which breaks no hard constraint.
    """
    limit = int(problem.settings.get("max_iter", 200))
    offsets = problem.crf.offsets
    starts = [softmax(problem.crf.unary_costs(problem.w) / problem.temperature, offsets)]
    labels = low_labelling(problem)
    if labels is not None:
        starts.append(np.zeros(offsets[-1]))
        starts[-1][offsets[:-1] + labels] = 1.0
    expectations = Expectations(problem)
    best, passes = (-np.inf, starts[0]), 0
    for q in starts:
        if np.isnan(q).any():
            continue
        if expectations.open:
            found, own = naive_without_tables(problem, expectations, q, limit)
        else:
            found, own = mean_field(problem, expectations.tables, structure, q, limit)
        passes += own
        best = max(best, found, key=lambda pair: pair[0])
    return best, passes


def mean_field(
    problem: MarginalProblem, tables: Tables, structure: str, q: np.ndarray, limit: int
) -> tuple[tuple[float, np.ndarray], int]:
    """((bound, marginals), passes) from one start: single variables, then trees."""
    found, passes = naive(problem, tables, q, limit)
    if structure == "tree" and found[0] > -np.inf:
        tree, own = by_trees(problem, tables, found[1], limit)
        return max(found, tree, key=lambda pair: pair[0]), passes + own
    return found, passes


def low_labelling(problem: MarginalProblem) -> np.ndarray | None:
    """A feasible labelling of low energy, if one is found; the bound of the least energy that was
    found with it is kept in `problem.least_energy`.
    """
    gap = max(1e-2 * min(problem.temperature, 1.0), 1e-4)
    # without one there is no bound at all: it may take most of the time
    for part in (0.2, 0.8):
        limit = None if problem.time_limit is None else part * max(problem.time_left, 0.0)
        found = solve(problem.crf, problem.w, time_limit=limit, seed=problem.seed, gap=gap)
        problem.least_energy = max(problem.least_energy, found.bound)
        if np.isfinite(found.energy):
            return found.labels
        if limit is None:
            break
    return None


def naive(
    problem: MarginalProblem, tables: Tables, q: np.ndarray, limit: int
) -> tuple[tuple[float, np.ndarray], int]:
    """Coordinate ascent from `q`: ((bound, marginals), passes)."""
    from gmlearn.probabilities._fields_numba import expected_costs, sweep

    q = q.copy()
    used = np.ones(len(tables.start), bool)
    field = np.empty(int(np.diff(tables.offsets).max()))
    digits = np.zeros(tables.arity, np.int64)
    passes = 0
    while passes < limit and problem.time_left > 0:
        passes += 1
        if sweep(tables, used, q, field, digits) < TOLERANCE:
            break
    bound = entropy(q) - mean_cost(tables.unary, q) - expected_costs(tables, used, q, digits)
    return (float(bound), q), passes


def entropy(q: np.ndarray) -> float:
    """Of independent variables with marginals q."""
    return -float((q * np.log(np.where(q > 0, q, 1.0))).sum())


def mean_cost(costs: np.ndarray, q: np.ndarray) -> float:
    """<costs, q>, where a cost of inf at probability 0 counts nothing."""
    return float(np.where(q > 0, costs, 0.0) @ q)


def by_trees(
    problem: MarginalProblem, tables: Tables, q: np.ndarray, limit: int
) -> tuple[tuple[float, np.ndarray], int]:
    """The same with trees instead of single variables, trees that share no clique at once."""
    from gmlearn.probabilities._fields_numba import all_fields, expected_costs, induced_trees

    crf, temperature = problem.crf, problem.temperature
    tree = np.zeros(crf.n_vars, np.int64)
    induced_trees(tables, tree)
    inside = np.ones(len(tables.start), bool)
    if len(tables.start):
        home = tree[tables.scope]
        first = tables.indptr[:-1]
        inside = np.maximum.reduceat(home, first) == np.minimum.reduceat(home, first)
    forest, rest = tree_model(crf, tree), ~inside
    slaves = decompose(forest, "trees", "log_partition")
    dual = Dual(slaves, problem.w)
    colour = tree_colours(tables, tree, rest)[tree]
    field, digits = np.empty(len(q)), np.zeros(tables.arity, np.int64)
    variable = np.repeat(np.arange(crf.n_vars), crf.n_states)
    q = q.copy()
    theta, log_z = np.full(len(q), np.nan), {}
    bound, passes = -np.inf, 0
    while passes < limit and problem.time_left > 0:
        passes += 1
        for c in range(int(colour.max()) + 1):
            all_fields(tables, rest, q, field, digits)
            mine = (colour == c)[variable]
            theta[mine] = field[mine]
            log_z[c] = 0.0
            for group, prepared in zip(slaves.groups, dual.prepared):
                found = group.log_partition(  # type: ignore[attr-defined]
                    temperature * np.where(mine, field, tables.unary)[group.coords],
                    prepared,
                    temperature,
                )
                held = mine[group.coords]
                q[group.coords[held]] = found.marginals[held]
                log_z[c] -= float(found.value[np.unique(group.owner[held])].sum()) / temperature
        with np.errstate(invalid="ignore"):
            own = mean_cost(theta - tables.unary, q)
        new = sum(log_z.values()) + own - expected_costs(tables, rest, q, digits)
        if not new > bound + 1e-9 * abs(new):
            bound = max(bound, float(new))
            break
        bound = float(new)
    return (bound, q), passes


def tree_model(crf: CRF, tree: np.ndarray) -> CRF:
    """The model with no cliques but edges inside a tree."""
    forest = CRF(crf.n_states)
    for block in crf.clique_blocks:
        if has_edge_form(block) or block.arity == 2:
            ends = tree[block.members].reshape(-1, 2)
            part = block.take(np.flatnonzero(ends[:, 0] == ends[:, 1]))
            if len(part):
                forest.blocks.append(part)
    return forest


def tree_colours(tables: Tables, tree: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """int (V,): colours of trees, by their first variables; those that share a clique differ."""
    owner = tables.owner[rest[tables.owner]] if len(tables.owner) else tables.owner
    members = tree[tables.scope[rest[tables.owner]]] if len(tables.owner) else tables.scope
    pairs = np.unique(members * np.int64(max(len(rest), 1)) + owner)
    indptr = np.searchsorted(pairs // max(len(rest), 1), np.arange(len(tree) + 1))
    from gmlearn.slaves._colouring_numba import greedy_colouring

    return greedy_colouring(pairs % max(len(rest), 1), indptr, max(len(rest), 1))


def point_mass(problem: MarginalProblem, method: str, reason: str = "") -> Marginals:
    """The bound of one labelling, log Z >= -E(x)/T; nothing if none is feasible."""
    labels = low_labelling(problem)
    q = np.zeros(problem.crf.n_coords)
    if labels is None:
        return problem.answer(method, -np.inf, q, reason=reason)
    q[problem.crf.offsets[:-1] + labels] = 1.0
    lower = -problem.crf.energy(labels, problem.w) / problem.temperature
    return problem.answer(method, lower, q, lower=lower, reason=reason)
