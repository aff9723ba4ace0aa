"""Models joined and decomposed once, for any number of costs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from gmlearn._utils.ranges import ranges
from gmlearn.layers.models import Models
from gmlearn.layers.places import Places
from gmlearn.layers.samples import JoinedSamples, Settings, checked_samples
from gmlearn.learn.sample import Sample, plain_samples
from gmlearn.model.crf import CRF

#: batches of which the plans are kept, and that are remembered for it
MOST_PLANS, MOST_SEEN = 16, 4096


class PlanOptions(ABC):
    """What is computed of joined samples, and how."""

    #: copies of each model
    copies = 1

    @property
    @abstractmethod
    def settings(self) -> Settings:
        """What slaves depend on."""

    def noisy(self, unary: np.ndarray) -> np.ndarray:
        """The unary costs of all copies, from those (n_coords,) of the models."""
        return unary

    def joined(
        self,
        crfs: Sequence[CRF],
        truths: Sequence[Any],
        hidden: Sequence[Any] | None,
        known: JoinedSamples | None,
    ) -> JoinedSamples:
        """The models, or their copies, joined and decomposed: `known` ones, where they will do."""
        if known is not None and hidden is None and known.settings == self.settings:
            unary = self.noisy(np.concatenate([crf.unary for crf in crfs]))
            labels = np.concatenate([*truths] * self.copies)
            if known.holds([*crfs] * self.copies) and known.move(unary, labels):
                return known
        models = Models(crfs, self.settings.decomposition)
        samples = checked_samples(crfs, truths, hidden)
        return self.taken(models, np.arange(len(models)), samples)

    def taken(
        self, models: Models, numbers: np.ndarray, samples: Sequence[Sample]
    ) -> JoinedSamples:
        """Samples of some models, or copies of them, joined and decomposed."""
        copies = [*samples] * self.copies
        joined = JoinedSamples(models, np.tile(numbers, self.copies), copies, self.settings)
        if self.copies > 1:
            unary = self.noisy(joined.unary[: len(joined.unary) // self.copies])
            if not joined.move(unary):
                return joined.rebuilt(unary, None)
        return joined


class Plan:
    """Joined models, and where the numbers of a network go.

    Attributes
    ----------
    samples : at the costs and labels fed last.   unary : the models' own unary costs.
    """

    def __init__(
        self,
        models: Models,
        numbers: np.ndarray,
        truth: Any,
        options: PlanOptions,
        name: Callable[[int], str],
    ):
        # a `truth` of None stands for the labels of least unary cost
        self.options = options
        crfs = [models.crfs[k] for k in numbers.tolist()]
        shapes = np.stack([models.n_vars[numbers], models.widest[numbers]], axis=1)
        states = models.states[ranges(models.first[numbers], shapes[:, 0])]
        self.places = Places(states, shapes, name)
        labels = [least_labels(crf) for crf in crfs] if truth is None else truth
        samples = plain_samples(crfs, self.places.labels(labels))
        self.samples = options.taken(models, numbers, samples)
        self.unary = self.samples.own_unary[: int(models.n_coords[numbers].sum())]

    def feed(self, unary: Any = None, truth: Any = None) -> JoinedSamples:
        """The samples with other costs, which are added to the models' own, and other labels."""
        flat = self.unary if unary is None else self.unary + self.places.costs(unary)
        costs, copies = self.options.noisy(flat), self.options.copies
        labels = None if truth is None else np.tile(self.places.labels(truth), copies)
        if not self.samples.move(costs, labels):
            self.samples = self.samples.rebuilt(costs, labels)
        return self.samples


class Plans:
    """Plans for batches of some models, which are read once: later changes of theirs are not seen.

    The plan used last is kept, and those of batches that came twice; shuffled batches never do.
    """

    def __init__(self, crfs: Sequence[CRF], options: PlanOptions):
        self.options = options
        self.models = Models([crf.copy() for crf in crfs], options.settings.decomposition)
        #: numbers of models -> plan, the last used last
        self._known: dict[bytes, Plan] = {}
        #: hashes of the batches that came before, and the batch whose plan is kept for now
        self._seen: dict[int, None] = {}
        self._last = b""

    @contextmanager
    def lent(
        self, numbers: np.ndarray, unary: Any, truth: Any, name: Callable[[int], str]
    ) -> Iterator[tuple[Plan, JoinedSamples]]:
        """The plan for the models of these numbers, and its samples at costs and labels as in
        `Plan.feed`; samples are called `name(k)` in messages.

        A plan is lent to one thread at a time; another one makes its own meanwhile.
        """
        key = numbers.tobytes()
        known = self._known.pop(key, None)
        plan = Plan(self.models, numbers, truth, self.options, name) if known is None else known
        plan.places.name = name
        yield plan, plan.feed(unary, None if known is None else truth)
        # not after an error
        self._known.pop(self._last, None)
        self._known[key] = plan
        self._last = b"" if hash(key) in self._seen else key
        self._seen[hash(key)] = None
        for oldest in list(self._known)[:-MOST_PLANS]:
            self._known.pop(oldest, None)
        for first in list(self._seen)[:-MOST_SEEN]:
            self._seen.pop(first, None)


def sparse_choice(decomposition: Any) -> Any:
    """The decomposition of SparseMAP."""
    return "sparse" if decomposition == "auto" else decomposition


def least_labels(crf: CRF) -> np.ndarray:
    """int (V,): the label of least unary cost of each variable."""
    return crf.rows(crf.unary, np.inf).argmin(axis=1)
