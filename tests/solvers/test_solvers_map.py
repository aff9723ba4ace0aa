"""Every registered MAP solver against enumeration, with its certificate, its limits and its
refusals.
"""

from __future__ import annotations

import functools
import importlib.util

import numpy as np
import pytest
from core_cases import KINDS, frustrated_cycle, impossible_model, minimum, random_model

import gmlearn as gm
from gmlearn.registry import registry

#: solvers of the core; those of plugins are tested by their plugins
SOLVERS = sorted(e.name for e in registry.entries("solver") if e.owner == "core")
PROVING = ("auto", "exact", "brute-force", "elimination", "tree", "maxflow")
ANY = [s for s in SOLVERS if s not in ("tree", "maxflow", "pymaxflow", "toulbar2")]
needs_toulbar2 = pytest.mark.skipif(
    importlib.util.find_spec("pytoulbar2") is None, reason="pytoulbar2 is not installed"
)


@functools.cache
def case(seed, kind, coarse):
    crf, w = random_model(np.random.default_rng(seed), kind, coarse)
    return crf, w, minimum(crf, w)[0]


def answer(crf, w, solver, **options):
    """The solver's result, or None where it refuses the model."""
    if registry.get("solver", solver).refuses(crf) is not None:
        with pytest.raises(gm.SolverRefusal, match=f"solver '{solver}' refuses"):
            gm.solve(crf, w, solver=solver)
        return None
    if solver == "maxflow" and not registry.get("solver", "maxflow").claims(
        crf, crf.check_weights(w)
    ):
        with pytest.raises(ValueError, match="is not binary, finite and submodular"):
            gm.solve(crf, w, solver=solver)
        return None
    return gm.solve(crf, w, solver=solver, **options)


def check_certificate(r, crf, w, best, tol=1e-6):
    """What every result promises, whatever the solver."""
    assert r.energy == crf.energy(r.labels, w), "the energy is the model's own"
    assert r.bound <= best + 1e-9 or best == np.inf, "a valid lower bound"
    assert r.energy >= best - 1e-9
    assert r.gap == (0.0 if r.energy == r.bound else r.energy - r.bound) and r.gap >= 0.0
    if r.status == gm.Status.OPTIMAL:
        assert r.energy <= best + tol + 1e-9 and np.isfinite(r.energy)
    if r.status == gm.Status.INFEASIBLE:
        assert best == np.inf == r.bound and r.gap == 0.0
    assert r.status.meaning and r.seconds >= 0.0 and r.iterations >= 0
    h = r.history
    assert len(h) == len(h.bound) == len(h.energy) == len(h.iteration) >= 1
    assert (np.diff(h.seconds) >= 0).all()
    assert all(b >= a for a, b in zip(h.bound, h.bound[1:])) and all(
        b <= a for a, b in zip(h.energy, h.energy[1:])
    )
    assert h.bound[-1] <= best + 1e-9 or best == np.inf


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", [s for s in SOLVERS if s != "toulbar2"])
def test_against_enumeration(solver, kind):
    for seed in range(2):
        for coarse in (False, True):
            crf, w, best = case(seed, kind, coarse)
            r = answer(crf, w, solver, **({"max_iter": 3000} if solver == "tabu" else {}))
            if r is None:
                continue
            check_certificate(r, crf, w, best)
            if solver in PROVING:
                assert r.energy == pytest.approx(best)
                assert r.status == (
                    gm.Status.OPTIMAL if np.isfinite(best) else gm.Status.INFEASIBLE
                )


@needs_toulbar2
@pytest.mark.parametrize("kind", KINDS)
def test_toulbar2_finds_the_optimum(kind):
    for seed in range(3):
        crf, w, best = case(seed, kind, False)
        r = answer(crf, w, "toulbar2")
        check_certificate(r, crf, w, best)
        assert r.energy == pytest.approx(best)


@needs_toulbar2
def test_toulbar2_proves_what_it_has_searched():
    for kind, seed in (("high-order", 1), ("mixed", 4)):
        crf, w, _ = case(seed, kind, False)
        assert gm.solve(crf, w, solver="toulbar2").status == gm.Status.OPTIMAL


@needs_toulbar2
def test_toulbar2_says_that_a_model_is_infeasible():
    assert gm.solve(impossible_model(), solver="toulbar2").status == gm.Status.INFEASIBLE


