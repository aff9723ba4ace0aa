"""Checks on examples that are too large for enumeration: solvers are compared with one another,
costs and time limits with the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from time import thread_time
from timeit import repeat
from typing import Any

import numpy as np

from gmlearn.decompositions import decompose
from gmlearn.learn import Sample, train
from gmlearn.losses import NoLoss
from gmlearn.master import Dual
from gmlearn.model.crf import CRF
from gmlearn.potentials import Block
from gmlearn.registry import registry
from gmlearn.slaves.base import CliqueGroup
from gmlearn.slaves.choose import NoSolverError
from gmlearn.solvers import Result, SolverRefusal, solve
from gmlearn.testing.kit import (
    NotApplicable,
    cases_of,
    check_of,
    expect,
    expect_close,
    expect_in_time,
)
from gmlearn.testing.models import large_models
from gmlearn.testing.slave_checks import Weights, block_offsets

#: how far solvers of one block may differ, relative to the costs
AGREE = 1e-9
#: bounds and energies of whole models may cross by this much
SLACK = 1e-6
#: a power may be this much slower than `cost` says, compared with `minimise`
GENEROUS = 10.0
#: operations beyond which another solver of the same block is not asked
AFFORDABLE = 1e7
#: seconds of a solve, and how late it may end, beyond one call of the slaves
LIMIT, LATE = 0.05, 0.5
#: who solves the model of a potential: the dual solvers with and without tricks, and a local search
SOLVERS = ("auto", "bcfw", "dual-subgradient", "icm")


def _examples(thing: Any, rng: np.random.Generator) -> list[tuple[Any, Weights]]:
    own = getattr(thing, "large_examples", None)
    made = own(rng) if callable(own) else []
    return [(what, {k: np.asarray(v, float) for k, v in w.items()}) for what, w in made]


# ---------------------------------------------------------------------- slave solvers


@cases_of("slave solver", large=True)
def large_slaves(thing: Any, rng: np.random.Generator) -> Iterator[tuple[CliqueGroup, Weights]]:
    """(group, w) for each of the solver's large examples."""
    for block, w in _examples(thing, rng):
        yield CliqueGroup(block, thing, block_offsets(block)), w


@check_of("slave solver", large=True)
def check_large_minima(group: CliqueGroup, w: Weights, rng: np.random.Generator) -> None:
    """Minima are paid by the minimisers, above no labelling and no min-marginal, above the soft
    minimum, and those of every other solver of the block.
    """
    theta, prepared = rng.normal(size=len(group.coords)), group.prepare(w)
    value, starts = group.solve(theta, prepared).value, group.block.indptr[:-1]
    owner = np.repeat(np.arange(group.n), np.diff(group.block.indptr))
    slack = AGREE * (1 + np.abs(value))
    soft, marginals = value, value[group.owner]
    if group.has("log_partition"):
        soft = group.log_partition(theta, prepared, 1.0).value
    if group.has("min_marginals"):
        marginals = group.min_marginals(theta, prepared)
        lowest = np.minimum.reduceat(marginals, group.ptr[:-1])
        expect_close(lowest, value[owner], "least min-marginal of each member", AGREE)
    expect(soft <= value + slack, "a soft minimum lies above the minimum")
    # minimisers of nearby costs are where a heuristic is found out
    for size in (0.0, *np.geomspace(0.01, 3.0, 30)):
        labels = group.solve(theta + size * rng.normal(size=len(theta)), prepared).labels
        place = group.ptr[:-1] + labels
        paid = group.energy(labels, w) + np.add.reduceat(theta[place], starts)
        expect(value <= paid + slack, "a labelling costs less than the minimum")
        reached = np.maximum.reduceat(marginals[place], starts)
        expect(reached <= paid + slack, "a labelling costs less than a min-marginal of its own")
        if group.exact and size == 0.0:
            expect_close(paid, value, "value against the cost of the minimiser", AGREE)
    _agree_with_others(group, theta, w, value)


def _agree_with_others(
    group: CliqueGroup, theta: np.ndarray, w: Weights, value: np.ndarray
) -> None:
    for other in registry.objects("slave solver"):
        if other.refuses(group.block) is None and other.cost(group.block) < AFFORDABLE:
            twin = CliqueGroup(group.block, other, group.offsets)
            found = twin.solve(theta, twin.prepare(w)).value
            what = f"value against that of the slave solver {other.name!r}"
            if group.exact and other.exact:
                expect_close(value, found, what, AGREE)
            elif group.exact or other.exact:
                low, high = (found, value) if group.exact else (value, found)
                expect(low <= high + AGREE * (1 + np.abs(high)), f"{what}: a bound lies above it")


def _seconds(call: Callable[..., Any], *arguments: Any) -> float:
    """Least processor time of this thread in three calls (others may still be busy)."""
    return min(repeat(partial(call, *arguments), timer=thread_time, number=1, repeat=3))


