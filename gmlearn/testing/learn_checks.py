"""Checks of optimisers and trainers: the objective falls, bounds the hinge and the loss, and
runs can be repeated and resumed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gmlearn.learn import L2, NonNegative, Objective, Sample, TrainingOptions, build_objective
from gmlearn.model.crf import CRF
from gmlearn.potentials import Difference, Potts, Unary
from gmlearn.testing.brute_force import energy_table
from gmlearn.testing.kit import NotApplicable, cases_of, check_of, expect, expect_close

OPTIMIZER, TRAINER = "optimizer", "trainer"
SLACK = 1e-7
MU, PASSES = 0.1, 10


def small_samples(rng: np.random.Generator, n_samples: int = 3) -> list[Sample]:
    """Samples with learnt unary, Potts and difference potentials on a cycle of four variables,
    truths near the data.
    """
    samples = []
    for _ in range(n_samples):
        truth = rng.integers(0, 3, 4)
        crf = CRF(4, 3)
        crf.add(Unary(np.eye(3)[truth] + 0.7 * rng.normal(size=(4, 3)), "u"))
        edges = [[0, 1], [1, 2], [2, 3], [0, 3]]
        crf.add(Potts(edges, rng.random(4), "smooth"))
        crf.add(Difference(edges[:2], "V"))
        samples.append(Sample(crf, truth))
    return samples


def hinges(objective: Objective, w: np.ndarray) -> tuple[float, float]:
    """By enumeration: R(w) + sum of structured hinges, and R(w) + sum of the losses of the
    predictions.
    """
    hinge_total = delta_total = objective.regularization.value(w)
    for batch in objective.batches:
        for sample, loss, truth in zip(batch.samples, batch.losses, batch.truths):
            crf, observed = sample.crf, sample.observed
            weights = {name: objective.layout.split(w)[name] for name in crf.layout.shapes}
            augmented = energy_table(loss.augment(crf, sample.labels, observed), weights).min()
            hinge_total += batch.weight * (crf.energy(truth, weights) - augmented)
            table = energy_table(crf, weights)
            x = np.array(np.unravel_index(int(table.argmin()), table.shape))
            delta_total += batch.weight * loss.value(crf, x, truth, observed)
    return hinge_total, delta_total


# ---------------------------------------------------------------------- optimisers


@cases_of(OPTIMIZER)
def optimizer_cases(
    thing: Any, rng: np.random.Generator
) -> Iterator[tuple[Any, Sequence[Sample], TrainingOptions]]:
    """(optimiser class, samples, options): the hinge, the soft objective, and non-negative
    weights, unless refused.
    """
    samples = small_samples(rng)
    for temperature, constraints in (
        (0.0, None),
        (1.0, None),
        (0.0, {"smooth": NonNegative()}),
        (1.0, {"smooth": NonNegative()}),
    ):
        options = TrainingOptions(
            regularizer=L2(MU), temperature=temperature, constraints=constraints
        )
        if thing.refuses(build_objective(samples, options).regularization, temperature) is None:
            yield thing, samples, options


def _started(kind: Any, samples: Sequence[Sample], options: TrainingOptions, seed: int = 3) -> Any:
    objective = build_objective(samples, options)
    return kind(objective, objective.regularization.project(np.zeros(objective.layout.size)), seed)


def _passes(optimizer: Any, n: int) -> list[tuple[Any, np.ndarray]]:
    """Reports of n passes, each with the weights that its objective belongs to."""
    return [(optimizer.run(), np.array(optimizer.evaluated_w)) for _ in range(n)]


def _zero_objective(optimizer: Any) -> float:
    w = np.zeros(optimizer.objective.layout.size)
    return optimizer.objective.value(w, optimizer.objective.vertices(w))


@check_of(OPTIMIZER)
def check_the_objective_falls(
    kind: Any, samples: Sequence[Sample], options: TrainingOptions, rng: np.random.Generator
) -> None:
    """After ten passes the best reported objective is clearly below that of zero weights."""
    optimizer = _started(kind, samples, options)
    first = _zero_objective(optimizer)
    reported = [r.objective for r, _ in _passes(optimizer, PASSES) if r.objective is not None]
    expect(len(reported) > 0, f"no objective was reported in {PASSES} passes")
    expect(np.isfinite(reported), f"objectives {reported}")
    expect(
        min(reported) < 0.98 * first,
        f"best objective {min(reported)} after {PASSES} passes, {first} at zero weights",
    )


@check_of(OPTIMIZER)
def check_objective_bounds_hinge_bounds_loss(
    kind: Any, samples: Sequence[Sample], options: TrainingOptions, rng: np.random.Generator
) -> None:
    """In every pass objective >= R + hinges >= R + losses of the predictions, by enumeration."""
    optimizer = _started(kind, samples, options)
    for number, (report, w) in enumerate(_passes(optimizer, PASSES)):
        hinge, delta = hinges(optimizer.objective, w)
        expect(hinge >= delta - SLACK, f"pass {number}: hinges {hinge} below losses {delta}")
        if report.objective is not None:
            expect(
                report.objective >= hinge - SLACK,
                f"pass {number}: objective {report.objective} below the hinges {hinge}",
            )


@check_of(OPTIMIZER)
def check_lower_bounds_hold(
    kind: Any, samples: Sequence[Sample], options: TrainingOptions, rng: np.random.Generator
) -> None:
    """No reported lower bound exceeds a reported objective of the same problem."""
    reports = [r for r, _ in _passes(_started(kind, samples, options), PASSES)]
    bounds = [r.bound for r in reports if r.bound is not None]
    if not bounds:
        raise NotApplicable("reports no lower bounds")
    best = min(r.objective for r in reports if r.objective is not None)
    expect(
        max(bounds) <= best + SLACK * (1 + abs(best)),
        f"lower bound {max(bounds)} above the objective {best}",
    )


@check_of(OPTIMIZER)
def check_weights_stay_feasible(
    kind: Any, samples: Sequence[Sample], options: TrainingOptions, rng: np.random.Generator
) -> None:
    """After every pass the weights satisfy the constraints and are finite."""
    optimizer = _started(kind, samples, options)
    for number in range(PASSES):
        optimizer.run()
        for w in (optimizer.w, optimizer.evaluated_w):
            expect(np.isfinite(w), f"weights after pass {number} are not finite")
            expect_close(
                w,
                optimizer.objective.regularization.project(np.array(w)),
                f"weights after pass {number} against their projection",
            )


@check_of(OPTIMIZER)
def check_same_seed_same_weights(
    kind: Any, samples: Sequence[Sample], options: TrainingOptions, rng: np.random.Generator
) -> None:
    """Two runs with one seed agree bit by bit."""
    first, again = (_started(kind, samples, options) for _ in range(2))
    _passes(first, 4)
    _passes(again, 4)
    expect(np.array_equal(first.w, again.w), f"weights differ by {np.abs(first.w - again.w).max()}")


@check_of(OPTIMIZER)
def check_state_is_all_it_remembers(
    kind: Any, samples: Sequence[Sample], options: TrainingOptions, rng: np.random.Generator
) -> None:
    """A new optimiser that is given the state after three passes goes on as the old one does:
    checkpoints rely on it.
    """
    whole, begun = _started(kind, samples, options), _started(kind, samples, options)
    _passes(whole, 6)
    _passes(begun, 3)
    resumed = _started(kind, samples, options)
    state, batches = begun.snapshot()
    resumed.restore(state, [batch.arrays() for batch in batches])
    _passes(resumed, 3)
    expect_close(resumed.w, whole.w, "weights after resuming", tol=1e-12)


# ---------------------------------------------------------------------- trainers


@cases_of(TRAINER)
def trainer_cases(
    thing: Any, rng: np.random.Generator
) -> Iterator[tuple[Any, Sequence[Sample], dict[str, Any]]]:
    """(trainer, samples, options): its own ``examples(rng)``, or the kit's samples if it does
    not refuse them.
    """
    if callable(getattr(thing, "examples", None)):
        yield from ((thing, samples, options) for samples, options in thing.examples(rng))
        return
    samples = small_samples(rng)
    options = {"regularizer": L2(MU)}
    try:
        _train(thing, samples, options, max_iter=1)
    except ValueError:
        return
    yield thing, samples, options


def _train(
    trainer: Any,
    samples: Sequence[Sample],
    options: dict[str, Any],
    max_iter: int = PASSES,
    seed: int = 0,
) -> Any:
    return trainer.train(
        samples, TrainingOptions(**options, max_iter=max_iter, seed=seed, show_progress=False)
    )


@check_of(TRAINER)
def check_weights_fit_the_models(
    trainer: Any, samples: Sequence[Sample], options: dict, rng: np.random.Generator
) -> None:
    """Finite weights for every segment of the samples' models, so that it predicts."""
    model = _train(trainer, samples, options)
    for sample in samples:
        for name, shape in sample.crf.layout.shapes.items():
            expect(
                np.shape(model.weights[name]) == shape,
                f"weights[{name!r}]: {np.shape(model.weights[name])}, expected {shape}",
            )
            expect(np.isfinite(model.weights[name]), f"weights[{name!r}] are not finite")
    expect(np.isfinite(model.objective), f"objective {model.objective}")


