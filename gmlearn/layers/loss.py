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
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from gmlearn._utils.validation import check_array, check_choice, check_number, check_sequence
from gmlearn.decompositions.base import DualCosts
from gmlearn.layers.plan import PlanOptions, Plans
from gmlearn.layers.samples import COSTS, JoinedSamples, Settings
from gmlearn.learn.batch import SampleBatch, Vertex
from gmlearn.learn.batch_checks import broken_block
from gmlearn.learn.bcfw import BOX
from gmlearn.learn.completion import take_completion
from gmlearn.learn.lbfgs import LbfgsState, iterate
from gmlearn.learn.soft import shared_multipliers, soft_value
from gmlearn.losses.base import Loss
from gmlearn.master import Round, ascend_bcfw
from gmlearn.model.crf import CRF
from gmlearn.model.join import check_models

KINDS = ("hinge", "likelihood", "sparsemap", "perturbed")
#: rounds over which the dual must rise by the tolerance; L-BFGS needs some to learn curvature
WINDOW, LBFGS_WINDOW = 3, 6
#: how far the first proximal step goes where earlier multipliers are kept, in typical costs; chosen
#: among .01 to 1 on grids of 32, 48 and 80 pixels, seeds 20 and 21, of tests/benchmarks/layer.py
WARM_REACH = 0.03
#: L-BFGS iterations of a likelihood, and passes of SparseMAP, for each round of the hinge
LBFGS, PASSES = 5, 10


@dataclass
class LossState:
    """What makes the next call at nearby costs cheap.

    costs : dual costs of each sample, None where slaves share nothing.
    samples : the joined samples, to be used again while only unary costs and labels change; not
        pickled.
    """

    costs: list[DualCosts | None]
    samples: JoinedSamples | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"costs": self.costs, "samples": None}


@dataclass(frozen=True)
class LossOptions(PlanOptions):
    """The options of `structured_loss`, which see; `gradients` says that those in the blocks'
    numbers will be asked for.
    """

    kind: str = "hinge"
    loss: str | Loss | None = None
    temperature: float = 1.0
    decomposition: Any = "auto"
    max_iter: int = 100
    tol: float = 1e-5
    perturbations: int = 16
    seed: int = 0
    gradients: bool = False

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        check_number("temperature", self.temperature, low=0, strict=True)
        check_number("max_iter", self.max_iter, low=0, integer=True)
        check_number("tol", self.tol, low=0)
        check_number("perturbations", self.perturbations, low=1, integer=True)

    @property
    def copies(self) -> int:  # type: ignore[override]
        return self.perturbations if self.kind == "perturbed" else 1

    @property
    def settings(self) -> Settings:
        default = "hamming" if self.kind == "hinge" else "none"
        soft = self.temperature if self.kind == "likelihood" else 0.0
        # the features of minimisers are part of a SparseMAP solution: there is no cheap way later
        gradients = self.gradients or self.kind == "sparsemap"
        loss = default if self.loss is None else self.loss
        return Settings(loss, self.decomposition, soft, gradients)

    def noisy(self, unary: np.ndarray) -> np.ndarray:
        if self.kind != "perturbed":
            return unary
        noise = np.random.default_rng(self.seed).normal(size=(self.copies, len(unary)))
        return (unary + self.temperature * noise).ravel()


class BlockGradients:
    """Gradients in the blocks' own numbers, which are computed when they are asked for.

    Attributes
    ----------
    samples : as in `LossState`.   unary, truth : of all samples at the time of the loss.
    lam : the multipliers of each batch.   weights : by segment.   copies : of each model.
    """

    def __init__(
        self,
        samples: JoinedSamples,
        lam: list[np.ndarray],
        weights: dict[str, np.ndarray],
        copies: int,
    ):
        self.samples, self.lam, self.weights, self.copies = samples, lam, weights, copies
        self.unary, self.truth = samples.unary, samples.truth

    def find(self) -> list[list[Any]]:
        """One list for each model."""
        detailed = self.samples.detailed(self.unary, self.truth)
        blocks: list[list[Any]] = []
        for batch, lam in zip(detailed.batches, self.lam):
            vertex = batch.vertex(batch.layout.join(self.weights), lam)
            slope = batch.slope(vertex.features)[batch.layout.slices[COSTS]]
            blocks += detailed.gradients_of_blocks(batch, slope, self.weights)
        n = len(blocks) // self.copies
        return blocks if self.copies == 1 else [_mean(blocks[k::n]) for k in range(n)]


