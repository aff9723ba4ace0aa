"""The model: energies by hand and by definition, clamping, adding and removing, and every door
that refuses bad input.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from core_cases import KINDS, Weird, labellings, random_model

import gmlearn as gm
from gmlearn.model.factors import FactorGraph, blocks_by_size

INF = np.inf


def small():
    crf = gm.CRF([2, 3]).add_unary([[0.0, 1.0], [0.5, 0.0, INF]])
    crf.add(gm.Pairwise([[0, 1]], table=[[0, 4, 5], [6, 0, 7]]))
    return crf


# ---------------------------------------------------------------------- energy


def test_energy_by_hand():
    crf = small()
    assert crf.energy([0, 0]) == 0.5
    assert crf.energy([0, 1]) == 4.0
    assert crf.energy([1, 1]) == 1.0
    assert crf.energy([1, 2]) == INF
    crf.constant = 2.0
    assert crf.energy([1, 1]) == 3.0
    assert isinstance(crf.energy([0, 0]), float)


def test_unary_costs_add_up_and_may_be_partial():
    crf = gm.CRF([2, 3, 2])
    crf.add_unary([[1, 2], [3, 4]], variables=[2, 0]).add_unary([[1, 1, 5]], variables=[1])
    crf.add_unary([[10, 0], [10, 0]], variables=[0, 0])
    assert crf.unary.tolist() == [23, 4, 1, 1, 5, 1, 2]
    assert crf.energy([0, 2, 1]) == 23 + 5 + 2


def test_learnt_unary_of_both_shapes():
    crf = gm.CRF(2, 2)
    crf.add(gm.Unary([[1.0, 2.0], [3.0, 4.0]], weight="a"))
    crf.add(gm.Unary(np.arange(8.0).reshape(2, 2, 2), weight="b"))
    w = {"a": [[1.0, 0.0], [0.0, 10.0]], "b": [1.0, 100.0]}
    # a: w_l . z_p = 20 (p=0, l=1), 3 (p=1, l=0);   b: features (2, 3) and (4, 5)
    assert crf.energy([1, 0], w) == 20 + 3 + (2 + 300) + (4 + 500)
    f = crf.features([1, 0])
    assert f["a"].tolist() == [[3.0, 4.0], [1.0, 2.0]] and f["b"].tolist() == [6.0, 8.0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_energy_is_constant_plus_w_times_features(kind, seed):
    rng = np.random.default_rng(seed)
    crf, w = random_model(rng, kind)
    for x in itertools.islice(labellings(crf), 0, None, 7):
        f = crf.features(x)
        base = crf.energy(x, {k: np.zeros_like(v) for k, v in crf.check_weights(w).items()})
        assert crf.energy(x, w) == pytest.approx(base + sum(float(np.sum(f[k] * w[k])) for k in f))


@pytest.mark.parametrize("kind", KINDS)
def test_factor_graph_is_the_same_energy(kind):
    crf, w = random_model(np.random.default_rng(1), kind)
    graph = FactorGraph.of(crf, crf.check_weights(w))
    assert graph.n_factors == sum(len(b) for b in blocks_by_size(crf))
    for x in itertools.islice(labellings(crf), 0, None, 5):
        total = crf.constant + graph.unary[crf.offsets[:-1] + x].sum()
        for f in range(graph.n_factors):
            scope = graph.scope[graph.indptr[f] : graph.indptr[f + 1]]
            total += graph.table(f)[tuple(x[scope])]
        assert total == pytest.approx(crf.energy(x, w))


def test_unary_features_are_the_gradient_of_unary_costs():
    rng = np.random.default_rng(0)
    crf, w = random_model(rng, "constant")
    w = crf.check_weights(w)
    marginals, step = rng.random(crf.n_coords), rng.normal(size=(3, 2))
    moved = {**w, "u": w["u"] + step}
    change = marginals @ (crf.unary_costs(moved) - crf.unary_costs(w))
    assert change == pytest.approx((crf.unary_features(marginals)["u"] * step).sum())


# ---------------------------------------------------------------------- building


def test_states_offsets_and_sizes():
    crf = gm.CRF([2, 3, 1])
    assert (crf.n_vars, crf.n_coords, crf.uniform) == (3, 6, False)
    assert crf.offsets.tolist() == [0, 2, 5, 6]
    assert gm.CRF(4, 3).uniform and gm.CRF(4, 3).n_coords == 12
    assert gm.CRF([]).n_vars == 0 and gm.CRF([]).energy([]) == 0.0


def test_add_by_name_and_remove():
    crf = gm.CRF(3, 2)
    a = crf.add("potts", edges=[[0, 1]], contrast=2.0)
    b = crf.add(gm.Potts([[1, 2]], 3.0))
    assert crf.energy([0, 1, 0]) == 5.0
    crf.remove(a)
    assert crf.energy([0, 1, 0]) == 3.0 and crf.blocks == [b]
    with pytest.raises(ValueError, match=r"crf.remove: Potts\(M=1.* is not a block of this model"):
        crf.remove(a)


def test_removing_a_block_takes_its_weights_along():
    crf = gm.CRF(3, 2)
    a = crf.add(gm.Potts([[0, 1]], weight="s"))
    assert crf.layout.shapes == {"s": ()}
    crf.remove(a)
    assert crf.layout.shapes == {} and crf.energy([0, 1, 0]) == 0.0


def test_a_refused_block_leaves_the_model_unchanged():
    crf = gm.CRF(3, 2)
    crf.add(gm.Potts([[0, 1]], weight="s"))
    with pytest.raises(
        ValueError,
        match=r"weight segment 's' has shape \(\) in one of the blocks and \(2,\) in another",
    ):
        crf.add(gm.Difference([[1, 2]], weight="s"))
    assert len(crf.blocks) == 1


def test_a_copy_can_be_changed_alone():
    crf = small()
    other = crf.copy()
    other.add_unary([[1, 1]], variables=[0])
    other.add(gm.Potts([[0, 1]], 1.0))
    other.constant = 7.0
    assert crf.energy([0, 0]) == 0.5 and other.energy([0, 0]) == 8.5


def test_shared_segments_are_shared():
    crf = gm.CRF(3, 2)
    crf.add(gm.Potts([[0, 1]], weight="s"))
    crf.add(gm.Potts([[1, 2]], contrast=[2.0], weight="s"))
    assert crf.features([0, 1, 0])["s"] == 3.0
    assert crf.energy([0, 1, 0], {"s": 0.5}) == 1.5
    assert crf.energy([0, 1, 0], [0.5]) == 1.5, "a flat vector will do"


# ---------------------------------------------------------------------- clamping


def test_clamping_in_its_three_ways():
    crf = gm.CRF([2, 3, 2]).add_unary([[1, 2], [3, 4, 5], [6, 7]])
    expected = [INF, 2, 3, 4, 5, 6, INF]
    assert crf.clamp({0: 1, 2: 0}).unary.tolist() == expected
    assert crf.clamp([1, -1, 0]).unary.tolist() == expected
    assert crf.clamp([1, 2, 0], mask=[True, False, True]).unary.tolist() == expected
    assert np.isfinite(crf.unary).all(), "the model itself stays free"


@pytest.mark.parametrize("kind", KINDS)
def test_clamped_minimum_is_the_minimum_over_the_rest(kind):
    rng = np.random.default_rng(2)
    crf, w = random_model(rng, kind)
    label = int(crf.n_states[1]) - 1
    best = min(crf.energy(x, w) for x in labellings(crf) if x[1] == label)
    r = gm.solve(crf.clamp({1: label}), w, solver="brute-force")
    assert r.energy == pytest.approx(best)
    assert not np.isfinite(best) or r.labels[1] == label


def test_clamping_a_forbidden_label_keeps_it_forbidden():
    crf = gm.CRF(1, 2).add_unary([[0, INF]])
    assert crf.clamp({0: 1}).energy([1]) == INF


@pytest.mark.parametrize(
    "arguments, message",
    [
        (({0: 2},), r"labels: variable 0 has states 0\.\.1, got 2"),
        (({7: 0},), r"variables: expected indices in 0\.\.2, got 7"),
        (([0, 1],), r"labels: expected shape \(3,\), got \(2,\)"),
        (([0, 3, 0],), r"labels: variable 1 has states 0\.\.2, got 3"),
        (([0, 0.5, 0],), "labels: expected whole numbers"),
    ],
)
def test_clamp_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        gm.CRF([2, 3, 2]).clamp(*arguments)


@pytest.mark.parametrize(
    "arguments", [({0: -5},), ([-5, 0, -1],), ([-1, 0, 0], [True, True, False])]
)
def test_clamp_refuses_negative_labels(arguments):
    with pytest.raises(ValueError, match="labels: variable 0 has states"):
        gm.CRF([2, 3, 2]).clamp(*arguments)


def test_clamp_refuses_fractional_labels_of_a_mapping():
    with pytest.raises(ValueError, match="labels: expected whole numbers"):
        gm.CRF([2, 3, 2]).clamp({0: 0.7})


@pytest.mark.parametrize("mask", [[True], [True, False]])
def test_clamp_refuses_a_mask_of_another_length(mask):
    with pytest.raises(ValueError, match=r"mask: expected shape \(3,\)"):
        gm.CRF([2, 3, 2]).clamp([0, 0, 0], mask=mask)


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            (3,),
            r"n_states: expected one number per variable, or CRF\(n_vars, n_labels\); got 3 alone",
        ),
        (([2, 0],), "n_states: every variable needs at least one state, got 0"),
        (([2.5, 1],), "n_states: expected whole numbers"),
        (([[2, 2]],), r"n_states: expected 1 dimension\(s\)"),
        (("ab",), "n_states"),
        ((2, 0), "n_labels: expected a number in .1, "),
    ],
)
def test_models_refuse(arguments, message):
    with pytest.raises(ValueError, match=message):
        gm.CRF(*arguments)


@pytest.mark.parametrize("arguments", [(2.5, 3), (-1, 3), ("a", 3), ([2, 2], 3), (2, 2.5)])
def test_models_refuse_odd_numbers_of_variables(arguments):
    with pytest.raises(ValueError, match=r"n_states|n_vars|n_labels"):
        gm.CRF(*arguments)


@pytest.mark.parametrize(
    "costs, variables, message",
    [
        ([[0, np.nan], [0, 0]], None, r"costs: contains NaN \(first at index \(0, 1\)\)"),
        (
            [[0, -INF], [0, 0]],
            None,
            r"costs: contains -inf .*only finite numbers.*or \+inf to forbid",
        ),
        ([[0, 1]], None, r"costs: expected shape \(2, 2\), got \(1, 2\)"),
        ([[0, 1, 2], [0, 1, 2]], None, r"costs: expected shape \(2, 2\), got \(2, 3\)"),
        ([[0, 1], [0]], None, r"costs: expected 2 rows with \[2, 2\]"),
        ("xy", None, "costs"),
        ([[0, 1]], [5], r"variables: expected indices in 0\.\.1, got 5"),
        ([[0, 1]], [-1], r"variables: expected indices in 0\.\.1, got -1"),
        ([[0, 1]], [0.5], "variables: expected whole numbers"),
    ],
)
def test_unary_costs_refuse(costs, variables, message):
    with pytest.raises(ValueError, match=message):
        gm.CRF(2, 2).add_unary(costs, variables)


def test_ragged_unary_costs_refuse():
    crf = gm.CRF([2, 3])
    with pytest.raises(
        ValueError, match="different numbers of states; give one array for each variable"
    ):
        crf.add_unary([[1, 2], [3, 4]])
    with pytest.raises(ValueError, match=r"costs\[1\]: contains NaN"):
        crf.add_unary([[1, 2], [3, np.nan, 4]])
    with pytest.raises(ValueError, match="costs: expected 2 rows"):
        crf.add_unary([[1, 2, 3], [1, 2]])


@pytest.mark.parametrize(
    "labels, message",
    [
        ([0, 1], r"labels: expected shape \(3,\), got \(2,\)"),
        ([0, 0, 2], r"labels: variable 2 has states 0\.\.1, got 2"),
        ([0, -1, 0], r"labels: variable 1 has states 0\.\.2, got -1"),
        ([0, 0.5, 1], "labels: expected whole numbers"),
        ([0, np.nan, 1], "labels: expected whole numbers of type int64"),
        (None, "labels"),
    ],
)
def test_labellings_refuse(labels, message):
    crf = gm.CRF([2, 3, 2])
    for method in (crf.energy, crf.features):
        with pytest.raises(ValueError, match=message):
            method(labels)


def weighted():
    crf = gm.CRF(2, 2)
    crf.add(gm.Unary(np.ones((2, 3)), weight="unary"))
    crf.add(gm.Potts([[0, 1]], weight="smooth"))
    return crf


@pytest.mark.parametrize(
    "weights, message",
    [
        (None, r"weights: no value given for the segment\(s\) \['unary', 'smooth'\]"),
        ({"unary": np.ones((2, 3))}, r"weights: no value given for the segment\(s\) \['smooth'\]"),
        (
            {"unary": np.ones((2, 3)), "smoth": 1.0},
            "no weight segment 'smoth'; did you mean 'smooth'",
        ),
        (
            {"unary": np.ones((2, 3)), "qqq": 1.0},
            r"no weight segment 'qqq'; it has \['smooth', 'unary'\]",
        ),
        (
            {"unary": np.ones((2, 2)), "smooth": 1.0},
            r"weights\['unary'\]: expected shape \(2, 3\), got \(2, 2\)",
        ),
        ({"unary": np.ones((2, 3)), "smooth": np.nan}, r"weights\['smooth'\]: contains NaN"),
        ({"unary": np.ones((2, 3)), "smooth": INF}, r"weights\['smooth'\]: contains inf"),
        (np.ones(6), r"weights: expected shape \(7,\), got \(6,\)"),
        ("abc", "weights: expected numbers"),
    ],
)
def test_weights_refuse(weights, message):
    with pytest.raises(ValueError, match=message):
        weighted().energy([0, 0], weights)
    with pytest.raises(ValueError, match=message):
        gm.solve(weighted(), weights)


def test_transposed_weights_are_refused():
    with pytest.raises(
        ValueError, match=r"weights\['unary'\]: expected shape \(2, 3\), got \(3, 2\)"
    ):
        weighted().energy([0, 0], {"unary": np.ones((3, 2)), "smooth": 1.0})


def test_a_model_without_weights_takes_none():
    with pytest.raises(ValueError, match="no weight segment 'x'; it has none"):
        small().energy([0, 0], {"x": 1})


def test_add_refuses():
    crf = gm.CRF(2, 2)
    with pytest.raises(
        TypeError, match=r"crf.add: expected a gmlearn.Block or the name of one, got int"
    ):
        crf.add(3)
    with pytest.raises(
        ValueError, match=r"crf.add: parameters \['contrast'\] go with the name of a potential"
    ):
        crf.add(gm.Potts([[0, 1]]), contrast=2)


def test_it_shows_itself():
    assert repr(small()) == "CRF(V=2, L<=3, blocks=[Table(M=1, k=2, L=3)])"
    assert "<table>" in small()._repr_html_()
    ragged = gm.CRF(3, 2)
    ragged.add(Weird([[0, 1, 2], [0, 1]], [1.0, 2.0]))
    assert "k=3" in repr(ragged)


# ---------------------------------------------------------------------- grids


def test_grid_edges_and_windows():
    assert gm.grid_edges(2, 2).tolist() == [[0, 1], [2, 3], [0, 2], [1, 3]]
    assert gm.grid_edges(2, 2, 8).tolist()[4:] == [[0, 3], [1, 2]]
    assert len(gm.grid_edges(5, 7, 8)) == 5 * 6 + 4 * 7 + 2 * 4 * 6
    assert gm.grid_cliques(2, 3, 2, 2).tolist() == [[0, 1, 3, 4], [1, 2, 4, 5]]
    assert len(gm.grid_cliques(6, 6, 3, 3, stride=3)) == 4
    for bad, message in (
        ((0, 3), "height"),
        ((2, 2.5), "width"),
        ((2, 2, 6), "connectivity: expected one of 4, 8"),
    ):
        with pytest.raises(ValueError, match=message):
            gm.grid_edges(*bad)


@pytest.mark.parametrize("shape", [(1, 5), (3, 2), (2, 3), (4, 4), (2, 2)])
def test_grids_are_recognised_in_any_order(shape):
    rng = np.random.default_rng(0)
    edges = gm.grid_edges(*shape)
    mixed = rng.permutation(edges)
    mixed = np.where(rng.random((len(edges), 1)) < 0.5, mixed, mixed[:, ::-1])
    assert gm.find_grid(mixed, int(np.prod(shape))) == shape
    if len(edges) > 1:
        assert gm.find_grid(mixed[:-1], int(np.prod(shape))) is None
    assert gm.find_grid(np.concatenate([mixed, mixed[:1]]), int(np.prod(shape))) is None


def test_other_graphs_are_no_grids():
    assert gm.find_grid(gm.grid_edges(3, 3, 8), 9) is None
    assert gm.find_grid(np.array([[0, 1], [2, 3], [0, 2], [0, 3]]), 4) is None
    assert gm.find_grid(np.array([[0, 1], [1, 2], [0, 2]]), 3) is None
    assert gm.find_grid(np.zeros((0, 2), np.int64), 3) is None


@pytest.mark.parametrize(
    "name, parameters, told",
    [
        (
            "cardinality",
            {"cliques": [[0, 1]], "number": 1},
            "'number' belongs to 'at_most_k'|'exac",
        ),
        ("potts", {"edges": [[0, 1]], "contrst": 1}, "did you mean 'contrast'"),
        ("pn_potts", {}, "'cliques' is missing; it takes cliques"),
    ],
)
def test_a_keyword_of_another_potential_is_told(name, parameters, told):
    with pytest.raises(TypeError, match=told):
        gm.CRF(2, 2).add(name, **parameters)
