"""Completion: fill in the hidden labels of the samples at the current weights."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gmlearn.learn.batch import SampleBatch
from gmlearn.solvers import solve


def complete(
    batch: SampleBatch, k: int, w: Mapping[str, np.ndarray], solver: str, seed: int
) -> np.ndarray:
    """Labels (V,) of sample k that agree with the observed ones: by the sample's own completion, or
    by a clamped MAP problem.
    """
    sample, name = batch.samples[k], f"samples[{batch.first + k}]"
    named = {n: v for n, v in w.items() if n in sample.crf.layout.shapes}
    if sample.completion is None:
        clamped = sample.crf.clamp(sample.labels, sample.observed)
        answer = solve(clamped, named, solver=solver, seed=seed, initial=batch.truths[k])
        if not np.isfinite(answer.energy):
            raise ValueError(
                f"{name}: no completion of the hidden labels is feasible with the observed ones"
            )
        return answer.labels
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
    for k, sample in enumerate(batch.samples):
        if not sample.latent:
            continue
        found = complete(batch, k, named, solver, seed)
        own = {n: v for n, v in named.items() if n in sample.crf.layout.shapes}
        fall = sample.crf.energy(labels[k], own) - sample.crf.energy(found, own)
        if not batch.completed or fall >= 0:
            labels[k] = found
            drop += batch.weight * fall if batch.completed else 0.0
    batch.set_truth(np.concatenate(labels))
    first, batch.completed = not batch.completed, True
    return drop, first or bool((batch.truth != old).any())