def test_the_linear_program_bound_is_that_of_the_local_polytope():
    """A frustrated triangle: -1 for every edge at marginals 1/2."""
    r = gm.solve(frustrated_cycle(3, 0.0), solver="lp")
    assert (
        r.bound == pytest.approx(-3.0)
        and r.energy == pytest.approx(-2.0)
        and r.status == gm.Status.BOUND
    )
    assert gm.solve(frustrated_cycle(3, 0.0), solver="exact").status == gm.Status.OPTIMAL


# ---------------------------------------------------------------------- infeasible models


@pytest.mark.parametrize("solver", ["auto", "exact", "brute-force", "elimination"])
def test_an_infeasible_model_says_so(solver):
    r = gm.solve(impossible_model(), solver=solver)
    assert r.status == gm.Status.INFEASIBLE and r.energy == r.bound == np.inf and r.gap == 0.0
    assert "breaks a hard constraint" in r.status.meaning
    assert r.as_dict()["energy"] is None and r.as_dict()["status"] == "infeasible"


# which refuses hard constraints
@pytest.mark.parametrize("solver", [s for s in ANY if s != "alpha-expansion"])
def test_locally_consistent_infeasible_models_never_look_solved(solver):
    r = gm.solve(impossible_model(), solver=solver, max_iter=50)
    assert r.energy == np.inf and r.status in (gm.Status.INFEASIBLE, gm.Status.BOUND)


@pytest.mark.parametrize(
    "solver",
    [s for s in SOLVERS if s not in ("maxflow", "pymaxflow", "toulbar2", "alpha-expansion")],
)
def test_a_variable_without_an_allowed_label_is_infeasible(solver):
    crf = gm.CRF(3, 2).add_unary([[0, 1], [np.inf, np.inf], [0, 1]])
    crf.add(gm.Potts([[0, 1], [1, 2]], 1.0))
    assert gm.solve(crf, solver=solver).status == gm.Status.INFEASIBLE


def test_alpha_expansion_refuses_forbidden_pairs():
    rng = np.random.default_rng(0)
    crf = gm.CRF(9, 3).add_unary(rng.normal(size=(9, 3)))
    tables = np.where(np.random.default_rng(3).random((12, 3, 3)) < 0.2, np.inf, 1.0)
    crf.add(gm.Table(gm.grid_edges(3, 3), tables))
    with pytest.raises(gm.SolverRefusal, match="hard constraints"):
        gm.solve(crf, solver="alpha-expansion", time_limit=1.0)


# ---------------------------------------------------------------------- limits, seeds, starts


@pytest.fixture(scope="module")
def hard_grid():
    rng = np.random.default_rng(0)
    crf = gm.CRF(144, 3).add_unary(rng.normal(size=(144, 3)))
    crf.add(gm.Potts(gm.grid_edges(12, 12), rng.normal(size=264)))
    return crf


@pytest.mark.parametrize("solver", ["dual-subgradient", "trws", "mplp", "bcfw"])
@pytest.mark.parametrize("limit", [1, 2, 7])
def test_the_iteration_limit_is_honoured(hard_grid, solver, limit):
    r = gm.solve(hard_grid, solver=solver, max_iter=limit)
    assert r.iterations == limit and r.status == gm.Status.BOUND
    assert np.isfinite(r.energy) and np.isfinite(r.bound)


@pytest.mark.parametrize(
    "solver", [s for s in ANY if s not in ("brute-force", "elimination", "lp")]
)
def test_the_time_limit_is_honoured_within_a_round(hard_grid, solver):
    gm.solve(hard_grid, solver=solver, time_limit=0.01)  # kernels are compiled or loaded
    for limit in (0.0, 0.2):
        r = gm.solve(hard_grid, solver=solver, time_limit=limit)
        assert r.seconds < limit + 1.0
        assert (
            r.status == gm.Status.OPTIMAL or r.status == gm.Status.TIME_LIMIT or r.seconds < limit
        )
        assert r.bound > -np.inf and r.bound <= r.energy


