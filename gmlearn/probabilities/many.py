"""Marginals of many models at once: forests are joined and take one pass of messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gmlearn._utils.threads import one_blas_thread
from gmlearn.decompositions import decompose
from gmlearn.decompositions.forests import is_forest
from gmlearn.master import Dual
from gmlearn.model.crf import CRF
from gmlearn.model.join import join
from gmlearn.probabilities.exact import by_elimination
from gmlearn.probabilities.method import MarginalProblem
from gmlearn.probabilities.result import Marginals
from gmlearn.solvers.many import chunks


def forest_marginals(
    crfs: Sequence[CRF], weights: Mapping[str, np.ndarray], temperature: float
) -> list[Marginals] | None:
    """The marginals of models that are all forests, in their order; None if one of them is not.

    weights : those that the models read, and possibly more.
    """
    results: list[Marginals] = []
    for part in chunks(crfs):
        union = join([crfs[k] for k in part])
        if not is_forest(union):
            return None
        with one_blas_thread():
            results += _union_marginals(union, weights, temperature, [crfs[k] for k in part])
    return results


def _union_marginals(
    union: CRF, weights: Mapping[str, np.ndarray], temperature: float, crfs: Sequence[CRF]
) -> list[Marginals]:
    w = union.check_weights({n: weights[n] for n in union.layout.shapes if n in weights})
    slaves = decompose(union, "trees", "log_partition")
    dual = Dual(slaves, w)
    theta = dual.share
    flat, log_z = np.zeros(union.n_coords), np.zeros(len(crfs))
    home = np.repeat(np.arange(len(crfs)), np.diff(union.parts))
    for group, where, prepared in zip(slaves.groups, slaves.slices, dual.prepared):
        found = group.log_partition(theta[where], prepared, temperature)  # type: ignore[attr-defined]
        flat[group.coords] = found.marginals
        first = group.coords[group.indptr[:-1]]
        variable = np.searchsorted(union.offsets, first, side="right") - 1
        log_z += np.bincount(home[variable], -found.value / temperature, len(crfs))
    ends = union.offsets[union.parts]
    results = []
    for k, crf in enumerate(crfs):
        problem = MarginalProblem(crf, w, temperature)
        own = flat[ends[k] : ends[k + 1]]
        value = float(log_z[k]) + problem.constant
        results.append(problem.exact("tree", value, own, by_elimination(problem), iterations=1))
    return results
