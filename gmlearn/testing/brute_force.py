"""Enumeration: the specification that everything else is compared with.

Slow, obvious, for a few variables only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gmlearn.model.crf import CRF
from gmlearn.potentials.base import Block
from gmlearn.testing.kit import NotApplicable

#: joint states beyond which the kit does not enumerate
MAX_JOINT = 50_000


def joint_labels(states: np.ndarray) -> np.ndarray:
    """All labellings (T, k) of variables with `states` (k,) states, the last one changing
    fastest.
    """
    total = float(np.prod(states, dtype=float))
    if total > MAX_JOINT:
        raise NotApplicable(
            f"{total:.3g} joint states are too many to enumerate (limit {MAX_JOINT}); give "
            f"smaller examples"
        )
    return np.indices(tuple(int(s) for s in states)).reshape(len(states), -1).T


def clique_tables(block: Block, w: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """For every clique its energies (L_1, ..., L_k), by `Block.energy` on one clique at a time."""
    tables = []
    for m in range(len(block)):
        states = block.member_states[block.indptr[m] : block.indptr[m + 1]]
        x = joint_labels(states)
        many = block.take(np.full(len(x), m))
        tables.append(
            np.asarray(many.energy(many.shape_members(x.ravel()), w), float).reshape(tuple(states))
        )
    return tables


def energy_table(crf: CRF, w: Mapping[str, np.ndarray]) -> np.ndarray:
    """E(x; w) for all x, an array (L_1, ..., L_V)."""
    n = crf.n_vars
    joint_labels(crf.n_states)

    def along(array: np.ndarray, variables: np.ndarray) -> np.ndarray:
        order = np.argsort(variables)
        shape = np.ones(n, np.int64)
        shape[variables] = crf.n_states[variables]
        return array.transpose(order).reshape(shape)

    total = np.full(tuple(crf.n_states), crf.constant)
    for v in range(n):
        total = total + along(crf.unary[crf.offsets[v] : crf.offsets[v + 1]], np.array([v]))
    for block in crf.blocks:
        for m, table in enumerate(clique_tables(block, w)):
            total = total + along(table, block.members[block.indptr[m] : block.indptr[m + 1]])
    return total


def brute_force(crf: CRF, weights: Any = None) -> tuple[np.ndarray, float]:
    """A minimiser (V,) and the minimum of a small model; the minimum is inf if nothing is
    feasible.
    """
    table = energy_table(crf, crf.check_weights(weights))
    best = np.unravel_index(int(table.argmin()), table.shape)
    return np.array(best, np.int64), float(table[best])


class SlaveTables:
    """All labellings of all slaves of a group with their energies, without theta.

    The group needs `ptr` (S + 1,), the dual variables of each of its members, and ``energy(labels
    (S,), w) -> (M,)``. Where the labels of some members follow from others it says so by
    `free_states` (S,), which is 1 for them, and ``complete(labels) -> labels``.
    """

    def __init__(self, group: Any, w: Mapping[str, np.ndarray]):
        if not callable(getattr(group, "energy", None)) or getattr(group, "ptr", None) is None:
            raise NotApplicable(
                f"{type(group).__name__} has no ptr and energy(labels, w), so its slaves cannot "
                f"be enumerated"
            )
        self.group = group
        # labels that follow from others (joint labels of shared cliques) are not enumerated
        complete = getattr(group, "complete", lambda labels: labels)
        free = np.diff(group.ptr) if not hasattr(group, "free_states") else group.free_states
        member_owner = group.owner[group.ptr[:-1]] if len(free) else np.zeros(0, np.int64)
        self.members = [np.flatnonzero(member_owner == m) for m in range(group.n)]
        self.labels = [joint_labels(free[s]) for s in self.members]
        self.energy = [np.empty(len(x)) for x in self.labels]
        # every slave goes through its own labellings; the shorter ones stay at their last
        for t in range(max((len(x) for x in self.labels), default=0)):
            whole = np.zeros(len(free), np.int64)
            for s, x in zip(self.members, self.labels):
                whole[s] = x[min(t, len(x) - 1)]
            whole = complete(whole)
            values = group.energy(whole, w)
            for m, (s, x) in enumerate(zip(self.members, self.labels)):
                if t < len(x):
                    self.energy[m][t], x[t] = values[m], whole[s]
        self.dual = [group.ptr[s] + x for s, x in zip(self.members, self.labels)]

    def totals(self, theta: np.ndarray) -> list[np.ndarray]:
        """For every slave theta + h of all its labellings, (T_m,)."""
        return [e + theta[d].sum(axis=1) for e, d in zip(self.energy, self.dual)]

    def minima(self, theta: np.ndarray) -> np.ndarray:
        """(M,)."""
        return np.array([t.min() for t in self.totals(theta)])

    def min_marginals(self, theta: np.ndarray) -> np.ndarray:
        """(D,): the minimum of the slave with one label fixed."""
        out = np.full(len(theta), np.inf)
        for total, dual in zip(self.totals(theta), self.dual):
            np.minimum.at(out, dual, np.broadcast_to(total[:, None], dual.shape))
        return out

    def distribution(
        self, m: int, total: np.ndarray, temperature: float
    ) -> tuple[float, np.ndarray]:
        """Soft minimum and probabilities (T_m,) of slave m; zeros where nothing is feasible."""
        low = total.min()
        if not np.isfinite(low):
            return np.inf, np.zeros(len(total))
        weight = np.exp(-(total - low) / temperature)
        return low - temperature * np.log(weight.sum()), weight / weight.sum()
