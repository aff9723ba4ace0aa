r"""Regularisers and feasible sets of the weights, and what optimisers ask of them.

Training minimises R(w) + hinges over w in W. R and W come segment by segment; each regulariser and
each set answers for itself, so that a user's class is worth as much as a built-in one:

================  ==============================================================================
value, prox       R and its proximal map, jointly with the set: argmin over W of R(u) + |u - w|^2/2s
separable, box    may steps differ from weight to weight?
conjugate         max over W of <v, u> - R(u), for lower bounds of the training objective
expression,       the same in cvxpy's words, for cutting planes
constraint
bounds            for methods that know bounds on single weights only
fingerprint       what a checkpoint must agree with
================  ==============================================================================

A class that says no more than its formulas gets the safe answer everywhere: it couples the weights
of its segment, and has no form for cutting planes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from gmlearn.learn.convex_sets import EVERYTHING, ConvexSet, Projection, Shape, check_set
from gmlearn.learn.regularizers import NoRegularizer, Regularizer, check_regularizer
from gmlearn.model.weights import WeightLayout


class Regularization:
    """R(w) over w in W, segment by segment, as the optimisers see it: on the flat weight vector."""

    def __init__(self, layout: WeightLayout, regularizer: Any = None, constraints: Any = None):
        self.layout = layout
        self.regularizers = self._by_segment(
            "regularizer", regularizer, Regularizer, NoRegularizer(), check_regularizer
        )
        self.sets = self._by_segment("constraints", constraints, ConvexSet, EVERYTHING, check_set)

    def _by_segment(
        self, what: str, given: Any, kind: type, default: Any, check: Callable[[Any, Shape], None]
    ) -> dict[str, Any]:
        """The term of every segment, from one for all or a mapping; functions are projections."""
        shapes = self.layout.shapes
        one = given is None or not isinstance(given, Mapping)
        if one:
            given = dict.fromkeys(shapes, default if given is None else given)
        unknown = [name for name in given if name not in shapes]
        if unknown:
            raise ValueError(
                f"{what}: no weight segment {unknown[0]!r}; the model has {sorted(shapes)}"
            )
        found = {}
        for name, shape in shapes.items():
            value = given.get(name, default)
            if kind is ConvexSet and callable(value):
                value = Projection(value)
            if not isinstance(value, kind):
                where = (
                    f"{what}: expected a {kind.__name__}, or a mapping from segment names to them"
                    if one
                    else f"{what}[{name!r}]: expected a {kind.__name__}"
                )
                raise TypeError(f"{where}, got {value!r}")
            try:
                check(value, shape)
            except ValueError as error:
                raise ValueError(f"{what}[{name!r}].{error}") from None
            found[name] = value
        return found

    @cached_property
    def plain(self) -> bool:
        """Nothing but mu/2 |w|^2, and no set: then all is one formula."""
        return self.quadratic and all(s.everything for s in self.sets.values())

    @cached_property
    def quadratic(self) -> bool:
        """Is R nothing but mu/2 |w|^2 in every segment?"""
        return all(r.quadratic for r in self.regularizers.values())

    @cached_property
    def curvature(self) -> np.ndarray:
        """mu of every weight, (P,)."""
        out = np.empty(self.layout.size)
        for name, where in self.layout.slices.items():
            out[where] = self.regularizers[name].mu
        return out

    @cached_property
    def coupled(self) -> list[slice]:
        """The segments whose weights need equal steps."""
        return [
            where
            for name, where in self.layout.slices.items()
            if not (self.sets[name].box and self.regularizers[name].separable)
        ]

    def even(self, rate: np.ndarray) -> np.ndarray:
        """`rate` (P,) with one value, the least, for each segment whose weights are coupled.

        Proximal maps and projections are known for equal rates only; with others a method would
        end at a wrong point.
        """
        out = np.array(rate, float)
        for where in self.coupled:
            out[where] = out[where].min(initial=np.inf)
        return out

    def value(self, w: np.ndarray) -> float:
        """R(w)."""
        return float(sum(self.regularizers[n].value(p) for n, p in self.layout.split(w).items()))

    def project(self, w: np.ndarray) -> np.ndarray:
        """The nearest point of W."""
        return self.layout.join({n: self.sets[n].project(p) for n, p in self._parts(w)})

    def prox(self, w: np.ndarray, step: Any) -> np.ndarray:
        """argmin over W of R(u) + sum (u - w)^2 / (2 step); step a number or (P,), see `even`."""
        if self.plain:
            return np.asarray(w, float) / (1.0 + step * self.curvature)
        step = np.broadcast_to(np.asarray(step, float), (self.layout.size,))
        if any(np.ptp(step[where]) > 0 for where in self.coupled if step[where].size):
            raise ValueError("step: expected one for all weights of a coupled segment; see `even`")
        steps = self.layout.split(step)
        return self.layout.join(
            {n: self.regularizers[n].prox(p, steps[n], self.sets[n]) for n, p in self._parts(w)}
        )

    def _parts(self, w: np.ndarray) -> Any:
        return self.layout.split(np.asarray(w, float)).items()

    def conjugate(self, v: np.ndarray, limit: float = np.inf) -> float:
        """max over w in W with R(w) <= limit of <v, w> - R(w), or an upper bound of it; inf if
        none is known.

        `limit` makes the bound finite for norms without a quadratic part; any value of F is one,
        where no R is negative.
        """
        return float(
            sum(self.regularizers[n].conjugate(p, self.sets[n], limit) for n, p in self._parts(v))
        )

    def distance_to_subdifferential(self, w: np.ndarray, gradient: np.ndarray) -> float:
        """The distance of -gradient (P,) to the subdifferential of R + W at w (P,) in W: 0 at an
        optimum.

        As the limit of |w - prox(w - t gradient)| / t for short steps t; weights within such a
        step of a kink count as being there.
        """
        step = 1e-6 / max(1.0, float(np.linalg.norm(gradient)))
        return float(np.linalg.norm(w - self.prox(w - step * gradient, step))) / step

    def bounds(self) -> tuple[np.ndarray, np.ndarray] | None:
        """W as bounds (low, high) on single weights, (P,) each; None if a set is no box."""
        if not all(s.box for s in self.sets.values()):
            return None
        found = {n: self.sets[n].bounds(shape) for n, shape in self.layout.shapes.items()}
        low, high = (self.layout.join({n: b[side] for n, b in found.items()}) for side in (0, 1))
        return low, high

    def cvxpy_form(self, w: Any) -> tuple[Any, list[Any]]:
        """(R(w), constraints of W) of a cvxpy variable (P,); a ValueError names the segment that
        has none.
        """
        total: Any = 0.0
        constraints: list[Any] = []
        for name, where in self.layout.slices.items():
            part, shape = w[where], self.layout.shapes[name]
            term = self.regularizers[name].expression(part, shape)
            limits = self.sets[name].constraint(part, shape)
            if term is None:
                raise ValueError(
                    f"the regulariser of segment {name!r} is known only by its proximal map (it "
                    f"has no `rest_expression`)"
                )
            if limits is None:
                raise ValueError(
                    f"the set of segment {name!r} is known only by its projection (it has no "
                    f"`constraint`)"
                )
            total = total + term
            constraints += limits
        return total, constraints

    def fingerprint(self) -> dict[str, dict[str, str]]:
        """What identifies R and W, by the names of the arguments of `train` and by segment."""
        terms = {"regularizer": self.regularizers, "constraints": self.sets}
        return {
            what: {name: term.fingerprint() for name, term in found.items()}
            for what, found in terms.items()
        }