@pytest.mark.parametrize("solver", ["bcfw", "dual-subgradient"])
def test_a_time_limit_replaces_the_solvers_own_limit_of_rounds(solver):
    crf = frustrated_cycle(5)
    crf.add_unary(np.random.default_rng(0).normal(size=(5, 2)) / 10)
    own = gm.solve(crf, solver=solver)
    assert own.status == gm.Status.BOUND
    longer = gm.solve(crf, solver=solver, time_limit=4 * own.seconds + 0.2)
    assert (
        longer.status == gm.Status.TIME_LIMIT
        and longer.history.iteration[-1] > own.history.iteration[-1]
    )
    assert gm.solve(crf, solver=solver, time_limit=30.0, max_iter=3).history.iteration[-1] == 3


def test_the_time_limit_of_enumeration_and_elimination():
    rng = np.random.default_rng(0)
    crf = gm.CRF(12, 3).add_unary(rng.normal(size=(12, 3)))
    crf.add(gm.Potts(gm.grid_edges(3, 4), rng.normal(size=17)))
    r = gm.solve(crf, solver="brute-force", time_limit=0.0)
    assert r.status == gm.Status.TIME_LIMIT and np.isfinite(r.bound) and r.bound <= r.energy
    r = gm.solve(crf, solver="elimination", time_limit=0.0)
    assert r.status == gm.Status.TIME_LIMIT and r.energy == crf.energy(r.labels)


def test_elimination_out_of_time_still_has_a_bound():
    crf = frustrated_cycle(5)
    assert gm.solve(crf, solver="elimination", time_limit=0.0).bound > -np.inf


@pytest.mark.parametrize("solver", ["tabu", "alpha-expansion"])
def test_an_iteration_limit_of_zero(hard_grid, solver):
    assert gm.solve(hard_grid, solver=solver, max_iter=0).iterations <= 1


@pytest.mark.parametrize("solver", ANY)
def test_the_same_seed_gives_the_same_answer(solver):
    crf, w, _ = case(0, "pairwise", False)
    options = {"max_iter": 2000} if solver == "tabu" else {}
    a, b = (gm.solve(crf, w, solver=solver, seed=3, **options) for _ in range(2))
    assert np.array_equal(a.labels, b.labels) and a.energy == b.energy and a.bound == b.bound
    assert a.history.bound == b.history.bound and a.history.energy == b.history.energy


@pytest.mark.parametrize("solver", ANY)
def test_solving_leaves_the_model_alone(solver):
    crf, w, _ = case(1, "hard", False)
    if registry.get("solver", solver).refuses(crf):
        crf, w, _ = case(1, "pairwise", False)
    unary, blocks, values = (
        crf.unary.copy(),
        list(crf.blocks),
        [np.copy(getattr(b, "values", 0)) for b in crf.blocks],
    )
    gm.solve(crf, w, solver=solver, max_iter=20)
    assert np.array_equal(crf.unary, unary) and crf.blocks == blocks
    assert all(np.array_equal(v, getattr(b, "values", 0)) for v, b in zip(values, crf.blocks))


@pytest.mark.parametrize("solver", ANY)
def test_a_start_is_never_made_worse(solver):
    crf, w, best = case(2, "pairwise", False)
    labels = np.array(minimum(crf, w)[1])
    r = gm.solve(crf, w, solver=solver, initial=labels, max_iter=3)
    assert r.energy == pytest.approx(best)


@pytest.mark.parametrize("solver", ANY)
def test_the_constant_shifts_energy_and_bound(solver):
    crf, w, _ = case(0, "pairwise", False)
    options = {"max_iter": 2000} if solver == "tabu" else {}
    plain = gm.solve(crf, w, solver=solver, **options)
    shifted = crf.copy()
    shifted.constant = 10.0
    r = gm.solve(shifted, w, solver=solver, **options)
    assert r.energy == pytest.approx(plain.energy + 10) and r.bound == pytest.approx(
        plain.bound + 10
    )


def test_bounds_of_whole_number_models_are_rounded_up():
    crf = gm.CRF(3, 2)
    crf.add(gm.Table([[0, 1], [1, 2], [0, 2]], [[1.0, 0.0], [0.0, 1.0]]))
    crf.add(gm.Table([[0]], [0.0, 1.0]))  # the LP pays half of it: 0.5
    assert gm.solve(crf, solver="lp").bound == 1.0 == minimum(crf)[0]
    crf.constant = 0.5
    assert gm.solve(crf, solver="lp").bound == pytest.approx(1.0), "half numbers are left alone"
    wide = gm.CRF(5, 2)
    wide.add(gm.Table([[i, (i + 1) % 5] for i in range(5)], [[1.0, 0.0], [0.0, 1.0]]))
    wide.add(gm.Table([[0, 1, 2]], np.arange(8.0).reshape(2, 2, 2)))
    best = minimum(wide)[0]
    r = gm.solve(wide, solver="bcfw")
    assert r.bound == np.rint(r.bound) and r.bound <= best


