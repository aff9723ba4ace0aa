"""The slave solver of assignment potentials: linear assignment at temperature zero, softassign above."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, xlogy

import gmlearn as gm

from .potentials import Assignment
from .sinkhorn import assign, softassign


class SoftassignSolver(gm.SlaveSolver):
    r"""Exact minima and min-marginals of `Assignment` cliques, and their soft minimum at a temperature.

    `minimise` is linear assignment, O(k^2 L) a clique; `min_marginals` adds all-pairs shortest exchanges, O(L^3). The exact
    soft minimum would need a permanent; `log_partition` gives the capacity bound of `softassign`, a lower bound with the
    doubly stochastic match as its gradient. It is below the exact one by at most T log(L^L / L!) and meets the
    minimum as T goes to zero.
    """

    name = "softassign"
    soft_exact = False

    def refuses(self, block: gm.Block) -> str | None:
        return None if isinstance(block, Assignment) else "not an assignment potential"

    def cost(self, block: gm.Block) -> float:
        return float(len(block)) * block.arity**2 * block.max_states

    def minimise(self, block, theta, w):
        """Labels (M, k) and minima (M,) for costs theta (M, k, L); inf where every one-to-one match is forbidden."""
        labels, _, _, feasible = assign(np.ascontiguousarray(theta))
        labels[~feasible] = np.arange(theta.shape[1])
        value = np.take_along_axis(theta, labels[:, :, None], axis=2).sum((1, 2))
        return labels, np.where(feasible, value, np.inf)

    def min_marginals(self, block, theta, w):
        """Minima (M, k, L) with one variable's label fixed."""
        from ._assignment_numba import extra_costs_batch

        _, value = self.minimise(block, theta, w)
        cliques, arity, size = theta.shape
        square = np.zeros(
            (cliques, size, size)
        )  # labels that nobody takes go to rows that cost nothing
        square[:, :arity] = theta
        column, row_dual, col_dual, feasible = assign(square)
        extra = np.zeros(square.shape)  # where no match is possible the value is inf already
        extra_costs_batch(square, row_dual, col_dual, np.argsort(column, axis=1), feasible, extra)
        return value[:, None, None] + extra[:, :arity]

    def log_partition(self, block, theta, w, temperature):
        """Soft minima (M,), marginals (M, k, L) and features (none) at a positive temperature."""
        gm.check_number("temperature", temperature, low=0.0, strict=True)
        _, minimum = self.minimise(block, theta, w)
        value, marginals = np.full(len(theta), np.inf), np.zeros(theta.shape)
        # labels that pad a clique to the widest of its block are not there to be taken: one width at a time
        widths = block.states.max(axis=1)
        for size in np.unique(widths):
            alike = np.flatnonzero((widths == size) & np.isfinite(minimum))
            soft = softassign(finite_costs(theta[alike, :, :size], temperature), temperature)
            value[alike] = soft.value + temperature * _slack_entropy(int(size) - block.arity)
            marginals[alike, :, :size] = soft.plan
        return value, marginals, {}

    def examples(self, rng):
        """Square, rectangular and mixed cliques."""
        made = []
        for shape, states in (((4, 3), [3] * 6), ((3, 2), [4] * 5), ((5, 3), [3, 4, 5, 3, 4, 5])):
            variables = np.array(
                [rng.permutation(len(states))[: shape[1]] for _ in range(shape[0])]
            )
            made.append((Assignment(variables).bind(np.array(states)), {}))
        return made


def _slack_entropy(left_over: int) -> float:
    """What the slack row, which stands for `left_over` equal rows, counts too much: their permutations and joint entropy."""
    return float(gammaln(left_over + 1) - xlogy(left_over, left_over))


def finite_costs(theta: np.ndarray, temperature: float) -> np.ndarray:
    """`theta` (M, k, L) with inf replaced by a cost so high that its share exp(-cost / temperature) is zero in floating point.

    The cost is each clique's own, so that no clique's answer depends on the others.
    """
    finite = np.isfinite(theta)
    if finite.all():
        return theta
    low = theta.min(axis=(1, 2), where=finite, initial=0.0, keepdims=True)
    high = theta.max(axis=(1, 2), where=finite, initial=0.0, keepdims=True)
    return np.where(finite, theta, high + (theta.shape[2] + 1) * (high - low) + 800 * temperature)
