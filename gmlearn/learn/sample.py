"""A training sample, and the checks that refuse a bad one before any work starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gmlearn._utils.validation import check_number
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
    """

    crf: CRF
    labels: Any
    hidden: Any = None
    weight: float = 1.0
    loss: Loss | None = None
    completion: Callable[[Sample, Mapping[str, np.ndarray]], np.ndarray] | None = None

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
        """bool (V,)."""
        return (
            np.ones(self.crf.n_vars, bool)
            if self.hidden is None
            else ~np.asarray(self.hidden, bool)
        )

    @property
    def latent(self) -> bool:
        """Has the sample hidden variables (or a completion of its own)?"""
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
        self.sources, self.load = list(sources), load
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
    crf = sample.crf
    if not isinstance(crf, CRF):
        raise TypeError(f"samples[{k}].crf: expected a gmlearn.CRF, got {type(crf).__name__}")
    try:
        check_number("weight", sample.weight, low=0)
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
        labels = np.where(sample.observed, labels, 0)
        labels = crf.check_labels(labels)
    except ValueError as error:
        raise ValueError(f"samples[{k}].{error}") from None
    return Sample(crf, labels, sample.hidden, float(sample.weight), sample.loss, sample.completion)
