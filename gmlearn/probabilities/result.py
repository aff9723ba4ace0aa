"""What ``gm.marginals`` returns: probabilities, and log Z between two bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gmlearn.model.crf import CRF
    from gmlearn.potentials.base import Block


class MarginalStatus(StrEnum):
    """What the numbers are worth."""

    EXACT = "exact"
    BOUNDS = "bounds"
    NO_BOUNDS = "no bounds"
    INFEASIBLE = "infeasible"

    @property
    def meaning(self) -> str:
        return {
            "exact": "log Z and the marginals are exact, up to rounding",
            "bounds": "log Z lies between the bounds; the marginals are approximate",
            "no bounds": "neither log Z nor the marginals have a guarantee",
            "infeasible": "every labelling breaks a hard constraint: log Z = -inf, and there are "
            "no probabilities",
        }[self.value]


@dataclass(repr=False)
class Marginals:
    r"""Probabilities under :math:`p(x) = e^{-E(x)/T} / Z`.

    node : float (V, L), p(x_v = l); 0 beyond the states of a variable, and everywhere if nothing
        is feasible.
    log_partition : log Z; exact, or the method's best estimate.
    lower, upper : log Z lies between them, always.
    status : `MarginalStatus`.   method : who computed it.   temperature : T.
    seconds, iterations.   reason : why ``auto`` chose this way, and other remarks.
    """

    node: np.ndarray
    log_partition: float
    lower: float
    upper: float
    status: MarginalStatus
    method: str
    temperature: float = 1.0
    seconds: float = 0.0
    iterations: int = 0
    reason: str = ""
    #: the model; `clique` looks blocks up in it. Not pickled
    crf: CRF | None = field(default=None, repr=False)
    #: the clique marginals of one block, by its number
    cliques: Callable[[int], Any] | None = field(default=None, repr=False)

    @property
    def gap(self) -> float:
        """upper - lower; 0 where both are the same infinity."""
        return 0.0 if self.upper == self.lower else self.upper - self.lower

    @property
    def labels(self) -> np.ndarray:
        """int (V,): the most probable label of each variable on its own (ties to the lowest)."""
        return self.node.argmax(axis=1)

    @property
    def confidence(self) -> np.ndarray:
        """float (V,): the probability of `labels`."""
        return self.node.max(axis=1, initial=0.0)

    @property
    def entropy(self) -> np.ndarray:
        """float (V,): the entropy of each variable on its own, in nats."""
        p = self.node
        return -(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=1) + 0.0

    def clique(self, block: Block | int) -> Any:
        """Marginals of the cliques of one block, float (M, L, ..., L), padded by 0 like
        `Block.table`; for a `RaggedBlock` a list of M arrays.

        Parameters
        ----------
        block : what ``crf.add`` returned, or its number in ``crf.blocks``.
        """
        if self.crf is None:
            raise AttributeError("clique: pickled marginals carry only those of single variables")
        blocks = self.crf.blocks
        if isinstance(block, (int, np.integer)):
            if not 0 <= block < len(blocks):
                raise ValueError(f"block: expected a number below {len(blocks)}, got {block}")
            number = int(block)
        else:
            found = [i for i, b in enumerate(blocks) if b is block]
            if not found:
                raise ValueError(f"block: {block!r} is not a block of this model")
            number = found[0]
        if self.status == MarginalStatus.INFEASIBLE:
            raise ValueError(f"clique: {self.status.meaning}")
        if blocks[number].arity == 1:
            return self.node[blocks[number].members][:, : blocks[number].max_states]
        if self.cliques is None:
            raise ValueError(f"clique: the method {self.method!r} gives single variables only")
        return self.cliques(number)

    def plot(self, ax: Any = None, shape: tuple[int, int] | None = None) -> Any:
        """The entropy of each variable; `shape` (rows, columns) makes an image of it."""
        from gmlearn.plot.curves import plot_entropy

        return plot_entropy(self, ax, shape)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, infinities as None."""

        def number(x: float) -> float | None:
            return float(x) if math.isfinite(x) else None

        states = self.node.shape[1] if self.crf is None else self.crf.n_states
        widths = np.broadcast_to(states, len(self.node)).tolist()
        return {
            "log_partition": number(self.log_partition),
            "lower": number(self.lower),
            "upper": number(self.upper),
            "status": self.status.value,
            "method": self.method,
            "temperature": self.temperature,
            "seconds": self.seconds,
            "iterations": self.iterations,
            "reason": self.reason,
            "node": [p[:n].tolist() for p, n in zip(self.node, widths)],
        }

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "crf": None, "cliques": None}

    def __repr__(self) -> str:
        return (
            f"Marginals(V={len(self.node)}, log_partition={self.log_partition:.8g}, "
            f"lower={self.lower:.8g}, upper={self.upper:.8g}, status={self.status.value!r}, "
            f"method={self.method!r}, seconds={self.seconds:.3g})"
        )

    def _repr_html_(self) -> str:
        cells = [
            ("log Z", f"{self.log_partition:.8g}"),
            ("between", f"{self.lower:.8g} and {self.upper:.8g}"),
            ("status", f"{self.status.value}: {self.status.meaning}"),
            ("method", self.method),
            ("mean confidence", f"{self.confidence.mean() if len(self.node) else 1.0:.4g}"),
            ("seconds", f"{self.seconds:.3g}"),
        ]
        return (
            "<table>" + "".join(f"<tr><th>{k}</th><td>{v}</td></tr>" for k, v in cells) + "</table>"
        )
