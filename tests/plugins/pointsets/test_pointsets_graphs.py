"""Attributed graphs: the edit distance against every match, its model, and clustering with it."""

from itertools import permutations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from gmlearn_pointsets import GraphClustering, graph_distance, make_graphs, plot_graphs
from gmlearn_pointsets.graphs import check_graph, edit_model, median_graph
from sklearn.metrics import adjusted_rand_score

import gmlearn as gm

PRICES = dict(node_cost=0.4, edge_cost=0.3)


def random_graph(rng, n):
    pairs = np.array([(i, j) for j in range(n) for i in range(j)])
    edges = pairs[rng.random(len(pairs)) < 0.6]
    return rng.normal(size=(n, 2)), edges, rng.random((len(edges), 1))


def edit_cost(G, H, partner):
    """The definition, edge by edge: partner (J,), -1 for none."""
    nodes, edges, lengths = G
    others, lines, theirs = H
    price = {tuple(sorted(e)): b for e, b in zip(lines.tolist(), theirs)}
    cost = PRICES["node_cost"] * (len(nodes) + len(others))
    cost += PRICES["edge_cost"] * (len(edges) + len(lines))
    for j in np.flatnonzero(partner >= 0):
        cost += ((nodes[j] - others[partner[j]]) ** 2).sum() - 2.0 * PRICES["node_cost"]
    for e, a in zip(edges, lengths):
        ends = tuple(sorted(partner[e].tolist()))
        if ends in price:
            cost += ((a - price[ends]) ** 2).sum() - 2.0 * PRICES["edge_cost"]
    return cost


def all_matches(n, m):
    """Every partial one-to-one match: n slots drawn from m partners and n times none."""
    options = [*range(m), *[-1] * n]
    return {match for match in permutations(options, n)}


@pytest.mark.parametrize(("n", "m", "seed"), [(3, 3, 0), (3, 4, 1), (4, 3, 2), (4, 4, 3)])
def test_distance_is_the_least_edit_cost(n, m, seed):
    rng = np.random.default_rng(seed)
    G, H = random_graph(rng, n), random_graph(rng, m)
    matches = [np.array(match) for match in all_matches(n, m)]
    costs = [edit_cost(G, H, match) for match in matches]
    found = graph_distance(G, H, **PRICES)
    assert found.optimal
    assert found.distance == pytest.approx(min(costs), abs=1e-9)
    assert edit_cost(G, H, found.partner) == pytest.approx(found.distance)
    # the model's energy is the cost of every match, and the distance is symmetric
    crf = edit_model(check_graph("G", G), check_graph("H", H), **PRICES)
    for match, cost in list(zip(matches, costs))[::7]:
        assert crf.energy(np.where(match < 0, m, match)) == pytest.approx(cost)
    assert graph_distance(H, G, **PRICES).distance == pytest.approx(found.distance)


def test_order_of_the_nodes_does_not_matter():
    rng = np.random.default_rng(4)
    nodes, edges, lengths = random_graph(rng, 9)
    number = rng.permutation(9)
    shuffled = nodes[np.argsort(number)], number[edges], lengths
    found = graph_distance((nodes, edges, lengths), shuffled, **PRICES)
    assert found.distance == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_array_equal(found.partner, number)


def test_median_graph_is_the_best_graph_for_its_matches():
    """Means at nodes and edges, and an edge exactly where that is cheaper."""
    rng = np.random.default_rng(5)
    graphs = [check_graph("g", random_graph(rng, 5)) for _ in range(5)]
    partners = [rng.permutation(5) for _ in graphs]
    centre = median_graph(graphs, partners, graphs[0], PRICES["edge_cost"])

    def total(nodes, edges, lengths):
        H = nodes, edges, lengths
        members = ((g.nodes, g.edges, g.lengths) for g in graphs)
        return sum(edit_cost(g, H, p) for g, p in zip(members, partners))

    best = total(centre.nodes, centre.edges, centre.lengths)
    for _ in range(5):
        moved = centre.nodes + 0.1 * rng.normal(size=centre.nodes.shape)
        longer = centre.lengths + 0.1 * rng.normal(size=centre.lengths.shape)
        assert total(moved, centre.edges, centre.lengths) > best
        assert total(centre.nodes, centre.edges, longer) > best
    for e in range(len(centre.edges)):
        kept = np.arange(len(centre.edges)) != e
        assert total(centre.nodes, centre.edges[kept], centre.lengths[kept]) >= best
    absent = {(i, j) for j in range(5) for i in range(j)} - set(map(tuple, centre.edges.tolist()))
    for pair in absent:
        edges = np.vstack([centre.edges, pair])
        for length in (0.2, 0.5, 0.8):
            assert total(centre.nodes, edges, np.vstack([centre.lengths, [length]])) >= best


def test_clusters_of_graphs_are_found_through_the_core(monkeypatch):
    graphs, labels = make_graphs(3, 4, n_nodes=9, random_state=0)
    solved, solve = [], gm.solve
    monkeypatch.setattr(gm, "solve", lambda *a, **k: solved.append(k) or solve(*a, **k))
    model = GraphClustering(3, node_cost=0.05, edge_cost=0.03, n_init=1, random_state=0)
    model.fit(graphs)
    assert len(solved) > 36  # every distance is a solved model
    assert adjusted_rand_score(labels, model.labels_) == 1.0
    assert model.energy_ == pytest.approx(model.distances_.min(axis=1).sum())
    np.testing.assert_array_equal(model.predict(graphs), model.labels_)
    for label, partner in zip(model.labels_, model.partners_):
        assert len(partner) == 9
        used = partner[partner >= 0]
        assert len(np.unique(used)) == len(used) <= len(model.cluster_centers_[label].nodes)
    axes = model.plot()
    assert len(axes) == 3 and len(axes[0].lines) == 1 + len(model.cluster_centers_[0].edges)
    plt.close("all")


def test_drawn_edges_have_their_lengths():
    """A triangulated drawing is recovered from its lengths alone."""
    (graph,), _ = make_graphs(1, 1, sigma=0.0, missing=0.0, random_state=3)
    graph = check_graph("g", graph)
    (panel,) = plot_graphs([graph])
    drawn = [np.linalg.norm(np.diff(line.get_xydata(), axis=0)) for line in panel.lines[:-1]]
    np.testing.assert_allclose(drawn, graph.lengths[:, 0], atol=0.02)
    plt.close("all")


def test_wrong_graphs_are_named():
    none = np.zeros((3, 0))
    with pytest.raises(ValueError, match=r"G: expected .nodes, edges. or"):
        graph_distance([1, 2], (none, []), **PRICES)
    with pytest.raises(ValueError, match="H edges: expected different pairs"):
        graph_distance((none, [(0, 1)]), (none, [(1, 1)]), **PRICES)
    with pytest.raises(ValueError, match="H: expected as many numbers"):
        graph_distance((none, [(0, 1)]), (np.ones((3, 1)), [(0, 1)]), **PRICES)
    with pytest.raises(ValueError, match="X: expected a list of graphs"):
        GraphClustering(2).fit(np.ones((3, 3)))
    with pytest.raises(ValueError, match="n_clusters: expected at most the number of graphs, 1"):
        GraphClustering(2).fit([(none, [(0, 1)])])
    with pytest.raises(ValueError, match="cannot take different ones of 2 labels"):
        gm.CRF(3, 2).add("one_to_one", variables=[[0, 1, 2]])
