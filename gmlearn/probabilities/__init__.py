"""Probabilities of labels, log Z between two bounds, the k best labellings, samples."""

from gmlearn.probabilities.api import marginals
from gmlearn.probabilities.auto import AutoMarginals
from gmlearn.probabilities.best import k_best
from gmlearn.probabilities.exact import BruteForceMarginals, EliminationMarginals, TreeMarginals
from gmlearn.probabilities.loopy_bp import LoopyBP
from gmlearn.probabilities.mean_field import MeanField
from gmlearn.probabilities.method import MarginalMethod, MarginalProblem, MethodRefusal
from gmlearn.probabilities.result import Marginals, MarginalStatus
from gmlearn.probabilities.samples import Samples, sample
from gmlearn.probabilities.trw import TRW

__all__ = [
    "TRW",
    "AutoMarginals",
    "BruteForceMarginals",
    "EliminationMarginals",
    "LoopyBP",
    "MarginalMethod",
    "MarginalProblem",
    "MarginalStatus",
    "Marginals",
    "MeanField",
    "MethodRefusal",
    "Samples",
    "TreeMarginals",
    "k_best",
    "marginals",
    "sample",
]
