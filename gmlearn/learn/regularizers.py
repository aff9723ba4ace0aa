"""Regularisers of one weight segment; see `regularization` for who asks what."""

from __future__ import annotations

from typing import Any

import numpy as np

from gmlearn._utils.identify import identify
from gmlearn._utils.validation import check_array, check_number
from gmlearn.learn.convex_sets import EVERYTHING, ConvexSet, Shape, is_cone

#: accuracy of proximal maps that have no closed form, and the most iterations for it
ACCURACY, MOST_ITERATIONS = 1e-11, 20_000


class Regularizer:
    r"""A convex function R of a weight segment: mu/2 |w|^2, and a rest with a proximal map.

    A subclass sets `mu`, or defines `rest` and `prox_rest`, or both. If R is a sum of functions of
    single weights, ``separable = True`` lets every weight have a step of its own; for cutting
    planes, define `expression`.
    """

    #: strong convexity of the quadratic part
    mu: float = 0.0

    @property
    def quadratic(self) -> bool:
        """Is R nothing but mu/2 |w|^2?"""
        return type(self).rest is Regularizer.rest

    @property
    def separable(self) -> bool:
        """Is R a sum of functions of single weights? Else `prox_rest` is asked for equal steps
        only.
        """
        return self.quadratic

    def value(self, w: np.ndarray) -> float:
        """R(w)."""
        return 0.5 * self.mu * float(np.vdot(w, w)) + self.rest(w)

    def rest(self, w: np.ndarray) -> float:
        """What is not quadratic in R."""
        return 0.0

    def prox_rest(self, w: np.ndarray, step: np.ndarray) -> np.ndarray:
        """argmin_u rest(u) + sum (u - w)^2 / (2 step), step of the shape of w."""
        return w

    def prox(self, w: np.ndarray, step: np.ndarray, within: ConvexSet = EVERYTHING) -> np.ndarray:
        """argmin over u in `within` of R(u) + sum (u - w)^2 / (2 step), step of the shape of w.

        The steps are equal unless R is separable and the set is a box.
        """
        shrink = 1.0 + step * self.mu
        return self._prox_rest_within(w / shrink, step / shrink, within)[0]

    def closed_form(self, w: np.ndarray, step: np.ndarray, within: ConvexSet) -> np.ndarray | None:
        """argmin over u in `within` of rest(u) + sum (u - w)^2 / (2 step); None where there is no
        formula, and it has to be searched for.
        """
        if within.everything:
            return self.prox_rest(w, step)
        if self.quadratic or (self.separable and within.box):
            return within.project(self.prox_rest(w, step))
        return None

    def _prox_rest_within(
        self, w: np.ndarray, step: np.ndarray, within: ConvexSet
    ) -> tuple[np.ndarray, float]:
        """The joint proximal map of the rest, and by how much it may miss the minimum.

        Without a formula: accelerated proximal gradient steps on the dual, with restarts (Beck and
        Teboulle 2014). p is normal to the set at y; x minimises rest(u) + |u - w|^2 / (2 step) +
        <q, u>.
        """
        found = self.closed_form(w, step, within)
        if found is not None:
            return found, 0.0
        p = q = np.zeros(w.shape)
        momentum = 1.0
        accuracy = ACCURACY * (1.0 + np.abs(w).max(initial=0.0))
        for _ in range(MOST_ITERATIONS):
            x = self.prox_rest(w - step * q, step)
            y = within.project(x + step * q)
            last, p = p, q + (x - y) / step
            if np.abs(x - y).max(initial=0.0) <= accuracy:
                # <p, u - y> <= 0 in the set, and strong convexity at x, bound the minimum
                squares = (y - w) ** 2 - (x - w) ** 2 + (x - y) ** 2
                excess = np.sum(0.5 * squares / step - p * (x - y))
                return y, max(self.rest(y) - self.rest(x) + float(excess), 0.0)
            if np.vdot(q - p, p - last) > 0:
                momentum = 1.0
            following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
            q = p + (momentum - 1.0) / following * (p - last)
            momentum = following
        raise RuntimeError(
            f"the proximal map of {self!r} within {within!r} was not found in {MOST_ITERATIONS} "
            f"iterations; give the regulariser a `closed_form` for this set"
        )

    def conjugate(
        self, v: np.ndarray, within: ConvexSet = EVERYTHING, limit: float = np.inf
    ) -> float:
        """max over u in `within` with R(u) <= limit of <v, u> - R(u), or an upper bound of it;
        inf if none is known.
        """
        if self.mu > 0:  # the maximiser is the proximal point of the rest at v / mu
            u, excess = self._prox_rest_within(v / self.mu, np.full(v.shape, 1.0 / self.mu), within)
            return float(np.vdot(v, u)) - self.value(u) + excess
        return within.support(v) if self.quadratic else np.inf

    def expression(self, variable: Any, shape: Shape) -> Any:
        """R as a cvxpy expression of `variable`, the flat segment; None if it has no such form."""
        import cvxpy as cp

        rest = self.rest_expression(variable, shape)
        return None if rest is None else 0.5 * self.mu * cp.sum_squares(variable) + rest

    def rest_expression(self, variable: Any, shape: Shape) -> Any:
        """The same of the rest alone."""
        return 0.0 if self.quadratic else None

    def check(self, shape: Shape) -> None:
        """Raise a ValueError that begins with a parameter's name if R does not fit a segment."""

    def fingerprint(self) -> str:
        """The class and all parameters as a text."""
        return identify(self)


