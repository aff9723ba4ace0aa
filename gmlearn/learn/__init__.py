"""Learning: one objective, many optimisers. Sees slave groups and completion; no kind of sample."""

from gmlearn.learn.convex_sets import Box, ConvexSet, Fixed, NonNegative, Projection, Simplex
from gmlearn.learn.history import TrainingHistory
from gmlearn.learn.model import TrainedModel, load
from gmlearn.learn.objective import Objective
from gmlearn.learn.optimizers import Optimizer, OptimizerState, PassReport
from gmlearn.learn.regularization import Regularization
from gmlearn.learn.regularizers import L1, L2, ElasticNet, GroupL2, NoRegularizer, Regularizer
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
    "OptimizerState",
    "PassReport",
    "Projection",
    "Regularization",
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
