"""Structured losses with gradients in the costs, and layers of them for neural networks.

`structured_loss` and `relaxed` know no framework; ``gmlearn.layers.jax`` and
``gmlearn.layers.torch`` wrap them.
"""

from gmlearn.layers.loss import LossPlan, LossResult, LossState, structured_loss
from gmlearn.layers.relaxed import Relaxed, relaxed

__all__ = ["LossPlan", "LossResult", "LossState", "Relaxed", "relaxed", "structured_loss"]
