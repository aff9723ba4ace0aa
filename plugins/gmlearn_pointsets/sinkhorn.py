"""Softassign: the entropic relaxation of linear assignment, for a whole batch of cost matrices
at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import gmlearn as gm


@dataclass(frozen=True)
class SoftAssignment:
    """What `softassign` found.

    Attributes
    ----------
    plan : float (..., J, K), the match; rows and columns sum to one (to at most one where slack is
        in use).
    value : float (...), the free energy (temperature 0: the least cost), including the price of
        unmatched points.
    row_dual, col_dual : float (..., J) and (..., K), in units of cost: plan = exp(-(cost - row -
        col) / temperature).
    n_iter : int (...), Sinkhorn sweeps used.
    converged : bool (...), whether the row sums came within `tol`.
    """

    plan: np.ndarray
    value: np.ndarray
    row_dual: np.ndarray
    col_dual: np.ndarray
    n_iter: np.ndarray
    converged: np.ndarray


def slack_targets(
    n_rows: int, n_cols: int, outlier_cost: float | None
) -> tuple[np.ndarray, np.ndarray]:
    """Sums asked of the rows and columns of the cost with one slack row and one slack column
    appended.

    A price for outliers makes both slacks free (-1). Without one every point of the smaller set is
    matched and the slack of the larger takes exactly the points left over. A slack that is not
    needed is not part of the matrix: the returned vectors have length n_rows or n_rows + 1, n_cols
    or n_cols + 1.
    """
    rows, cols = [1.0] * n_rows, [1.0] * n_cols
    if outlier_cost is not None:
        rows, cols = rows + [-1.0], cols + [-1.0]
    elif n_rows > n_cols:
        cols.append(float(n_rows - n_cols))
    elif n_cols > n_rows:
        rows.append(float(n_cols - n_rows))
    return np.array(rows), np.array(cols)


def _with_slack(
    cost: np.ndarray, n_rows: int, n_cols: int, outlier_cost: float | None
) -> np.ndarray:
    """`cost` (B, J, K) in the corner of a (B, n_rows, n_cols) array whose slack entries cost
    `outlier_cost`.
    """
    batch, rows, cols = cost.shape
    extended = np.full((batch, n_rows, n_cols), 0.0 if outlier_cost is None else outlier_cost)
    extended[:, :rows, :cols] = cost
    if n_rows > rows and n_cols > cols:
        extended[:, -1, -1] = np.inf  # slack never meets slack
    return extended


def hard_assignment(cost: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Least-cost matching of all rows, or all columns if those are fewer, for a batch (B, J, K);
    inf forbids.

    Returns
    -------
    column : int (B, J), the column of each row, -1 if it has none.
    row_dual, col_dual : float (B, J), (B, K): linear-programming duals; row + col <= cost, equal on
        the match.

    Notes
    -----
    Shortest augmenting paths, O(min(J, K)^2 max(J, K)) a matrix. The same optimum as
    ``scipy.optimize.linear_sum_assignment``, which gives no duals and takes one matrix a call.
    """
    cost = gm.check_array("cost", cost, ndim=3, allow_inf=True)
    column, row_dual, col_dual, feasible = assign(cost)
    if not feasible.all():
        raise ValueError(
            f"cost: matrix {int(np.argmin(feasible))} of the batch forbids (by inf) every "
            f"complete matching"
        )
    return column, row_dual, col_dual


def assign(cost: np.ndarray):
    """`hard_assignment` without checks, and feasible (B,): False where every complete matching
    is forbidden.
    """
    from ._assignment_numba import assign_batch

    batch, rows, cols = cost.shape
    if rows > cols:
        row_of, col_dual, row_dual, feasible = assign(np.ascontiguousarray(np.swapaxes(cost, 1, 2)))
        return _inverse(row_of, rows), row_dual, col_dual, feasible
    row_dual, col_dual = np.zeros((batch, rows)), np.zeros((batch, cols))
    owner, feasible = np.full((batch, cols), -1, np.int64), np.ones(batch, np.bool_)
    assign_batch(cost, row_dual, col_dual, owner, feasible)
    return _inverse(owner, rows), row_dual, col_dual, feasible


def _inverse(owner: np.ndarray, n: int) -> np.ndarray:
    """From the row of each column (B, K) to the column of each of the n rows (B, n), -1 for
    none.
    """
    column = np.full((len(owner), n), -1, np.int64)
    where, col = np.nonzero(owner >= 0)
    column[where, owner[where, col]] = col
    return column


