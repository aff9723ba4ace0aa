"""What happened during training, pass by pass, in a form that plots itself."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np


@dataclass(repr=False)
class TrainingHistory:
    """One entry per pass; NaN where a pass did not measure something.

    objective : F(w, lambda).   bound : a lower bound of the best F.   subproblem_gap : duality gap
        of the optimiser's own subproblem.
    seconds : time since the start.   step : step size.   validation : validation error.
    completion : how much the last completion lowered F (latent models).
    """

    passes: list[int] = field(default_factory=list)
    objective: list[float] = field(default_factory=list)
    bound: list[float] = field(default_factory=list)
    subproblem_gap: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    step: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    completion: list[float] = field(default_factory=list)

    def append(self, **values: float | None) -> None:
        """Add one pass."""
        for f in fields(self):
            value = values.get(f.name)
            getattr(self, f.name).append(
                int(value or 0) if f.name == "passes" else float("nan" if value is None else value)
            )

    def __len__(self) -> int:
        return len(self.passes)

    def arrays(self) -> dict[str, np.ndarray]:
        """All columns as arrays."""
        return {f.name: np.array(getattr(self, f.name), float) for f in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> TrainingHistory:
        """The inverse of `arrays`; columns that are no history are refused."""
        shapes = {arrays[f.name].shape for f in fields(cls)}
        if (
            len(shapes) != 1
            or len(shapes.pop()) != 1
            or any(arrays[f.name].dtype != np.float64 for f in fields(cls))
        ):
            raise ValueError("expected a history of columns of one length")
        history = cls(**{f.name: arrays[f.name].tolist() for f in fields(cls)})
        history.passes = [int(p) for p in history.passes]
        return history

    @property
    def gap(self) -> np.ndarray:
        """The lowest objective so far minus its bound, pass by pass; NaN where one is not known."""
        objective = np.array(self.objective, float)
        lowest = np.fmin.accumulate(objective) if len(objective) else objective
        gap = lowest - np.array(self.bound, float)
        return np.where(np.isfinite(gap), gap, np.nan)

    def evaluated(self) -> np.ndarray:
        """The objectives that were measured."""
        values = np.array(self.objective, float)
        return values[np.isfinite(values)]

    def __repr__(self) -> str:
        values = self.evaluated()
        fell = f", objective {values[0]:.6g} -> {values.min():.6g}" if len(values) else ""
        return f"TrainingHistory({len(self)} passes{fell})"

    def _repr_html_(self) -> str:
        measured = np.flatnonzero(np.isfinite(np.array(self.objective, float)))
        shown = measured if len(measured) <= 8 else [*measured[:4], *measured[-4:]]
        rows = "".join(
            f"<tr><td>{self.passes[i]}</td><td>{self.objective[i]:.6g}</td><td>{self.bound[i]:.6g}</td>"
            f"<td>{self.seconds[i]:.2f}</td></tr>"
            for i in shown
        )
        head = "<tr><th>passes</th><th>objective</th><th>bound</th><th>seconds</th></tr>"
        return f"<b>{self!r}</b><table>{head}{rows}</table>"

    def plot(self, ax: Any = None) -> Any:
        """Objective and bound against passes."""
        from gmlearn.plot.curves import plot_objective

        return plot_objective(self, ax)
