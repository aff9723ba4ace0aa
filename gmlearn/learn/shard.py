"""Shards: some samples under training, kept where they are worked on - in this process, or with a worker."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gmlearn._utils.archive import load_arrays, save_arrays
from gmlearn.learn.objective import SampleState, restore, snapshot
from gmlearn.learn.sample import LazySamples, Sample, check_sample
from gmlearn.losses.base import Loss
from gmlearn.model.weights import WeightLayout

#: samples are dealt into at most so many shards, whatever the executor: sums are then formed in the same order everywhere
MAX_SHARDS = 1024


def shard_sizes(n_samples: int) -> list[int]:
    """How many samples go to each shard; a function of their number alone."""
    n = min(n_samples, MAX_SHARDS)
    return [n_samples // n + (i < n_samples % n) for i in range(n)]


class Shard:
    """Consecutive samples, from number `first` on.

    Samples that are loaded when needed (`LazySamples`) are built one at a time and left again; what they must remember waits in
    files of a temporary folder meanwhile.
    """

    def __init__(
        self,
        first: int,
        samples: Sequence[Sample],
        loss: Loss,
        decomposition: Any,
        layout: WeightLayout,
        temperature: float,
    ):
        self.first, self.samples, self.loss, self.decomposition = (
            first,
            samples,
            loss,
            decomposition,
        )
        self.layout, self.temperature = layout, temperature
        self.lazy = isinstance(samples, LazySamples)
        self._folder = tempfile.TemporaryDirectory(prefix="gmlearn-") if self.lazy else None
        self._states = (
            [] if self.lazy else [self._build(k, check=True) for k in range(len(samples))]
        )
        if self.lazy:
            for k in range(len(samples)):
                self._build(k, check=True)  # errors now, not in the middle of training

    def _build(self, k: int, check: bool = False) -> SampleState:
        sample = check_sample(self.first + k, self.samples[k])
        if check:
            check_features(self.first + k, sample)
        state = SampleState(
            self.first + k,
            sample,
            sample.loss or self.loss,
            self.decomposition,
            self.layout,
            self.temperature,
        )
        if check:
            check_truth(state)
        return state

    @property
    def states(self) -> list[SampleState]:
        """The samples' states; of lazily loaded ones new states, which nobody keeps."""
        return [self._wake(k) for k in range(len(self.samples))] if self.lazy else self._states

    def run(
        self,
        function: Callable[..., Any],
        args: tuple,
        places: Sequence[int] | None = None,
        own: Sequence[tuple] | None = None,
    ) -> list[Any]:
        """``function(state, *args, *own[j])`` of the samples at `places` (all by default)."""
        places = range(len(self.samples)) if places is None else places
        if own is None:
            return [function(state, *args) for state in self._visit(places)]
        return [function(state, *args, *mine) for state, mine in zip(self._visit(places), own)]

    def total(self, function: Callable[..., np.ndarray], args: tuple) -> np.ndarray:
        """The sum of ``function(state, *args)`` over the samples."""
        result: Any = None
        for state in self._visit(range(len(self.samples))):
            value = function(state, *args)
            result = np.array(value) if result is None else result + value
        return result

    def restore(self, kept: Sequence[dict[str, np.ndarray]]) -> None:
        """Take back what `snapshot` gave, sample by sample."""
        self.run(restore, (), own=[(k,) for k in kept])

    # ------------------------------------------------------------------ samples that come and go

    def _visit(self, places: Sequence[int]) -> Iterator[SampleState]:
        for k in places:
            if not self.lazy:
                yield self._states[k]
                continue
            state = self._wake(k)
            yield state
            save_arrays(self._file(k), {"kind": "gmlearn sample memory"}, snapshot(state))

    def _wake(self, k: int) -> SampleState:
        state = self._build(k)
        if os.path.exists(self._file(k)):
            restore(state, load_arrays(self._file(k), "gmlearn sample memory")[1])
        return state

    def _file(self, k: int) -> str:
        assert self._folder is not None
        return os.path.join(self._folder.name, f"sample{k}.npz")


# ---------------------------------------------------------------------- what is refused before training


def check_features(k: int, sample: Sample) -> None:
    """No NaN in the features and costs of any block: at the truth, and where all variables have the same label."""
    for i, block in enumerate(sample.crf.blocks):
        zero = {name: np.zeros(shape) for name, shape in block.segments().items()}
        tried = [block.gather(sample.labels)]
        tried += [
            block.shape_members(np.minimum(label, block.member_states - 1))
            for label in range(min(block.max_states, 16))
        ]
        for x in tried:
            for name, value in block.features(x).items():
                if not np.isfinite(value).all():
                    raise ValueError(
                        f"samples[{k}].crf.blocks[{i}] ({block!r}): the features of segment {name!r} are not finite"
                    )
            if np.isnan(block.energy(x, zero)).any():
                raise ValueError(
                    f"samples[{k}].crf.blocks[{i}] ({block!r}): its costs contain NaN; a cost is finite, or +inf"
                )


def check_truth(state: SampleState) -> None:
    """The loss is zero at the truth, and the truth is feasible (hidden parts are completed later)."""
    k, sample = state.index, state.sample
    value = state.loss.value(sample.crf, sample.labels, sample.labels, sample.observed)
    if value != 0.0:
        raise ValueError(
            f"samples[{k}]: the loss {state.loss.name!r} is {value:g} at the truth, expected 0"
        )
    emitted = loss_emitted(state)
    if abs(emitted) > 1e-9:
        raise ValueError(
            f"samples[{k}]: what the loss {state.loss.name!r} adds to the energy (unary, blocks, constant) is "
            f"{-emitted:g} at the truth, expected 0"
        )
    if not sample.latent and not np.isfinite(state.truth_fixed):
        zero = {name: np.zeros(shape) for name, shape in sample.crf.layout.shapes.items()}
        broken = [
            f"blocks[{i}] ({b!r})"
            for i, b in enumerate(sample.crf.blocks)
            if not np.isfinite(b.energy(b.gather(sample.labels), zero)).all()
        ]
        where = broken[0] if broken else "the unary costs"
        raise ValueError(
            f"samples[{k}]: the true labels break a hard constraint of {where} (their energy is inf)"
        )
    if np.isnan(state.augmented.unary).any():
        raise ValueError(
            f"samples[{k}].crf.unary: contains NaN; a cost is finite, or +inf to forbid"
        )


def loss_emitted(state: SampleState) -> float:
    """Delta at the truth as the loss-augmented model has it: from the unary costs, the blocks and the constant it was given."""
    sample, augmented = state.sample, state.augmented
    at = sample.crf.offsets[:-1] + sample.labels
    with np.errstate(invalid="ignore"):  # a forbidden label costs inf in both
        unary = np.nan_to_num(sample.crf.unary[at] - augmented.unary[at]).sum()
    extra = [
        b.energy(b.gather(sample.labels), {}).sum()
        for b in augmented.blocks[len(sample.crf.blocks) :]
    ]
    return float(unary + sample.crf.constant - augmented.constant - np.sum(extra))
