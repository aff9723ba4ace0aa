"""Tightening by windows of growing width: bounds stay valid, frustrated grids are proved."""

from __future__ import annotations

import numpy as np
import pytest
from core_cases import KINDS, minimum, random_model

import gmlearn as gm
from gmlearn.decompositions.strips import find_torus, torus_windows
from gmlearn.solvers import tighten as room
from gmlearn.solvers.problem import Options, Problem
from gmlearn.solvers.tighten import ascend_windows, tighten


def spin_glass(height, width, seed, wrap=False):
    """Binary labels, fields, couplings of both signs."""
    rng = np.random.default_rng(seed)
    edges = gm.grid_edges(height, width)
    if wrap:
        index = np.arange(height * width).reshape(height, width)
        down = np.stack([index[0], index[-1]], axis=1)
        across = np.stack([index[:, 0], index[:, -1]], axis=1)
        edges = np.concatenate([edges, down, across])
    crf = gm.CRF(height * width, 2).add_unary(0.2 * rng.normal(size=(height * width, 2)))
    crf.add(gm.Potts(edges, rng.normal(size=len(edges))))
    return crf


def problem_of(crf, w=None, **options):
    problem = Problem(crf, crf.check_weights(w), Options(**options))
    problem.offer(np.zeros(crf.n_vars, np.int64), "zeros")
    return problem


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "hard"])
def test_bounds_of_windows_are_valid(kind):
    for seed in range(3):
        crf, w = random_model(np.random.default_rng(seed), kind, coarse=seed == 1)
        best = minimum(crf, w)[0]
        for width in (2, 3):
            problem = problem_of(crf, w)
            ascend_windows(problem, gm.Strips(width))
            assert problem.bound <= best + 1e-9 <= problem.energy + 2e-9


def test_hard_constraints_survive_soft_minima():
    for seed in range(6):
        crf, w = random_model(np.random.default_rng(seed), "hard")
        best = minimum(crf, w)[0]
        problem = problem_of(crf, w)
        ascend_windows(problem, gm.Strips(2))
        assert problem.bound <= best or problem.bound == pytest.approx(best)


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_auto_proves_frustrated_grids_by_windows(seed, wrap):
    crf = spin_glass(18, 18, seed, wrap)
    r = gm.solve(crf)
    assert r.status is gm.Status.OPTIMAL and "tightened by strips" in r.reason
    assert r.energy == pytest.approx(crf.energy(r.labels))
    assert (r.bound + r.reduced_costs[np.arange(324), r.labels] <= r.energy + 1e-6).all()


def test_windows_agree_with_elimination():
    crf = spin_glass(9, 9, 5)
    best = gm.solve(crf, solver="elimination").energy
    problem = problem_of(crf)
    tighten(problem)
    assert problem.energy == pytest.approx(best) and problem.gap < 1e-6


def test_tightening_keeps_to_its_work(monkeypatch):
    """No width is tried that needs more table entries than allowed."""
    tried = []
    monkeypatch.setattr(room, "ascend_windows", lambda p, s: tried.append(s.width) or 0.0)
    crf = gm.CRF(3000, 20)
    tighten(problem_of(crf))
    assert tried == []
    problem = problem_of(spin_glass(30, 30, 0))
    problem.bound = -1e6
    tighten(problem)
    assert tried and max(tried) <= 12
    problem.work_deadline = problem.spent + 0.5
    tried.clear()
    tighten(problem)
    assert tried and max(tried) <= 6


def test_a_torus_is_recognised():
    crf = spin_glass(5, 4, 0, wrap=True)
    edges = np.sort(crf.blocks[0].variables, axis=1)
    assert find_torus(edges, 20) == (5, 4)
    assert find_torus(np.array([[0, 7]]), 20) is None
    sets = torus_windows(5, 4, 2, 1)
    assert len(sets) == 9 and {len(s) for s in sets} == {8, 10}
    for a, b in edges.tolist():
        assert any(a in s and b in s for s in sets)


def test_stages_of_auto_use_one_blas_thread(monkeypatch):
    from threadpoolctl import threadpool_info, threadpool_limits

    from gmlearn.solvers import auto

    threads = []

    def watched(state):
        threads.extend(p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas")

    stage = auto.STAGES[0]._replace(run=watched)
    monkeypatch.setattr(auto, "STAGES", (stage,))
    rng = np.random.default_rng(0)
    crf = gm.CRF(400, 3).add_unary(rng.normal(size=(400, 3)))
    crf.add(gm.Pairwise(gm.grid_edges(20, 20), table=rng.normal(size=(760, 3, 3))))
    with threadpool_limits(limits=2, user_api="blas"):
        gm.solve(crf, time_limit=5)
    assert threads
    assert set(threads) == {1}
