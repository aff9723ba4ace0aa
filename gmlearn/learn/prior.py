"""Regularisers and convex sets, for the whole weight vector or for single segments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from gmlearn._utils.validation import check_array, check_number
from gmlearn.model.weights import WeightLayout

# ---------------------------------------------------------------------- regularisers


class Regularizer:
    r"""A convex function R of a weight segment: quadratic part mu/2 |w|^2, and a rest with a proximal map."""

    #: strong convexity of the quadratic part
    mu: float = 0.0

    def value(self, w: np.ndarray) -> float:
        """R(w)."""
        return 0.5 * self.mu * float(np.vdot(w, w)) + self.rest(w)

    def rest(self, w: np.ndarray) -> float:
        """What is not quadratic in R."""
        return 0.0

    def prox_rest(self, w: np.ndarray, step: np.ndarray) -> np.ndarray:
        """argmin_u rest(u) + sum (u - w)^2 / (2 step), step of the shape of w."""
        return w

    def prox(self, w: np.ndarray, step: np.ndarray) -> np.ndarray:
        """argmin_u R(u) + sum (u - w)^2 / (2 step), step of the shape of w."""
        shrink = 1.0 + step * self.mu
        return self.prox_rest(w / shrink, step / shrink)


class NoRegularizer(Regularizer):
    """R = 0."""


class L2(Regularizer):
    r"""R = mu/2 |w|^2."""

    def __init__(self, mu: float = 1.0):
        self.mu = float(check_number("mu", mu, low=0))

    def __repr__(self) -> str:
        return f"L2({self.mu:g})"


class L1(Regularizer):
    r"""R = tau |w|_1."""

    def __init__(self, tau: float = 1.0):
        self.tau = float(check_number("tau", tau, low=0))

    def rest(self, w: np.ndarray) -> float:
        return self.tau * float(np.abs(w).sum())

    def prox_rest(self, w: np.ndarray, step: np.ndarray) -> np.ndarray:
        return np.sign(w) * np.maximum(np.abs(w) - step * self.tau, 0.0)

    def __repr__(self) -> str:
        return f"L1({self.tau:g})"


class ElasticNet(L1):
    r"""R = mu/2 |w|^2 + tau |w|_1."""

    def __init__(self, mu: float = 1.0, tau: float = 1.0):
        super().__init__(tau)
        self.mu = float(check_number("mu", mu, low=0))

    def __repr__(self) -> str:
        return f"ElasticNet({self.mu:g}, {self.tau:g})"


class GroupL2(Regularizer):
    r"""R = tau sum_g |w_g|: whole groups are switched off. Groups are the rows of the segment, or given as int labels.

    Parameters
    ----------
    groups : int array of the segment's shape with a group number for each weight; None: one group per row.
    """

    def __init__(self, tau: float = 1.0, groups: Any = None):
        self.tau = float(check_number("tau", tau, low=0))
        self.groups = None if groups is None else check_array("groups", groups, dtype=np.int64)
        if self.groups is not None and self.groups.size and self.groups.min() < 0:
            raise ValueError(f"groups: expected numbers >= 0, got {self.groups.min()}")

    def _numbers(self, w: np.ndarray) -> np.ndarray:
        if self.groups is None:
            rows = w.shape[0] if w.ndim else 1
            return np.repeat(np.arange(rows), w.size // max(rows, 1))
        if self.groups.size != w.size:
            raise ValueError(
                f"groups: expected one number for each of the {w.size} weights, got {self.groups.size}"
            )
        return self.groups.ravel()

    def _norms(self, w: np.ndarray, number: np.ndarray) -> np.ndarray:
        return np.sqrt(np.bincount(number, w.ravel() ** 2))

    def rest(self, w: np.ndarray) -> float:
        return self.tau * float(self._norms(w, self._numbers(w)).sum())

    def prox_rest(self, w: np.ndarray, step: np.ndarray) -> np.ndarray:
        number = self._numbers(w)
        norm = self._norms(w, number)
        # one step for a group: with different ones the proximal map has no closed form
        rate = np.bincount(number, np.broadcast_to(step, w.shape).ravel()) / np.maximum(
            np.bincount(number), 1
        )
        factor = np.maximum(1.0 - rate * self.tau / np.maximum(norm, 1e-300), 0.0)
        return (w.ravel() * factor[number]).reshape(w.shape)


# ---------------------------------------------------------------------- convex sets


class ConvexSet:
    """A convex set of a weight segment, known by its projection."""

    def project(self, w: np.ndarray) -> np.ndarray:
        """The nearest point of the set."""
        return w


class Box(ConvexSet):
    """low <= w <= high, elementwise."""

    def __init__(self, low: Any = -np.inf, high: Any = np.inf):
        self.low, self.high = np.asarray(low, float), np.asarray(high, float)
        if not np.all(self.low <= self.high):
            raise ValueError(f"low, high: expected low <= high, got {low!r} and {high!r}")

    def project(self, w: np.ndarray) -> np.ndarray:
        return np.clip(w, self.low, self.high)


class NonNegative(Box):
    """w >= 0."""

    def __init__(self) -> None:
        super().__init__(0.0, np.inf)


class Simplex(ConvexSet):
    """w >= 0 with sum `total`."""

    def __init__(self, total: float = 1.0):
        self.total = float(check_number("total", total, low=0, strict=True))

    def project(self, w: np.ndarray) -> np.ndarray:
        flat = np.sort(w.ravel())[::-1]
        excess = (np.cumsum(flat) - self.total) / np.arange(1, flat.size + 1)
        level = excess[np.flatnonzero(flat > excess)[-1]]
        return np.maximum(w - level, 0.0)


class Fixed(ConvexSet):
    """Frozen weights: w = value."""

    def __init__(self, value: Any):
        self.value = check_array("value", value)

    def project(self, w: np.ndarray) -> np.ndarray:
        return np.broadcast_to(self.value, w.shape).astype(float)


class Projection(ConvexSet):
    """A user's own set: any function that maps a segment to its nearest point in the set."""

    def __init__(self, function: Callable[[np.ndarray], np.ndarray]):
        self.function = function

    def project(self, w: np.ndarray) -> np.ndarray:
        found = np.asarray(self.function(w), float)
        if found.shape != w.shape or not np.isfinite(found).all():
            raise ValueError(
                f"constraints: the projection returned shape {found.shape} (finite: {np.isfinite(found).all()}), "
                f"expected a finite array of shape {w.shape}"
            )
        return found


