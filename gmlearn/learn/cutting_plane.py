"""Cutting planes: the quadratic program over found constraints (cvxpy), with a certified gap.

For few weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gmlearn._utils.validation import check_index
from gmlearn.learn.batch import SampleBatch
from gmlearn.learn.column_generation import Columns, agreeing_columns, relaxed_minimum
from gmlearn.learn.optimizers import Optimizer, OptimizerState, PassReport
from gmlearn.learn.regularization import Regularization


def exact_vertex(
    state: SampleBatch, w: np.ndarray, accuracy: float
) -> tuple[float, float, np.ndarray]:
    """(lower bound of the loss-augmented minimum, fixed costs and features of a minimiser), by
    the exact MAP solver.
    """
    from gmlearn.solvers import solve

    named = {n: v for n, v in state.layout.split(w).items() if n in state.augmented.layout.shapes}
    answer = solve(state.augmented, named, solver="exact", tol=1e-9)
    features = state.layout.join(state.augmented.features(answer.labels))
    return answer.bound, answer.energy - float(w @ features), features


@dataclass
class ColumnMemory:
    """What is remembered of a sample: its columns (see `Columns.arrays`), and the multipliers
    (D,) of its last bound.
    """

    columns: np.ndarray
    fixed: np.ndarray
    features: np.ndarray
    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    lam: np.ndarray


def fresh_columns(batch: SampleBatch) -> ColumnMemory:
    """One column for each slave: the truth."""
    columns = agreeing_columns(batch.dual, batch.truth, batch.layout)
    return ColumnMemory(**columns.arrays(), lam=batch.dual.lam.copy())


def check_columns(batch: SampleBatch) -> None:
    """Refuse columns of a stranger's file that are none of this sample."""
    memory, slaves = batch.memory, batch.dual.slaves
    columns = Columns.from_arrays(vars(memory), len(batch.dual.coords))
    check_index("columns", columns.owner, max(slaves.n_slaves, 1), ndim=1)
    if not len(columns.owner) == len(columns.fixed) == len(columns.features):
        raise ValueError("columns: expected one owner, cost and row of features for each")


def relaxed_vertex(
    state: SampleBatch, w: np.ndarray, accuracy: float
) -> tuple[float, float, np.ndarray]:
    """The same over the relaxation of the decomposition, to `accuracy`; columns and multipliers
    are kept for the next weights.
    """
    state.set_weights(w)
    state.memory = memory = state.memory or fresh_columns(state)
    dual = state.dual
    dual.lam = memory.lam.copy()
    columns = Columns.from_arrays(vars(memory), len(dual.coords))
    try:
        found = relaxed_minimum(dual, w, state.layout, columns, accuracy)
    except ValueError as error:
        raise ValueError(f"samples[{state.first}]: {error}") from None
    state.memory = ColumnMemory(**found.columns.arrays(), lam=found.lam)
    return found.bound, found.value - float(w @ found.features), found.features


def plane(
    state: SampleBatch,
    w: np.ndarray,
    find: Callable[..., tuple[float, float, np.ndarray]],
    accuracy: float,
) -> tuple[float, float, np.ndarray, float]:
    """(factor, hinge at `w`, slope (P,) and offset of its supporting plane) of one sample; the
    hinge, times the factor, to `accuracy`.
    """
    low, fixed, features = find(state, w, accuracy / max(state.weight, 1e-300))
    return (
        state.weight,
        state.truth_energy(w) - low,
        state.truth_features - features,
        state.truth_fixed - fixed,
    )


@dataclass(kw_only=True)
class CuttingPlaneState(OptimizerState):
    """slopes : float (n, P), offsets : float (n,), the cuts.   owners : int (n,), the sample of
    each.   ages : int (n,), rounds since a cut was active.   bound : of F from below.   gap : of F
    to it.
    """

    slopes: np.ndarray
    offsets: np.ndarray
    owners: np.ndarray
    ages: np.ndarray
    bound: float = -np.inf
    gap: float = np.inf


