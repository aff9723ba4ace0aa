"""What the layers of all frameworks share: arrays of a network in, arrays of gradients out.

A batch has unary costs from a network, (B, V, L) or a list of (V, L). The models have everything
else; rows beyond a model's variables are ignored, so that models of different sizes can share one
padded array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gmlearn._utils.validation import check_choice
from gmlearn.decompositions.base import DualCosts
from gmlearn.layers.loss import LossState, structured_loss
from gmlearn.layers.relaxed import relaxed
from gmlearn.layers.samples import JoinedSamples
from gmlearn.model.crf import CRF

#: relative step of the differences that give a product with the Jacobian of marginals
STEP = 1e-4
#: method of `relaxed` for each output of a layer
METHODS = {"marginals": "soft", "sparsemap": "sparsemap", "labels": "dual"}


class Host:
    """Models under a network, and the dual costs of each sample between two calls.

    Parameters
    ----------
    models : one for all samples, or one for each sample id.
    options : of `structured_loss` or `relaxed`.
    """

    def __init__(self, models: CRF | Sequence[CRF], **options: Any):
        self.shared = isinstance(models, CRF)
        self.models = [models] if isinstance(models, CRF) else list(models)
        wrong = [k for k, crf in enumerate(self.models) if not isinstance(crf, CRF)]
        if wrong or not self.models:
            given = type(self.models[wrong[0]]).__name__ if wrong else "an empty list"
            raise TypeError(f"models: expected a gmlearn.CRF or a list of them, got {given}")
        self.options = options
        #: sample id -> dual costs
        self.kept: dict[int, DualCosts | None] = {}
        self._samples: JoinedSamples | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_samples": None}

    # ------------------------------------------------------------------ models of one batch

    def feed(self, unary: Any, costs: Any, ids: Any) -> tuple[list[CRF], list[int] | None]:
        """The models of a batch with the network's costs in them, and the sample ids."""
        n = len(unary)
        chosen = None if ids is None else [int(i) for i in np.asarray(ids).ravel()]
        if chosen is None and not self.shared:
            chosen = list(range(len(self.models)))
        if chosen is not None and len(chosen) != n:
            raise ValueError(
                f"unary: expected costs of {len(chosen)} samples, one for each id, got {n}"
            )
        if not self.shared and chosen is not None:
            unknown = [i for i in chosen if not 0 <= i < len(self.models)]
            if unknown:
                raise ValueError(f"ids: expected 0..{len(self.models) - 1}, got {unknown[0]}")
        models = self.models * n if self.shared else [self.models[i] for i in chosen or []]
        given = [{}] * n if costs is None else list(costs)
        if len(given) != n:
            raise ValueError(
                f"costs: expected one mapping for each of {n} samples, got {len(given)}"
            )
        crfs = []
        for k, (crf, rows, own) in enumerate(zip(models, unary, given)):
            crfs.append(with_unary(crf, np.asarray(rows, float), self._name(k, chosen)))
            for i, numbers in own.items():
                crfs[k].blocks[int(i)] = _replaced(crfs[k].blocks[int(i)], numbers, k, i)
        return crfs, chosen

    def _name(self, k: int, ids: list[int] | None) -> str:
        return f"unary[{k}]" if ids is None else f"unary[{k}] (sample id {ids[k]})"

    def _state(self, ids: list[int] | None, n: int) -> LossState:
        kept: Any = [None] * n if ids is None else [self.kept.get(i) for i in ids]
        return LossState(kept, self._samples)

    def _keep(self, ids: list[int] | None, state: LossState | None) -> None:
        if state is not None:
            self._samples = state.samples
            if ids is not None:
                self.kept.update(zip(ids, state.costs))

    # ------------------------------------------------------------------ what layers call

    def loss(
        self, unary: Any, truth: Any, weights: Any, costs: Any, ids: Any
    ) -> tuple[float, list[np.ndarray], dict[str, np.ndarray], list[dict[Any, Any]]]:
        """(sum of the losses, gradients in unary costs, in weights, in the blocks' costs)."""
        crfs, chosen = self.feed(unary, costs, ids)
        truths = [np.asarray(t)[: crf.n_vars] for t, crf in zip(truth, crfs)]
        if len(truths) != len(crfs):
            raise ValueError(f"truth: expected labels of {len(crfs)} samples, got {len(truths)}")
        state = self._state(chosen, len(crfs))
        found = structured_loss(crfs, truths, _floats(weights), state=state, **self.options)
        self._keep(chosen, found.state)
        slopes = [_like(rows, own) for rows, own in zip(unary, found.unary)]
        of_blocks = [{i: found.blocks[k][int(i)] for i in own} for k, own in enumerate(costs or [])]
        return float(np.sum(found.value)), slopes, found.weights, of_blocks

    def marginals(self, unary: Any, weights: Any, ids: Any) -> list[np.ndarray]:
        """Relaxed indicators of each sample, in the shapes of its unary costs."""
        crfs, chosen = self.feed(unary, None, ids)
        found = relaxed(
            crfs, _floats(weights), state=self._state(chosen, len(crfs)), **self.options
        )
        self._keep(chosen, found.state)
        return [_like(rows, own) for rows, own in zip(unary, found.node)]

    def pull_back(
        self, unary: Any, weights: Any, ids: Any, change: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """The product of `change`, one for each sample, with the Jacobian of `marginals` in the
        unary costs.

        Marginals are the gradient of a concave function of the costs, so that the Jacobian is
        symmetric and the product is the derivative of the marginals along `change` (Domke,
        Implicit differentiation by perturbation, NIPS 2010), here by central differences. That of
        SparseMAP is exact.
        """
        if self.options["method"] == "sparsemap":
            crfs, chosen = self.feed(unary, None, ids)
            state = self._state(chosen, len(crfs))
            found = relaxed(crfs, _floats(weights), state=state, **self.options)
            rows = [c[: crf.n_vars] for c, crf in zip(change, crfs)]
            return [_like(u, own) for u, own in zip(unary, found.pull_back(rows))]
        size = max((np.abs(c).max(initial=0.0) for c in change), default=0.0)
        if size == 0.0:
            return [np.zeros(np.shape(rows)) for rows in unary]
        sides = []
        for step in (STEP / size, -STEP / size):
            moved = [np.asarray(rows, float) + step * c for rows, c in zip(unary, change)]
            sides.append(self.marginals(moved, weights, ids))
        return [(high - low) * size / (2 * STEP) for high, low in zip(*sides)]

    def labels(self, unary: Any, weights: Any, ids: Any) -> list[np.ndarray]:
        """The most probable labels (V,) of each sample."""
        from gmlearn.solvers import solve

        crfs, _ = self.feed(unary, None, ids)
        found = [solve(crf, _floats(weights)).labels for crf in crfs]
        return [np.pad(labels, (0, len(rows) - len(labels))) for labels, rows in zip(found, unary)]


def with_unary(crf: CRF, rows: np.ndarray, name: str) -> CRF:
    """The model plus unary costs `rows` (V' >= V, L)."""
    size = int(crf.n_states.max(initial=1))
    if rows.ndim != 2 or len(rows) < crf.n_vars or rows.shape[1] != size:
        raise ValueError(f"{name}: expected shape ({crf.n_vars}, {size}), got {rows.shape}")
    rows = rows[: crf.n_vars]
    wrong = np.argwhere(np.isnan(rows) | np.isneginf(rows))
    if len(wrong):
        v, l = wrong[0].tolist()
        raise ValueError(
            f"{name}: the cost of variable {v}, label {l} is {rows[v, l]}; expected finite costs, "
            f"or +inf to forbid"
        )
    fed = crf.copy()
    fed.unary = crf.unary + crf.flat(rows)
    return fed


def _replaced(block: Any, numbers: Any, k: int, i: Any) -> Any:
    arrays = [np.asarray(a, float) for a in numbers] if isinstance(numbers, (tuple, list)) else None
    given = np.asarray(numbers, float) if arrays is None else arrays
    for array in [given] if arrays is None else arrays:
        if np.isnan(array).any():
            raise ValueError(f"costs[{k}][{i}]: contains NaN; expected the costs of {block!r}")
    try:
        return block.with_costs(given)
    except ValueError as error:
        raise ValueError(f"costs[{k}][{i}]: {error}") from None


def _like(rows: Any, own: np.ndarray) -> np.ndarray:
    """`own` (V, L) in the shape of `rows` (V' >= V, L), zeros below."""
    out = np.zeros(np.shape(rows))
    out[: len(own)] = own
    return out


def _floats(weights: Mapping[str, Any] | None) -> dict[str, np.ndarray]:
    return {name: np.asarray(value, float) for name, value in (weights or {}).items()}


def options_of_layer(output: str, temperature: float) -> dict[str, Any]:
    """The options of `relaxed` behind an output by name."""
    check_choice("output", output, tuple(METHODS))
    return {"method": METHODS[output], "temperature": temperature}
