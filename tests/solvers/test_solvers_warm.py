"""A relative gap, warm starts from an earlier result, reduced costs, progress calls."""

from __future__ import annotations

import importlib
import pickle
import time

import numpy as np
import pytest
from core_cases import KINDS, frustrated_cycle, labellings, random_model

import gmlearn as gm
from gmlearn._utils.keys import match
from gmlearn.decompositions import decompose
from gmlearn.master import Dual
from gmlearn.registry import registry
from gmlearn.solvers.many import solve_forests
from gmlearn.solvers.problem import ENTRIES_PER_SECOND, Options, Problem
from gmlearn.solvers.trws import make_messages
from gmlearn.solvers.warm import Multipliers, SlaveCosts

SOLVERS = sorted(e.name for e in registry.entries("solver") if e.owner == "core")
ASCENTS = ("trws", "srmp", "bcfw", "mplp", "dual-subgradient")


def grid(seed, shape=(12, 12), size=3, strength=1.0, changed=0):
    """A Potts grid; `changed` of its unary costs are drawn anew."""
    rng = np.random.default_rng(seed)
    n = shape[0] * shape[1]
    costs = rng.normal(size=(n, size))
    costs[rng.choice(n, changed, False)] += rng.normal(size=(changed, size))
    crf = gm.CRF(n, size).add_unary(costs)
    crf.add(gm.Potts(gm.grid_edges(*shape), strength))
    return crf


def hypergraph(seed, changed=0):
    """Edges and triples; `changed` unary costs are drawn anew."""
    rng = np.random.default_rng(seed)
    crf = gm.CRF(40, 2)
    costs = rng.normal(size=(40, 2))
    crf.add(gm.Potts(gm.grid_edges(5, 8), 0.4))
    triples = np.sort(rng.permuted(np.tile(np.arange(40), (15, 1)), axis=1)[:, :3])
    crf.add(gm.Table(triples, rng.normal(size=(15, 2, 2, 2))))
    costs[:changed] += rng.normal(size=(changed, 2))
    return crf.add_unary(costs)


# ---------------------------------------------------------------------- a relative gap


@pytest.mark.parametrize("gap", [1e-1, 1e-2, 1e-3])
@pytest.mark.parametrize("solver", ["auto", "trws", "bcfw", "exact"])
def test_a_relative_gap_stops_early_and_says_so(solver, gap):
    crf = grid(0)
    full, r = gm.solve(crf, solver=solver), gm.solve(crf, solver=solver, gap=gap)
    assert r.gap <= gap * max(abs(r.energy), abs(r.bound))
    assert r.iterations <= full.iterations
    if r.status == gm.Status.WITHIN_GAP:
        assert r.gap > 0 and f"within gap={gap:g}" in r.message
    else:
        assert r.status == gm.Status.OPTIMAL


def test_the_gap_is_relative_to_the_costs_where_the_energy_is_zero():
    """Energy 1 - 1 = 0: the scale of the costs decides."""
    crf = frustrated_cycle(3, 0.0)
    crf.constant = 2.0
    assert gm.solve(crf, solver="bcfw", gap=0.5).status == gm.Status.BOUND
    r = gm.solve(crf, solver="bcfw", gap=1.0)
    assert r.energy == 0.0 and r.bound == pytest.approx(-1.0)
    assert r.status == gm.Status.WITHIN_GAP


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        ({"max_iter": 2}, "bound", ["max_iter=2", "warm=result"]),
        ({"time_limit": 0.0}, "time limit", ["time_limit=0.0 s", "warm=result"]),
        ({"gap": 0.9}, "within gap", ["within gap=0.9", "smaller gap="]),
        ({}, "bound", ["by itself", "solver='exact'"]),
        ({"on_progress": lambda r: True}, "interrupted", ["interrupted", "warm=result"]),
    ],
)
def test_every_status_says_what_stopped_it_and_what_would_help(options, status, words):
    crf = frustrated_cycle(5)
    r = gm.solve(crf, solver="bcfw", **options)
    assert r.status.value == status and all(word in r.message for word in words), r
    assert r.as_dict()["message"] == r.message and r.status.meaning


