"""Small random models of every kind, and the enumeration that is their specification."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gmlearn as gm


class Weird(gm.RaggedBlock):
    """Cliques of any size that pay `rate` for each label different from the first member's: a
    stranger's potential.
    """

    name = "weird"
    per_clique = ("rate",)

    def __init__(self, cliques, rate, weight=None):
        super().__init__(cliques)
        self.rate, self.weight = np.asarray(rate, float), weight

    def segments(self):
        return {} if self.weight is None else {self.weight: ()}

    def _count(self, x):
        first = np.repeat(x[self.indptr[:-1]], self.sizes)
        return self.rate * np.bincount(self.owner, x != first, len(self))

    def energy(self, x, w):
        return self._count(x) * (1.0 if self.weight is None else w[self.weight])

    def features(self, x, weight=None):
        count = self._count(x)
        return (
            {}
            if self.weight is None
            else {self.weight: (count if weight is None else count * weight).sum()}
        )


def labellings(crf):
    """Every labelling of a model, in lexicographic order."""
    return (
        np.array(x, np.int64) for x in itertools.product(*(range(n) for n in crf.n_states.tolist()))
    )


def minimum(crf, weights=None):
    """(energy, labels) of the best labelling, the first of equals."""
    return min(
        ((crf.energy(x, weights), tuple(x.tolist())) for x in labellings(crf)),
        key=lambda pair: pair[0],
    )


def numbers(rng, shape, coarse=False):
    """Costs; coarse ones are small whole numbers, so that ties and zeros abound."""
    return rng.integers(-2, 3, size=shape).astype(float) if coarse else rng.normal(size=shape)


def some_edges(rng, n, m):
    """m different edges of n variables, in either direction."""
    pairs = np.array(list(itertools.combinations(range(n), 2)))
    chosen = pairs[rng.permutation(len(pairs))[:m]]
    return np.where(rng.random((len(chosen), 1)) < 0.5, chosen, chosen[:, ::-1])


def forbid(rng, table, share=0.2):
    """The table with some entries inf."""
    return np.where(rng.random(table.shape) < share, np.inf, table)


def random_model(rng, kind="pairwise", coarse=False):
    """(crf, weights). Kinds: pairwise, mixed (numbers of states), high-order, hard, tree,
    binary, constant.
    """
    n = 5
    states = (
        rng.integers(1, 4, n)
        if kind in ("mixed", "hard")
        else np.full(n, 2 if kind in ("binary", "high-order") else 3)
    )
    crf = gm.CRF(states)
    crf.add_unary([numbers(rng, s, coarse) for s in states])
    edges = np.array([[0, 1], [2, 1], [1, 3], [4, 3]]) if kind == "tree" else some_edges(rng, n, 7)
    weights = {}
    if kind in ("mixed", "hard"):
        tables = [numbers(rng, (states[a], states[b]), coarse) for a, b in edges]
        crf.add(gm.Table(edges, [forbid(rng, t) if kind == "hard" else t for t in tables]))
        if kind == "hard":
            crf.add_unary([forbid(rng, np.zeros(s), 0.15) for s in states])
        return crf, weights
    if kind == "binary":
        crf.add(gm.Potts(edges, np.abs(numbers(rng, len(edges), coarse))))
        return crf, weights
    half = len(edges) // 2
    crf.add(gm.Potts(edges[:half], numbers(rng, half, coarse), weight="smooth"))
    crf.add(gm.Truncated(edges[half:], 1.5, contrast=numbers(rng, len(edges) - half, coarse)))
    weights["smooth"] = np.array(0.7)
    if kind == "high-order":
        crf.add(gm.Table([[0, 1, 2], [4, 2, 3]], numbers(rng, (2, 2, 2, 2), coarse)))
        crf.add(Weird([[0, 3, 4, 1], [2, 4], [3]], numbers(rng, 3, coarse), weight="weird"))
        weights["weird"] = np.array(-0.8)
    if kind == "constant":
        crf.constant = -3.25
        crf.add(gm.Unary(numbers(rng, (n, 2), coarse), weight="u"))
        weights["u"] = numbers(rng, (3, 2), coarse)
    return crf, weights


KINDS = ("pairwise", "mixed", "high-order", "hard", "tree", "binary", "constant")


def frustrated_cycle(n=3, field=0.1):
    """A cycle of odd length whose edges all want different binary labels: the LP is not tight."""
    crf = gm.CRF(n, 2).add_unary(np.linspace(0, field, 2 * n).reshape(n, 2))
    crf.add(gm.Potts([[i, (i + 1) % n] for i in range(n)], -1.0))
    return crf


def impossible_model():
    """Three variables, two labels, all different: no labelling is possible."""
    crf = gm.CRF(3, 2)
    crf.add(gm.Table([[0, 1], [1, 2], [0, 2]], [[np.inf, 0.0], [0.0, np.inf]]))
    return crf


def seeds(n, daily):
    """`n` seeds, of which the first `daily` are tried in every run and the others in slow ones."""
    return [*range(daily), *(pytest.param(k, marks=pytest.mark.slow) for k in range(daily, n))]
