"""A training sample, and the checks that refuse a bad one before any work starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gmlearn._utils.validation import HUGE, check_number, check_sequence
from gmlearn.losses.base import Loss
from gmlearn.model.crf import CRF


@dataclass(repr=False)
class Sample:
    """A model with its true labels.

    Parameters
    ----------
    crf : the sample's own model (its hypergraph may differ from that of other samples).
    labels : int (V,), the true labels; ignored where `hidden`.
    hidden : bool (V,), variables whose label is not known (latent); None for none.
    weight : factor of this sample's loss in the objective.
    loss : a loss for this sample alone; None for that of the training.
    completion : fills the hidden labels, ``completion(sample, weights) -> labels``; None for a
        clamped MAP problem.
    allowed : bool (V, L), the labels that each variable may truly have: a partial label, or "one
        of these states". Where there are several, the variable is latent within them, `labels` is
        ignored, and the loss counts labels outside. None: all where `hidden`, else the label.
    start : int (V,), the first completion; None for that of the training.
    """

    crf: CRF
    labels: Any
    hidden: Any = None
    weight: float = 1.0
    loss: Loss | None = None
    completion: Callable[[Sample, Mapping[str, np.ndarray]], np.ndarray] | None = None
    allowed: Any = None
    start: Any = None
    #: of a checked sample, the labels as given, before those of hidden variables were set aside
    given: Any = field(default=None, init=False)

    def __repr__(self) -> str:
        hidden = (
            f", {int(np.sum(np.asarray(self.hidden, bool)))} hidden"
            if self.hidden is not None
            else ""
        )
        return (
            f"Sample({self.crf!r}, {np.size(self.labels)} labels{hidden}, weight={self.weight:g})"
        )

    @property
    def observed(self) -> np.ndarray:
        """bool (V,): is there one label that the variable may have?"""
        known = np.ones(self.crf.n_vars, bool)
        if self.hidden is not None:
            known &= ~np.asarray(self.hidden, bool)
        if self.allowed is not None:
            several = np.add.reduceat(self.possible, self.crf.offsets[:-1]) > 1
            known &= ~several
        return known

    @property
    def possible(self) -> np.ndarray:
        """bool (n_coords,): the labels that the variables may truly have."""
        crf = self.crf
        variable = np.repeat(np.arange(crf.n_vars), crf.n_states)
        label = np.arange(crf.n_coords) - np.repeat(crf.offsets[:-1], crf.n_states)
        if self.allowed is not None:
            return np.asarray(self.allowed, bool)[variable, label]
        free = False if self.hidden is None else np.asarray(self.hidden, bool)[variable]
        return free | (label == np.asarray(self.labels)[variable])

    @property
    def latent(self) -> bool:
        """Has the sample hidden variables (or a completion of its own)?"""
        if self.hidden is None and self.allowed is None:
            return self.completion is not None
        return self.completion is not None or not bool(self.observed.all())


class LazySamples(Sequence):
    """Samples that are loaded when they are worked on and left again: training sets larger than the
    memory.

    Parameters
    ----------
    sources : functions without arguments that return a `Sample`, or anything (say paths) that
        `load` turns into one.
    load : ``load(source) -> Sample``; ``gmlearn.read_sample`` reads the files of
        ``gmlearn.write_sample``. None: call the source.

    Notes
    -----
    Every pass loads every sample again, and keeps its multipliers in a temporary file; only the
    weights stay in memory. The same source must give the same sample each time. Workers load for
    themselves.

    Examples
    --------
    >>> import gmlearn as gm
    >>> samples = gm.LazySamples(["a.npz", "b.npz"], load=gm.read_sample)
    >>> len(samples)
    2
    """

    def __init__(self, sources: Sequence[Any], load: Callable[[Any], Sample] | None = None):
        self.sources, self.load = check_sequence("sources", sources, "sources"), load
        if load is not None and not callable(load):
            raise TypeError(f"load: expected a function of a source, got {type(load).__name__}")
        wrong = [k for k, s in enumerate(self.sources) if load is None and not callable(s)]
        if wrong:
            given = self.sources[wrong[0]]
            raise TypeError(
                f"sources[{wrong[0]}]: expected a function without arguments, or anything with "
                f"`load`, got {given!r}"
            )

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, k: Any) -> Any:
        if isinstance(k, slice):
            return LazySamples(self.sources[k], self.load)
        source = self.sources[k]
        return source() if self.load is None else self.load(source)


def check_sample(k: int, sample: Any) -> Sample:
    """`sample` with checked arrays, or an error that names the sample."""
    if not isinstance(sample, Sample):
        raise TypeError(f"samples[{k}]: expected a gmlearn.Sample, got {type(sample).__name__}")
    if sample.given is not None:
        return sample
    crf = sample.crf
    if not isinstance(crf, CRF):
        raise TypeError(f"samples[{k}].crf: expected a gmlearn.CRF, got {type(crf).__name__}")
    try:
        check_number("weight", sample.weight, low=0, high=HUGE)
        if sample.hidden is not None and np.shape(sample.hidden) != (crf.n_vars,):
            raise ValueError(
                f"hidden: expected shape ({crf.n_vars},), got {np.shape(sample.hidden)}"
            )
        if sample.hidden is not None and not np.isin(sample.hidden, (0, 1)).all():
            raise ValueError(
                "hidden: expected True or False for each variable, got other numbers (indices are "
                "not accepted)"
            )
        labels = np.array(sample.labels, copy=True)
        if labels.dtype.kind not in "biuf":
            raise ValueError(
                f"labels: expected whole numbers, got an array of dtype {labels.dtype}"
            )
        if labels.shape != (crf.n_vars,):
            raise ValueError(f"labels: expected shape ({crf.n_vars},), got {labels.shape}")
        _check_allowed(sample)
        observed = sample.observed
        free = np.zeros(crf.n_vars, np.int64)
        if sample.allowed is not None:
            first = np.maximum.reduceat(_counted_down(sample), crf.offsets[:-1])
            free = crf.n_states - first
        labels = crf.check_labels(np.where(observed, labels, free))
        if sample.allowed is not None:
            _check_within("labels", sample, labels)
        checked = replace(sample, labels=labels, weight=float(sample.weight))
        checked.given = sample.labels
        checked.start = None if sample.start is None else check_start(checked, sample.start)
    except ValueError as error:
        raise ValueError(f"samples[{k}].{error}") from None
    return checked


def check_plain_samples(crfs: Sequence[CRF], labels: Sequence[Any]) -> list[Sample]:
    """Checked samples without hidden variables; thousands of small ones are looked at together."""
    arrays = [np.asarray(x) for x in labels]
    shaped = [x.shape for x in arrays] == [crf.n_states.shape for crf in crfs]
    if shaped and arrays:
        whole = np.concatenate(arrays)
        states = np.concatenate([crf.n_states for crf in crfs])
        if whole.dtype.kind in "iu" and bool(((whole >= 0) & (whole < states)).all()):
            return plain_samples(crfs, whole.astype(np.int64))
    return [check_sample(k, Sample(*given)) for k, given in enumerate(zip(crfs, arrays))]


def plain_samples(crfs: Sequence[CRF], labels: np.ndarray) -> list[Sample]:
    """The samples of labels (V,) that were checked, one model after the other."""
    samples, begin = [], 0
    blank = vars(Sample(None, None))  # type: ignore[arg-type]
    for crf in crfs:
        end = begin + len(crf.n_states)
        sample = object.__new__(Sample)  # half the time of the constructor
        own = labels[begin:end]
        vars(sample).update(blank, crf=crf, labels=own, given=own)
        samples.append(sample)
        begin = end
    return samples


def check_start(sample: Sample, start: Any) -> np.ndarray:
    """`start` as a first completion (V,) of a checked sample."""
    labels = np.asarray(start)
    if labels.shape != (sample.crf.n_vars,):
        raise ValueError(f"start: expected shape ({sample.crf.n_vars},), got {labels.shape}")
    try:
        labels = sample.crf.check_labels(labels)
    except ValueError as error:
        raise ValueError(f"start: {error}") from None
    wrong = np.flatnonzero(sample.observed & (labels != sample.labels))
    if wrong.size:
        raise ValueError(f"start: changes the known label of variable {int(wrong[0])}")
    _check_within("start", sample, labels)
    return labels


def _counted_down(sample: Sample) -> np.ndarray:
    """int (n_coords,): states left from each possible label on, 0 where it is not possible."""
    crf = sample.crf
    last = np.repeat(crf.offsets[1:], crf.n_states)
    return np.where(sample.possible, last - np.arange(crf.n_coords), 0)


def _check_allowed(sample: Sample) -> None:
    """A mask (V, L) with a label for each variable."""
    if sample.allowed is None:
        return
    crf, shape = sample.crf, np.shape(sample.allowed)
    if len(shape) != 2 or shape[0] != crf.n_vars or shape[1] < crf.n_states.max(initial=0):
        raise ValueError(
            f"allowed: expected shape ({crf.n_vars}, {int(crf.n_states.max(initial=0))}), got "
            f"{shape}"
        )
    if not np.isin(sample.allowed, (0, 1)).all():
        raise ValueError("allowed: expected True or False for each label, got other numbers")
    none = np.flatnonzero(~np.logical_or.reduceat(sample.possible, crf.offsets[:-1]))
    if crf.n_vars and none.size:
        raise ValueError(f"allowed: no label is allowed for variable {int(none[0])}")


def _check_within(name: str, sample: Sample, labels: np.ndarray) -> None:
    """Refuse labels that are not possible."""
    crf = sample.crf
    bad = np.flatnonzero(~sample.possible[crf.offsets[:-1] + labels])
    if bad.size:
        v = int(bad[0])
        raise ValueError(f"{name}: label {int(labels[v])} of variable {v} is not allowed")
