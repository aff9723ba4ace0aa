"""Cutting planes: the quadratic program over found constraints (cvxpy), with a certified gap. For few weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gmlearn._utils.validation import check_index
from gmlearn.learn.objective import SampleState
from gmlearn.learn.optimizers import Optimizer, PassReport
from gmlearn.learn.prior import (
    Box,
    ConvexSet,
    ElasticNet,
    Fixed,
    GroupL2,
    Prior,
    Projection,
    Simplex,
)


def exact_vertex(state: SampleState, w: np.ndarray) -> tuple[float, float, np.ndarray]:
    """(lower bound of the loss-augmented minimum, fixed costs and features of a minimiser), by the exact MAP solver."""
    from gmlearn.solvers import solve

    named = {n: v for n, v in state.layout.split(w).items() if n in state.augmented.layout.shapes}
    answer = solve(state.augmented, named, solver="exact", tol=1e-9)
    features = state.layout.join(state.augmented.features(answer.labels))
    return answer.bound, answer.energy - float(w @ features), features


def relaxed_vertex(state: SampleState, w: np.ndarray) -> tuple[float, float, np.ndarray]:
    """The same on the local polytope: an optimal vertex of the LP, with the features of its marginals."""
    from scipy.optimize import linprog

    from gmlearn.model.factors import FactorGraph, blocks_by_size
    from gmlearn.slaves import expected_features
    from gmlearn.solvers.linear import LocalPolytope, allowed_labels

    crf, layout = state.augmented, state.layout
    graph = FactorGraph.of(crf, layout.split(w))
    polytope = LocalPolytope.of(graph, allowed_labels(graph))
    answer = linprog(
        polytope.cost, A_eq=polytope.matrix(), b_eq=polytope.right, bounds=(0, None), method="highs"
    )
    if answer.x is None:
        raise ValueError(
            f"samples[{state.index}]: the loss-augmented linear program has no solution ({answer.message})"
        )
    marginals = np.where(polytope.label >= 0, answer.x[np.maximum(polytope.label, 0)], 0.0)
    features = layout.join(crf.unary_features(marginals))
    clique = 0
    for block in blocks_by_size(crf):
        joint = np.zeros((len(block), *(block.max_states,) * block.arity))
        for m in range(len(block)):
            positions, columns = polytope.joint(graph, clique)
            joint[(m, *positions.T)] = answer.x[columns]
            clique += 1
        layout.join(expected_features(block, joint), features)
    value = float(answer.fun) + crf.constant
    return value, value - float(w @ features), features


def plane(
    state: SampleState, w: np.ndarray, find: Callable[..., tuple[float, float, np.ndarray]]
) -> tuple[float, float, np.ndarray, float]:
    """(factor, hinge at `w`, slope (P,) and offset of its supporting plane) of one sample."""
    low, fixed, features = find(state, w)
    return (
        state.weight,
        state.truth_energy(w) - low,
        state.truth_features - features,
        state.truth_fixed - fixed,
    )


class CuttingPlane(Optimizer):
    """The QP over the most violated constraints found so far; inactive ones are dropped. Certifies F* from below.

    Parameters
    ----------
    oracle : "relaxed" (the local-polytope LP, the same objective as that of the other optimisers) or "exact" (the true
        structured hinge).
    slack : "n", one slack for each sample, or "1", one for all.
    drop_after : rounds that a constraint may be inactive.
    """

    name = "cutting-plane"
    growing = ("slopes", "offsets", "owners", "ages")
    settings = ("oracle", "slack", "drop_after")
    oracle = "relaxed"
    slack = "n"
    drop_after = 20

    @classmethod
    def refuses(cls, prior: Prior, temperature: float) -> str | None:
        odd = [n for n, s in prior.sets.items() if isinstance(s, Projection)]
        if odd:
            return f"the set of segment {odd[0]!r} is known only by its projection"
        return super().refuses(prior, temperature)

    def start(self) -> None:
        if self.oracle not in ("relaxed", "exact") or self.slack not in ("n", "1"):
            raise ValueError(
                f"oracle, slack: expected 'relaxed'|'exact' and 'n'|'1', got {self.oracle!r} and {self.slack!r}"
            )
        n = len(self.w)
        self.state.update(
            slopes=np.zeros((0, n)),
            offsets=np.zeros(0),
            owners=np.zeros(0, np.int64),
            ages=np.zeros(0, np.int64),
            bound=np.array(-np.inf),
        )

    def truth_changed(self) -> None:
        self.start()

    def restore(self, snapshot: dict[str, Any]) -> None:
        super().restore(snapshot)
        check_index(
            "owners",
            self.state["owners"],
            self.objective.n_samples if self.slack == "n" else 1,
            ndim=1,
        )

    def run(self) -> PassReport:
        state, objective = self.state, self.objective
        w = self.w.copy()
        found = objective.each(
            plane, w, relaxed_vertex if self.oracle == "relaxed" else exact_vertex
        )
        weights, hinges = np.array([f[0] for f in found]), np.array([f[1] for f in found])
        value, state["evaluated"] = objective.prior.value(w) + float(weights @ hinges), w
        planes = [f[2:] for f in found]
        if self.slack == "1":
            planes = [
                (
                    sum(c * a for c, (a, _) in zip(weights, planes)),
                    sum(c * b for c, (_, b) in zip(weights, planes)),
                )
            ]
        state["slopes"] = np.concatenate([state["slopes"], np.stack([a for a, _ in planes])])
        state["offsets"] = np.concatenate([state["offsets"], [b for _, b in planes]])
        state["owners"] = np.concatenate([state["owners"], np.arange(len(planes))])
        state["ages"] = np.concatenate([state["ages"], np.zeros(len(planes), np.int64)])
        lower = self._solve_qp(weights)
        state["bound"] = np.array(max(float(state["bound"]), lower))
        state["t"] = state["t"] + 1
        return PassReport(
            objective=value, bound=float(state["bound"]), gap=value - float(state["bound"])
        )

    def _solve_qp(self, weights: np.ndarray) -> float:
        """Move w to the optimum of the program; returns its value, a lower bound of F*."""
        import cvxpy as cp

        state, prior = self.state, self.objective.prior
        w = cp.Variable(len(self.w))
        n = len(weights) if self.slack == "n" else 1
        slack = cp.Variable(n, nonneg=True)
        cost = (weights if self.slack == "n" else np.ones(1)) @ slack
        cuts = state["slopes"] @ w + state["offsets"] <= slack[state["owners"]]
        program = cp.Problem(cp.Minimize(cost + _regulariser(prior, w)), [cuts, *_sets(prior, w)])
        program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        if w.value is None:
            raise RuntimeError(f"cutting-plane: the QP solver ended with status {program.status!r}")
        state["w"] = prior.project(np.asarray(w.value))
        active = np.asarray(cuts.dual_value) > 1e-9
        state["ages"] = np.where(active, 0, state["ages"] + 1)
        keep = state["ages"] <= self.drop_after
        for name in ("slopes", "offsets", "owners", "ages"):
            state[name] = state[name][keep]
        return float(program.value)


def _regulariser(prior: Prior, w: Any) -> Any:
    import cvxpy as cp

    total: Any = 0.0
    for name, where in prior.layout.slices.items():
        r, part = prior.regularizers[name], w[where]
        if r.mu > 0:
            total = total + 0.5 * r.mu * cp.sum_squares(part)
        if isinstance(r, GroupL2):
            number = r._numbers(np.zeros(prior.layout.shapes[name]))
            total = total + r.tau * sum(
                cp.norm(part[np.flatnonzero(number == g)]) for g in np.unique(number)
            )
        elif hasattr(r, "tau"):
            total = total + r.tau * cp.norm1(part)
        elif (
            type(r).rest is not ElasticNet.rest
            and r.rest(np.ones(prior.layout.shapes[name])) != 0.0
        ):
            raise ValueError(
                f"regularizer of segment {name!r}: cutting-plane knows L2, L1, ElasticNet and GroupL2, not {r!r}"
            )
    return total


def _sets(prior: Prior, w: Any) -> list[Any]:
    import cvxpy as cp

    constraints: list[Any] = []
    for name, where in prior.layout.slices.items():
        found, part, shape = prior.sets[name], w[where], prior.layout.shapes[name]
        if isinstance(found, Box):
            low, high = (
                np.broadcast_to(found.low, shape).ravel(),
                np.broadcast_to(found.high, shape).ravel(),
            )
            constraints += [
                part[np.flatnonzero(np.isfinite(low))] >= low[np.isfinite(low)],
                part[np.flatnonzero(np.isfinite(high))] <= high[np.isfinite(high)],
            ]
        elif isinstance(found, Simplex):
            constraints += [part >= 0, cp.sum(part) == found.total]
        elif isinstance(found, Fixed):
            constraints.append(part == np.broadcast_to(found.value, shape).ravel())
        elif type(found) is not ConvexSet:
            raise ValueError(
                f"constraints of segment {name!r}: cutting-plane knows Box, NonNegative, Simplex and Fixed"
            )
    return constraints
