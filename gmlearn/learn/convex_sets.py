"""Feasible sets of the weights of one segment; see `regularization` for who asks what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gmlearn._utils.identify import identify
from gmlearn._utils.validation import check_array, check_number

Shape = tuple[int, ...]


class ConvexSet:
    """A convex set of a weight segment; this one holds all weights.

    A subclass defines `project`. That is enough for the first-order optimisers. To be a product of
    intervals, set ``box = True`` and define `bounds`; for cutting planes, define `constraint`.
    """

    @property
    def everything(self) -> bool:
        """Is there no restriction at all?"""
        return type(self).project is ConvexSet.project

    @property
    def box(self) -> bool:
        """Is the set all that is within `bounds`?"""
        return self.everything

    def bounds(self, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
        """Bounds (low, high), of the segment's shape, that hold for every weight of the set."""
        return np.full(shape, -np.inf), np.full(shape, np.inf)

    def project(self, w: np.ndarray) -> np.ndarray:
        """The nearest point of the set."""
        return w

    def support(self, v: np.ndarray) -> float:
        """max over the set of <v, u>, or an upper bound of it."""
        low, high = self.bounds(v.shape)
        return float(np.where(v > 0, high, low)[v != 0] @ v[v != 0])

    def constraint(self, variable: Any, shape: Shape) -> list[Any] | None:
        """The set as cvxpy constraints on `variable`, the flat segment; None if it has no such
        form.
        """
        if not self.box:
            return None
        low, high = (bound.ravel() for bound in self.bounds(shape))
        fixed, below, above = low == high, np.isfinite(low), np.isfinite(high)
        kinds = [
            (fixed, lambda part, at: part == low[at]),
            (below & ~fixed, lambda part, at: part >= low[at]),
            (above & ~fixed, lambda part, at: part <= high[at]),
        ]
        return [make(variable[np.flatnonzero(at)], at) for at, make in kinds if at.any()]

    def check(self, shape: Shape) -> None:
        """Raise a ValueError that begins with a parameter's name if the set does not fit."""

    def fingerprint(self) -> str:
        """The class and all parameters as a text."""
        return identify(self)


def check_broadcast(name: str, value: np.ndarray, shape: Shape) -> None:
    """Refuse a parameter that is neither a number nor of the segment's shape."""
    try:
        fits = np.broadcast_shapes(np.shape(value), shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"{name}: expected a number or shape {shape}, got shape {np.shape(value)}")


class Box(ConvexSet):
    """low <= w <= high, elementwise."""

    box = True

    def __init__(self, low: Any = -np.inf, high: Any = np.inf):
        self.low = check_array("low", low, allow_nan=True)
        self.high = check_array("high", high, allow_nan=True)
        if not np.all(self.low <= self.high):
            raise ValueError(f"low, high: expected low <= high, got {low!r} and {high!r}")

    def bounds(self, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
        return np.broadcast_to(self.low, shape), np.broadcast_to(self.high, shape)

    def project(self, w: np.ndarray) -> np.ndarray:
        return np.clip(w, self.low, self.high)

    def check(self, shape: Shape) -> None:
        check_broadcast("low", self.low, shape)
        check_broadcast("high", self.high, shape)


class NonNegative(Box):
    """w >= 0."""

    def __init__(self) -> None:
        super().__init__(0.0, np.inf)


class Simplex(ConvexSet):
    """w >= 0 with sum `total`."""

    def __init__(self, total: float = 1.0):
        self.total = float(check_number("total", total, low=0, strict=True))

    def bounds(self, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(shape), np.full(shape, self.total)

    def project(self, w: np.ndarray) -> np.ndarray:
        flat = np.sort(w.ravel())[::-1]
        excess = (np.cumsum(flat) - self.total) / np.arange(1, flat.size + 1)
        level = excess[np.flatnonzero(flat > excess)[-1]]
        return np.maximum(w - level, 0.0)

    def support(self, v: np.ndarray) -> float:
        return self.total * float(v.max())

    def constraint(self, variable: Any, shape: Shape) -> list[Any]:
        return [variable >= 0, variable.sum() == self.total]


class Fixed(ConvexSet):
    """Frozen weights: w = value."""

    box = True

    def __init__(self, value: Any):
        self.value = check_array("value", value)

    def bounds(self, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
        return np.broadcast_to(self.value, shape), np.broadcast_to(self.value, shape)

    def project(self, w: np.ndarray) -> np.ndarray:
        return np.broadcast_to(self.value, w.shape).astype(float)

    def check(self, shape: Shape) -> None:
        check_broadcast("value", self.value, shape)


class Projection(ConvexSet):
    """A user's own set: any function that maps a segment to its nearest point in the set."""

    def __init__(self, function: Callable[[np.ndarray], np.ndarray]):
        self.function = function

    def project(self, w: np.ndarray) -> np.ndarray:
        found = np.asarray(self.function(w), float)
        if found.shape != w.shape or not np.isfinite(found).all():
            raise ValueError(
                f"constraints: the projection returned shape {found.shape} (finite: "
                f"{np.isfinite(found).all()}), "
                f"expected a finite array of shape {w.shape}"
            )
        return found


#: no restriction
EVERYTHING = ConvexSet()


def is_cone(within: ConvexSet, shape: Shape) -> bool:
    """Is the set an orthant, or one with free or frozen-at-zero weights: are all bounds 0 or
    infinite?
    """
    return within.box and not any(np.where(np.isinf(b), 0.0, b).any() for b in within.bounds(shape))


def check_set(within: ConvexSet, shape: Shape) -> None:
    """The same for a set: nearest points see all others at an obtuse angle."""
    within.check(shape)
    rng = np.random.default_rng(0)
    low, high = within.bounds(shape)
    far = [scale * rng.normal(size=shape) for scale in (0.1, 1.0, 10.0)]
    near = [np.asarray(within.project(w), float) for w in far]
    for w, p in zip(far, near):
        if p.shape != shape:
            raise ValueError(f"project: expected shape {shape}, got {p.shape}")
        slack = 1e-9 * (1.0 + float(np.vdot(w, w)))
        angles = [float(np.vdot(w - p, q - p)) for q in near]
        outside = max(float(np.max(low - p, initial=0.0)), float(np.max(p - high, initial=0.0)))
        clipped = within.box and not np.allclose(p, np.clip(w, low, high), atol=1e-9)
        if max(angles) > slack or outside > slack or clipped:
            raise ValueError(
                f"project: {within!r} does not map to the nearest point of a convex set"
                + ("" if max(angles) > slack else " with these `bounds`")
            )