def test_bad_arguments_are_named():
    crf = frustrated_cycle(3)
    with pytest.raises(ValueError, match="gap"):
        gm.solve(crf, gap=-1.0)
    with pytest.raises(TypeError, match=r"warm: expected a gmlearn\.Result, got dict"):
        gm.solve(crf, warm={})
    with pytest.raises(ValueError, match=r"warm: expected shape \(3,\), got \(5,\)"):
        gm.solve(crf, warm=gm.solve(frustrated_cycle(5)))
    with pytest.raises(ValueError, match=r"warm: expected a result for the variables of"):
        gm.solve(crf, warm=gm.solve(frustrated_cycle(5), solver="bcfw"))
    with pytest.raises(TypeError, match="on_progress"):
        gm.solve(crf, on_progress=3)


# ---------------------------------------------------------------------- warm starts


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_warm_start_never_hurts_the_certificate(solver, kind):
    """Whatever the earlier model was: bounds hold, and the labels are a start."""
    rng = np.random.default_rng(0)
    crf, w = random_model(rng, kind)
    other = crf.copy()
    other.unary = other.unary + rng.normal(size=len(other.unary))
    try:
        first = gm.solve(crf, w, solver=solver, max_iter=20)
        r = gm.solve(other, w, solver=solver, max_iter=20, warm=first)
    except gm.SolverRefusal:
        return
    best = min(other.energy(x, w) for x in labellings(other))
    assert r.bound <= best + 1e-9 and r.energy >= best - 1e-9
    assert r.energy <= other.energy(first.labels, w)


@pytest.mark.parametrize("solver", ASCENTS)
def test_a_warm_start_on_the_same_model_begins_at_the_bound_where_it_ended(solver):
    crf = grid(3, (6, 6))
    first = gm.solve(crf, solver=solver, max_iter=40)
    cold = gm.solve(crf, solver=solver, max_iter=1)
    warm = gm.solve(crf, solver=solver, max_iter=1, warm=pickle.loads(pickle.dumps(first)))
    slack = 0.05 * (first.bound - cold.bound) if solver == "dual-subgradient" else 1e-6
    assert warm.bound >= first.bound - slack > cold.bound
    assert warm.energy <= first.energy


@pytest.mark.parametrize("make", [grid, hypergraph])
def test_a_few_changed_costs_need_few_rounds(make):
    first, changed = gm.solve(make(1), gap=1e-3), make(1, changed=3)
    cold, warm = gm.solve(changed, gap=1e-3), gm.solve(changed, gap=1e-3, warm=first)
    assert warm.gap <= 1e-3 * abs(warm.energy) + 1e-9
    assert warm.iterations <= max(2, 0.5 * cold.iterations), (warm.iterations, cold.iterations)


@pytest.mark.parametrize("solver", ["trws", "bcfw", "auto"])
def test_blocks_may_come_and_go(solver):
    """The bound after one round beats the one from zero multipliers, and it holds."""
    rng = np.random.default_rng(0)
    crf = grid(4, (4, 4))
    more = crf.copy()
    extra = more.add(gm.Potts([[0, 5], [3, 9], [15, 2]], 0.3))
    double = more.copy()
    double.add(gm.Potts(gm.grid_edges(4, 4)[rng.permutation(24)], 0.1))
    fewer = double.copy()
    fewer.remove(extra)
    options = {"decomposition": "per-clique"} if solver == "bcfw" else {}
    for a, b in ((crf, more), (more, crf), (more, double), (double, fewer), (fewer, crf)):
        first = gm.solve(a, solver=solver, **options)
        best = gm.solve(b, solver="exact").energy
        cold = gm.solve(b, solver=solver, max_iter=1, **options)
        warm = gm.solve(b, solver=solver, max_iter=1, warm=first, **options)
        assert cold.bound <= warm.bound + 1e-9 and warm.bound <= best + 1e-9


