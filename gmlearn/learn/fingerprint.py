"""What a checkpoint must agree with: the whole training problem, part by part.

Every part has a name and a digest, so that a mismatch names what differs. Arrays are hashed where
their samples live, once a run and only if there is a checkpoint.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gmlearn._utils.identify import digest, identify, identify_function
from gmlearn.learn.batch import SampleBatch
from gmlearn.learn.model import plain_settings
from gmlearn.learn.objective import Objective
from gmlearn.learn.sample import Sample
from gmlearn.learn.trainer import TrainingOptions
from gmlearn.model.crf import CRF

UNIDENTIFIED = "unidentified"


class UnidentifiedWarning(UserWarning):
    """A part of a training problem that a checkpoint cannot tell from another."""


def problem_fingerprint(
    objective: Objective, options: TrainingOptions, given: np.ndarray
) -> dict[str, Any]:
    """Names and digests of all that decides what training does, except how long it goes on.

    given : float (P,), the initial weights.
    """
    described = objective.each(describe_batch)
    parts: dict[str, Any] = {
        name: digest([d.get(name) for d in described])
        for name in sorted({name for d in described for name in d})
    }
    parts |= {
        "segments": {n: list(s) for n, s in objective.layout.shapes.items()},
        "samples": objective.n_samples,
        "initial weights": digest(given),
        "decomposition": _identified(options.decomposition),
        "seed": options.seed,
        "settings": plain_settings(options.settings),
        "temperature": options.temperature,
        "likelihood": options.likelihood,
        "start": _function_or_name(options.start),
        "n_init": options.n_init,
        "tol": options.tol,
        "patience": options.patience,
        "completion_every": options.completion_every,
        "completion_solver": options.completion_solver,
        "validation": _validation(options.validation),
        **objective.regularization.fingerprint(),
    }
    unknown = [name for name, part in parts.items() if part == UNIDENTIFIED]
    if unknown:
        warnings.warn(
            f"checkpoint: {', '.join(unknown)} cannot be identified; a change between two runs "
            f"would not be noticed",
            UnidentifiedWarning,
            stacklevel=2,
        )
    return parts


def describe_batch(batch: SampleBatch) -> dict[str, str]:
    """Digests of the parts of a batch, under the names that the error of a mismatch uses."""
    own = [s.completion for s in batch.samples if s.completion is not None]
    return {
        **describe_model(batch.model),
        "labels": digest([np.concatenate([s.labels for s in batch.samples]), _unknown(batch)]),
        "first completions": digest([s.start for s in batch.samples if s.start is not None]),
        "sample weights": digest(np.array([s.weight for s in batch.samples])),
        # its parameters, and what it adds to the costs
        "loss": digest([_distinct(batch.losses), batch.augmented.unary, batch.augmented.constant]),
        "slaves": identify(len(batch.dual.coords)),
        "completion": digest([identify_function(function) for function in own]),
    }


def describe_model(crf: CRF) -> dict[str, str]:
    """Digests of the variables, the costs, and the blocks of each potential."""
    parts: dict[str, list[str]] = {}
    for block in crf.blocks:
        try:
            state: Any = block.state()
        except ValueError:  # it goes into no file, so all of its attributes count
            state = vars(block)
        parts.setdefault(f"blocks {block.name!r}", []).append(_identified(state))
    found = {name: digest(blocks) for name, blocks in parts.items()}
    return {"variables": digest(crf.n_states), "unary costs": digest([crf.unary, crf.constant])} | (
        found
    )


def _unknown(batch: SampleBatch) -> list[tuple[int, np.ndarray]]:
    """The samples of which not all labels are given, and the labels that each variable may have."""
    given = [sample.hidden is None and sample.allowed is None for sample in batch.samples]
    return [(k, batch.samples[k].possible) for k, known in enumerate(given) if not known]


def _distinct(things: Iterable[Any]) -> list[str]:
    """Each of the things once, by their texts; the samples mostly share one object."""
    return sorted({_identified(thing) for thing in {id(t): t for t in things}.values()})


def _identified(thing: Any) -> str:
    try:
        return identify(thing)
    except ValueError:
        return UNIDENTIFIED


def _function_or_name(thing: Any) -> str:
    return identify_function(thing) if callable(thing) else repr(thing)


def _validation(validation: Any) -> str:
    """A function by its name and code, samples by their models and labels."""
    if validation is None:
        return "none"
    if callable(validation):
        return identify_function(validation)
    samples: Sequence[Sample] = validation
    return digest([[describe_model(s.crf), np.asarray(s.labels)] for s in samples])
