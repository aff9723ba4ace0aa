"""Samples of a structured loss: joined and decomposed once, then moved to other costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from gmlearn._utils.ranges import ranges
from gmlearn.layers.models import Models
from gmlearn.learn.batch import Recipe, SampleBatch, shared_batches
from gmlearn.learn.batch_checks import check_feasible
from gmlearn.learn.sample import Sample, check_plain_samples, check_sample
from gmlearn.losses.base import Loss, make_loss
from gmlearn.model.crf import CRF
from gmlearn.model.join import join
from gmlearn.model.weights import WeightLayout

#: the segment that the gradients in the blocks' own numbers come in
COSTS = "gradient of costs"
#: the most samples that are joined, and the most labels of their variables in all
MOST_SAMPLES, MOST_LABELS = 4096, 2**17


@dataclass(frozen=True)
class Settings:
    """What slaves depend on besides the samples.

    loss, decomposition : by name or object.   temperature : of soft minima, 0 for hard ones.
    gradients : do the weights have a segment `COSTS`, for the gradients in the blocks' numbers?
    labelled : are there true labels, which must be feasible then?
    """

    loss: str | Loss
    decomposition: Any
    temperature: float
    gradients: bool = False
    labelled: bool = True


class JoinedSamples:
    """Models with their true labels, in joined batches.

    What is built depends on the models' blocks. Unary costs and true labels may change afterwards
    (`move`), for the price of writing them down.

    Parameters
    ----------
    models, numbers : the samples' models.   samples : checked ones, of these.

    Attributes
    ----------
    crfs : of each sample, as they were built.   blocks : theirs.
    unary, truth : the present unary costs and true labels of all samples, one after the other.
    layout : of the weights of all models.   batches : `SampleBatch`.
    ends : numbers of samples before each batch.
    """

    def __init__(
        self,
        models: Models,
        numbers: np.ndarray,
        samples: list[Sample],
        settings: Settings,
    ):
        self.settings, self.loss = settings, make_loss(settings.loss)
        self.latent = any(s.hidden is not None for s in samples)
        self.models, self.numbers = models, numbers
        self.crfs = [s.crf for s in samples]
        self.blocks = [list(crf.blocks) for crf in self.crfs]
        self.truth = np.concatenate([s.labels for s in samples])
        #: the models' own unary costs
        self.own_unary = models.unary(numbers)
        self.unary = self.own_unary
        #: where the variables, and the labels of variables, of each sample begin
        self.first_variable = np.concatenate([[0], np.cumsum(models.n_vars[numbers])])
        self.first_label = np.concatenate([[0], np.cumsum(models.n_coords[numbers])])
        #: bool (n_coords,), labels that are not forbidden
        self.finite = np.isfinite(self.unary)
        if not self.finite.all():
            self.check_costs(self.unary)
        self.layout = models.layout
        labels, joint = models.n_coords[numbers].tolist(), models.joint[numbers].tolist()
        sizes = shared_batches(labels, joint, MOST_SAMPLES, MOST_LABELS)
        self.ends = np.cumsum([0, *sizes]).tolist()
        self.batches = [self._batch(samples[a:b], a) for a, b in pairwise(self.ends)]
        #: what the loss adds to the unary costs, by the first sample of a batch
        self._loss_costs: dict[int, np.ndarray] = {}

    @property
    def hidden(self) -> list[Any] | None:
        """The masks of hidden variables, if there are any."""
        if not self.latent:
            return None
        return [s.hidden for batch in self.batches for s in batch.samples]

    @cached_property
    def states(self) -> np.ndarray:
        """int (V,): the numbers of states of all samples' variables."""
        models, numbers = self.models, self.numbers
        return models.states[ranges(models.first[numbers], models.n_vars[numbers])]

    def _batch(self, samples: list[Sample], first: int) -> SampleBatch:
        layout = self.layout
        if self.settings.gradients:
            samples, size = with_gradients(samples)
            layout = WeightLayout({**layout.shapes, COSTS: (size,)})
            model = join([s.crf for s in samples])
        else:
            end = first + len(samples)
            unary = self.unary[self.first_label[first] : self.first_label[end]]
            model = self.models.take(self.numbers[first:end], unary)
        recipe = Recipe(self.loss, self.settings.decomposition, layout, self.settings.temperature)
        batch = SampleBatch(first, samples, recipe, model)
        if self.settings.labelled and not np.isfinite(batch.truth_fixed):
            check_feasible(batch)
        return batch

    # ------------------------------------------------------------------ other costs, other labels

    def holds(self, crfs: Sequence[CRF]) -> bool:
        """Do the models differ from those that were joined in their unary costs only?"""
        return len(crfs) == len(self.crfs) and all(map(_same_blocks, crfs, self.crfs, self.blocks))

    def move(self, unary: np.ndarray, truth: np.ndarray | None = None) -> bool:
        """Move to other unary costs (n_coords,) and true labels (V,) of all samples; False, and
        nothing has changed, where slaves would have to be built anew.
        """
        finite = np.isfinite(unary)
        if not finite.all():
            self.check_costs(unary)
        truth = truth if self.settings.labelled else None
        relabelled = truth is not None and not np.array_equal(truth, self.truth)
        slaves = all(batch.dual.slaves.crf is batch.augmented for batch in self.batches)
        if self.latent or not slaves or (relabelled and self.loss.adds("blocks", "constant")):
            return False
        if not np.array_equal(finite, self.finite):
            return False  # labels that are forbidden are not counted when slaves are made
        if truth is not None and relabelled:
            self.check_labels(truth)
            self.truth = np.array(truth, np.int64)
        self.unary = unary
        for batch, a, b in zip(self.batches, self.ends, self.ends[1:]):
            batch.model.unary = unary[self.first_label[a] : self.first_label[b]]
            if relabelled:
                batch.set_truth(self.truth[self.first_variable[a] : self.first_variable[b]])
            else:
                batch.set_fixed()
            if batch.augmented is not batch.model:
                batch.augmented.unary = batch.model.unary + self._of_loss(batch, relabelled)
            if relabelled and self.settings.labelled and not np.isfinite(batch.truth_fixed):
                check_feasible(batch)
        return True

    def rebuilt(self, unary: np.ndarray, truth: np.ndarray | None, **changes: Any) -> JoinedSamples:
        """The same models at other costs and labels, with other settings, joined anew."""
        crfs = self.present(unary)
        labels = np.split(self.truth if truth is None else truth, self.first_variable[1:-1])
        settings = replace(self.settings, **changes)
        models = Models(crfs, settings.decomposition)
        samples = checked_samples(crfs, labels, self.hidden)
        return JoinedSamples(models, np.arange(len(crfs)), samples, settings)

    def present(self, unary: np.ndarray | None = None) -> list[CRF]:
        """The models with the present unary costs, or with others (n_coords,)."""
        flat = self.unary if unary is None else unary
        crfs = [crf.copy() for crf in self.crfs]
        for crf, a, b in zip(crfs, self.first_label, self.first_label[1:]):
            crf.unary = flat[a:b]
        return crfs

    @contextmanager
    def detailed(self, unary: np.ndarray, truth: np.ndarray) -> Iterator[JoinedSamples]:
        """The same models with gradients in their blocks' numbers, at these costs and labels; lent
        to one thread at a time.
        """
        known = vars(self).pop("_detailed", None)
        if known is None or not known.move(unary, truth):
            known = self.rebuilt(unary, truth, gradients=True)
        yield known
        self._detailed = known

    def _of_loss(self, batch: SampleBatch, relabelled: bool) -> np.ndarray:
        """float (n_coords,): what the loss adds to the unary costs."""
        known = self._loss_costs.get(batch.first)
        if known is None or relabelled:
            known = self.loss.joined_unary(batch.model, batch.truth)
        if known is None:
            given = zip(batch.samples, batch.losses, batch.truths)
            own = [(s.crf, loss.unary(s.crf, labels, s.observed)) for s, loss, labels in given]
            known = np.concatenate([np.zeros(c.n_coords) if u is None else u for c, u in own])
        self._loss_costs[batch.first] = known
        return known

    def check_costs(self, unary: np.ndarray) -> None:
        """No NaN in unary costs (n_coords,); the message names the sample."""
        wrong = self.first_label_that(np.isnan(unary))
        if wrong is not None:
            raise ValueError(
                f"samples[{wrong[0]}].crf.unary: contains NaN (first at variable {wrong[1]}); a "
                f"cost is finite, or +inf to forbid"
            )

    def check_labels(self, truth: np.ndarray) -> None:
        """True labels (V,) within the numbers of states."""
        wrong = np.flatnonzero((truth < 0) | (truth >= self.states))
        if len(wrong):
            k = int(np.searchsorted(self.first_variable, wrong[0], "right")) - 1
            v = int(wrong[0] - self.first_variable[k])
            raise ValueError(
                f"samples[{k}].labels: variable {v} has states 0..{self.states[wrong[0]] - 1}, got "
                f"{int(truth[wrong[0]])}"
            )

    def first_label_that(self, mask: np.ndarray) -> tuple[int, int, int] | None:
        """(sample, variable, label) of the first True in a mask (n_coords,)."""
        if not mask.any():
            return None
        at = int(mask.argmax())
        k = int(np.searchsorted(self.first_label, at, "right")) - 1
        at -= int(self.first_label[k])
        offsets = self.crfs[k].offsets
        v = int(np.searchsorted(offsets, at, "right")) - 1
        return k, v, at - int(offsets[v])

    # ------------------------------------------------------------------ sample by sample

    def rows(self, flat: np.ndarray) -> list[np.ndarray]:
        """Values of all labels (n_coords,) as (V, L) of each sample."""
        sizes = {batch.model.n_coords // max(batch.model.n_vars, 1) for batch in self.batches}
        if len(sizes) == 1 and all(batch.model.uniform for batch in self.batches):
            table = flat.reshape(-1, sizes.pop())
            return [table[a:b] for a, b in pairwise(self.first_variable.tolist())]
        parts = pairwise(self.first_label.tolist())
        return [crf.rows(flat[a:b]) for crf, (a, b) in zip(self.crfs, parts)]

    def gradients_of_blocks(
        self, batch: SampleBatch, found: np.ndarray, w: dict[str, np.ndarray]
    ) -> list[list[Any]]:
        """The gradient in each block's own numbers, sample by sample; None for blocks without."""
        begin, out = 0, []
        for blocks in self.blocks[batch.first : batch.first + len(batch.samples)]:
            own: list[Any] = []
            for block in blocks:
                counts = block.own_costs()
                if counts is None:
                    own.append(None)
                    continue
                end = begin + int(counts.sum())
                own.append(block.cost_gradient(found[begin:end], w))
                begin = end
            out.append(own)
        return out


def checked_samples(
    crfs: Sequence[CRF], truths: Sequence[Any], hidden: Sequence[Any] | None
) -> list[Sample]:
    """Samples with true labels (V,) each, and with masks (V,) or None of what is hidden."""
    if hidden is None:
        return check_plain_samples(crfs, truths)
    return [check_sample(k, Sample(*own)) for k, own in enumerate(zip(crfs, truths, hidden))]


def with_gradients(samples: Sequence[Sample]) -> tuple[list[Sample], int]:
    """Samples whose blocks report the gradient in their own numbers, and how many there are."""
    own = [[b.own_costs() for b in s.crf.blocks] for s in samples]
    size = sum(int(n.sum()) for blocks in own for n in blocks if n is not None)
    begin, out = 0, []
    for sample, blocks in zip(samples, own):
        crf = sample.crf.copy()
        for i, n in enumerate(blocks):
            if n is not None:
                start = begin + np.cumsum(n) - n
                crf.blocks[i] = crf.blocks[i].with_cost_gradient(COSTS, start, size)
                begin += int(n.sum())
        out.append(Sample(crf, sample.labels, sample.hidden))
    return out, size


def _same_blocks(crf: CRF, old: CRF, blocks: list[Any]) -> bool:
    return (
        crf.constant == old.constant
        and len(crf.blocks) == len(blocks)
        and all(a is b for a, b in zip(crf.blocks, blocks))
        and (crf.offsets is old.offsets or np.array_equal(crf.offsets, old.offsets))
    )