@check_of(TRAINER)
def check_objective_bounds_the_hinge(
    trainer: Any, samples: Sequence[Sample], options: dict, rng: np.random.Generator
) -> None:
    """The model's objective >= R + hinges >= R + losses at its weights, by enumeration."""
    model = _train(trainer, samples, options)
    objective = build_objective(samples, TrainingOptions(**options))
    hinge, delta = hinges(objective, objective.layout.join(model.weights))
    expect(
        model.objective >= hinge - SLACK, f"objective {model.objective} below R + hinges {hinge}"
    )
    expect(hinge >= delta - SLACK, f"R + hinges {hinge} below R + losses {delta}")


@check_of(TRAINER)
def check_more_passes_are_not_worse(
    trainer: Any, samples: Sequence[Sample], options: dict, rng: np.random.Generator
) -> None:
    """The model of a longer run has no higher objective."""
    short, long = (_train(trainer, samples, options, max_iter=n).objective for n in (1, PASSES))
    expect(long <= short + SLACK, f"objective {short} after one pass, {long} after {PASSES}")


@check_of(TRAINER)
def check_same_seed_same_model(
    trainer: Any, samples: Sequence[Sample], options: dict, rng: np.random.Generator
) -> None:
    """Two runs with one seed have the same weights, and change no sample."""
    truths = [np.array(s.labels) for s in samples]
    first, again = (_train(trainer, samples, options, max_iter=4, seed=5).weights for _ in range(2))
    expect(
        all(np.array_equal(first[name], again[name]) for name in first),
        "weights differ between two runs with one seed",
    )
    expect(
        all(np.array_equal(s.labels, t) for s, t in zip(samples, truths)),
        "the samples' labels were written to",
    )
