"""Max-flow against scipy and PyMaxflow, QPBO and persistent labels against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from core_cases import KINDS, labellings, minimum, numbers, random_model, some_edges
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_flow

import gmlearn as gm
from gmlearn.solvers.cuts.binary import binary_edges
from gmlearn.solvers.cuts.flow import FlowGraph
from gmlearn.solvers.cuts.qpbo import persistent_labels


def random_graph(rng, n, m):
    """Edges (m, 2), capacities both ways and of the terminals, small whole numbers."""
    first = rng.integers(0, n, m)
    edges = np.stack([first, (first + rng.integers(1, n, m)) % n], axis=1)
    return edges, *rng.integers(0, 6, (2, m)), rng.integers(-8, 9, n)


def flow_by_scipy(n, edges, forward, backward, terminal):
    """The maximum flow from node n to node n + 1."""
    out, in_ = np.flatnonzero(terminal > 0), np.flatnonzero(terminal < 0)
    tail = np.r_[edges[:, 0], edges[:, 1], np.full(len(out), n), in_]
    head = np.r_[edges[:, 1], edges[:, 0], out, np.full(len(in_), n + 1)]
    capacity = np.r_[forward, backward, terminal[out], -terminal[in_]].astype(np.int32)
    matrix = coo_array((capacity, (tail, head)), shape=(n + 2, n + 2)).tocsr()
    return maximum_flow(matrix, n, n + 1).flow_value


def cut_value(edges, forward, backward, terminal, source):
    """What a cut costs whose source side is `source`, bool (n,)."""
    a, b = source[edges[:, 0]], source[edges[:, 1]]
    inside = forward[a & ~b].sum() + backward[~a & b].sum()
    return (
        inside + terminal[(terminal > 0) & ~source].sum() - terminal[(terminal < 0) & source].sum()
    )


@pytest.mark.parametrize("n, m", [(2, 3), (6, 12), (30, 200), (300, 900)])
def test_flow_equals_scipys_and_both_sides_are_minimum_cuts(n, m):
    rng = np.random.default_rng(n)
    for _ in range(20 if n < 100 else 3):
        edges, forward, backward, terminal = random_graph(rng, n, m)
        graph = FlowGraph(n, edges, forward, terminal, backward)
        flow = graph.run()
        assert flow == flow_by_scipy(n, edges, forward, backward, terminal)
        assert not (graph.source_side & graph.sink_side).any()
        for side in (graph.source_side, ~graph.sink_side):
            assert cut_value(edges, forward, backward, terminal, side) == flow


def test_flow_goes_on_after_terminals_changed():
    rng = np.random.default_rng(0)
    edges, forward, backward, terminal = random_graph(rng, 40, 120)
    graph = FlowGraph(40, edges, forward, terminal, backward)
    graph.run()
    for _ in range(5):
        change = rng.integers(-4, 5, 40)
        terminal = terminal + change
        graph.terminal += change
        graph.run()
        fresh = FlowGraph(40, edges, forward, terminal, backward)
        assert cut_value(edges, forward, backward, terminal, graph.source_side) == fresh.run()


def test_graphs_without_edges_or_nodes():
    assert FlowGraph(0, np.zeros((0, 2), np.int64), np.zeros(0), np.zeros(0)).run() == 0
    graph = FlowGraph(3, np.zeros((0, 2), np.int64), np.zeros(0), np.array([1.0, -1.0, 0.0]))
    assert graph.run() == 0
    assert graph.source_side.tolist() == [True, False, False]
    assert graph.sink_side.tolist() == [False, True, False]


def test_maxflow_agrees_with_pymaxflow():
    pytest.importorskip("maxflow")
    rng = np.random.default_rng(1)
    crf = gm.CRF(400, 2).add_unary(rng.normal(size=(400, 2)))
    crf.add(gm.Potts(gm.grid_edges(20, 20), rng.random(760)))
    ours, theirs = (gm.solve(crf, solver=s) for s in ("maxflow", "pymaxflow"))
    assert ours.energy == pytest.approx(theirs.energy, abs=1e-9)
    assert ours.status is theirs.status is gm.Status.OPTIMAL


@pytest.mark.parametrize("coarse", [False, True])
def test_qpbo_labels_belong_to_one_optimum(coarse):
    rng = np.random.default_rng(int(coarse))
    labelled = []
    for _ in range(150):
        n = int(rng.integers(2, 9))
        edges = some_edges(rng, n, int(rng.integers(0, 14)))
        unary, costs = numbers(rng, (n, 2), coarse), numbers(rng, (4, len(edges)), coarse)
        labels = persistent_labels(unary, edges, costs)
        x = np.array(list(itertools.product((0, 1), repeat=n)))
        pair = 2 * x[:, edges[:, 0]] + x[:, edges[:, 1]]
        energy = unary[np.arange(n), x].sum(axis=1) + costs[pair, np.arange(len(edges))].sum(axis=1)
        agree = ((x == labels) | (labels < 0)).all(axis=1)
        assert energy[agree].min() == pytest.approx(energy.min(), abs=1e-9)
        labelled.append(np.mean(labels >= 0))
    assert 0.5 < np.mean(labelled) < 1.0


def repulsive_grid(side, share, seed=0):
    """A binary grid with a share of edges that want different labels."""
    rng = np.random.default_rng(seed)
    edges = gm.grid_edges(side, side)
    sign = np.where(rng.random(len(edges)) < share, -1, 1)
    crf = gm.CRF(side * side, 2).add_unary(rng.normal(size=(side * side, 2)))
    crf.add(gm.Potts(edges, 0.8 * sign * rng.random(len(edges))))
    return crf


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_auto_fixes_what_qpbo_labels_and_proves_the_rest(share):
    crf = repulsive_grid(40, share)
    r = gm.solve(crf)
    assert r.status is gm.Status.OPTIMAL and "QPBO" in r.reason and r.persistent.all()
    assert r.energy == pytest.approx(gm.solve(crf, solver="exact").energy)


def test_what_qpbo_leaves_is_a_smaller_model(monkeypatch):
    """Elimination refused, the open variables go through auto on their own."""
    from gmlearn.solvers import persistency

    crf = repulsive_grid(20, 0.5, seed=3)
    expected = gm.solve(crf)
    monkeypatch.setattr(persistency, "MAX_TABLE", 1.0)
    seen = []
    r = gm.solve(crf, on_progress=seen.append)
    assert r.energy == pytest.approx(expected.energy) and r.gap < 1e-6
    assert binary_edges(crf, {}) is not None and all(len(s.labels) == 400 for s in seen)


@pytest.mark.parametrize("solver", ["auto", "trws", "bcfw", "icm", "maxflow", "lp"])
@pytest.mark.parametrize("kind", KINDS)
def test_persistent_labels_against_enumeration(solver, kind):
    for seed in range(3):
        crf, w = random_model(np.random.default_rng(seed), kind, coarse=seed == 1)
        try:
            r = gm.solve(crf, w, solver=solver, max_iter=5)
        except gm.SolverRefusal:
            continue
        best = minimum(crf, w)[0]
        agree = [x for x in labellings(crf) if (x == r.labels)[r.persistent].all()]
        assert min(crf.energy(x, w) for x in agree) == pytest.approx(best, abs=1e-5)
        assert r.persistent.shape == (crf.n_vars,)
        assert r.status is not gm.Status.OPTIMAL or r.persistent.all()
