"""Losses: they emit blocks with the sign turned and never solve anything."""

from gmlearn.losses.base import Loss, NoLoss
from gmlearn.losses.labels import Hamming, LabelDistance, WeightedHamming

__all__ = ["Hamming", "LabelDistance", "Loss", "NoLoss", "WeightedHamming"]