class NoRegularizer(Regularizer):
    """R = 0."""


class L2(Regularizer):
    r"""R = mu/2 |w|^2."""

    def __init__(self, mu: float = 1.0):
        self.mu = float(check_number("mu", mu, low=0))

    def __repr__(self) -> str:
        return f"L2({self.mu:g})"


class _Norm(Regularizer):
    """tau times a norm (and the quadratic part)."""

    tau: float

    def dual_norm(self, v: np.ndarray) -> float:
        """max of <v, u> over the unit ball of the norm."""
        raise TypeError(f"{type(self).__name__} must define dual_norm(v)")

    def conjugate(
        self, v: np.ndarray, within: ConvexSet = EVERYTHING, limit: float = np.inf
    ) -> float:
        if self.mu > 0:
            return super().conjugate(v, within, limit)
        if not is_cone(within, v.shape):
            return within.support(v)  # R >= 0
        excess = self.dual_norm(within.project(v)) - self.tau
        if excess <= 0.0:
            return 0.0
        return excess * limit / self.tau if self.tau > 0 else np.inf


class L1(_Norm):
    r"""R = tau |w|_1."""

    separable = True

    def __init__(self, tau: float = 1.0):
        self.tau = float(check_number("tau", tau, low=0))

    def rest(self, w: np.ndarray) -> float:
        return self.tau * float(np.abs(w).sum())

    def prox_rest(self, w: np.ndarray, step: np.ndarray) -> np.ndarray:
        return np.sign(w) * np.maximum(np.abs(w) - step * self.tau, 0.0)

    def closed_form(self, w: np.ndarray, step: np.ndarray, within: ConvexSet) -> np.ndarray | None:
        found = super().closed_form(w, step, within)
        if found is None and (within.bounds(w.shape)[0] >= 0).all():
            return within.project(w - step * self.tau)  # |u| = u
        return found

    def dual_norm(self, v: np.ndarray) -> float:
        return float(np.abs(v).max(initial=0.0))

    def rest_expression(self, variable: Any, shape: Shape) -> Any:
        import cvxpy as cp

        return self.tau * cp.norm1(variable)

    def __repr__(self) -> str:
        return f"L1({self.tau:g})"


class ElasticNet(L1):
    r"""R = mu/2 |w|^2 + tau |w|_1."""

    def __init__(self, mu: float = 1.0, tau: float = 1.0):
        super().__init__(tau)
        self.mu = float(check_number("mu", mu, low=0))

    def __repr__(self) -> str:
        return f"ElasticNet({self.mu:g}, {self.tau:g})"