@check_of("slave solver", large=True)
def check_cost_of_powers(group: CliqueGroup, w: Weights, rng: np.random.Generator) -> None:
    """A power takes no longer, compared with `minimise`, than `cost` says (within a factor of
    ten, above a millisecond, in one of three tries).
    """
    given = rng.normal(size=len(group.coords)), group.prepare(w)
    calls = {"min_marginals": given, "log_partition": (*given, 1.0)}
    powers = [power for power in calls if group.has(power)]
    if not powers:
        raise NotApplicable("has no powers beyond minimise")
    for power in powers:
        claimed = group.cost(power) / group.cost()
        ratio = min(
            _seconds(getattr(group, power), *calls[power])
            / max(_seconds(group.solve, *given), 1e-3 / GENEROUS)
            for _ in range(3)
        )
        expect(
            ratio <= GENEROUS * claimed,
            f"{power} takes {ratio:.3g} times as long as minimise, cost says {claimed:.3g}",
        )


# ---------------------------------------------------------------------- potentials


@cases_of("potential", large=True)
def large_blocks(thing: Any, rng: np.random.Generator) -> Iterator[tuple[Block, Weights]]:
    """(block, w): a class's own large examples; else those of the slave solvers that use it."""
    if callable(getattr(thing, "large_examples", None)):
        yield from _examples(thing, rng)
        return
    for solver in registry.objects("slave solver"):
        yield from ((b, w) for b, w in _examples(solver, rng) if type(b) is thing)


def _model(block: Block, rng: np.random.Generator) -> CRF:
    """The block with random unary costs, or without where no slaves take them."""
    n_states = np.diff(block_offsets(block))
    crf = CRF(n_states)
    crf.add(block)
    costly = crf.copy().add_unary([rng.random(int(s)) for s in n_states])
    try:
        decompose(costly)
    except (ValueError, NoSolverError):
        return crf
    return costly


def _solve_in_time(crf: CRF, w: Weights, solver: Any, extra: float = 0.0) -> Result:
    name = getattr(solver, "name", solver)
    return expect_in_time(
        lambda: solve(crf, w, solver, time_limit=LIMIT),
        LIMIT + LATE + extra,
        f"by the solver {name!r} with time_limit={LIMIT}",
        thread_time,
    )


def _expect_consistent(results: dict[str, Result], crf: CRF, w: Weights) -> None:
    """Every solver's bound lies below every solver's energy."""
    for name, result in results.items():
        energy = crf.energy(result.labels, w)
        expect_close(result.energy, energy, f"energy of {name!r} against crf.energy(labels)")
        for other, found in results.items():
            expect(
                result.bound <= found.energy + SLACK * (1 + abs(found.energy)),
                f"the bound {result.bound!r} of {name!r} lies above the energy {found.energy!r} "
                f"of {other!r}",
            )


@check_of("potential", large=True)
def check_large_models_are_solved(block: Block, w: Weights, rng: np.random.Generator) -> None:
    """By every dual solver and a local search, within the time limit; every bound lies below
    every energy.
    """
    crf = _model(block, rng)
    extra = _seconds(Dual(decompose(crf), w).round)
    results = {name: _solve_in_time(crf, w, name, extra) for name in SOLVERS}
    # a few rounds, however long they take
    results |= {f"{name}, 5 rounds": solve(crf, w, name, max_iter=5) for name in SOLVERS[1:]}
    _expect_consistent(results, crf, w)


@check_of("potential", large=True)
def check_large_models_train(block: Block, w: Weights, rng: np.random.Generator) -> None:
    """Two passes of training by bcfw and by subgradients: finite weights, and no bound above the
    objective.
    """
    if not block.segments():
        raise NotApplicable("the potential has no weights")
    crf = _model(block, rng)
    labels = solve(crf, w, "bcfw", max_iter=5).labels
    if not np.isfinite(crf.energy(labels, w)):
        raise NotApplicable("no feasible labelling was found")
    for optimizer in ("bcfw", "subgradient"):
        model = train(
            [Sample(crf, labels)], NoLoss(), optimizer=optimizer, max_iter=2, show_progress=False
        )
        finite = all(np.isfinite(value).all() for value in model.weights.values())
        expect(finite and np.isfinite(model.objective), f"{optimizer}: weights are not finite")
        expect(model.objective >= -SLACK, f"{optimizer}: objective {model.objective} below zero")


# ---------------------------------------------------------------------- MAP solvers


@cache
def _known(seed: int = 0) -> list[tuple[CRF, Weights, dict[str, Result]]]:
    """The kit's large models, with what two solvers of different kind say of them."""
    return [
        (crf, w, {name: solve(crf, w, name, max_iter=30) for name in ("bcfw", "icm")})
        for _, crf, w in large_models(np.random.default_rng(seed))
    ]


@cases_of("solver", large=True)
def large_problems(thing: Any, rng: np.random.Generator) -> Iterator[tuple[Any, CRF, Weights, Any]]:
    """(solver, crf, w, known results): the kit's large models and the solver's own."""
    for crf, w, known in [*_known(), *((crf, w, {}) for crf, w in _examples(thing, rng))]:
        if thing.refuses(crf) is None:
            yield thing, crf, w, known


@check_of("solver", large=True)
def check_large_models(
    solver: Any, crf: CRF, w: Weights, known: dict[str, Result], rng: np.random.Generator
) -> None:
    """The time limit is kept, the bound lies below and the energy above what others say."""
    try:
        result = _solve_in_time(crf, w, solver)
    except SolverRefusal as reason:
        raise NotApplicable(str(reason)) from None
    _expect_consistent({**known, f"{solver.name}, checked": result}, crf, w)
