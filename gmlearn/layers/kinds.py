"""The multipliers of each kind of loss, and the value and gradients at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gmlearn.decompositions.base import DualCosts
from gmlearn.learn.batch import SampleBatch, Vertex
from gmlearn.learn.batch_checks import broken_block
from gmlearn.learn.bcfw import BOX
from gmlearn.learn.lbfgs import LbfgsState, iterate
from gmlearn.learn.soft import shared_multipliers, soft_value
from gmlearn.master import Round, ascend_bcfw
from gmlearn.master.mixture_state import MixtureState

#: rounds over which the dual must rise by the tolerance; L-BFGS needs some to learn curvature
WINDOW, LBFGS_WINDOW = 3, 6
#: how far the first proximal step goes where earlier multipliers are kept, in typical costs; chosen
#: among .01 to 1 on grids of 32, 48 and 80 pixels, seeds 20 and 21, of tests/benchmarks/layer.py
WARM_REACH = 0.03
#: L-BFGS iterations of a likelihood, and passes of SparseMAP, for each round of the hinge
LBFGS, PASSES = 5, 10


class BatchLoss(NamedTuple):
    """The loss of one batch: values, minima and bounds (n,), relaxed indicators (n_coords,),
    gradient in all weights (P,), multipliers (D,), whether the gradient has the blocks' costs, and
    the mixture of SparseMAP.
    """

    value: np.ndarray
    minima: np.ndarray
    bound: np.ndarray
    mean: np.ndarray
    slope: np.ndarray
    lam: np.ndarray
    knows_costs: bool = True
    mixture: MixtureState | None = None


def start_at(batch: SampleBatch, w: np.ndarray, kept: Sequence[DualCosts | None] | None) -> None:
    """Bring the slaves to `w`, and to the multipliers that were kept."""
    batch.set_weights(w)
    dual = batch.dual
    if kept is None or all(costs is None for costs in kept):
        dual.lam = np.zeros(len(dual.coords))
    else:
        dual.lam = dual.centred(dual.slaves.recall_each(kept))


def has_multipliers(batch: SampleBatch) -> bool:
    """Do slaves share any coordinate?"""
    return not batch.dual.slaves.disjoint


def keep(batch: SampleBatch, lam: np.ndarray) -> Sequence[DualCosts | None]:
    """The dual costs of each sample at multipliers (D,); nothing where no slaves share a
    variable.
    """
    if not has_multipliers(batch):
        return [None] * len(batch.samples)
    return batch.dual.slaves.keep_each(batch.dual.share + lam)


def ascend(batch: SampleBatch, w: np.ndarray, max_iter: int, tol: float) -> Round:
    """Raise the dual by the ascent engine until it stalls; the last round. ``batch.dual`` has the
    best multipliers then.
    """
    truth, bounds = batch.truth_energy(w), [-np.inf]
    shared = has_multipliers(batch)
    reach = WARM_REACH if batch.dual.lam.any() else 1.0
    for k, current in enumerate(ascend_bcfw(batch.dual, reach=reach)):
        bounds.append(max(current.bound, bounds[-1]))
        worth = tol * max(abs(truth - bounds[-1]) if np.isfinite(truth) else abs(bounds[-1]), 1e-9)
        stalled = k >= WINDOW and bounds[-1] - bounds[-1 - WINDOW] <= worth
        if k >= max_iter or stalled or not shared:
            break
    return current


def hinge(batch: SampleBatch, w: np.ndarray, max_iter: int, tol: float) -> BatchLoss:
    """The hinge at multipliers that the ascent engine finds."""
    last = ascend(batch, w, max_iter, tol)
    mean = last.mean if last.blend is None else last.blend
    labellings = [batch.truth, *batch.dual.slaves.proposals(last.results, mean)]
    named = batch.layout.split(w)
    known = batch.dual.unary if batch.dual.slaves.crf is batch.augmented else None
    energies = [batch.augmented.energies(x, named, known) + batch.constants for x in labellings]
    best = np.min(energies, axis=0)
    vertex = batch.vertex_here() if has_multipliers(batch) else batch.vertex_of(last)
    return _batch_loss(batch, w, vertex, batch.dual.lam, best=best)


def likelihood(batch: SampleBatch, w: np.ndarray, max_iter: int, tol: float) -> BatchLoss:
    """The soft loss at multipliers that L-BFGS finds."""
    dual, shared = batch.dual, shared_multipliers(batch)
    if len(shared) == 0:
        return _batch_loss(batch, w, batch.vertex_here(), dual.lam)

    def value_and_gradient(lam: np.ndarray) -> tuple[float, np.ndarray]:
        _, value, slope = soft_value(batch, None, lam)
        return value, slope

    state = LbfgsState.at(dual.lam[shared])
    free = np.full(len(shared), np.inf)
    values: list[float] = []
    for _ in range(LBFGS * max_iter):
        falls = iterate(value_and_gradient, state, -free, free)
        values.append(state.value)
        fall = values[-1 - LBFGS_WINDOW] - state.value if len(values) > LBFGS_WINDOW else np.inf
        if not falls or fall <= tol * abs(state.value):
            break
    lam = np.zeros(len(dual.lam))
    lam[shared] = state.x
    lam = dual.centred(lam)
    vertex = batch.vertex_here(lam)
    # convex in the multipliers, which are looked for within a box, as training does
    reach = BOX * np.abs(lam).max(initial=0.0) + np.abs(lam)
    apart = np.abs(dual.centred(vertex.ind)) * reach
    home = dual.slaves.home[dual.coords]
    return _batch_loss(batch, w, vertex, lam, slack=np.bincount(home, apart, len(batch.samples)))


def sparsemap(
    batch: SampleBatch,
    w: np.ndarray,
    max_iter: int,
    tol: float,
    temperature: float,
    start: MixtureState | None = None,
) -> BatchLoss:
    """The SparseMAP loss; `start` is the mixture of an earlier call."""
    from gmlearn.layers.sparsemap import SparseMAP

    problem = SparseMAP(batch, w, temperature, start)
    found = problem.run(PASSES * max_iter, tol)
    truth = batch.truth_energies(w) + 0.5 * temperature * np.diff(batch.model.parts)
    slope, state = batch.slope(found.features), problem.mixture.state
    mean = found.z[: batch.model.n_coords]
    value, bound = truth - found.dual, truth - found.primal
    knows = problem.knows_costs
    return BatchLoss(value, found.dual, bound, mean, slope, state.centre, knows, state)


def _batch_loss(
    batch: SampleBatch,
    w: np.ndarray,
    vertex: Vertex,
    lam: np.ndarray,
    best: np.ndarray | None = None,
    slack: Any = 0.0,
) -> BatchLoss:
    """Values and gradients of S at a vertex; `best` (n,) are the lowest augmented energies known,
    `slack` (n,) what other multipliers may gain.
    """
    truth, minima = batch.truth_energies(w), batch.minima_by_sample(vertex)
    value = truth - minima
    if np.isnan(value).any():
        raise ValueError(broken_block(batch, w))
    bound = value - slack if best is None else np.minimum(truth - best, value)
    mean = vertex.mean[: batch.model.n_coords]
    return BatchLoss(value, minima, bound, mean, batch.slope(vertex.features), lam)
