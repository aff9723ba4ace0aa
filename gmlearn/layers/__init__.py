"""Structured losses with gradients in the costs, and layers of them for neural networks.

`structured_loss` and `relaxed` know no framework; ``gmlearn.layers.jax`` and
``gmlearn.layers.torch`` wrap them.
"""

from gmlearn.layers.loss import LossPlan, structured_loss
from gmlearn.layers.relaxed import Relaxed, relaxed
from gmlearn.layers.results import LossResult, LossState

__all__ = ["LossPlan", "LossResult", "LossState", "Relaxed", "relaxed", "structured_loss"]