class CuttingPlane(Optimizer):
    """The QP over the most violated constraints found so far; inactive ones are dropped. Certifies
    F* from below.

    Parameters
    ----------
    oracle : "relaxed" (over the decomposition's slaves, the same objective as that of the other
        optimisers) or "exact" (the true structured hinge; needs the tables of all cliques).
    slack : "n", one slack for each sample, or "1", one for all.
    drop_after : rounds that a constraint may be inactive.
    """

    name = "cutting-plane"
    growing = ("slopes", "offsets", "owners", "ages")
    settings = ("oracle", "slack", "drop_after")
    oracle = "relaxed"
    slack = "n"
    drop_after = 20
    most_samples = 1
    fresh = staticmethod(fresh_columns)
    growing_memory = ("columns", "fixed", "features", "data", "indices", "indptr")
    state: CuttingPlaneState

    @classmethod
    def refuses(cls, regularization: Regularization, temperature: float) -> str | None:
        import cvxpy as cp

        try:
            regularization.cvxpy_form(cp.Variable(regularization.layout.size))
        except ValueError as error:
            return str(error)
        return super().refuses(regularization, temperature)

    def start(self, w: np.ndarray) -> CuttingPlaneState:
        if self.oracle not in ("relaxed", "exact") or self.slack not in ("n", "1"):
            raise ValueError(
                f"oracle, slack: expected 'relaxed'|'exact' and 'n'|'1', got {self.oracle!r} and "
                f"{self.slack!r}"
            )
        return CuttingPlaneState(
            w=w,
            evaluated=w.copy(),
            slopes=np.zeros((0, len(w))),
            offsets=np.zeros(0),
            owners=np.zeros(0, np.int64),
            ages=np.zeros(0, np.int64),
        )

    def truth_changed(self) -> None:
        old, self.state = self.state, self.start(self.w)
        self.state.t, self.state.evaluated = old.t, old.evaluated

    def stalled(self, lowest: np.ndarray, least: float, gaps: np.ndarray) -> str:
        return ""  # its bound rises until it meets F

    def restore(self, state: Any, batches: Sequence[Any]) -> None:
        super().restore(state, batches)
        n = self.objective.n_batches if self.slack == "n" else 1
        check_index("owners", self.state.owners, n, ndim=1)
        self.objective.each(check_columns)

    def run(self) -> PassReport:
        state, objective = self.state, self.objective
        w = self.w.copy()
        find = relaxed_vertex if self.oracle == "relaxed" else exact_vertex
        # planes need not be better than the gap that they are to close
        accuracy = 0.1 * state.gap / objective.n_samples
        found = objective.each(plane, w, find, accuracy)
        weights, hinges = np.array([f[0] for f in found]), np.array([f[1] for f in found])
        value, state.evaluated = objective.regularization.value(w) + float(weights @ hinges), w
        planes = [f[2:] for f in found]
        if self.slack == "1":
            planes = [
                (
                    sum(c * a for c, (a, _) in zip(weights, planes)),
                    sum(c * b for c, (_, b) in zip(weights, planes)),
                )
            ]
        state.slopes = np.concatenate([state.slopes, np.stack([a for a, _ in planes])])
        state.offsets = np.concatenate([state.offsets, [b for _, b in planes]])
        state.owners = np.concatenate([state.owners, np.arange(len(planes))])
        state.ages = np.concatenate([state.ages, np.zeros(len(planes), np.int64)])
        state.bound = max(state.bound, self._solve_qp(weights, value))
        state.gap = value - state.bound
        state.t += 1
        return PassReport(objective=value, bound=state.bound)

    def _solve_qp(self, weights: np.ndarray, value: float) -> float:
        """Move w to the optimum of the program; returns a lower bound of F*, for a known `value`
        of F.
        """
        import cvxpy as cp

        state, regularization = self.state, self.objective.regularization
        w = cp.Variable(len(self.w))
        factors = weights if self.slack == "n" else np.ones(1)
        slack = cp.Variable(len(factors), nonneg=True)
        cuts = state.slopes @ w + state.offsets <= slack[state.owners]
        penalty, constraints = regularization.cvxpy_form(w)
        program = cp.Problem(cp.Minimize(factors @ slack + penalty), [cuts, *constraints])
        program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        if w.value is None:
            raise RuntimeError(f"cutting-plane: the QP solver ended with status {program.status!r}")
        state.w = regularization.project(np.asarray(w.value))
        duals = np.maximum(cuts.dual_value, 0.0)
        # the Fenchel dual at these multipliers is a bound however well the program was solved
        total = np.bincount(state.owners, duals, len(factors))
        duals *= np.minimum(1.0, factors / np.maximum(total, 1e-300))[state.owners]
        dual_value = duals @ state.offsets - regularization.conjugate(
            -(duals @ state.slopes), value
        )
        state.ages = np.where(duals > 1e-9, 0, state.ages + 1)
        keep = state.ages <= self.drop_after
        for name in self.growing:
            setattr(state, name, getattr(state, name)[keep])
        return float(dual_value if np.isfinite(dual_value) else program.value)
