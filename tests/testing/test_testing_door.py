"""The kit's doors: by name, by owner, as a decorator, through loopback; known failures;
messages.
"""

import subprocess
import sys

import numpy as np
import pytest

import gmlearn as gm
from gmlearn.registry import registry
from gmlearn.testing import (
    check,
    checks_for,
    checks_of,
    loopback,
    parametrize_with_checks,
    run_checks,
    solvers_of,
    things_of,
)

KINDS = [
    "slave solver",
    "slave group",
    "potential",
    "loss",
    "decomposition",
    "solver",
    "marginal method",
    "format",
    "experiment",
    "optimizer",
    "trainer",
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_documented_checks(kind):
    found = checks_of(kind)
    assert found and len({c.name for c in found}) == len(found)
    assert all(c.function.__doc__ for c in found)


def test_kinds_of_the_registry_all_have_checks():
    from gmlearn.registry import KINDS as registered

    assert set(registered) <= set(KINDS)


def test_unknown_kinds_and_things():
    with pytest.raises(ValueError, match=r"kind: expected one of .*'nonsense'"):
        checks_of("nonsense")
    with pytest.raises(
        TypeError, match=r"thing: expected a class derived from one of gmlearn.Block, .* got 3"
    ):
        check(3)
    with pytest.raises(ValueError, match="did you mean 'potts'"):
        run_checks("pots")
    with pytest.raises(
        ValueError, match=r"owner: no plugin 'nobody' has registered anything; owners: .*core"
    ):
        solvers_of("nobody")


def test_optional_powers_are_checked_only_where_claimed():
    class Plain(gm.SlaveSolver):
        name = "plain"

        def minimise(self, block, theta, w):
            return theta.argmin(axis=2), theta.min(axis=2).sum(axis=1)

    assert not any(c.needs for c in checks_for(Plain()))
    enumeration = next(s for s in solvers_of("core") if s.name == "enumeration")
    assert {c.needs for c in checks_for(enumeration)} >= {"min_marginals", "log_partition"}


def test_run_checks_by_name_and_by_owner():
    rows = run_checks("potts")
    assert {row[0] for row in rows} == {"potential potts"} and all(ok for _, _, ok, _ in rows)
    assert {row[1] for row in rows} == {c.name for c in checks_of("potential")}
    assert {s.name for s in solvers_of("core")} == {
        "potts-edge",
        "pairwise-edge",
        "table",
        "enumeration",
    }
    assert gm.Potts in things_of("core", "potential")


class WrongLoss(gm.Hamming):
    name = "wrong"

    def constant(self, crf, truth, observed):
        return 1.0


class KnownWrong(WrongLoss):
    known_failures = {
        "check_augmented_energy_is_energy_minus_delta": "off by one, see the notes",
        "check_loss_augmented_minimum": "off by one, see the notes",
    }


class PassesAfterAll(gm.Hamming):
    known_failures = {"check_zero_at_the_truth": "was wrong once"}


def test_the_message_has_check_thing_and_numbers():
    with pytest.raises(
        AssertionError,
        match=r"check_augmented_energy_is_energy_minus_delta failed for the loss 'wrong' \(seed 0, "
        r"example 0: CRF.*augmented energy at \[.*\], truth \[.*\]: [-\d.]+, expected",
    ):
        check(WrongLoss)
    assert (
        next(row for row in run_checks(WrongLoss) if not row[2])[1]
        == "check_augmented_energy_is_energy_minus_delta"
    )


def test_known_failures_are_told_not_hidden():
    with pytest.warns(
        gm.testing.KnownFailureWarning,
        match="check_loss_augmented_minimum: known failure: off by one",
    ):
        check(KnownWrong)
    messages = {row[1]: row for row in run_checks(KnownWrong)}
    assert messages["check_loss_augmented_minimum"][2:] == (
        True,
        "known failure: off by one, see the notes",
    )


def test_a_known_failure_that_passes_is_an_error():
    with pytest.raises(
        AssertionError,
        match="check_zero_at_the_truth passes for 'hamming', but is listed in known_failures",
    ):
        check(PassesAfterAll)


def test_a_misspelt_known_failure_is_an_error():
    class Misspelt(gm.Hamming):
        known_failures = {"check_zero": "?"}

    with pytest.raises(ValueError, match="no check is named 'check_zero'"):
        checks_for(Misspelt)


def test_what_does_not_apply_is_told():
    row = next(r for r in run_checks("wcsp") if r[1] == "check_round_trip_keeps_energies")
    assert row[2:] == (True, "not applicable: the format is only read")


def test_a_solver_whose_package_is_missing_is_told_not_failed():
    class Missing(gm.MapSolver):
        name = "missing"

        def refuses(self, crf):
            return "needs the package nowhere"

        def run(self, problem):
            raise AssertionError("not reached")

    rows = run_checks(Missing())
    assert {row[1] for row in rows} == {c.name for c in checks_of("solver")}
    assert all(ok and message.startswith("not applicable: ") for _, _, ok, message in rows)


def test_importing_the_kit_needs_no_test_packages():
    heavy = "('pytest', 'hypothesis', 'numba', 'sklearn', 'matplotlib', 'cvxpy')"
    code = f"import sys, gmlearn.testing; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_crash_is_a_failure():
    class Crashes(gm.Hamming):
        def value(self, crf, x, truth, observed):
            raise KeyError("oops")

    with pytest.raises(AssertionError, match="KeyError: 'oops'"):
        check(Crashes)


def test_the_decorator_makes_one_test_for_each_check():
    mark = parametrize_with_checks([gm.Hamming, KnownWrong]).mark
    names, parameters = mark.args
    assert names == ("thing", "check")
    assert len(parameters) == 2 * len(checks_of("loss"))
    assert parameters[0].id == "loss-hamming-check_has_examples"
    expected = [p for p in parameters if p.marks]
    assert {p.id for p in expected} == {f"loss-wrong-{name}" for name in KnownWrong.known_failures}
    assert all(m.name == "xfail" and m.kwargs["strict"] for p in expected for m in p.marks)


@parametrize_with_checks([gm.Hamming, KnownWrong, "wcsp"])
def test_the_decorator_in_use(thing, check):
    check(thing)


# ---------------------------------------------------------------------- loopback


def test_loopback_makes_the_built_ins_foreign():
    before = {(e.kind, e.name, e.owner) for e in gm.plugins()}
    core = {(kind, name) for kind, name, owner in before if owner == "core"}
    with loopback("stranger") as inside:
        assert inside is registry
        now = {(e.kind, e.name, e.owner) for e in gm.plugins()}
        assert {owner for _, _, owner in now} == {"stranger"} and {
            (kind, name) for kind, name, _ in now
        } == core
        crf, w = gm.testing.random_crf(np.random.default_rng(0), n_triples=2, hard=0.1)
        assert gm.solve(crf, w).energy == pytest.approx(gm.testing.brute_force(crf, w)[1])
        assert all(ok for _, _, ok, _ in run_checks("potts-edge"))
        with pytest.raises(gm.PluginError, match="'stranger' and by 'script'"):
            gm.register(gm.Potts)
    assert {(e.kind, e.name, e.owner) for e in gm.plugins()} == before


def test_loopback_restores_after_an_error():
    before = list(gm.plugins())
    with pytest.raises(RuntimeError), loopback():
        raise RuntimeError
    assert list(gm.plugins()) == before


# ---------------------------------------------------------------------- generators


def test_brute_force_is_the_minimum_over_all_labellings():
    crf, w = gm.testing.random_crf(np.random.default_rng(3), n_vars=4, n_triples=2, hard=0.3)
    all_labels = np.indices(tuple(crf.n_states)).reshape(4, -1).T
    energies = [crf.energy(x, w) for x in all_labels]
    labels, minimum = gm.testing.brute_force(crf, w)
    assert minimum == pytest.approx(min(energies)) and crf.energy(labels, w) == pytest.approx(
        minimum
    )


def test_random_models_are_feasible_and_repeatable():
    for seed in range(5):
        crf, w = gm.testing.random_crf(np.random.default_rng(seed), n_triples=2, hard=0.5)
        again, _ = gm.testing.random_crf(np.random.default_rng(seed), n_triples=2, hard=0.5)
        assert np.isfinite(crf.energy(np.zeros(crf.n_vars, int), w))
        assert np.array_equal(crf.unary, again.unary)
    with pytest.raises(ValueError, match="learnt: needs one number of states"):
        gm.testing.random_crf(np.random.default_rng(0), learnt=True)


def test_too_many_states_are_not_enumerated():
    with pytest.raises(gm.testing.NotApplicable, match="too many to enumerate"):
        gm.testing.brute_force(gm.CRF(40, 2))
