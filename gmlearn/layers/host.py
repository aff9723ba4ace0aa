"""What the layers of all frameworks share: arrays of a network in, arrays of gradients out.

A batch has unary costs from a network, (B, V, L) or a list of (V, L). The models have everything
else; rows beyond a model's variables are ignored, so that models of different sizes can share one
padded array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from gmlearn._utils.validation import check_choice
from gmlearn.decompositions.base import DualCosts
from gmlearn.layers.loss import LossOptions, loss_of
from gmlearn.layers.plan import MOST_PLANS, Plan, Plans
from gmlearn.layers.relaxed import RelaxedOptions, relaxed_of
from gmlearn.layers.results import LossState
from gmlearn.layers.samples import JoinedSamples
from gmlearn.model.crf import CRF

#: relative step of the differences that give a product with the Jacobian of marginals, and how
#: much more exact the marginals must be than the tolerance for it
STEP, EXACTNESS = 1e-4, 1e-8
#: method of `relaxed` for each output of a layer
METHODS = {"marginals": "soft", "sparsemap": "sparsemap", "labels": "dual"}


class Host:
    """Models under a network, and the dual costs of each sample between two calls.

    Parameters
    ----------
    models : one for all samples, or one for each sample id.
    options : of a loss or of relaxed solutions.
    """

    def __init__(self, models: CRF | Sequence[CRF], options: LossOptions | RelaxedOptions):
        self.shared = isinstance(models, CRF)
        models = [models] if isinstance(models, CRF) else list(models)
        wrong = [k for k, crf in enumerate(models) if not isinstance(crf, CRF)]
        if wrong or not models:
            given = type(models[wrong[0]]).__name__ if wrong else "an empty list"
            raise TypeError(f"models: expected a gmlearn.CRF or a list of them, got {given}")
        #: copies: later changes of the given models are not seen
        self.models = [crf.copy() for crf in models]
        self.options = options
        #: sample id -> dual costs
        self.kept: dict[int, DualCosts | None] = {}
        #: sample ids -> the state of the batch, while its plan may still be there; not pickled
        self._batches: dict[tuple[int, ...], LossState] = {}

    @classmethod
    def of_loss(cls, models: Any, kind: str, reduction: str, options: dict[str, Any]) -> Host:
        """The models under a loss; `options` of `structured_loss`."""
        check_choice("reduction", reduction, ("mean", "sum"))
        return cls(models, LossOptions(kind=kind, **options))

    @classmethod
    def of_layer(cls, models: Any, output: str, options: dict[str, Any]) -> Host:
        """The models under a layer; `options` of `relaxed`."""
        check_choice("output", output, tuple(METHODS))
        return cls(models, RelaxedOptions(method=METHODS[output], **options))

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in vars(self).items() if name != "_plans"}
        return {**kept, "_batches": {}}

    # ------------------------------------------------------------------ models of one batch

    def _chosen(self, n: int, ids: Any) -> list[int] | None:
        """The sample ids; None for samples without."""
        if ids is None and self.shared:
            return None
        chosen = np.arange(len(self.models)) if ids is None else np.asarray(ids).ravel()
        if len(chosen) != n:
            raise ValueError(
                f"unary: expected costs of {len(chosen)} samples, one for each id, got {n}"
            )
        unknown = chosen[(chosen < 0) | (chosen >= len(self.models))]
        if len(unknown) and not self.shared:
            raise ValueError(f"ids: expected 0..{len(self.models) - 1}, got {unknown[0]}")
        return chosen.astype(np.int64).tolist()

    @cached_property
    def _plans(self) -> Plans:
        return Plans(self.models, self.options)

    def lent(
        self, unary: Any, ids: list[int] | None, truth: Any = None, costs: Any = None
    ) -> AbstractContextManager[tuple[Plan, JoinedSamples]]:
        """The joined models of a batch, and their samples; some of their blocks may have other
        `costs`.
        """
        n = len(unary)

        def name(k: int) -> str:
            return f"[{k}]" if ids is None else f"[{k}] (sample id {ids[k]})"

        numbers = np.zeros(n, np.int64) if self.shared else np.array(ids, np.int64)
        if costs is None:
            return self._plans.lent(numbers, unary, truth, name)
        crfs = with_costs([self.models[k] for k in numbers.tolist()], costs)
        assert isinstance(self.options, LossOptions)  # of layers, only losses take costs
        options = replace(self.options, gradients=True)
        return Plans(crfs, options).lent(np.arange(n), unary, truth, name)

    def _state(self, ids: list[int] | None) -> LossState | None:
        if ids is None or self.options.copies > 1:
            return None
        known = self._batches.get(tuple(ids), LossState([]))
        return replace(known, costs=[self.kept.get(i) for i in ids])

    def _keep(self, ids: list[int] | None, state: LossState | None) -> None:
        if state is not None and ids is not None:
            self.kept.update(zip(ids, state.costs))
            if state.mixtures:
                self._batches.pop(tuple(ids), None)
                self._batches[tuple(ids)] = state
                for oldest in list(self._batches)[:-MOST_PLANS]:
                    self._batches.pop(oldest, None)

    # ------------------------------------------------------------------ what layers call

    def loss(
        self, unary: Any, truth: Any, weights: Any, costs: Any, ids: Any
    ) -> tuple[float, Any, dict[str, np.ndarray], list[dict[Any, Any]]]:
        """(sum of the losses, gradients in unary costs in their form, in weights, in the blocks'
        costs).
        """
        chosen = self._chosen(len(unary), ids)
        state = self._state(chosen)
        with self.lent(unary, chosen, truth, costs) as (plan, samples):
            assert isinstance(plan.options, LossOptions)
            found = loss_of(samples, plan.options, _floats(weights), state)
        self._keep(chosen, found.state)
        slopes = plan.places.like(unary, found.unary)
        of_blocks = [{i: found.blocks[k][int(i)] for i in own} for k, own in enumerate(costs or [])]
        return float(np.sum(found.value)), slopes, found.weights, of_blocks

    def _relaxed(self, unary: Any, weights: Any, ids: Any, **changes: Any) -> Any:
        """(joined models, relaxed solutions)."""
        chosen = self._chosen(len(unary), ids)
        assert isinstance(self.options, RelaxedOptions)
        options = replace(self.options, **changes)
        with self.lent(unary, chosen) as (plan, samples):
            found = relaxed_of(samples, options, _floats(weights), self._state(chosen))
        self._keep(chosen, found.state)
        return plan, found

    def marginals(self, unary: Any, weights: Any, ids: Any, **changes: Any) -> Any:
        """Relaxed indicators of each sample, in the form of its unary costs."""
        plan, found = self._relaxed(unary, weights, ids, **changes)
        return plan.places.like(unary, found.node)

    def pull_back(self, unary: Any, weights: Any, ids: Any, change: Any) -> Any:
        """The product of `change`, in the form of `unary`, with the Jacobian of `marginals` in the
        unary costs.

        Marginals are the gradient of a concave function of the costs, so that the Jacobian is
        symmetric and the product is the derivative of the marginals along `change` (Domke,
        Implicit differentiation by perturbation, NIPS 2010), here by central differences. That of
        SparseMAP is exact.
        """
        assert isinstance(self.options, RelaxedOptions)
        if self.options.method == "sparsemap":
            plan, found = self._relaxed(unary, weights, ids)
            return plan.places.like(unary, found.pull_back(plan.places.rows(change)))
        size = max((np.abs(c).max(initial=0.0) for c in change), default=0.0)
        step = STEP / max(size, 1e-300)
        exact = {"tol": EXACTNESS * self.options.tol, "max_iter": 10 * self.options.max_iter}
        high, low = (
            self.marginals(_moved(unary, change, s), weights, ids, **exact) for s in (step, -step)
        )
        if isinstance(high, list):
            return [(a - b) / (2 * step) for a, b in zip(high, low)]
        return (high - low) / (2 * step)

    def labels(self, unary: Any, weights: Any, ids: Any) -> list[np.ndarray]:
        """The most probable labels (V,) of each sample, zeros beyond its variables."""
        from gmlearn.solvers import solve
        from gmlearn.solvers.many import solve_forests

        chosen = self._chosen(len(unary), ids)
        named = _floats(weights)
        with self.lent(unary, chosen) as (_, samples):
            crfs = samples.present()
        found = solve_forests(crfs, named) or [solve(crf, named) for crf in crfs]
        return [np.pad(r.labels, (0, len(u) - len(r.labels))) for r, u in zip(found, unary)]


def with_costs(crfs: Sequence[CRF], costs: Any) -> list[CRF]:
    """Models whose blocks have other numbers, a mapping from their number for each model."""
    given = list(costs)
    if len(given) != len(crfs):
        raise ValueError(
            f"costs: expected one mapping for each of {len(crfs)} samples, got {len(given)}"
        )
    fed = [crf.copy() for crf in crfs]
    for k, (crf, own) in enumerate(zip(fed, given)):
        for i, numbers in own.items():
            crf.blocks[int(i)] = _replaced(crf.blocks[int(i)], numbers, k, i)
    return fed


def _replaced(block: Any, numbers: Any, k: int, i: Any) -> Any:
    several = isinstance(numbers, (tuple, list))
    arrays = [np.asarray(a, float) for a in (numbers if several else [numbers])]
    if any(np.isnan(array).any() for array in arrays):
        raise ValueError(f"costs[{k}][{i}]: contains NaN; expected the costs of {block!r}")
    try:
        return block.with_costs(arrays if several else arrays[0])
    except ValueError as error:
        raise ValueError(f"costs[{k}][{i}]: {error}") from None


def _moved(unary: Any, change: Any, step: float) -> Any:
    """unary + step change, in 64 bits."""
    if isinstance(unary, (list, tuple)):
        return [np.asarray(u, float) + step * np.asarray(c) for u, c in zip(unary, change)]
    return np.asarray(unary, float) + step * np.asarray(change)


def _floats(weights: Mapping[str, Any] | None) -> dict[str, np.ndarray]:
    return {name: np.asarray(value, float) for name, value in (weights or {}).items()}


class LossBase:
    """The mean loss of a batch (`gmlearn.structured_loss`) under costs from a network.

    Parameters
    ----------
    models : one for all samples, or a list with one for each sample id; their own unary costs are
        added to those of the network.
    kind, options : as in `gmlearn.structured_loss`.
    reduction : "mean" or "sum" over the batch.

    Notes
    -----
    It is called with ``(unary, truth, ids=None, weights=None, costs=None)``, see `forward`.
    """

    def __init__(
        self,
        models: CRF | Sequence[CRF],
        kind: str = "hinge",
        *,
        reduction: str = "mean",
        **options: Any,
    ):
        super().__init__()
        self.host = Host.of_loss(models, kind, reduction, options)
        self.reduction = reduction

    def forward(
        self,
        unary: Any,
        truth: Any,
        ids: Any = None,
        weights: Mapping[str, Any] | None = None,
        costs: Sequence[Mapping[Any, Any]] | None = None,
    ) -> Any:
        """The loss of a batch, a number.

        Parameters
        ----------
        unary : (B, V, L), or a list of (V, L); rows beyond a model's variables are ignored.
        truth : int (B, V), or a list of (V,).
        ids : int (B,), the samples: they choose the models of a list, and the dual state of each is
            kept for the next call. By default all models of a list, in order.
        weights : of the models, by segment.
        costs : for each sample a mapping from the number of a block to its costs, in the shape of
            `LossResult.blocks`: tables or strengths that come from a network.
        """
        return self._loss((unary, dict(weights or {}), costs), (truth, ids))

    def _loss(self, given: Any, fixed: Any) -> Any:
        """What a framework makes of it: `given` has gradients, `fixed` has none."""
        raise NotImplementedError


class LayerBase:
    """Marginals, or labels, of a batch of models under costs from a network.

    Parameters
    ----------
    models : as in `StructuredLoss`.
    output : "marginals", relaxed indicators at a temperature, or "sparsemap", sparse ones: both
        differentiable in the unary costs; "labels", the most probable ones, without gradient.
    options : of `gmlearn.relaxed`; `temperature` is that of marginals, or of the quadratic term of
        "sparsemap".

    Notes
    -----
    It is called with ``(unary, ids=None, weights=None)``, see `forward`.
    """

    def __init__(self, models: CRF | Sequence[CRF], output: str = "marginals", **options: Any):
        super().__init__()
        self.host = Host.of_layer(models, output, options)
        self.output = output

    def forward(self, unary: Any, ids: Any = None, weights: Mapping[str, Any] | None = None) -> Any:
        """Marginals in the form of `unary`, or labels int (B, V) (a list of (V,) for a list).

        Parameters
        ----------
        unary, ids : as of `StructuredLoss`.
        weights : of the models, by segment; they have no gradient here.
        """
        return self._answer(unary, dict(weights or {}), ids)

    def _answer(self, unary: Any, weights: dict[str, Any], ids: Any) -> Any:
        raise NotImplementedError
