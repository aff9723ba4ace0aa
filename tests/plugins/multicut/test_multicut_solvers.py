"""Signed graphs: partitions and bounds against enumeration, cycles, slaves, the estimator."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from gmlearn_multicut import (
    CycleGroup,
    EdgeGraph,
    Multicut,
    greedy_contraction,
    kernighan_lin,
    multicut_model,
)
from gmlearn_multicut.primal import at_most
from gmlearn_multicut.relaxation import CycleRelaxation, packing_bound, violated_cycles
from gmlearn_multicut.slaves import CycleDecomposition, MulticutSlaves, short_cycles

import gmlearn as gm


def partitions(n, labels=()):
    """All partitions of n nodes, as restricted growth strings."""
    if len(labels) == n:
        yield np.array(labels)
        return
    for c in range(max(labels, default=-1) + 2):
        yield from partitions(n, (*labels, c))


def random_graph(seed, n=6, share=0.7):
    rng = np.random.default_rng(seed)
    edges = np.stack(np.triu_indices(n, 1), axis=1)
    edges = edges[rng.random(len(edges)) < share]
    return EdgeGraph.of(n, edges, rng.normal(size=len(edges)))


def planted(seed, n=40, share=0.3, noise=0.8):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 4, n)
    edges = np.stack(np.triu_indices(n, 1), axis=1)
    edges = edges[rng.random(len(edges)) < share]
    same = truth[edges[:, 0]] == truth[edges[:, 1]]
    cost = np.where(same, 1.0, -1.0) + noise * rng.normal(size=len(edges))
    return EdgeGraph.of(n, edges, cost), truth


@pytest.mark.parametrize("seed", range(12))
def test_bounds_and_partitions_by_enumeration(seed):
    graph = random_graph(seed)
    best = min(graph.energy(labels) for labels in partitions(6))
    start = greedy_contraction(graph)
    better = kernighan_lin(graph, start)
    assert best - 1e-9 <= graph.energy(better) <= graph.energy(start) + 1e-9
    assert packing_bound(graph) <= best + 1e-9
    crf = multicut_model(6, graph.edges, graph.cost)
    result = gm.solve(crf)
    assert result.reason.startswith("multicut") and result.status == gm.Status.OPTIMAL
    np.testing.assert_allclose(result.energy, best, atol=1e-9)
    for name in ("gaec", "kernighan-lin"):
        other = gm.solve(crf, solver=name)
        assert other.bound <= best + 1e-9 <= other.energy + 2e-9
    dual = gm.solve(crf, solver="bcfw", max_iter=200)
    assert dual.bound <= best + 1e-9


def test_few_labels_are_respected():
    graph = random_graph(3, n=5, share=1.0)
    repulsive = -np.abs(graph.cost)
    crf = multicut_model(5, graph.edges, repulsive, n_labels=2)
    result = gm.solve(crf)
    best = gm.solve(crf, solver="brute-force").energy
    assert result.labels.max() <= 1
    assert result.bound <= best + 1e-9 <= result.energy + 2e-9
    assert len(np.unique(at_most(graph, np.arange(5), 3))) == 3


def test_kernighan_lin_never_raises_the_energy_and_can_split():
    graph, truth = planted(0)
    together = np.zeros(len(truth), np.int64)
    found = kernighan_lin(graph, together)
    assert graph.energy(found) < graph.energy(together) == 0.0
    apart = kernighan_lin(graph, np.arange(len(truth)))
    assert graph.energy(apart) <= graph.energy(np.arange(len(truth)))


def test_violated_cycles_are_violated_and_valid():
    graph, _ = planted(1)
    relaxation = CycleRelaxation(graph)
    y = relaxation.y
    rows = violated_cycles(graph, y)
    assert rows.shape[0] > 0
    assert (rows @ y > 1e-6).all()
    rng = np.random.default_rng(0)
    for _ in range(50):  # partitions keep every cycle inequality
        cut = graph.cut(rng.integers(0, 3, graph.n_nodes)).astype(float)
        assert (rows @ cut <= 0.0).all()


def test_relaxation_bound_rises_with_cuts():
    graph, _ = planted(2)
    relaxation = CycleRelaxation(graph)
    bounds = [relaxation.bound]
    while relaxation.separate():
        assert relaxation.solve()
        bounds.append(relaxation.bound)
    assert bounds == sorted(bounds) and bounds[-1] > bounds[0]
    assert bounds[-1] >= packing_bound(graph) - 1e-6
    found = kernighan_lin(graph, greedy_contraction(graph))
    assert bounds[-1] <= graph.energy(found) + 1e-9


def test_cycle_slaves_by_enumeration():
    rng = np.random.default_rng(0)
    sizes = np.array([3, 1, 4, 5])
    group = CycleGroup(rng.integers(0, 9, sizes.sum()), sizes)
    for _ in range(50):
        theta = np.round(rng.normal(size=sizes.sum()) + 0.5, 1)
        result = group.solve(theta, None)
        for m, size in enumerate(sizes):
            mine = slice(group.first[m], group.first[m] + size)
            points = np.array(np.meshgrid(*[[0, 1]] * size)).reshape(size, -1).T
            feasible = points[(points.sum(axis=1) != 1) | (size == 1)]
            assert result.value[m] == pytest.approx((feasible @ theta[mine]).min())
            y = result.ind[mine]
            assert y @ theta[mine] == pytest.approx(result.value[m])
            assert size == 1 or y.sum() != 1


def test_short_cycles_cover_every_edge():
    square = np.array([[0, 1], [1, 2], [2, 3], [0, 3], [3, 4]])
    group = short_cycles(EdgeGraph.of(5, square, np.ones(5)))
    assert sorted(group.edges_of) == [1, 4]
    assert sorted(group.coords) == list(range(5))
    complete = random_graph(0, n=7, share=1.0)
    assert len(short_cycles(complete).edges_of) == 35


def test_slaves_add_up_to_the_energy_of_partitions():
    crf = multicut_model(5, [[0, 1], [1, 2], [0, 2], [2, 3], [1, 0]], features=np.eye(5)[:, :3])
    slaves = MulticutSlaves(crf)
    w = {"edge": np.array([1.0, -2.0, 0.5])}
    for labels in partitions(5):
        cut = slaves.indicators(labels)
        assert slaves.unary(w) @ cut == pytest.approx(crf.energy(labels, w))
        np.testing.assert_allclose(slaves.unary_features(cut)["edge"], crf.features(labels)["edge"])


@pytest.mark.parametrize("seed", range(4))
def test_cycles_that_are_cut_once_come_in_during_the_ascent(seed):
    """The bound of short cycles ends below that of all cycle inequalities; later ones reach it."""
    rng = np.random.default_rng(seed)
    edges = np.unique(np.sort(rng.integers(0, 60, (90, 2)), axis=1), axis=0)
    edges = edges[edges[:, 0] < edges[:, 1]]
    crf = multicut_model(60, edges, rng.normal(size=len(edges)), n_labels=8)
    graph = EdgeGraph.of(60, edges, np.asarray(crf.clique_blocks[0].strength({})))
    relaxation = CycleRelaxation(graph)
    while relaxation.separate():
        assert relaxation.solve()
    still = gm.solve(crf, solver="bcfw", decomposition=ShortCycles(), max_iter=100)
    grown = gm.solve(crf, solver="bcfw", decomposition="cycles", max_iter=100)
    assert still.bound < relaxation.bound - 0.1
    assert grown.bound == pytest.approx(relaxation.bound, abs=1e-3)
    assert np.diff(grown.history.bound).min() >= 0.0 and grown.iterations < 60


class ShortCycles(CycleDecomposition):
    """The short cycles alone."""

    def decompose(self, crf, power=None):
        slaves = super().decompose(crf, power)
        slaves.grow = lambda mean, theta: None
        return slaves


@pytest.mark.parametrize("solver", ["multicut", "kernighan-lin", "gaec"])
def test_estimator_finds_planted_clusters(solver):
    graph, truth = planted(0, share=0.7, noise=0.3)
    dense = np.zeros((40, 40))
    dense[graph.edges[:, 0], graph.edges[:, 1]] = graph.cost
    found = Multicut(solver).fit(dense + dense.T)
    same = truth[:, None] == truth
    assert np.array_equal(found.labels_[:, None] == found.labels_, same)
    assert found.n_clusters_ == 4
    assert found.lower_bound_ <= found.energy_ + 1e-9
    assert graph.energy(found.labels_) == pytest.approx(found.energy_)
    sparse = Multicut(solver).fit(scipy.sparse.csr_array(dense + dense.T))
    assert np.array_equal(sparse.labels_, found.labels_)
    listed = Multicut(solver).fit(graph.cost, edges=graph.edges)
    assert np.array_equal(listed.labels_, found.labels_)


@pytest.mark.parametrize("seed", range(8))
def test_edges_that_may_not_be_cut(seed):
    """Costs of +inf, one of which joins a pair twice, against enumeration."""
    graph = random_graph(seed)
    cost = graph.cost.copy()
    cost[:2] = np.inf
    edges = np.concatenate([graph.edges, graph.edges[:1], [[7, 7]]])
    cost = np.append(cost, [-3.0, 1.0])
    whole = [p[edges[:, 0] % 7] != p[edges[:, 1] % 7] for p in partitions(7)]
    best = min(cost[cut].sum() for cut in whole)
    found = Multicut().fit(cost, edges=edges)
    assert found.energy_ == pytest.approx(best) == pytest.approx(found.lower_bound_)
    cut = found.labels_[edges[:, 0]] != found.labels_[edges[:, 1]]
    assert len(found.labels_) == 8 and cost[cut].sum() == pytest.approx(best)
    with pytest.raises(ValueError, match="X"):
        Multicut().fit(-cost, edges=edges)


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match="X"):
        Multicut().fit(np.ones((2, 3)))
    with pytest.raises(ValueError, match="solver"):
        Multicut("best").fit(np.eye(3))
    with pytest.raises(ValueError, match="edges"):
        Multicut().fit(np.ones(1), edges=[[-1, 2]])
    with pytest.raises(ValueError, match="costs, features"):
        multicut_model(3, [[0, 1]])
    crf = multicut_model(3, [[0, 1], [1, 2]], [1.0, 2.0]).add_unary(np.ones((3, 3)))
    with pytest.raises(ValueError, match="unary"):
        gm.solve(crf, solver="gaec")
    assert not gm.solve(crf).reason.startswith("multicut")


def test_graphs_without_edges_and_loops():
    assert Multicut().fit(np.zeros((3, 3))).energy_ == 0.0
    graph = EdgeGraph.of(3, np.array([[0, 0], [1, 0], [0, 1]]), np.array([5.0, 1.0, -3.0]))
    assert graph.edges.tolist() == [[0, 1]] and graph.cost.tolist() == [-2.0]
