"""Relaxed solutions as an answer of their own: of the linear program, of the dual, soft ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gmlearn._utils.validation import check_choice, check_number
from gmlearn.decompositions.base import DualCosts
from gmlearn.layers.active_set import ActiveSet
from gmlearn.layers.kinds import ascend, keep, likelihood, start_at
from gmlearn.layers.plan import PlanOptions, least_labels, sparse_choice
from gmlearn.layers.results import LossState
from gmlearn.layers.samples import JoinedSamples, Settings
from gmlearn.layers.sparsemap import SparseMAP
from gmlearn.learn.batch import SampleBatch
from gmlearn.master.mixture_state import MixtureState
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
    #: of "sparsemap": the active sets of the batches
    _active: tuple[ActiveSet, ...] = field(default=(), repr=False)

    def pull_back(self, change: Any) -> Any:
        """The product of `change`, (V, L) or one for each model, with the derivative of `node` in
        the unary costs (a symmetric matrix); exact, and only of "sparsemap".
        """
        if not self._active or self.state is None or self.state.samples is None:
            raise TypeError('pull_back: only for relaxed(..., method="sparsemap")')
        single, samples = not isinstance(self.node, list), self.state.samples
        given = zip(samples.crfs, [change] if single else change)
        flat = np.concatenate([crf.flat(np.asarray(rows, float)) for crf, rows in given])
        products, begin = [], 0
        for batch, active in zip(samples.batches, self._active):
            end = begin + batch.model.n_coords
            right = np.zeros(len(active.epsilon))
            right[: end - begin] = flat[begin:end]
            products.append(active.pull_back(right)[: end - begin])
            begin = end
        out = samples.rows(np.concatenate(products))
        return out[0] if single else out


@dataclass(frozen=True)
class RelaxedOptions(PlanOptions):
    """The options of `relaxed`, which see."""

    method: str = "dual"
    temperature: float = 1.0
    decomposition: Any = "auto"
    max_iter: int = 400
    tol: float = 1e-6

    def __post_init__(self) -> None:
        check_choice("method", self.method, METHODS)
        check_number("temperature", self.temperature, low=0, strict=True)
        check_number("max_iter", self.max_iter, low=0, integer=True)
        check_number("tol", self.tol, low=0)

    @property
    def settings(self) -> Settings:
        soft = self.temperature if self.method == "soft" else 0.0
        sparse = self.method == "sparsemap"
        chosen = sparse_choice(self.decomposition) if sparse else self.decomposition
        return Settings("none", chosen, soft, labelled=False)


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
    options = RelaxedOptions(method, temperature, decomposition, max_iter, tol)
    crfs = [crf] if isinstance(crf, CRF) else check_models("crf", crf)
    if not crfs:
        raise ValueError("crf: expected a model, or a list of at least one, got none")
    if method == "lp":
        found = _by_linear_program(crfs, weights)
    else:
        known = None if state is None else state.samples
        samples = options.joined(crfs, [least_labels(c) for c in crfs], None, known)
        found = relaxed_of(samples, options, weights, state)
    if isinstance(crf, CRF):
        return replace(found, node=found.node[0], bound=float(found.bound[0]))
    return found


def relaxed_of(
    samples: JoinedSamples, options: RelaxedOptions, weights: Any, state: LossState | None
) -> Relaxed:
    """The relaxed solutions of joined samples at their present costs."""
    named = samples.layout.check(weights)
    bound: list[np.ndarray] = []
    means: list[np.ndarray] = []
    sets: list[ActiveSet] = []
    kept: list[DualCosts | None] = []
    mixtures: list[MixtureState] = []
    for batch, a, b in zip(samples.batches, samples.ends, samples.ends[1:]):
        w = batch.layout.join(named)
        start_at(batch, w, None if state is None else state.costs[a:b])
        if options.method == "sparsemap":
            start = None if state is None else state.mixture(samples, len(means))
            problem = SparseMAP(batch, w, options.temperature, start)
            found = problem.run(options.max_iter, options.tol)
            sets.append(found.active)
            mean, values, lam = found.z, found.dual, problem.mixture.state.centre
            mixtures.append(problem.mixture.state)
        else:
            method = _soft if options.method == "soft" else _hard
            mean, values, lam = method(batch, w, options.max_iter, options.tol)
        means.append(mean[: batch.model.n_coords])
        bound.append(values)
        kept += keep(batch, lam)
    node = samples.rows(np.concatenate(means))
    return Relaxed(node, np.concatenate(bound), LossState(kept, samples, mixtures), tuple(sets))


def _hard(
    batch: SampleBatch, w: np.ndarray, max_iter: int, tol: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(relaxed indicators, bounds (n,), multipliers) of the hard dual."""
    last = ascend(batch, w, max_iter, tol)
    agreed = last.blend is None or last.disagreement == 0.0
    values = batch.minima_by_sample(batch.vertex_here())
    return last.mean if agreed else last.blend, values, batch.dual.lam  # type: ignore[return-value]


def _soft(
    batch: SampleBatch, w: np.ndarray, max_iter: int, tol: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same of the soft dual."""
    found = likelihood(batch, w, max_iter, tol)
    return found.mean, found.minima, found.lam


def _by_linear_program(crfs: Sequence[CRF], weights: Any) -> Relaxed:
    from gmlearn.solvers import solve

    found = [solve(crf, weights, solver="lp") for crf in crfs]
    return Relaxed([r.relaxed for r in found], np.array([r.bound for r in found]), None)
