r"""Structured losses of a CRF, with their derivatives in all costs.

For the slaves i of a decomposition at multipliers lambda,

.. math:: S(\lambda) = E(x^*) - \sum_i \operatorname{min}_x E_i(x; \theta^i(\lambda))

(soft minima for the likelihood) is an upper bound of the loss, and exact where one slave holds all
(chains, trees). The multipliers are optimised; the gradients are those of S at the multipliers
that were found: [x*_v = l] - p_v(l) in unary costs, with p the mean of the slaves' minimisers or
marginals, likewise in tables, strengths and weights. At optimal multipliers they are those of the
minimised bound (envelope theorem), so that a warm start matters more than a tight tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gmlearn._utils.validation import check_array, check_choice, check_number, check_sequence
from gmlearn.decompositions.base import DualCosts
from gmlearn.layers.samples import COSTS, JoinedSamples, Settings
from gmlearn.learn.batch import SampleBatch, Vertex
from gmlearn.learn.bcfw import BOX
from gmlearn.learn.completion import take_completion
from gmlearn.learn.soft import shared_multipliers, soft_value
from gmlearn.losses.base import Loss
from gmlearn.master import Round, ascend_bcfw
from gmlearn.model.crf import CRF
from gmlearn.model.join import check_models

KINDS = ("hinge", "likelihood", "sparsemap", "perturbed")
#: rounds over which the dual must rise by the tolerance
WINDOW = 3
#: how far the first proximal step goes where earlier multipliers are kept, in typical costs
WARM_REACH = 0.1


@dataclass
class LossState:
    """What makes the next call at nearby costs cheap.

    costs : dual costs of each sample, None where slaves share nothing.
    samples : the joined samples, to be used again while only unary costs change; not pickled.
    """

    costs: list[DualCosts | None]
    samples: JoinedSamples | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"costs": self.costs, "samples": None}


@dataclass(frozen=True)
class LossResult:
    """A structured loss and its derivatives; for a list of models all but `weights` is one for
    each, `value`, `bound` and `gap` as arrays.

    value : the loss, an upper bound of it where the relaxation is not tight.
    unary : float (V, L), in the unary costs (zeros beyond a variable's states).
    blocks : in the numbers that each block was given (strengths, tables, features), in their
        shape; None for a block without.
    weights : by segment, summed over the models.
    bound : the loss at optimal multipliers is not below this.   gap : value - bound.
    state : for the next call.
    """

    value: Any
    unary: Any
    blocks: Any
    weights: dict[str, np.ndarray]
    bound: Any
    gap: Any
    state: LossState = field(repr=False)


class BatchLoss(NamedTuple):
    """The loss of one batch: values, minima and bounds (n,), relaxed indicators (n_coords,),
    gradient in all weights (P,), dual costs (D,), and whether the gradient has the blocks' costs.
    """

    value: np.ndarray
    minima: np.ndarray
    bound: np.ndarray
    mean: np.ndarray
    slope: np.ndarray
    theta: np.ndarray
    knows_costs: bool = True


def structured_loss(
    crf: CRF | Sequence[CRF],
    truth: Any,
    weights: Any = None,
    *,
    kind: str = "hinge",
    loss: str | Loss | None = None,
    temperature: float = 1.0,
    decomposition: Any = "auto",
    max_iter: int = 100,
    tol: float = 1e-5,
    perturbations: int = 16,
    state: LossState | None = None,
    hidden: Any = None,
    seed: int = 0,
) -> LossResult:
    """The loss of true labels under a model, with its derivatives in costs and weights.

    Parameters
    ----------
    crf : a model, or a list of models, which are joined into one.
    truth : int (V,), the true labels; one array for each model of a list.
    weights : by segment, or flat; None for models without.
    kind : "hinge", E(truth) - min (E - loss); "likelihood", E(truth) + T log sum exp(-E / T), an
        upper bound of it with several slaves; "sparsemap", E(truth) + T V / 2 - min (E + T |z|^2 /
        2) over relaxed indicators z of single labels; "perturbed", the mean of E(truth) - min E
        over models with Gaussian noise of size T on their unary costs. The last two are
        Fenchel-Young losses.
    loss : of the hinge, "hamming" by default; the others have none unless it is given.
    temperature : T of the other kinds.
    decomposition : into slaves, by name or object.
    max_iter : rounds (L-BFGS iterations of a likelihood) on the multipliers, where slaves share
        variables; of "sparsemap" ten times as many passes.
    tol : stop where the loss falls by less than this part of it within a few rounds.
    perturbations : noisy copies of each model, of "perturbed".
    state : of an earlier result of the same models at other costs.
    hidden : bool (V,), variables whose true label is not known: they are completed by a clamped
        MAP problem.
    seed : of that MAP problem, and of the noise.

    Examples
    --------
    >>> import gmlearn as gm
    >>> crf = gm.CRF(2, 2).add_unary([[0.0, 1.0], [0.5, 0.0]])
    >>> _ = crf.add(gm.Potts([[0, 1]], 0.3))
    >>> answer = gm.structured_loss(crf, [0, 0], kind="hinge")
    >>> round(answer.value, 3), answer.unary.tolist()
    (1.2, [[0.0, 0.0], [1.0, -1.0]])
    """
    check_choice("kind", kind, KINDS)
    check_number("temperature", temperature, low=0, strict=True)
    check_number("max_iter", max_iter, low=0, integer=True)
    check_number("tol", tol, low=0)
    single = isinstance(crf, CRF)
    crfs, truths, masks = _lists(crf, truth, hidden)
    copies = 1
    if kind == "perturbed":
        copies = check_number("perturbations", perturbations, low=1, integer=True)
        crfs = perturbed(crfs, copies, temperature, seed)
        truths, masks = truths * copies, masks * copies
    loss = ("hamming" if kind == "hinge" else "none") if loss is None else loss
    soft = temperature if kind == "likelihood" else 0.0
    settings = Settings(loss, decomposition, soft)
    samples = None if state is None else state.samples
    if samples is None or not samples.take_unary(crfs, truths, masks, settings):
        samples = JoinedSamples(crfs, truths, masks, settings)
    if state is not None and len(state.costs) != len(crfs):
        raise ValueError(f"state: made for {len(state.costs)} models, got {len(crfs)}")
    named = samples.layout.check(weights)
    kinds: dict[str, Callable[..., BatchLoss]] = {
        "likelihood": likelihood,
        "sparsemap": partial(sparsemap, temperature=temperature),
    }
    solve = kinds.get(kind, hinge)
    found: list[BatchLoss] = []
    kept: list[DualCosts | None] = []
    for batch, a, b in zip(samples.batches, samples.ends, samples.ends[1:]):
        w = batch.layout.join(named)
        start_at(batch, w, None if state is None else state.costs[a:b])
        take_completion(batch, w, "auto", seed)
        found.append(solve(batch, w, max_iter, tol))
        kept += keep(batch, found[-1].theta)
    answer = _result(samples, found, named, LossState(kept, samples))
    answer = answer if copies == 1 else _averaged(answer, copies)
    return _only(answer) if single else answer


def _lists(crf: Any, truth: Any, hidden: Any) -> tuple[list[CRF], list[Any], list[Any]]:
    """Models, truths and masks as lists of one length."""
    if isinstance(crf, CRF):
        shape = (crf.n_vars,)
        return [crf], [check_array("truth", truth, shape=shape, dtype=np.int64)], [hidden]
    crfs = check_models("crf", crf)
    truths = [np.asarray(t) for t in check_sequence("truth", truth, "labellings")]
    masks = [None] * len(crfs) if hidden is None else list(hidden)
    if not crfs:
        raise ValueError("crf: expected at least one model, got an empty list")
    for name, given in (("truth", truths), ("hidden", masks)):
        if len(given) != len(crfs):
            raise ValueError(
                f"{name}: expected one for each of {len(crfs)} models, got {len(given)}"
            )
    return crfs, truths, masks


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
    return bool(batch.dual.slaves.count.max(initial=0.0) > 1.0)


def keep(batch: SampleBatch, theta: np.ndarray) -> Sequence[DualCosts | None]:
    """The dual costs `theta` (D,) of each sample; nothing where no slaves share a variable."""
    if not has_multipliers(batch):
        return [None] * len(batch.samples)
    return batch.dual.slaves.keep_each(theta)


# ---------------------------------------------------------------------- kinds


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
    energies = [batch.augmented.energies(x, named) + batch.constants for x in labellings]
    best = np.min(energies, axis=0)
    return _batch_loss(batch, w, batch.vertex(w), batch.dual.lam, best=best)


def likelihood(batch: SampleBatch, w: np.ndarray, max_iter: int, tol: float) -> BatchLoss:
    """The soft loss at multipliers that L-BFGS finds."""
    from scipy.optimize import minimize

    dual, shared = batch.dual, shared_multipliers(batch)
    if len(shared) == 0:
        return _batch_loss(batch, w, batch.vertex(w), dual.lam)

    def value_and_gradient(lam: np.ndarray) -> tuple[float, np.ndarray]:
        _, value, slope = soft_value(batch, w, lam)
        return value, slope

    options = {"maxiter": max_iter, "ftol": tol * 1e-6, "gtol": tol * 1e-3, "maxcor": 20}
    start = dual.lam[shared]
    if max_iter > 0:
        start = minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options=options).x
    lam = np.zeros(len(dual.lam))
    lam[shared] = start
    lam = dual.centred(lam)
    vertex = batch.vertex(w, lam)
    # convex in the multipliers, which are looked for within a box, as training does
    reach = BOX * np.abs(lam).max(initial=0.0) + np.abs(lam)
    apart = np.abs(dual.centred(vertex.ind)) * reach
    home = dual.slaves.home[dual.coords]
    return _batch_loss(batch, w, vertex, lam, slack=np.bincount(home, apart, len(batch.samples)))


def sparsemap(
    batch: SampleBatch, w: np.ndarray, max_iter: int, tol: float, temperature: float
) -> BatchLoss:
    """The SparseMAP loss."""
    from gmlearn.layers.sparsemap import SparseMAP

    problem = SparseMAP(batch, w, temperature)
    found = problem.run(10 * max_iter, tol)
    vertices = 0.5 * temperature * np.diff(batch.model.parts)
    own = np.array([s.crf.constant for s in batch.samples])
    truth = batch.model.energies(batch.truth, batch.layout.split(w)) + own + vertices
    slope, theta = batch.slope(found.features), batch.dual.share + problem.mixture.state.centre
    mean = found.z[: batch.model.n_coords]
    value, bound = truth - found.dual, truth - found.primal
    return BatchLoss(value, found.dual, bound, mean, slope, theta, problem.knows_costs)


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
    dual, model = batch.dual, batch.model
    batch.hinge(w, vertex.value)  # refuses NaN
    own = np.array([s.crf.constant for s in batch.samples])
    truth = model.energies(batch.truth, batch.layout.split(w)) + own
    minima = batch.minima_by_sample(vertex)
    value = truth - minima
    bound = value - slack if best is None else np.minimum(truth - best, value)
    mean = vertex.mean[: model.n_coords]
    return BatchLoss(value, minima, bound, mean, batch.slope(vertex.features), dual.share + lam)


# ---------------------------------------------------------------------- what is handed out


def _result(
    samples: JoinedSamples,
    found: Sequence[BatchLoss],
    w: dict[str, np.ndarray],
    state: LossState,
) -> LossResult:
    """The batches' losses sample by sample."""
    unary, blocks, total = [], [], np.zeros(samples.layout.size)
    for batch, loss in zip(samples.batches, found):
        change = -loss.mean
        change[batch.model.offsets[:-1] + batch.truth] += 1.0
        unary += by_sample(batch, change)
        parts = batch.layout.slices[COSTS]
        costs = loss.slope[parts] if loss.knows_costs else None
        blocks += samples.gradients_of_blocks(batch, costs, w)
        total += loss.slope[: parts.start]
    value = np.concatenate([loss.value for loss in found])
    bound = np.concatenate([loss.bound for loss in found])
    named = samples.layout.split(total)
    return LossResult(value, unary, blocks, named, bound, value - bound, state)


def _only(answer: LossResult) -> LossResult:
    """The answer of the only model."""
    value, bound = float(answer.value[0]), float(answer.bound[0])
    return replace(
        answer,
        value=value,
        unary=answer.unary[0],
        blocks=answer.blocks[0],
        bound=bound,
        gap=value - bound,
    )


def _averaged(answer: LossResult, copies: int) -> LossResult:
    """The mean over the noisy copies of each model, which come one set after the other."""
    n = len(answer.value) // copies
    value, bound = (a.reshape(copies, n).mean(axis=0) for a in (answer.value, answer.bound))
    return replace(
        answer,
        value=value,
        unary=[_mean(answer.unary[k::n]) for k in range(n)],
        blocks=[_mean(answer.blocks[k::n]) for k in range(n)],
        weights={name: total / copies for name, total in answer.weights.items()},
        bound=bound,
        gap=value - bound,
    )


def _mean(nests: Sequence[Any]) -> Any:
    """The mean of arrays, or of nests of them."""
    if isinstance(nests[0], (list, tuple)):
        return type(nests[0])(_mean(parts) for parts in zip(*nests))
    return None if nests[0] is None else np.mean(nests, axis=0)


def perturbed(crfs: Sequence[CRF], copies: int, size: float, seed: int) -> list[CRF]:
    """Copies of all models with Gaussian noise on the unary costs, one set after the other."""
    rng = np.random.default_rng(seed)
    noisy = [crf.copy() for _ in range(copies) for crf in crfs]
    for crf in noisy:
        crf.unary = crf.unary + size * rng.normal(size=crf.n_coords)
    return noisy


def by_sample(batch: SampleBatch, flat: np.ndarray) -> list[np.ndarray]:
    """Values of all coordinates (n_coords,) as (V, L) of each sample."""
    rows = np.split(flat, batch.model.offsets[batch.model.parts[1:-1]])
    return [s.crf.rows(own) for s, own in zip(batch.samples, rows)]
