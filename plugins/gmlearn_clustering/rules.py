"""How many clusters a new set has: the rules of the learner by name.

A rule is calibrated on training sets and chooses a clustering of a new set's distances (N, N).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

import gmlearn as gm
from gmlearn_clustering.calibration import (
    PathPoint,
    calibrated_rate,
    choose_point,
    clustering_path,
    path_point,
)
from gmlearn_clustering.distances import SampleDistances
from gmlearn_clustering.fee import calibrated_fee, penalty_of
from gmlearn_clustering.partitions import known_points
from gmlearn_clustering.potentials import exemplar_model


@dataclass(frozen=True)
class Training:
    """What a rule is calibrated on: training sets, clusters (-1: not known), learnt weights (F,),
    (sample, weights) -> the matrix that is clustered, how to learn weights anew (None: they are
    kept), and the penalty of training.
    """

    samples: Sequence[SampleDistances]
    partitions: Sequence[np.ndarray]
    weights: np.ndarray
    distances: Callable[[SampleDistances, np.ndarray], np.ndarray]
    refit: Callable[..., np.ndarray] | None
    penalty: Any
    seed: int


class NumberRule(Protocol):
    """A calibrated rule."""

    def choose(self, distances: np.ndarray, seed: int) -> PathPoint:
        """The clustering that the rule prefers."""


@dataclass(frozen=True)
class TransferRule:
    """The clustering of many penalties that costs least at a rate, see `calibration`; for sets with
    clusters of any size.
    """

    rate: float

    @classmethod
    def calibrated(cls, given: Training) -> TransferRule:
        known, clusters = known_points(given.samples, given.partitions)
        matrices = [given.distances(sample, given.weights) for sample in known]
        return cls(calibrated_rate(matrices, clusters, given.seed))

    def choose(self, distances: np.ndarray, seed: int) -> PathPoint:
        return choose_point(clustering_path(distances, self.rate, seed=seed), self.rate)


@dataclass(frozen=True)
class FeeRule:
    """A fee per exemplar of a graph distance, see `fee`."""

    fee: float

    @classmethod
    def calibrated(cls, given: Training) -> FeeRule:
        return cls(
            calibrated_fee(
                given.samples,
                given.partitions,
                given.weights,
                given.distances,
                given.refit,
                given.seed,
            )
        )

    def choose(self, distances: np.ndarray, seed: int) -> PathPoint:
        return at_penalty(distances, penalty_of(self.fee, len(distances)), seed)


@dataclass(frozen=True)
class TrainingRule:
    """The penalty d_qq of training, as in the paper."""

    penalty: Any

    @classmethod
    def calibrated(cls, given: Training) -> TrainingRule:
        return cls(given.penalty)

    def choose(self, distances: np.ndarray, seed: int) -> PathPoint:
        if np.ndim(self.penalty):
            raise ValueError(
                "distances: penalty='features' takes local scales from the points; use cluster(X)"
            )
        return at_penalty(distances, self.penalty, seed)


RULES: dict[str, Any] = {"transfer": TransferRule, "fee": FeeRule, "training": TrainingRule}


def at_penalty(distances: np.ndarray, penalty: float | np.ndarray, seed: int) -> PathPoint:
    """The clustering of least energy that is found with d_qq = penalty, a number or (N,)."""
    model = exemplar_model(np.asarray(distances), penalty)
    options: dict[str, Any] = {"method": "local", "seed": seed}
    found = gm.solve(model, solver="exemplar", **options)
    return path_point(distances, float(np.mean(penalty)), np.unique(found.labels))
