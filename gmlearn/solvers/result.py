"""What every MAP solver returns: a labelling with its certificate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gmlearn.model.crf import CRF
    from gmlearn.probabilities.result import Marginals
    from gmlearn.solvers.warm import Multipliers

    Model = tuple[CRF, Mapping[str, np.ndarray]]


class Status(StrEnum):
    """How a run ended; `Result.message` says what stopped it, with numbers, and what helps."""

    OPTIMAL = "optimal"
    WITHIN_GAP = "within gap"
    BOUND = "bound"
    TIME_LIMIT = "time limit"
    INTERRUPTED = "interrupted"
    INFEASIBLE = "infeasible"

    @property
    def meaning(self) -> str:
        """What the status is worth."""
        return {
            "optimal": "the lower bound meets the energy: no labelling is better",
            "within gap": "no labelling is better by more than the relative gap asked for",
            "bound": "a gap is left: the bound holds, the labelling may not be optimal",
            "time limit": "stopped by the time limit: the bound holds, the labelling may not be "
            "optimal",
            "interrupted": "stopped by the user: the bound holds, the labelling may not be optimal",
            "infeasible": "every labelling breaks a hard constraint (its energy is inf)",
        }[self.value]


@dataclass(repr=False)
class History:
    """Best bound and energy over time."""

    seconds: list[float] = field(default_factory=list)
    bound: list[float] = field(default_factory=list)
    energy: list[float] = field(default_factory=list)
    iteration: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.seconds)

    def __repr__(self) -> str:
        end = (
            f", bound {self.bound[-1]:.6g}, energy {self.energy[-1]:.6g}, {self.seconds[-1]:.2f} s"
            if len(self)
            else ""
        )
        return f"History({len(self)} rounds{end})"

    def _repr_html_(self) -> str:
        shown = (
            range(len(self)) if len(self) <= 8 else [*range(4), *range(len(self) - 4, len(self))]
        )
        rows = "".join(
            f"<tr><td>{self.iteration[i]}</td><td>{self.bound[i]:.6g}</td><td>{self.energy[i]:.6g}</td>"
            f"<td>{self.seconds[i]:.2f}</td></tr>"
            for i in shown
        )
        head = "<tr><th>round</th><th>bound</th><th>energy</th><th>seconds</th></tr>"
        return f"<b>{self!r}</b><table>{head}{rows}</table>"

    def plot(self, ax: Any = None) -> Any:
        """Bound and energy against time."""
        from gmlearn.plot.curves import plot_bounds

        return plot_bounds(self, ax)


@dataclass
class Result:
    """A MAP answer.

    labels : int (V,).   energy : E(labels), evaluated by the model.   bound : no labelling has a
        lower energy.
    gap : energy - bound.   status : `Status`.   solver : who found it.   iterations, history.
    seconds : wall time, without the compilation of kernels on their first use.
    decoded_from : where the labelling came from.   reason : why ``auto`` chose this way.
    message : one sentence on what stopped the run and what would help.
    multipliers : where the dual ascent ended, for ``gm.solve(..., warm=result)``; about twice the
        size of the unary costs on a grid. None where there was no ascent.
    relaxed : float (V, L), the solution of the linear program; None from other solvers.
    """

    labels: np.ndarray
    energy: float
    bound: float
    status: Status
    solver: str
    iterations: int = 0
    seconds: float = 0.0
    history: History = field(default_factory=History)
    decoded_from: str = ""
    reason: str = ""
    message: str = ""
    multipliers: Multipliers | None = field(default=None, repr=False, compare=False)
    relaxed: np.ndarray | None = field(default=None, repr=False, compare=False)
    #: the model as it was solved, for `reduced_costs`; not pickled
    _model: Model | None = field(default=None, repr=False, compare=False)
    _reduced_costs: np.ndarray | None = field(default=None, repr=False, compare=False)
    _persistent: np.ndarray | None = field(default=None, repr=False, compare=False)
    #: does `_persistent` hold all that is known?
    _settled: bool = field(default=False, repr=False, compare=False)

    @property
    def gap(self) -> float:
        """energy - bound; 0 when both are infinite (a proof that nothing is feasible)."""
        return 0.0 if self.energy == self.bound else self.energy - self.bound

    @property
    def reduced_costs(self) -> np.ndarray:
        """float (V, L), L the largest number of states: ``bound + reduced_costs[v, l]`` is a
        lower bound of the energy of every labelling with x_v = l.

        All are >= 0; 0 says nothing beyond `bound` (where slaves have no min-marginals, or the
        model has no slaves); inf marks labels that are impossible, and those that a variable does
        not have. Computed when they are asked for, at the cost of a few rounds of the slaves. A
        result that was pickled has them only if they were asked for before.
        """
        if self._reduced_costs is None:
            if self._model is None:
                raise AttributeError(
                    "reduced_costs: a pickled result does not carry its model; read them before "
                    "pickling, or solve again with warm=result"
                )
            from gmlearn.solvers.warm import reduced_costs

            self._reduced_costs = reduced_costs(*self._model, self.multipliers, self.bound)
        return self._reduced_costs

    @property
    def persistent(self) -> np.ndarray:
        """bool (V,): the variables whose label is proved to belong to an optimum, all of them to
        the same one.

        All of an optimal result (within its tolerance); else those that QPBO labelled, those whose
        other labels cost more than the gap by `reduced_costs`, and those that the gap near them
        leaves no room to change (see `gmlearn.solvers.local_gaps`). Computed when asked for; a
        result that was pickled has them only if they were asked for before.
        """
        known = self._persistent
        if known is None or not (known.all() or self._settled or self._model is None):
            self._persistent = known = self._find_persistent()
        return known

    def _find_persistent(self) -> np.ndarray:
        from gmlearn.solvers.local_gaps import locally_optimal
        from gmlearn.solvers.problem import cost_scale

        known = np.zeros(len(self.labels), bool)
        if self._persistent is not None:
            known |= self._persistent
        if self._model is None and self._reduced_costs is None:
            return known
        others = self.reduced_costs.copy()
        others[np.arange(len(known)), self.labels] = np.inf
        room = self.gap + 1e-9 * max(abs(self.energy), abs(self.bound))
        known |= others.min(axis=1, initial=np.inf) > room
        # QPBO's optimum need not be the one that is nearest to these labels
        if self._persistent is None and self._model is not None and np.isfinite(self.energy):
            scale = cost_scale(*self._model)
            known |= locally_optimal(*self._model, self.multipliers, self.labels, scale)
        self._settled = True
        return known

    def marginals(self, **options: Any) -> Marginals:
        """Probabilities of the labels of the model that was solved, by ``gm.marginals``; options as
        there. `reduced_costs` are proofs, these are shares of all labellings.
        """
        if self._model is None:
            raise AttributeError("marginals: a pickled result does not carry its model")
        from gmlearn.probabilities.api import marginals

        return marginals(*self._model, **options)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_model": None}

    def plot(self, ax: Any = None) -> Any:
        """Bound and energy against time."""
        return self.history.plot(ax)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, infinities as None."""

        def number(x: float) -> float | None:
            return float(x) if math.isfinite(x) else None

        return {
            "energy": number(self.energy),
            "bound": number(self.bound),
            "gap": number(self.gap),
            "status": self.status.value,
            "solver": self.solver,
            "seconds": self.seconds,
            "iterations": self.iterations,
            "reason": self.reason,
            "message": self.message,
            "labels": self.labels.tolist(),
        }

    def __repr__(self) -> str:
        return (
            f"Result(energy={self.energy:.8g}, bound={self.bound:.8g}, gap={self.gap:.3g}, "
            f"status={self.status.value!r}, "
            f"solver={self.solver!r}, seconds={self.seconds:.3g})"
        )

    def _repr_html_(self) -> str:
        cells = [
            ("energy", f"{self.energy:.8g}"),
            ("lower bound", f"{self.bound:.8g}"),
            ("gap", f"{self.gap:.3g}"),
            ("status", f"{self.status.value}: {self.message}"),
            ("solver", self.solver),
            ("seconds", f"{self.seconds:.3g}"),
        ]
        return (
            "<table>" + "".join(f"<tr><th>{k}</th><td>{v}</td></tr>" for k, v in cells) + "</table>"
        )
