"""Branch and bound with soft arc consistency against enumeration, and inside the exact finish."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from core_cases import minimum, numbers

import gmlearn as gm
from gmlearn.model.factors import FactorGraph
from gmlearn.solvers.elimination import all_labels
from gmlearn.solvers.exact import Effort, finish
from gmlearn.solvers.neighbourhood import conditioned, fixed_energy
from gmlearn.solvers.problem import Options, Problem
from gmlearn.solvers.search.branch import BranchAndBound

MAPS = Path(__file__).parents[2].parent / "shared" / "data" / "maps"
ALONE = Effort(np.inf, 0.0, 0.0)


def dense_model(seed, hard=False, coarse=False):
    """Up to six variables, up to three labels, most pairs joined, some of them twice."""
    rng = np.random.default_rng(seed)
    states = rng.integers(1, 4, rng.integers(2, 7))
    crf = gm.CRF(states).add_unary([numbers(rng, n, coarse) for n in states])
    pairs = [p for p in itertools.permutations(range(len(states)), 2) if rng.random() < 0.6]
    tables = [numbers(rng, states[list(p)], coarse) for p in pairs]
    if hard:
        tables = [np.where(rng.random(t.shape) < 0.3, np.inf, t) for t in tables]
    if pairs:
        crf.add(gm.Table(pairs, tables))
    return crf


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("coarse", [False, True])
def test_search_equals_enumeration(hard, coarse):
    for seed in range(60):
        crf = dense_model(seed, hard, coarse)
        graph, best = FactorGraph.of(crf, {}), minimum(crf)[0]
        for top in (np.inf, best + 1.0):
            search = BranchAndBound(graph, all_labels(graph), top, 1e-9, 1.0)
            assert search.low <= best + 1e-9 or search.finished
            assert search.run(10**6)
            if np.isfinite(best):
                assert search.top == pytest.approx(best, abs=1e-9)
                assert crf.energy(search.best) == pytest.approx(best, abs=1e-9)
            else:
                assert search.best is None
        known = BranchAndBound(graph, all_labels(graph), best, 1e-9, 1.0)
        assert known.run(10**6) and known.best is None


def test_search_goes_on_where_it_stopped():
    crf = dense_model(11)
    graph = FactorGraph.of(crf, {})
    whole, parts = (BranchAndBound(graph, all_labels(graph), np.inf, 1e-9, 1.0) for _ in range(2))
    whole.run(10**6)
    calls = 0
    while not parts.run(1):
        calls += 1
        assert calls < 1000
    assert parts.nodes == whole.nodes and np.array_equal(parts.best, whole.best)


def test_only_edges_are_taken():
    crf = gm.CRF(3, 2)
    crf.add(gm.Table([[0, 1, 2]], np.zeros((2, 2, 2))))
    graph = FactorGraph.of(crf, {})
    assert not BranchAndBound.suits(graph, graph.n_states)


@pytest.mark.parametrize("seed", range(10))
def test_finish_by_branch_and_bound_on_some_labels(seed):
    crf = dense_model(seed, coarse=seed % 2 == 0)
    rng = np.random.default_rng(seed)
    best, labels = minimum(crf)
    allowed = rng.random(crf.n_coords) < 0.7
    allowed[crf.offsets[:-1] + np.array(labels)] = True
    problem = Problem(crf, {}, Options())
    finish(problem, allowed, ALONE)
    assert problem.energy == pytest.approx(best) and problem.proved
    assert problem.bound <= best + 1e-9


def test_fixed_energy_is_what_conditioning_leaves_out():
    rng = np.random.default_rng(2)
    crf = dense_model(2)
    graph = FactorGraph.of(crf, {})
    region = np.array([0, 2])
    x = rng.integers(0, crf.n_states)
    part = conditioned(graph, region, x)
    inside = part.unary[part.offsets[:-1] + x[region]].sum() + sum(
        part.table(f)[tuple(x[region][part.scope[part.indptr[f] : part.indptr[f + 1]]])]
        for f in range(part.n_factors)
    )
    assert fixed_energy(graph, region, x) + inside == pytest.approx(crf.energy(x))


def test_a_relative_gap_is_enough_for_the_search():
    crf = dense_model(3)
    crf.constant = 100.0
    best = minimum(crf)[0]
    problem = Problem(crf, {}, Options(gap=0.05))
    finish(problem, np.isfinite(crf.unary), ALONE)
    assert problem.closed and problem.bound <= best + 1e-9 <= problem.energy + 2e-9


@pytest.mark.skipif(not MAPS.exists(), reason="needs the shared instances")
@pytest.mark.parametrize(
    "file, optimum", [("uai14_wcsp_13.uai.gz", 0.489001347), ("tb2_example.wcsp", 27.0)]
)
def test_instances_that_dual_ascent_leaves_open_are_proved(file, optimum):
    r = gm.solve(gm.read(MAPS / file))
    assert r.status is gm.Status.OPTIMAL and r.energy == pytest.approx(optimum)


@pytest.mark.slow
@pytest.mark.skipif(not MAPS.exists(), reason="needs the shared instances")
def test_celar_is_proved():
    r = gm.solve(gm.read(MAPS / "tb2_celar6sub0.wcsp.gz"))
    assert r.status is gm.Status.OPTIMAL and r.energy == 159.0
