"""Cliques of ordered labels: x_1 <= x_2 <= ... <= x_k, at a price for the rise."""

from gmlearn_monotone.potential import Monotone
from gmlearn_monotone.slave import MonotoneSlave

__all__ = ["Monotone", "MonotoneSlave"]
