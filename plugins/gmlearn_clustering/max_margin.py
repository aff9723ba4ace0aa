"""Max-margin weights: training of the exemplar energy by dual decomposition (Komodakis 2011)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import gmlearn as gm
from gmlearn_clustering.distances import SampleDistances
from gmlearn_clustering.losses import ClusteringLoss
from gmlearn_clustering.potentials import DISTANCE, PENALTY, local_scales
from gmlearn_clustering.slaves import training_sample

#: optimisers whose first steps can be set
_STEPPED = ("subgradient", "stochastic", "incremental")


class Trained(NamedTuple):
    """Weights (F,), the penalty d_qq (a number, or the weights v of its features), and the
    objective by round.
    """

    weights: np.ndarray
    penalty: Any
    objective: list[float]


@dataclass(frozen=True)
class MaxMargin:
    """One slave per point and per true cluster; the exemplars of the true partitions are latent.

    The settings are those of `ExemplarClusteringLearner`. A round costs about the distances' matrix
    product, O(N^2 F) time and O(N^2) memory a sample.
    """

    alpha: float
    beta: float
    tau: float
    regularizer: Any
    constraints: Any
    method: str
    optimizer: str
    n_jobs: int
    penalty: Any
    n_rounds: int
    n_inner: int
    step: float
    lambda_step: float

    def __post_init__(self) -> None:
        for name in ("alpha", "beta", "tau"):
            gm.check_number(name, getattr(self, name), low=0.0, high=1e100)
        for name in ("step", "lambda_step"):
            gm.check_number(name, getattr(self, name), low=0.0, strict=True)
        for name in ("n_rounds", "n_inner"):
            gm.check_number(name, getattr(self, name), low=1, integer=True)
        if isinstance(self.regularizer, str):
            gm.check_choice("regularizer", self.regularizer, ("l1", "l2"))
        if isinstance(self.constraints, str):
            gm.check_choice("constraints", self.constraints, ("nonnegative", "none"))
        if not self.learns_penalty:
            gm.check_number("penalty", self.penalty, low=-1e100, high=1e100)

    @property
    def learns_penalty(self) -> bool:
        """Is d_qq learnt, by one weight or by features?"""
        return isinstance(self.penalty, str) and self.penalty in ("learn", "features")

    def train(
        self, samples: Sequence[SampleDistances], partitions: Sequence[np.ndarray], seed: int
    ) -> Trained:
        """Weights from samples and their clusters (-1: not known); the objective is per point."""
        steps: dict[str, Any] = {}
        if self.optimizer in _STEPPED:
            steps = {"step": self.step, "lambda_step": self.lambda_step}
        found = gm.train(
            self._problem(samples, partitions),
            loss=ClusteringLoss(self.alpha, self.beta),
            decomposition="exemplar",
            method=self.method,
            optimizer=self.optimizer,
            n_jobs=self.n_jobs,
            max_iter=self.n_rounds,
            tol=0.0,
            completion_every=self.n_inner,
            seed=seed,
            show_progress=False,
            **self._by_segment(samples[0].n_features),
            **steps,
        )
        penalty = self.penalty
        if self.learns_penalty:
            own = found.weights[PENALTY]
            penalty = own if self.penalty == "features" else float(own[0])
        objective = [float(value) for value in found.history.evaluated()]
        return Trained(found.weights[DISTANCE], penalty, objective)

    def _problem(
        self, samples: Sequence[SampleDistances], partitions: Sequence[np.ndarray]
    ) -> list[gm.Sample]:
        weight = 1.0 / sum(int((truth >= 0).sum()) for truth in partitions)
        loss = ClusteringLoss(self.alpha, self.beta)
        penalty = None if self.learns_penalty else float(self.penalty)
        problem = []
        for sample, truth in zip(samples, partitions):
            features = local_scales(sample) if self.penalty == "features" else None
            problem.append(training_sample(sample, truth, penalty, weight, loss, features))
        return problem

    def _by_segment(self, n_features: int) -> dict[str, Any]:
        """Start, regulariser and set of the distances' weights, and of the penalty's."""
        regularizer, constraints = self.regularizer, self.constraints
        if isinstance(regularizer, str):
            regularizer = gm.L1(self.tau) if regularizer == "l1" else gm.L2(self.tau)
        if isinstance(constraints, str):
            constraints = gm.NonNegative() if constraints == "nonnegative" else None
        start = {DISTANCE: np.full(n_features, 1.0 / n_features)}
        regularizers: dict[str, Any] = {DISTANCE: regularizer}
        sets: dict[str, Any] = {} if constraints is None else {DISTANCE: constraints}
        if self.learns_penalty:
            start[PENALTY] = np.array([1.0, 0.0]) if self.penalty == "features" else np.ones(1)
            regularizers[PENALTY], sets[PENALTY] = gm.NoRegularizer(), gm.NonNegative()
        return {"weights": start, "regularizer": regularizers, "constraints": sets or None}
