"""Completion: fill in the hidden labels of the samples at the weights of now."""

from __future__ import annotations

import numpy as np

from gmlearn.learn.objective import SampleState
from gmlearn.solvers import solve


def complete(state: SampleState, w: np.ndarray, solver: str, seed: int) -> np.ndarray:
    """Labels (V,) that agree with the observed ones: the sample's own completion, or a clamped MAP problem."""
    sample = state.sample
    named = {n: v for n, v in state.layout.split(w).items() if n in sample.crf.layout.shapes}
    if sample.completion is not None:
        labels = np.asarray(sample.completion(sample, named))
        if labels.shape != (sample.crf.n_vars,):
            raise ValueError(
                f"samples[{state.index}].completion: expected labels of shape ({sample.crf.n_vars},), "
                f"got {labels.shape}"
            )
        try:
            labels = sample.crf.check_labels(labels)
        except ValueError as error:
            raise ValueError(f"samples[{state.index}].completion: {error}") from None
        if sample.hidden is not None and (labels != sample.labels)[sample.observed].any():
            v = int(np.flatnonzero((labels != sample.labels) & sample.observed)[0])
            raise ValueError(
                f"samples[{state.index}].completion: changed the observed label of variable {v} from "
                f"{int(sample.labels[v])} to {int(labels[v])}"
            )
        return labels
    clamped = sample.crf.clamp(sample.labels, sample.observed)
    answer = solve(clamped, named, solver=solver, seed=seed, initial=state.truth)
    if not np.isfinite(answer.energy):
        raise ValueError(
            f"samples[{state.index}]: no completion of the hidden labels is feasible with the observed ones"
        )
    return answer.labels


def take_completion(
    state: SampleState, w: np.ndarray, solver: str, seed: int
) -> tuple[float, bool]:
    """Complete a latent sample: how much the objective fell, and whether the truth is another one now.

    A completion that is no better is not taken.
    """
    if not state.sample.latent:
        return 0.0, False
    old, before = state.truth, state.truth_energy(w)
    state.set_truth(complete(state, w, solver, seed))
    if not state.completed:
        state.completed = True
        return 0.0, True
    drop = state.weight * (before - state.truth_energy(w))
    if drop < 0:
        state.set_truth(old)
    return max(drop, 0.0), bool((state.truth != old).any())
