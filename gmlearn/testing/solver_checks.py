"""Checks of MAP solvers: bound <= minimum <= energy, honest statuses, limits and seeds kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from gmlearn.model.crf import CRF
from gmlearn.solvers import Result, SolverRefusal, Status
from gmlearn.solvers import solve as _solve
from gmlearn.testing.brute_force import brute_force
from gmlearn.testing.kit import (
    NotApplicable,
    cases_of,
    check_of,
    expect,
    expect_close,
    expect_in_time,
)
from gmlearn.testing.models import accepted_models, infeasible_models, untouched
from gmlearn.testing.slave_checks import Weights

SOLVER = "solver"
#: bounds and energies may cross by rounding, and by the tolerance of the LP codes behind some
#: solvers
SLACK = 1e-6
#: seconds beyond its time limit that a solver may take on a small model (compilation is done
#: before)
AT_ONCE = 0.1
SECONDS = 5.0
#: rounds that show whether bounds hold; with a time limit alone a solver may use all of it
ROUNDS = 300


@cases_of(SOLVER)
def solver_cases(thing: Any, rng: np.random.Generator) -> Iterator[tuple[Any, CRF, Weights]]:
    """(solver, crf, w) for those of the kit's models, and the solver's own ``examples(rng)``,
    that it does not refuse.
    """
    accepted, reasons = accepted_models(thing, rng)
    if not accepted and all("package" in reason for reason in reasons):
        raise NotApplicable(reasons[0])
    for crf, w in accepted:
        yield thing, crf, w


def solve(crf: CRF, w: Weights, solver: Any, **options: Any) -> Result:
    """``gm.solve``; a refusal that only shows at given weights means that there is nothing to
    check.
    """
    try:
        return _solve(crf, w, solver, **options)
    except SolverRefusal as reason:
        raise NotApplicable(str(reason)) from None


def _valid(result: Result, crf: CRF, w: Weights, minimum: float) -> None:
    """What holds of every result."""
    slack = SLACK * (1 + abs(minimum)) if np.isfinite(minimum) else 0.0
    expect(
        np.shape(result.labels) == (crf.n_vars,),
        f"labels have shape {np.shape(result.labels)}, expected {(crf.n_vars,)}",
    )
    expect(
        np.issubdtype(np.asarray(result.labels).dtype, np.integer)
        and np.all((result.labels >= 0) & (result.labels < crf.n_states)),
        f"labels {np.asarray(result.labels).tolist()} are no states 0..L-1 of the variables",
    )
    expect_close(result.energy, crf.energy(result.labels, w), "energy against crf.energy(labels)")
    expect(not np.isnan(result.bound), "the bound is NaN")
    expect(result.bound <= minimum + slack, f"bound {result.bound!r} above the minimum {minimum!r}")
    expect(
        result.energy >= minimum - slack, f"energy {result.energy!r} below the minimum {minimum!r}"
    )
    expect(
        result.gap >= 0
        and result.gap == (0 if result.energy == result.bound else result.energy - result.bound),
        f"gap {result.gap!r} of energy {result.energy!r} and bound {result.bound!r}",
    )


@check_of(SOLVER)
def check_bound_minimum_energy(solver: Any, crf: CRF, w: Weights, rng: np.random.Generator) -> None:
    """bound <= minimum <= energy = crf.energy(labels), of a labelling that the solver offered."""
    result = solve(crf, w, solver, max_iter=ROUNDS, time_limit=SECONDS)
    _valid(result, crf, w, brute_force(crf, w)[1])
    expect(
        result.decoded_from != "no labelling found",
        "run offers no labelling: call problem.offer(labels, source)",
    )


@check_of(SOLVER)
def check_persistent_labels_belong_to_an_optimum(
    solver: Any, crf: CRF, w: Weights, rng: np.random.Generator
) -> None:
    """With the labels of `result.persistent` fixed, the minimum is the same."""
    result = solve(crf, w, solver, max_iter=ROUNDS, time_limit=SECONDS)
    fixed = brute_force(crf.clamp(result.labels, result.persistent), w)[1]
    expect_close(fixed, brute_force(crf, w)[1], "minimum with the persistent labels fixed")


@check_of(SOLVER)
def check_history_never_above_the_minimum(
    solver: Any, crf: CRF, w: Weights, rng: np.random.Generator
) -> None:
    """In every round bound <= minimum <= energy; bounds never fall, energies never rise, time
    and rounds never go back.
    """
    history = solve(crf, w, solver, max_iter=ROUNDS, time_limit=SECONDS).history
    minimum = brute_force(crf, w)[1]
    slack = SLACK * (1 + abs(minimum))
    expect(len(history) > 0, "the history is empty")
    bounds, energies = np.array(history.bound), np.array(history.energy)
    expect(
        bounds <= minimum + slack,
        f"a bound of the history, {bounds.max()!r}, lies above the minimum {minimum!r}",
    )
    expect(
        energies >= minimum - slack,
        f"an energy of the history, {energies.min()!r}, lies below the minimum {minimum!r}",
    )
    expect(bounds[1:] >= bounds[:-1], "bounds of the history fall")
    expect(energies[1:] <= energies[:-1], "energies of the history rise")
    expect(np.diff(history.seconds) >= 0, "seconds of the history go back")
    expect(np.diff(history.iteration) >= 0, "rounds of the history go back")


@check_of(SOLVER)
def check_optimal_means_optimal(
    solver: Any, crf: CRF, w: Weights, rng: np.random.Generator
) -> None:
    """Status optimal: the gap is closed, and the energy is the minimum.

    A closed gap is called optimal.
    """
    tol = 1e-6
    result = solve(crf, w, solver, max_iter=ROUNDS, time_limit=SECONDS, tol=tol)
    minimum = brute_force(crf, w)[1]
    if result.status is Status.OPTIMAL:
        expect(
            result.gap <= tol + 1e-9 * abs(result.energy),
            f"status optimal with a gap of {result.gap}",
        )
        expect_close(result.energy, minimum, "energy of an optimal result", tol=1e-5)
    expect(result.status is not Status.INFEASIBLE, "a feasible model is called infeasible")
    expect(
        result.gap > tol or result.status is Status.OPTIMAL,
        f"gap {result.gap}, but status {result.status.value!r}",
    )


@check_of(SOLVER, whole=True)
def check_infeasible_models_are_told(solver: Any, rng: np.random.Generator) -> None:
    """No result for an infeasible model is optimal or finite; a solver with bounds proves the
    obvious case.
    """
    taken = 0
    for number, (name, crf, w) in enumerate(infeasible_models()):
        if solver.refuses(crf) is not None:
            continue
        taken += 1
        result = solve(crf, w, solver, max_iter=ROUNDS, time_limit=SECONDS)
        expect(result.energy == np.inf, f"{name}: energy {result.energy}, expected inf")
        expect(result.status is not Status.OPTIMAL, f"{name}: status optimal")
        expect(not np.isnan(result.bound), f"{name}: the bound is NaN")
        expect(
            (result.status is Status.INFEASIBLE) == (result.bound == np.inf),
            f"{name}: status {result.status.value!r} with bound {result.bound}",
        )
        if number == 0 and solver.bounds:
            expect(
                result.status is Status.INFEASIBLE,
                f"{name}: status {result.status.value!r}, expected 'infeasible'",
            )
    if not taken:
        raise NotApplicable("refuses the infeasible models")


@check_of(SOLVER)
def check_same_seed_same_answer(
    solver: Any, crf: CRF, w: Weights, rng: np.random.Generator
) -> None:
    """Two runs with one seed and no clock give the same labels, energy, bound and rounds."""
    first, again = (solve(crf, w, solver, max_iter=5, seed=7) for _ in range(2))
    expect(
        np.array_equal(first.labels, again.labels),
        f"labels {first.labels.tolist()} and then {again.labels.tolist()}",
    )
    expect(
        (first.energy, first.bound, first.iterations)
        == (again.energy, again.bound, again.iterations),
        f"(energy, bound, rounds) {first.energy, first.bound, first.iterations} and then "
        f"{again.energy, again.bound, again.iterations}",
    )


@check_of(SOLVER)
def check_max_iter_is_kept(solver: Any, crf: CRF, w: Weights, rng: np.random.Generator) -> None:
    """No more rounds than allowed, and a valid result."""
    minimum = brute_force(crf, w)[1]
    for max_iter in (1, 3):
        result = solve(crf, w, solver, max_iter=max_iter, time_limit=SECONDS)
        expect(
            result.iterations <= max_iter, f"{result.iterations} rounds with max_iter={max_iter}"
        )
        _valid(result, crf, w, minimum)


@check_of(SOLVER)
def check_no_time_no_work(solver: Any, crf: CRF, w: Weights, rng: np.random.Generator) -> None:
    """time_limit=0 returns at once, a short limit is kept, and the result is valid: ask
    ``problem.stop()`` after every small piece of work.
    """
    minimum = brute_force(crf, w)[1]
    solve(crf, w, solver, max_iter=1)  # compiles what is compiled on first use
    for limit in (0.0, 0.02):
        result = expect_in_time(
            lambda limit=limit: solve(crf, w, solver, time_limit=limit),  # type: ignore[misc]
            limit + AT_ONCE,
            f"with time_limit={limit}",
        )
        _valid(result, crf, w, minimum)


@check_of(SOLVER, whole=True)
def check_the_model_is_untouched(solver: Any, rng: np.random.Generator) -> None:
    """Solving changes neither the model nor the weights."""
    # models that no other check has given away before
    for _, crf, w in solver_cases(solver, rng):
        with untouched(crf, w), suppress(NotApplicable):
            solve(crf, w, solver, max_iter=3, time_limit=SECONDS)


@check_of(SOLVER)
def check_initial_labels_are_not_made_worse(
    solver: Any, crf: CRF, w: Weights, rng: np.random.Generator
) -> None:
    """Started from the minimiser, no solver ends above the minimum."""
    labels, minimum = brute_force(crf, w)
    result = solve(crf, w, solver, initial=labels, max_iter=2, time_limit=SECONDS)
    expect_close(result.energy, minimum, "energy when started from the minimiser")
