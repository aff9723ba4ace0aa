"""What exactness rests on: elimination, pruning by reduced costs, the integer program, local
search.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from core_cases import KINDS, frustrated_cycle, labellings, minimum, random_model, some_edges

import gmlearn as gm
from gmlearn.decompositions import decompose
from gmlearn.master import Dual
from gmlearn.model.factors import FactorGraph
from gmlearn.solvers import neighbourhood
from gmlearn.solvers.elimination import Elimination, all_labels, elimination_order
from gmlearn.solvers.exact import Effort, ascend, finish, finish_near_the_bound, prune
from gmlearn.solvers.neighbourhood import Neighbourhoods, conditioned, search_neighbourhoods
from gmlearn.solvers.polish import Polisher
from gmlearn.solvers.problem import Options, Problem
from gmlearn.solvers.tabu import tabu_search


def problem_of(crf, w, **options):
    return Problem(crf, crf.check_weights(w), Options(**options))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_elimination_equals_enumeration_in_any_order(kind, seed):
    rng = np.random.default_rng(seed)
    crf, w = random_model(rng, kind, coarse=seed % 2 == 1)
    graph = FactorGraph.of(crf, crf.check_weights(w))
    best = minimum(crf, w)[0]
    for order in (
        elimination_order(graph, graph.n_states)[0],
        rng.permutation(crf.n_vars),
    ):
        labels, value = Elimination(graph, all_labels(graph), order).run()
        assert value + crf.constant == pytest.approx(best)
        assert crf.energy(labels, w) == pytest.approx(best)


@pytest.mark.parametrize("seed", range(4))
def test_elimination_on_some_of_the_labels(seed):
    rng = np.random.default_rng(seed)
    crf, w = random_model(rng, "mixed")
    graph = FactorGraph.of(crf, crf.check_weights(w))
    allowed = [np.sort(rng.choice(n, rng.integers(1, n + 1), replace=False)) for n in crf.n_states]
    domain = np.array([len(a) for a in allowed])
    labels, value = Elimination(graph, allowed, elimination_order(graph, domain)[0]).run()
    best = min(
        crf.energy(x, w)
        for x in labellings(crf)
        if all(x[v] in allowed[v] for v in range(crf.n_vars))
    )
    assert value == pytest.approx(best) == crf.energy(labels, w)


def test_elimination_of_many_labels():
    rng = np.random.default_rng(0)
    crf = gm.CRF([300, 20, 2]).add_unary([rng.normal(size=n) for n in (300, 20, 2)])
    crf.add(
        gm.Table(
            [[0, 1], [2, 0], [1, 2]], [rng.normal(size=s) for s in ((300, 20), (2, 300), (20, 2))]
        )
    )
    best = gm.solve(crf, solver="brute-force").energy
    assert gm.solve(crf, solver="elimination").energy == best


def test_orders_respect_their_limits():
    crf = gm.CRF(6, 4)
    crf.add(gm.Potts(some_edges(np.random.default_rng(0), 6, 15)))
    graph = FactorGraph.of(crf, {})
    order, total, *_ = elimination_order(graph, graph.n_states)
    assert sorted(order) == list(range(6)) and total == pytest.approx(
        sum(4**k for k in range(1, 7))
    )
    assert elimination_order(graph, graph.n_states, max_table=4**5) is None
    assert elimination_order(graph, graph.n_states, max_total=4**6) is None
    with pytest.raises(
        gm.SolverRefusal, match=r"solver 'elimination': the induced width of .* is too large"
    ):
        wide = gm.CRF(40, 4)
        wide.add(gm.Potts([[i, j] for i in range(40) for j in range(i)]))
        gm.solve(wide, solver="elimination")


@pytest.mark.parametrize("kind", ["pairwise", "mixed", "high-order", "hard", "constant"])
@pytest.mark.parametrize("seed", range(5))
def test_pruning_keeps_every_better_labelling(kind, seed):
    crf, w = random_model(np.random.default_rng(seed), kind, coarse=seed % 2 == 1)
    problem = problem_of(crf, w, max_iter=2)
    dual = ascend(problem)
    if dual is None:
        assert problem.closed, "TRW-S was enough"
        return
    allowed = prune(problem, dual)
    if allowed is None:
        assert problem.energy == np.inf or not np.isfinite(dual.round().bound)
        return
    for x in labellings(crf):
        if crf.energy(x, w) < problem.energy - 1e-7:
            assert allowed[crf.offsets[:-1] + x].all(), (
                "a labelling better than the incumbent was cut off"
            )
    assert allowed[crf.offsets[:-1] + problem.labels].all()


def test_pruning_bites_on_a_clear_model():
    rng = np.random.default_rng(0)
    crf = gm.CRF(16, 4).add_unary(3 * rng.normal(size=(16, 4)))
    crf.add(gm.Potts(gm.grid_edges(4, 4), rng.normal(size=24)))
    r = gm.solve(crf, solver="trws", max_iter=10)
    assert (r.bound + r.reduced_costs <= r.energy).mean() < 0.6


@pytest.mark.parametrize("kind", ["pairwise", "mixed", "high-order", "hard"])
@pytest.mark.parametrize(
    "limits",
    [
        Effort(np.inf, 1.0, 1.0, search=False, max_entries=1e6),
        Effort(np.inf, 1e6, 1e6, search=False),
    ],
    ids=["HiGHS", "elimination"],
)
def test_both_finishes_prove_the_optimum(kind, limits):
    for seed in range(3):
        crf, w = random_model(np.random.default_rng(seed), kind)
        problem = problem_of(crf, w)
        best = minimum(crf, w)[0]
        finish(problem, np.isfinite(FactorGraph.of(crf, problem.w).unary), limits)
        r = problem.result("finish")
        assert r.energy == pytest.approx(best)
        assert r.status == (gm.Status.OPTIMAL if np.isfinite(best) else gm.Status.INFEASIBLE)


@pytest.mark.parametrize("kind", ["pairwise", "mixed", "high-order", "hard", "constant"])
@pytest.mark.parametrize(
    "limits",
    [
        Effort(np.inf, 1.0, 1.0, search=False, max_entries=1e6),
        Effort(np.inf, 1e6, 1e6, search=False),
    ],
    ids=["HiGHS", "elimination"],
)
def test_a_finish_near_the_bound_is_right_whether_it_finds_a_labelling_or_not(kind, limits):
    found = raised = 0
    for seed in range(12):
        crf, w = random_model(np.random.default_rng(seed), kind, coarse=seed % 2 == 1)
        problem = problem_of(crf, w, max_iter=1 + seed % 3)
        dual, best = ascend(problem), minimum(crf, w)[0]
        # as if nothing had been decoded
        problem.labels, problem.energy, before = None, np.inf, problem.bound
        if not np.isfinite(before):
            continue
        dual = dual or Dual(decompose(crf, "chains"), problem.w)  # TRW-S was enough
        finish_near_the_bound(problem, dual, limits)
        assert problem.bound <= best + 1e-7 <= problem.energy + 2e-7
        raised += problem.bound > before
        found += problem.closed
        assert not problem.closed or problem.energy == pytest.approx(best)
    assert found + raised > 0


def test_what_is_too_large_to_finish_says_so():
    crf = frustrated_cycle(5)
    problem = problem_of(crf, {})
    finish(problem, np.ones(10, bool), Effort(np.inf, 1.0, 1.0, search=False))
    assert problem.bound == -np.inf and "too many for HiGHS" in problem.notes[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_local_search_ends_where_no_single_move_helps(kind, seed):
    crf, w = random_model(np.random.default_rng(seed), kind)
    problem = problem_of(crf, w)
    start = np.random.default_rng(seed).integers(0, crf.n_states)
    x = Polisher(problem).icm(start)
    energy = crf.energy(x, w)
    assert energy <= crf.energy(start, w)
    for v in range(crf.n_vars):
        for a in range(crf.n_states[v]):
            y = x.copy()
            y[v] = a
            assert crf.energy(y, w) >= energy - 1e-9


def test_the_polisher_on_block_energies_finds_what_the_compiled_one_finds():
    for seed in range(5):
        crf, w = random_model(np.random.default_rng(seed), "high-order")
        problem = problem_of(crf, w)
        Polisher(problem)(problem, np.zeros(5, np.int64), "zeros")
        energy = problem.energy
        assert energy <= crf.energy(np.zeros(5, np.int64), w)
        for v in range(5):
            y = problem.labels.copy()
            y[v] = 1 - y[v]
            assert crf.energy(y, w) >= energy - 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_chain_moves_are_exact_on_a_chain(seed):
    rng = np.random.default_rng(seed)
    crf = gm.CRF(6, 3).add_unary(rng.normal(size=(6, 3)))
    crf.add(gm.Potts(np.stack([np.arange(5), np.arange(1, 6)], 1), rng.normal(size=5)))
    x, movable = Polisher(problem_of(crf, {})).chain_icm(np.zeros(6, np.int64))
    assert not movable.any()
    assert crf.energy(x) == pytest.approx(minimum(crf)[0])


def test_chain_moves_look_at_the_clock_between_parts(monkeypatch):
    rng = np.random.default_rng(0)
    crf = gm.CRF(36, 3).add_unary(rng.normal(size=(36, 3)))
    crf.add(gm.Potts(gm.grid_edges(6, 6), rng.random(60)))
    polisher, start = Polisher(problem_of(crf, {})), rng.integers(0, 3, 36)
    whole, _ = polisher.chain_icm(start)
    assert polisher._parts() == [0, 12]
    monkeypatch.setattr("gmlearn.solvers.polish.PART", 100.0)
    parts = polisher._parts()
    assert parts[0] == 0 and parts[-1] == 12 and len(parts) > 4 and (np.diff(parts) > 0).all()
    assert np.array_equal(polisher.chain_icm(start)[0], whole)
    looks = iter([False, True])
    early, movable = polisher.chain_icm(start, deadline=lambda: next(looks))
    assert movable.all()
    assert crf.energy(whole) < crf.energy(early) < crf.energy(start)
    assert np.array_equal(polisher.chain_icm(start, deadline=lambda: True)[0], start)


def test_no_time_no_polishing():
    crf = frustrated_cycle(5)
    problem = Problem(crf, {}, Options(time_limit=0.0))
    Polisher(problem)(problem, np.zeros(5, np.int64), "zeros")
    assert problem.labels.tolist() == [0] * 5 and problem.decoded_from == "zeros"


@pytest.mark.parametrize("kind", ["pairwise", "high-order", "hard", "mixed"])
def test_tabu_search_finds_small_optima(kind):
    for seed in range(3):
        crf, w = random_model(np.random.default_rng(seed), kind)
        problem = problem_of(crf, w)
        tabu_search(problem, FactorGraph.of(crf, problem.w), 5000)
        assert problem.energy == pytest.approx(minimum(crf, w)[0])


@pytest.mark.parametrize("kind", ["pairwise", "high-order", "mixed", "hard"])
@pytest.mark.parametrize("seed", range(4))
def test_conditioning_keeps_the_energy_of_every_labelling_of_the_region(kind, seed):
    rng = np.random.default_rng(seed)
    crf, w = random_model(rng, kind)
    graph = FactorGraph.of(crf, crf.check_weights(w))
    x, region = rng.integers(0, crf.n_states), np.sort(rng.permutation(5)[:3])
    part = conditioned(graph, region, x)
    shifts = []
    for inner in itertools.product(*(range(n) for n in crf.n_states[region].tolist())):
        y = x.copy()
        y[region] = inner
        place = np.array([inner[v] for v in part.scope], np.int64) * part.stride
        position = part.start + np.add.reduceat(place, part.indptr[:-1])
        cost = (
            part.unary[part.offsets[:-1] + np.array(inner)].sum()
            + (part.scale * part.values[position]).sum()
        )
        energy = crf.energy(y, w)
        assert np.isfinite(cost) or energy == np.inf
        if np.isfinite(energy):
            shifts.append(energy - cost)
    assert np.ptp(shifts) < 1e-9 if shifts else True


def test_large_neighbourhoods_find_what_single_moves_do_not():
    rng = np.random.default_rng(0)
    crf = gm.CRF(64, 2).add_unary(0.1 * rng.normal(size=(64, 2)))
    crf.add(gm.Potts(gm.grid_edges(8, 8), rng.choice([-1.0, 1.0], 112)))
    problem = problem_of(crf, {})
    graph = FactorGraph.of(crf, problem.w)
    problem.offer(Polisher(problem).icm(np.zeros(64, np.int64)), "ICM")
    before = problem.energy
    assert search_neighbourhoods(problem, graph, np.isfinite(graph.unary)) > 50
    assert 1.0 < problem.spent < 10.0, "it ends by itself, by counted work"
    exact = gm.solve(crf, solver="elimination").energy
    assert problem.energy < before and problem.energy == pytest.approx(exact)
    assert problem.decoded_from == "large neighbourhoods"


def test_neighbourhoods_too_wide_are_left_alone(monkeypatch):
    crf = frustrated_cycle(7)
    graph = FactorGraph.of(crf, {})
    problem = problem_of(crf, {})
    regions = Neighbourhoods(graph, np.ones(14, bool), seed=0)
    region = regions.draw(7)
    assert region.tolist() == list(range(7)) and len(regions.draw(3)) == 3
    searched = regions.improve(problem, region, np.zeros(7, np.int64), 2.0)
    assert crf.energy(searched) == pytest.approx(minimum(crf)[0]), "by branch and bound"
    monkeypatch.setattr(neighbourhood, "NODES", 0)
    assert regions.improve(problem, region, np.zeros(7, np.int64), 2.0) is None
    best = regions.improve(problem, region, np.zeros(7, np.int64), 64.0)
    assert crf.energy(best) == pytest.approx(minimum(crf)[0])
