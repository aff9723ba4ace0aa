"""E(Q) as an uncapacitated facility-location problem with non-negative costs: what every optimiser
works on.

Exactly one x_pq is 1 per point p, so subtracting m_p = min over q != p of d_pq from the whole row p
(the penalty d_pp included) shifts the energy by the constant sum_p m_p. Afterwards all assignment
costs c_pq are >= 0 and the problem is facility location with opening fees f_q = d_qq - m_q and c_qq
= 0, whatever the signs and asymmetries of the given distances. A fee <= 0 is always paid (the
exemplar costs nothing and can only help).

An assignment with c_pq >= f_p is never needed: p may as well be alone, at the price f_p. Such
entries are dropped, which makes many problems sparse; a problem given on a neighbour graph is
sparse from the start. Memory O(entries).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse


@dataclass(frozen=True)
class FacilityProblem:
    """Fees, and the entries (p, q, c_pq) by client p (cheapest first) and by exemplar q (clients
    ascending).

    Attributes
    ----------
    fee : (N,) cost of opening an exemplar, >= 0; +inf where a point may not be one.
    alone : (N,) cost of a point that is served by nobody else: its fee, or `big` where that is
        forbidden.
    shift : (N,) what was subtracted from every row. offset : E(Q) = offset + fees of Q + assignment
        costs.
    always_open : (N,) bool, exemplars that cost nothing.
    row_start, row_exemplar, row_cost : entries of client p, sorted by (cost, exemplar); (p, p, 0)
        is among them.
    column_start, column_client, column_cost : the same entries by exemplar; column_place : where
        they are in their rows.
    """

    fee: np.ndarray
    alone: np.ndarray
    shift: np.ndarray
    offset: float
    always_open: np.ndarray
    row_start: np.ndarray
    row_exemplar: np.ndarray
    row_cost: np.ndarray
    column_start: np.ndarray
    column_client: np.ndarray
    column_cost: np.ndarray
    column_place: np.ndarray

    @property
    def n_points(self) -> int:
        """Number of points."""
        return len(self.fee)

    @property
    def arrays(self) -> tuple:
        """What the compiled kernels take: fees, costs of being alone, always open, (rows),
        (columns).
        """
        rows = self.row_start, self.row_exemplar, self.row_cost
        columns = self.column_start, self.column_client, self.column_cost, self.column_place
        return self.fee, self.alone, self.always_open, rows, columns

    def energy(self, exemplars: np.ndarray) -> float:
        """offset + fees + assignment costs of an exemplar set; `big` per unserved point."""
        is_open = np.zeros(self.n_points, dtype=bool)
        is_open[exemplars] = True
        cost = np.where(is_open[self.row_exemplar], self.row_cost, np.inf)
        nearest = np.minimum.reduceat(cost, self.row_start[:-1])
        return float(self.offset + self.fee[is_open].sum() + np.minimum(nearest, self.alone).sum())

    @property
    def row_client(self) -> np.ndarray:
        """The client p of every entry of the rows."""
        return np.repeat(np.arange(self.n_points), np.diff(self.row_start))

    def subproblem(self, keep: np.ndarray, may_open: np.ndarray) -> FacilityProblem:
        """The problem with only some entries (bool, in row order) and some exemplars ((N,)
        bool); energies can only rise.
        """
        from gmlearn_clustering import _facility_numba as kernels

        rows = kernels.filtered_rows(
            self.row_start, self.row_exemplar, self.row_cost, keep, may_open
        )
        columns = kernels.transposed(self.n_points, *rows)
        fee = np.where(may_open, self.fee, np.inf)
        return FacilityProblem(
            fee, self.alone, self.shift, self.offset, self.always_open & may_open, *rows, *columns
        )

    def at_penalty(self, penalty: float) -> FacilityProblem:
        """The same distances at another penalty for all points, no larger than the present ones:
        nothing is sorted again.
        """
        from gmlearn_clustering import _facility_numba as kernels

        fee = penalty - self.shift
        always_open = fee <= 0.0
        offset = float(self.shift.sum() + fee[always_open].sum())
        fee = np.maximum(fee, 0.0)
        rows = kernels.row_prefixes(self.row_start, self.row_exemplar, self.row_cost, fee)
        columns = kernels.transposed(self.n_points, *rows)
        return FacilityProblem(fee, fee, self.shift, offset, always_open, *rows, *columns)


def facility_problem(
    costs: np.ndarray | scipy.sparse.sparray, prune: bool = True
) -> FacilityProblem:
    """Reduce ``costs`` (N, N), penalties on the diagonal, to a `FacilityProblem`; O(entries log N).

    Parameters
    ----------
    costs : dense, +inf forbids; or a scipy sparse array, absent entries forbidden (diagonal entries
        all stored).
    prune : drop entries that no optimum needs. Without it being alone is forbidden too, as a fixed
        number of exemplars requires.
    """
    from gmlearn_clustering import _facility_numba as kernels

    start, exemplar, cost, penalty = _off_diagonal_rows(costs)
    n = len(penalty)
    counts = np.diff(start)
    shift = np.zeros(n)
    filled = counts > 0
    if filled.any():
        shift[filled] = np.minimum.reduceat(cost, start[:-1][filled])
    cost -= np.repeat(shift, counts)
    fee = penalty - shift
    always_open = fee <= 0.0
    offset = float(shift.sum() + fee[always_open].sum())
    fee = np.maximum(fee, 0.0)
    alone = _cost_of_being_alone(fee, start, cost, prune)
    rows = kernels.sorted_rows(
        start, exemplar, cost, _row_order(start, cost), np.isfinite(fee), alone
    )
    columns = kernels.transposed(n, *rows)
    return FacilityProblem(fee, alone, shift, offset, always_open, *rows, *columns)


def _row_order(start: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """The places of every row's entries, counted from the row's start, by cost (ties in any
    order).
    """
    from gmlearn_clustering import _facility_numba as kernels

    n = len(start) - 1
    # full rows: NumPy's vectorised sort is several times faster than numba's
    if n > 1 and len(cost) == n * (n - 1):
        return np.argsort(cost.reshape(n, n - 1), axis=1).ravel()
    return kernels.row_order(start, cost)


def _off_diagonal_rows(costs: np.ndarray | scipy.sparse.sparray) -> tuple[np.ndarray, ...]:
    """(row starts, columns, finite costs) off the diagonal, and the diagonal."""
    if not scipy.sparse.issparse(costs):
        from gmlearn_clustering import _facility_numba as kernels

        return *kernels.finite_rows(np.ascontiguousarray(costs, dtype=np.float64)), np.diagonal(
            costs
        ).astype(np.float64)
    n = costs.shape[0]
    entries = scipy.sparse.csr_array(costs)
    entries.sum_duplicates()
    penalty = np.full(n, np.inf)
    rows = np.repeat(np.arange(n), np.diff(entries.indptr))
    own = rows == entries.indices
    penalty[rows[own]] = entries.data[own]
    keep = ~own & np.isfinite(entries.data)
    rows, columns, values = rows[keep], entries.indices[keep], entries.data[keep]
    start = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
    return start.astype(np.int64), columns.astype(np.uint32), values.astype(np.float64), penalty


def _cost_of_being_alone(
    fee: np.ndarray, start: np.ndarray, cost: np.ndarray, prune: bool
) -> np.ndarray:
    """The fee, or a number above every finite energy where being alone is forbidden."""
    if prune and np.isfinite(fee).all():
        return fee
    filled = np.diff(start) > 0
    dearest = np.zeros(len(fee))
    if filled.any():
        dearest[filled] = np.maximum.reduceat(cost, start[:-1][filled])
    big = 1.0 + 2.0 * (dearest.sum() + fee[np.isfinite(fee)].sum())
    if not prune:
        return np.full(len(fee), big)
    return np.where(np.isfinite(fee), fee, big)