def test_added_slaves_keep_the_multipliers_of_the_others():
    """A slave that is added begins at zero cost: nothing of the bound is lost."""
    crf = hypergraph(2)
    rng = np.random.default_rng(0)
    dual = Dual(decompose(crf, "per-clique"), {})
    dual.lam = dual.centred(rng.normal(size=len(dual.lam)))
    before = dual.round().bound
    crf.add(gm.Table([[0, 7, 20]], np.zeros((2, 2, 2))))
    larger = Dual(decompose(crf, "per-clique"), {})
    kept = Multipliers(crf.n_states, costs=SlaveCosts.of(dual, "per-clique"))
    assert kept.restore(larger)
    assert larger.round().bound == pytest.approx(before)
    assert np.abs(np.bincount(larger.coords, larger.lam)).max() < 1e-9


def test_forbidden_labels_that_are_allowed_again():
    """inf messages and costs of the earlier model forbid nothing in the next one."""
    rng = np.random.default_rng(1)
    free = gm.CRF(6, 3).add_unary(rng.normal(size=(6, 3)))
    free.add(gm.Table(gm.grid_edges(2, 3), rng.normal(size=(7, 3, 3))))
    best = min(free.energy(x) for x in labellings(free))
    hard = free.copy()
    hard.unary[free.offsets[:-1] + gm.solve(free).labels] = np.inf
    for solver in ("trws", "srmp", "bcfw", "auto", "exact"):
        r = gm.solve(free, solver=solver, warm=gm.solve(hard, solver=solver))
        assert r.bound <= best + 1e-9, solver


def test_messages_move_between_grids_and_general_graphs():
    crf = grid(5, (5, 7))
    turned = gm.CRF(35, 3).add_unary(crf.unary.reshape(35, 3))
    order = np.random.default_rng(0).permutation(len(crf.blocks[0]))
    turned.add(gm.Pairwise(gm.grid_edges(5, 7)[order], table=1.0 - np.eye(3)))
    general = turned.copy()
    general.unary[0] = np.inf  # no grid kernel
    for a in (crf, turned, general):
        messages = make_messages(a, {})
        for _ in range(30):
            bound = messages.sweep()
        for b in (crf, turned, general):
            warm = make_messages(b, {}, messages.kept).sweep()
            assert warm > make_messages(b, {}).sweep() + 1.0
            assert warm >= bound - 1e-6 or general in (a, b)
    binary = grid(5, (4, 5), 2)
    messages = make_messages(binary, {})
    bound = [messages.sweep() for _ in range(20)][-1]
    turned = gm.CRF(20, 2).add_unary(binary.unary.reshape(20, 2))
    turned.add(gm.Potts(gm.grid_edges(4, 5)[::-1], 1.0))
    assert make_messages(turned, {}, messages.kept).sweep() >= bound - 1e-9


def test_matching_keys_by_their_rank():
    assert match(np.array([5, 3, 5]), np.array([5, 5, 5, 4, 3])).tolist() == [0, 2, -1, -1, 1]
    assert match(np.zeros(0, int), np.array([1])).tolist() == [-1]


# ---------------------------------------------------------------------- reduced costs


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", KINDS)
def test_reduced_costs_against_enumeration(solver, kind):
    """bound + r_v(l) is below every labelling with x_v = l."""
    for seed in range(2):
        crf, w = random_model(np.random.default_rng(seed), kind, coarse=seed == 1)
        try:
            r = gm.solve(crf, w, solver=solver, max_iter=7)
        except gm.SolverRefusal:
            continue
        lowest = np.full((crf.n_vars, int(crf.n_states.max())), np.inf)
        for x in labellings(crf):
            place = np.arange(crf.n_vars), x
            lowest[place] = np.minimum(lowest[place], crf.energy(x, w))
        reduced = r.reduced_costs
        assert reduced.shape == lowest.shape and (reduced >= 0).all()
        assert (r.bound + reduced <= lowest + 1e-9).all()
        padding = np.arange(reduced.shape[1]) >= crf.n_states[:, None]
        assert np.isposinf(reduced[padding]).all()


