"""Marginals of many models at once: joined, they take one pass of messages, or one elimination."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gmlearn._utils.threads import one_blas_thread
from gmlearn.decompositions import decompose
from gmlearn.decompositions.forests import is_forest
from gmlearn.master import Dual
from gmlearn.model.crf import CRF
from gmlearn.model.factors import FactorGraph
from gmlearn.model.join import join
from gmlearn.probabilities.auto import AutoMarginals
from gmlearn.probabilities.exact import EliminationMarginals, TreeMarginals, by_elimination
from gmlearn.probabilities.junction import JunctionTree
from gmlearn.probabilities.method import MarginalMethod, MarginalProblem, lacks_tables
from gmlearn.probabilities.result import Marginals
from gmlearn.slaves.elimination import elimination_order
from gmlearn.solvers.many import chunks

#: methods that pass messages where a union is a forest, and that eliminate where it is none
FORESTS, ELIMINATIONS = (AutoMarginals, TreeMarginals), (AutoMarginals, EliminationMarginals)
#: entries of the largest table of joined eliminations: what larger ones take is not in planning
MOST_ENTRIES = 2.0**14


def joined_marginals(
    crfs: Sequence[CRF],
    weights: Mapping[str, np.ndarray],
    method: MarginalMethod,
    temperature: float,
    alone: bool = False,
) -> list[Marginals | None]:
    """The marginals of models in their order, None of those that are not worked on side by side.

    weights : those that the models read, and possibly more.   alone : join none.
    """
    if alone or type(method) not in FORESTS + ELIMINATIONS:
        return [None] * len(crfs)
    results: list[Marginals | None] = []
    for part in chunks(crfs):
        some = [crfs[k] for k in part]
        found = _of_union(some, weights, method, temperature) if len(some) > 1 else None
        results += [None] * len(some) if found is None else found
    return results


def _of_union(
    crfs: Sequence[CRF],
    weights: Mapping[str, np.ndarray],
    method: MarginalMethod,
    temperature: float,
) -> list[Marginals] | None:
    union = join(crfs)
    names = [name for name in union.layout.shapes if name in weights]
    w = union.check_weights({name: weights[name] for name in names})
    # products of a few rows and columns: on many BLAS threads they cost twice as much
    with one_blas_thread():
        if is_forest(union):
            if type(method) not in FORESTS:
                return None
            used, (flat, log_z) = "tree", _forests(union, w, temperature)
        elif type(method) in ELIMINATIONS and lacks_tables(union) is None:
            tree = _elimination(union, w, temperature)
            if tree is None:
                return None
            used, log_z = "elimination", tree.log_partitions(union.parts)
            flat, _ = tree.marginals()
        else:
            return None
    results = []
    for own, value, crf in zip(np.split(flat, union.offsets[union.parts[1:-1]]), log_z, crfs):
        problem = MarginalProblem(crf.copy(), w, temperature)
        value = float(value) + problem.constant
        results.append(problem.exact(used, value, own, by_elimination(problem), iterations=1))
    return results


def _forests(
    union: CRF, w: Mapping[str, np.ndarray], temperature: float
) -> tuple[np.ndarray, np.ndarray]:
    """(marginals (n_coords,), log Z of each part) of joined forests."""
    slaves = decompose(union, "trees", "log_partition")
    dual = Dual(slaves, w)
    theta = dual.share
    flat, log_z = np.zeros(union.n_coords), np.zeros(len(union.parts) - 1)
    home = np.repeat(np.arange(len(log_z)), np.diff(union.parts))
    for group, where, prepared in zip(slaves.groups, slaves.slices, dual.prepared):
        found = group.log_partition(theta[where], prepared, temperature)  # type: ignore[attr-defined]
        flat[group.coords] = found.marginals
        first = group.coords[group.indptr[:-1]]
        variable = np.searchsorted(union.offsets, first, side="right") - 1
        log_z += np.bincount(home[variable], -found.value / temperature, len(log_z))
    return flat, log_z


def _elimination(
    union: CRF, w: Mapping[str, np.ndarray], temperature: float
) -> JunctionTree | None:
    """One elimination of all models; None if some table of it is large, or a variable has no
    label left.
    """
    tree = JunctionTree(FactorGraph.of(union, w), temperature)
    if not tree.possible:
        return None
    cliques = tree.cliques
    order = elimination_order(cliques.indptr, cliques.slots, tree.states, MOST_ENTRIES)
    if order is None:
        return None
    tree.order = order
    return tree
