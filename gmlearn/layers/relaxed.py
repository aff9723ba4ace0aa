"""Relaxed solutions as an answer of their own: of the linear program, of the dual, soft ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gmlearn._utils.validation import check_choice, check_number
from gmlearn.decompositions.base import DualCosts
from gmlearn.layers.loss import LossState, ascend, by_sample, keep, likelihood, start_at
from gmlearn.layers.samples import JoinedSamples, Settings
from gmlearn.layers.sparsemap import SparseMAP
from gmlearn.learn.batch import SampleBatch
from gmlearn.model.crf import CRF
from gmlearn.model.join import check_models

METHODS = ("dual", "soft", "sparsemap", "lp")


@dataclass(frozen=True)
class Relaxed:
    """A relaxed solution; for a list of models one of each, `bound` as an array.

    node : float (V, L), relaxed indicators of the labels; each row sums to 1 (up to the
        disagreement that is left between slaves).
    bound : of the energy from below; with "soft" of the energy minus T times the entropy, with
        "sparsemap" of the energy plus T |node|^2 / 2.
    state : for the next call at nearby costs; None for "lp".
    """

    node: Any
    bound: Any
    state: LossState | None = field(repr=False)
    #: of "sparsemap": the linear systems of the batches
    _systems: tuple[Any, ...] = field(default=(), repr=False)

    def pull_back(self, change: Any) -> Any:
        """The product of `change`, (V, L) or one for each model, with the derivative of `node` in
        the unary costs (a symmetric matrix); exact, and only of "sparsemap".
        """
        if not self._systems or self.state is None or self.state.samples is None:
            raise TypeError('pull_back: only for relaxed(..., method="sparsemap")')
        single = not isinstance(self.node, list)
        rows, out = [change] if single else list(change), []
        for batch, system in zip(self.state.samples.batches, self._systems):
            models = [s.crf for s in batch.samples]
            own = rows[batch.first : batch.first + len(models)]
            flat = np.zeros(system.sizes[1] - system.sizes[0])
            parts = [crf.flat(np.asarray(r, float)) for crf, r in zip(models, own)]
            flat[: batch.model.n_coords] = np.concatenate(parts)
            out += by_sample(batch, system.pull_back(flat)[: batch.model.n_coords])
        return out[0] if single else out


def relaxed(
    crf: CRF | Sequence[CRF],
    weights: Any = None,
    *,
    method: str = "dual",
    temperature: float = 1.0,
    decomposition: Any = "auto",
    max_iter: int = 400,
    tol: float = 1e-6,
    state: LossState | None = None,
) -> Relaxed:
    """Relaxed indicators of the labels of a model, or of each of a list of models.

    Parameters
    ----------
    crf : a model, or a list of models, which are joined into one.
    weights : by segment, or flat; None for models without.
    method : "dual", the convex combination of slave minimisers at which the ascent ends, close to
        a solution of the relaxation; "lp", a vertex of the local polytope by a linear program;
        "soft", the mean of the slaves' marginals at a temperature; "sparsemap", the optimum with a
        quadratic term T |node|^2 / 2, of which few minimisers have a share.
    temperature : T of "soft" and "sparsemap".
    decomposition, max_iter, tol, state : as in `structured_loss`; "lp" has no use for them.

    Examples
    --------
    >>> import gmlearn as gm
    >>> crf = gm.CRF(3, 2)  # three variables that all want to differ
    >>> _ = crf.add(gm.Potts([[0, 1], [1, 2], [0, 2]], -1.0))
    >>> gm.relaxed(crf, method="lp").node.tolist()
    [[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]
    """
    check_choice("method", method, METHODS)
    check_number("temperature", temperature, low=0, strict=True)
    check_number("max_iter", max_iter, low=0, integer=True)
    single = isinstance(crf, CRF)
    crfs = [crf] if isinstance(crf, CRF) else check_models("crf", crf)
    if method == "lp":
        return _by_linear_program(crfs, weights, single)
    settings = Settings("none", decomposition, temperature if method == "soft" else 0.0)
    samples = unlabelled(crfs, settings, state)
    named = samples.layout.check(weights)
    node, bound, systems = [], [], []
    kept: list[DualCosts | None] = []
    for batch, a, b in zip(samples.batches, samples.ends, samples.ends[1:]):
        w = batch.layout.join(named)
        start_at(batch, w, None if state is None else state.costs[a:b])
        if method == "sparsemap":
            problem = SparseMAP(batch, w, temperature)
            found = problem.run(max_iter, tol)
            systems.append(found.system)
            theta = batch.dual.share + problem.mixture.state.centre
            mean, values = found.z, found.dual
        else:
            mean, values, theta = (_soft if method == "soft" else _hard)(batch, w, max_iter, tol)
        node += by_sample(batch, mean[: batch.model.n_coords])
        bound.append(values)
        kept += keep(batch, theta)
    kept_state = LossState(kept, samples)
    if single:
        return Relaxed(node[0], float(bound[0][0]), kept_state, tuple(systems))
    return Relaxed(node, np.concatenate(bound), kept_state, tuple(systems))


def unlabelled(
    crfs: Sequence[CRF], settings: Settings, state: LossState | None = None
) -> JoinedSamples:
    """Models without true labels: those of the least unary costs stand in for them."""
    truths = [least_labels(crf) for crf in crfs] if state is None else []
    hidden = [None] * len(crfs)
    samples = None if state is None else state.samples
    if samples is not None and samples.take_unary(crfs, samples.truths, hidden, settings):
        return samples
    truths = truths or [least_labels(crf) for crf in crfs]
    return JoinedSamples(crfs, truths, hidden, settings, feasible=False)


def least_labels(crf: CRF) -> np.ndarray:
    """int (V,): the label of least unary cost of each variable."""
    return crf.rows(crf.unary, np.inf).argmin(axis=1)


def _hard(
    batch: SampleBatch, w: np.ndarray, max_iter: int, tol: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(relaxed indicators, bounds (n,), dual costs) of the hard dual."""
    last = ascend(batch, w, max_iter, tol)
    agreed = last.blend is None or last.disagreement == 0.0
    values = batch.minima_by_sample(batch.vertex(w))
    return last.mean if agreed else last.blend, values, batch.dual.share + batch.dual.lam  # type: ignore[return-value]


def _soft(
    batch: SampleBatch, w: np.ndarray, max_iter: int, tol: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same of the soft dual."""
    found = likelihood(batch, w, max_iter, tol)
    return found.mean, found.minima, found.theta


def _by_linear_program(crfs: Sequence[CRF], weights: Any, single: bool) -> Relaxed:
    from gmlearn.solvers import solve

    found = [solve(crf, weights, solver="lp") for crf in crfs]
    nodes, bounds = [r.relaxed for r in found], [r.bound for r in found]
    if single:
        return Relaxed(nodes[0], bounds[0], None)
    return Relaxed(nodes, np.array(bounds), None)
