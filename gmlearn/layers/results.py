"""What a structured loss hands out: values, gradients and the state for the next call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from gmlearn.decompositions.base import DualCosts
from gmlearn.layers.kinds import BatchLoss
from gmlearn.layers.samples import COSTS, JoinedSamples
from gmlearn.master.mixture_state import MixtureState


@dataclass
class LossState:
    """What makes the next call at nearby costs cheap.

    costs : dual costs of each sample, None where slaves share nothing.
    samples : the joined samples, to be used again while only unary costs and labels change; not
        pickled.
    mixtures : of "sparsemap", where the slaves of each batch of these samples stand; not pickled.
    """

    costs: list[DualCosts | None]
    samples: JoinedSamples | None = None
    mixtures: list[MixtureState] = field(default_factory=list)

    def mixture(self, samples: JoinedSamples, batch: int) -> MixtureState | None:
        """Where the slaves of a batch stand; None for other samples."""
        return self.mixtures[batch] if self.mixtures and self.samples is samples else None

    def __getstate__(self) -> dict[str, Any]:
        return {"costs": self.costs, "samples": None, "mixtures": []}


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
        blocks: list[list[Any]] = []
        with self.samples.detailed(self.unary, self.truth) as detailed:
            for batch, lam in zip(detailed.batches, self.lam):
                vertex = batch.vertex(batch.layout.join(self.weights), lam)
                slope = batch.slope(vertex.features)[batch.layout.slices[COSTS]]
                blocks += detailed.gradients_of_blocks(batch, slope, self.weights)
        n = len(blocks) // self.copies
        return blocks if self.copies == 1 else [_mean(blocks[k::n]) for k in range(n)]


class NoGradients:
    """In place of gradients in the blocks' numbers that would have taken too much memory."""

    def find(self) -> list[list[Any]]:
        raise MemoryError(
            "blocks: the models are too large for gradients of kind='sparsemap' in the blocks' own "
            "numbers; use a weight in place of the numbers, smaller batches, or another kind"
        )


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
        found = self._blocks if isinstance(self._blocks, list) else self._blocks.find()
        return found if isinstance(self.value, np.ndarray) else found[0]

    def __getstate__(self) -> dict[str, Any]:
        if isinstance(self._blocks, NoGradients):
            return self.__dict__
        found = self.blocks
        listed = found if isinstance(self.value, np.ndarray) else [found]
        return {**self.__dict__, "_blocks": listed}


def result_of(
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
    if not all(loss.knows_costs for loss in found):
        blocks = NoGradients()
    elif samples.settings.gradients:
        blocks = []
        for batch, loss in zip(samples.batches, found):
            blocks += samples.gradients_of_blocks(batch, loss.slope[len(total) :], w)
    unary = samples.rows(change)
    return LossResult(value, unary, named, bound, value - bound, state, blocks)


def only(answer: LossResult) -> LossResult:
    """The answer of the only model."""
    value, bound = float(answer.value[0]), float(answer.bound[0])
    return replace(answer, value=value, unary=answer.unary[0], bound=bound, gap=value - bound)


def averaged(answer: LossResult, copies: int) -> LossResult:
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
