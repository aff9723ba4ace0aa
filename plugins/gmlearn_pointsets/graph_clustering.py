"""Clustering of attributed graphs: nearest median graph and median of the members, by turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

import gmlearn as gm

from .graphs import Graph, GraphMatch, check_graph, graph_distance, median_graph
from .seeding import DistanceRows, k_means_plus_plus


@dataclass(frozen=True)
class GraphMatches:
    """matches[i][a], graph i against centre a; the nearest centres (I,) and their total energy."""

    matches: list[list[GraphMatch]]

    @property
    def distances(self) -> np.ndarray:
        return np.array([[match.distance for match in row] for row in self.matches])

    @property
    def labels(self) -> np.ndarray:
        return self.distances.argmin(axis=1)

    @property
    def energy(self) -> float:
        return float(self.distances.min(axis=1).sum())


class GraphClustering(TransformerMixin, ClusterMixin, BaseEstimator):
    r"""Cluster graphs whatever the order of their nodes: :math:`\min_{labels, H} \sum_i D(G_i,
    H_{label_i})`.

    D is the edit distance of `graph_distance` and every match is a ``gm.solve``. The centres are
    median graphs: their nodes and edges are means over what the members match to them, and an edge
    stays where most members have it. The paper on point sets (Gold, Mjolsness and Rangarajan 1993)
    names the clustering of graphs as its aim.

    Parameters
    ----------
    n_clusters : number of clusters.
    node_cost, edge_cost : of unmatched nodes and edges, in units of the squared numbers at them.
    n_init : starts from k-means++ under D; the lowest energy wins.
    max_iter : rounds of the alternation.   solver_iter : rounds of each ``gm.solve``
        (solver "bcfw").
    random_state : int, `numpy.random.RandomState` or None.

    Attributes
    ----------
    labels_ : int (I,).   energy_ : sum of distances to the own centre.   distances_ : (I, A).
    cluster_centers_ : list of `Graph`.   partners_ : list of int (J_i,), the node of the own centre
        for each node, -1 for none.   proved_ : share of the last matches proved optimal.

    Examples
    --------
    >>> none = np.zeros((4, 0))
    >>> path, star = [(0, 1), (1, 2), (2, 3)], [(0, 1), (0, 2), (0, 3)]
    >>> shuffled = [(2, 0), (0, 3), (3, 1)]
    >>> graphs = [(none, edges) for edges in (path, star, shuffled)]
    >>> labels = GraphClustering(2, random_state=0).fit(graphs).labels_
    >>> bool(labels[0] == labels[2] != labels[1])
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        node_cost: float = 1.0,
        edge_cost: float = 1.0,
        n_init: int = 2,
        max_iter: int = 20,
        solver_iter: int = 5,
        random_state: Any = None,
    ):
        self.n_clusters = n_clusters
        self.node_cost = node_cost
        self.edge_cost = edge_cost
        self.n_init = n_init
        self.max_iter = max_iter
        self.solver_iter = solver_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> GraphClustering:
        """Cluster the graphs X, a list as for `graph_distance`; y is ignored."""
        graphs = self._check(X)
        rng = np.random.default_rng(gm.check_random_state(self.random_state).randint(2**31))

        def to_all(index: int) -> np.ndarray:
            return np.array([self._distance(g, graphs[index]).distance for g in graphs])

        rows = DistanceRows(len(graphs), to_all)
        runs = []
        for _ in range(self.n_init):
            chosen = k_means_plus_plus(rows, self.n_clusters, rng)
            runs.append(self._alternate(graphs, [graphs[i] for i in chosen]))
        self.cluster_centers_, found = min(runs, key=lambda run: run[1].energy)
        self.labels_ = found.labels
        self.energy_ = found.energy
        self.distances_ = found.distances
        own = [row[label] for row, label in zip(found.matches, self.labels_)]
        self.partners_ = [match.partner for match in own]
        self.proved_ = float(np.mean([match.optimal for match in own]))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Nearest centre (I,) of each graph."""
        return self.transform(X).argmin(axis=1)

    def transform(self, X: Any) -> np.ndarray:
        """Distances (I, A) from graphs to centres."""
        check_is_fitted(self, "cluster_centers_")
        return self._match(_graphs(X), self.cluster_centers_).distances

    def plot(self, ax: Any = None) -> Any:
        """Centres with their members; see `gmlearn_pointsets.plots.plot_graphs`."""
        from .plots import plot_graphs

        check_is_fitted(self, "cluster_centers_")
        return plot_graphs(self.cluster_centers_, ax=ax)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # a sample is a graph
        return tags

    def _check(self, X: Any) -> list[Graph]:
        for name in ("n_clusters", "n_init", "max_iter", "solver_iter"):
            gm.check_number(name, getattr(self, name), low=1, integer=True)
        graphs = _graphs(X)
        if len(graphs) < self.n_clusters:
            raise ValueError(
                f"n_clusters: expected at most the number of graphs, {len(graphs)}, got "
                f"{self.n_clusters}"
            )
        return graphs

    def _distance(self, graph: Graph, centre: Graph) -> GraphMatch:
        return graph_distance(
            graph,
            centre,
            node_cost=self.node_cost,
            edge_cost=self.edge_cost,
            solver="bcfw",
            max_iter=self.solver_iter,
        )

    def _match(self, graphs: list[Graph], centres: list[Graph]) -> GraphMatches:
        return GraphMatches([[self._distance(g, centre) for centre in centres] for g in graphs])

    def _alternate(
        self, graphs: list[Graph], centres: list[Graph]
    ) -> tuple[list[Graph], GraphMatches]:
        """Until the energy stops falling; centres without members stay where they are."""
        found = self._match(graphs, centres)
        for _ in range(self.max_iter):
            moved = []
            for a, centre in enumerate(centres):
                members = np.flatnonzero(found.labels == a)
                own = [graphs[i] for i in members]
                partners = [found.matches[i][a].partner for i in members]
                moved.append(median_graph(own, partners, centre, self.edge_cost))
            better = self._match(graphs, moved)
            if better.energy >= found.energy * (1.0 - 1e-9):
                break
            centres, found = moved, better
        return centres, found


def _graphs(X: Any) -> list[Graph]:
    if not isinstance(X, list) or not X:
        raise ValueError(f"X: expected a list of graphs, got {type(X).__name__}")
    return [check_graph(f"X[{i}]", graph) for i, graph in enumerate(X)]
