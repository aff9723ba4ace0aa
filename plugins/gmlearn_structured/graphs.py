"""Estimators whose labels are nodes of a graph: chains, grids, any graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import gmlearn as gm
from gmlearn_structured.estimator import StructuredBase, consecutive, dense_rows, read_rows


@dataclass(eq=False, repr=False)
class ChainCRF(StructuredBase):
    """Sequences: a label for each row of features, and a learnt table of neighbouring labels.

    Parameters
    ----------
    directed : does the table tell "a before b" from "b before a"?

    Further parameters as in `StructuredBase`. An input is an array (T, F), dense or scipy sparse.

    Examples
    --------
    >>> from gmlearn_structured import ChainCRF, noisy_words
    >>> X, y = noisy_words(40, seed=0)
    >>> ChainCRF(C=0.1).fit(X[:30], y[:30]).score(X[30:], y[30:]) > 0.8
    True
    """

    directed: bool = True

    def read_input(self, x: Any) -> Any:
        return read_rows(x)

    def build_model(self, x: Any, n_states: int) -> gm.CRF:
        crf = gm.CRF(x.shape[0], n_states)
        crf.add(gm.Unary(x))
        crf.add(gm.Pairwise(consecutive(x.shape[0]), weight="pair", symmetric=not self.directed))
        return crf

    def node_features(self, x: Any) -> np.ndarray:
        return dense_rows(x)


@dataclass(eq=False, repr=False)
class GridCRF(StructuredBase):
    """Images: a label for each pixel, and learnt tables of neighbouring labels.

    Parameters
    ----------
    connectivity : 4 or 8.
    directed : a table of its own for each direction, which tells its two ends apart; else one
        symmetric table.

    Further parameters as in `StructuredBase`. An input is an array (H, W, F), its labels (H, W).
    """

    connectivity: int = 4
    directed: bool = False

    def _check_parameters(self) -> None:
        super()._check_parameters()
        gm.check_choice("connectivity", self.connectivity, (4, 8))  # type: ignore[arg-type]

    def read_input(self, x: Any) -> np.ndarray:
        found = gm.check_array("pixels", x, ndim=3)
        if found.shape[0] * found.shape[1] == 0:
            raise ValueError(f"expected at least one pixel, got shape {found.shape}")
        return found

    def build_model(self, x: np.ndarray, n_states: int) -> gm.CRF:
        height, width, n_features = x.shape
        crf = gm.CRF(height * width, n_states)
        crf.add(gm.Unary(x.reshape(-1, n_features)))
        for name, edges in self._edges(height, width).items():
            crf.add(gm.Pairwise(edges, weight=name, symmetric=not self.directed))
        return crf

    def _edges(self, height: int, width: int) -> dict[str, np.ndarray]:
        """The edges (M, 2) of each table."""
        pixel = np.arange(height * width).reshape(height, width)
        found = {
            "right": (pixel[:, :-1], pixel[:, 1:]),
            "down": (pixel[:-1], pixel[1:]),
            "down right": (pixel[:-1, :-1], pixel[1:, 1:]),
            "down left": (pixel[:-1, 1:], pixel[1:, :-1]),
        }
        names = list(found)[: self.connectivity // 2]
        edges = {n: np.stack([found[n][0].ravel(), found[n][1].ravel()], axis=1) for n in names}
        return edges if self.directed else {"pair": np.concatenate(list(edges.values()))}

    def node_features(self, x: np.ndarray) -> np.ndarray:
        return x.reshape(-1, x.shape[2])

    def shape_labels(self, x: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return labels.reshape(*x.shape[:2], *labels.shape[1:])


class GraphInput(NamedTuple):
    """One graph: features (V, F) of the nodes, edges (E, 2), features (E, G) of edges or None."""

    nodes: Any
    edges: np.ndarray
    edge_features: Any


@dataclass(eq=False, repr=False)
class GraphCRF(StructuredBase):
    """Graphs: a label for each node, and a learnt table of the labels of an edge, which depends on
    the edge's features if there are any.

    Parameters
    ----------
    directed : does the table tell the two ends of an edge apart?

    Further parameters as in `StructuredBase`. An input is a tuple (features (V, F), edges (E, 2)),
    or (features, edges, edge features (E, G)); features dense or scipy sparse.
    """

    directed: bool = False

    def read_input(self, x: Any) -> GraphInput:
        if not isinstance(x, tuple) or len(x) not in (2, 3):
            raise TypeError(
                "expected a tuple (node features, edges) or (node features, edges, edge features), "
                f"got {type(x).__name__}"
            )
        nodes = read_rows(x[0], "node features")
        given = x[1] if np.size(x[1]) else np.zeros((0, 2), np.int64)
        edges = gm.check_index("edges", given, nodes.shape[0], shape=(None, 2))
        features = None
        if len(x) == 3:
            sparse = hasattr(x[2], "tocsr")
            features = x[2].tocsr() if sparse else gm.check_array("edge features", x[2], ndim=2)
            if features.shape[0] != len(edges):
                raise ValueError(
                    f"edge features: expected a row for each of the {len(edges)} edges, got shape "
                    f"{features.shape}"
                )
        return GraphInput(nodes, edges, features)

    def build_model(self, x: GraphInput, n_states: int) -> gm.CRF:
        crf = gm.CRF(x.nodes.shape[0], n_states)
        crf.add(gm.Unary(x.nodes))
        if x.edge_features is None:
            crf.add(gm.Pairwise(x.edges, weight="pair", symmetric=not self.directed))
        else:
            crf.add(gm.FeatureTable(x.edges, x.edge_features, symmetric=not self.directed))
        return crf

    def node_features(self, x: GraphInput) -> np.ndarray:
        return dense_rows(x.nodes)
