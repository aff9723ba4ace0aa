r"""Tree-reweighted slaves whose weights move with the multipliers.

Slaves that each hold a whole model, at temperatures :math:`T\rho_i` with :math:`\sum_i\rho_i = 1`,
bound :math:`T\log Z` by

.. math:: B(\nu, \rho) = T\sum_i \rho_i \log\sum_x \exp\Big(-\frac1T \sum_c \big(
          \theta_c/\rho_c + \nu_{ic}\big)(x_c)\Big), \quad \rho_c = \sum_{i \ni c} \rho_i,

over the coordinates c that slave i holds, for all :math:`\nu` with :math:`\sum_i\rho_i\nu_{ic} =
0`. It is jointly convex in the dual costs :math:`\rho_i(\theta_c/\rho_c + \nu_{ic})` and
:math:`\rho`. In these coordinates a slave of small weight has a small curvature, not a large one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gmlearn.master.temperatures import SoftRound, TemperedSlaves

#: the part of all weight that slaves share equally: one without weight would not agree with others
LEAST = 0.03


@dataclass(frozen=True)
class Reweighting:
    """One place of multipliers and weights.

    rho : float (n_slaves,), the weights.   scale, part : float (D,), those of each dual variable's
        slave, and over all slaves that hold its coordinate.   costs : float (D,), its costs over
        the weight of its slave.
    """

    rho: np.ndarray
    scale: np.ndarray
    part: np.ndarray
    costs: np.ndarray

    @property
    def theta(self) -> np.ndarray:
        """float (D,): the slaves' dual costs."""
        return self.scale * self.costs


class ReweightedSlaves:
    """Multipliers and weights as one vector z: nu of the dual variables that are shared, and
    numbers whose softmax are the weights.

    shares : float (n,), factors of the bounds of the joined models; all 1 by default.
    """

    def __init__(self, tempered: TemperedSlaves, shares: np.ndarray | None = None):
        self.tempered, self.slaves = tempered, tempered.slaves
        n_models = len(self.slaves.crf.parts) - 1
        self.shares = np.ones(n_models) if shares is None else shares
        self.shared = np.flatnonzero(self.slaves.spread(self.slaves.count > 1))
        self.home = self.slaves.slave_home
        n_slaves = np.bincount(self.home)
        #: float (n_slaves,): the least weight of each
        self.least = (LEAST / np.maximum(n_slaves, 1))[self.home]
        self.owner = np.repeat(np.arange(self.slaves.n_slaves), self.slaves.sizes)

    @property
    def size(self) -> int:
        return len(self.shared) + self.slaves.n_slaves

    def by_model(self, values: np.ndarray) -> np.ndarray:
        """The sums (n_slaves,) over the slaves of the same joined model."""
        return np.bincount(self.home, values)[self.home]

    def at(self, z: np.ndarray, unary: np.ndarray) -> Reweighting:
        """The place z (size,), for the costs `unary` (n_coords,) of coordinates."""
        nu, logits = np.zeros(len(self.owner)), z[len(self.shared) :]
        nu[self.shared] = z[: len(self.shared)]
        top = np.full(int(self.home.max()) + 1, -np.inf)
        np.maximum.at(top, self.home, logits)
        rho = np.exp(logits - top[self.home])
        rho = self.least + (1.0 - LEAST) * rho / self.by_model(rho)
        scale = rho[self.owner]
        held = np.bincount(self.slaves.coords, scale, self.slaves.n_coords)
        held[held == 0.0] = 1.0
        part = scale / self.slaves.spread(held)
        costs = self.slaves.spread(unary / held) + self.centred(nu, part)
        return Reweighting(rho, scale, part, costs)

    def centred(self, values: np.ndarray, part: np.ndarray) -> np.ndarray:
        """Values (D,) less the weighted mean over the copies of each coordinate."""
        return values - self.slaves.spread(self.mean(values, part))

    def mean(self, values: np.ndarray, part: np.ndarray) -> np.ndarray:
        """The weighted mean (n_coords,) of values (D,) over the copies of each coordinate."""
        return np.bincount(self.slaves.coords, part * values, self.slaves.n_coords)

    def gradient(self, here: Reweighting, found: SoftRound, temperature: float) -> np.ndarray:
        """The gradient (size,) of the bounds of T log Z in z, summed with their `shares`, from the
        round made there.
        """
        apart = self.centred(found.ind, here.part)
        costs = np.where(np.isfinite(here.costs), here.costs, 0.0)
        slope = temperature * found.entropies
        slope = slope - np.bincount(self.owner, apart * costs, len(slope))
        free = here.rho - self.least
        logits = free * (slope - self.by_model(free * slope) / (1.0 - LEAST))
        share = self.shares[self.home]
        costs = -(share[self.owner] * here.scale * apart)[self.shared]
        return np.concatenate([costs, share * logits])

    def most_fall(
        self, here: Reweighting, found: SoftRound, unary: np.ndarray, temperature: float, box: float
    ) -> float:
        """By how much the sum of the bounds can fall at most (convexity), over all weights and over
        multipliers within a box of `box` times the largest one here.
        """
        shares = here.part * self.slaves.spread(unary)
        lam = np.where(
            np.isfinite(shares), here.theta - np.where(np.isfinite(shares), shares, 0), 0
        )
        reach = box * np.abs(lam).max(initial=0.0) + np.abs(lam)
        n_models = len(self.shares)
        least = np.full(n_models, np.inf)
        np.minimum.at(least, self.home, found.entropies)
        mean = np.bincount(self.home, (here.rho - self.least) * found.entropies, n_models)
        # a model without slaves has no entropy
        falls = mean - (1.0 - LEAST) * np.where(np.isfinite(least), least, 0.0)
        apart = np.abs(self.centred(found.ind, here.part)) * reach
        by_multipliers = np.bincount(self.home[self.owner], apart, n_models)
        return float(self.shares @ (by_multipliers + temperature * falls))
