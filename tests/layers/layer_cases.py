"""Models for the layers of all frameworks."""

from __future__ import annotations

import numpy as np

import gmlearn as gm

SIZES = (3, 5, 2)


def word(n, weight=None):
    crf = gm.CRF(n, 3)
    edges = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    crf.add(gm.Potts(edges, 0.4) if weight is None else gm.Potts(edges, weight=weight))
    return crf


def square(strength=0.4):
    """Four variables in a loop, with a clique over all of them."""
    crf = gm.CRF(4, 3)
    crf.add(gm.Potts([[0, 1], [1, 2], [2, 3], [0, 3]], strength))
    crf.add("pn_potts", cliques=[[0, 1, 2, 3]], beta=-0.5)
    return crf


def batch(sizes=SIZES, seed=0):
    """(unary costs, truths) of words."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, 3)) for n in sizes], [rng.integers(0, 3, n) for n in sizes]


def padded(arrays):
    """Arrays of different lengths as one, with zeros below."""
    longest = max(len(a) for a in arrays)
    return np.stack([np.pad(a, [(0, longest - len(a))] + [(0, 0)] * (a.ndim - 1)) for a in arrays])


def plain(crfs, unary, truths, kind, weights=None):
    """The mean loss and its gradient without any framework."""
    fed = [crf.copy().add_unary(u) for crf, u in zip(crfs, unary)]
    answer = gm.structured_loss(fed, truths, weights, kind=kind)
    return np.mean(answer.value), [g / len(crfs) for g in answer.unary], answer
