r"""Soft slaves: temperatures under which their sum bounds :math:`\log Z` from above.

For slaves i with energies :math:`E_i`, :math:`\sum_i E_i = E`, and :math:`\rho_i > 0` with
:math:`\sum_{i \ni v} \rho_i \ge 1` at every variable v (Finner 1992, a Hölder inequality for
functions of some of the variables; tree-reweighted bounds of Wainwright, Jaakkola and Willsky 2005
are the case of trees),

.. math:: \log\sum_x e^{-E(x)/T} \le \sum_i \rho_i \log\sum_{x_i} e^{-E_i(x_i)/(T\rho_i)},

for all multipliers. Both sides are equal where one slave holds everything.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gmlearn.decompositions.base import Slaves
from gmlearn.master.dual import Dual
from gmlearn.slaves.base import Features, SlaveGroup

#: different temperatures among the slaves of one group; each is a call of its own
MOST_LEVELS = 8


@dataclass(frozen=True)
class SoftRound:
    """All slaves soft-minimised at one set of multipliers.

    value : sum of the soft minima; minus it is an upper bound of T log Z.   ind : float (D,), the
        slaves' marginals.   features : expected features of each group's cliques.
    values, entropies : float (n_slaves,), the soft minima one by one, and the slaves' entropies,
        the derivatives of minus `value` over T in their temperatures; 0 where not known.
    """

    value: float
    ind: np.ndarray
    features: list[Features]
    values: np.ndarray
    entropies: np.ndarray


class TemperedSlaves:
    """Slaves with a temperature each.

    Parameters
    ----------
    slaves : whose groups all have `log_partition`.
    rho : float (n_slaves,), see `slave_temperatures`, the default.
    levels : different temperatures in one group that has but one at a time; they are rounded up.

    Attributes
    ----------
    slaves : the same ones, with a group for each such temperature.   rho : float (n_slaves,), the
        temperature of each.   exact : is the bound equal to log Z?
    """

    def __init__(self, slaves: Slaves, rho: np.ndarray | None = None, levels: int = MOST_LEVELS):
        held = held_by(slaves)
        if rho is None:
            rho = slave_temperatures(slaves, held)
        self._disjoint = is_disjoint(slaves, held)
        groups: list[SlaveGroup] = []
        chosen: list[np.ndarray] = []
        ends = np.cumsum([g.n for g in slaves.groups])
        for group, end in zip(slaves.groups, ends):
            own = rho[end - group.n : end]
            if group.own_temperatures:
                groups.append(group)
                chosen.append(own)
                continue
            own = rounded_up(own, levels)
            for level in np.unique(own):
                index = np.flatnonzero(own == level)
                groups.append(group if len(index) == group.n else group.take(index))
                chosen.append(own[index])
        self.slaves = with_groups(slaves, groups)
        self.rho = np.concatenate([np.zeros(0), *chosen])

    @cached_property
    def exact(self) -> bool:
        """Does no variable with a choice stand in two slaves? Then the bound is log Z."""
        return self._disjoint and bool((self.rho <= 1.0).all())

    @cached_property
    def weighted(self) -> bool:
        """May the temperatures move, as weights of slaves that each hold all variables of a joined
        model? They add up to 1 for each, and the bound is convex in them.
        """
        slaves = self.slaves
        if not all(g.own_temperatures for g in slaves.groups) or slaves.n_slaves == 0:
            return False
        if not slaves.of_labels:
            return False
        variable, _ = slave_variables(slaves)
        held = np.bincount(variable, minlength=slaves.crf.n_vars)
        n_slaves = np.bincount(slaves.slave_home, minlength=len(slaves.crf.parts) - 1)
        each = np.repeat(n_slaves, np.diff(slaves.crf.parts))
        return bool(((held == 0) | (held == each)).all() and n_slaves.max() > 1)

    def round(
        self, dual: Dual, theta: np.ndarray, temperature: float, weight: np.ndarray | None = None
    ) -> SoftRound:
        """Soft-minimise all slaves at the dual costs `theta` (D,); `dual` has their costs.

        weight : float (n_slaves,), factors of the slaves' features.
        """
        ind = np.empty(len(theta))
        features: list[Features] = []
        values: list[np.ndarray] = []
        entropies: list[np.ndarray] = []
        factors = self.slaves.by_group(weight)
        groups = zip(self.slaves.groups, self.slaves.slices, dual.prepared, factors)
        for number, (group, where, prepared, factor) in enumerate(groups):
            own = temperature * self.of_group(number)
            found = group.soft_features(theta[where], prepared, own, factor)
            ind[where] = found.marginals
            features.append(found.features)
            values.append(found.value)
            entropies.append(np.zeros(group.n))
            if found.energy is not None:
                feasible = np.isfinite(found.value)
                spread = np.where(feasible, found.energy - found.value, 0.0)
                entropies[-1] = np.maximum(spread, 0.0) / own
        each = np.concatenate([np.zeros(0), *values])
        entropy = np.concatenate([np.zeros(0), *entropies])
        return SoftRound(float(each.sum()) + dual.constant, ind, features, each, entropy)

    def of_group(self, number: int) -> Any:
        """The temperature of a group, or those of its slaves (n,)."""
        group, end = self.slaves.groups[number], self._ends[number]
        own = self.rho[end - group.n : end]
        return own if group.own_temperatures else float(own.max(initial=0.0) or 1.0)

    @cached_property
    def _ends(self) -> np.ndarray:
        return np.cumsum([g.n for g in self.slaves.groups])


def with_groups(slaves: Slaves, groups: Sequence[SlaveGroup]) -> Slaves:
    """The same coordinates with other groups."""
    if len(groups) == len(slaves.groups):
        return slaves
    other = copy.copy(slaves)
    for name, attribute in vars(Slaves).items():
        if isinstance(attribute, cached_property):
            other.__dict__.pop(name, None)
    other.groups = list(groups)
    return other


def split_by_weight(slaves: Slaves, shares: np.ndarray | None, soft: bool) -> Slaves:
    """The slaves of samples with `shares` (n,), None where all are the same: groups that can only
    sum the features of all their slaves become groups of one share each.
    """
    if shares is None:
        return slaves
    groups: list[SlaveGroup] = []
    for group, own in zip(slaves.groups, slaves.by_group(shares[slaves.slave_home])):
        able = group.weighs_marginals if soft else group.knows_slaves
        levels = np.unique(own)
        if able or len(levels) <= 1:
            groups.append(group)
        else:
            groups += [group.take(np.flatnonzero(own == level)) for level in levels]
    return with_groups(slaves, groups)


#: (variable, slave), see `slave_variables`; None where coordinates are not labels of variables
Held = tuple[np.ndarray, np.ndarray] | None


def slave_temperatures(slaves: Slaves, held: Held = None) -> np.ndarray:
    """Temperatures rho (n_slaves,) that add up to 1 or more at every variable, as small as one
    pass can make them.

    A slave gets 1 / (slaves that hold v), the largest over its variables; then what is left over
    at all of its variables is taken back, slave after slave. Where coordinates are not labels of
    variables all are 1. `held` by the slaves, where it is known.
    """
    n = slaves.n_slaves
    held = held_by(slaves) if held is None else held
    if held is None or n == 0:
        return np.ones(n)
    variable, owner = held
    count = np.bincount(variable, minlength=slaves.crf.n_vars)
    rho = np.zeros(n)
    np.maximum.at(rho, owner, 1.0 / count[variable])
    rho[rho == 0.0] = 1.0  # no variable with a choice: any temperature will do
    from gmlearn.master._temperatures_numba import take_back

    ptr = np.searchsorted(owner, np.arange(n + 1))
    take_back(variable, ptr, np.bincount(variable, rho[owner], slaves.crf.n_vars), rho)
    return rho


def held_by(slaves: Slaves) -> Held:
    """`slave_variables`, where coordinates are labels of variables."""
    return slave_variables(slaves) if slaves.of_labels else None


def slave_variables(slaves: Slaves) -> tuple[np.ndarray, np.ndarray]:
    """(variable, slave), int (S,): who holds which variable, ordered by slave; without variables
    that have one possible label.
    """
    from gmlearn.master._temperatures_numba import held_variables

    crf = slaves.crf
    # slaves may have coordinates beyond the labels
    n = min(slaves.n_labels, crf.n_coords)
    owner = np.repeat(np.arange(crf.n_vars), crf.n_states)[:n]
    return held_variables(slaves.coords, slaves.sizes, owner, np.isfinite(crf.unary)[:n])


def is_disjoint(slaves: Slaves, held: Held = None) -> bool:
    """Does no variable with a choice stand in two slaves? Then bounds by slaves are exact."""
    held = held_by(slaves) if held is None else held
    if held is None:
        return slaves.n_slaves <= 1
    return slaves.exact and bool((np.bincount(held[0]) <= 1).all())


def rounded_up(rho: np.ndarray, levels: int) -> np.ndarray:
    """Temperatures rounded up to at most `levels` different ones: larger is still valid."""
    known = np.unique(rho)
    if len(known) <= levels:
        return rho
    quantiles = np.unique(np.quantile(known, np.linspace(0, 1, levels + 1)[1:]))
    quantiles[-1] = known[-1]
    return quantiles[np.searchsorted(quantiles, rho)]
