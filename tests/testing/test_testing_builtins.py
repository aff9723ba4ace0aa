"""The kit over everything that gmlearn itself registers, over its slave groups, and over
gmlearn_highorder.
"""

import numpy as np
import pytest

import gmlearn as gm
from gmlearn.testing import (
    GroupCase,
    loopback,
    parametrize_with_checks,
    run_checks,
    solvers_of,
    things_of,
)


def ensure_registered(owner, module):
    """A plugin's hooks, also where the package was not installed with its entry point."""
    if not any(e.owner == owner for e in gm.plugins()):
        gm.register(pytest.importorskip(module), owner)


def built_in(*kinds):
    return [thing for kind in kinds for thing in things_of("core", kind)]


def with_marks(decorator):
    """The decorator with its slow parameters left to the slow runs, and what is known of the
    core marked as such.
    """
    names, parameters = decorator.mark.args
    marked = []
    for p in parameters:
        marks = [*p.marks, *([pytest.mark.slow] if is_slow(p.id) else [])]
        known = [why for part, why in KNOWN.items() if part in p.id]
        marks += [
            pytest.mark.xfail(reason=why, strict=True, raises=AssertionError) for why in known
        ]
        marked.append(pytest.param(*p.values, id=p.id, marks=marks))
    return pytest.mark.parametrize(names, marked)


#: failures of the core that are known, by part of the test's id; an entry that passes is an error:
#: remove it here
KNOWN: dict[str, str] = {}


def is_slow(name):
    """A mixed-integer program takes a tenth of a second even where brute force takes none."""
    always = (
        "check_has_examples",
        "check_bound_minimum_energy",
        "check_optimal_means_optimal",
        "check_infeasible_models_are_told",
    )
    return name.startswith("solver-exact-") and not name.endswith(always)


@with_marks(
    parametrize_with_checks(
        built_in("potential", "slave solver", "loss", "decomposition", "format")
    )
)
def test_models(thing, check):
    check(thing)


@with_marks(parametrize_with_checks(built_in("solver")))
def test_solvers(thing, check):
    check(thing)


@parametrize_with_checks(built_in("marginal method"))
def test_marginal_methods(thing, check):
    check(thing)


@parametrize_with_checks(built_in("optimizer", "trainer"))
def test_learning(thing, check):
    check(thing)


def groups():
    """Forests over several blocks with weights, free variables, edges with mixed states, joint
    cliques.
    """
    rng = np.random.default_rng(0)
    offsets = np.arange(0, 19, 3)
    edges = np.array([[0, 1], [2, 1], [3, 4], [2, 3], [5, 4]])
    blocks = [gm.Potts(edges[:3], rng.random(3), "s"), gm.Difference(edges[3:], "V")]
    forest = gm.ForestGroup(
        [b.bind(np.full(6, 3)) for b in blocks], np.array([0, 0, 1, 2, 1]), 3, offsets
    )
    yield GroupCase(forest, {"s": rng.normal(size=()), "V": rng.normal(size=3)})
    mixed = np.array([2, 3, 2, 4])
    tables = [
        np.where(
            rng.random((mixed[a], mixed[b])) < 0.2, np.inf, rng.normal(size=(mixed[a], mixed[b]))
        )
        for a, b in ((0, 1), (2, 1), (3, 2))
    ]
    table = gm.Table([[0, 1], [2, 1], [3, 2]], tables).bind(mixed)
    starts = np.concatenate([[0], np.cumsum(mixed)])
    yield GroupCase(gm.ForestGroup([table], np.array([0, 0, 1]), 2, starts), {})
    yield GroupCase(gm.FreeGroup(np.array([0, 3, 1]), starts), {})
    crf = gm.CRF(5, 2)
    crf.add(gm.LearntTable([[0, 1], [1, 2], [0, 2], [2, 3], [3, 4]], symmetric=False))
    joint = gm.decompose(crf, gm.Subgraphs([[2, 0, 1], [1, 2, 3, 4], [3, 2]]))
    yield GroupCase(joint.groups[0], {"pair": rng.normal(size=(2, 2))})


@with_marks(parametrize_with_checks(groups()))
def test_groups(thing, check):
    check(thing)


ensure_registered("highorder", "gmlearn_highorder.plugin")


@parametrize_with_checks("highorder")
def test_high_order(thing, check):
    check(thing)


def test_solvers_of_takes_the_name_of_the_package_too():
    assert solvers_of("gmlearn_highorder") == solvers_of("highorder")


@pytest.mark.parametrize(
    "name", ["potts-edge", "pairwise-edge", "table", "per-clique", "trws", "hamming", "npz"]
)
def test_the_built_ins_pass_through_the_plugin_door(name):
    direct = run_checks(name)
    with loopback():
        through = run_checks(name)
    assert through == direct
