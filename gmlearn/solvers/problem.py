"""One MAP problem while it is being solved: the model, the limits, the incumbent and the best
bound.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

import numpy as np

from gmlearn.model.crf import CRF
from gmlearn.solvers.result import History, Result, Status
from gmlearn.solvers.warm import KeptMessages, Multipliers, SlaveCosts

if TYPE_CHECKING:
    from numba.core.event import TimingListener

    from gmlearn.solvers.polish import Polisher

#: seconds between two calls of ``on_progress``
PROGRESS_SECONDS = 0.1
#: costs of each kind that are looked at to learn their scale
SAMPLE = 1000
GOES_ON = "a larger limit, or warm=result, goes on"
#: table entries that kernels read in about a second; counted work is told in such seconds
ENTRIES_PER_SECOND = 2e8


class SolverRefusal(ValueError):
    """A named solver cannot take the model."""


class Settings(TypedDict, total=False):
    """The further settings of the built-in solvers, so that type checkers know them by name.

    A solver of a plugin may name others in `MapSolver.settings`; to have those checked, let its
    constructor take them, and pass the object: ``gm.solve(crf, solver=MySolver(depth=3))``.
    """

    step: str
    step_size: float | None
    target: float | None
    reach: float
    passes: int


@dataclass(frozen=True)
class Options:
    """What a user may ask of a solver.

    time_limit : seconds, None for none.   max_iter : rounds, None for the solver's own.
    tol : the gap that counts as closed, in units of the costs' scale.   gap : the relative gap at
        which to stop.
    seed : of whatever is random.   decomposition : name or object, for the dual solvers.   initial
        : labels to start from.   warm : an earlier result to start from.
    on_progress : called with a `Result` now and then; stops the solver if it answers true.
    extra : settings of one solver, by name (``step="level"``, ...).
    """

    time_limit: float | None = None
    max_iter: int | None = None
    tol: float = 1e-6
    seed: int = 0
    decomposition: Any = "auto"
    initial: np.ndarray | None = None
    extra: Mapping[str, Any] | None = None
    gap: float = 0.0
    warm: Result | None = None
    on_progress: Callable[[Result], Any] | None = None

    def get(self, name: str, default: Any) -> Any:
        return (self.extra or {}).get(name, default)


class Clock:
    """How long a run has taken.

    seconds : wall time, without compiling and loading kernels.   work : table entries read, as far
        as solvers count them.
    """

    def __init__(self, start: float | None = None):
        self.start = time.perf_counter() if start is None else start
        self.work = 0.0
        self.compiling: TimingListener | None = None

    @property
    def seconds(self) -> float:
        timer = self.compiling
        compiled = timer.duration if timer is not None and timer.done else 0.0
        return time.perf_counter() - self.start - compiled


class Problem:
    """The state shared by all solvers: offer labellings, raise the bound, ask whether to stop.

    deadline, work_deadline : the values of `elapsed` and of `spent` at which to stop; see `budget`.
    interrupted : has the user had enough?   cut_short : was a step left out because of the time
        limit?   iterations : rounds so far.   notes : what ``auto`` did, and why.
    messages, costs : where an ascent ended, for `Result.multipliers`; see `gmlearn.solvers.warm`.
    relaxed : for `Result.relaxed`.
    """

    def __init__(
        self, crf: CRF, w: Mapping[str, np.ndarray], options: Options, clock: Clock | None = None
    ):
        self.crf, self.w, self.options = crf, w, options
        self.clock = Clock() if clock is None else clock
        self.deadline: float = np.inf if options.time_limit is None else options.time_limit
        self.work_deadline = np.inf
        self.labels: np.ndarray | None = None
        self.energy, self.bound = np.inf, -np.inf
        self.decoded_from = ""
        self.iterations = 0
        self.history = History()
        self.notes: list[str] = []
        #: int (V,), labels that belong to one optimum together, -1 where nothing is known
        self.persistent: np.ndarray | None = None
        self.messages: KeptMessages | None = None
        self.costs: SlaveCosts | None = None
        self.relaxed: np.ndarray | None = None
        self.interrupted = self.cut_short = False
        self._next_call = 0.0

    @cached_property
    def scale(self) -> float:
        """The typical size of one cost: what tolerances are relative to."""
        return cost_scale(self.crf, self.w)

    @cached_property
    def granularity(self) -> float:
        """All energies are multiples of this; 0 if nothing is known."""
        return cost_granularity(self.crf)

    @cached_property
    def polisher(self) -> Polisher:
        """The local search that improves labellings of this model, built on its first use."""
        from gmlearn.solvers.polish import Polisher

        return Polisher(self)

    # ------------------------------------------------------------------ a warm start

    @property
    def kept(self) -> Multipliers:
        """The multipliers to start from; none unless the user gave an earlier result."""
        warm = self.options.warm
        return (warm.multipliers if warm else None) or Multipliers(self.crf.n_states)

    # ------------------------------------------------------------------ progress

    def offer(self, labels: np.ndarray, source: str) -> bool:
        """Keep `labels` (V,) if they are better than what is known."""
        energy = self.crf.energy(labels, self.w)
        if self.labels is None or energy < self.energy:
            self.labels = np.array(labels, np.int64)
            self.energy = energy
            self.decoded_from = source
            return True
        return False

    def raise_bound(self, bound: float) -> bool:
        """Keep a valid lower bound if it is better; where all energies are multiples of a unit,
        round it up to one.
        """
        if bound > self.bound and self.granularity and np.isfinite(bound):
            bound = np.ceil(bound / self.granularity - 1e-6) * self.granularity
        if bound > self.bound:
            self.bound = float(bound)
            return True
        return False

    def fix(self, labels: np.ndarray) -> None:
        """Keep labels (V,) that belong to one optimum together, -1 where nothing is known."""
        self.persistent = labels

    def log(self) -> None:
        """Write the best bound and energy so far into the history, and report progress."""
        self.history.seconds.append(self.elapsed)
        self.history.bound.append(self.bound)
        self.history.energy.append(self.energy)
        self.history.iteration.append(self.iterations)
        report = self.options.on_progress
        if report is not None and self.labels is not None and self.elapsed >= self._next_call:
            self.interrupted |= bool(report(self._snapshot("", Status.BOUND)))
            self._next_call = self.elapsed + PROGRESS_SECONDS

    # ------------------------------------------------------------------ limits

    @property
    def elapsed(self) -> float:
        """Seconds so far, without those of compiling and loading kernels."""
        return self.clock.seconds

    @property
    def limited(self) -> bool:
        """Is there a time limit?"""
        return self.options.time_limit is not None

    @property
    def spent(self) -> float:
        """Seconds of counted work so far: the same on every machine and under every load."""
        return self.clock.work / ENTRIES_PER_SECOND

    def count(self, entries: float) -> None:
        """Count work: about so many table entries were read, or operations as simple made."""
        self.clock.work += entries

    @contextmanager
    def without_compilation(self) -> Iterator[None]:
        """For the time of a ``with``, neither the compilation of kernels nor their loading from a
        cache counts as `elapsed`; nor does the import of the compiler.
        """
        began = time.perf_counter()
        from numba.core.event import TimingListener, install_listener

        self.clock.start += time.perf_counter() - began
        self.clock.compiling = TimingListener()
        # numba holds this lock for both; "numba:compile" would leave out the loading
        with install_listener("numba:compiler_lock", self.clock.compiling):
            yield

    @property
    def clock_left(self) -> float:
        """Seconds to the deadline; inf without a time limit."""
        return self.deadline - self.elapsed

    def too_long(self, seconds: float) -> bool:
        """Would a step of so many seconds, which looks at no clock, end after the time limit that
        the user gave? Then it is left out, and the limit has stopped the run.
        """
        late = self.limited and self.elapsed + seconds > self.options.time_limit  # type: ignore[operator]
        self.cut_short |= late
        return late

    @property
    def time_left(self) -> float:
        """Seconds to the deadline, of time or of counted work, whichever is over first; none once
        the user has interrupted.
        """
        return 0.0 if self.interrupted else min(self.clock_left, self.work_deadline - self.spent)

    @contextmanager
    def budget(
        self, share: float, most: float = np.inf, clock_share: float | None = None
    ) -> Iterator[None]:
        """For the time of a ``with``, at most this share of the work that is left, at most so many
        seconds of it, and at most `clock_share` (the same share by default) of the time.
        """
        outer = self.deadline, self.work_deadline
        work = min(share * max(self.work_deadline - self.spent, 0.0), most)
        self.work_deadline = self.spent + work
        clock_share = share if clock_share is None else clock_share
        self.deadline = self.elapsed + clock_share * max(self.clock_left, 0.0)
        try:
            yield
        finally:
            self.deadline, self.work_deadline = outer

    @property
    def gap(self) -> float:
        return 0.0 if self.energy == self.bound else self.energy - self.bound

    @property
    def relative_gap(self) -> float:
        """The gap over the largest of the sizes of energy and bound, and the costs' scale."""
        if self.gap == 0.0 or not np.isfinite(self.gap):
            return self.gap
        return self.gap / max(abs(self.energy), abs(self.bound), self.scale)

    @property
    def proved(self) -> bool:
        """Is the incumbent optimal (within tol and rounding), or the model infeasible?"""
        if not np.isfinite(self.energy):
            return self.bound == np.inf
        if self.gap <= 1e-12 * abs(self.energy):
            return True
        tolerance = self.options.tol * self.scale
        return self.gap <= (min(tolerance, self.granularity / 2) if self.granularity else tolerance)

    @property
    def closed(self) -> bool:
        """Is the incumbent proved to be as good as the user asked for?"""
        return self.proved or (self.options.gap > 0 and self.relative_gap <= self.options.gap)

    def stop(self, max_iter: int | None = None) -> bool:
        """Should a solver end: proved, out of time, or out of rounds (its own limit only where
        the user gave none at all)?
        """
        limit = self.options.max_iter
        if limit is None and not self.limited:
            limit = max_iter
        return (
            self.closed or self.time_left <= 0 or (limit is not None and self.iterations >= limit)
        )

    # ------------------------------------------------------------------ the answer

    def result(self, solver: str) -> Result:
        """The answer so far, with its status."""
        if self.labels is None:
            self.offer(np.zeros(self.crf.n_vars, np.int64), "no labelling found")
        self.log()
        found = self._snapshot(solver, self._status())
        found.message = self._message(found.status)
        if self.messages is not None or self.costs is not None:
            found.multipliers = Multipliers(self.crf.n_states, self.messages, self.costs)
        if found.status is Status.OPTIMAL and self.proved:
            found._persistent = np.ones(self.crf.n_vars, bool)
        elif self.persistent is not None:
            found._persistent = found.labels == self.persistent
        found._model, found.relaxed = (self.crf.copy(), self.w), self.relaxed
        return found

    def _snapshot(self, solver: str, status: Status) -> Result:
        return Result(
            np.asarray(self.labels),
            self.energy,
            self.bound if self.bound == np.inf else min(self.bound, self.energy),  # by rounding
            status,
            solver,
            self.iterations,
            self.elapsed,
            self.history,
            self.decoded_from,
            "; ".join(self.notes),
        )

    def _status(self) -> Status:
        if self.bound == np.inf:
            return Status.INFEASIBLE
        if self.closed:
            return Status.OPTIMAL if self.proved else Status.WITHIN_GAP
        if self.interrupted:
            return Status.INTERRUPTED
        late = self.cut_short or self.clock_left <= 0
        return Status.TIME_LIMIT if late else Status.BOUND

    def _message(self, status: Status) -> str:
        """One sentence: what stopped the run, and what would help."""
        options = self.options
        rounds = options.max_iter is not None and self.iterations >= options.max_iter
        own = "the method ended by itself", "solver='exact', larger slaves or a time_limit may help"
        if self.time_left <= 0:
            own = "the work that is done without a limit is over", "a time_limit= allows for more"
        reasons = {
            Status.WITHIN_GAP: (f"within gap={options.gap:g}", "a smaller gap= asks for more"),
            Status.TIME_LIMIT: (f"stopped by time_limit={options.time_limit} s", GOES_ON),
            Status.INTERRUPTED: ("interrupted", GOES_ON),
            Status.BOUND: (f"stopped by max_iter={options.max_iter}", GOES_ON) if rounds else own,
        }
        if status not in reasons:
            return status.meaning
        what, help_ = reasons[status]
        return f"{what}, at a relative gap of {self.relative_gap:.2g}; {help_}"


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
        """Should ``solver="auto"`` leave the model to this solver? Only for models that it
        solves better than any other.
        """
        return False

    @abstractmethod
    def run(self, problem: Problem) -> None:
        """Work until ``problem.stop()``; call ``problem.offer``, ``problem.raise_bound`` and
        ``problem.log``.
        """


