"""The exemplar-clustering energy E(Q) of a set of exemplars, and its assignments."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

import gmlearn as gm


def check_costs(name: str, costs: Any, *, allow_negative: bool = True) -> np.ndarray:
    """`costs` as a square float64 matrix with at least one point; +inf forbids an assignment."""
    matrix = gm.check_array(name, costs, ndim=2, allow_inf=True)
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{name}: expected a square matrix of distances, got shape {matrix.shape}")
    if matrix.shape[0] == 0:
        raise ValueError(f"{name}: expected at least one point, got an empty matrix")
    if not allow_negative and (matrix < 0).any():
        where = tuple(int(i) for i in np.argwhere(matrix < 0)[0])
        raise ValueError(f"{name}: expected distances >= 0, got {matrix[where]:g} at index {where}")
    return matrix


def with_penalty(distances: np.ndarray, penalty: float | np.ndarray) -> np.ndarray:
    """A copy of `distances` (N, N) whose diagonal holds the exemplar penalties d_qq."""
    costs = np.array(distances, dtype=np.float64)
    np.fill_diagonal(costs, penalty)
    return costs


def assign(costs: Any, exemplars: np.ndarray) -> np.ndarray:
    """The exemplar of every point: itself for exemplars, the nearest one (ties: lowest index) for
    the others.

    Parameters
    ----------
    costs : (N, N), ``costs[p, q]`` of assigning p to q, penalties on the diagonal; dense, or sparse
        with absent entries forbidden.
    exemplars : (K,) point indices.

    Returns
    -------
    (N,) point indices. A point without an allowed exemplar gets -1.
    """
    exemplars = np.unique(exemplars)
    if scipy.sparse.issparse(costs):
        chosen = _assign_sparse(costs.tocsr(), exemplars)
    else:
        columns = costs[:, exemplars]
        best = np.argmin(columns, axis=1)
        chosen = np.where(np.isinf(columns[np.arange(len(costs)), best]), -1, exemplars[best])
    chosen[exemplars] = exemplars
    return chosen


def exemplar_energy(costs: Any, exemplars: np.ndarray) -> float:
    """E(Q) = sum over p not in Q of min over q in Q of d_pq, plus the sum over q in Q of d_qq; O(N
    |Q|).

    +inf if some point has no allowed exemplar, or Q is empty.
    """
    exemplars = np.asarray(exemplars, dtype=np.int64)
    if exemplars.size == 0:
        return np.inf
    chosen = assign(costs, exemplars)
    if (chosen < 0).any():
        return np.inf
    points = np.arange(len(chosen))
    if scipy.sparse.issparse(costs):
        return float(np.asarray(costs.tocsr()[points, chosen]).sum())
    return float(costs[points, chosen].sum())


def _assign_sparse(costs: scipy.sparse.csr_array, exemplars: np.ndarray) -> np.ndarray:
    from gmlearn_clustering import _facility_numba as kernels

    is_exemplar = np.zeros(costs.shape[0], dtype=bool)
    is_exemplar[exemplars] = True
    return kernels.nearest_in_rows(
        costs.indptr.astype(np.int64), costs.indices.astype(np.uint32), costs.data, is_exemplar
    )
