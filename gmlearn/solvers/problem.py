"""One MAP problem while it is being solved: the model, the limits, the incumbent and the best bound."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gmlearn.model.crf import CRF
from gmlearn.solvers.result import History, Result, Status


class SolverRefusal(ValueError):
    """A named solver cannot take the model."""


@dataclass
class Options:
    """What a user may ask of a solver.

    time_limit : seconds, None for none.   max_iter : rounds, None for the solver's own.   tol : the gap that counts as closed.
    seed : of whatever is random.   decomposition : name or object, for the dual solvers.   initial : labels to start from.
    extra : settings of one solver, by name (``step="level"``, ...).
    """

    time_limit: float | None = None
    max_iter: int | None = None
    tol: float = 1e-6
    seed: int = 0
    decomposition: Any = "auto"
    initial: np.ndarray | None = None
    extra: Mapping[str, Any] | None = None

    def get(self, name: str, default: Any) -> Any:
        return (self.extra or {}).get(name, default)


class Problem:
    """The state shared by all solvers: offer labellings, raise the bound, ask whether to stop."""

    def __init__(
        self, crf: CRF, w: Mapping[str, np.ndarray], options: Options, start: float | None = None
    ):
        self.crf, self.w, self.options = crf, w, options
        self.start = time.perf_counter() if start is None else start
        self.labels: np.ndarray | None = None
        self.energy, self.bound = np.inf, -np.inf
        self.decoded_from = ""
        self.iterations = 0
        self.history = History()
        self.notes: list[str] = []
        self.granularity = cost_granularity(crf, w)

    # ------------------------------------------------------------------ progress

    def offer(self, labels: np.ndarray, source: str) -> bool:
        """Keep `labels` (V,) if they are better than what is known."""
        energy = self.crf.energy(labels, self.w)
        if self.labels is None or energy < self.energy:
            self.labels, self.energy, self.decoded_from = np.array(labels, np.int64), energy, source
            return True
        return False

    def raise_bound(self, bound: float) -> bool:
        """Keep a valid lower bound if it is better; where all costs are multiples of a unit, round it up to one."""
        if self.granularity and np.isfinite(bound):
            bound = np.ceil(bound / self.granularity - 1e-6) * self.granularity
        if bound > self.bound:
            self.bound = float(bound)
            return True
        return False

    def log(self) -> None:
        """Write the best bound and energy so far into the history."""
        self.history.seconds.append(self.elapsed)
        self.history.bound.append(self.bound)
        self.history.energy.append(self.energy)
        self.history.iteration.append(self.iterations)

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self.start

    @property
    def time_left(self) -> float:
        return np.inf if self.options.time_limit is None else self.options.time_limit - self.elapsed

    @property
    def gap(self) -> float:
        return 0.0 if self.energy == self.bound else self.energy - self.bound

    @property
    def closed(self) -> bool:
        """Is the incumbent proved optimal (within tol and rounding), or the model proved infeasible?"""
        if not np.isfinite(self.energy):
            return self.bound == np.inf
        return self.gap <= self.options.tol + 1e-12 * abs(self.energy)

    def stop(self, max_iter: int | None = None) -> bool:
        """Should a solver end: proved, out of time, or out of rounds (its own limit only where the user gave none at all)?"""
        limit = self.options.max_iter
        if limit is None and self.options.time_limit is None:
            limit = max_iter
        return (
            self.closed or self.time_left <= 0 or (limit is not None and self.iterations >= limit)
        )

    def result(self, solver: str) -> Result:
        """The answer so far, with its status."""
        if self.labels is None:
            self.offer(np.zeros(self.crf.n_vars, np.int64), "no labelling found")
        labels, energy = np.asarray(self.labels), self.energy
        if self.bound == np.inf:
            status, bound = Status.INFEASIBLE, np.inf
        else:
            bound = min(self.bound, energy)  # they may cross by rounding only
            status = (
                Status.OPTIMAL
                if self.closed
                else (Status.TIME_LIMIT if self.time_left <= 0 else Status.BOUND)
            )
        self.log()
        return Result(
            labels,
            energy,
            bound,
            status,
            solver,
            self.iterations,
            self.elapsed,
            self.history,
            self.decoded_from,
            "; ".join(self.notes),
        )


class MapSolver(ABC):
    """A MAP solver: improves a `Problem` until it says stop."""

    registry_kind: ClassVar[str] = "solver"
    name: ClassVar[str] = ""
    #: does it raise the lower bound itself? (others get the bound of one round of slaves)
    bounds: ClassVar[bool] = True
    #: names of the further settings that ``gm.solve(..., name=value)`` may pass
    settings: ClassVar[tuple[str, ...]] = ()

    def refuses(self, crf: CRF) -> str | None:
        """None if this solver can take the model, else the reason in a few words."""
        return None

    def claims(self, crf: CRF, w: Mapping[str, np.ndarray]) -> bool:
        """Should ``solver="auto"`` leave the model to this solver? Only for models that it solves better than any other."""
        return False

    @abstractmethod
    def run(self, problem: Problem) -> None:
        """Work until ``problem.stop()``; call ``problem.offer``, ``problem.raise_bound`` and ``problem.log``."""


def cost_granularity(crf: CRF, w: Mapping[str, np.ndarray]) -> float:
    """1.0 if every cost of a table model is a whole number (so bounds may be rounded up), else 0."""
    from gmlearn.potentials.table import Table

    if any(not isinstance(b, Table) for b in crf.blocks):
        return 0.0
    for values in (crf.unary, np.array([crf.constant]), *(b.values for b in crf.blocks)):  # type: ignore[attr-defined]
        finite = values[np.isfinite(values)]
        if not np.array_equal(finite, np.rint(finite)) or (
            finite.size and np.abs(finite).max() > 1e12
        ):
            return 0.0
    return 1.0
