"""The primal side: any block, hard constraints, labellings from slaves, local search without
tables.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from core_cases import KINDS, labellings, minimum, random_model, seeds
from primal_cases import AllDifferent, Hungarian, matching, parse, register

import gmlearn as gm
from gmlearn.solvers import moves as moves_module
from gmlearn.solvers.moves import MoveCosts, Moves
from gmlearn.solvers.neighbourhood import search_by_energies
from gmlearn.solvers.polish import Polisher
from gmlearn.solvers.problem import Options, Problem

register()


class Odd(gm.Block):
    """Nothing but an energy: 1 if the sum of the labels is odd."""

    name = "test_odd"

    def __init__(self, variables):
        super().__init__(variables)

    def energy(self, x, w):
        return (x.sum(axis=1) % 2).astype(float)


class Repaired(AllDifferent):
    """All different without a slave, but with a way to mend a labelling."""

    name = "test_repaired"

    def repair(self, x, w):
        out = x.copy()
        for row in out:
            first = np.unique(row, return_index=True)[1]
            again = np.setdiff1d(np.arange(len(row)), first)
            row[again] = np.setdiff1d(np.arange(self.max_states), row)[: len(again)]
        return out


gm.register(Odd)
gm.register(Repaired)


def problem_of(crf, w=None, **options):
    return Problem(crf, crf.check_weights(w), Options(**options))


def odd_model(n=40, seed=0):
    crf = gm.CRF(n, 2).add_unary(np.random.default_rng(seed).normal(size=(n, 2)))
    crf.add(Odd([np.arange(n)]))
    return crf


# ------------------------------------------------------------------ moves


@pytest.mark.parametrize("entries", [5e6, -1.0])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", [2_000_000, 7])
def test_the_change_of_a_move_is_the_difference_of_energies(kind, entries, part, monkeypatch):
    monkeypatch.setattr(moves_module, "MAX_ENTRIES", entries)
    monkeypatch.setattr(moves_module, "PART", part)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        crf, w = random_model(rng, kind)
        costs = MoveCosts(problem_of(crf, w))
        assert bool(costs.rest) == (entries < 0 and bool(crf.clique_blocks))
        x = rng.integers(0, crf.n_states)
        several = [np.sort(rng.permutation(crf.n_vars)[: 1 + i % 4]) for i in range(6)]
        batches = [
            costs.singles(np.arange(crf.n_vars), x),
            Moves(
                np.concatenate([[0], np.cumsum([len(s) for s in several])]),
                np.concatenate(several),
                np.concatenate([rng.integers(0, crf.n_states[s]) for s in several]),
            ),
        ]
        batches += [costs.swaps(x)] if len(costs.pairs) else []
        for batch in batches:
            change = costs.changes(batch, x)
            for m in range(len(batch)):
                y, one = x.copy(), batch.take(np.array([m]))
                y[one.variable] = one.label
                before, after = crf.energy(x, w), crf.energy(y, w)
                if np.isfinite([before, after]).all():
                    assert change[m] == pytest.approx(after - before, abs=1e-9)
                elif np.isfinite(before):
                    assert change[m] > 0.5 * costs.broken
                elif np.isfinite(after):
                    assert change[m] < -0.5 * costs.broken


@pytest.mark.parametrize("kind", KINDS)
def test_local_search_without_tables_ends_where_no_single_move_helps(kind, monkeypatch):
    monkeypatch.setattr(moves_module, "MAX_ENTRIES", -1.0)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        crf, w = random_model(rng, kind)
        start = rng.integers(0, crf.n_states)
        x = Polisher(problem_of(crf, w)).icm(start)
        energy = crf.energy(x, w)
        assert energy <= crf.energy(start, w)
        for v in range(crf.n_vars):
            for a in range(crf.n_states[v]):
                y = x.copy()
                y[v] = a
                assert crf.energy(y, w) >= energy - 1e-9


@pytest.mark.parametrize("entries", [5e6, -1.0])
def test_fusion_takes_the_better_part_of_each_labelling(entries, monkeypatch):
    monkeypatch.setattr(moves_module, "MAX_ENTRIES", entries)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        crf = gm.CRF(12, 3).add_unary(rng.normal(size=(12, 3)))
        crf.add(gm.Potts([[i, i + 1] for i in range(11)], rng.normal(size=11)))
        crf.add(gm.Table([[0, 1, 2], [6, 7, 8]], rng.normal(size=(2, 3, 3, 3))))
        x = rng.integers(0, 3, 12)
        y = (x + rng.integers(1, 3, 12)) % 3
        y[[3, 7]] = x[[3, 7]]  # leaves two parts that share no clique
        fused = Polisher(problem_of(crf)).fuse(x, y)
        parts = [np.r_[0:3], np.r_[4:7, 8:12]]
        best = np.inf
        for choice in itertools.product((False, True), repeat=2):
            z = x.copy()
            for taken, part in zip(choice, parts):
                z[part] = y[part] if taken else x[part]
            best = min(best, crf.energy(z))
        assert crf.energy(fused) == pytest.approx(best)
        assert np.array_equal(Polisher(problem_of(crf)).fuse(x, x), x)


@pytest.mark.parametrize("method", ["tabu", "neighbourhoods"])
@pytest.mark.parametrize("kind", ["pairwise", "high-order", "mixed"])
def test_searches_without_tables_find_small_optima(method, kind, monkeypatch):
    monkeypatch.setattr(moves_module, "MAX_ENTRIES", -1.0)
    for seed in range(2):
        crf, w = random_model(np.random.default_rng(seed), kind)
        best = pytest.approx(minimum(crf, w)[0])
        if method == "tabu":
            assert gm.solve(crf, w, solver="tabu", max_iter=300).energy == best
            continue
        problem = problem_of(crf, w)
        problem.polisher(problem, np.zeros(crf.n_vars, np.int64), "zeros")
        search_by_energies(problem)
        assert problem.energy == best


# ------------------------------------------------------------------ hard constraints


@pytest.mark.parametrize("solver", ["auto", "bcfw"])
@pytest.mark.parametrize("n, seed", [(6, 0), (6, 1), (7, 2)])
def test_small_matchings_are_optimal(n, seed, solver):
    crf = matching(seed, n)
    best = min(crf.energy(np.array(x)) for x in itertools.permutations(range(n)))
    r = gm.solve(crf, solver=solver, max_iter=100)
    assert r.bound <= best + 1e-9
    assert best - 1e-9 <= r.energy <= 1.02 * best
    assert r.energy == crf.energy(r.labels)


@pytest.mark.parametrize("solver", ["auto", "bcfw", "dual-subgradient", "icm", "tabu"])
@pytest.mark.parametrize("kind", ["distortion", "koopmans-beckmann"])
def test_matching_always_gets_a_matching(solver, kind):
    for n in (8, 12):
        crf = matching(n, n, kind)
        r = gm.solve(crf, solver=solver, max_iter=30)
        assert np.isfinite(r.energy) and sorted(r.labels) == list(range(n))
        assert r.energy == pytest.approx(crf.energy(r.labels)) and r.bound <= r.energy


@pytest.mark.parametrize("solver", ["auto", "bcfw", "dual-subgradient"])
@pytest.mark.parametrize("n", [10, 20, 30])
def test_a_matching_comes_before_the_first_round(n, solver):
    r = gm.solve(matching(0, n, "koopmans-beckmann"), solver=solver, time_limit=0.0)
    assert np.isfinite(r.energy) and sorted(r.labels) == list(range(n))


@pytest.mark.parametrize("n", [10, 20, 30])
def test_a_matching_comes_first_in_a_new_process(n):
    code = (
        "import gmlearn as gm, primal_cases as cases; cases.register(); "
        f"r = gm.solve(cases.matching(0, {n}, 'koopmans-beckmann'), time_limit=0.02); "
        "print(r.energy)"
    )
    tests = str(Path(__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": tests}
    told = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert np.isfinite(float(told.stdout))


def test_loading_kernels_does_not_count(tmp_path):
    path = tmp_path / "kernel_to_load.py"
    path.write_text("import numba\n@numba.njit(cache=True)\ndef total(x):\n    return x.sum()\n")

    def first_call():
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        problem = problem_of(matching(0, 4))
        with problem.without_compilation():
            began, before = time.perf_counter(), problem.elapsed
            module.total(np.zeros(3))
            passed, counted = time.perf_counter() - began, problem.elapsed - before
        assert counted < 0.5 * passed
        return sum(module.total.stats.cache_hits.values())

    assert [first_call(), first_call()] == [0, 1]  # compiled, then loaded


def test_search_by_energies_starts_with_local_search():
    crf = gm.CRF(40, 3).add_unary(np.random.default_rng(0).normal(size=(40, 3)))
    crf.add(Odd([np.arange(40)]))
    icm = gm.solve(crf, solver="icm").energy
    problem = problem_of(crf)
    problem.offer(np.full(40, 2), "a slave")
    problem.work_deadline = 1e-9
    search_by_energies(problem)
    assert problem.energy <= icm


@pytest.mark.slow
@pytest.mark.parametrize("n", [10, 20, 30])
@pytest.mark.parametrize("kind", ["distortion", "koopmans-beckmann"])
def test_large_matchings_are_as_good_as_toulbar2_finds_them(n, kind):
    pytest.importorskip("pytoulbar2")
    crf = matching(0, n, kind)
    edges = crf.clique_blocks[0]
    tables = edges.values.reshape(-1, n, n).copy()
    tables[:, np.arange(n), np.arange(n)] = np.inf
    other = gm.CRF(n, n).add_unary(crf.unary.reshape(n, n))
    other.add(gm.Pairwise(edges.variables, table=tables))
    rival = gm.solve(other, solver="toulbar2", time_limit=5)
    r = gm.solve(crf, time_limit=5)
    assert r.energy <= 1.02 * rival.energy


@pytest.mark.parametrize("seed", seeds(24, daily=8))
def test_parses_are_always_trees(seed):
    crf = parse(seed, 9)
    r = gm.solve(crf, max_iter=20)
    assert np.isfinite(r.energy) and r.energy == pytest.approx(crf.energy(r.labels))


@pytest.mark.parametrize("seed", range(3))
def test_bounds_of_parses_hold(seed):
    crf = parse(seed, 4)
    best = minimum(crf)[0]
    r = gm.solve(crf, solver="bcfw", max_iter=40)
    assert r.bound <= best + 1e-9 <= r.energy + 2e-9 < np.inf
    assert gm.solve(crf).energy == pytest.approx(best)


@pytest.mark.parametrize("rounds", [1, 2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_what_a_slave_of_all_variables_found_is_never_lost(seed, rounds, monkeypatch):
    rng = np.random.default_rng(seed)
    n, n_labels = 6, 8
    crf = gm.CRF(n, n_labels).add_unary(rng.normal(size=(n, n_labels)))
    crf.add(gm.Potts(gm.grid_edges(2, 3), rng.normal(size=7)))
    crf.add(AllDifferent([np.arange(n)]))
    seen = []
    minimise = Hungarian.minimise

    def watched(self, block, theta, w):
        labels, values = minimise(self, block, theta, w)
        seen.extend(crf.energy(x) for x in labels)
        return labels, values

    monkeypatch.setattr(Hungarian, "minimise", watched)
    r = gm.solve(crf, solver="bcfw", max_iter=rounds)
    assert np.isfinite(min(seen)) and np.isfinite(r.energy)
    assert r.energy == pytest.approx(crf.energy(r.labels))


def test_a_block_mends_labellings_by_itself():
    crf = matching(0, 10, block=Repaired)
    for solver in ("icm", "auto", "tabu"):
        r = gm.solve(crf, solver=solver, max_iter=20)
        assert np.isfinite(r.energy) and sorted(r.labels) == list(range(10))
        assert r.bound == -np.inf and "Repaired" in r.reason


def test_what_cannot_be_mended_says_so():
    class Never(gm.Block):
        name = "test_never"

        def energy(self, x, w):
            return np.full(len(x), np.inf)

    crf = gm.CRF(30, 3)
    crf.add(Never([np.arange(30)]))
    r = gm.solve(crf, solver="icm")
    assert r.energy == np.inf and r.bound == -np.inf and r.status == "bound"


# ------------------------------------------------------------------ any block


@pytest.mark.parametrize("solver", ["icm", "tabu", "auto"])
def test_an_energy_is_enough(solver):
    crf = odd_model()
    r = gm.solve(crf, solver=solver, max_iter=200)
    assert r.bound == -np.inf and r.status == "bound"
    assert "No slave solver handles Odd(M=1, k=40, L=2)" in r.reason
    assert "gmlearn.register" in r.reason
    costs = crf.unary.reshape(40, 2)
    free = costs.min(axis=1).sum()
    # the optimum flips the cheapest variable, or pays for the odd sum
    odd = costs.argmin(axis=1).sum() % 2
    best = free + odd * min(1.0, np.abs(np.diff(costs, axis=1)).min())
    assert r.energy == pytest.approx(best)


def test_chains_move_next_to_blocks_without_tables():
    rng = np.random.default_rng(0)
    crf = odd_model(30)
    crf.add(gm.Potts([[i, i + 1] for i in range(29)], rng.normal(size=29)))
    for solver in ("chain-icm", "icm"):
        r = gm.solve(crf, solver=solver)
        assert r.energy == pytest.approx(crf.energy(r.labels)) and r.bound == -np.inf


def test_brute_force_needs_no_slave():
    crf = gm.CRF(17, 2).add_unary(np.random.default_rng(0).normal(size=(17, 2)))
    crf.add(Odd([np.arange(17)]))
    assert gm.solve(crf, solver="brute-force").status == "optimal"
    r = gm.solve(crf, solver="brute-force", time_limit=0.0)
    assert r.bound == -np.inf and "No slave solver" in r.reason


@pytest.mark.parametrize("solver", ["auto", "icm", "trws", "bcfw"])
@pytest.mark.parametrize("states", [[20_000] + [3] * 50, [100_000] * 3])
def test_many_labels_need_no_table_of_pairs(solver, states):
    rng = np.random.default_rng(0)
    crf = gm.CRF(states)
    crf.unary = rng.normal(size=crf.n_coords)
    n = len(states)
    edges = [[0, i] for i in range(1, n)] + ([[1, 2]] if n == 3 else [])
    crf.add(gm.Potts(edges, 0.5))
    r = gm.solve(crf, solver=solver, max_iter=4)
    assert np.isfinite(r.energy) and r.bound <= r.energy + 1e-9


def test_an_edge_block_whose_slave_is_cheaper_has_no_table():
    class Close(gm.Block):
        name = "test_close"

        def energy(self, x, w):
            return (x[:, 0] != x[:, 1]).astype(float)

        def dense(self, w):
            raise AssertionError("a table that nobody asked for")

    class CloseSlave(gm.SlaveSolver):
        name = "test-close"

        def refuses(self, block):
            return None if type(block) is Close else "not Close"

        def cost(self, block, power="minimise"):
            return 4.0 * len(block) * block.max_states

        def minimise(self, block, theta, w):
            rows = np.arange(len(theta))
            apart = theta.argmin(axis=2)
            price = theta.min(axis=2).sum(axis=1) + (apart[:, 0] != apart[:, 1])
            same = theta.sum(axis=1).argmin(axis=1)
            equal = theta.sum(axis=1)[rows, same]
            labels = np.where((equal <= price)[:, None], np.stack([same, same], axis=1), apart)
            return labels, np.minimum(equal, price)

    gm.register(Close)
    gm.register(CloseSlave())
    rng = np.random.default_rng(0)
    crf = gm.CRF(3, 3000).add_unary(rng.normal(size=(3, 3000)))
    crf.add(Close([[0, 1], [1, 2], [0, 2]]))
    for solver in ("auto", "bcfw", "icm", "tabu"):
        r = gm.solve(crf, solver=solver, max_iter=50)
        assert np.isfinite(r.bound) and r.energy == pytest.approx(crf.energy(r.labels))
    with pytest.raises(ValueError, match=r"refuses.*Close\(M=3"):
        gm.solve(crf, solver="trws")


def test_sizes_are_checked_before_memory_is_asked_for():
    crf = gm.CRF(3, 100_000)

    class Plain(gm.Block):
        name = "test_plain"

        def energy(self, x, w):
            return (x[:, 0] > x[:, 1]).astype(float)

    block = crf.add(Plain([[0, 1], [1, 2]]))
    for write in (block.table, block.dense, block.pairwise):
        with pytest.raises(ValueError, match=r"Plain\(M=2, k=2, L=100000\): a dense table would"):
            write({})
    many = gm.CRF(200, 200)
    assert many.add(Odd([np.arange(200)])).table_size() == np.inf
    assert gm.solve(many, solver="icm").energy == 0.0
    for solver in ("exact", "lp", "brute-force", "elimination"):
        with pytest.raises(ValueError, match="refuses"):
            gm.solve(many, solver=solver)


def test_dense_energies_have_the_cliques_own_shapes():
    crf = gm.CRF([2, 3, 4])

    class Mixed(gm.Block):
        name = "test_mixed"

        def energy(self, x, w):
            return x @ np.array([1.0, 10.0])

    block = crf.add(Mixed([[0, 1], [2, 0]]))
    values, start, stride = block.dense({})
    assert len(values) == 2 * 3 + 4 * 2 == block.form_size()
    for x in labellings(crf):
        own = values[start + (stride * x[block.variables]).sum(axis=1)]
        assert np.array_equal(own, block.energy(x[block.variables], {}))
    assert block.table({}).shape == (2, 4, 4) and np.isinf(block.table({})).sum() == 32 - 14


def test_a_solver_that_states_no_cost_leaves_work_for_local_search():
    """All joint states, by which solvers are compared, are not what the Hungarian method reads:
    counted as work they used up any time limit in the first round."""
    register()
    crf = matching(40, 10, "koopmans-beckmann")
    (group,) = [g for g in gm.decompose(crf, "auto").groups if g.n == 1]
    assert group.cost() == 10.0**10
    assert group.work <= 100 * len(group.coords)
    best = gm.solve(crf, time_limit=5.0)
    assert best.iterations > 1 and best.energy < 8.8


@pytest.mark.parametrize("solver", ["bcfw", "dual-subgradient", "mplp", "srmp"])
def test_who_needs_slaves_refuses_blocks_without(solver):
    with pytest.raises(gm.SolverRefusal, match=f"'{solver}' refuses CRF.*No slave solver handles"):
        gm.solve(odd_model(), solver=solver)
