"""Experiments that anyone can repeat with ``gmlearn run NAME``."""

from gmlearn.experiments.base import Experiment, Run, mean_and_error
from gmlearn.experiments.scores import (
    clustering_accuracy,
    contingency_table,
    normalised_mutual_information,
)

__all__ = [
    "Experiment",
    "Run",
    "clustering_accuracy",
    "contingency_table",
    "mean_and_error",
    "normalised_mutual_information",
]
