r"""Persistent labels of binary pairwise models, by max-flow on a doubled graph (QPBO).

Each variable has two nodes, one for x and one for 1 - x. A term that favours equal labels joins
nodes of one kind, any other term joins a node and a complement, so that all of them become arcs of
capacity >= 0. Where a minimum cut gives x and 1 - x different sides, x belongs to an optimum, and
all such labels belong to one optimum together (Hammer, Hansen and Simeone 1984; Boros and Hammer
2002).
"""

from __future__ import annotations

import numpy as np

from gmlearn.solvers.cuts.flow import FlowGraph


def doubled_graph(unary: np.ndarray, edges: np.ndarray, costs: np.ndarray) -> FlowGraph:
    """The graph of 2 V nodes, x_v at v and 1 - x_v at V + v, with half of every cost twice.

    Edge e becomes the edges e and E + e, mirror images of one another.
    """
    n = len(unary)
    first, second = edges[:, 0], edges[:, 1]
    strength = costs[1] + costs[2] - costs[0] - costs[3]
    opposed = strength < 0
    # as in `cut_costs`, with the second variable replaced by its complement where it is opposed
    one = unary[:, 1] - unary[:, 0]
    one += np.bincount(first, np.where(opposed, costs[3] - costs[1], costs[2] - costs[0]), n)
    one += np.bincount(second, costs[3] - costs[2], n)
    there = np.stack([first, second + n * opposed], axis=1)
    back = np.stack([second + n * ~opposed, first + n], axis=1)
    half = np.tile(0.5 * np.abs(strength), 2)
    return FlowGraph(2 * n, np.concatenate([there, back]), half, 0.5 * np.concatenate([one, -one]))


def persistent_labels(unary: np.ndarray, edges: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """int (V,): labels of one optimum, -1 where the relaxation leaves a label open.

    unary (V, 2), edges (E, 2), costs (4, E) as by `binary_edges`.
    """
    n = len(unary)
    graph = doubled_graph(unary, edges, costs)
    graph.run()
    zero = graph.source_side & np.roll(graph.sink_side, n)
    labels = np.where(zero[:n], 0, np.where(zero[n:], 1, -1))
    return _label_ties(graph, labels)


def _label_ties(graph: FlowGraph, labels: np.ndarray) -> np.ndarray:
    """Label the open variables that are in no cycle through their own complement.

    Nodes that the trees left free have equally good minimum cuts. A side is closed under residual
    arcs, so strongly connected components move as one; taken in reverse topological order, each
    goes to the source's side unless its complement is there. The flow is averaged with its mirror
    image first, which is a maximum flow as well, so that components have mirror images.
    """
    from gmlearn.solvers.cuts._components_numba import strong_components

    n = len(labels)
    inside = np.tile(labels < 0, 2)
    if not inside.any():
        return labels
    there, back = np.split(graph.place, 2)
    residual = graph.capacity.copy()
    for a, b in ((there, back), (graph.sister[there], graph.sister[back])):
        residual[a] = residual[b] = 0.5 * (graph.capacity[a] + graph.capacity[b])
    component = strong_components(graph.ptr, graph.head, residual > 0, inside)
    own, mirror = component[:n], component[n:]
    # the one of lower number is met first, and goes to the source's side: label 0 if it is x
    settled = (labels < 0) & (own != mirror)
    return np.where(settled, np.where(own < mirror, 0, 1), labels)
