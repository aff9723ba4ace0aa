"""What a method of probabilistic inference is, and what it is given."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from gmlearn.model.crf import CRF
from gmlearn.model.factors import FactorGraph
from gmlearn.potentials.base import MAX_TABLE_ENTRIES, Block
from gmlearn.probabilities.result import Marginals, MarginalStatus


class MethodRefusal(ValueError):
    """A named method cannot take the model."""


@dataclass
class MarginalProblem:
    """A model at fixed weights, and what the user asked for.

    crf, w : the model and its weights.   temperature : T > 0.   time_limit : seconds or None.
    seed : of whatever is random.   settings : of the method, by name.   least_energy : the best
    lower bound of all energies that is known.
    """

    crf: CRF
    w: Mapping[str, np.ndarray]
    temperature: float = 1.0
    time_limit: float | None = None
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    start: float = field(default_factory=time.perf_counter)
    least_energy: float = -np.inf

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self.start

    @property
    def time_left(self) -> float:
        """Seconds to the limit, inf without one."""
        return np.inf if self.time_limit is None else self.time_limit - self.elapsed

    @cached_property
    def graph(self) -> FactorGraph:
        """All cliques as tables; ask `lacks_tables` first."""
        return FactorGraph.of(self.crf, self.w)

    @property
    def constant(self) -> float:
        """What the model's constant adds to log Z."""
        return -self.crf.constant / self.temperature

    @property
    def upper_by_count(self) -> float:
        """log Z <= -E / T + log(number of labellings), for every lower bound E of all energies: it
        is tight at low temperatures.
        """
        crf = self.crf
        possible = np.add.reduceat(np.isfinite(crf.unary), crf.offsets[:-1], dtype=float)
        count = float(np.log(np.maximum(possible, 1.0)).sum())
        return count - self.least_energy / self.temperature

    def padded(self, flat: np.ndarray) -> np.ndarray:
        """Probabilities of coordinates (n_coords,) as (V, L)."""
        crf = self.crf
        size = int(crf.n_states.max(initial=0))
        if crf.uniform:
            return flat.reshape(crf.n_vars, size)
        out = np.zeros((crf.n_vars, size))
        out[np.arange(size) < crf.n_states[:, None]] = flat
        return out

    def exact(
        self,
        method: str,
        log_partition: float,
        flat: np.ndarray,
        cliques: Callable[[int], Any] | None = None,
        **more: Any,
    ) -> Marginals:
        """An exact answer; `flat` (n_coords,). -inf says that nothing is feasible."""
        feasible = log_partition > -np.inf
        status = MarginalStatus.EXACT if feasible else MarginalStatus.INFEASIBLE
        flat = flat if feasible else np.zeros_like(flat)
        bounds = log_partition, log_partition
        return self.answer(method, log_partition, flat, *bounds, status, cliques, **more)

    def answer(
        self,
        method: str,
        log_partition: float,
        flat: np.ndarray,
        lower: float = -np.inf,
        upper: float = np.inf,
        status: MarginalStatus | None = None,
        cliques: Callable[[int], Any] | None = None,
        **more: Any,
    ) -> Marginals:
        """The answer of a method from the probabilities `flat` (n_coords,) of all labels.

        cliques : the number of a block -> its clique marginals.   more : iterations, reason.
        """
        if status is None:
            known = np.isfinite(lower) or np.isfinite(upper)
            status = MarginalStatus.BOUNDS if known else MarginalStatus.NO_BOUNDS
        return Marginals(
            self.padded(flat),
            float(log_partition) + 0.0,  # no -0
            float(lower) + 0.0,
            float(upper) + 0.0,
            status,
            method,
            self.temperature,
            self.elapsed,
            crf=self.crf,
            cliques=cliques,
            **more,
        )


class MarginalMethod(ABC):
    """A method of ``gm.marginals``, by name."""

    registry_kind: ClassVar[str] = "marginal method"
    name: ClassVar[str] = ""
    #: names of the further settings that ``gm.marginals(..., name=value)`` may pass
    settings: ClassVar[tuple[str, ...]] = ()
    #: those that are numbers: what `gm.check_number` is told of them
    limits: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    def refuses(self, crf: CRF) -> str | None:
        """None if this method can take the model, else the reason in a few words."""
        return None

    @abstractmethod
    def run(self, problem: MarginalProblem) -> Marginals:
        """Compute marginals and bounds; ``problem.exact`` and ``problem.answer`` make the
        result.
        """


def lacks_tables(crf: CRF) -> str | None:
    """Why the cliques of a model cannot be written out as tables; None if they can."""
    entries = 0.0
    for block in crf.clique_blocks:
        # of less than MAX_TABLE_ENTRIES altogether, none is too large
        own = Block.form_size(block)
        if own > MAX_TABLE_ENTRIES and block.table_size() > MAX_TABLE_ENTRIES:
            return f"{block} has no table"
        entries += own
    if entries > MAX_TABLE_ENTRIES:
        return f"its tables have {entries:.3g} entries (limit {MAX_TABLE_ENTRIES:.3g})"
    return None
