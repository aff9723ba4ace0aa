"""Models with hard constraints over all variables, as strangers write them."""

from __future__ import annotations

import functools
import itertools

import numpy as np
from scipy.optimize import linear_sum_assignment

import gmlearn as gm


class AllDifferent(gm.Block):
    """inf unless the labels of a clique are all different."""

    name = "test_all_different"

    def __init__(self, variables):
        super().__init__(variables)

    def energy(self, x, w):
        equal = (np.diff(np.sort(x, axis=1), axis=1) == 0).any(axis=1)
        return np.where(equal, np.inf, 0.0)


class Hungarian(gm.SlaveSolver):
    """All different by the assignment problem, O(n^3)."""

    name = "test-hungarian"

    def refuses(self, block):
        return None if type(block) is AllDifferent else "not AllDifferent"

    def minimise(self, block, theta, w):
        labels, values = np.zeros(theta.shape[:2], np.int64), np.full(len(theta), np.inf)
        for m, costs in enumerate(theta):
            try:
                rows, columns = linear_sum_assignment(costs)
            except ValueError:  # infeasible
                continue
            labels[m, rows] = columns
            values[m] = costs[rows, columns].sum()
        return labels, values


class Arborescence(gm.Block):
    """One clique over n tokens; label h of token i is its head, 0 for the root, token h - 1 else.
    inf unless the heads form a tree.
    """

    name = "test_arborescence"

    def __init__(self, n_tokens):
        super().__init__([np.arange(n_tokens)])

    def energy(self, x, w):
        heads = np.concatenate([np.zeros((len(x), 1), np.int64), x], axis=1)
        at = heads
        for _ in range(x.shape[1]):
            at = np.take_along_axis(heads, at, axis=1)
        return np.where((at == 0).all(axis=1), 0.0, np.inf)


class SpanningTree(gm.SlaveSolver):
    """Minimum spanning arborescences by networkx."""

    name = "test-spanning-tree"

    def refuses(self, block):
        return None if type(block) is Arborescence else "not Arborescence"

    def minimise(self, block, theta, w):
        import networkx as nx

        labels, values = np.zeros(theta.shape[:2], np.int64), np.full(len(theta), np.inf)
        for m, costs in enumerate(theta):
            graph = nx.DiGraph()
            graph.add_nodes_from(range(costs.shape[0] + 1))
            heads = range(costs.shape[1])
            graph.add_weighted_edges_from(
                (h, i + 1, c)
                for i, row in enumerate(costs.tolist())
                for h, c in zip(heads, row)
                if h != i + 1 and np.isfinite(c)
            )
            try:
                tree = nx.minimum_spanning_arborescence(graph)
            except nx.NetworkXException:  # infeasible
                continue
            for head, token in tree.edges:
                labels[m, token - 1] = head
            values[m] = costs[np.arange(len(costs)), labels[m]].sum()
        return labels, values


def matching(seed, n, kind="distortion", block=AllDifferent):
    """Graph matching of n random points with a moved, noisy, renumbered copy.

    kind : "distortion", |d_ij - d'_kl|; "koopmans-beckmann", f_ij d'_kl with flows f_ij = 1 - d_ij.
    """
    rng = np.random.default_rng(seed)
    points = rng.random((n, 2))
    copy = points[rng.permutation(n)] + 0.05 * rng.normal(size=(n, 2))
    a, b = (np.linalg.norm(p[:, None] - p, axis=-1) for p in (points, copy))
    edges = np.array(list(itertools.combinations(range(n), 2)))
    own = a[edges[:, 0], edges[:, 1]][:, None, None]
    crf = gm.CRF(n, n).add_unary(0.05 * rng.random((n, n)))
    crf.add(gm.Pairwise(edges, table=np.abs(own - b) if kind == "distortion" else (1 - own) * b))
    crf.add(block([np.arange(n)]))
    return crf


def parse(seed, n):
    """Heads of n tokens with random arc costs, and random costs for heads of neighbours."""
    rng = np.random.default_rng(seed)
    costs = rng.normal(size=(n, n + 1))
    costs[np.arange(n), np.arange(n) + 1] = np.inf
    crf = gm.CRF(n, n + 1).add_unary(costs)
    next_to = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    crf.add(gm.Pairwise(next_to, table=rng.normal(size=(n - 1, n + 1, n + 1))))
    crf.add(Arborescence(n))
    return crf


@functools.cache
def register():
    """Make them known."""
    for thing in (AllDifferent, Arborescence, Hungarian(), SpanningTree()):
        gm.register(thing)