def _square(cost: np.ndarray, outlier_cost: float | None) -> np.ndarray:
    """`cost` (B, J, K) with one slack row or column for every point that may go without a
    partner.
    """
    batch, rows, cols = cost.shape
    size = rows + cols if outlier_cost is not None else max(rows, cols)
    square = np.zeros((batch, size, size))
    square[:, :rows, cols:] = square[:, rows:, :cols] = (
        0.0 if outlier_cost is None else outlier_cost
    )
    square[:, :rows, :cols] = cost
    return square


def _zero_temperature(cost: np.ndarray, outlier_cost: float | None) -> SoftAssignment:
    """The limit: linear assignment, with duals in the middle of their polytope."""
    from ._assignment_numba import centre_duals_batch

    batch, rows, cols = cost.shape
    square = _square(cost, outlier_cost)
    column, row_dual, col_dual = hard_assignment(square)
    centre_duals_batch(square, row_dual, col_dual, np.argsort(column, axis=1))
    # duals are free up to a constant: by convention that of the slack row, or else of the slack
    # column, is zero
    shift = 0.0
    if square.shape[1] > rows:
        shift = row_dual[:, rows:].mean(1, keepdims=True)
    elif square.shape[2] > cols:
        shift = -col_dual[:, cols:].mean(1, keepdims=True)
    row_dual, col_dual = row_dual - shift, col_dual + shift
    plan = np.zeros(square.shape)
    np.put_along_axis(plan, column[:, :, None], 1.0, axis=2)
    value = np.take_along_axis(square, column[:, :, None], 2).sum((1, 2))
    return SoftAssignment(
        plan[:, :rows, :cols].copy(),
        value,
        row_dual[:, :rows].copy(),
        col_dual[:, :cols].copy(),
        np.zeros(batch, np.int64),
        np.ones(batch, np.bool_),
    )


def softassign(
    cost,
    temperature: float,
    *,
    outlier_cost: float | None = None,
    tol: float = 1e-9,
    max_iter: int = 200,
) -> SoftAssignment:
    r"""Minimise cost plus entropy over doubly stochastic matrices.

    .. math:: F_T(c) = \min_m \sum_{jk} m_{jk} c_{jk}
        + T \sum_{jk} m_{jk} (\log m_{jk} - 1) + T \max(J, K)
              \quad\text{s.t.}\quad \sum_k m_{jk} = 1,\ \sum_j m_{jk} = 1

    With equal sizes :math:`\exp(-F_T / T)` is the capacity of :math:`A = \exp(-c / T)`, so that
    :math:`F_T \le -T \log \operatorname{perm}(A) \le F_T + T \log (J^J / J!)`: a lower bound on the
    soft minimum over permutations. At `temperature` 0 it is the linear assignment problem.

    Parameters
    ----------
    cost : float (J, K), or (..., J, K) for a batch.
    temperature : T >= 0, in units of cost.
    outlier_cost : price of an unmatched row or column. None: all rows and columns are matched if
        the sizes agree, otherwise all of the smaller side, and the larger side's slack takes the
        rest at no cost.
    tol, max_iter : row and column sums are right to `tol`, or `max_iter` sweeps and as many Newton
        steps were done (``converged`` says which).

    Returns
    -------
    SoftAssignment

    Notes
    -----
    Scaling vectors on exp(-(c - f - g) / T), started at linear-programming duals f, g from the
    middle of their polytope: every entry is then at most one, a whole matching is at one and the
    others vanish with T, so nothing overflows and few sweeps are needed when T is small. O(J^3) for
    the start and O(J K) a sweep. Between the two regimes Sinkhorn is slow; what it has not finished
    is finished by Newton steps on the column duals.

    Examples
    --------
    >>> softassign([[0.0, 1.0], [1.0, 0.0]], temperature=0.1).plan.round(4)
    array([[1., 0.],
           [0., 1.]])
    """
    cost = gm.check_array("cost", cost)
    if cost.ndim < 2 or 0 in cost.shape[-2:]:
        raise ValueError(
            f"cost: expected a matrix (J, K) or a batch (..., J, K) with J, K >= 1, got shape "
            f"{cost.shape}"
        )
    temperature = float(gm.check_number("temperature", temperature, low=0.0))
    if outlier_cost is not None:
        outlier_cost = float(gm.check_number("outlier_cost", outlier_cost, low=0.0))
    gm.check_number("tol", tol, low=0.0, strict=True)
    gm.check_number("max_iter", max_iter, low=1, integer=True)
    lead = cost.shape[:-2]
    batch = cost.reshape(-1, *cost.shape[-2:])
    limit = _zero_temperature(batch, outlier_cost)
    result = (
        limit
        if temperature == 0
        else _positive_temperature(batch, limit, temperature, outlier_cost, tol, max_iter)
    )
    return SoftAssignment(
        *(
            part.reshape(lead + part.shape[1:])
            for part in (
                result.plan,
                result.value,
                result.row_dual,
                result.col_dual,
                result.n_iter,
                result.converged,
            )
        )
    )


