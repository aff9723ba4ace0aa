"""Partitions of signed graphs: greedy additive contraction, and Kernighan-Lin chains.

Greedy additive edge contraction joins the two clusters with the largest sum of costs between them
until none is positive; O(M log M) on sparse graphs. Kernighan-Lin with joins and splits (Keuper et
al., "Efficient decomposition of image and mesh graphs by lifted multicuts", 2015) improves any
partition pair of clusters by pair of clusters.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gmlearn_multicut.graph import EdgeGraph

#: rounds over all pairs of clusters, and moves in a chain without improvement, at most
_MOST_ROUNDS, _PATIENCE = 30, 60


def greedy_contraction(graph: EdgeGraph) -> np.ndarray:
    """Labels 0..k-1 (n,) of the partition that greedy contraction ends with."""
    from gmlearn_multicut import _primal_numba as kernels

    found = kernels.contract(graph.n_nodes, graph.edges[:, 0], graph.edges[:, 1], graph.cost)
    return np.unique(found, return_inverse=True)[1]


def kernighan_lin(
    graph: EdgeGraph,
    labels: np.ndarray,
    n_labels: int | None = None,
    stop: Callable[[], bool] | None = None,
) -> np.ndarray:
    """Labels 0..k-1 (n,) of a partition that is no worse than `labels` (n,).

    n_labels : clusters at most; `labels` has no more.   stop : asked between two pairs.
    """
    from gmlearn_multicut import _primal_numba as kernels

    label = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    most = graph.n_nodes if n_labels is None else n_labels
    place = np.full(graph.n_nodes, -1)
    order = np.argsort(label, kind="stable")
    starts = np.searchsorted(label[order], np.arange(1, label.max() + 1))
    members = list(np.split(order, starts))  # of every cluster; some become empty
    changed = set(range(len(members)))
    for _ in range(_MOST_ROUNDS):
        before, changed = changed, set()
        gained = 0.0
        for a, b in _pairs(graph, label):
            if stop is not None and stop():
                return np.unique(label, return_inverse=True)[1]
            if not {a, b} & (before | changed):
                continue  # nothing has happened to them since they were last looked at
            split = b < 0
            if split:  # the other side is a new cluster
                if sum(len(m) > 0 for m in members) >= most:
                    continue
                b = len(members)
                members.append(np.zeros(0, np.int64))
            nodes = np.sort(np.concatenate([members[a], members[b]]))
            gain = 0.0
            if len(nodes) > 1:
                gain = kernels.improve_pair(
                    *graph.adjacency, graph.cost, label, a, b, nodes, place, _PATIENCE
                )
            if gain > 0.0:
                gained += gain
                changed |= {a, b}
                members[a], members[b] = nodes[label[nodes] == a], nodes[label[nodes] == b]
            elif split:
                members.pop()
        if gained <= 1e-9 * max(1.0, float(np.abs(graph.cost).sum())):
            break
    return np.unique(label, return_inverse=True)[1]


def at_most(graph: EdgeGraph, labels: np.ndarray, n_labels: int) -> np.ndarray:
    """Labels (n,) with no more than `n_labels` clusters: the pairs that cost least to join are
    joined.
    """
    label = np.unique(labels, return_inverse=True)[1]
    while label.max(initial=0) >= n_labels:
        k = int(label.max()) + 1
        between = np.zeros((k, k))
        np.add.at(between, (label[graph.edges[:, 0]], label[graph.edges[:, 1]]), graph.cost)
        between += between.T
        between[np.tril_indices(k)] = -np.inf
        a, b = np.unravel_index(int(np.argmax(between)), between.shape)
        label = np.unique(np.where(label == b, a, label), return_inverse=True)[1]
    return label


def _pairs(graph: EdgeGraph, label: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of neighbouring clusters, and every cluster with -1 for a new one."""
    ends = np.sort(label[graph.edges], axis=1)
    apart = ends[ends[:, 0] != ends[:, 1]]
    pairs = np.unique(apart, axis=0) if len(apart) else np.zeros((0, 2), np.int64)
    return [*((int(a), int(b)) for a, b in pairs), *((int(a), -1) for a in np.unique(label))]
