"""The master: sees coordinates, indicators, values; knows no kind of block. One master serves
MAP and training.
"""

from gmlearn.master.ascent import ascend_bcfw
from gmlearn.master.dual import Dual, Round
from gmlearn.master.steps import Constant, Diminishing, Level, Polyak, StepRule, make_step_rule
from gmlearn.master.subgradient import ascend_subgradient

__all__ = [
    "Constant",
    "Diminishing",
    "Dual",
    "Level",
    "Polyak",
    "Round",
    "StepRule",
    "ascend_bcfw",
    "ascend_subgradient",
    "make_step_rule",
]
