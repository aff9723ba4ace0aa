"""What a loss is: Delta(x, truth) as an energy of its own, given to the slaves with its sign
turned.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from gmlearn.model.crf import CRF
from gmlearn.potentials.base import Block
from gmlearn.registry import registry


class Loss(ABC):
    r"""A loss :math:`\Delta(x, \bar x) \ge 0`, zero at the truth, that is a sum of potentials over
    its own hypergraph.

    A subclass writes `value`, and says by `unary` and `blocks` what :math:`-\Delta` adds to the
    energy; the cliques may be ones that the model does not have. `observed` (V,) marks the
    variables whose true label is known.
    """

    registry_kind: ClassVar[str] = "loss"
    name: ClassVar[str] = ""

    @abstractmethod
    def value(self, crf: CRF, x: np.ndarray, truth: np.ndarray, observed: np.ndarray) -> float:
        """Delta(x, truth)."""

    def unary(self, crf: CRF, truth: np.ndarray, observed: np.ndarray) -> np.ndarray | None:
        """-Delta's part on single variables, costs (n_coords,)."""
        return None

    def joined_unary(self, crf: CRF, truth: np.ndarray) -> np.ndarray | None:
        """The same (n_coords,) of all models that were joined into `crf`, all observed, for losses
        that add no more than it; None to be asked model by model.
        """
        return None

    def blocks(self, crf: CRF, truth: np.ndarray, observed: np.ndarray) -> list[Block]:
        """-Delta's cliques, as fixed blocks with the sign already turned."""
        return []

    def constant(self, crf: CRF, truth: np.ndarray, observed: np.ndarray) -> float:
        """-Delta's constant."""
        return 0.0

    def outside(self, possible: np.ndarray) -> Loss:
        """This loss where the truth is one of several labels, bool (n_coords,)."""
        raise ValueError(f"needs a loss on single labels, got {self.name!r}")

    @classmethod
    def adds(cls, *parts: str) -> bool:
        """Does the loss define any of `unary`, `blocks`, `constant`?"""
        return any(getattr(cls, part) is not getattr(Loss, part) for part in parts)

    def augment(self, crf: CRF, truth: np.ndarray, observed: np.ndarray | None = None) -> CRF:
        """The model of E(x) - Delta(x, truth); the model itself where the loss adds nothing."""
        if not self.adds("unary", "blocks", "constant"):
            return crf
        observed = np.ones(crf.n_vars, bool) if observed is None else observed
        augmented = crf.copy()
        unary = self.unary(crf, truth, observed)
        if unary is not None:
            augmented.unary = augmented.unary + unary
        augmented.constant = crf.constant + self.constant(crf, truth, observed)
        for block in self.blocks(crf, truth, observed):
            augmented.add(block)
        return augmented


def make_loss(loss: str | type[Loss] | Loss) -> Loss:
    """A loss by its registered name, its class, or the loss itself."""
    found = registry.get("loss", loss) if isinstance(loss, str) else loss
    found = found() if isinstance(found, type) else found
    if not isinstance(found, Loss):
        raise TypeError(f"loss: expected a name or a gmlearn.Loss, got {type(found).__name__}")
    return found


class NoLoss(Loss):
    """Delta = 0: the perceptron-like hinge, and the likelihood at temperature 1."""

    name = "none"

    def outside(self, possible: np.ndarray) -> Loss:
        return self

    def value(self, crf: CRF, x: np.ndarray, truth: np.ndarray, observed: np.ndarray) -> float:
        return 0.0
