"""A model's tables at a temperature, as the compiled kernels of this room read them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gmlearn.model.factors import FactorGraph


class Tables(NamedTuple):
    """The arrays of a `FactorGraph`, costs over T, with the places of each variable.

    ptr, slots : the places in `scope` where each variable stands.   owner : the clique of each
        place.
    """

    offsets: np.ndarray
    unary: np.ndarray
    indptr: np.ndarray
    scope: np.ndarray
    stride: np.ndarray
    start: np.ndarray
    scale: np.ndarray
    values: np.ndarray
    ptr: np.ndarray
    slots: np.ndarray
    owner: np.ndarray

    @classmethod
    def of(cls, graph: FactorGraph, temperature: float) -> Tables:
        ptr, slots = graph.adjacency
        return cls(
            graph.offsets,
            graph.unary / temperature,
            graph.indptr,
            graph.scope,
            graph.stride,
            graph.start,
            graph.scale,
            graph.values / temperature,
            ptr,
            slots,
            graph.owner,
        )

    @property
    def arity(self) -> int:
        """The most variables of a clique, at least 1."""
        return int(np.diff(self.indptr).max(initial=1))


def outer_products(scopes: list[np.ndarray], offsets: np.ndarray, q: np.ndarray) -> list[Any]:
    """Joint distributions of cliques whose variables are independent, with marginals q."""
    out = []
    for scope in scopes:
        joint = np.ones(())
        for v in scope.tolist():
            joint = np.multiply.outer(joint, q[offsets[v] : offsets[v + 1]])
        out.append(joint)
    return out
