"""Models joined and decomposed once, for any number of costs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from gmlearn.layers.places import Places
from gmlearn.layers.samples import JoinedSamples, Settings
from gmlearn.model.crf import CRF


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
        crfs, truths = [*crfs] * self.copies, [*truths] * self.copies
        masks = None if hidden is None else [*hidden] * self.copies
        unary = self.noisy(np.concatenate([c.unary for c in crfs[: len(crfs) // self.copies]]))
        if (
            known is not None
            and masks is None
            and known.settings == self.settings
            and known.holds(crfs)
            and known.move(unary, np.concatenate(truths))
        ):
            return known
        samples = JoinedSamples(crfs, truths, masks, self.settings)
        if self.copies > 1 and not samples.move(unary):
            return samples.rebuilt(unary, None)
        return samples


class Plan:
    """Joined models, and where the numbers of a network go.

    Attributes
    ----------
    samples : at the costs and labels fed last.   unary : the models' own unary costs.
    """

    def __init__(
        self,
        crfs: Sequence[CRF],
        truths: Sequence[Any],
        options: PlanOptions,
        names: Sequence[str] | None = None,
    ):
        self.options = options
        self.samples = options.joined(crfs, truths, None, None)
        self.unary = np.concatenate([crf.unary for crf in crfs])
        self.places = Places(crfs, names)

    def feed(self, unary: Any = None, truth: Any = None) -> JoinedSamples:
        """The samples with other costs, which are added to the models' own, and other labels."""
        flat = self.unary if unary is None else self.unary + self.places.costs(unary)
        costs, copies = self.options.noisy(flat), self.options.copies
        labels = None if truth is None else np.tile(self.places.labels(truth), copies)
        if not self.samples.move(costs, labels):
            self.samples = self.samples.rebuilt(costs, labels)
        return self.samples
