"""Factor graphs: to networkx and back, and the drawing."""

from __future__ import annotations

import matplotlib
import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import gmlearn as gm
from gmlearn.model.graph import from_networkx, to_networkx
from gmlearn.plot import plot_factor_graph


class Spread(gm.RaggedBlock):
    """Cliques of any size that pay for every pair of neighbours with different labels."""

    name = "test-spread"

    def energy(self, x, w):
        cut = [np.count_nonzero(np.diff(x[a:b])) for a, b in zip(self.indptr[:-1], self.indptr[1:])]
        return np.array(cut, float) * float(w["spread"])

    def segments(self):
        return {"spread": ()}


def mixed_model(seed=0):
    rng = np.random.default_rng(seed)
    crf = gm.CRF([2, 3, 2, 4, 3])
    crf.add_unary([rng.normal(size=n) for n in crf.n_states])
    crf.unary[3] = np.inf
    crf.constant = 1.25
    crf.add(gm.Potts([[0, 1], [1, 4]], weight="smooth"))
    crf.add(
        gm.Table([[2, 0, 3], [4, 1, 2]], [rng.normal(size=(2, 2, 4)), rng.normal(size=(3, 3, 2))])
    )
    crf.add(gm.Unary(rng.normal(size=(2, 3)), weight="u", variables=[1, 4]))
    crf.add(Spread([[0, 1], [2, 3, 4], [0, 4]]))
    return crf, {"smooth": rng.random(), "u": rng.normal(size=(3, 3)), "spread": 0.7}


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10_000))
def test_round_trip_keeps_all_energies(seed):
    crf, weights = mixed_model(seed)
    back = from_networkx(to_networkx(crf, weights))
    for x in np.indices(tuple(crf.n_states)).reshape(5, -1).T:
        assert back.energy(x) == pytest.approx(crf.energy(x, weights))


def test_nodes_and_edges_are_the_factor_graph():
    crf, weights = mixed_model()
    graph = to_networkx(crf, weights)
    assert networkx.is_bipartite(graph)
    assert graph.number_of_nodes() == 5 + 2 + 2 + 3
    assert graph.nodes["v", 3]["n_states"] == 4
    np.testing.assert_allclose(
        graph.nodes["v", 1]["unary"], crf.unary_costs(crf.check_weights(weights))[2:5]
    )
    node = graph.nodes["f", 1, 0]
    assert (
        node["variables"] == (2, 0, 3)
        and node["potential"] == "table"
        and node["table"].shape == (2, 2, 4)
    )
    assert set(graph.neighbors(("f", 3, 1))) == {("v", 2), ("v", 3), ("v", 4)}
    table = graph.nodes["f", 0, 0]["table"]
    np.testing.assert_allclose(table, weights["smooth"] * (np.arange(2)[:, None] != np.arange(3)))


def test_without_weights_learnt_parts_have_no_table():
    crf, _ = mixed_model()
    graph = to_networkx(crf)
    assert "table" not in graph.nodes["f", 0, 0] and "table" in graph.nodes["f", 1, 0]
    assert graph.nodes["f", 2, 0]["potential"] == "unary"
    with pytest.raises(ValueError, match=r"\('f', 0, 0\) has no attribute 'table'.*weights"):
        from_networkx(graph)


def test_large_tables_are_left_out():
    crf = gm.CRF(6, 2)
    crf.add(gm.Table([range(6)], np.zeros((2,) * 6)))
    assert to_networkx(crf, max_table=64).nodes["f", 0, 0]["table"].shape == (2,) * 6
    assert "table" not in to_networkx(crf, max_table=63).nodes["f", 0, 0]


def test_own_graph_with_unary_factor():
    graph = networkx.Graph()
    graph.add_node(("v", 0), n_states=2)
    graph.add_node(("f", 0, 0), variables=(0,), table=[3.0, np.inf])
    graph.add_edge(("v", 0), ("f", 0, 0))
    crf = from_networkx(graph)
    assert crf.energy([0]) == 3.0 and crf.energy([1]) == np.inf


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda g: g.add_node("x"), r"expected nodes \('v', i\)"),
        (lambda g: g.remove_node(("v", 0)), r"found no \('v', 0\)"),
        (lambda g: g.nodes["v", 1].pop("n_states"), r"\('v', 1\) has no attribute 'n_states'"),
        (lambda g: g.nodes["f", 0, 0].pop("variables"), "no attribute 'variables'"),
        (lambda g: g.remove_edge(("v", 0), ("f", 0, 0)), "its edges lead to"),
        (lambda g: g.nodes["f", 0, 0].update(table=np.zeros((2, 2))), "has shape"),
        (lambda g: g.nodes["v", 0].update(unary=[1.0]), r"unary of \('v', 0\)"),
    ],
)
def test_bad_graphs_name_the_node(spoil, words):
    graph = to_networkx(*mixed_model())
    spoil(graph)
    with pytest.raises(ValueError, match=words):
        from_networkx(graph)


def collections(ax):
    return {
        c.get_label(): len(c.get_offsets())
        for c in ax.collections
        if c.get_label() and not c.get_label().startswith("_")
    }


@pytest.mark.parametrize("with_weights", [False, True])
def test_drawing_shows_every_node_once(with_weights):
    crf, weights = mixed_model()
    ax = plot_factor_graph(crf, weights=weights if with_weights else None)
    assert collections(ax) == {"variable": 5, "potts": 2, "table": 2, "test-spread": 3}
    assert {t.get_text() for t in ax.get_legend().get_texts()} == {
        "variable",
        "potts",
        "table",
        "test-spread",
    }
    plt.close(ax.figure)


def test_grids_are_drawn_as_grids_on_given_axes():
    crf = gm.CRF(12, 2)
    crf.add(gm.Potts(gm.grid_edges(3, 4)))
    _, own = plt.subplots()
    ax = plot_factor_graph(crf, own)
    assert ax is own
    circles = next(c for c in ax.collections if c.get_label() == "variable").get_offsets()
    np.testing.assert_allclose(circles, [[i % 4, -(i // 4)] for i in range(12)])
    plt.close(ax.figure)


def test_parts_and_lonely_variables_stand_apart():
    crf = gm.CRF(7, 2)
    crf.add(gm.Potts([[0, 1], [2, 3]]))
    ax = plot_factor_graph(crf)
    places = np.concatenate(
        [c.get_offsets() for c in ax.collections if c.get_label() in ("variable", "potts")]
    )
    distances = np.linalg.norm(places[:, None] - places[None], axis=2) + np.eye(9)
    assert distances.min() > 0.3
    plt.close(ax.figure)


def test_too_many_nodes_is_an_error_that_says_what_to_do():
    with pytest.raises(
        ValueError, match=r"500 variables and 0 cliques are too many.*draw a smaller model"
    ):
        plot_factor_graph(gm.CRF(500, 2))
