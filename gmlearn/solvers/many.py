"""Many models at once: forests are joined and solved by one round of dynamic programming."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gmlearn._utils.threads import one_blas_thread
from gmlearn.decompositions import decompose
from gmlearn.decompositions.forests import is_forest
from gmlearn.master import Dual
from gmlearn.model.crf import CRF
from gmlearn.model.join import join
from gmlearn.solvers.result import History, Result, Status

#: labels of all variables that are joined at a time: few enough that memory is used again
MOST_LABELS = 2**16


def solve_forests(crfs: Sequence[CRF], weights: Mapping[str, np.ndarray]) -> list[Result] | None:
    """The results of models that are all forests, in their order; None if one of them is not.

    weights : those that the models read, and possibly more.
    """
    results: list[Result] = []
    for part in chunks(crfs):
        union = join([crfs[k] for k in part])
        if not is_forest(union):
            return None
        # products of a few rows and columns: on many BLAS threads they cost twice as much
        with one_blas_thread():
            results += _solve_union(union, weights, [crfs[k] for k in part])
    return results


def chunks(crfs: Sequence[CRF]) -> list[np.ndarray]:
    """Numbers of consecutive models that are joined at a time."""
    ends = np.cumsum([0, *(crf.n_coords for crf in crfs)])
    chunk = (ends[1:] - 1) // MOST_LABELS
    return np.split(np.arange(len(crfs)), np.flatnonzero(np.diff(chunk)) + 1)


def _solve_union(
    union: CRF, weights: Mapping[str, np.ndarray], crfs: Sequence[CRF]
) -> list[Result]:
    w = union.check_weights({n: weights[n] for n in union.layout.shapes if n in weights})
    slaves = decompose(union, "trees")
    dual = Dual(slaves, w)
    current = dual.round()
    labels, *_ = slaves.proposals(current.results, current.mean)
    # every variable is in one tree: its share is its cost
    chosen = dual.unary_share[union.offsets[:-1] + labels]
    energies = part_sums(union, chosen, labels, w) + [crf.constant for crf in crfs]
    results = []
    # one empty history for all: each would be five objects more for the garbage collector
    history = History()
    solved, infeasible = ((s, s.meaning) for s in (Status.OPTIMAL, Status.INFEASIBLE))
    for x, e, crf in zip(np.split(labels, union.parts[1:-1]), energies.tolist(), crfs):
        status, message = solved if e < np.inf else infeasible
        model = crf.copy(), w
        results.append(
            Result(x, e, e, status, "tree", 1, history=history, message=message, _model=model)
        )
    return results


def part_sums(
    union: CRF, costs: np.ndarray, labels: np.ndarray, w: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Costs of variables (V,), and of the cliques at `labels`, added up for each part, (n,)."""
    n = len(union.parts) - 1
    part = np.repeat(np.arange(n), np.diff(union.parts))
    total = np.bincount(part, costs, n)
    for block in union.clique_blocks:
        owner = part[block.members[block.indptr[:-1]]]
        total += np.bincount(owner, block.energy(block.gather(labels), w), n)
    return total
