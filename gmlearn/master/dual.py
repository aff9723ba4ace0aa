"""The dual: unary shares, multipliers that sum to zero per coordinate, and one round of all
slaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gmlearn.decompositions.base import Slaves, borrowed
from gmlearn.slaves import SlaveResult


@dataclass(frozen=True)
class Round:
    """All slaves minimised at one set of multipliers.

    bound : sum of the minima, a lower bound of the energy.   mean : float (n_coords,), their
        average indicators.
    results : one per group.   blend : float (n_coords,), where a method knows it, averages over
        many rounds: close to a solution of the relaxation, and a better place to round from than
        one round.
    """

    bound: float
    mean: np.ndarray
    results: list[SlaveResult]
    blend: np.ndarray | None = None

    @property
    def ind(self) -> np.ndarray:
        """float (D,), all indicators."""
        return np.concatenate([r.ind for r in self.results]) if self.results else np.zeros(0)

    @property
    def minima(self) -> np.ndarray:
        """float (n_slaves,), of all slaves."""
        return np.concatenate([np.zeros(0), *(r.value for r in self.results)])

    @property
    def disagreement(self) -> float:
        """Largest deviation of a mean indicator from 0 or 1; 0 means that all slaves agree
        everywhere.
        """
        return float(np.minimum(self.mean, 1.0 - self.mean).max(initial=0.0))


class Dual:
    """Slaves at fixed weights, with their multipliers `lam` (D,).

    theta = unary[coords] / count[coords] + lam, where lam sums to zero over the copies of each
    coordinate.
    """

    def __init__(self, slaves: Slaves, w: Mapping[str, np.ndarray], lam: np.ndarray | None = None):
        self.slaves, self.coords = slaves, slaves.coords
        self.lam = np.zeros(len(self.coords)) if lam is None else lam
        self.set_weights(w)

    def set_weights(self, w: Mapping[str, np.ndarray]) -> None:
        """Move to other weights; the multipliers stay."""
        self.prepared = [g.prepare(w) for g in self.slaves.groups]
        self.constant = self.slaves.constant(w)
        self.set_unary(w)

    def set_unary(self, w: Mapping[str, np.ndarray]) -> None:
        """The same for the unary costs alone: what moves between known minimisers need."""
        #: float (n_coords,): the unary costs
        self.unary = self.slaves.unary(w)
        #: what each copy of a coordinate has of its unary cost
        self.unary_share = self.unary
        if not self.slaves.disjoint:
            self.unary_share = self.unary / np.maximum(self.slaves.count, 1.0)

    @property
    def share(self) -> np.ndarray:
        """float (D,): each dual variable's part of the unary costs."""
        return self.slaves.spread(self.unary_share)

    def forbid(self, coords: np.ndarray) -> None:
        """No slave may use the coordinates in the mask (n_coords,) any more."""
        self.unary_share = np.where(coords, np.inf, self.unary_share)

    def mean(self, per_dual: np.ndarray) -> np.ndarray:
        """Average (n_coords,) of per-dual values over the copies of each coordinate."""
        return self.slaves.mean(per_dual)

    def centred(self, per_dual: np.ndarray) -> np.ndarray:
        """The projection onto the zero-sum set: subtract each coordinate's mean."""
        return per_dual - self.slaves.spread(self.mean(per_dual))

    def round(self, lam: np.ndarray | None = None, theta: np.ndarray | None = None) -> Round:
        """Minimise all slaves at `lam` (the current multipliers by default), or at whole dual costs
        `theta`.
        """
        if theta is None:
            lam = self.lam if lam is None else lam
            with borrowed(len(lam)) as costs:
                self.slaves.shift(self.unary_share, lam, costs)
                return self.round(theta=costs)
        groups = zip(self.slaves.groups, self.slaves.slices, self.prepared)
        results = [g.solve(theta[s], p) for g, s, p in groups]
        bound = float(sum(r.value.sum() for r in results)) + self.constant
        return Round(bound, self.slaves.mean_of(results), results)

    def cost_scale(self, current: Round) -> float:
        """The typical size of the costs that the multipliers must move: mean finite reduced cost
        of a label.
        """
        costs = []
        theta = self.share + self.lam
        for g, s, p, r in zip(
            self.slaves.groups, self.slaves.slices, self.prepared, current.results
        ):
            if g.affordable("min_marginals"):
                with np.errstate(invalid="ignore"):  # an infeasible slave: inf - inf
                    reduced = g.min_marginals(theta[s], p) - r.value[g.owner]  # type: ignore[attr-defined]
                costs.append(reduced[np.isfinite(reduced) & (reduced > 0)])
        pool = np.concatenate(costs) if costs else np.zeros(0)
        if pool.size == 0:
            finite = np.abs(theta[np.isfinite(theta)])
            pool = finite[finite > 0]
        return float(pool.mean()) if pool.size else 1.0

    def reduced_costs(self) -> tuple[float, np.ndarray]:
        """The bound, and by how much (n_coords,) it rises if a coordinate is forced to 1.

        The sum over slaves of (minimum with the coordinate fixed - minimum), without those that
        cannot tell: bound + this is a lower bound of every labelling that has the coordinate.
        """
        theta, total = self.share + self.lam, np.zeros(self.slaves.n_coords)
        current = self.round(theta=theta)
        groups = zip(self.slaves.groups, self.slaves.slices, self.prepared, current.results)
        for g, s, p, r in groups:
            if g.affordable("min_marginals") and np.isfinite(r.value).all():
                values = g.min_marginals(theta[s], p)  # type: ignore[attr-defined]
                total += np.bincount(g.coords, values - r.value[g.owner], len(total))
        return current.bound, total
