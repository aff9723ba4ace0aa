"""Learning: one objective, many optimisers. Sees slave groups and completion; no kind of sample."""

from gmlearn.learn.history import TrainingHistory
from gmlearn.learn.model import TrainedModel, load
from gmlearn.learn.objective import Objective
from gmlearn.learn.optimizers import Optimizer, PassReport
from gmlearn.learn.prior import (
    L1,
    L2,
    Box,
    ConvexSet,
    ElasticNet,
    Fixed,
    GroupL2,
    NonNegative,
    NoRegularizer,
    Projection,
    Regularizer,
    Simplex,
)
from gmlearn.learn.sample import LazySamples, Sample
from gmlearn.learn.trainer import Trainer, TrainingOptions, build_objective, train

__all__ = [
    "L1",
    "L2",
    "Box",
    "ConvexSet",
    "ElasticNet",
    "Fixed",
    "GroupL2",
    "LazySamples",
    "NoRegularizer",
    "NonNegative",
    "Objective",
    "Optimizer",
    "PassReport",
    "Projection",
    "Regularizer",
    "Sample",
    "Simplex",
    "TrainedModel",
    "Trainer",
    "TrainingHistory",
    "TrainingOptions",
    "build_objective",
    "load",
    "train",
]