@dataclass(frozen=True)
class LossResult:
    """A structured loss and its derivatives; for a list of models all but `weights` is one for
    each, `value`, `bound` and `gap` as arrays.

    value : the loss, an upper bound of it where the relaxation is not tight.
    unary : float (V, L), in the unary costs (zeros beyond a variable's states).
    blocks : in the numbers that each block was given (strengths, tables, features), in their
        shape; None for a block without. Computed when it is asked for.
    weights : by segment, summed over the models.
    bound : the loss at optimal multipliers is not below this.   gap : value - bound.
    state : for the next call.
    """

    value: Any
    unary: Any
    weights: dict[str, np.ndarray]
    bound: Any
    gap: Any
    state: LossState = field(repr=False)
    _blocks: Any = field(repr=False)

    @cached_property
    def blocks(self) -> Any:
        found = self._blocks.find() if isinstance(self._blocks, BlockGradients) else self._blocks
        return found if isinstance(self.value, np.ndarray) else found[0]

    def __getstate__(self) -> dict[str, Any]:
        found = self.blocks
        listed = found if isinstance(self.value, np.ndarray) else [found]
        return {**self.__dict__, "_blocks": listed}


class BatchLoss(NamedTuple):
    """The loss of one batch: values, minima and bounds (n,), relaxed indicators (n_coords,),
    gradient in all weights (P,), multipliers (D,), and whether the gradient has the blocks' costs.
    """

    value: np.ndarray
    minima: np.ndarray
    bound: np.ndarray
    mean: np.ndarray
    slope: np.ndarray
    lam: np.ndarray
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
    max_iter : rounds on the multipliers, where slaves share variables: passes of the ascent for the
        hinge, of "likelihood" five times as many L-BFGS iterations, of "sparsemap" ten times as
        many passes.
    tol : stop where the loss falls by less than this part of it within a few rounds.
    perturbations : noisy copies of each model, of "perturbed".
    state : of an earlier result of the same models at other costs; see `LossPlan` where there are
        many such calls.
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
    options = LossOptions(
        kind, loss, temperature, decomposition, max_iter, tol, perturbations, seed
    )
    crfs, truths, masks = _lists(crf, truth, hidden)
    samples = options.joined(crfs, truths, masks, None if state is None else state.samples)
    answer = loss_of(samples, options, weights, state)
    return _only(answer) if isinstance(crf, CRF) else answer


