r"""The minimum over a decomposition's relaxation by column generation, with its minimiser.

A decomposition relaxes the energy to combinations of slave minimisers that agree:

.. math:: \min_{\alpha \ge 0, y} \sum_j \alpha_j c_j \quad\text{such that}\quad
          \sum_{j \in J_i} \alpha_j = 1, \quad \sum_{j \in J_i} \alpha_j a_j = y_i

for every slave i, where :math:`a_j` are the indicators of minimiser j and :math:`c_j` its costs.
The linear program over the minimisers met so far (columns) gives multipliers; the slaves,
minimised between these and the best ones so far (Wentges 1997), give new columns and a lower bound.
It ends where both meet. Only `solve` of the slaves is used: no table, no labels, any coordinates.

Every agreeing combination, also one that is not optimal, is a point of the relaxation: its
features and fixed costs are a supporting plane of the hinge that is valid for all weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from gmlearn.master import Dual, Level
from gmlearn.model.weights import WeightLayout
from gmlearn.slaves import SlaveGroup

#: once in so many linear programs, so many subgradient steps: they lead to good columns
PROGRAMS, ASCENT = 20, 150
#: share of the best multipliers so far in those at which slaves are minimised
SMOOTHING = 0.6
#: what counts as nothing between program and bound, relative to the largest cost
LEAST = 1e-10
#: the most linear programs, and columns kept for the next weights for each slave
MOST_PROGRAMS, KEPT = 2000, 15


class Columns(NamedTuple):
    """Minimisers of slaves, n of them.

    owner : int (n,), the slave of each (or the group, where features are known by group only).
    indicator : sparse (n, D).   fixed : (n,), clique costs at zero weights.   features : (n, P),
        clique features.
    """

    owner: np.ndarray
    indicator: sparse.csr_array
    fixed: np.ndarray
    features: np.ndarray

    def costs(self, dual: Dual, w: np.ndarray) -> np.ndarray:
        """c_j (n,) at the weights that `dual` is at: cliques, and shares of the unary costs."""
        share = np.where(np.isfinite(dual.share), dual.share, 0.0)  # a forbidden label is in none
        return self.fixed + self.features @ w + self.indicator @ share

    def take(self, index: np.ndarray) -> Columns:
        """The columns at `index`."""
        return Columns(*(part[index] for part in self))

    def unique(self) -> Columns:
        """Each column once; equal ones are known by a random functional of theirs."""
        rng = np.random.default_rng(0)
        key = self.indicator @ rng.normal(size=self.indicator.shape[1]) + self.fixed
        key += self.features @ rng.normal(size=self.features.shape[1])
        first = np.unique(np.stack([self.owner, key]), axis=1, return_index=True)[1]
        return self.take(np.sort(first))

    def arrays(self) -> dict[str, np.ndarray]:
        """The columns as arrays by name; `from_arrays` takes them back."""
        sparse_parts = {n: getattr(self.indicator, n) for n in ("data", "indices", "indptr")}
        return {
            "columns": self.owner,
            "fixed": self.fixed,
            "features": self.features,
            **sparse_parts,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], size: int) -> Columns:
        """The inverse of `arrays`, for D = `size`; arrays that do not fit are refused."""
        parts = tuple(arrays[name] for name in ("data", "indices", "indptr"))
        indicator = sparse.csr_array(parts, (len(arrays["columns"]), size))
        indicator.check_format(full_check=True)
        return cls(arrays["columns"], indicator, arrays["fixed"], arrays["features"])

    @classmethod
    def joined(cls, parts: Sequence[Columns]) -> Columns:
        """The columns of all parts, one after the other."""
        owner, indicator, fixed, features = zip(*parts)
        return cls(
            np.concatenate(owner),
            sparse.csr_array(sparse.vstack(indicator)),
            np.concatenate(fixed),
            np.concatenate(features),
        )


class Oracle:
    """Minimises the slaves at the weights `w` (P,) that `dual` is at, with features of each.

    Groups that know only sums of features are taken apart.
    """

    def __init__(self, dual: Dual, w: np.ndarray, layout: WeightLayout):
        self.dual, self.w, self.layout = dual, w, layout
        self.groups: list[tuple[SlaveGroup, Any]] = []
        for group, prepared in zip(dual.slaves.groups, dual.prepared):
            if group.n == 1 or group.knows_slaves:
                self.groups.append((group, prepared))
                continue
            single = [group.take(np.array([m])) for m in range(group.n)]
            self.groups += [(slave, slave.prepare(layout.split(w))) for slave in single]

    def minimise(self, theta: np.ndarray) -> tuple[float, Columns]:
        """The sum of the minima at costs `theta` (D,), and the minimisers, slave by slave."""
        values, indicators, features, first = [], [], [], 0
        for group, prepared in self.groups:
            found = group.solve(theta[first : first + len(group.coords)], prepared)
            first += len(group.coords)
            known = group.slave_features if group.knows_slaves else group.features
            parts = known(found)
            block = np.zeros((group.n, self.layout.size))
            for name, part in parts.items():
                block[:, self.layout.slices[name]] += np.reshape(part, (group.n, -1))
            values.append(found.value)
            indicators.append(found.ind)
            features.append(block)
        value, ind, cliques = (np.concatenate(part) for part in (values, indicators, features))
        where = np.flatnonzero(ind)
        sizes = [len(v) for v in values]
        owner = np.concatenate(
            [g.owner + n for (g, _), n in zip(self.groups, np.cumsum(sizes) - sizes)]
        )
        row, n = owner[where], len(value)
        indicator = sparse.csr_array((ind[where], (row, where)), (n, len(ind)))
        unary = np.bincount(row, ind[where] * theta[where], n)
        bound = float(value.sum()) + self.dual.constant
        return bound, Columns(np.arange(n), indicator, value - unary - cliques @ self.w, cliques)


class RelaxedMinimum(NamedTuple):
    """What is known of the minimum over the relaxation.

    bound : a lower bound.   value, features : cost and features (P,) of the best agreeing
        combination.
    lam : the multipliers (D,) of the bound.   columns : the best of those met.
    """

    bound: float
    value: float
    features: np.ndarray
    lam: np.ndarray
    columns: Columns


class Master:
    """The linear program over the columns so far, solved again from the last basis as they come.

    Rows: agreement for every copy of a coordinate that several slaves hold, then one per slave.
    """

    def __init__(self, dual: Dual, columns: Columns, costs: np.ndarray):
        import highspy

        self.rows = np.flatnonzero((dual.slaves.count > 1)[dual.coords])
        coords, place = np.unique(dual.coords[self.rows], return_inverse=True)
        n, self.n_shared = len(self.rows), len(coords)
        self.program = highspy.Highs()
        self.program.silent()
        self.program.setOptionValue("simplex_strategy", 4)
        for kind in ("primal", "dual"):
            self.program.setOptionValue(f"{kind}_feasibility_tolerance", 1e-10)
        right = np.append(np.zeros(n), np.ones(int(columns.owner.max(initial=-1)) + 1))
        none = np.zeros(0, np.int32)
        self.program.addRows(len(right), right, right, 0, none, none, np.zeros(0))
        # y is free, with -1 in the rows of its copies
        copies = sparse.csc_array((-np.ones(n), (np.arange(n), place)), (n, len(coords)))
        self._add(copies, np.zeros(len(coords)), -np.inf)
        self.add(columns, costs)

    def _add(self, matrix: sparse.csc_array, costs: np.ndarray, low: float) -> None:
        n, ends, rows = len(costs), matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32)
        limits = np.full(n, low), np.full(n, np.inf)
        self.program.addCols(n, costs, *limits, matrix.nnz, ends[:-1], rows, matrix.data)

    def add(self, columns: Columns, costs: np.ndarray) -> None:
        """Add columns with costs (n,)."""
        n, n_owners = len(costs), self.program.getNumRow() - len(self.rows)
        total = sparse.csr_array((np.ones(n), (columns.owner, np.arange(n))), (n_owners, n))
        agreement = sparse.csc_array(columns.indicator)[:, self.rows].T
        self._add(sparse.csc_array(sparse.vstack([agreement, total])), costs, 0.0)

    def solve(self) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        """(minimum, combination (n,), multipliers of the agreement rows, prices of the slaves)."""
        import highspy

        for _ in range(2):
            self.program.run()
            if self.program.getModelStatus() == highspy.HighsModelStatus.kOptimal:
                found, n = self.program.getSolution(), len(self.rows)
                duals, x = np.array(found.row_dual), np.array(found.col_value)
                return (self.program.getObjectiveValue(), x[self.n_shared :], -duals[:n], duals[n:])
            self.program.clearSolver()  # the last basis may be a bad one to start from
        status = self.program.modelStatusToString(self.program.getModelStatus())
        raise ValueError(f"no combination of the slaves' minimisers was found ({status})")


def agreeing_columns(dual: Dual, labels: np.ndarray, layout: WeightLayout) -> Columns:
    """Every slave at its cheapest minimiser with the indicators of `labels` (V,)."""
    zero = np.zeros(layout.size)
    oracle = Oracle(Dual(dual.slaves, layout.split(zero)), zero, layout)
    target = dual.slaves.spread(dual.slaves.indicators(labels))
    for reward in 10.0 ** np.arange(10):
        value, columns = oracle.minimise(np.where(target > 0, -reward, np.inf))
        if np.isfinite(value) and np.array_equal(columns.indicator.sum(axis=0), target):
            return columns
    raise ValueError("the slaves have no minimisers with the indicators of the true labels")


class Search:
    """Column generation at one vector of weights.

    best, lam : the best lower bound so far and its multipliers (D,).   value, alpha, multiplied,
        price : the last program's minimum, combination (n,), multipliers (D,) and prices of the
        slaves.
    """

    def __init__(self, dual: Dual, w: np.ndarray, layout: WeightLayout, columns: Columns):
        self.dual, self.oracle, self.columns = dual, Oracle(dual, w, layout), [columns]
        self.best, self.lam = -np.inf, dual.lam.copy()
        costs = columns.costs(dual, w)
        unary = np.abs(dual.share[np.isfinite(dual.share) & (dual.share != 0)])
        self.scale = float(unary.mean()) if unary.size else 1.0
        self.least = LEAST * (1.0 + np.abs(costs).max(initial=0.0))
        self.master = Master(dual, columns, costs)
        self.solve()

    def solve(self) -> None:
        """Solve the program over the columns so far."""
        value, self.alpha, multipliers, self.price = self.master.solve()
        self.value = value + self.dual.constant
        self.multiplied = self.lam.copy()
        self.multiplied[self.master.rows] = multipliers

    def add(self, columns: Columns) -> None:
        """Solve it with more columns."""
        self.columns.append(columns)
        self.master.add(columns, columns.costs(self.dual, self.oracle.w))
        self.solve()

    def reduced(self, columns: Columns) -> np.ndarray:
        """Reduced costs (n,) in the last program: negative ones can lower its minimum."""
        costs = columns.costs(self.dual, self.oracle.w)
        return costs + columns.indicator @ self.multiplied - self.price[columns.owner]

    def look(self, lam: np.ndarray) -> tuple[float, Columns]:
        """The bound at multipliers `lam` (D,), kept if it is the best, and the minimisers."""
        bound, columns = self.oracle.minimise(self.dual.share + lam)
        if bound > self.best:
            self.best, self.lam = bound, lam
        return bound, columns

    def ascend(self) -> Columns:
        """Columns of subgradient steps from the best multipliers: good ones are near good
        multipliers.
        """
        lam, rule, found = self.lam, Level(), []
        for t in range(ASCENT):
            bound, columns = self.look(lam)
            found.append(columns)
            direction = self.dual.centred(columns.indicator.sum(axis=0))
            norm2 = float(direction @ direction)
            if norm2 == 0.0:
                break
            if t == 0:
                rule.start(self.scale, norm2)
            lam = lam + rule.step(bound, self.best, norm2, t) * direction
        return Columns.joined(found).unique()

    def price_out(self) -> Columns:
        """Columns that can lower the program's minimum: of the slaves' minimisers between the best
        multipliers and the program's, or at the program's.
        """
        for smoothing in (SMOOTHING, 0.0):
            _, found = self.look(self.multiplied + smoothing * (self.lam - self.multiplied))
            found = found.take(np.flatnonzero(self.reduced(found) < -self.least))
            if len(found.owner):
                break
        return found

    def result(self) -> RelaxedMinimum:
        columns = Columns.joined(self.columns)
        unary = self.dual.slaves.unary_features(self.dual.mean(columns.indicator.T @ self.alpha))
        features = self.oracle.layout.join(unary, self.alpha @ columns.features)
        order = np.where(self.alpha > 0, -np.inf, self.reduced(columns))
        order[: len(self.price)] = -np.inf  # the agreeing ones of the start: never infeasible
        kept = np.sort(np.argsort(order, kind="stable")[: KEPT * len(self.price)])
        return RelaxedMinimum(self.best, self.value, features, self.lam, columns.take(kept))


def relaxed_minimum(
    dual: Dual, w: np.ndarray, layout: WeightLayout, columns: Columns, accuracy: float = 0.0
) -> RelaxedMinimum:
    """Minimise over the relaxation until value - bound <= `accuracy`.

    Parameters
    ----------
    dual : the slaves at the weights `w` (P,) and at multipliers to start from, which move.
    columns : one of each slave that agree, and any others after them.
    """
    search = Search(dual, w, layout, columns)
    for number in range(MOST_PROGRAMS):
        ascends = number % PROGRAMS == 3
        found = search.ascend() if ascends else search.price_out()
        if search.value - search.best <= max(accuracy, search.least):
            break
        if len(found.owner):
            search.add(found)
        elif not ascends:
            break  # the program's minimum is that of the relaxation
    return search.result()
