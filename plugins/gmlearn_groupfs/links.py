"""Must- and cannot-links carried over to the points around those they name, so that other points
learn of them too.
"""

from __future__ import annotations

import numpy as np


def propagate_links(
    graph: np.ndarray, must: np.ndarray, cannot: np.ndarray, reach: float
) -> np.ndarray:
    r"""What the links say of every pair: +1 together, -1 apart, 0 nothing; (n, n), symmetric.

    With Z the links as a matrix of +1, -1 and 0, and S the normalised graph, :math:`F \propto (I -
    \alpha S)^{-1} Z (I - \alpha S)^{-1}` spreads every link from both of its ends along the graph
    (Lu and Ip, ECCV 2010), and is scaled to a largest entry of 1. O(n^3).

    Parameters
    ----------
    graph : (n, n), non-negative and symmetric.   must, cannot : (k, 2).
    reach : alpha in [0, 1): 0 leaves the links where they are, close to 1 they cover whole
        clusters.
    """
    n = len(graph)
    links = np.zeros((n, n))
    for pairs, sign in ((must, 1.0), (cannot, -1.0)):
        links[pairs[:, 0], pairs[:, 1]] = links[pairs[:, 1], pairs[:, 0]] = sign
    degree = np.sqrt(np.maximum(graph.sum(axis=1), 1e-12))
    spread = np.linalg.inv(np.eye(n) - reach * graph / degree[:, None] / degree[None, :])
    evidence = spread @ links @ spread.T
    largest = np.abs(evidence).max(initial=0.0)
    return 0.5 * (evidence + evidence.T) / largest if largest > 0 else evidence


def with_evidence(kernels: np.ndarray, evidence: np.ndarray) -> np.ndarray:
    """Kernels (M, n, n) with entries in [0, 1] and a zero diagonal, moved towards 1 or 0 by
    `evidence` (n, n) in [-1, 1].
    """
    moved = np.where(
        evidence >= 0, 1.0 - (1.0 - evidence) * (1.0 - kernels), (1.0 + evidence) * kernels
    )
    diagonal = np.arange(len(evidence))
    moved[:, diagonal, diagonal] = 0.0
    return moved
