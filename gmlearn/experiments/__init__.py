"""Experiments that anyone can repeat with ``gmlearn run NAME``."""

from gmlearn.experiments.base import Experiment, Run, mean_and_error

__all__ = ["Experiment", "Run", "mean_and_error"]