# ---------------------------------------------------------------------- both together


class Prior:
    """R(w) over w in W, segment by segment, as the optimisers see it: on the flat weight vector."""

    def __init__(self, layout: WeightLayout, regularizer: Any = None, constraints: Any = None):
        self.layout = layout
        self.regularizers = self._by_segment(
            "regularizer", regularizer, Regularizer, NoRegularizer()
        )
        self.sets = self._by_segment("constraints", constraints, ConvexSet, ConvexSet())
        for name, shape in layout.shapes.items():
            self._check_fit(name, shape)

    def _by_segment(self, what: str, given: Any, kind: type, default: Any) -> dict[str, Any]:
        if given is None:
            given = default
        if kind is ConvexSet and callable(given) and not isinstance(given, ConvexSet):
            given = Projection(given)
        if isinstance(given, kind):
            return {name: given for name in self.layout.shapes}
        if not isinstance(given, Mapping):
            raise TypeError(
                f"{what}: expected a {kind.__name__}, or a mapping from segment names to them, got {given!r}"
            )
        unknown = [name for name in given if name not in self.layout.shapes]
        if unknown:
            raise ValueError(
                f"{what}: no weight segment {unknown[0]!r}; the model has {sorted(self.layout.shapes)}"
            )
        found = {}
        for name in self.layout.shapes:
            value = given.get(name, default)
            if kind is ConvexSet and callable(value) and not isinstance(value, ConvexSet):
                value = Projection(value)
            if not isinstance(value, kind):
                raise TypeError(f"{what}[{name!r}]: expected a {kind.__name__}, got {value!r}")
            found[name] = value
        return found

    def _check_fit(self, name: str, shape: tuple[int, ...]) -> None:
        """Bounds, frozen values and groups that do not fit the segment are refused by its name."""
        for bound in ("low", "high", "value"):
            given = np.shape(getattr(self.sets[name], bound, 0.0))
            try:
                fits = np.broadcast_shapes(given, shape) == shape
            except ValueError:
                fits = False
            if not fits:
                raise ValueError(
                    f"constraints[{name!r}].{bound}: expected a number or shape {shape}, got shape {given}"
                )
        groups = getattr(self.regularizers[name], "groups", None)
        if groups is not None and groups.size != np.prod(shape, dtype=int):
            raise ValueError(
                f"regularizer[{name!r}].groups: expected a number for each weight of shape {shape}, got {groups.size}"
            )

    def _map(self, w: np.ndarray, function: Callable[[str, np.ndarray], np.ndarray]) -> np.ndarray:
        out = np.empty(self.layout.size)
        for name, part in self.layout.split(w).items():
            out[self.layout.slices[name]] = np.asarray(
                self.sets[name].project(function(name, part))
            ).ravel()
        return out

    @cached_property
    def plain(self) -> bool:
        """Nothing but mu/2 |w|^2, and no set: then all is one formula."""
        return all(type(s) is ConvexSet for s in self.sets.values()) and all(
            type(r) in (L2, NoRegularizer) for r in self.regularizers.values()
        )

    @cached_property
    def curvature(self) -> np.ndarray:
        """mu of every weight, (P,)."""
        out = np.empty(self.layout.size)
        for name, where in self.layout.slices.items():
            out[where] = self.regularizers[name].mu
        return out

    def value(self, w: np.ndarray) -> float:
        """R(w)."""
        return float(sum(self.regularizers[n].value(p) for n, p in self.layout.split(w).items()))

    def project(self, w: np.ndarray) -> np.ndarray:
        """The nearest point of W."""
        return self._map(w, lambda name, part: part)

    def prox(self, w: np.ndarray, step: Any) -> np.ndarray:
        """argmin over W of R(u) + sum (u - w)^2 / (2 step); step a number or (P,).

        Exact where the set is a box, or R is quadratic and the steps are equal.
        """
        if self.plain:
            return np.asarray(w, float) / (1.0 + step * self.curvature)
        steps = self.layout.split(np.broadcast_to(np.asarray(step, float), (self.layout.size,)))

        def one(name: str, part: np.ndarray) -> np.ndarray:
            return self.regularizers[name].prox(part, steps[name])

        return self._map(w, one)

    def even(self, rate: np.ndarray) -> np.ndarray:
        """`rate` (P,) with one value for each segment whose set or regulariser couples its weights.

        Projections are nearest points for equal rates only; with others a method would end at a wrong point.
        """
        out = np.array(rate, float)
        if self.plain:
            return out
        for name, where in self.layout.slices.items():
            coupled = not (
                type(self.sets[name]) is ConvexSet or isinstance(self.sets[name], (Box, Fixed))
            )
            if coupled or isinstance(self.regularizers[name], GroupL2):
                out[where] = out[where].min(initial=np.inf)
        return out
