"""One slave per clique gives the bound of the linear programme with explicit tables, solved by
HiGHS.
"""

import gmlearn_highorder as h
import numpy as np
import pytest
import scipy.sparse as sp
from core_cases import seeds
from highorder_cases import ensure_registered
from scipy.optimize import linprog

import gmlearn as gm

ensure_registered()


def linear_programme_bound(crf):
    """min over the local polytope: label indicators, a distribution for every clique, and their
    consistency.
    """
    cost, rows, n = [crf.unary], [], crf.n_coords
    equal = [
        sp.csr_matrix(
            (
                np.ones(crf.n_coords),
                (np.repeat(np.arange(crf.n_vars), crf.n_states), np.arange(crf.n_coords)),
            )
        )
    ]
    right = [np.ones(crf.n_vars)]
    for block in crf.blocks:
        for m in range(len(block)):
            one = block.take(np.array([m]))
            table = one.table({})[0]
            x = np.indices(table.shape).reshape(table.ndim, -1)
            cost.append(table.ravel())
            columns = n + np.arange(table.size)
            for place, v in enumerate(one.members):
                for l in range(table.shape[place]):
                    hit = columns[x[place] == l]
                    rows.append(
                        (np.append(hit, crf.offsets[v] + l), np.append(np.ones(len(hit)), -1.0))
                    )
            n += table.size
    index = np.repeat(np.arange(len(rows)), [len(c) for c, _ in rows])
    consistent = sp.csr_matrix(
        (np.concatenate([v for _, v in rows]), (index, np.concatenate([c for c, _ in rows]))),
        shape=(len(rows), n),
    )
    equal[0].resize(crf.n_vars, n)
    cost = np.concatenate(cost)
    possible = np.isfinite(cost)  # a forbidden state is left out
    result = linprog(
        cost[possible],
        A_eq=sp.vstack([equal[0], consistent]).tocsc()[:, possible],
        b_eq=np.concatenate([*right, np.zeros(len(rows))]),
        method="highs",
    )
    assert result.status == 0, result.message
    return result.fun


def pn_model(rng):
    crf = gm.CRF(9, 3).add_unary(rng.normal(size=(9, 3)))
    crf.add(h.PnPotts(gm.grid_cliques(3, 3, 2, 2), rng.normal(size=(4, 3)), 0.5))
    return crf


def pattern_model(rng):
    crf = gm.CRF(9, 3).add_unary(0.3 * rng.normal(size=(9, 3)))
    patterns = np.unique(rng.integers(0, 3, size=(12, 4)), axis=0)
    crf.add(
        h.Pattern(gm.grid_cliques(3, 3, 2, 2), patterns, rng.normal(size=(4, len(patterns))), 0.5)
    )
    return crf


def robust_model(rng):
    crf = gm.CRF(9, 3).add_unary(0.5 * rng.normal(size=(9, 3)))
    crf.add(h.RobustPn(gm.grid_cliques(3, 3, 2, 2), 2, rng.normal(size=(4, 3)), 0.5))
    return crf


def count_model(rng):
    crf = gm.CRF(8, 2).add_unary(rng.normal(size=(8, 2)))
    crf.add(
        h.Cardinality(
            [[0, 1, 2, 3, 4], [3, 4, 5, 6], [6, 7, 0, 1]],
            [2 * rng.normal(size=n) for n in (6, 5, 5)],
        )
    )
    crf.add(h.AtMost([[1, 2, 5], [0, 6, 7]], 1))
    return crf


def label_cost_model(rng):
    crf = gm.CRF(8, 3).add_unary(rng.normal(size=(8, 3)))
    crf.add(h.LabelCost([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7], [0, 7, 2]], 1.5 * rng.random((3, 3))))
    return crf


@pytest.mark.parametrize("seed", seeds(4, daily=2))
@pytest.mark.parametrize(
    "model", [pn_model, pattern_model, robust_model, count_model, label_cost_model]
)
def test_dual_bound_equals_the_linear_programme(model, seed):
    crf = model(np.random.default_rng(seed))
    result = gm.solve(crf, solver="bcfw", decomposition="per-clique", max_iter=2000, tol=1e-7)
    bound = linear_programme_bound(crf)
    assert result.bound <= bound + 1e-6
    np.testing.assert_allclose(result.bound, bound, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "model", [pn_model, pattern_model, robust_model, count_model, label_cost_model]
)
def test_explicit_tables_are_the_same_model(model):
    """The block and its written-out tables have the same minimum."""
    crf = model(np.random.default_rng(10))
    tables = gm.CRF(crf.n_states).add_unary(crf.unary.reshape(crf.n_vars, -1))
    for block in crf.blocks:
        for m in range(len(block)):
            one = block.take(np.array([m]))
            tables.add(gm.Table(one.members[None, :], one.table({})))
    x = gm.solve(tables, solver="brute-force").labels
    np.testing.assert_allclose(
        gm.solve(tables, solver="brute-force").energy, gm.solve(crf, solver="brute-force").energy
    )
    np.testing.assert_allclose(crf.energy(x), tables.energy(x))


def test_some_relaxations_are_not_tight():
    """Otherwise the comparison with the linear programme would only compare optima."""
    gaps = []
    for seed in range(4):
        crf = pattern_model(np.random.default_rng(seed))
        gaps.append(gm.solve(crf, solver="brute-force").energy - linear_programme_bound(crf))
    assert min(gaps) > -1e-7 and max(gaps) > 1e-3


@pytest.mark.parametrize("solver", ["auto", "bcfw", "dual-subgradient", "mplp"])
def test_solvers_on_models_of_all_kinds(solver):
    """Any MAP solver stays a certificate around the brute-force optimum when the blocks are
    ours.
    """
    for seed in range(5):
        rng = np.random.default_rng(seed)
        crf = gm.CRF(8, 3).add_unary(rng.normal(size=(8, 3)))
        cliques = [rng.choice(8, n, replace=False) for n in (3, 4, 5)]
        crf.add("pn_potts", cliques=cliques, beta=rng.normal(size=(3, 3)), beta_max=0.3)
        crf.add("robust_pn", cliques=cliques[1:], truncation=2, beta=rng.normal(size=(2, 3)))
        crf.add("cardinality", cliques=cliques, costs=rng.normal(size=(3, 6)), label=2)
        crf.add(
            "pattern", variables=[[0, 1, 2], [3, 4, 5]], patterns=[[0, 1, 2], [1, 1, 0]], psi=-1.0
        )
        crf.add("label_cost", cliques=[np.arange(8)], costs=0.5)
        crf.add("at_most_k", cliques=[[0, 2, 4, 6]], number=2)
        crf.add("exactly_one", cliques=[[1, 3, 5, 7]], label=0)
        crf.add("implication", pairs=[[0, 1], [2, 3], [5, 4]], premise=[0, 1, 2], conclusion=2)
        best = gm.solve(crf, solver="brute-force").energy
        result = gm.solve(crf, solver=solver, time_limit=1.0, max_iter=300)
        assert np.isfinite(best)
        assert result.bound <= best + 1e-6
        assert result.energy >= best - 1e-6
        if result.status == "optimal":
            np.testing.assert_allclose(result.energy, best, atol=1e-5)
