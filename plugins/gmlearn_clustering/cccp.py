"""Latent structural SVM by CCCP: ``gm.train(samples, method="cccp")``.

The objective R(w) + sum_k c_k [min over hidden of E(x^k; w) - min over x of (E - Delta)(x; w)] is
a difference of convex functions. The concave-convex procedure (Yu and Joachims 2009) alternates:
complete the hidden labels at w; with these labels held, solve the convex problem to the end.
Max-margin training by dual decomposition mixes the two, a completion every few rounds. The
objective never rises from one completion to the next as long as the convex problems are solved.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import gmlearn as gm


class ConcaveConvex(gm.Trainer):
    """CCCP over any registered optimiser.

    Settings: `n_completions` (10) at most; training ends when one lowers the objective by less than
    `completion_tol` (1e-4), relatively. `max_iter` and `tol` are those of each convex problem.
    """

    name = "cccp"

    def train(self, samples: Sequence[gm.Sample], options: gm.TrainingOptions) -> gm.TrainedModel:
        settings = dict(options.settings)
        most = settings.pop("n_completions", 10)
        tol = settings.pop("completion_tol", 1e-4)
        gm.check_number("completion_tol", tol, low=0.0)
        gm.check_number("n_completions", most, low=1, integer=True)
        if options.checkpoint is not None:
            raise ValueError("checkpoint: method 'cccp' keeps none; leave it out")
        inner = {f.name: getattr(options, f.name) for f in dataclasses.fields(options)}
        inner.pop("settings")
        weights = self._start(samples, options)
        best: gm.TrainedModel | None = None
        for _ in range(most):
            held = [_completed(sample, weights, options) for sample in samples]
            inner["weights"] = weights
            found = gm.train(held, **inner, **settings)
            fall = np.inf if best is None else best.objective - found.objective
            if fall > 0.0:
                best = found
            if fall <= tol * abs(found.objective):
                break
            weights = dict(found.weights)
        assert best is not None
        best.settings = {**best.settings, "method": self.name}
        return best

    @staticmethod
    def _start(samples: Sequence[gm.Sample], options: gm.TrainingOptions) -> dict[str, np.ndarray]:
        """The weights at which the first completion is made: those given, 0 where none are."""
        start: dict[str, np.ndarray] = {}
        for sample in samples:
            for name, shape in sample.crf.layout.shapes.items():
                start.setdefault(name, np.zeros(shape))
        start.update({name: np.asarray(w) for name, w in (options.weights or {}).items()})
        return start

    def examples(self, rng: np.random.Generator) -> list[tuple[list[gm.Sample], dict[str, Any]]]:
        """Chains, all labels known: one convex problem."""
        samples = []
        for _ in range(3):
            crf = gm.CRF(4, 2)
            crf.add(gm.Unary(rng.normal(size=(4, 2))))
            crf.add(gm.Potts([[0, 1], [1, 2], [2, 3]], weight="smooth"))
            samples.append(gm.Sample(crf, rng.integers(0, 2, 4)))
        return [(samples, {"regularizer": gm.L2(0.1)})]


def _completed(
    sample: gm.Sample, weights: Mapping[str, np.ndarray], options: gm.TrainingOptions
) -> gm.Sample:
    """The sample with its hidden labels filled in at `weights`; they stay hidden to the loss."""
    if not sample.latent:
        return sample
    own = {n: w for n, w in weights.items() if n in sample.crf.layout.shapes}
    if sample.completion is not None:
        labels = np.asarray(sample.completion(sample, own))
    else:
        clamped = sample.crf.clamp(np.asarray(sample.labels), sample.observed)
        labels = gm.solve(clamped, own, solver=options.completion_solver, seed=options.seed).labels

    def held(_: gm.Sample, __: Mapping[str, np.ndarray]) -> np.ndarray:
        return labels

    return dataclasses.replace(sample, completion=held)