class GroupL2(_Norm):
    r"""R = tau sum_g |w_g|: whole groups are switched off. Groups are the rows of the segment, or
    given as int labels.

    Parameters
    ----------
    groups : int array of the segment's shape with a group number for each weight; None: one group
        per row.
    """

    def __init__(self, tau: float = 1.0, groups: Any = None):
        self.tau = float(check_number("tau", tau, low=0))
        self.groups = None if groups is None else check_array("groups", groups, dtype=np.int64)
        if self.groups is not None and self.groups.size and self.groups.min() < 0:
            raise ValueError(f"groups: expected numbers >= 0, got {self.groups.min()}")

    def check(self, shape: Shape) -> None:
        if self.groups is not None and self.groups.size != np.prod(shape, dtype=int):
            raise ValueError(
                f"groups: expected a number for each weight of shape {shape}, got "
                f"{self.groups.size}"
            )

    def _numbers(self, shape: Shape) -> np.ndarray:
        """The group (n,) of each weight of the flat segment."""
        if self.groups is not None:
            self.check(shape)
            return self.groups.ravel()
        rows, size = shape[0] if shape else 1, int(np.prod(shape))
        return np.repeat(np.arange(rows), size // max(rows, 1))

    def _norms(self, w: np.ndarray) -> np.ndarray:
        return np.sqrt(np.bincount(self._numbers(w.shape), w.ravel() ** 2))

    def rest(self, w: np.ndarray) -> float:
        return self.tau * float(self._norms(w).sum())

    def prox_rest(self, w: np.ndarray, step: np.ndarray) -> np.ndarray:
        rate = np.max(step, initial=0.0)
        factor = np.maximum(1.0 - rate * self.tau / np.maximum(self._norms(w), 1e-300), 0.0)
        return w * factor[self._numbers(w.shape)].reshape(w.shape)

    def closed_form(self, w: np.ndarray, step: np.ndarray, within: ConvexSet) -> np.ndarray | None:
        # in a cone, only the nearest point matters: no direction of the cone fits w better
        if is_cone(within, w.shape):
            return self.prox_rest(within.project(w), step)
        return super().closed_form(w, step, within)

    def dual_norm(self, v: np.ndarray) -> float:
        return float(self._norms(v).max(initial=0.0))

    def rest_expression(self, variable: Any, shape: Shape) -> Any:
        import cvxpy as cp

        number = self._numbers(shape)
        groups = [np.flatnonzero(number == g) for g in np.unique(number)]
        return self.tau * sum(cp.norm(variable[group]) for group in groups)


def check_regularizer(regularizer: Regularizer, shape: Shape) -> None:
    """Refuse formulas that contradict each other, as seen at a few random points of a segment."""
    kind = type(regularizer)
    regularizer.check(shape)
    if kind.value is not Regularizer.value or kind.prox is not Regularizer.prox:
        raise ValueError(
            f"value, prox: {kind.__name__} overrides what is made of `mu`, `rest` and "
            f"`prox_rest`; define these"
        )
    rng = np.random.default_rng(0)
    for scale in (0.1, 1.0, 10.0):
        w = scale * rng.normal(size=shape)
        step = rng.uniform(0.5, 2.0, shape) if regularizer.separable else np.full(shape, 0.7)
        u = np.asarray(regularizer.prox_rest(w, step))
        if u.shape != shape or not np.isfinite(u).all():
            raise ValueError(f"prox_rest: expected a finite array of shape {shape}, got {u!r}")
        others = [u + scale * 0.1**k * rng.normal(size=shape) for k in range(6)]
        at, *near = (
            regularizer.rest(x) + float(np.sum((x - w) ** 2 / (2.0 * step))) for x in [u, *others]
        )
        if not at <= min(near) + 1e-9 * (1.0 + abs(at)):
            raise ValueError(
                f"prox_rest: not the proximal map of `rest`: a random point is better by "
                f"{at - min(near):.3g}" + (" (is it separable?)" if regularizer.separable else "")
            )
