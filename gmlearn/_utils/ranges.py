"""Consecutive whole numbers, many runs of them at once."""

from __future__ import annotations

import numpy as np


def ranges(start: np.ndarray, count: np.ndarray) -> np.ndarray:
    """start[0], start[0] + 1, ..., `count[0]` of them, then those of start[1], and so on."""
    return np.repeat(start - (np.cumsum(count) - count), count) + np.arange(int(count.sum()))