def test_reduced_costs_of_a_tree_are_exact():
    crf, w = random_model(np.random.default_rng(3), "tree")
    r = gm.solve(crf, w)
    for v in range(crf.n_vars):
        for label in range(3):
            best = min(crf.energy(x, w) for x in labellings(crf) if x[v] == label)
            assert r.bound + r.reduced_costs[v, label] == pytest.approx(best)


def test_results_of_many_forests_have_them_too():
    models = [random_model(np.random.default_rng(seed), "tree") for seed in range(3)]
    w = {"smooth": np.array(0.7)}
    for (crf, _), r in zip(models, solve_forests([crf for crf, _ in models], w)):
        alone = gm.solve(crf, w)
        assert np.allclose(r.reduced_costs, alone.reduced_costs) and r.message == alone.message


def test_reduced_costs_belong_to_the_model_as_it_was_solved():
    crf = grid(6, (4, 4))
    r = gm.solve(crf)
    expected = gm.solve(crf.copy()).reduced_costs
    crf.unary += 100.0
    assert np.allclose(r.reduced_costs, expected)
    assert np.allclose(pickle.loads(pickle.dumps(r)).reduced_costs, expected)
    fresh = pickle.loads(pickle.dumps(gm.solve(crf)))
    with pytest.raises(AttributeError, match="before pickling"):
        _ = fresh.reduced_costs


def test_reduced_costs_prune_a_grid():
    r = gm.solve(grid(7), solver="trws")
    assert (r.bound + r.reduced_costs <= r.energy).sum() < 0.6 * r.reduced_costs.size


# ---------------------------------------------------------------------- progress and limits


def test_progress_is_reported_and_may_stop():
    crf = frustrated_cycle(7)
    seen = []
    r = gm.solve(crf, solver="bcfw", time_limit=0.45, on_progress=seen.append)
    assert 2 <= len(seen) <= 7, "at most about ten calls a second"
    assert all(s.energy >= r.energy and s.bound <= r.bound for s in seen)
    assert all(s.energy == crf.energy(s.labels) for s in seen)
    stopped = gm.solve(
        crf, time_limit=60.0, solver="bcfw", on_progress=lambda r: len(r.history) > 3
    )
    assert stopped.status == gm.Status.INTERRUPTED and stopped.seconds < 5.0
    assert gm.solve(crf, on_progress=lambda r: False).status == gm.Status.OPTIMAL


def test_a_gap_off_the_grid_is_answered_by_a_local_optimum():
    rng = np.random.default_rng(0)
    pairs = np.sort(rng.integers(0, 300, (1500, 2)), axis=1)
    crf = gm.CRF(300, 4).add_unary(rng.normal(size=(300, 4)))
    crf.add(gm.Potts(pairs[pairs[:, 0] < pairs[:, 1]], 0.1))
    r = gm.solve(crf, gap=0.2)
    assert r.status == gm.Status.WITHIN_GAP
    assert gm.solve(crf, solver="icm", initial=r.labels).energy == r.energy


def test_budgets_nest_and_options_stay():
    crf = frustrated_cycle(3)
    problem = Problem(crf, {}, Options(time_limit=100.0))
    with problem.budget(0.5):
        assert 49 < problem.time_left <= 50
        with problem.budget(0.1):
            assert 4 < problem.time_left <= 5
        assert 49 < problem.time_left <= 50
    assert problem.time_left > 99
    with pytest.raises(AttributeError):
        problem.options.time_limit = 1.0
    unlimited = Problem(crf, {}, Options())
    with unlimited.budget(0.5):
        assert unlimited.time_left == np.inf


def test_without_a_limit_work_is_counted_instead_of_seconds(monkeypatch):
    problem = Problem(frustrated_cycle(3), {}, Options())
    with problem.budget(1.0, most=2.0):
        monkeypatch.setattr(time, "perf_counter", lambda: 1e9)
        assert problem.time_left == 2.0
        problem.count(ENTRIES_PER_SECOND)
        assert problem.time_left == 1.0
        with problem.budget(0.5):
            assert problem.time_left == 0.5
        problem.count(2 * ENTRIES_PER_SECOND)
        assert problem.time_left < 0 and problem.stop()
        problem.offer(np.zeros(3, np.int64), "zeros")
        result = problem.result("test")
        assert result.status == gm.Status.BOUND and "without a limit" in result.message
    assert problem.time_left == np.inf


