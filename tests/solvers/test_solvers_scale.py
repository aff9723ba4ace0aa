"""Costs in another unit: every solver gives the same answer in that unit."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from core_cases import minimum

import gmlearn as gm
from gmlearn.registry import registry
from gmlearn.solvers import auto

SOLVERS = sorted(e.name for e in registry.entries("solver") if e.owner == "core")
#: solvers whose path depends on rounding, so that another unit may end at another valid answer
ROUNDING_DECIDES = {
    "tabu": "rounding changes which random moves are taken",
    "mplp": "ties between labels are broken by rounding when it decodes",
    "dual-subgradient": "its minimisers tie, and rounding decides between them",
}
UNITS = [10.0**k for k in (-15, -13, -7, -3, 3, 6, 12)]


def model(kind, unit=1.0):
    """A small model whose costs are all multiplied by `unit`."""
    rng = np.random.default_rng(5)
    if kind == "triangle":  # frustrated, in whole units
        crf = gm.CRF(3, 2)
        crf.add(gm.Table([[0, 1], [1, 2], [0, 2]], unit * np.eye(2)))
        crf.add(gm.Table([[0]], unit * np.array([0.0, 1.0])))
        return crf
    size = 2 if kind == "submodular" else 3
    crf = gm.CRF(6, size).add_unary(unit * rng.normal(size=(6, size)))
    edges = gm.grid_edges(2, 3)
    if kind == "submodular":
        crf.add(gm.Potts(edges, unit * rng.random(len(edges))))
    elif kind == "frustrated":
        crf.add(gm.Pairwise(edges, table=unit * rng.normal(size=(len(edges), 3, 3))))
        crf.add(gm.Potts([[0, 2], [3, 5], [0, 4]], unit * rng.normal(size=3)))
    else:
        tables = rng.normal(size=(2, 3, 3, 3))
        tables[0, 0, 1] = np.inf
        crf.add(gm.Table([[0, 1, 2], [2, 3, 5]], unit * tables))
        crf.add(gm.Potts(edges, unit * rng.normal(size=len(edges))))
    return crf


KINDS = ("triangle", "submodular", "frustrated", "high-order")


def solved(kind, solver, unit):
    """The result; None where the solver refuses the model."""
    crf = model(kind, unit)
    options = {"max_iter": 30_000} if solver == "tabu" else {}
    try:
        return gm.solve(crf, solver=solver, seed=1, **options)
    except gm.SolverRefusal:
        return None


@functools.cache
def plain(kind, solver):
    return solved(kind, solver, 1.0), minimum(model(kind))[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_unit_of_the_costs_changes_nothing_else(solver, kind):
    expected, best = plain(kind, solver)
    for unit in UNITS:
        r = solved(kind, solver, unit)
        if expected is None:
            assert r is None
            continue
        assert r.bound / unit <= best + 1e-9 <= r.energy / unit + 2e-9
        if solver not in ROUNDING_DECIDES:
            assert r.status == expected.status, unit
            assert r.energy / unit == pytest.approx(expected.energy, abs=1e-6)
            assert r.bound / unit == pytest.approx(expected.bound, abs=2e-3)
        if r.status == gm.Status.OPTIMAL:
            assert r.energy / unit == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("unit", [1e-13, 1e-7, 1.0, 1e7])
def test_small_costs_are_no_false_optimum(unit):
    crf = gm.CRF(3, 2)
    crf.add(gm.Pairwise([[0, 1], [1, 2], [0, 2]], table=unit * np.eye(2)))
    for solver in ("bcfw", "trws", "lp", "auto"):
        for tol in (1e-6, 0.0):
            r = gm.solve(crf, solver=solver, tol=tol)
            assert r.bound <= unit * (1 + 1e-9)
            assert (r.status == gm.Status.OPTIMAL) == (r.bound > 0.99 * unit)


def test_nearly_submodular_is_not_submodular():
    """An edge that favours different labels by little, at a unit where that is everything."""
    from gmlearn.solvers.cuts.binary import is_submodular

    for unit in (1e-15, 1.0, 1e12):
        assert not is_submodular(unit * np.array([[1e-3], [0.0], [0.0], [0.0]]))
        assert is_submodular(unit * np.array([[0.1 + 0.2], [0.3], [0.2], [0.2]]))


# ---------------------------------------------------------------------- exactly, stage by stage


def medium_model(kind, unit):
    """A model with a gap, whose costs are all multiplied by `unit`."""
    rng = np.random.default_rng(5)
    if kind == "glass":
        edges = gm.grid_edges(6, 6)
        crf = gm.CRF(36, 2).add_unary(0.2 * unit * rng.normal(size=(36, 2)))
        crf.add(gm.Potts(edges, unit * rng.normal(size=len(edges))))
        return crf
    if kind == "whole numbers":
        edges = np.array([(a, b) for a in range(10) for b in range(a)])
        tables = unit * rng.integers(0, 6, size=(len(edges), 3, 3)).astype(float)
        crf = gm.CRF(10, 3)
        crf.add(gm.Table(edges, tables))
        return crf
    cliques = np.array([rng.permutation(12)[:3] for _ in range(14)])
    tables = rng.normal(size=(14, 3, 3, 3))
    tables[0, 0, 1] = np.inf
    crf = gm.CRF(12, 3).add_unary(unit * rng.normal(size=(12, 3)))
    crf.add(gm.Table(cliques, unit * tables))
    crf.add(gm.Potts(gm.grid_edges(3, 4), unit * rng.normal(size=17)))
    return crf


class OneStage(gm.MapSolver):
    """The ascent of ``auto``, then one of its other stages alone."""

    name = "one-stage"

    def __init__(self, stage):
        self.stage = stage

    def run(self, problem):
        state = auto.Run(problem)
        auto.STAGES[0].run(state)
        problem.work_deadline = problem.spent + 0.2
        if self.stage.suits(state):
            self.stage.run(state)


#: libraries that work with tolerances of their own
LIBRARIES = {"lp", "exact", "toulbar2", "brute-force"}


@pytest.mark.parametrize("kind", ["glass", "whole numbers", "triples"])
@pytest.mark.parametrize(
    "solver",
    [s for s in SOLVERS if s not in LIBRARIES] + [OneStage(s) for s in auto.STAGES[1:]],
    ids=lambda s: s if isinstance(s, str) else s.stage.run.__name__,
)
def test_a_power_of_two_as_unit_changes_not_even_rounding(solver, kind):
    """Multiplication by a power of two is exact, so that every comparison must come out the same:
    this finds absolute tolerances and step lengths anywhere on the way.
    """
    options = {"max_iter": 300} if solver == "tabu" else {}
    found = []
    for exponent in (0, -15, 12):
        unit = 2.0 ** round(exponent * np.log2(10.0))
        crf = medium_model(kind, unit)
        try:
            r = gm.solve(crf, solver=solver, seed=1, **options)
        except gm.SolverRefusal:
            return
        costs = r.reduced_costs / unit
        numbers = r.energy / unit, r.bound / unit, r.iterations, r.status
        found.append((numbers, r.labels.tolist(), r.persistent.tolist(), costs.tolist()))
    assert found.count(found[0]) == len(found)
