"""Checks of the optional powers of slaves: min-marginals, and soft minima with their marginals
and expected features.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gmlearn.testing.brute_force import SlaveTables
from gmlearn.testing.kit import (
    TOL,
    NotApplicable,
    check_of,
    expect,
    expect_below,
    expect_close,
    expect_features,
)
from gmlearn.testing.slave_checks import SLAVES, Weights, infinite_thetas, thetas

TEMPERATURES = (1.0, 0.3)


@check_of(*SLAVES, needs="min_marginals")
def check_min_marginals(group: Any, w: Weights, rng: np.random.Generator) -> None:
    """For each label the minimum with that label fixed; inf where it is forbidden."""
    tables = SlaveTables(group, w)
    for theta in (*thetas(group, rng), *infinite_thetas(group, rng)):
        found = group.min_marginals(theta, group.prepare(w))
        expect_close(found, tables.min_marginals(theta), "min_marginals")


@check_of("slave solver", needs="member_marginals")
def check_member_marginals(group: Any, w: Weights, rng: np.random.Generator) -> None:
    """Those of one member of each clique are the same numbers as among those of all members."""
    sizes = np.diff(group.block.indptr)
    for theta in [*thetas(group, rng), *infinite_thetas(group, rng)]:
        member = rng.integers(0, sizes) if len(sizes) else np.zeros(0, np.int64)
        whole = group.min_marginals(theta, group.prepare(w))
        found = group.member_marginals(theta, group.prepare(w), member)
        for m, place in enumerate(group.block.indptr[:-1] + member):
            own = whole[group.ptr[place] : group.ptr[place + 1]]
            expect_close(
                found[m, : len(own)], own, f"min-marginals of member {member[m]} of clique {m}"
            )


@check_of(*SLAVES, needs="log_partition")
def check_log_partition(group: Any, w: Weights, rng: np.random.Generator) -> None:
    """Soft minima, marginals and expected features as enumerated; with ``soft_exact = False``,
    only never above.
    """
    tables = SlaveTables(group, w)
    owner = getattr(group, "solver", group)
    for temperature in TEMPERATURES:
        for theta in thetas(group, rng):
            found = group.log_partition(theta, group.prepare(w), temperature)
            if getattr(owner, "soft_exact", True):
                _compare_soft(tables, theta, w, temperature, found)
            else:
                _soft_bound(tables, theta, temperature, found)


@check_of(*SLAVES, needs="log_partition")
def check_log_partition_with_infinity(group: Any, w: Weights, rng: np.random.Generator) -> None:
    """Forbidden labels have no probability; a slave without a feasible labelling is worth inf."""
    tables = SlaveTables(group, w)
    owner = getattr(group, "solver", group)
    for theta in infinite_thetas(group, rng):
        found = group.log_partition(theta, group.prepare(w), 1.0)
        soft, marginals, _ = _enumerated(tables, theta, w, 1.0)
        expect(~np.isnan(found.value), "soft minimum: NaN where theta has inf")
        possible = np.isfinite(soft)
        expect_close(
            np.isinf(found.value), ~possible, "soft minimum is inf where nothing is feasible"
        )
        if getattr(owner, "soft_exact", True):
            mine = possible[group.owner]
            expect_close(found.value, soft, "soft minimum where theta has inf")
            expect_close(found.marginals[mine], marginals[mine], "marginals where theta has inf")


@check_of(*SLAVES, needs="log_partition")
def check_soft_batch_equals_one_by_one(group: Any, w: Weights, rng: np.random.Generator) -> None:
    """Soft minima and marginals of slaves taken out of the group are those inside it."""
    if group.n == 0:
        raise NotApplicable("an empty group")
    theta = rng.normal(size=len(group.coords))
    whole = group.log_partition(theta, group.prepare(w), 1.0)
    for m in range(group.n):
        part, mine = group.take(np.array([m])), group.owner == m
        one = part.log_partition(theta[mine], part.prepare(w), 1.0)
        expect_close(one.value, whole.value[[m]], f"soft minimum of slave {m} alone")
        expect_close(one.marginals, whole.marginals[mine], f"marginals of slave {m} alone")


def _enumerated(
    tables: SlaveTables, theta: np.ndarray, w: Weights, temperature: float
) -> tuple[np.ndarray, np.ndarray, Any]:
    """Soft minima (M,), marginals (D,), and the joint probabilities of each slave."""
    totals = tables.totals(theta)
    soft = []
    marginals = np.zeros(len(theta))
    joint = []
    for m, total in enumerate(totals):
        value, p = tables.distribution(m, total, temperature)
        soft.append(value)
        joint.append(p)
        np.add.at(marginals, tables.dual[m], np.broadcast_to(p[:, None], tables.dual[m].shape))
    return np.array(soft), marginals, joint


def _expected_features(
    tables: SlaveTables, joint: list[np.ndarray], w: Weights
) -> dict[str, np.ndarray]:
    """Energies are const + w .

    features, so differences of the expected energy in each weight are the expected features.
    """
    expected = {name: np.zeros(value.shape) for name, value in w.items()}
    zero = SlaveTables(tables.group, expected)
    for name, value in w.items():
        for place in np.ndindex(value.shape):
            unit = {other: np.zeros(v.shape) for other, v in w.items()}
            unit[name][place] = 1.0
            moved = SlaveTables(tables.group, unit)
            for p, after, before in zip(joint, moved.energy, zero.energy):
                used = p > 0
                expected[name][place] += float(p[used] @ (after[used] - before[used]))
    return expected


def _compare_soft(
    tables: SlaveTables, theta: np.ndarray, w: Weights, temperature: float, found: Any
) -> None:
    soft, marginals, joint = _enumerated(tables, theta, w, temperature)
    expect_close(found.value, soft, f"soft minimum at temperature {temperature}")
    possible = np.isfinite(soft)[tables.group.owner]
    expect_close(
        found.marginals[possible], marginals[possible], f"marginals at temperature {temperature}"
    )
    if np.isfinite(soft).all():
        expect_features(
            found.features,
            _expected_features(tables, joint, w),
            f"expected features at temperature {temperature}",
        )


def _soft_bound(tables: SlaveTables, theta: np.ndarray, temperature: float, found: Any) -> None:
    soft, _, _ = _enumerated(tables, theta, {}, temperature)
    expect(~np.isnan(found.value), "soft minimum: NaN")
    expect_below(found.value, soft, "a bound lies above the soft minimum")
    expect((found.marginals >= -TOL) & (found.marginals <= 1 + TOL), "marginals leave [0, 1]")