def test_under_a_limit_both_the_clock_and_the_work_end_a_stage(monkeypatch):
    problem = Problem(frustrated_cycle(3), {}, Options(time_limit=100.0))
    problem.work_deadline = 40.0
    with problem.budget(0.25, clock_share=0.5):
        assert problem.time_left == 10.0, "the work is over first"
        problem.count(4 * ENTRIES_PER_SECOND)
        assert problem.time_left == pytest.approx(6.0)
        now = time.perf_counter()
        monkeypatch.setattr(time, "perf_counter", lambda: now + 48)
        assert 1.9 < problem.time_left <= 2.0, "on a slow machine it is the time"
    assert problem.time_left == pytest.approx(36.0)


@pytest.mark.parametrize("solver", ["auto", "exact"])
def test_the_answer_does_not_depend_on_the_clock(solver, monkeypatch):
    rng = np.random.default_rng(3)
    crf = gm.CRF(144, 3).add_unary(rng.normal(size=(144, 3)))
    crf.add(gm.Pairwise(gm.grid_edges(12, 12), table=rng.normal(size=(264, 3, 3))))
    a = gm.solve(crf, solver=solver)
    real, begin = time.perf_counter, time.perf_counter()
    monkeypatch.setattr(time, "perf_counter", lambda: begin + 200 * (real() - begin))
    b = gm.solve(crf, solver=solver)
    assert (a.energy, a.bound, a.iterations) == (b.energy, b.bound, b.iterations)


def test_compilation_does_not_count():
    from numba import njit

    class Slow(gm.MapSolver):
        name = "compiles"

        def run(self, problem):
            njit(lambda x: np.sort(x).sum())(np.zeros(3))
            problem.offer(np.zeros(problem.crf.n_vars, np.int64), "zeros")

    begin = time.perf_counter()
    r = gm.solve(frustrated_cycle(3), solver=Slow(), time_limit=60.0)
    assert r.seconds < 0.5 * (time.perf_counter() - begin)


@pytest.mark.parametrize("solver", ["auto", "exact", "lp"])
def test_a_library_call_that_is_slow_to_look_at_its_clock_is_not_waited_for(solver):
    rng = np.random.default_rng(0)
    edges = np.array([(i, j) for i in range(90) for j in range(i)])
    crf = gm.CRF(90, 3).add_unary(rng.normal(size=(90, 3)))
    crf.add(gm.Pairwise(edges, table=rng.normal(size=(len(edges), 3, 3))))
    gm.solve(crf, solver=solver, time_limit=0.0)  # kernels are compiled or loaded
    r = gm.solve(crf, solver=solver, time_limit=1.0)
    assert r.status == gm.Status.TIME_LIMIT and r.seconds < 2.5
    assert -np.inf < r.bound <= r.energy


@pytest.mark.parametrize(
    ("solver", "place", "name"),
    [("auto", "exact", "SETUP_SWEEPS"), ("toulbar2", "external", "PER_FUNCTION")],
)
def test_a_step_that_would_end_after_the_limit_is_left_out(solver, place, name, monkeypatch):
    if solver == "toulbar2":
        pytest.importorskip("pytoulbar2")
    rng = np.random.default_rng(0)
    crf = gm.CRF(400, 3).add_unary(rng.normal(size=(400, 3)))
    crf.add(gm.Pairwise(gm.grid_edges(20, 20), table=rng.normal(size=(760, 3, 3))))
    monkeypatch.setattr(importlib.import_module(f"gmlearn.solvers.{place}"), name, 1e9)
    r = gm.solve(crf, solver=solver, time_limit=1000.0)
    assert r.status == gm.Status.TIME_LIMIT and "time_limit=1000.0" in r.message
    assert np.isfinite(r.energy) and -np.inf < r.bound < r.energy and r.seconds < 500