def cost_scale(crf: CRF, w: Mapping[str, np.ndarray]) -> float:
    """The typical size of one cost: the median of those that are neither 0 nor infinite, among
    about a thousand unary costs and the energies of as many cliques of each block at two
    labellings. 0 if none is found, which makes tolerances the strictest.
    """
    labellings = [np.zeros(crf.n_vars, np.int64), np.arange(crf.n_vars) % crf.n_states]
    seen = [_nonzero(crf.unary_costs(w))]
    for block in crf.clique_blocks:
        part = block.take(np.arange(min(len(block), SAMPLE)))
        seen += [_nonzero(part.energy(part.gather(x), w)) for x in labellings]
    sizes = np.concatenate(seen)
    return float(np.median(sizes)) if sizes.size else 0.0


def _nonzero(costs: np.ndarray) -> np.ndarray:
    """The sizes of some costs that are neither 0 nor infinite; of all, if a sample has none."""
    for part in (costs[:: (len(costs) // SAMPLE) | 1], costs):
        size = np.abs(part)
        size = size[(size > 0) & (size < np.inf)]
        if size.size:
            break
    return size


def cost_granularity(crf: CRF) -> float:
    """The largest unit of which every cost of a table model is a multiple (so that bounds may be
    rounded up to one), else 0.
    """
    from gmlearn.potentials.table import Table

    if any(not isinstance(b, Table) for b in crf.blocks):
        return 0.0
    unit = 0.0
    for values in (crf.unary, np.array([crf.constant]), *(b.values for b in crf.blocks)):  # type: ignore[attr-defined]
        sizes = np.abs(values[np.isfinite(values)])
        # most models without a unit show it among the first costs
        for part in (sizes[:100], sizes):
            unit = _common_unit(unit, part)
            if unit < 0:
                return 0.0
    return unit


def _common_unit(unit: float, sizes: np.ndarray) -> float:
    """The greatest common divisor of `unit` and of `sizes` (n,), up to rounding; -1 if it is so
    small that it may be rounding itself.
    """
    top = sizes.max(initial=0.0)
    while True:
        rest = np.abs(sizes - np.rint(sizes / unit) * unit) if unit else sizes
        rest = rest[rest > 1e-10 * unit]
        if len(rest) == 0:
            return unit
        unit = float(rest.min())
        if unit < 1e-12 * top:
            return -1.0