def _positive_temperature(cost, limit, temperature, outlier_cost, tol, max_iter) -> SoftAssignment:
    """Sinkhorn from the duals of the limit, then Newton; the value is the free energy at the
    returned plan.
    """
    from ._sinkhorn_numba import softassign_batch

    batch, rows, cols = cost.shape
    row_target, col_target = slack_targets(rows, cols, outlier_cost)
    extended = _with_slack(cost, len(row_target), len(col_target), outlier_cost)
    row_dual, col_dual = np.zeros((batch, len(row_target))), np.zeros((batch, len(col_target)))
    row_dual[:, :rows], col_dual[:, :cols] = limit.row_dual, limit.col_dual
    plan, sweeps = np.empty(extended.shape), np.zeros(batch, np.int64)
    softassign_batch(
        extended,
        1.0 / temperature,
        row_dual,
        col_dual,
        row_target,
        col_target,
        plan,
        sweeps,
        tol,
        max_iter,
    )
    for step in range(max_iter):
        left = np.flatnonzero(
            (sweeps >= max_iter) & (_violation(plan, row_target, col_target) > tol)
        )
        if not len(left):
            break
        col_dual[left] = _newton_step(
            plan[left], col_dual[left], row_target, col_target, temperature
        )
        row_dual[left] = _row_duals(extended[left], col_dual[left], row_target, temperature)
        plan[left] = np.exp(
            (row_dual[left, :, None] + col_dual[left, None, :] - extended[left]) / temperature
        )
        sweeps[left] = max_iter + step + 1
    # sum m c + T sum m log m = sum m (f + g), row by row and column by column
    value = (plan.sum(2) * row_dual).sum(1) + (plan.sum(1) * col_dual).sum(1)
    value += temperature * (max(rows, cols) - plan.sum((1, 2)))
    converged = _violation(plan, row_target, col_target) <= tol
    return SoftAssignment(
        plan[:, :rows, :cols].copy(),
        value,
        row_dual[:, :rows].copy(),
        col_dual[:, :cols].copy(),
        sweeps,
        converged,
    )


def _violation(plan, row_target, col_target) -> np.ndarray:
    """Largest deviation of a row or column sum from its target, for each matrix of the batch."""
    rows = np.abs(plan.sum(2) - row_target)[:, row_target > 0].max(1)
    return np.maximum(rows, np.abs(plan.sum(1) - col_target)[:, col_target > 0].max(1))


def _row_duals(cost, col_dual, row_target, temperature) -> np.ndarray:
    """Row duals that make the row sums exact; those of a free slack stay zero."""
    exponent = (col_dual[:, None, :] - cost) / temperature
    high = exponent.max(2)
    log_sum = high + np.log(np.exp(exponent - high[:, :, None]).sum(2))
    return np.where(row_target > 0, temperature * (np.log(np.abs(row_target)) - log_sum), 0.0)


def _newton_step(plan, col_dual, row_target, col_target, temperature) -> np.ndarray:
    """New column duals: a capped Newton step on the dual in which the row duals are eliminated.

    Its Hessian is the Laplacian of a graph on the columns with weights sum_j m_jk m_jl / a_j. The
    diagonal is taken as the sum of the weights, never as a difference, or it would be lost when the
    plan is nearly a permutation.
    """
    fixed_rows = plan[:, row_target > 0]
    free_row = plan[:, row_target < 0].sum(1)
    wanted = col_target > 0
    fixed_rows = fixed_rows * (row_target[row_target > 0] / fixed_rows.sum(2))[:, :, None]
    weights = np.einsum("bjk,bjl->bkl", fixed_rows / row_target[row_target > 0, None], fixed_rows)
    diagonal = np.arange(len(col_target))
    weights[:, diagonal, diagonal] = 0.0
    hessian = -weights
    # the tiny extra keeps groups of columns that nothing connects to the others from dividing by
    # zero
    hessian[:, diagonal, diagonal] = (weights.sum(2) + free_row) * (1 + 1e-14) + 1e-18
    if wanted.all():
        # duals are free up to a constant: hold the last
        wanted = wanted & (diagonal < len(diagonal) - 1)
    gradient = np.where(col_target > 0, col_target, 0.0) - fixed_rows.sum(1) - free_row
    step = np.linalg.solve(hessian[:, wanted][:, :, wanted], gradient[:, wanted, None])[:, :, 0]
    # in units of T; larger steps can overshoot
    step *= np.minimum(1.0, 2.0 / np.abs(step).max(1))[:, None]
    moved = col_dual.copy()
    moved[:, wanted] += temperature * step
    return moved