class LossPlan:
    """The structured loss of given models for many costs: joined and decomposed once.

    Parameters
    ----------
    crf, truth : as in `structured_loss`.
    options : `kind`, `loss`, `temperature`, `decomposition`, `max_iter`, `tol`, `perturbations`,
        `seed` of `structured_loss`.

    Examples
    --------
    >>> import gmlearn as gm, numpy as np
    >>> chain = gm.CRF(3, 2)
    >>> _ = chain.add(gm.Potts([[0, 1], [1, 2]], 0.5))
    >>> plan = gm.LossPlan([chain, chain], [[0, 0, 1], [1, 1, 1]], kind="likelihood")
    >>> costs = np.zeros((2, 3, 2))
    >>> for _ in range(50):
    ...     costs -= np.array(plan(costs).unary)
    >>> bool((plan(costs).value < 0.1).all())
    True
    """

    def __init__(self, crf: CRF | Sequence[CRF], truth: Any, **options: Any):
        self.options = LossOptions(**options)
        self.single = isinstance(crf, CRF)
        crfs, self.truths, _ = _lists(crf, truth, None)
        self._plans = Plans(crfs, self.options)
        self._feed(None, None, None)  # bad labels are refused now

    def _feed(self, numbers: np.ndarray | None, unary: Any, truth: Any) -> JoinedSamples:
        """Some samples, or all, at costs and labels; their own labels by default."""
        if truth is None:
            truth = self.truths if numbers is None else [self.truths[k] for k in numbers.tolist()]

        def name(k: int) -> str:
            return f"[{k}]" if numbers is None else f"[{k}] (sample {numbers[k]})"

        chosen = np.arange(len(self.truths)) if numbers is None else numbers
        return self._plans.feed(chosen, unary, truth, name)[1]

    def __call__(
        self,
        unary: Any = None,
        weights: Any = None,
        *,
        samples: Any = None,
        truth: Any = None,
        state: LossState | None = None,
    ) -> LossResult:
        """The loss at other costs.

        Parameters
        ----------
        unary : (V, L), for a list of models (B, V, L) or a list of (V, L): costs that are added to
            those of the models. Rows beyond a model's variables are ignored.
        weights : of the models, by segment.
        samples : int (B,), the numbers of the models that make up a batch, in the order of `unary`;
            all by default.
        truth : other true labels of these, of the same form as before.
        state : of an earlier result for the same samples, whose multipliers are the first ones.
        """
        chosen = None if samples is None else self._numbers(samples)
        if self.single:
            unary = None if unary is None else [unary]
            truth = None if truth is None else [truth]
        answer = loss_of(self._feed(chosen, unary, truth), self.options, weights, state)
        return _only(answer) if self.single else answer

    def _numbers(self, samples: Any) -> np.ndarray:
        if self.single:
            raise ValueError("samples: the plan is for one model, expected None")
        n = len(self.truths)
        numbers = check_array("samples", samples, ndim=1, dtype=np.int64)
        wrong = numbers[(numbers < 0) | (numbers >= n)]
        if wrong.size or not numbers.size:
            given = int(wrong[0]) if wrong.size else "none"
            raise ValueError(f"samples: expected numbers in 0..{n - 1}, got {given}")
        return numbers


def loss_of(
    samples: JoinedSamples, options: LossOptions, weights: Any, state: LossState | None
) -> LossResult:
    """The loss of joined samples at their present costs."""
    if state is not None and len(state.costs) != len(samples.crfs):
        raise ValueError(f"state: made for {len(state.costs)} models, got {len(samples.crfs)}")
    named = samples.layout.check(weights)
    kinds: dict[str, Callable[..., BatchLoss]] = {
        "likelihood": likelihood,
        "sparsemap": partial(sparsemap, temperature=options.temperature),
    }
    solve = kinds.get(options.kind, hinge)
    found: list[BatchLoss] = []
    kept: list[DualCosts | None] = []
    for batch, a, b in zip(samples.batches, samples.ends, samples.ends[1:]):
        w = batch.layout.join(named)
        start_at(batch, w, None if state is None else state.costs[a:b])
        if samples.latent:
            take_completion(batch, w, "auto", options.seed)
        found.append(solve(batch, w, options.max_iter, options.tol))
        kept += keep(batch, found[-1].lam)
    answer = _result(samples, found, named, LossState(kept, samples), options.copies)
    return answer if options.copies == 1 else _averaged(answer, options.copies)


def _lists(crf: Any, truth: Any, hidden: Any) -> tuple[list[CRF], list[Any], list[Any] | None]:
    """Models, truths and masks as lists of one length."""
    if isinstance(crf, CRF):
        shape = (crf.n_vars,)
        truths = [check_array("truth", truth, shape=shape, dtype=np.int64)]
        return [crf], truths, None if hidden is None else [hidden]
    crfs = check_models("crf", crf)
    truths = [np.asarray(t) for t in check_sequence("truth", truth, "labellings")]
    masks = None if hidden is None else list(hidden)
    if not crfs:
        raise ValueError("crf: expected at least one model, got an empty list")
    for name, given in (("truth", truths), ("hidden", masks)):
        if given is not None and len(given) != len(crfs):
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
    return not batch.dual.slaves.disjoint


