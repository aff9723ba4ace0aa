"""Checks of losses: Delta vanishes at the truth, is never negative, and its blocks add up to
-Delta.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np

from gmlearn.losses import WeightedHamming
from gmlearn.model.crf import CRF
from gmlearn.testing.brute_force import energy_table, joint_labels
from gmlearn.testing.kit import NotApplicable, cases_of, check_of, expect, expect_close
from gmlearn.testing.models import random_crf, random_labels, random_weights

LOSS = "loss"


@cases_of(LOSS)
def loss_cases(thing: Any, rng: np.random.Generator) -> Iterator[tuple[Any, CRF, np.ndarray]]:
    """(loss, crf, truth): the class's own examples, or the loss with its defaults on random
    models.
    """
    own = getattr(thing, "examples", None)
    if inspect.isclass(thing) and callable(own):
        yield from own(rng)
        return
    for options in ({"n_states": 3, "learnt": True}, {"n_triples": 2, "hard": 0.2}):
        crf, _ = random_crf(rng, n_vars=4, **options)
        loss = thing
        if inspect.isclass(thing):
            loss = WeightedHamming(rng.random(3)) if thing is WeightedHamming else thing()
        truth = random_labels(rng, crf)
        if _accepts(loss, crf, truth, _all(crf)):
            yield loss, crf, truth


def _accepts(loss: Any, crf: CRF, truth: np.ndarray, observed: np.ndarray) -> bool:
    """A ValueError says that a loss is not meant for a model, or not for hidden variables."""
    try:
        loss.value(crf, truth, truth, observed)
        loss.augment(crf, truth, observed)
    except ValueError:
        return False
    return True


def _all(crf: CRF) -> np.ndarray:
    return np.ones(crf.n_vars, bool)


def _some(crf: CRF, rng: np.random.Generator) -> np.ndarray:
    observed = rng.random(crf.n_vars) < 0.5
    observed[int(rng.integers(crf.n_vars))] = False
    return observed


@check_of(LOSS)
def check_zero_at_the_truth(
    loss: Any, crf: CRF, truth: np.ndarray, rng: np.random.Generator
) -> None:
    """Delta(truth, truth) = 0."""
    expect_close(loss.value(crf, truth, truth, _all(crf)), 0.0, "Delta(truth, truth)")


@check_of(LOSS)
def check_never_negative(loss: Any, crf: CRF, truth: np.ndarray, rng: np.random.Generator) -> None:
    """Delta(x, truth) >= 0, and finite."""
    for _ in range(20):
        x = random_labels(rng, crf)
        delta = loss.value(crf, x, truth, _all(crf))
        expect(
            np.isfinite(delta) and delta >= -1e-12,
            f"Delta({x.tolist()}, {truth.tolist()}) = {delta}",
        )


@check_of(LOSS)
def check_augmented_energy_is_energy_minus_delta(
    loss: Any, crf: CRF, truth: np.ndarray, rng: np.random.Generator
) -> None:
    """augment(crf, truth) has the energy E(x) - Delta(x, truth) for every x; also where
    variables are hidden.
    """
    w = random_weights(rng, crf)
    for observed in (_all(crf), _some(crf, rng)):
        if not observed.all() and not _accepts(loss, crf, truth, observed):
            continue
        augmented = loss.augment(crf, truth, observed)
        for _ in range(10):
            x = random_labels(rng, crf)
            expected = crf.energy(x, w) - loss.value(crf, x, truth, observed)
            expect_close(
                augmented.energy(x, w),
                expected,
                f"augmented energy at {x.tolist()}, truth {truth.tolist()}",
            )


@check_of(LOSS)
def check_the_model_is_untouched(
    loss: Any, crf: CRF, truth: np.ndarray, rng: np.random.Generator
) -> None:
    """augment makes another model; the given one, the truth and the mask stay as they are."""
    blocks = list(crf.blocks)
    unary = crf.unary.copy()
    constant = crf.constant
    given = truth.copy()
    loss.augment(crf, given, _all(crf))
    same = len(blocks) == len(crf.blocks) and all(a is b for a, b in zip(blocks, crf.blocks))
    expect(
        same and np.array_equal(unary, crf.unary) and constant == crf.constant,
        "augment changed the given model",
    )
    expect(np.array_equal(given, truth), "augment wrote to the truth")


@check_of(LOSS)
def check_blocks_are_fixed(
    loss: Any, crf: CRF, truth: np.ndarray, rng: np.random.Generator
) -> None:
    """The loss brings no weights of its own."""
    augmented = loss.augment(crf, truth, _all(crf))
    expect(
        augmented.layout == crf.layout,
        f"augmented model has weights {augmented.layout}, the model {crf.layout}",
    )


@check_of(LOSS)
def check_hidden_variables_are_ignored(
    loss: Any, crf: CRF, truth: np.ndarray, rng: np.random.Generator
) -> None:
    """Neither the labels nor the recorded truth of hidden variables change Delta."""
    for _ in range(10):
        observed = _some(crf, rng)
        if not _accepts(loss, crf, truth, observed):
            raise NotApplicable("the loss refuses hidden variables")
        x, other = random_labels(rng, crf), random_labels(rng, crf)
        delta = loss.value(crf, x, truth, observed)
        moved = loss.value(crf, np.where(observed, x, other), truth, observed)
        expect_close(moved, delta, "Delta after changing hidden labels")
        moved = loss.value(crf, x, np.where(observed, truth, other), observed)
        expect_close(moved, delta, "Delta after changing the truth of hidden variables")
    hidden = loss.value(crf, random_labels(rng, crf), truth, ~_all(crf))
    expect_close(hidden, 0.0, "Delta with every variable hidden")


@check_of(LOSS)
def check_loss_augmented_minimum(
    loss: Any, crf: CRF, truth: np.ndarray, rng: np.random.Generator
) -> None:
    """min over x of E - Delta, which training minimises, is what enumeration of E and Delta
    says.
    """
    w = random_weights(rng, crf)
    energy = energy_table(crf, w)
    delta = np.array(
        [loss.value(crf, x, truth, _all(crf)) for x in joint_labels(crf.n_states)]
    ).reshape(energy.shape)
    augmented = energy_table(loss.augment(crf, truth, _all(crf)), w)
    expect_close(augmented.min(), (energy - delta).min(), "minimum of the augmented energy")
