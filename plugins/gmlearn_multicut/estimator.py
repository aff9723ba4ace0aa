"""Multicut: clusters of a signed graph, as many as its signs ask for; and learnt signs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

import gmlearn as gm
from gmlearn_multicut.graph import EdgeGraph
from gmlearn_multicut.losses import PairLoss
from gmlearn_multicut.potentials import multicut_model
from gmlearn_multicut.solver import METHODS, Incumbent, search


class Multicut(ClusterMixin, BaseEstimator):
    """Correlation clustering: minimise the sum of affinities between different clusters.

    The search of the registered solvers, on edges alone: a model for ``gm.solve`` would have up to
    N labels for each of N nodes.

    Parameters
    ----------
    solver : "multicut" (Kernighan-Lin, then cycle cuts until proved or out of effort),
        "kernighan-lin", or "gaec" (greedy contraction, the fastest).
    time_limit : seconds; None for no limit.

    Attributes
    ----------
    labels_ : (N,) clusters 0..k-1. n_clusters_ : k.
    energy_ : sum of the affinities that are cut. lower_bound_, gap_ : a valid bound, and energy_
        minus it.

    Examples
    --------
    >>> import numpy as np
    >>> from gmlearn_multicut import Multicut
    >>> affinity = np.array([[0, 2, -1], [2, 0, -0.5], [-1, -0.5, 0]])
    >>> Multicut().fit(affinity).labels_.tolist()
    [0, 0, 1]
    """

    def __init__(self, solver: str = "multicut", time_limit: float | None = None):
        self.solver = solver
        self.time_limit = time_limit

    def fit(self, X: Any, y: Any = None, *, edges: Any = None) -> Multicut:
        """Cluster the nodes.

        X : (N, N) signed affinities, dense or sparse, positive for pairs that belong together; 0:
            no edge; the mean of X_ij and X_ji counts, the diagonal does not. Or (M,) with `edges`;
            then +inf forbids to part the two.
        edges : int (M, 2), for X of shape (M,); nodes are 0 .. the largest number.
        """
        gm.check_choice("solver", self.solver, METHODS)
        if self.time_limit is not None:
            gm.check_number("time_limit", self.time_limit, low=0.0)
        if edges is None:
            X = gm.validate_data(self, X, accept_sparse="coo", dtype=np.float64)
            graph = _affinity_graph(X)
            node = np.arange(graph.n_nodes)
        else:
            graph, node = _edge_list(X, edges)
        end = np.inf if self.time_limit is None else time.perf_counter() + self.time_limit
        found = Incumbent(graph, lambda: end - time.perf_counter())
        search(graph, self.solver, max(graph.n_nodes, 1), found)
        self.labels_ = np.unique(found.labels[node], return_inverse=True)[1]
        self.n_clusters_ = int(self.labels_.max()) + 1
        self.energy_ = found.energy
        self.lower_bound_ = min(found.bound, found.energy)  # they cross by rounding only
        self.gap_ = self.energy_ - self.lower_bound_
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True
        tags.input_tags.sparse = True
        return tags


class MulticutLearner(BaseEstimator):
    """Learn affinities w . f_pq + b from given partitions: correlation clustering trained as a
    structured SVM (Finley and Joachims 2005), by dual decomposition over cycles with the pair loss.

    Parameters
    ----------
    mu : weight of the regulariser mu / 2 |w|^2; the loss is a mean over pairs.
    max_iter : passes of training.   optimizer : of ``gm.train``.
    solver : as in `Multicut`, of `cluster`.   random_state : int, `numpy.random.RandomState` or
        None; of training.

    Attributes
    ----------
    weights_ : (F,) of the features. intercept_ : b. model_ : the trained model, with its objective.
    """

    def __init__(
        self,
        mu: float = 1e-3,
        max_iter: int = 50,
        optimizer: str = "auto",
        solver: str = "multicut",
        random_state: Any = None,
    ):
        self.mu = mu
        self.max_iter = max_iter
        self.optimizer = optimizer
        self.solver = solver
        self.random_state = random_state

    def fit(self, X: Sequence[Any], y: Sequence[Any]) -> MulticutLearner:
        """X : one entry a set: (F, N, N) features of all pairs, or (edges (M, 2), features (M, F)).
        y : labels (N,) of each set; -1 where the cluster is not known.
        """
        gm.check_number("mu", self.mu, low=0.0, strict=True)
        gm.check_choice("solver", self.solver, METHODS)
        if len(X) != len(y) or len(X) == 0:
            raise ValueError(f"y: expected one partition for each of {len(X)} sets, got {len(y)}")
        graphs = [_pair_features(f"X[{k}]", x) for k, x in enumerate(X)]
        n_pairs = sum(len(edges) for edges, _ in graphs)
        samples = []
        for k, ((edges, features), truth) in enumerate(zip(graphs, y)):
            truth = np.asarray(truth)
            if truth.ndim != 1 or len(truth) <= edges.max(initial=-1):
                raise ValueError(
                    f"y[{k}]: expected a label for each node of X[{k}], got shape {truth.shape}"
                )
            hidden = truth == -1
            if hidden.all():
                raise ValueError(f"y[{k}]: expected some known clusters, got only -1")
            numbers = np.unique(np.where(hidden, truth[~hidden][0], truth), return_inverse=True)[1]
            n_labels = max(2, min(len(truth), 2 * (int(numbers.max()) + 1)))
            crf = multicut_model(len(truth), edges, features=features, n_labels=n_labels)
            unknown = hidden if hidden.any() else None
            samples.append(gm.Sample(crf, numbers, hidden=unknown, weight=1.0 / n_pairs))
        self.model_ = gm.train(
            samples,
            loss=PairLoss(),
            regularizer=gm.L2(self.mu),
            optimizer=self.optimizer,
            max_iter=self.max_iter,
            seed=int(gm.check_random_state(self.random_state).randint(2**31 - 1)),
            show_progress=False,
        )
        found = self.model_.weights["edge"]
        self.weights_, self.intercept_ = found[:-1], float(found[-1])
        return self

    def cluster(self, X: Any) -> np.ndarray:
        """Labels of the nodes of a new set, given as in `fit`."""
        check_is_fitted(self, "weights_")
        edges, features = _pair_features("X", X)
        costs = features @ np.append(self.weights_, self.intercept_)
        return Multicut(self.solver).fit(costs, edges=edges).labels_


def _affinity_graph(X: Any) -> EdgeGraph:
    """From checked affinities (N, N), dense or in coordinate format."""
    if scipy.sparse.issparse(X):
        edges = np.stack([X.row, X.col], axis=1).astype(np.int64)
        cost = X.data / 2.0
    else:
        edges = np.argwhere(X != 0.0)
        cost = X[edges[:, 0], edges[:, 1]] / 2.0
    if X.shape[0] != X.shape[1]:
        raise ValueError(f"X: expected square affinities (N, N), got shape {X.shape}")
    return EdgeGraph.of(X.shape[0], edges, cost)


def _edge_list(X: Any, edges: Any) -> tuple[EdgeGraph, np.ndarray]:
    """The graph, and its node (N,) for each one given: those that +inf joins are one node."""
    pairs = gm.check_array("edges", edges, shape=(None, 2), dtype=np.int64)
    if pairs.size == 0 or pairs.min() < 0:
        raise ValueError("edges: expected at least one pair of nodes 0, 1, ...")
    cost = gm.check_array("X", X, shape=(len(pairs),), allow_inf=True)
    node = EdgeGraph(int(pairs.max()) + 1, pairs, cost).components(cost < np.inf)
    return EdgeGraph.of(int(node.max()) + 1, node[pairs], cost), node


def _pair_features(name: str, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Edges (M, 2) and features (M, F + 1), a constant last."""
    if isinstance(X, tuple):
        edges = gm.check_array(f"{name}[0]", X[0], shape=(None, 2), dtype=np.int64)
        features = gm.check_array(f"{name}[1]", X[1], shape=(len(edges), None))
    else:
        stack = gm.check_array(name, X, ndim=3)
        edges = np.stack(np.triu_indices(stack.shape[1], 1), axis=1)
        features = (stack[:, edges[:, 0], edges[:, 1]] + stack[:, edges[:, 1], edges[:, 0]]).T / 2
    return edges, np.column_stack([features, np.ones(len(edges))])
