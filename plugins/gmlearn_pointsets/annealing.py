"""Nested annealing: soft matches inside, soft memberships outside, both temperatures lowered
together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .sets import PointSets
from .state import MatchState

#: pairs with a smaller membership are left out of later sweeps
PRUNE = 1e-6


@dataclass(frozen=True)
class Schedule:
    """Inverse temperatures from `start` to `end`, each `rate` times the last, in units of one over
    the squared radius.

    At each the sweeps go on until the energy falls by less than `tol` of itself, at most
    `max_sweeps` times. Memberships are annealed at `membership_ratio` times the inverse temperature
    of the matches. `sinkhorn_tol` and `sinkhorn_sweeps` bound each soft match.
    """

    start: float = 8.0
    end: float = 200.0
    rate: float = 1.1
    max_sweeps: int = 4
    tol: float = 1e-4
    membership_ratio: float = 1.0
    sinkhorn_tol: float = 1e-2
    sinkhorn_sweeps: int = 50

    def betas(self) -> np.ndarray:
        steps = int(np.ceil(np.log(self.end / self.start) / np.log(self.rate)))
        return np.minimum(self.start * self.rate ** np.arange(steps + 1), self.end)


def memberships(free_energy: np.ndarray, beta: float) -> tuple[np.ndarray, float]:
    """M_ia = softmax over centres of -beta F_ia, and the total free energy -1/beta sum_i log
    sum_a exp(-beta F_ia).
    """
    low = free_energy.min(1, keepdims=True)
    weights = np.exp(-beta * (free_energy - low))
    total = weights.sum(1, keepdims=True)
    return weights / total, float((low - np.log(total) / beta).sum())


def move_centres(centres: PointSets, state: MatchState, member: np.ndarray) -> PointSets:
    """Y_ak = sum_i M_ia pull_iak / sum_i M_ia weight_iak; a point that nothing pulls stays."""
    pull = np.einsum("ia,iakd->akd", member, state.pull)
    weight = np.einsum("ia,iak->ak", member, state.pull_weight)[:, :, None]
    points = np.where(weight > 1e-12, pull / np.maximum(weight, 1e-12), centres.points)
    return PointSets(points, centres.sizes)


def anneal(state: MatchState, centres: PointSets, schedule: Schedule, on_temperature=None):
    """Coordinate descent at each temperature in turn.

    Returns
    -------
    centres : PointSets.   member : float (I, A).   history : list of (beta, energy after each
        sweep, pairs swept).
    """
    active = np.ones((len(state.images), len(centres)), dtype=bool)
    member, history = active / len(centres), []
    for beta in schedule.betas():
        image, centre = (np.ascontiguousarray(index) for index in np.nonzero(active))
        beta_of_pair, energies = np.full(len(image), beta), []
        for _ in range(schedule.max_sweeps):
            state.sweep(
                centres.points,
                image,
                centre,
                beta_of_pair,
                schedule.sinkhorn_tol,
                schedule.sinkhorn_sweeps,
            )
            member, energy = memberships(
                np.where(active, state.free_energy, np.inf), beta * schedule.membership_ratio
            )
            centres = move_centres(centres, state, member)
            energies.append(energy)
            if len(energies) > 1 and energies[-2] - energy <= schedule.tol * abs(energy):
                break
        history.append((float(beta), energies, len(image)))
        active &= member > PRUNE
        if on_temperature is not None:
            on_temperature()
    return centres, member, history
