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
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from gmlearn._utils.threads import one_blas_thread
from gmlearn._utils.validation import check_array, check_choice, check_number, check_sequence
from gmlearn.decompositions.base import DualCosts
from gmlearn.layers.kinds import BatchLoss, hinge, keep, likelihood, sparsemap, start_at
from gmlearn.layers.plan import Plan, PlanOptions, Plans, sparse_choice
from gmlearn.layers.results import LossResult, LossState, averaged, only, result_of
from gmlearn.layers.samples import JoinedSamples, Settings
from gmlearn.learn.completion import take_completion
from gmlearn.losses.base import Loss
from gmlearn.model.crf import CRF
from gmlearn.model.join import check_models

KINDS = ("hinge", "likelihood", "sparsemap", "perturbed")


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
        sparse = self.kind == "sparsemap"
        chosen = sparse_choice(self.decomposition) if sparse else self.decomposition
        return Settings(loss, chosen, soft, gradients)

    def noisy(self, unary: np.ndarray) -> np.ndarray:
        if self.kind != "perturbed":
            return unary
        noise = np.random.default_rng(self.seed).normal(size=(self.copies, len(unary)))
        return (unary + self.temperature * noise).ravel()


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
    return only(answer) if isinstance(crf, CRF) else answer


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
        with self._lent(None, None, None):
            pass  # bad labels are refused now

    def _lent(
        self, numbers: np.ndarray | None, unary: Any, truth: Any
    ) -> AbstractContextManager[tuple[Plan, JoinedSamples]]:
        """Some samples, or all, at costs and labels; their own labels by default."""
        if truth is None:
            truth = self.truths if numbers is None else [self.truths[k] for k in numbers.tolist()]

        def name(k: int) -> str:
            return f"[{k}]" if numbers is None else f"[{k}] (sample {numbers[k]})"

        chosen = np.arange(len(self.truths)) if numbers is None else numbers
        return self._plans.lent(chosen, unary, truth, name)

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
            those of the models. Rows beyond a model's variables are ignored. The gradient in costs
            of single precision is of single precision.
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
        with self._lent(chosen, unary, truth) as (_, own):
            answer = loss_of(own, self.options, weights, state)
        if unary is not None and {np.asarray(u).dtype for u in unary} == {np.dtype(np.float32)}:
            answer = replace(answer, unary=[g.astype(np.float32) for g in answer.unary])
        return only(answer) if self.single else answer

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
    found: list[BatchLoss] = []
    kept: list[DualCosts | None] = []
    for batch, a, b in zip(samples.batches, samples.ends, samples.ends[1:]):
        w = batch.layout.join(named)
        start_at(batch, w, None if state is None else state.costs[a:b])
        if samples.latent:
            take_completion(batch, w, "auto", options.seed)
        solve = kinds.get(options.kind, hinge)
        mixture = None if state is None else state.mixture(samples, len(found))
        if mixture is not None:
            solve = partial(solve, start=mixture)
        with one_blas_thread():  # small products, as in training
            found.append(solve(batch, w, options.max_iter, options.tol))
        kept += keep(batch, found[-1].lam)
    mixtures = [loss.mixture for loss in found if loss.mixture is not None]
    after = LossState(kept, samples, mixtures)
    answer = result_of(samples, found, named, after, options.copies)
    return answer if options.copies == 1 else averaged(answer, options.copies)


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
