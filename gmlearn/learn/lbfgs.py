r"""Limited-memory BFGS within bounds, which can stop after any iteration and go on later.

Minimises a smooth f over low <= x <= high. Coordinates at a bound that the gradient pushes
outwards are held; the others move along :math:`-H g`, H the inverse Hessian that the last pairs
(step, change of the gradient) stand for (two-loop recursion: Nocedal, 1980). The step length is
halved, along the path projected onto the bounds, until f falls by Armijo's rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]
#: pairs that are kept, and step lengths that are tried in one iteration
PAIRS, MOST_TRIALS = 40, 30
#: the part of the fall that the gradient promises, and relative rounding of f
ARMIJO, ROUNDING = 1e-4, 1e-15
#: an iteration that lowers f by less, relatively, is the last
LEAST_FALL = 1e-14


def dot(a: np.ndarray, b: np.ndarray) -> float:
    """<a, b>; unlike ``a @ b`` the same bits for every number of BLAS threads."""
    return float(np.einsum("i,i->", a, b))


@dataclass
class LbfgsState:
    """x, slope : float (n,), the point and the gradient there.   value : f; NaN if not known.
    steps, changes : float (PAIRS, n), the last pairs, oldest first.   kept : how many there are.
    """

    x: np.ndarray
    slope: np.ndarray
    steps: np.ndarray
    changes: np.ndarray
    value: float = np.nan
    kept: int = 0

    @classmethod
    def at(cls, x: np.ndarray) -> LbfgsState:
        """Nothing but a point."""
        n = len(x)
        return cls(x.copy(), np.zeros(n), np.zeros((PAIRS, n)), np.zeros((PAIRS, n)))

    def add(self, step: np.ndarray, change: np.ndarray) -> None:
        """Keep a pair of positive curvature; the oldest one goes."""
        if not dot(step, change) > 1e-12 * dot(change, change):
            return
        if self.kept == PAIRS:
            self.steps[:-1], self.changes[:-1] = self.steps[1:], self.changes[1:]
            self.kept -= 1
        self.steps[self.kept], self.changes[self.kept] = step, change
        self.kept += 1

    def direction(self, free: np.ndarray | None) -> np.ndarray:
        """-H g, (n,); in the coordinates that are `free` alone (None: all)."""
        steps, changes, q = self.steps[: self.kept], self.changes[: self.kept], -self.slope
        if free is not None:
            steps, changes, q = steps * free, changes * free, q * free
        curvature = np.einsum("ij,ij->i", steps, changes)
        used = np.flatnonzero(curvature > 0)
        parts = np.zeros(len(curvature))
        for i in used[::-1]:
            parts[i] = dot(steps[i], q) / curvature[i]
            q = q - parts[i] * changes[i]
        if len(used):
            last = used[-1]
            q *= curvature[last] / dot(changes[last], changes[last])
        else:
            q /= max(float(np.abs(q).sum()), 1.0)
        for i in used:
            q += (parts[i] - dot(changes[i], q) / curvature[i]) * steps[i]
        return q


def iterate(function: Function, state: LbfgsState, low: np.ndarray, high: np.ndarray) -> bool:
    """One iteration, in place; False if f does not fall any more.

    function : x -> (f, gradient).
    """
    if np.isnan(state.value):
        state.value, state.slope = function(state.x)
    held = ((state.x <= low) & (state.slope > 0)) | ((state.x >= high) & (state.slope < 0))
    free = ~held if held.any() else None
    direction = state.direction(free)
    if not dot(direction, state.slope) < 0.0:
        state.kept = 0
        direction = state.direction(free)
    length = 1.0
    for _ in range(MOST_TRIALS):
        x = np.clip(state.x + length * direction, low, high)
        step = x - state.x
        promised = dot(step, state.slope)
        if promised >= 0.0:
            return False
        value, slope = function(x)
        slack = ROUNDING * abs(state.value)
        if value <= state.value + ARMIJO * promised + slack:
            fall = state.value - value
            state.add(step, slope - state.slope)
            state.x, state.value, state.slope = x, value, slope
            return fall > LEAST_FALL * abs(value)
        # the minimum of the parabola through f, its slope and the new value
        curvature = value - state.value - promised
        ratio = -0.5 * promised / curvature if np.isfinite(curvature) and curvature > 0.0 else 0.0
        length *= float(np.clip(ratio, 0.1, 0.5))
    return False