def keep(batch: SampleBatch, lam: np.ndarray) -> Sequence[DualCosts | None]:
    """The dual costs of each sample at multipliers (D,); nothing where no slaves share a
    variable.
    """
    if not has_multipliers(batch):
        return [None] * len(batch.samples)
    return batch.dual.slaves.keep_each(batch.dual.share + lam)


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
    known = batch.dual.unary if batch.dual.slaves.crf is batch.augmented else None
    energies = [batch.augmented.energies(x, named, known) + batch.constants for x in labellings]
    best = np.min(energies, axis=0)
    return _batch_loss(batch, w, batch.vertex_here(), batch.dual.lam, best=best)


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
    batch: SampleBatch, w: np.ndarray, max_iter: int, tol: float, temperature: float
) -> BatchLoss:
    """The SparseMAP loss."""
    from gmlearn.layers.sparsemap import SparseMAP

    problem = SparseMAP(batch, w, temperature)
    found = problem.run(PASSES * max_iter, tol)
    truth = batch.truth_energies(w) + 0.5 * temperature * np.diff(batch.model.parts)
    slope, lam = batch.slope(found.features), problem.mixture.state.centre
    mean = found.z[: batch.model.n_coords]
    value, bound = truth - found.dual, truth - found.primal
    return BatchLoss(value, found.dual, bound, mean, slope, lam, problem.knows_costs)


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


# ---------------------------------------------------------------------- what is handed out


def _result(
    samples: JoinedSamples,
    found: Sequence[BatchLoss],
    w: dict[str, np.ndarray],
    state: LossState,
    copies: int,
) -> LossResult:
    """The batches' losses sample by sample."""
    total = np.zeros(samples.layout.size)
    change = np.concatenate([-loss.mean for loss in found])
    begin = 0
    for batch, loss in zip(samples.batches, found):
        change[begin + batch.model.offsets[:-1] + batch.truth] += 1.0
        begin += batch.model.n_coords
        total += loss.slope[: len(total)]
    value = np.concatenate([loss.value for loss in found])
    bound = np.concatenate([loss.bound for loss in found])
    named = samples.layout.split(total)
    blocks: Any = BlockGradients(samples, [loss.lam for loss in found], w, copies)
    if samples.settings.gradients:
        blocks = []
        for batch, loss in zip(samples.batches, found):
            slope = loss.slope[len(total) :] if loss.knows_costs else None
            blocks += samples.gradients_of_blocks(batch, slope, w)
    unary = samples.rows(change)
    return LossResult(value, unary, named, bound, value - bound, state, blocks)


def _only(answer: LossResult) -> LossResult:
    """The answer of the only model."""
    value, bound = float(answer.value[0]), float(answer.bound[0])
    return replace(answer, value=value, unary=answer.unary[0], bound=bound, gap=value - bound)


def _averaged(answer: LossResult, copies: int) -> LossResult:
    """Means over copies of all models, which come one set after the other."""
    n = len(answer.value) // copies
    value, bound = (a.reshape(copies, n).mean(axis=0) for a in (answer.value, answer.bound))
    return replace(
        answer,
        value=value,
        unary=[_mean(answer.unary[k::n]) for k in range(n)],
        weights={name: total / copies for name, total in answer.weights.items()},
        bound=bound,
        gap=value - bound,
    )


def _mean(nests: Sequence[Any]) -> Any:
    """The mean of arrays, or of nests of them."""
    if isinstance(nests[0], (list, tuple)):
        return type(nests[0])(_mean(parts) for parts in zip(*nests))
    return None if nests[0] is None else np.mean(nests, axis=0)
