"""ExemplarClustering: the scikit-learn clusterer of the exemplar energy."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

import gmlearn as gm
from gmlearn_clustering.energy import check_costs
from gmlearn_clustering.metrics import METRICS, named_distance, pairwise, squared_euclidean
from gmlearn_clustering.number import solve_for_number
from gmlearn_clustering.potentials import exemplar_model
from gmlearn_clustering.reach import minimise_on_points
from gmlearn_clustering.solver import METHODS, minimise_on_graph
from gmlearn_clustering.sparse import nearest_exemplars


class ExemplarClustering(ClusterMixin, BaseEstimator):
    """Cluster around exemplars, the number of clusters coming out of the optimisation.

    Minimises E(Q) = sum over p not in Q of min over q in Q of d_pq + sum over q in Q of d_qq over
    the sets of exemplars Q, with a proved lower bound: ``gm.solve`` on `exemplar_model`. Time about
    O(N^2 log N), memory O(N^2), or bounded with `n_neighbors`.

    Parameters
    ----------
    penalty : the price d_qq of an exemplar: a number, or (N,) numbers; or ``("quantile", q)``, the
        q-quantile of the distances between different points. Of no effect with `n_clusters`.
    metric : "sqeuclidean" (or "l2"), "euclidean", "l1", "chi2", "cosine", "rbf"; "precomputed": X
        is the (N, N) matrix d_pq, asymmetric allowed, +inf forbids, or a scipy sparse neighbour
        graph; or a callable of two rows.
    n_clusters : exactly this many clusters, instead of what a penalty gives.
    solver : "auto", "local" or "exact", see `minimise_exemplars`.
    n_neighbors : search on the graph of that many neighbours and some landmarks first, then among
        the pairs that can matter (see `minimise_on_points`; only "sqeuclidean"): for N > 5000, with
        a bound that still holds for all pairs. Not with solver="exact".
    n_kicks, n_restarts : effort of the local search; None: until kicks no longer pay.
    time_limit : seconds of optimisation (distances not counted).
    random_state : of the kicks; an integer makes the result repeatable.

    Attributes
    ----------
    labels_ : (N,) cluster of every point, numbered in the order of the exemplars.
    cluster_centers_indices_ : (K,) exemplars, ascending. cluster_centers_ : (K, D) their rows (not
        if precomputed).
    energy_, lower_bound_, gap_ : E(Q), a lower bound of its minimum, and their difference. With
        `n_clusters` both are those of the penalised energy at `penalty_`.
    excess_ : with `n_clusters`, what that number costs more than the best number found at
        `penalty_` (a part of `gap_`); 0 where it is the best, and without `n_clusters`.
    penalty_ : the penalties used, a number or (N,); with `n_clusters` one at which about that many
        clusters are best.

    Examples
    --------
    >>> import numpy as np
    >>> from gmlearn_clustering import ExemplarClustering
    >>> X = np.array([[0.0], [0.1], [5.0], [5.2]])
    >>> model = ExemplarClustering(penalty=1.0, random_state=0).fit(X)
    >>> model.labels_.tolist(), model.gap_
    ([0, 0, 1, 1], 0.0)
    """

    def __init__(
        self,
        penalty: Any = ("quantile", 0.5),
        metric: Any = "sqeuclidean",
        *,
        n_clusters: int | None = None,
        solver: str = "auto",
        n_neighbors: int | None = None,
        n_kicks: int | None = None,
        n_restarts: int = 1,
        time_limit: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.penalty = penalty
        self.metric = metric
        self.n_clusters = n_clusters
        self.solver = solver
        self.n_neighbors = n_neighbors
        self.n_kicks = n_kicks
        self.n_restarts = n_restarts
        self.time_limit = time_limit
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> ExemplarClustering:
        """Find the exemplars of X: (N, D) points, or (N, N) distances if precomputed."""
        self._check_parameters()
        if self.n_clusters is not None and (scipy.sparse.issparse(X) or self.n_neighbors):
            raise ValueError(
                "n_clusters: needs all distances; give a penalty or a quantile with neighbour "
                "graphs"
            )
        sparse_graph = self.metric == "precomputed" and scipy.sparse.issparse(X)
        X = gm.validate_data(
            self,
            X,
            dtype=np.float64,
            accept_sparse="csr" if sparse_graph else False,
            ensure_all_finite=self.metric != "precomputed",
        )
        self._seed = int(gm.check_random_state(self.random_state).randint(2**31 - 1))
        self.excess_ = 0.0
        self.penalty_: Any = None
        if sparse_graph:
            result = self._fit_graph(X)
        elif self.n_neighbors is not None:
            result = self._fit_neighbours(X, self.n_neighbors)
        else:
            result = self._fit_dense(X)
        if result.status == gm.Status.INFEASIBLE:
            raise ValueError(
                "X: some point has only forbidden (+inf) exemplars, so no clustering has a finite "
                "energy"
            )
        self.cluster_centers_indices_, self.labels_ = np.unique(result.labels, return_inverse=True)
        self.energy_, self.lower_bound_, self.gap_ = result.energy, result.bound, result.gap
        if self.metric != "precomputed":
            self.cluster_centers_ = X[self.cluster_centers_indices_]
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The nearest exemplar's cluster of new points: (M, D), or (M, N) distances to the
        training points.
        """
        check_is_fitted(self, "labels_")
        X = gm.validate_data(
            self, X, dtype=np.float64, reset=False, ensure_all_finite=self.metric != "precomputed"
        )
        if self.metric == "precomputed":
            return np.argmin(
                gm.check_array("X", X[:, self.cluster_centers_indices_], allow_inf=True), axis=1
            )
        if callable(self.metric):
            return np.argmin(pairwise(self.metric, X, self.cluster_centers_), axis=1)
        return nearest_exemplars(X, self.cluster_centers_, self._distance)[0]

    def _fit_dense(self, X: np.ndarray) -> gm.Result:
        if self.metric == "precomputed":
            distances = check_costs("X", X)
        elif callable(self.metric):
            distances = pairwise(self.metric, X, X)
        else:
            self._distance = named_distance(self.metric, X)
            distances = self._distance(X, X)
        if self.n_clusters is not None:
            limits: dict[str, Any] = {"time_limit": self.time_limit, **self._effort}
            found = solve_for_number(distances, self.n_clusters, self._seed, **limits)
            self.penalty_, self.excess_ = found.penalty, found.excess
            return found.result
        off_diagonal = distances[~np.eye(len(distances), dtype=bool)]
        self.penalty_ = self._penalty(off_diagonal, len(distances))
        model = exemplar_model(distances, self.penalty_)
        limits = {"time_limit": self.time_limit, "seed": self._seed, **self._effort}
        return gm.solve(model, solver="exemplar", **limits)

    def _fit_graph(self, X: scipy.sparse.sparray) -> gm.Result:
        graph = scipy.sparse.csr_array(X)
        if graph.shape[0] != graph.shape[1]:
            raise ValueError(f"X: expected a square neighbour graph, got shape {graph.shape}")
        gm.check_array("X", graph.data, allow_inf=True)
        coordinates = graph.tocoo()
        others = coordinates.row != coordinates.col
        self.penalty_ = self._penalty(coordinates.data[others], graph.shape[0])
        n = graph.shape[0]
        row = np.concatenate([coordinates.row[others], np.arange(n)])
        column = np.concatenate([coordinates.col[others], np.arange(n)])
        value = np.concatenate([coordinates.data[others], np.broadcast_to(self.penalty_, (n,))])
        costs = scipy.sparse.csr_array((value, (row, column)), shape=(n, n))
        return minimise_on_graph(costs, self.time_limit, seed=self._seed, **self._effort)

    def _fit_neighbours(self, X: np.ndarray, n_neighbors: int) -> gm.Result:
        """Search on the neighbour graph, then among all pairs within reach."""
        self._distance = squared_euclidean
        rows = X[np.random.RandomState(self._seed).permutation(len(X))[:1000]]
        sample = squared_euclidean(rows, rows)[~np.eye(len(rows), dtype=bool)]
        self.penalty_ = self._penalty(sample, len(X))
        return minimise_on_points(
            X,
            self.penalty_,
            n_neighbors,
            self.n_kicks,
            self.n_restarts,
            self.time_limit,
            self._seed,
        )

    @property
    def _effort(self) -> dict[str, Any]:
        return {"method": self.solver, "n_kicks": self.n_kicks, "n_restarts": self.n_restarts}

    def _penalty(self, distances: np.ndarray, n: int) -> float | np.ndarray:
        """The penalty in numbers; `distances` are those between different points."""
        if _is_rule(self.penalty):
            finite = distances[np.isfinite(distances)]
            return float(np.quantile(finite, self.penalty[1])) if finite.size else 0.0
        if np.ndim(self.penalty) == 0:
            return float(self.penalty)
        return gm.check_array("penalty", self.penalty, shape=(n,), allow_inf=True)

    def _check_parameters(self) -> None:
        gm.check_choice("solver", self.solver, METHODS)
        if self.n_clusters is not None:
            gm.check_number("n_clusters", self.n_clusters, low=1, integer=True)
        gm.check_number("n_restarts", self.n_restarts, low=1, integer=True)
        if self.n_kicks is not None:
            gm.check_number("n_kicks", self.n_kicks, low=0, integer=True)
        if self.time_limit is not None:
            gm.check_number("time_limit", self.time_limit, low=0.0)
        if not callable(self.metric):
            gm.check_choice("metric", self.metric, (*METRICS, "precomputed"))
        if self.n_neighbors is not None:
            gm.check_number("n_neighbors", self.n_neighbors, low=1, integer=True)
            if self.solver == "exact":
                raise ValueError("n_neighbors: solver 'exact' needs all distances; leave it out")
            if self.metric not in ("sqeuclidean", "l2"):
                raise ValueError(
                    f"n_neighbors: works with metric 'sqeuclidean', got metric {self.metric!r}"
                )
        _check_penalty(self.penalty)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.metric == "precomputed"
        tags.input_tags.positive_only = self.metric == "chi2"
        return tags


def _is_rule(penalty: Any) -> bool:
    """Is it a pair such as ("quantile", q)?"""
    return isinstance(penalty, (tuple, list)) and len(penalty) == 2 and isinstance(penalty[0], str)


def _check_penalty(penalty: Any) -> None:
    """A number, numbers or ("quantile", q)."""
    if _is_rule(penalty):
        gm.check_choice("penalty[0]", penalty[0], ("quantile",))
        gm.check_number("penalty[1]", penalty[1], low=0.0, high=1.0)
    elif isinstance(penalty, str) or penalty is None:
        raise ValueError(f"penalty: expected a number, numbers or ('quantile', q), got {penalty!r}")
    else:
        gm.check_array("penalty", penalty, ndim=(0, 1))
