"""What a checkpoint must agree with: the whole training problem, part by part.

Every part has a name and a digest, so that a mismatch names what differs. Arrays are hashed where
their samples live, once a run and only if there is a checkpoint.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gmlearn._utils.identify import UNIDENTIFIED, Walk, digest, identify_function
from gmlearn.learn.batch import SampleBatch
from gmlearn.learn.model import plain_settings
from gmlearn.learn.objective import Objective
from gmlearn.learn.sample import Sample
from gmlearn.learn.trainer import TrainingOptions
from gmlearn.model.crf import CRF


class UnidentifiedWarning(UserWarning):
    """A part of a training problem that a checkpoint cannot tell from another."""


def problem_fingerprint(
    objective: Objective, options: TrainingOptions, given: np.ndarray
) -> dict[str, Any]:
    """Names and digests of all that decides what training does, except how long it goes on.

    given : float (P,), the initial weights.
    """
    described = objective.each(describe_batch)
    parts: dict[str, Any] = {}
    for name in sorted({name for part in described for name in part}):
        parts[name] = _digest(part.get(name, Walk()) for part in described)
    parts |= {
        "segments": {n: list(s) for n, s in objective.layout.shapes.items()},
        "samples": objective.n_samples,
        "initial weights": digest(given),
        "decomposition": _digest([walked(options.decomposition)]),
        "seed": options.seed,
        "settings": plain_settings(options.settings),
        "temperature": options.temperature,
        "likelihood": options.likelihood,
        "start": _function_or_name(options.start),
        "n_init": options.n_init,
        "tol": options.tol,
        "patience": options.patience,
        "completion_every": options.completion_every,
        "completion_solver": _digest([walked(options.completion_solver)]),
        "validation": _validation(options.validation),
        **objective.regularization.fingerprint(),
    }
    unknown = [name for name, part in parts.items() if UNIDENTIFIED in str(part)]
    if unknown:
        warnings.warn(
            f"checkpoint: {', '.join(unknown)} cannot be identified; a change between two runs "
            f"would not be noticed",
            UnidentifiedWarning,
            stacklevel=2,
        )
    return parts


def describe_batch(batch: SampleBatch) -> dict[str, Walk]:
    """What the parts of a batch are, under the names that the error of a mismatch uses."""
    special = [
        (k, s)
        for k, s in enumerate(batch.samples)
        if s.hidden is not None
        or s.allowed is not None
        or s.start is not None
        or s.completion is not None
    ]
    known = np.concatenate([s.labels for s in batch.samples]) if special else batch.truth
    parts = describe_model(batch.model)
    parts["slaves"] = walked(len(batch.dual.coords))
    parts["sample weights"] = walked(batch.weight, batch.shares)
    parts["loss"] = _losses(batch)
    parts["labels"] = walked(known, *((k, s.possible) for k, s in special))
    if special:
        own = [(k, s.completion) for k, s in special if s.completion is not None]
        parts["first completions"] = walked(*((k, s.start) for k, s in special))
        parts["completion"] = walked(*((k, identify_function(function)) for k, function in own))
    return parts


def describe_model(crf: CRF) -> dict[str, Walk]:
    """What the variables, the costs, and the blocks of each potential are."""
    parts = {
        "variables": walked(crf.n_states, crf.parts),
        "unary costs": walked(crf.unary, crf.constant),
    }
    for block in crf.blocks:
        try:
            state: Any = block.state()
        except ValueError:  # it goes into no file, so all of its attributes count
            state = vars(block)
        parts.setdefault(f"blocks {block.name!r}", Walk()).try_add((type(block), state))
    return parts


def walked(*things: Any) -> Walk:
    """A walk through some things."""
    walk = Walk()
    for thing in things:
        walk.try_add(thing)
    return walk


def _losses(batch: SampleBatch) -> Walk:
    """The parameters of the samples' losses, mostly one object, and what they add to the costs."""
    model, augmented, losses = batch.model, batch.augmented, batch.losses
    walk = walked(losses[0])
    if len(set(map(id, losses))) > 1:
        number = {id(loss): k for k, loss in reversed([*enumerate(losses)])}
        walk = walked(*(losses[k] for k in number.values()), [number[id(loss)] for loss in losses])
    if augmented is not model:
        walk.add((augmented.unary, augmented.constant))
        if [len(block) for block in augmented.blocks] != [len(block) for block in model.blocks]:
            walk = Walk.merged([walk, *describe_model(augmented).values()])
    return walk


def _function_or_name(thing: Any) -> str:
    return identify_function(thing) if callable(thing) else repr(thing)


def _validation(validation: Any) -> str:
    """A function by its name and code, samples by their models and labels."""
    if validation is None:
        return "none"
    if callable(validation):
        return identify_function(validation)
    samples: Sequence[Sample] = validation
    described = [{**describe_model(s.crf), "labels": walked(np.asarray(s.labels))} for s in samples]
    return _digest(walk for parts in described for walk in parts.values())


def _digest(walks: Iterable[Walk]) -> str:
    """32 characters, and a mark if there is something that cannot be identified."""
    text = Walk.merged(walks).text()
    return digest(text) + UNIDENTIFIED * (UNIDENTIFIED in text)
