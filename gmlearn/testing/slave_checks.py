"""Checks of slave solvers and slave groups: minima, indicators, features, batches, ties,
infinities.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gmlearn.registry import registry
from gmlearn.slaves.base import CliqueGroup
from gmlearn.testing.brute_force import SlaveTables
from gmlearn.testing.kit import (
    SLAVES,
    TOL,
    GroupCase,
    NotApplicable,
    answer_of,
    cases_of,
    check_of,
    dot,
    expect,
    expect_below,
    expect_close,
    expect_features,
)

ABOVE_THE_PLANE = "lies above the supporting plane"
POWERS = ("minimise", "min_marginals", "log_partition")
Weights = dict[str, np.ndarray]


@cases_of(*SLAVES)
def slave_cases(thing: Any, rng: np.random.Generator) -> Iterator[tuple[Any, Weights]]:
    """(group, w): the given group, or a group of single cliques for each of the solver's
    examples.
    """
    if isinstance(thing, GroupCase):
        yield thing.group, thing.w
        return
    for block, w in [*thing.examples(rng), *_foreign_examples(thing, rng)]:
        yield (
            CliqueGroup(block, thing, block_offsets(block)),
            {name: np.asarray(value, float) for name, value in w.items()},
        )


def _foreign_examples(thing: Any, rng: np.random.Generator) -> Iterator[tuple[Any, Weights]]:
    """Examples of the built-in solvers that this one does not refuse: what is not refused must
    be right.
    """
    for other in registry.objects("slave solver"):
        if type(other).__module__.startswith("gmlearn.") and type(other) is not type(thing):
            yield from (
                (block, w) for block, w in other.examples(rng) if thing.refuses(block) is None
            )


def block_offsets(block: Any) -> np.ndarray:
    """First coordinates (V + 1,) of a model that has just the variables of `block`."""
    n_states = np.ones(int(block.members.max(initial=-1)) + 1, np.int64)
    n_states[block.members] = block.member_states
    return np.concatenate([[0], np.cumsum(n_states)])


def thetas(group: Any, rng: np.random.Generator) -> list[np.ndarray]:
    """Dual costs as they occur: normal, all zero, with many ties, large."""
    size = len(group.coords)
    return [
        rng.normal(size=size),
        np.zeros(size),
        rng.integers(-1, 2, size).astype(float),
        100.0 * rng.normal(size=size),
    ]


def infinite_thetas(group: Any, rng: np.random.Generator) -> list[np.ndarray]:
    """Normal dual costs with forbidden labels; in the last, one slave has a variable with no
    label left.
    """
    size = len(group.coords)
    some = [
        np.where(rng.random(size) < share, np.inf, rng.normal(size=size)) for share in (0.2, 0.5)
    ]
    blocked = rng.normal(size=size)
    if getattr(group, "ptr", None) is not None and len(group.ptr) > 1:
        member = int(rng.integers(len(group.ptr) - 1))
        blocked[group.ptr[member] : group.ptr[member + 1]] = np.inf
    return [*some, blocked]


def solve(group: Any, theta: np.ndarray, w: Weights) -> Any:
    """One round of the group."""
    return group.solve(theta, group.prepare(w))


# ---------------------------------------------------------------------- the contract's data


@check_of("slave solver", whole=True)
def check_accepts_its_examples(solver: Any, rng: np.random.Generator) -> None:
    """`examples` are bound blocks that the solver does not refuse, with weights for all their
    segments; `cost` of every power is finite; `refuses` answers for any block.
    """
    examples = solver.examples(rng)
    expect(len(examples), "examples(rng) is empty: there is nothing to check the solver on")
    for block, w in examples:
        expect(
            block.states is not None, f"the example {block} is not bound; use block.bind(n_states)"
        )
        reason = solver.refuses(block)
        expect(reason is None, f"refuses its own example {block}: {reason}")
        shapes = {name: np.shape(value) for name, value in w.items()}
        expect(
            shapes == block.segments(),
            f"weights of {block} have shapes {shapes}, its segments are {block.segments()}",
        )
        for power in filter(solver.has, POWERS):
            what = f"cost({block}, {power!r})"
            cost = answer_of(what, lambda b=block, p=power: solver.cost(b, p))  # type: ignore[misc]
            expect(np.isfinite(cost) and cost >= 0, f"{what} is {cost!r}, expected a number >= 0")
    for other in registry.objects("slave solver"):
        for block, _ in other.examples(rng):
            what = f"refuses({block})"
            reason = answer_of(what, lambda b=block: solver.refuses(b))  # type: ignore[misc]
            expect(
                reason is None or (isinstance(reason, str) and reason),
                f"{what} is {reason!r}, expected None or the reason in words",
            )


@check_of(*SLAVES)
def check_layout(group: Any, w: Weights, rng: np.random.Generator) -> None:
    """coords and owner have one length, owner ascends within 0..n-1, no slave holds a coordinate
    twice; results fit them.
    """
    coords, owner = np.asarray(group.coords), np.asarray(group.owner)
    expect(
        coords.shape == owner.shape and coords.ndim == 1,
        f"coords {coords.shape} and owner {owner.shape} differ",
    )
    expect(np.diff(owner) >= 0, "owner does not ascend")
    expect((owner >= 0) & (owner < max(group.n, 1)), f"owner leaves 0..{group.n - 1}")
    held = np.stack([owner, coords], axis=1)
    expect(len(np.unique(held, axis=0)) == len(held), "a slave holds a coordinate twice")
    result = solve(group, rng.normal(size=len(coords)), w)
    expect(
        np.shape(result.ind) == coords.shape,
        f"ind has shape {np.shape(result.ind)}, expected {coords.shape}",
    )
    expect(
        np.shape(result.value) == (group.n,),
        f"value has shape {np.shape(result.value)}, expected {(group.n,)}",
    )


# ---------------------------------------------------------------------- minima


@check_of(*SLAVES)
def check_matches_enumeration(group: Any, w: Weights, rng: np.random.Generator) -> None:
    """Values are the minima; of a relaxation, never above them."""
    tables = SlaveTables(group, w)
    theta = rng.normal(size=len(group.coords))
    _compare_minima(group, solve(group, theta, w).value, tables.minima(theta), "value")


def _compare_minima(group: Any, value: np.ndarray, truth: np.ndarray, what: str) -> None:
    if group.exact:
        expect_close(value, truth, what)
        return
    expect(~np.isnan(value), f"{what}: NaN")
    expect_below(value, truth, f"{what}: a bound lies above the minimum")


@check_of(*SLAVES)
def check_ties_and_zeros(group: Any, w: Weights, rng: np.random.Generator) -> None:
    """All-zero dual costs, ties and large costs, also at zero weights: minima as enumerated."""
    for weights in (w, {name: np.zeros_like(value) for name, value in w.items()}):
        tables = SlaveTables(group, weights)
        for number, theta in enumerate(thetas(group, rng)):
            truth = tables.minima(theta)
            _compare_minima(
                group,
                solve(group, theta, weights).value,
                truth,
                f"value at theta {number} (1 = zeros, 2 = ties)",
            )


@check_of(*SLAVES)
def check_infinity_stays_exact(group: Any, w: Weights, rng: np.random.Generator) -> None:
    """Forbidden labels are not taken, an infeasible slave is worth inf, nothing is NaN."""
    tables = SlaveTables(group, w)
    for theta in infinite_thetas(group, rng):
        result, truth = solve(group, theta, w), tables.minima(theta)
        expect(~np.isnan(result.value), "value: NaN where theta has inf")
        expect(np.isfinite(result.ind), "ind: not finite where theta has inf")
        _compare_minima(group, result.value, truth, "value where theta has inf")
        taken = np.isinf(theta) & (result.ind > TOL) & np.isfinite(truth)[group.owner]
        expect(
            ~taken,
            f"a forbidden label is taken by slave {group.owner[taken][:1]} although it need not",
        )


@check_of(*SLAVES)
def check_values_are_energies(group: Any, w: Weights, rng: np.random.Generator) -> None:
    """At the returned labels theta + h is the returned value, and the indicators are those of
    the labels.
    """
    if (
        not group.exact
        or not callable(getattr(group, "energy", None))
        or getattr(group, "ptr", None) is None
    ):
        raise NotApplicable("a relaxation, or a group without ptr and energy(labels, w)")
    for theta in thetas(group, rng):
        result = solve(group, theta, w)
        labels = np.asarray(result.labels).ravel()
        expect(
            (labels >= 0) & (labels < np.diff(group.ptr)), f"labels out of range: {labels.tolist()}"
        )
        ind = np.zeros(len(theta))
        ind[group.ptr[:-1] + labels] = 1.0
        expect_close(result.ind, ind, "ind against labels")
        paid = group.energy(labels, w) + np.bincount(group.owner, theta * ind, group.n)
        expect_close(result.value, paid, "value against energy + theta at the labels")


@check_of("slave solver", needs="propose")
def check_proposals_are_feasible(group: Any, w: Weights, rng: np.random.Generator) -> None:
    """`propose` returns labels that exist, and break no hard constraint where that is possible."""
    tables, prepared = SlaveTables(group, w), group.prepare(w)
    for theta in (*thetas(group, rng), *infinite_thetas(group, rng)):
        found = group.solver.propose(group.block, group.shaped(theta), prepared)
        labels = np.asarray(found).ravel()
        expect(
            len(labels) == len(group.states) and np.all((labels >= 0) & (labels < group.states)),
            f"propose returns labels that do not exist: {labels.tolist()}",
        )
        costs = np.array(group.energy(labels, w), float)
        np.add.at(costs, group.owner[group.ptr[:-1]], theta[group.ptr[:-1] + labels])
        broken = np.flatnonzero(np.isinf(costs) & np.isfinite(tables.minima(theta)))
        expect(
            len(broken) == 0,
            f"propose breaks a hard constraint that can be kept: clique {broken[:1]}, labels "
            f"{labels.tolist()}",
        )


@check_of(*SLAVES)
def check_indicators_are_zero_one(group: Any, w: Weights, rng: np.random.Generator) -> None:
    """Of an exact slave: 0 or 1, and one label for each member.

    Of a relaxation: between 0 and 1.
    """
    for theta in thetas(group, rng):
        ind = solve(group, theta, w).ind
        expect(
            (ind >= -TOL) & (ind <= 1 + TOL),
            f"ind leaves [0, 1]: {ind.min(initial=0)}..{ind.max(initial=0)}",
        )
        if group.exact:
            expect((ind == 0) | (ind == 1), "ind of an exact slave is neither 0 nor 1")
        if getattr(group, "ptr", None) is not None and len(ind):
            expect_close(
                np.add.reduceat(ind, group.ptr[:-1]),
                np.ones(len(group.ptr) - 1),
                "labels per member",
            )


# ---------------------------------------------------------------------- slopes


@check_of(*SLAVES)
def check_indicators_are_supergradients(group: Any, w: Weights, rng: np.random.Generator) -> None:
    """Minima are concave in theta: value(theta + move) <= value(theta) + <ind, move>."""
    if not len(group.coords):
        raise NotApplicable("the group has no dual variables")
    for theta in thetas(group, rng):
        result = solve(group, theta, w)
        for size in (0.05, 1.0, 10.0):
            move = size * rng.normal(size=theta.shape)
            limit = result.value + np.bincount(group.owner, result.ind * move, group.n)
            moved = solve(group, theta + move, w).value
            expect_below(moved, limit, f"value after a move of size {size} {ABOVE_THE_PLANE}")


@check_of(*SLAVES)
def check_features_are_supergradients(group: Any, w: Weights, rng: np.random.Generator) -> None:
    """Minima are concave in w: sum of values(w + move) <= sum of values(w) + features . move.
    Training relies on it.
    """
    if not w:
        expect(
            not group.features(solve(group, np.zeros(len(group.coords)), w)),
            "features without any weights",
        )
        raise NotApplicable("the potential has no weights")
    for theta in thetas(group, rng):
        result = solve(group, theta, w)
        features = group.features(result)
        if not np.isfinite(result.value).all():
            continue
        for size in (0.05, 1.0, 10.0):
            move = {name: size * rng.normal(size=value.shape) for name, value in w.items()}
            other = solve(group, theta, {name: w[name] + move[name] for name in w}).value.sum()
            limit = result.value.sum() + dot(features, move)
            expect_below(other, limit, f"value after moving w by {size} {ABOVE_THE_PLANE}")


@check_of(*SLAVES)
def check_slave_features_sum_to_features(group: Any, w: Weights, rng: np.random.Generator) -> None:
    """Features slave by slave, where known, have a leading M and add up to `features`; shapes
    are those of the weights.
    """
    result = solve(group, rng.normal(size=len(group.coords)), w)
    total = group.features(result)
    shapes = {name: np.shape(value) for name, value in total.items()}
    expect(
        all(shapes[name] == w[name].shape for name in shapes if name in w)
        and set(shapes) <= set(w),
        f"features have shapes {shapes}, the weights { {name: v.shape for name, v in w.items()} }",
    )
    if not group.knows_slaves:
        raise NotApplicable("only the sum of the features is known")
    parts = group.slave_features(result)
    for name, value in parts.items():
        expect(
            np.shape(value) == (group.n, *w[name].shape),
            f"slave_features[{name!r}] has shape {np.shape(value)}",
        )
    zeros = {name: np.zeros(value.shape) for name, value in w.items()}
    expect_features(
        {name: value.sum(axis=0) for name, value in parts.items()},
        {**zeros, **total},
        "sum of slave_features",
    )


# ---------------------------------------------------------------------- manners


@check_of(*SLAVES)
def check_theta_is_untouched(group: Any, w: Weights, rng: np.random.Generator) -> None:
    """Neither theta nor the weights are written to, by any power."""
    for theta in (*thetas(group, rng), *infinite_thetas(group, rng)):
        given = theta.copy()
        weights = {name: value.copy() for name, value in w.items()}
        prepared = group.prepare(weights)
        group.solve(given, prepared)
        if group.has("min_marginals"):
            group.min_marginals(given, prepared)
        if group.has("log_partition") and np.isfinite(theta).all():
            group.log_partition(given, prepared, 1.0)
        expect(np.array_equal(given, theta), "theta was written to")
        expect(
            all(np.array_equal(weights[name], w[name]) for name in w), "the weights were written to"
        )


@check_of(*SLAVES)
def check_repeatable(group: Any, w: Weights, rng: np.random.Generator) -> None:
    """The same question has the same answer, also after another one; ties included."""
    for theta in thetas(group, rng):
        first = solve(group, theta, w)
        value, ind = np.array(first.value), np.array(first.ind)
        solve(group, theta + 10.0 * rng.normal(size=len(theta)), w)
        expect(
            np.array_equal(first.ind, ind) and np.array_equal(first.value, value),
            "a later call wrote into an earlier result",
        )
        again = solve(group, theta, w)
        expect(
            np.array_equal(again.value, value) and np.array_equal(again.ind, ind),
            "a second call answers differently",
        )


@check_of(*SLAVES)
def check_batch_equals_one_by_one(group: Any, w: Weights, rng: np.random.Generator) -> None:
    """Slaves taken out of the group, alone or some of them, answer as they do inside it."""
    for theta in thetas(group, rng):
        whole = solve(group, theta, w)
        for index in [*np.arange(group.n)[:, None], np.arange(0, group.n, 2), np.arange(group.n)]:
            part, mine = group.take(index), np.isin(group.owner, index)
            expect(part.n == len(index), f"take of {len(index)} slaves has {part.n}")
            expect(
                np.array_equal(part.coords, group.coords[mine]),
                f"take({index.tolist()}) has other coords",
            )
            result = solve(part, theta[mine], w)
            expect_close(
                result.value, whole.value[index], f"value of slaves {index.tolist()} alone"
            )
            expect_close(result.ind, whole.ind[mine], f"ind of slaves {index.tolist()} alone")


@check_of(*SLAVES)
def check_empty_batch(group: Any, w: Weights, rng: np.random.Generator) -> None:
    """No slaves: empty answers of the right shapes, zero features."""
    empty = group.take(np.zeros(0, np.int64))
    result = solve(empty, np.zeros(0), w)
    expect(
        np.shape(result.value) == (0,) and np.shape(result.ind) == (0,),
        f"value {np.shape(result.value)} and ind {np.shape(result.ind)} of an empty group, "
        f"expected (0,)",
    )
    for name, value in empty.features(result).items():
        expect(np.all(np.asarray(value) == 0), f"features[{name!r}] of an empty group are not zero")
