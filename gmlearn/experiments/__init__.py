"""Experiments that anyone can repeat with ``gmlearn run NAME``."""

from gmlearn.experiments.base import Experiment, Run

__all__ = ["Experiment", "Run"]