@pytest.mark.parametrize("solver", [s for s in ANY if s != "chain-icm"])
def test_models_without_cliques_or_variables(solver):
    crf = gm.CRF([2, 3]).add_unary([[1, 0], [3, 2, 1]])
    if registry.get("solver", solver).refuses(crf) is None:
        r = gm.solve(crf, solver=solver, max_iter=100)
        assert r.labels.tolist() == [1, 2] and r.energy == 1.0 and r.status == gm.Status.OPTIMAL
    empty = gm.CRF([])
    if registry.get("solver", solver).refuses(empty) is None:
        r = gm.solve(empty, solver=solver)
        assert r.energy == 0.0 and r.status == gm.Status.OPTIMAL and r.labels.shape == (0,)


def test_parallel_edges_and_blocks_add_up():
    rng = np.random.default_rng(0)
    crf = gm.CRF(4, 3).add_unary(rng.normal(size=(4, 3)))
    for _ in range(3):
        crf.add(gm.Potts([[0, 1], [1, 0], [2, 3], [1, 2]], rng.normal(size=4)))
    best = minimum(crf)[0]
    for solver in ANY:
        r = gm.solve(crf, solver=solver, **({"max_iter": 3000} if solver == "tabu" else {}))
        check_certificate(r, crf, None, best)


# ---------------------------------------------------------------------- auto


@pytest.mark.parametrize(
    "kind, reason",
    [
        ("tree", "tree: the model is a forest"),
        ("binary", "maxflow: it claims this model"),
        ("high-order", "elimination: the induced width is small"),
    ],
)
def test_auto_says_what_it_chose_and_why(kind, reason):
    crf, w, best = case(0, kind, False)
    r = gm.solve(crf, w)
    assert r.energy == pytest.approx(best) and r.solver == "auto" and reason in r.reason


def test_auto_on_a_grid_too_wide_to_eliminate(hard_grid):
    r = gm.solve(hard_grid, time_limit=3.0)
    assert "dual ascent" in r.reason and r.bound <= r.energy
    for solver in ("trws", "bcfw"):
        other = gm.solve(hard_grid, solver=solver)
        assert other.bound <= r.energy + 1e-6 and r.bound <= other.energy + 1e-6


