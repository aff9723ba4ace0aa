"""Samples of a structured loss: joined batches whose blocks report the gradient in their costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gmlearn.learn.batch import Recipe, SampleBatch, batch_sizes, check_feasible
from gmlearn.learn.sample import Sample, check_sample
from gmlearn.losses.base import Loss, make_loss
from gmlearn.model.crf import CRF
from gmlearn.model.weights import WeightLayout

#: the segment that the gradients in the blocks' own numbers come in
COSTS = "gradient of costs"
#: the most samples that are joined, and the most labels of their variables in all
MOST_SAMPLES, MOST_LABELS = 4096, 2**17


@dataclass(frozen=True)
class Settings:
    """What slaves depend on besides the samples: `loss` and `decomposition` by name or object, and
    the `temperature` of soft minima, 0 for hard ones.
    """

    loss: str | Loss
    decomposition: Any
    temperature: float


class JoinedSamples:
    """Models with their true labels, in joined batches.

    Attributes
    ----------
    crfs, truths : of each sample.   feasible : must the truths be?
    layout : of the weights of all models.
    batches : `SampleBatch`, whose weights have one more segment, `COSTS`.
    """

    def __init__(
        self,
        crfs: Sequence[CRF],
        truths: Sequence[Any],
        hidden: Sequence[Any],
        settings: Settings,
        feasible: bool = True,
    ):
        self.settings, self.feasible = settings, feasible
        samples = [
            check_sample(k, Sample(*given)) for k, given in enumerate(zip(crfs, truths, hidden))
        ]
        self.crfs, self.truths = [s.crf for s in samples], [s.labels for s in samples]
        self.blocks = [list(crf.blocks) for crf in self.crfs]
        self.hidden = [s.hidden for s in samples]
        check_costs(self.crfs)
        self.layout = WeightLayout.merged((crf.layout.shapes for crf in self.crfs), "models")
        sizes = batch_sizes(samples, settings.decomposition, MOST_SAMPLES, MOST_LABELS)
        self.ends = np.cumsum([0, *sizes]).tolist()
        self.batches = [self._batch(samples[a:b], a) for a, b in zip(self.ends, self.ends[1:])]

    def _batch(self, samples: list[Sample], first: int) -> SampleBatch:
        own = [[b.own_costs() for b in s.crf.blocks] for s in samples]
        counts = [int(n.sum()) for blocks in own for n in blocks if n is not None]
        size, begin = sum(counts), 0
        for k, (sample, blocks) in enumerate(zip(samples, own)):
            crf = sample.crf.copy()
            for i, n in enumerate(blocks):
                if n is not None:
                    start = begin + np.cumsum(n) - n
                    crf.blocks[i] = crf.blocks[i].with_cost_gradient(COSTS, start, size)
                    begin += int(n.sum())
            samples[k] = Sample(crf, sample.labels, sample.hidden)
        layout = WeightLayout({**self.layout.shapes, COSTS: (size,)})
        settings = self.settings
        loss = make_loss(settings.loss)
        recipe = Recipe(loss, settings.decomposition, layout, settings.temperature)
        batch = SampleBatch(first, samples, recipe)
        if self.feasible and not np.isfinite(batch.truth_fixed):
            check_feasible(batch)
        return batch

    def take_unary(
        self, crfs: Sequence[CRF], truths: Sequence[Any], hidden: Sequence[Any], settings: Settings
    ) -> bool:
        """Move to models that differ in their unary costs only; False if they differ in more."""
        same = (
            settings == self.settings
            and len(crfs) == len(self.crfs)
            and all(h is None for h in (*hidden, *self.hidden))
            and all(map(_same_blocks, crfs, self.crfs, self.blocks))
            and all(map(np.array_equal, truths, self.truths))
            and all(batch.dual.slaves.crf is batch.augmented for batch in self.batches)
        )
        if not same:
            return False
        check_costs(crfs)
        for batch, a, b in zip(self.batches, self.ends, self.ends[1:]):
            unary = np.concatenate([crf.unary for crf in crfs[a:b]])
            if not np.array_equal(np.isinf(unary), np.isinf(batch.model.unary)):
                return False
        for batch, a, b in zip(self.batches, self.ends, self.ends[1:]):
            unary = np.concatenate([crf.unary for crf in crfs[a:b]])
            change = np.subtract(
                unary, batch.model.unary, out=np.zeros(len(unary)), where=np.isfinite(unary)
            )
            batch.augmented.unary = batch.augmented.unary + change
            batch.model.unary = unary
            batch.set_truth(batch.truth)
        self.crfs = list(crfs)
        return True

    def gradients_of_blocks(
        self, batch: SampleBatch, found: np.ndarray | None, w: dict[str, np.ndarray]
    ) -> list[list[Any]]:
        """The gradient in each block's own numbers, sample by sample; None for blocks without, and
        where `found` is.
        """
        begin, out = 0, []
        for blocks in self.blocks[batch.first : batch.first + len(batch.samples)]:
            own: list[Any] = []
            for block in blocks:
                counts = block.own_costs()
                if counts is None or found is None:
                    own.append(None)
                    continue
                end = begin + int(counts.sum())
                own.append(block.cost_gradient(found[begin:end], w))
                begin = end
            out.append(own)
        return out


def _same_blocks(crf: CRF, old: CRF, blocks: list[Any]) -> bool:
    return (
        crf.constant == old.constant
        and len(crf.blocks) == len(blocks)
        and all(a is b for a, b in zip(crf.blocks, blocks))
        and (crf.offsets is old.offsets or np.array_equal(crf.offsets, old.offsets))
    )


def check_costs(crfs: Sequence[CRF]) -> None:
    """No NaN in the unary costs; the message names the sample, as a network wants it."""
    for k, crf in enumerate(crfs):
        if np.isnan(crf.unary).any():
            v = int(np.searchsorted(crf.offsets, np.flatnonzero(np.isnan(crf.unary))[0], "right"))
            raise ValueError(
                f"samples[{k}].crf.unary: contains NaN (first at variable {v - 1}); a cost is "
                f"finite, or +inf to forbid"
            )
