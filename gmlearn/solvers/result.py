"""What every MAP solver returns: a labelling with its certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np


class Status(StrEnum):
    """How a run ended; `meaning` says what that is worth and what to do about it."""

    OPTIMAL = "optimal"
    BOUND = "bound"
    TIME_LIMIT = "time limit"
    INFEASIBLE = "infeasible"

    @property
    def meaning(self) -> str:
        return {
            "optimal": "the lower bound meets the energy: no labelling is better",
            "bound": "a gap is left: the bound holds, the labelling may not be optimal; try solver='exact', larger slaves or "
            "a larger max_iter",
            "time limit": "stopped by the time limit: the bound holds, the labelling may not be optimal",
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
        return f"<b>{self!r}</b><table><tr><th>round</th><th>bound</th><th>energy</th><th>seconds</th></tr>{rows}</table>"

    def plot(self, ax: Any = None) -> Any:
        """Bound and energy against time."""
        from gmlearn.plot.curves import plot_bounds

        return plot_bounds(self, ax)


@dataclass
class Result:
    """A MAP answer.

    labels : int (V,).   energy : E(labels), evaluated by the model.   bound : no labelling has a lower energy.
    gap : energy - bound.   status : `Status`.   solver : who found it.   iterations, seconds, history.
    decoded_from : where the labelling came from.   reason : why ``auto`` chose this way, or why the run stopped.
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

    @property
    def gap(self) -> float:
        """energy - bound; 0 when both are infinite (a proof that nothing is feasible)."""
        return 0.0 if self.energy == self.bound else self.energy - self.bound

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
            "labels": self.labels.tolist(),
        }

    def __repr__(self) -> str:
        return (
            f"Result(energy={self.energy:.8g}, bound={self.bound:.8g}, gap={self.gap:.3g}, status={self.status.value!r}, "
            f"solver={self.solver!r}, seconds={self.seconds:.3g})"
        )

    def _repr_html_(self) -> str:
        cells = [
            ("energy", f"{self.energy:.8g}"),
            ("lower bound", f"{self.bound:.8g}"),
            ("gap", f"{self.gap:.3g}"),
            ("status", f"{self.status.value}: {self.status.meaning}"),
            ("solver", self.solver),
            ("seconds", f"{self.seconds:.3g}"),
        ]
        return (
            "<table>" + "".join(f"<tr><th>{k}</th><td>{v}</td></tr>" for k, v in cells) + "</table>"
        )
