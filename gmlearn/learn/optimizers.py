"""What every optimiser of the training objective has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gmlearn._utils.archive import check_like
from gmlearn._utils.validation import HUGE, check_number
from gmlearn.learn.batch import Snapshot, arrays_of, forget
from gmlearn.learn.objective import Objective
from gmlearn.learn.regularization import Regularization


@dataclass
class PassReport:
    """What one pass over the samples tells.

    objective : F at the start of the pass, if all slaves were minimised at one (w, lambda), else
    None.   bound : a lower bound of the optimal F, if one is known.   box : the largest multiplier
    for which it is proved; inf for all.   subproblem_gap : duality gap of the optimiser's own
    subproblem.   step : the step size, where there is one.
    """

    objective: float | None = None
    bound: float | None = None
    box: float = np.inf
    subproblem_gap: float | None = None
    step: float | None = None


@dataclass(kw_only=True)
class OptimizerState:
    """What an optimiser remembers besides what stays with the batches; methods add fields.

    w : float (P,), the weights.   evaluated : float (P,), where the last reported F holds.
    t : passes so far.
    """

    w: np.ndarray
    evaluated: np.ndarray
    t: int = 0


class Optimizer(ABC):
    """Minimises the objective pass by pass.

    All that it remembers is in two dataclasses: `state`, and the memory of each batch, which stays
    where the batch is worked on (see `Objective.each`). Checkpoints are made of their fields; a
    resumed run is the same as an uninterrupted one, and every optimiser works with every executor.
    """

    registry_kind: ClassVar[str] = "optimizer"
    name: ClassVar[str] = ""
    #: names of the further settings that ``gm.train(..., name=value)`` may pass
    settings: ClassVar[tuple[str, ...]] = ()
    #: fields of `state` that get longer
    growing: ClassVar[tuple[str, ...]] = ()
    #: fields of `state` that are never negative, and never zero either
    nonnegative: ClassVar[tuple[str, ...]] = ("t",)
    positive: ClassVar[tuple[str, ...]] = ()
    #: samples that may share a batch, labels of all their variables, and batches (for as many
    #: workers) that samples are dealt into
    most_samples: ClassVar[int] = 64
    most_labels: ClassVar[int] = 8192
    least_batches: ClassVar[int] = 8
    #: fields of the memory of a batch that do
    growing_memory: ClassVar[tuple[str, ...]] = ()
    #: function(batch) that makes the memory of a batch; None if it has none
    fresh: ClassVar[Callable | None] = None
    state: Any

    def __init__(self, objective: Objective, w: np.ndarray, seed: int = 0, **settings: Any):
        self.objective, self.seed = objective, seed
        for name, value in settings.items():
            if isinstance(getattr(type(self), name), (int, float)):
                whole = isinstance(getattr(type(self), name), int)
                check_number(name, value, low=1 if whole else 0, strict=not whole, integer=whole)
            setattr(self, name, value)
        self.begin(np.array(w, float))

    def begin(self, w: np.ndarray) -> None:
        """Start from nothing but the weights."""
        self.objective.each(forget)
        self.state = self.start(w)

    @classmethod
    def refuses(cls, regularization: Regularization, temperature: float) -> str | None:
        """None if this optimiser can take the problem, else the reason in a few words."""
        return "a temperature > 0 needs the optimiser 'lbfgs'" if temperature > 0 else None

    def start(self, w: np.ndarray) -> Any:
        """The state at the start."""
        return OptimizerState(w=w, evaluated=w.copy())

    def last_report(self) -> PassReport | None:
        """F where the last passes have led, which is at `evaluated_w` from then on; None if passes
        report all there is.
        """
        return None

    def truth_changed(self) -> None:
        """Called after a completion replaced truths, or a lost batch was built again."""
        return None

    def snapshot(self) -> tuple[dict[str, np.ndarray], list[Snapshot]]:
        """All that the optimiser remembers: its own arrays, and those of each batch."""
        return arrays_of(self.state), self.objective.snapshots()

    def restore(
        self, state: Mapping[str, np.ndarray], batches: Sequence[Mapping[str, np.ndarray]]
    ) -> None:
        """Go on from the arrays of a `snapshot`, also of a file: what does not fit is refused."""
        check_like(state, arrays_of(self.state), growing=self.growing)
        for name in (*self.nonnegative, *self.positive):
            numbers = np.asarray(state[name])
            if not (numbers >= (1 / HUGE if name in self.positive else 0)).all():
                raise ValueError(f"{name}: expected positive numbers, got {numbers.ravel()[:3]}")
        if len({len(state[name]) for name in self.growing}) > 1:
            raise ValueError(f"{', '.join(self.growing)}: expected one length")
        self.objective.restore(batches, self.fresh, self.growing_memory)
        for name, array in state.items():
            like = getattr(self.state, name)
            whole = isinstance(like, np.ndarray)
            setattr(self.state, name, np.array(array) if whole else type(like)(array.item()))

    def stalled(self, lowest: np.ndarray, least: float, gaps: np.ndarray) -> str:
        """Since when F has not fallen, in words; empty if it still falls.

        Parameters
        ----------
        lowest : float (n,), the lowest F after each evaluation.   least : a fall that counts.
        gaps : float (n,), from there to the lower bound known then; NaN for none.
        """
        still = len(lowest) >= 5 and lowest[-4] - lowest[-1] < least
        return "in three evaluations" if still else ""

    @abstractmethod
    def run(self) -> PassReport:
        """One pass over the samples; the weights are ``state.w``."""

    @property
    def w(self) -> np.ndarray:
        return self.state.w

    @property
    def evaluated_w(self) -> np.ndarray:
        """The weights at which the last reported objective holds."""
        return self.state.evaluated

    def order(self) -> np.ndarray:
        """A random order of the batches for this pass; a function of the seed and the pass."""
        rng = np.random.default_rng([self.seed, self.state.t])
        return rng.permutation(self.objective.n_batches)
