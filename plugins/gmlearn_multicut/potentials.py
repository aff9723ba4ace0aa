"""Signed graphs as blocks of a gmlearn model: a cost for every edge whose ends are apart."""

from __future__ import annotations

from typing import Any

import numpy as np

import gmlearn as gm


class SignedGraph(gm.Potts):
    r"""Edges :math:`c_e [x_i \ne x_j]` of any sign: c_e > 0 pulls the ends together, c_e < 0 apart.

    Without unary costs, and with as many labels as there may be clusters, minimising them is the
    multicut (correlation clustering) problem: the number of clusters comes out of it. Parameters
    are those of `gmlearn.Potts`; with `features` (M, F) and `weight`, c_e = w . features_e is
    learnt. Models with such a block are solved by ``solver="multicut"`` and decomposed into cycles.
    """

    name = "signed_graph"

    @classmethod
    def examples(cls, rng: np.random.Generator) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        """Fixed and learnt costs."""
        return [(crf.blocks[0], w) for crf, w in small_models(rng)]

    @classmethod
    def large_examples(
        cls, rng: np.random.Generator
    ) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        """A graph of thirty nodes."""
        edges = np.stack(np.triu_indices(30, 1), axis=1)
        edges = edges[rng.random(len(edges)) < 0.3]
        return [(cls(edges, rng.normal(size=len(edges))).bind(np.full(30, 6)), {})]


def multicut_model(
    n_nodes: int,
    edges: Any,
    costs: Any = None,
    *,
    features: Any = None,
    weight: str = "edge",
    n_labels: int | None = None,
) -> gm.CRF:
    """The model of a signed graph: one variable a node, one signed edge a pair.

    Parameters
    ----------
    edges : int (M, 2), different nodes.
    costs : (M,) what it costs to cut an edge, any sign; or
    features : (M, F), for learnt costs w . features_e with the weight segment `weight`.
    n_labels : clusters at most; None: one for every node.

    Examples
    --------
    >>> import gmlearn as gm
    >>> from gmlearn_multicut import multicut_model
    >>> crf = multicut_model(3, [[0, 1], [1, 2], [0, 2]], [2.0, -1.0, -0.5])
    >>> result = gm.solve(crf)
    >>> result.labels.tolist(), result.energy, result.status.value
    ([0, 0, 1], -1.5, 'optimal')
    """
    gm.check_number("n_nodes", n_nodes, low=1, integer=True)
    if (costs is None) == (features is None):
        raise ValueError("costs, features: give one of them")
    if n_labels is not None:
        gm.check_number("n_labels", n_labels, low=1, integer=True)
    crf = gm.CRF(n_nodes, n_nodes if n_labels is None else n_labels)
    if features is None:
        crf.add(SignedGraph(edges, costs))
    else:
        crf.add(SignedGraph(edges, weight=weight, features=features))
    return crf


def small_models(rng: np.random.Generator) -> list[tuple[gm.CRF, dict[str, np.ndarray]]]:
    """For checks: a frustrated square with a diagonal, a complete graph, learnt costs, few
    labels.
    """
    square = [[0, 1], [1, 2], [2, 3], [0, 3], [0, 2]]
    complete = np.stack(np.triu_indices(5, 1), axis=1)
    made: list[tuple[gm.CRF, dict[str, np.ndarray]]] = [
        (multicut_model(4, square, [1.0, 1.0, 1.0, -2.0, 0.3]), {}),
        (multicut_model(5, complete, rng.normal(size=10)), {}),
        (multicut_model(5, complete, -rng.random(10), n_labels=2), {}),
    ]
    crf = multicut_model(4, square, features=rng.normal(size=(5, 2)))
    made.append((crf, {"edge": rng.normal(size=2)}))
    return made
