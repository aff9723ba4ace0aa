"""Every built-in block: costs by definition, tables and pairwise forms that agree with them, and
what it refuses.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from core_cases import Weird, numbers
from scipy import sparse

import gmlearn as gm
from gmlearn.registry import registry
from gmlearn.testing.potential_checks import potential_cases

INF = np.inf
EDGES = np.array([[0, 1], [2, 1], [0, 3]])
STATES = np.array([2, 3, 4, 3])


def blocks(rng, states):
    """(block, weights, definition(edge, a, b)) of every kind of edge."""
    c, f = rng.normal(size=3), rng.normal(size=(3, 2))
    top = int(states[EDGES].max())
    v, pair, square = (
        rng.normal(size=top),
        rng.normal(size=top * (top + 1) // 2),
        rng.normal(size=(top, top)),
    )
    order = {p: i for i, p in enumerate(itertools.combinations_with_replacement(range(top), 2))}
    tables = [rng.normal(size=states[e]) for e in EDGES]
    return {
        "potts": (gm.Potts(EDGES, c), {}, lambda e, a, b: c[e] * (a != b)),
        "potts scalar": (gm.Potts(EDGES, 2.0), {}, lambda e, a, b: 2.0 * (a != b)),
        "potts weight": (
            gm.Potts(EDGES, c, weight="s"),
            {"s": 3.0},
            lambda e, a, b: 3.0 * c[e] * (a != b),
        ),
        "potts features": (
            gm.Potts(EDGES, features=f, weight="s"),
            {"s": [2.0, -1.0]},
            lambda e, a, b: (2 * f[e, 0] - f[e, 1]) * (a != b),
        ),
        "linear": (
            gm.Truncated(EDGES, 1.5, contrast=c),
            {},
            lambda e, a, b: c[e] * min(abs(a - b), 1.5),
        ),
        "quadratic": (
            gm.Truncated(EDGES, 3, power=2, weight="t"),
            {"t": 0.5},
            lambda e, a, b: 0.5 * min((a - b) ** 2, 3),
        ),
        "untruncated": (gm.Truncated(EDGES), {}, lambda e, a, b: abs(a - b)),
        "difference": (
            gm.Difference(EDGES, contrast=c),
            {"V": v},
            lambda e, a, b: c[e] * v[abs(a - b)],
        ),
        "symmetric": (
            gm.Pairwise(EDGES, weight="p", symmetric=True),
            {"p": pair},
            lambda e, a, b: pair[order[min(a, b), max(a, b)]],
        ),
        "square": (
            gm.Pairwise(EDGES, weight="p", contrast=c),
            {"p": square},
            lambda e, a, b: c[e] * square[a, b],
        ),
        "tables": (gm.Table(EDGES, tables), {}, lambda e, a, b: tables[e][a, b]),
    }


NAMES = list(blocks(np.random.default_rng(0), STATES))


CASES = [
    pytest.param(n, s, id=f"{n}, {kind}")
    for n in NAMES
    for kind, s in (("mixed", STATES), ("uniform", np.full(4, 3)))
]


@pytest.mark.parametrize("name, states", CASES)
def test_edge_costs_by_definition(name, states):
    block, w, cost = blocks(np.random.default_rng(0), states)[name]
    crf = gm.CRF(states)
    bound = crf.add(block)
    w = crf.check_weights(w)
    table, form = bound.table(w), bound.pairwise(w)
    for e, (p, q) in enumerate(EDGES):
        one = bound.take([e])
        for a, b in itertools.product(range(states[p]), range(states[q])):
            expected = pytest.approx(cost(e, a, b))
            assert one.energy(np.array([[a, b]]), w)[0] == expected
            assert table[e, a, b] == expected
            assert form.scale[e] * form.values[form.start[e] + a * form.stride[e] + b] == expected
            features = one.features(np.array([[a, b]]))
            if features:
                assert sum(float(np.sum(features[k] * w[k])) for k in features) == expected
    outside = np.indices(table.shape[1:]).reshape(2, -1).T
    for e in range(3):
        for a, b in outside[(outside >= bound.states[e]).any(axis=1)]:
            assert table[e, a, b] == INF


@pytest.mark.parametrize("name", [n for n in NAMES if n != "tables"])
def test_features_clique_by_clique_weighted_and_summed(name):
    rng = np.random.default_rng(1)
    block, w, _ = blocks(rng, STATES)[name]
    crf = gm.CRF(STATES)
    bound = crf.add(block)
    x = bound.gather(rng.integers(0, STATES))
    single, weight = bound.clique_features(x), rng.normal(size=3)
    assert set(single) == set(w)
    for k in w:
        assert np.allclose(single[k].sum(axis=0), bound.features(x)[k])
        assert np.allclose(np.tensordot(weight, single[k], axes=1), bound.features(x, weight)[k])


def test_tables_of_any_arity_shared_stacked_and_listed():
    rng = np.random.default_rng(0)
    shared, stacked = rng.normal(size=(2, 2, 2)), rng.normal(size=(2, 2, 2, 2))
    cliques = [[0, 1, 2], [3, 2, 1]]
    crf = gm.CRF(4, 2)
    for tables in (shared, stacked, [stacked[0], stacked[1]]):
        block = crf.add(gm.Table(cliques, tables))
        each = [shared, shared] if tables is shared else stacked
        for x in itertools.product(range(2), repeat=4):
            expected = [each[m][tuple(x[v] for v in cliques[m])] for m in range(2)]
            assert np.allclose(block.energy(block.gather(np.array(x)), {}), expected)
        crf.remove(block)


def test_tables_keep_inf_exact():
    crf = gm.CRF([2, 2, 2])
    table = np.zeros((2, 2, 2))
    table[1, 0, 1] = INF
    crf.add(gm.Table([[2, 0, 1]], table))
    assert crf.energy([0, 1, 1]) == INF and crf.energy([0, 0, 1]) == 0.0


def test_take_repeats_and_reorders():
    crf = gm.CRF(4, 3)
    block = crf.add(gm.Potts([[0, 1], [1, 2], [2, 3]], [1.0, 2.0, 3.0]))
    part = block.take([2, 0, 2])
    assert part.variables.tolist() == [[2, 3], [0, 1], [2, 3]] and part.contrast.tolist() == [
        3,
        1,
        3,
    ]
    assert len(block) == 3, "the block itself is not changed"


def test_binding_does_not_change_the_block():
    block = gm.Potts([[0, 1]])
    one, two = gm.CRF(2, 3).add(block), gm.CRF([2, 5]).add(block)
    assert block.states is None and one.max_states == 3 and two.max_states == 5


def test_a_dense_table_of_a_large_block_is_refused():
    crf = gm.CRF(12, 9)

    class Sum(gm.Block):
        name = "sum"

        def energy(self, x, w):
            return x.sum(axis=1).astype(float)

    block = crf.add(Sum([list(range(12))]))
    with pytest.raises(ValueError, match=r"a dense table would have 2.82e\+11 entries"):
        block.table({})


def test_blocks_of_no_cliques_cost_nothing():
    crf = gm.CRF(2, 2)
    crf.add(gm.Potts(np.zeros((0, 2), int)))
    crf.add(gm.Table(np.zeros((0, 3), int), np.zeros((0, 2, 2, 2))))
    assert crf.energy([0, 1]) == 0.0 and crf.clique_blocks == []
    assert gm.solve(crf).energy == 0.0


# ---------------------------------------------------------------------- ragged blocks


def test_ragged_blocks_take_and_table():
    rng = np.random.default_rng(0)
    crf = gm.CRF([2, 3, 2, 3])
    block = crf.add(Weird([[0, 1, 2], [3], [1, 3], [2, 0, 3]], [1.0, 2.0, 3.0, 4.0], weight="r"))
    assert (block.arity, len(block), block.sizes.tolist()) == (3, 4, [3, 1, 2, 3])
    w = {"r": np.array(0.5)}
    x = rng.integers(0, crf.n_states)
    whole = block.energy(block.gather(x), w)
    part = block.take([3, 0, 3])
    assert np.allclose(part.energy(part.gather(x), w), whole[[3, 0, 3]])
    table = part.table(w)
    assert table.shape == (3, 3, 3, 3)
    assert table[0][tuple(x[[2, 0, 3]])] == pytest.approx(whole[3])
    assert table[0, 2, 0, 0] == INF, "variable 2 has two states only"
    with pytest.raises(ValueError, match="cliques of different sizes have no common table"):
        block.table(w)


@pytest.mark.parametrize(
    "cliques, message",
    [
        ([[0, 1], []], r"Weird.cliques: clique 1 is empty"),
        ([[0, 1.5]], "Weird.cliques: expected whole numbers"),
        ([np.ma.array([0, 1], mask=[0, 1])], "Weird.cliques: .*masked"),
        ([[0, "x"]], "Weird.cliques: expected numbers of type int64"),
        ([[0, 9]], r"variables must lie in 0\.\.3, got 9"),
        ([[0, -1]], r"variables must lie in 0\.\.3, got -1"),
        ([[0, 1], [2, 3, 2]], "clique 1 names a variable twice"),
    ],
)
def test_ragged_blocks_refuse(cliques, message):
    with pytest.raises(ValueError, match=message):
        gm.CRF(4, 2).add(Weird(cliques, numbers(np.random.default_rng(0), len(cliques))))


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: gm.Potts([0, 1]), r"Potts.edges: expected shape \(any, 2\), got \(2,\)"),
        (lambda: gm.Potts([[0, 1, 2]]), r"Potts.edges: expected shape \(any, 2\), got \(1, 3\)"),
        (lambda: gm.Potts([[0, 0.5]]), "Potts.edges: expected whole numbers"),
        (lambda: gm.Potts([[0, 4]]), r"variables must lie in 0\.\.3, got 4"),
        (lambda: gm.Potts([[-1, 0]]), r"variables must lie in 0\.\.3, got -1"),
        (lambda: gm.Potts([[0, 1], [2, 2]]), r"clique 1 names a variable twice: \[2, 2\]"),
        (
            lambda: gm.Potts([[0, 1]], [1.0, 2.0]),
            r"Potts.contrast: expected shape \(1,\), got \(2,\)",
        ),
        (lambda: gm.Potts([[0, 1]], [np.nan]), "Potts.contrast: contains NaN"),
        (lambda: gm.Potts([[0, 1]], INF), "Potts.contrast: contains inf"),
        (
            lambda: gm.Potts([[0, 1]], features=[[1.0]]),
            "Potts.features: needs the name of a weight segment",
        ),
        (
            lambda: gm.Potts([[0, 1]], 1.0, "s", features=[[1.0]]),
            "Potts.features: needs .* and no `contrast`",
        ),
        (
            lambda: gm.Potts([[0, 1]], features=[1.0], weight="s"),
            r"Potts.features: expected shape \(1, any\)",
        ),
        (
            lambda: gm.Truncated([[0, 1]], -1),
            r"Truncated.truncation: expected a number in \[0, inf\], got -1",
        ),
        (
            lambda: gm.Truncated([[0, 1]], power=0),
            r"Truncated.power: expected a number in \(0, inf\), got 0",
        ),
        (lambda: gm.Truncated([[0, 1]], "x"), "Truncated.truncation: expected a number, got 'x'"),
        (
            lambda: gm.Difference([[0, 1]], contrast=[1, 2]),
            r"Difference.contrast: expected shape \(1,\)",
        ),
        (lambda: gm.LearntTable([[1, 1]]), "clique 0 names a variable twice"),
        (lambda: gm.Pairwise([[0, 1]]), "Pairwise: give either `weight` .* or `table`"),
        (
            lambda: gm.Pairwise([[0, 1]], weight="p", table=np.zeros((2, 2))),
            "Pairwise: give either",
        ),
        (
            lambda: gm.Pairwise([[0, 1]], table=np.zeros((2, 2)), contrast=[1.0]),
            "Pairwise.contrast: only for learnt tables",
        ),
        (
            lambda: gm.Table([[0, 1]], np.zeros((2, 3))),
            r"table 0 has shape \(2, 3\), but its variables \[0, 1\] have \(2, 2\) states",
        ),
        (
            lambda: gm.Table([[0, 1]], np.zeros(2)),
            r"Table.tables: expected 2 dimensions \(shared\) or 3 with a leading 1, got shape \(2,\)",
        ),
        (lambda: gm.Table([[0, 1]], np.zeros((2, 2, 2))), "Table.tables: expected 2 dimensions"),
        (
            lambda: gm.Table([[0, 1]], [np.zeros((2, 2))] * 2),
            "Table.tables: expected 1 tables, got 2",
        ),
        (
            lambda: gm.Table([[0, 1]], [np.zeros((2, 2, 2))]),
            r"Table.tables\[0\]: expected 2 dimension",
        ),
        (
            lambda: gm.Table([[0, 1]], [[np.nan, 0], [0, 0]]),
            r"Table.tables: contains NaN \(first at index \(0, 0\)\)",
        ),
        (lambda: gm.Table([[0, 1]], [[-INF, 0], [0, 0]]), "Table.tables: contains -inf"),
        (lambda: gm.Table([[0, 1, 0]], np.zeros((2, 2, 2))), "clique 0 names a variable twice"),
        (lambda: gm.Table([0, 1], np.zeros((2, 2))), "Table.variables: expected 2 dimension"),
        (lambda: gm.Unary(np.ones(3)), r"Unary.features: expected \(2, 3\) dimension\(s\)"),
        (lambda: gm.Unary([[np.nan]] * 4), "Unary.features: contains NaN"),
        (
            lambda: gm.Unary(np.ones((3, 2)), variables=[0, 1]),
            r"Unary.features: expected one row per variable \(2\), got 3",
        ),
        (lambda: gm.Unary(np.ones((5, 2))), r"variables must lie in 0\.\.3, got 4"),
        (
            lambda: gm.Unary(np.ones((4, 3, 2))),
            r"Unary.features: expected shape \(V, 2, F\), got \(4, 3, 2\)",
        ),
    ],
)
def test_blocks_refuse(make, message):
    with pytest.raises(ValueError, match=message):
        gm.CRF(4, 2).add(make())


def test_unary_features_need_equal_numbers_of_states():
    with pytest.raises(
        ValueError, match="all variables of one Unary block must have the same number of states"
    ):
        gm.CRF([2, 3]).add(gm.Unary(np.ones((2, 2))))


def test_cliques_of_no_variables_are_refused_or_solved():
    crf = gm.CRF(2, 2)
    try:
        crf.add(gm.Table(np.zeros((1, 0), int), np.array(3.0)))
    except ValueError as error:
        assert "variables" in str(error)
        return
    assert gm.solve(crf).energy == 3.0


def test_a_distance_without_a_definition_says_so():
    from gmlearn.potentials.pairwise import ScaledDistance, SharedTable

    with pytest.raises(TypeError, match=r"ScaledDistance must define distance\(a, b\)"):
        ScaledDistance([[0, 1]]).distance(0, 1)
    with pytest.raises(TypeError):
        SharedTable([[0, 1]], "w").index(0, 1)


# ---------------------------------------------------------------------- tables with features


def feature_tables(rng):
    """(name, block, states, definition(clique, labels, w)) of every kind of `FeatureTable`."""
    typed, pairs, triples = np.array([2, 3, 4, 3]), [[0, 1], [0, 3]], [[0, 1, 2], [3, 1, 0]]
    same = np.full(4, 3)
    z = rng.normal(size=(2, 5)) * (rng.random((2, 5)) < 0.7)
    g = rng.normal(size=(2, 2, 3, 5)) * (rng.random((2, 2, 3, 5)) < 0.5)
    index = {c: i for i, c in enumerate(itertools.combinations_with_replacement(range(3), 3))}

    def shared(c, x, w):
        return w[x] @ z[c]

    def own(c, x, w):
        return w @ g[(c, *x)]

    yield "pairs", gm.FeatureTable(pairs, z), typed, shared
    yield "sparse pairs", gm.FeatureTable(pairs, sparse.csr_matrix(z)), typed, shared
    yield "triples", gm.FeatureTable(triples, z), same, shared
    yield (
        "symmetric",
        gm.FeatureTable(triples, z, symmetric=True),
        same,
        lambda c, x, w: w[index[tuple(sorted(x))]] @ z[c],
    )
    # two places of one type around one of another: (0, 0), (0, 1), ... with each label of the other
    ends = list(itertools.combinations_with_replacement(range(3), 2))
    order = {key: i for i, key in enumerate(sorted((a, b, c) for a, c in ends for b in range(2)))}
    yield (
        "symmetric within types",
        gm.FeatureTable([[0, 1, 2], [2, 3, 0]], z, symmetric=[1, 0, 1]),
        np.array([3, 2, 3, 2]),
        lambda c, x, w: w[order[min(x[0], x[2]), x[1], max(x[0], x[2])]] @ z[c],
    )
    yield "own", gm.FeatureTable(pairs, g), typed, own
    rows = sparse.coo_array(g.reshape(-1, 5))
    yield "sparse own", gm.FeatureTable(pairs, rows), typed, own


KINDS = {kind[0]: kind[1:] for kind in feature_tables(np.random.default_rng(0))}


@pytest.mark.parametrize("kind", KINDS)
def test_feature_tables(kind, tmp_path):
    rng = np.random.default_rng(1)
    block, states, cost = KINDS[kind]
    crf = gm.CRF(states)
    bound = crf.add(block)
    w = {"pair": rng.normal(size=crf.layout.shapes["pair"])}
    gm.write(crf, tmp_path / "model.npz", w)
    stored = gm.read(tmp_path / "model.npz").blocks[0]
    both = gm.join([crf, crf]).blocks[0]
    assert len(both) == 4
    own = states[bound.variables[0]]
    joint = rng.random((2, *own))
    expected = np.zeros(w["pair"].size)
    for x in itertools.product(*map(range, own)):
        labels = np.array([x, x])
        value = [cost(0, x, w["pair"]), cost(1, x, w["pair"])]
        np.testing.assert_allclose(bound.energy(labels, w), value)
        np.testing.assert_allclose(stored.energy(labels, w), value)
        np.testing.assert_allclose(both.energy(np.tile(labels, (2, 1)), w), value * 2)
        np.testing.assert_allclose(bound.table(w)[(slice(None), *x)], value)
        np.testing.assert_allclose(bound.take([1]).energy(labels[:1], w), value[1:])
        single = bound.clique_features(labels)["pair"]
        np.testing.assert_allclose(single.reshape(2, -1) @ w["pair"].ravel(), value)
        np.testing.assert_allclose(bound.features(labels)["pair"], single.sum(axis=0))
        weighted = bound.features(labels, joint[(slice(None), *x)])["pair"]
        expected += weighted.ravel()
    np.testing.assert_allclose(bound.expected_features(joint)["pair"].ravel(), expected)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_feature_tables_learn_what_the_features_say(kind):
    """Labels of an edge are equal where its feature is 1, and differ where it is 0."""
    rng = np.random.default_rng(0)
    samples = []
    for _ in range(20):
        same = rng.integers(0, 2, 7)
        labels = np.cumsum([rng.integers(0, 2), *(1 - same)]) % 2
        features = np.stack([same, 1 - same], axis=1).astype(float)
        crf = gm.CRF(8, 2)
        seen = np.where(np.arange(8) == 0, 2.0 * labels - 1.0, 0.0)[:, None]
        crf.add(gm.Unary(sparse.csr_array(seen) if kind == "sparse" else seen))
        edges = np.stack([np.arange(7), np.arange(1, 8)], axis=1)
        given = sparse.csr_array(features) if kind == "sparse" else features
        crf.add(gm.FeatureTable(edges, given))
        samples.append(gm.Sample(crf, labels))
    for options in ({}, {"loss": "none", "temperature": 1.0}):
        model = gm.train(samples, regularizer=gm.L2(0.1), show_progress=False, **options)
        for sample, answer in zip(samples, model.predict_many([s.crf for s in samples])):
            assert np.array_equal(answer.labels, sample.labels)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: gm.FeatureTable([[0, 1]], np.ones((2, 3))), "features: expected one row for each"),
        (lambda: gm.FeatureTable([[0, 1]], np.ones(3)), "features: expected .* dimension"),
        (lambda: gm.FeatureTable([[0, 1]], [[np.nan]]), "features: contains NaN"),
        (
            lambda: gm.FeatureTable([[0, 1]], sparse.csr_array([[0.0, np.inf]])),
            "features: row 0 contains inf",
        ),
        (
            lambda: gm.FeatureTable([[0, 1]], np.ones((1, 3)), symmetric=[0, 1, 1]),
            r"FeatureTable.symmetric: expected shape \(2,\), got \(3,\)",
        ),
        (
            lambda: gm.FeatureTable([[0, 1]], np.ones((1, 2, 2, 3)), symmetric=True),
            "symmetric: is for weights",
        ),
    ],
)
def test_feature_tables_refuse(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "block, message",
    [
        (gm.FeatureTable([[0, 1], [1, 2]], np.ones((2, 3))), "add one block for each kind"),
        (gm.FeatureTable([[0, 2]], np.ones((1, 3)), symmetric=True), "one number of states"),
        (gm.FeatureTable([[0, 2]], np.ones((1, 3)), symmetric=[4, 4]), "one number of states"),
        (gm.FeatureTable([[0, 1]], np.ones((1, 2, 3, 4))), "expected 4 rows of features"),
    ],
)
def test_feature_tables_refuse_a_model(block, message):
    with pytest.raises(ValueError, match=message):
        gm.CRF([2, 2, 3]).add(block)


@pytest.mark.parametrize("kind", registry.objects("potential"), ids=lambda kind: kind.name)
def test_a_weight_that_is_no_string_is_refused_by_every_constructor(kind):
    for block, _ in potential_cases(kind, np.random.default_rng(0)):
        state = block.state()
        names = [n for n in state if n.startswith("weight") and isinstance(state[n], str)]
        for name in names:
            with pytest.raises(TypeError, match=rf"{name}: weight segments are named by strings"):
                kind.from_state({**state, name: 3})


def test_a_model_refuses_blocks_whose_segments_have_no_names():
    class Numbered(gm.Potts):
        def segments(self):
            return {3: ()}

    with pytest.raises(ValueError, match="weight segments are named by strings, got 3"):
        gm.CRF(2, 2).add(Numbered([[0, 1]]))
