"""Decompositions: copies that sum to every clique, slaves that sum to the energy, and the
hierarchy of bounds.
"""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from core_cases import KINDS, frustrated_cycle, labellings, minimum, random_model, some_edges

import gmlearn as gm

NAMED = ("auto", "per-clique", "chains", "trees", "strips")


def cover(crf, name):
    return gm.decompose(
        crf, gm.Subgraphs([[0, 1, 2], [3, 1], [2, 3, 4]]) if name == "subgraphs" else name
    )


def slave_energy(slaves, x, w):
    """The sum of what all slaves pay for a labelling, unary shares included."""
    unary = slaves.unary(w)
    total = slaves.constant(w)
    ind = slaves.indicators(x)
    for group in slaves.groups:
        share = (unary / np.maximum(slaves.count, 1.0))[group.coords]
        total += np.where(ind[group.coords] > 0, share, 0.0).sum()
        on = np.flatnonzero(ind[group.coords] > 0)
        labels = on - group.ptr[:-1]  # one indicator is on in each slot
        total += group.energy(labels, w).sum()
    return total


@pytest.mark.parametrize("name", [*NAMED, "subgraphs"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_slaves_sum_to_the_energy(name, kind, seed):
    crf, w = random_model(np.random.default_rng(seed), kind)
    w = crf.check_weights(w)
    slaves = cover(crf, name)
    for x in itertools.islice(labellings(crf), 0, None, 11):
        assert slave_energy(slaves, x, w) == pytest.approx(crf.energy(x, w))
    assert (slaves.count > 0).all(), "every coordinate is held by some slave"
    assert np.array_equal(slaves.count, np.bincount(slaves.coords, minlength=slaves.n_coords))


def scopes_held(slaves):
    """The scopes of the cliques that slaves pay for, and of the shared ones."""
    blocks = [s.block for s in slaves.shared]
    for group in slaves.groups:
        blocks += getattr(group, "blocks", [getattr(group, "block", None)])
    return Counter(
        tuple(sorted(members.tolist()))
        for block in blocks
        if block is not None
        for members in np.split(block.members, block.indptr[1:-1])
    )


@pytest.mark.parametrize("name", [*NAMED, "subgraphs"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_clique_is_in_one_slave_or_shared(name, kind):
    crf, _ = random_model(np.random.default_rng(5), kind)
    wanted = Counter(
        tuple(sorted(m.tolist()))
        for b in crf.clique_blocks
        for m in np.split(b.members, b.indptr[1:-1])
    )
    assert scopes_held(cover(crf, name)) == wanted


@pytest.mark.parametrize("name", ["chains", "trees"])
@pytest.mark.parametrize("seed", range(5))
def test_trees_are_trees_and_chains_are_chains(name, seed):
    rng = np.random.default_rng(seed)
    crf = gm.CRF(12, 2)
    crf.add(gm.Potts(some_edges(rng, 12, 30)))
    crf.add(gm.Truncated(some_edges(rng, 12, 6)))  # parallel edges
    slaves = gm.decompose(crf, name)
    forest = slaves.groups[0]
    for t in range(forest.n):
        edges = forest.edges[forest.tree == t]
        slots = forest.variable[forest.tree_ptr[t] : forest.tree_ptr[t + 1]]
        assert len(slots) == len(edges) + 1 == len(np.unique(edges)), "connected, no cycle"
        if name == "chains":
            assert np.bincount(edges.ravel()).max() <= 2
            assert (np.sort(edges.max(axis=1))[:-1] == np.sort(edges.min(axis=1))[1:]).all(), (
                "variables increase along it"
            )


def test_rows_and_columns_of_a_grid():
    crf = gm.CRF(12, 2)
    crf.add(gm.Potts(gm.grid_edges(3, 4)))
    for name in ("rows-columns", "chains"):
        forest = gm.decompose(crf, name).groups[0]
        lines = {
            tuple(sorted(forest.variable[forest.tree_ptr[t] : forest.tree_ptr[t + 1]].tolist()))
            for t in range(forest.n)
        }
        rows = {tuple(range(4 * i, 4 * i + 4)) for i in range(3)}
        columns = {tuple(range(j, 12, 4)) for j in range(4)}
        assert lines == rows | columns


@pytest.mark.parametrize(
    "edges", [gm.grid_edges(3, 4, 8), gm.grid_edges(3, 4)[:-1], np.zeros((0, 2), int)]
)
def test_rows_columns_refuses_what_is_no_grid(edges):
    crf = gm.CRF(12, 2)
    crf.add(gm.Potts(edges))
    with pytest.raises(
        ValueError, match=r"'rows-columns': the edges of .* are not those of a 4-connected grid"
    ):
        gm.decompose(crf, "rows-columns")


def test_variables_without_cliques_get_a_slave():
    crf = gm.CRF([2, 3, 2]).add_unary([[1, 0], [3, 2, 1], [0, 5]])
    crf.add(gm.Potts([[0, 2]], 0.5))
    for name in NAMED:
        slaves = gm.decompose(crf, name)
        assert (slaves.count == 1).all()
        assert gm.Dual(slaves, {}).round().bound == pytest.approx(minimum(crf)[0])


def test_unknown_and_wrong_decompositions():
    crf = frustrated_cycle()
    with pytest.raises(
        gm.UnknownNameError, match="no decomposition named 'chian'; did you mean 'chains'"
    ):
        gm.decompose(crf, "chian")
    with pytest.raises(
        TypeError, match=r"decomposition: expected a name or a gmlearn.Decomposition, got int"
    ):
        gm.decompose(crf, 3)
    with pytest.raises(
        ValueError, match=r"'subgraphs': give the sets of variables, gm.Subgraphs\(sets\)"
    ):
        gm.decompose(crf, "subgraphs")


@pytest.mark.parametrize(
    "sets, message",
    [([[0, 1, 7]], "7"), ([[0, 1, -1]], "-1"), ([[0, 1, 1]], "twice"), ([[0, 1, 1.5]], "whole")],
)
def test_subgraphs_refuse_bad_sets(sets, message):
    with pytest.raises(ValueError, match=message):
        gm.decompose(frustrated_cycle(), gm.Subgraphs(sets))


def test_a_claiming_decomposition_is_what_auto_takes(monkeypatch):
    from gmlearn.registry import registry

    class Mine(gm.Decomposition):
        name = "mine"

        def claims(self, crf):
            return True

        def decompose(self, crf, power=None):
            return gm.decompose(crf, "per-clique", power)

    objects, real = registry.objects("decomposition"), type(registry).objects
    monkeypatch.setattr(
        type(registry),
        "objects",
        lambda self, kind: [*objects, Mine()] if kind == "decomposition" else real(self, kind),
    )
    assert isinstance(
        registry.get("decomposition", "auto").decompose(frustrated_cycle()).groups[0],
        gm.CliqueGroup,
    )


# ---------------------------------------------------------------------- the hierarchy of bounds


def bound(crf, decomposition, w=None, max_iter=400):
    return gm.solve(
        crf, w, solver="bcfw", decomposition=decomposition, max_iter=max_iter, tol=1e-9
    ).bound


@pytest.mark.parametrize("seed", range(3))
def test_trees_chains_and_cliques_reach_the_linear_program(seed):
    """All edge-covering trees give the local-polytope bound, whatever their size."""
    rng = np.random.default_rng(seed)
    crf = gm.CRF(6, 3).add_unary(rng.normal(size=(6, 3)))
    crf.add(gm.Potts(some_edges(rng, 6, 11), rng.normal(size=11)))
    linear = gm.solve(crf, solver="lp").bound
    for name in ("per-clique", "chains", "trees"):
        assert bound(crf, name) == pytest.approx(linear, abs=2e-3), name
        assert bound(crf, name, max_iter=100) <= linear + 1e-7, name


def test_rows_and_columns_reach_the_linear_program_of_a_grid():
    rng = np.random.default_rng(0)
    crf = gm.CRF(9, 3).add_unary(rng.normal(size=(9, 3)))
    crf.add(gm.Potts(gm.grid_edges(3, 3), rng.normal(size=12)))
    assert bound(crf, "rows-columns") == pytest.approx(gm.solve(crf, solver="lp").bound, abs=2e-3)


@pytest.mark.parametrize("n", [3, 5])
def test_larger_slaves_are_strictly_tighter_on_a_frustrated_cycle(n):
    crf = frustrated_cycle(n)
    best = minimum(crf)[0]
    whole = bound(crf, gm.Subgraphs([list(range(n))]))
    for name in ("per-clique", "chains", "trees"):
        assert bound(crf, name) < best - 0.5
    assert whole == pytest.approx(best)


def test_cells_of_a_frustrated_grid_are_tighter_than_its_edges():
    """One edge of every cell has the other sign, so that no cell can please all its edges."""
    crf = gm.CRF(9, 2).add_unary(0.02 * np.random.default_rng(3).normal(size=(9, 2)))
    crf.add(gm.Potts(gm.grid_edges(3, 3), [1.0] * 6 + [1.0, -1.0, 1.0] * 2))
    best = minimum(crf)[0]
    edges = gm.solve(crf, solver="lp").bound
    cells = bound(crf, gm.Subgraphs(gm.grid_cliques(3, 3, 2, 2)))
    assert edges < cells - 0.05 and cells <= best + 1e-9


def test_high_order_cliques_reach_their_linear_program():
    crf, w = random_model(np.random.default_rng(0), "high-order")
    assert bound(crf, "per-clique", w) == pytest.approx(
        gm.solve(crf, w, solver="lp").bound, abs=2e-3
    )


@pytest.mark.parametrize("seed", [17, 28])
def test_learnt_tables_with_mixed_states_in_larger_slaves(seed):
    rng = np.random.default_rng(seed)
    crf = gm.CRF([2, 2, 3, 2]).add_unary([rng.normal(size=n) for n in (2, 2, 3, 2)])
    crf.add(gm.LearntTable([[0, 1], [1, 2], [3, 0]], weight="p", symmetric=False))
    w = {"p": 3 * rng.normal(size=(3, 3))}
    r = gm.solve(crf, w, solver="bcfw", decomposition=gm.Subgraphs([[0, 1, 2]]))
    assert r.bound <= minimum(crf, w)[0] + 1e-9
