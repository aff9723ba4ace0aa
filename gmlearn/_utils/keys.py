"""Keys of 64 bits: hash values, and matching by them."""

from __future__ import annotations

import numpy as np


def hashed(x: np.ndarray) -> np.ndarray:
    """Whole numbers as uint64 without any pattern: the finaliser of splitmix64."""
    x = (x.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def match(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """int (n,): for the k-th of several equal keys among `new` (n,), the place of the k-th among
    `old`; -1 where there is none.
    """
    order, to = np.argsort(old, kind="stable"), np.argsort(new, kind="stable")
    old, new = old[order], new[to]
    rank = np.arange(len(new)) - np.searchsorted(new, new)
    place = np.searchsorted(old, new) + rank
    found = place < len(old)
    found[found] = old[place[found]] == new[found]
    out = np.full(len(new), -1)
    out[to[found]] = order[place[found]]
    return out
