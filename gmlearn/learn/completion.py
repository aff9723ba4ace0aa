"""Completion: fill in the hidden labels of the samples at the current weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from gmlearn.learn.batch import SampleBatch
from gmlearn.learn.sample import Sample, check_start
from gmlearn.model.crf import CRF
from gmlearn.solvers import solve
from gmlearn.solvers.many import solve_forests


def complete(
    batch: SampleBatch, w: Mapping[str, np.ndarray], solver: str, seed: int
) -> dict[int, np.ndarray]:
    """Labels (V,) of each latent sample that agree with what is known of it: by the sample's own
    completion, or by a clamped MAP problem.
    """
    latent = [k for k, sample in enumerate(batch.samples) if sample.latent]
    own = [k for k in latent if batch.samples[k].completion is not None]
    rest = [k for k in latent if batch.samples[k].completion is None]
    found = {k: own_completion(batch, k, w) for k in own}
    models = [clamped(batch.samples[k]) for k in rest]
    together = solve_forests(models, w) if models and solver in ("auto", "tree") else None
    for i, k in enumerate(rest):
        named = {n: v for n, v in w.items() if n in models[i].layout.shapes}
        answer = (
            solve(models[i], named, solver=solver, seed=seed, initial=batch.truths[k])
            if together is None
            else together[i]
        )
        if not np.isfinite(answer.energy):
            raise ValueError(
                f"samples[{batch.first + k}]: no completion of the hidden labels is feasible with "
                f"the observed ones"
            )
        found[k] = answer.labels
    return found


def clamped(sample: Sample) -> CRF:
    """The model of a sample without the labels that are not possible."""
    crf = sample.crf.copy()
    crf.unary = np.where(sample.possible, crf.unary, np.inf)
    return crf


def own_completion(batch: SampleBatch, k: int, w: Mapping[str, np.ndarray]) -> np.ndarray:
    """What the completion of sample k says, checked."""
    sample, name = batch.samples[k], f"samples[{batch.first + k}]"
    named = {n: v for n, v in w.items() if n in sample.crf.layout.shapes}
    assert sample.completion is not None
    labels = np.asarray(sample.completion(sample, named))
    if labels.shape != (sample.crf.n_vars,):
        raise ValueError(
            f"{name}.completion: expected labels of shape ({sample.crf.n_vars},), got "
            f"{labels.shape}"
        )
    try:
        labels = sample.crf.check_labels(labels)
    except ValueError as error:
        raise ValueError(f"{name}.completion: {error}") from None
    changed = np.flatnonzero((labels != sample.labels) & sample.observed)
    if sample.hidden is not None and len(changed):
        v = int(changed[0])
        raise ValueError(
            f"{name}.completion: changed the observed label of variable {v} from "
            f"{int(sample.labels[v])} to {int(labels[v])}"
        )
    return labels


def take_completion(
    batch: SampleBatch, w: np.ndarray, solver: str, seed: int
) -> tuple[float, bool]:
    """Complete the latent samples of a batch: how much the objective fell, and whether a truth is
    another one now. A completion that is no better is not taken.
    """
    if not batch.latent:
        return 0.0, False
    named, old, drop = batch.layout.split(w), batch.truth, 0.0
    labels = batch.truths
    for k, found in complete(batch, named, solver, seed).items():
        sample = batch.samples[k]
        own = {n: v for n, v in named.items() if n in sample.crf.layout.shapes}
        fall = sample.crf.energy(labels[k], own) - sample.crf.energy(found, own)
        if not batch.completed or fall >= 0:
            labels[k] = found
            drop += sample.weight * fall if batch.completed else 0.0
    batch.set_truth(np.concatenate(labels))
    first, batch.completed = not batch.completed, True
    return drop, first or bool((batch.truth != old).any())


#: what `gmlearn.train` takes as `start`
STARTS = ("auto", "zero", "labels", "random")
Start = str | Callable[[Sample], np.ndarray]


def take_start(batch: SampleBatch, start: Start, w: np.ndarray, solver: str, seed: int) -> None:
    """The first completion of the latent samples of a batch.

    start : "zero", the cheapest one at the weights `w`; "labels", those of the sample; "random",
        the cheapest one at random costs; a function of the sample. What a sample says itself goes
        first, then its own completion.
    """
    take_completion(batch, w, solver, seed)
    labels = batch.truths
    for k, sample in enumerate(batch.samples):
        number = batch.first + k
        if not sample.latent:
            continue
        if sample.start is not None:
            labels[k] = sample.start
        elif sample.completion is None and start != "zero":
            labels[k] = _started(number, sample, start, solver, seed)
    batch.set_truth(np.concatenate(labels))


def _started(k: int, sample: Sample, start: Start, solver: str, seed: int) -> np.ndarray:
    """The first completion of sample k."""
    if start == "random":
        # random costs, not random labels: hard constraints still hold
        model = clamped(sample)
        model.unary = model.unary + np.random.default_rng([seed, k]).random(model.n_coords)
        zero = {name: np.zeros(shape) for name, shape in model.layout.shapes.items()}
        return solve(model, zero, solver=solver, seed=seed).labels
    given = sample.given if start == "labels" else start(sample)  # type: ignore[operator]
    try:
        return check_start(sample, given)
    except ValueError as error:
        raise ValueError(f"samples[{k}].{error}") from None
