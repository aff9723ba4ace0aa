"""Projected subgradient ascent of the dual (theory: lambda += step (ind - mean))."""

from __future__ import annotations

from collections.abc import Iterator

from gmlearn.master.dual import Dual, Round
from gmlearn.master.steps import StepRule


def ascend_subgradient(dual: Dual, rule: StepRule) -> Iterator[Round]:
    """Yield one round after the other, for as long as the caller asks; ``dual.lam`` moves along.

    Ends by itself when all slaves agree: the supergradient is then zero and the bound cannot rise.
    """
    best, t = -float("inf"), 0
    while True:
        current = dual.round()
        best = max(best, current.bound)
        yield current
        direction = current.ind - dual.slaves.spread(current.mean)
        norm2 = float(direction @ direction)
        if norm2 == 0.0 or current.bound == float("inf"):
            return
        if t == 0:
            rule.start(dual.cost_scale(current), norm2)
        dual.lam += rule.step(current.bound, best, norm2, t) * direction
        t += 1