def test_auto_with_cliques_too_large_for_tables():
    class Count(gm.Block):
        name = "count"

        def energy(self, x, w):
            return np.abs((x == 1).sum(axis=1) - 20.0)

    class CountSlave(gm.SlaveSolver):
        name = "count-slave"

        def refuses(self, block):
            return None if isinstance(block, Count) else "not Count cliques"

        def minimise(self, block, theta, w):
            gain = theta[:, :, 1] - theta[:, :, 0]
            order = np.argsort(gain, axis=1)
            total = np.concatenate(
                [np.zeros((len(block), 1)), np.cumsum(np.take_along_axis(gain, order, 1), axis=1)],
                axis=1,
            )
            total = total + np.abs(np.arange(total.shape[1]) - 20.0)
            best = total.argmin(axis=1)
            labels = np.zeros(theta.shape[:2], np.int64)
            for m, n in enumerate(best):
                labels[m, order[m, :n]] = 1
            return labels, theta[:, :, 0].sum(axis=1) + total.min(axis=1)

    entry = registry.add(CountSlave())
    try:
        rng = np.random.default_rng(0)
        crf = gm.CRF(40, 2).add_unary(rng.normal(size=(40, 2)))
        crf.add(Count([np.arange(40), np.arange(40)[::-1]]))
        for solver in ("auto", "bcfw", "dual-subgradient", "icm"):
            r = gm.solve(crf, solver=solver, time_limit=5.0)
            assert -np.inf < r.bound <= r.energy < np.inf
        assert gm.solve(crf).gap < 1e-6
        with pytest.raises(gm.SolverRefusal, match="solver 'exact' refuses"):
            gm.solve(crf, solver="exact")
    finally:
        del registry._entries[entry.kind, entry.name]


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"solver": "bfcw"}, gm.UnknownNameError, "no solver named 'bfcw'; did you mean 'bcfw'"),
        ({"time_limit": -1}, ValueError, r"time_limit: expected a number in \[0, inf\], got -1"),
        ({"time_limit": np.nan}, ValueError, "time_limit: expected a number, got nan"),
        ({"time_limit": "1"}, ValueError, "time_limit: expected a number, got '1'"),
        ({"max_iter": 1.5}, ValueError, "max_iter: expected a whole number, got 1.5"),
        ({"max_iter": -1}, ValueError, r"max_iter: expected a number in \[0, inf\]"),
        ({"tol": -1e-3}, ValueError, "tol: expected a number"),
        ({"initial": [0, 0, 5]}, ValueError, r"variable 2 has states 0\.\.1, got 5"),
        ({"initial": [0, 0]}, ValueError, r"expected shape \(3,\), got \(2,\)"),
        ({"weights": {"s": 1}}, ValueError, "the model has no weight segment 's'"),
        (
            {"solver": "trws", "step": "level"},
            TypeError,
            "solver 'trws' has no setting 'step'; it has none",
        ),
        (
            {"solver": "dual-subgradient", "stpe": "level"},
            TypeError,
            r"no setting 'stpe'; it has \['step', 'step_size', 'target'\]",
        ),
        (
            {"solver": "dual-subgradient", "step": "fast"},
            ValueError,
            "step: expected one of 'level'",
        ),
        (
            {"solver": "dual-subgradient", "step": "polyak"},
            ValueError,
            "step: 'polyak' needs target=",
        ),
        (
            {"solver": "bcfw", "decomposition": "chian"},
            gm.UnknownNameError,
            "did you mean 'chains'",
        ),
        ({"solver": "tree"}, gm.SolverRefusal, "solver 'tree' refuses .* not a pairwise forest"),
    ],
)
def test_solve_refuses(options, error, message):
    with pytest.raises(error, match=message):
        gm.solve(frustrated_cycle(), **options)


def test_only_models_can_be_solved():
    with pytest.raises(TypeError, match=r"crf: expected a gmlearn.CRF, got ndarray"):
        gm.solve(np.zeros((3, 2)))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"solver": 5}, "solver: "),
        ({"solver": "tabu", "seed": -7}, "seed: "),
        ({"solver": "tabu", "seed": "x"}, "seed: "),
        ({"initial": [0, 0, 5]}, "^initial: "),
    ],
)
def test_solve_names_the_argument(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        gm.solve(frustrated_cycle(), **options)


@pytest.mark.parametrize("options", [{"reach": -1.0}, {"passes": 0}])
def test_bcfw_refuses_bad_settings(options):
    with pytest.raises(ValueError, match=r"reach|passes"):
        gm.solve(frustrated_cycle(), solver="bcfw", **options)


def test_large_models_are_refused_by_enumeration_with_the_number():
    with pytest.raises(
        gm.SolverRefusal, match=r"solver 'brute-force' refuses .* 1.1e\+12 labellings > 2000000"
    ):
        gm.solve(gm.CRF(40, 2), solver="brute-force")
    with pytest.raises(gm.SolverRefusal, match="the model has no edges, use 'icm'"):
        gm.solve(gm.CRF(4, 2), solver="chain-icm")


def test_a_result_shows_itself():
    r = gm.solve(frustrated_cycle(), solver="exact")
    assert "status='optimal'" in repr(r) and "lower bound" in r._repr_html_()
    d = r.as_dict()
    assert (
        set(d) >= {"energy", "bound", "gap", "status", "solver", "seconds", "labels"}
        and d["labels"] == r.labels.tolist()
    )


def test_costs_near_the_largest_number_are_refused():
    """Their sums overflow, and max-flow with an infinite capacity never ends."""
    with pytest.raises(ValueError, match=r"Potts.contrast: contains a number beyond 1e\+100"):
        gm.Potts([[0, 1], [1, 2]], [1e308, 1e308])
    crf = gm.CRF(3, 2).add_unary([[0.0, 1.0], [1.0, 0.0], [0.0, 2.0]])
    crf.add(gm.Potts([[0, 1], [1, 2]], [1e100, 1e100]))
    assert gm.solve(crf).energy == pytest.approx(1.0)
