"""The master: valid bounds in every round, multipliers that sum to zero, step rules, agreement."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from core_cases import KINDS, frustrated_cycle, impossible_model, labellings, minimum, random_model

import gmlearn as gm
from gmlearn.master import (
    Constant,
    Diminishing,
    Level,
    Polyak,
    StepRule,
    ascend_bcfw,
    ascend_subgradient,
    make_step_rule,
)
from gmlearn.master.mplp import ascend_mplp, with_variable_slaves

RULES = {
    "level": lambda best: Level(),
    "diminishing": lambda best: Diminishing(0.5),
    "constant": lambda best: Constant(0.05),
    "polyak": lambda best: Polyak(best),
}
COVERS = ("per-clique", "chains", "trees")


def zero_sum(dual):
    return np.abs(np.bincount(dual.coords, dual.lam, dual.slaves.n_coords)).max()


def rounds(method, crf, w, cover, best, n):
    """(dual, iterator of at most n rounds)."""
    if method == "mplp":
        dual = gm.Dual(with_variable_slaves(gm.decompose(crf, "per-clique", "min_marginals")), w)
        return dual, itertools.islice(ascend_mplp(dual, w), n)
    dual = gm.Dual(gm.decompose(crf, cover), w)
    if method == "bcfw":
        return dual, itertools.islice(ascend_bcfw(dual), n)
    rule = RULES[method](best if np.isfinite(best) else 0.0)
    return dual, itertools.islice(ascend_subgradient(dual, rule), n)


@pytest.mark.parametrize("method", ["bcfw", "mplp", *RULES])
@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_never_exceeds_the_minimum_and_multipliers_sum_to_zero(method, kind):
    for seed, cover in enumerate(COVERS):
        crf, w = random_model(np.random.default_rng(seed), kind)
        w = crf.check_weights(w)
        best = minimum(crf, w)[0]
        dual, run = rounds(method, crf, w, cover, best, 25)
        count = 0
        for current in run:
            count += 1
            assert current.bound <= best + 1e-9 or best == np.inf
            assert zero_sum(dual) < 1e-9
            assert np.allclose(dual.mean(current.ind), current.mean)
            sums = np.add.reduceat(current.mean, crf.offsets[:-1])
            assert np.allclose(sums, 1.0), "every slave chooses one label of each variable"
            if current.disagreement == 0.0 and np.isfinite(best):
                (labels,) = dual.slaves.proposals(current.results, current.mean)
                assert crf.energy(labels, w) == pytest.approx(current.bound), (
                    "agreement is a certificate"
                )
        assert count >= 1


@pytest.mark.parametrize("kind", ["pairwise", "mixed", "high-order", "constant"])
def test_mplp_never_lowers_the_bound(kind):
    crf, w = random_model(np.random.default_rng(1), kind)
    w = crf.check_weights(w)
    _, run = rounds("mplp", crf, w, None, None, 30)
    bounds = [r.bound for r in run]
    assert (np.diff(bounds) >= -1e-9).all() and bounds[-1] > bounds[0]


@pytest.mark.parametrize("cover", COVERS)
def test_the_dual_is_concave_along_any_multipliers(cover):
    rng = np.random.default_rng(0)
    crf, w = random_model(rng, "pairwise")
    dual = gm.Dual(gm.decompose(crf, cover), crf.check_weights(w))
    best = minimum(crf, w)[0]
    for _ in range(20):
        a, b = (dual.centred(rng.normal(size=len(dual.coords))) for _ in range(2))
        ra, rb = dual.round(a), dual.round(b)
        assert ra.bound <= best + 1e-9 and rb.bound <= best + 1e-9
        # the indicators are a supergradient
        assert rb.bound <= ra.bound + ra.ind @ (b - a) + 1e-9
        assert dual.round((a + b) / 2).bound >= (ra.bound + rb.bound) / 2 - 1e-9


def test_centring_is_the_projection():
    dual = gm.Dual(gm.decompose(frustrated_cycle(), "per-clique"), {})
    rng = np.random.default_rng(0)
    v = rng.normal(size=len(dual.coords))
    c = dual.centred(v)
    assert np.allclose(dual.mean(c), 0.0) and np.allclose(dual.centred(c), c)
    other = dual.centred(rng.normal(size=len(v)))
    assert (v - c) @ other == pytest.approx(0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_reduced_costs_bound_every_labelling_that_has_the_label(kind):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        crf, w = random_model(rng, kind)
        w = crf.check_weights(w)
        dual = gm.Dual(gm.decompose(crf, "chains", "min_marginals"), w)
        dual.lam = dual.centred(0.3 * rng.normal(size=len(dual.coords)))
        bound, reduced = dual.reduced_costs()
        assert bound == dual.round().bound and (reduced >= -1e-9).all()
        low = bound + reduced
        for x in labellings(crf):
            energy = crf.energy(x, w)
            assert energy == np.inf or (low[crf.offsets[:-1] + x] <= energy + 1e-9).all()


def test_moving_to_other_weights_keeps_the_multipliers():
    rng = np.random.default_rng(0)
    crf, w = random_model(rng, "constant")
    w = crf.check_weights(w)
    dual = gm.Dual(gm.decompose(crf, "chains"), w)
    dual.lam = dual.centred(rng.normal(size=len(dual.coords)))
    other = {k: v + 1.0 for k, v in w.items()}
    dual.set_weights(other)
    assert dual.round().bound == gm.Dual(dual.slaves, other, dual.lam).round().bound


def test_an_infeasible_slave_says_so_at_once():
    crf = gm.CRF(2, 2)
    crf.add(gm.Table([[0, 1]], np.full((2, 2), np.inf)))
    for method in ("bcfw", "mplp", "level"):
        _, run = rounds(method, crf, {}, "per-clique", 0.0, 5)
        assert next(iter(run)).bound == np.inf
    dual = gm.Dual(gm.decompose(crf, "per-clique"), {})
    assert dual.reduced_costs()[0] == np.inf


def test_locally_consistent_infeasible_models_do_not_break_the_masters():
    crf = impossible_model()
    for method in ("bcfw", "mplp", "level"):
        _, run = rounds(method, crf, {}, "per-clique", 0.0, 10)
        assert all(not np.isnan(r.bound) for r in run)


# ---------------------------------------------------------------------- step rules


def test_step_sizes_by_formula():
    assert Constant(0.3).step(0, 0, 4.0, 17) == 0.3
    assert [Diminishing(2.0).step(0, 0, 4.0, t) for t in (0, 3, 8)] == pytest.approx(
        [2.0, 1.0, 2 / 3]
    )
    assert Polyak(5.0).step(3.0, 4.0, 4.0, 0) == 0.5
    assert Polyak(5.0, 0.5).step(3.0, 4.0, 4.0, 0) == 0.25
    assert Polyak(5.0).step(6.0, 6.0, 4.0, 0) == 0.0
    assert Polyak(5.0).step(3.0, 4.0, 0.0, 0) > 0


def test_the_level_sinks_after_failures_and_rises_with_success():
    level = Level(delta=1.0, patience=2)
    first = level.step(0.0, 0.0, 1.0, 0)
    assert level.delta == pytest.approx(1.3) and first == pytest.approx(1.3)
    level.step(-1.0, 0.0, 1.0, 1)
    assert level.delta == pytest.approx(1.3)
    assert level.step(-1.0, 0.0, 1.0, 2) == pytest.approx(1.3 * 0.6 + 1.0)
    level.step(5.0, 5.0, 1.0, 3)
    assert level.delta == pytest.approx(1.3 * 0.6 * 1.3)


@pytest.mark.parametrize("rule", sorted(RULES))
def test_every_rule_raises_the_bound_of_a_tight_model(rule):
    rng = np.random.default_rng(0)
    crf = gm.CRF(9, 2).add_unary(rng.normal(size=(9, 2)))
    crf.add(gm.Potts(gm.grid_edges(3, 3), 0.4))
    best = minimum(crf)[0]
    settings = {"target": best} if rule == "polyak" else {}
    size = {"constant": 0.02, "diminishing": 0.3}.get(rule)
    r = gm.solve(
        crf, solver="dual-subgradient", step=rule, step_size=size, max_iter=400, **settings
    )
    start = gm.Dual(gm.decompose(crf), {}).round().bound
    assert r.energy == pytest.approx(best) and best - r.bound < 0.1 * (best - start)


def test_rules_by_name():
    assert isinstance(make_step_rule("level"), Level) and isinstance(
        make_step_rule("constant", 0.5), Constant
    )
    assert make_step_rule("constant", 0.5).size == 0.5 and isinstance(
        make_step_rule("diminishing"), Diminishing
    )
    assert make_step_rule("polyak", target=3.0).target == 3.0
    mine = Constant(0.1)
    assert make_step_rule(mine) is mine
    with pytest.raises(
        ValueError,
        match="step: expected one of 'level', 'diminishing', 'constant', 'polyak', got 'fast'",
    ):
        make_step_rule("fast")
    with pytest.raises(ValueError, match=r"step_size: expected a number in \(0, inf\), got -1"):
        make_step_rule("constant", -1)
    with pytest.raises(ValueError, match="step: 'polyak' needs target="):
        make_step_rule("polyak")
    with pytest.raises(TypeError, match="a step rule must define step"):
        StepRule().step(0, 0, 0, 0)


def test_a_bad_target_is_refused():
    with pytest.raises(ValueError, match="target: expected a number, got 'x'"):
        make_step_rule("polyak", target="x")


def test_mplp_wants_one_slave_per_clique():
    with pytest.raises(
        ValueError, match="MPLP works with one slave per clique, decomposition='per-clique'"
    ):
        gm.solve(frustrated_cycle(), solver="mplp", decomposition="trees")


def test_the_subgradient_master_ends_when_all_slaves_agree():
    crf = gm.CRF(3, 2).add_unary([[0, 9], [0, 9], [0, 9]])
    crf.add(gm.Potts([[0, 1], [1, 2], [0, 2]], 1.0))
    dual = gm.Dual(gm.decompose(crf, "per-clique"), {})
    assert len(list(itertools.islice(ascend_subgradient(dual, Constant(0.1)), 100))) == 1
    assert (
        len(list(itertools.islice(ascend_bcfw(gm.Dual(gm.decompose(crf, "per-clique"), {})), 100)))
        <= 2
    )


@pytest.mark.parametrize("seed", range(3))
def test_bcfw_does_not_get_stuck_where_its_steps_become_tiny(seed):
    """Without more passes for each proximal step it stays about 1e-3 below the bound of the
    linear program.
    """
    rng = np.random.default_rng(seed)
    crf = gm.CRF(60, 3).add_unary(rng.normal(size=(60, 3)))
    crf.add(
        gm.Table(
            np.array([rng.choice(60, 3, replace=False) for _ in range(72)]),
            4 * rng.normal(size=(72, 3, 3, 3)),
        )
    )
    dual = gm.Dual(gm.decompose(crf, "per-clique"), {})
    best = max(current.bound for current in itertools.islice(ascend_bcfw(dual, passes=1), 600))
    optimum = gm.solve(crf, solver="lp").bound
    assert optimum - 4e-4 * abs(optimum) < best <= optimum + 1e-6
