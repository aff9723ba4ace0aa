"""What is refused of samples before training, and how a NaN during training is traced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gmlearn.learn.sample import Sample
from gmlearn.model.crf import CRF

if TYPE_CHECKING:
    from gmlearn.learn.batch import SampleBatch


def check_batch(batch: SampleBatch) -> None:
    """No NaN in costs and features, no loss at the truth, no truth that is forbidden."""
    check_features(batch)
    given = enumerate(zip(batch.samples, batch.losses, batch.separate()), batch.first)
    for k, (sample, loss, augmented) in given:
        value = loss.value(sample.crf, sample.labels, sample.labels, sample.observed)
        if value != 0.0:
            raise ValueError(
                f"samples[{k}]: the loss {loss.name!r} is {value:g} at the truth, expected 0"
            )
        emitted = loss_emitted(sample, augmented)
        if abs(emitted) > 1e-9:
            raise ValueError(
                f"samples[{k}]: what the loss {loss.name!r} adds to the energy (unary, blocks, "
                f"constant) is {-emitted:g} at the truth, expected 0"
            )
        if np.isnan(sample.crf.unary).any():
            raise ValueError(
                f"samples[{k}].crf.unary: contains NaN; a cost is finite, or +inf to forbid"
            )
    if not np.isfinite(batch.truth_fixed):
        check_feasible(batch)


def check_features(batch: SampleBatch) -> None:
    """No NaN in the features and costs of any block: at the truth, and where all variables have the
    same label. A joined block stands for those of all samples; the culprit is looked for on demand.
    """
    models = [batch.model, *(s.crf for s in batch.samples)]
    firsts = [0, *batch.model.parts[:-1].tolist()]
    for number, (crf, begin) in enumerate(zip(models, firsts)):
        labels = batch.truth[begin : begin + crf.n_vars]
        found = _not_a_number(crf, labels)
        if found and (number or len(batch.samples) == 1):
            raise ValueError(f"samples[{batch.first + max(number - 1, 0)}].crf.{found}")
        if not found and number == 0:
            return


def _not_a_number(crf: CRF, labels: np.ndarray) -> str:
    """Which block has NaN costs or features that are not finite, in words."""
    for i, block in enumerate(crf.blocks):
        if block.all_finite():
            continue
        zero = {name: np.zeros(shape) for name, shape in block.segments().items()}
        tried = [block.gather(labels)]
        tried += [
            block.shape_members(np.minimum(label, block.member_states - 1))
            for label in range(min(block.max_states, 16))
        ]
        for x in tried:
            for name, value in block.features(x).items():
                if not np.isfinite(value).all():
                    return (
                        f"blocks[{i}] ({block!r}): the features of segment {name!r} are not finite"
                    )
            if np.isnan(block.energy(x, zero)).any():
                return f"blocks[{i}] ({block!r}): its costs contain NaN; a cost is finite, or +inf"
    return ""


def check_feasible(batch: SampleBatch) -> None:
    """The true labels break no hard constraint (hidden parts are completed later)."""
    for k, sample in enumerate(batch.samples, batch.first):
        crf = sample.crf
        zero = {name: np.zeros(shape) for name, shape in crf.layout.shapes.items()}
        if sample.latent or np.isfinite(crf.energy(sample.labels, zero)):
            continue
        broken = [
            f"blocks[{i}] ({b!r})"
            for i, b in enumerate(crf.blocks)
            if not np.isfinite(b.energy(b.gather(sample.labels), zero)).all()
        ]
        raise ValueError(
            f"samples[{k}]: the true labels break a hard constraint of "
            f"{broken[0] if broken else 'the unary costs'} (their energy is inf)"
        )


def loss_emitted(sample: Sample, augmented: CRF) -> float:
    """Delta at the truth as the loss-augmented model has it: from the unary costs, the blocks and
    the constant that it was given.
    """
    at = sample.crf.offsets[:-1] + sample.labels
    with np.errstate(invalid="ignore"):  # a forbidden label costs inf in both
        unary = np.nan_to_num(sample.crf.unary[at] - augmented.unary[at]).sum()
    extra = [
        b.energy(b.gather(sample.labels), {}).sum()
        for b in augmented.blocks[len(sample.crf.blocks) :]
    ]
    return float(unary + sample.crf.constant - augmented.constant - np.sum(extra))


def broken_block(batch: SampleBatch, w: np.ndarray) -> str:
    """Which sample and which of its blocks are NaN at some constant labelling, in words."""
    named = batch.layout.split(w)
    for k, sample in enumerate(batch.samples, batch.first):
        said = f"samples[{k}]: the loss-augmented energy became NaN; "
        for i, block in enumerate(sample.crf.blocks):
            for label in range(int(block.max_states)):
                x = np.minimum(label, block.member_states - 1)
                if np.isnan(block.energy(block.shape_members(x), named)).any():
                    return (
                        f"{said}blocks[{i}] ({block!r}) is NaN where all its variables have label "
                        f"{label}"
                    )
    return f"{said}the weights are {'finite' if np.isfinite(w).all() else 'not finite'}"
