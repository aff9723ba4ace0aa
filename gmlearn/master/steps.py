"""Step rules of the projected subgradient master."""

from __future__ import annotations

import math

from gmlearn._utils.validation import check_choice, check_number


class StepRule:
    """How far to go along a supergradient of squared norm `norm2` at a point with value `bound`."""

    def start(self, scale: float, norm2: float) -> None:
        """Called before the first step with the typical size of a cost."""
        return None

    def step(self, bound: float, best: float, norm2: float, t: int) -> float:
        raise TypeError("a step rule must define step(bound, best, norm2, t)")


class Constant(StepRule):
    """The same step in every round: ends in a neighbourhood of the optimum."""

    def __init__(self, size: float = 0.1):
        self.size = size

    def step(self, bound: float, best: float, norm2: float, t: int) -> float:
        return self.size


class Diminishing(StepRule):
    r"""Steps :math:`a / \sqrt{1 + t}`: converges, slowly."""

    def __init__(self, size: float = 1.0):
        self.size = size

    def step(self, bound: float, best: float, norm2: float, t: int) -> float:
        return self.size / math.sqrt(1.0 + t)


class Polyak(StepRule):
    """Steps (target - bound) / |g|^2 towards a given target value; only right if the target is
    the dual optimum.
    """

    def __init__(self, target: float, size: float = 1.0):
        self.target, self.size = target, size

    def step(self, bound: float, best: float, norm2: float, t: int) -> float:
        return self.size * max(self.target - bound, 0.0) / max(norm2, 1e-12)


class Level(StepRule):
    """Polyak steps towards a level above the best bound; the level sinks when it is not reached.

    The level is best + delta; delta grows while rounds improve the bound and shrinks after
    `patience` rounds that do not.
    """

    def __init__(
        self, delta: float | None = None, patience: int = 5, shrink: float = 0.6, grow: float = 1.3
    ):
        self.delta, self.patience, self.shrink, self.grow = delta, patience, shrink, grow
        self.last_best, self.failures = -math.inf, 0

    def start(self, scale: float, norm2: float) -> None:
        if self.delta is None:
            # so that the first step moves multipliers by about 0.3 of a typical cost
            self.delta = 0.3 * scale * norm2

    def step(self, bound: float, best: float, norm2: float, t: int) -> float:
        if self.delta is None:
            self.delta = 0.5 * norm2**0.5 if norm2 > 0 else 1.0
        if best > self.last_best:
            if best - self.last_best > 0.3 * self.delta:
                self.delta *= self.grow
            self.last_best, self.failures = best, 0
        else:
            self.failures += 1
            if self.failures >= self.patience:
                self.delta *= self.shrink
                self.failures = 0
        return (best + self.delta - bound) / max(norm2, 1e-12)


def make_step_rule(
    rule: str | StepRule, size: float | None = None, target: float | None = None
) -> StepRule:
    """A step rule by name: level, diminishing, constant, polyak (with `target`)."""
    if isinstance(rule, StepRule):
        return rule
    check_choice("step", rule, ("level", "diminishing", "constant", "polyak"))
    if size is not None:
        check_number("step_size", size, low=0, strict=True)
    if rule == "polyak":
        if target is None:
            raise ValueError("step: 'polyak' needs target=, the value that the bound should reach")
        if not math.isfinite(check_number("target", target)):
            raise ValueError(f"target: expected a finite number, got {target!r}")
        return Polyak(target, size or 1.0)
    if rule == "level":
        return Level(size)
    return Diminishing(size or 1.0) if rule == "diminishing" else Constant(size or 0.1)
