"""Slaves of single cliques against enumeration: minima, minimisers, min-marginals, soft minima,
batches.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from core_cases import Weird, forbid, numbers
from hypothesis import given, settings
from hypothesis import strategies as st

import gmlearn as gm
from gmlearn.registry import registry
from gmlearn.slaves.choose import NoSolverError, choose_solver

INF = np.inf
BUILT_IN = ("enumeration", "table", "pairwise-edge", "potts-edge")
N = 4


def block_of(rng, kind, states, coarse):
    """A bound block over N variables, and its weights."""
    edges = np.array([rng.choice(N, 2, replace=False) for _ in range(3)])
    triples = np.array([rng.choice(N, 3, replace=False) for _ in range(3)])
    top = int(states.max())
    wide = np.concatenate(
        [
            edges,
            [
                [
                    int(states.argmax()),
                    int(
                        states.argmin()
                        if states.argmin() != states.argmax()
                        else (states.argmax() + 1) % N
                    ),
                ]
            ],
        ]
    )
    made = {
        "potts": lambda: (gm.Potts(edges, numbers(rng, 3, coarse)), {}),
        "potts weight": lambda: (
            gm.Potts(edges, features=numbers(rng, (3, 2), coarse), weight="s"),
            {"s": numbers(rng, 2, coarse)},
        ),
        "linear": lambda: (gm.Truncated(edges, 1.5, contrast=numbers(rng, 3, coarse)), {}),
        "quadratic": lambda: (
            gm.Truncated(edges, power=2, contrast=numbers(rng, 3, coarse), weight="t"),
            {"t": numbers(rng, (), coarse)},
        ),
        "difference": lambda: (gm.Difference(wide), {"V": numbers(rng, top, coarse)}),
        "square": lambda: (
            gm.LearntTable(wide, symmetric=False),
            {"pair": numbers(rng, (top, top), coarse)},
        ),
        "edge tables": lambda: (
            gm.Table(edges, [forbid(rng, numbers(rng, states[e], coarse)) for e in edges]),
            {},
        ),
        "triples": lambda: (
            gm.Table(triples, [forbid(rng, numbers(rng, states[e], coarse)) for e in triples]),
            {},
        ),
        "single": lambda: (
            gm.Table(np.arange(N)[:, None], [forbid(rng, numbers(rng, n, coarse)) for n in states]),
            {},
        ),
        "weird": lambda: (
            Weird([[0, 1, 2], [3, 1, 0]], numbers(rng, 2, coarse), weight="r"),
            {"r": numbers(rng, (), coarse)},
        ),
    }
    block, w = made[kind]()
    return block.bind(states), {k: np.asarray(v, float) for k, v in w.items()}


BLOCKS = (
    "potts",
    "potts weight",
    "linear",
    "quadratic",
    "difference",
    "square",
    "edge tables",
    "triples",
    "single",
    "weird",
)


def totals(group, m, theta, w):
    """{labels: cost} of subproblem m."""
    block = group.block
    lo, hi = block.indptr[m], block.indptr[m + 1]
    out = {}
    for x in itertools.product(*(range(n) for n in block.member_states[lo:hi])):
        whole = np.zeros(len(block.members), np.int64)
        whole[lo:hi] = x
        cost = block.energy(block.shape_members(whole), w)[m]
        out[x] = cost + sum(theta[group.ptr[lo + i] + a] for i, a in enumerate(x))
    return out


def make(seed, kind, mixed, coarse, holes, solver=None, power=None):
    rng = np.random.default_rng(seed)
    states = rng.integers(1, 5, N) if mixed else np.full(N, int(rng.integers(2, 5)))
    block, w = block_of(rng, kind, states, coarse)
    offsets = np.concatenate([[0], np.cumsum(states)])
    solver = choose_solver(block, power) if solver is None else registry.get("slave solver", solver)
    group = gm.CliqueGroup(block, solver, offsets)
    theta = numbers(rng, len(group.coords), coarse)
    if holes:
        theta = forbid(rng, theta, 0.25)
    return group, theta, w, rng


PROBLEMS = {
    "seed": st.integers(0, 10_000),
    "kind": st.sampled_from(BLOCKS),
    "mixed": st.booleans(),
    "coarse": st.booleans(),
    "holes": st.booleans(),
}


@settings(deadline=None, max_examples=120, derandomize=True)
@given(**PROBLEMS, solver=st.sampled_from([None, *BUILT_IN]))
def test_minima_and_min_marginals_match_enumeration(seed, kind, mixed, coarse, holes, solver):
    group, theta, w, _ = make(seed, kind, mixed, coarse, holes, solver)
    if solver is not None and group.solver.refuses(group.block):
        return
    prepared, before = group.prepare(w), theta.copy()
    r = group.solve(theta, prepared)
    marginals = group.min_marginals(theta, prepared)
    assert np.array_equal(theta, before), "theta must not be written to"
    for m in range(group.n):
        cost = totals(group, m, theta, w)
        low = min(cost.values())
        lo, hi = group.block.indptr[m], group.block.indptr[m + 1]
        assert r.value[m] == pytest.approx(low)
        assert cost[tuple(r.labels[lo:hi].tolist())] == pytest.approx(low)
        for i in range(hi - lo):
            for a in range(group.states[lo + i]):
                fixed = min(c for x, c in cost.items() if x[i] == a)
                assert marginals[group.ptr[lo + i] + a] == pytest.approx(fixed)
    assert set(np.unique(r.ind)) <= {0.0, 1.0}
    assert np.array_equal(np.flatnonzero(r.ind), group.ptr[:-1] + r.labels)


@settings(deadline=None, max_examples=30, derandomize=True)
@given(**PROBLEMS)
def test_indicators_and_features_are_supergradients(seed, kind, mixed, coarse, holes):
    group, theta, w, rng = make(seed, kind, mixed, coarse, holes)
    r = group.solve(theta, group.prepare(w))
    finite = np.isfinite(r.value)
    move = rng.normal(size=len(theta))
    slope = np.bincount(group.owner, r.ind * move, group.n)
    after = group.solve(theta + move, group.prepare(w)).value
    assert (after[finite] <= (r.value + slope)[finite] + 1e-9).all()
    features = group.features(r)
    if features and finite.all():
        other = {k: v + rng.normal(size=np.shape(v)) for k, v in w.items()}
        gain = sum(float(np.sum(features[k] * (other[k] - w[k]))) for k in features)
        assert group.solve(theta, group.prepare(other)).value.sum() <= r.value.sum() + gain + 1e-9
        single = group.slave_features(r)
        if single is not None:
            assert all(np.allclose(single[k].sum(axis=0), features[k]) for k in features)


@settings(deadline=None, max_examples=30, derandomize=True)
@given(**{**PROBLEMS, "mixed": st.just(False)})
def test_a_batch_equals_one_by_one(seed, kind, mixed, coarse, holes):
    group, theta, w, _ = make(seed, kind, mixed, coarse, holes)
    r = group.solve(theta, group.prepare(w))
    for m in range(group.n):
        one = group.take(np.array([m]))
        mine = slice(group.indptr[m], group.indptr[m + 1])
        s = one.solve(theta[mine], one.prepare(w))
        assert s.value[0] == r.value[m] and np.array_equal(s.ind, r.ind[mine])


def test_a_part_of_learnt_tables_equals_the_whole():
    states = np.array([2, 2, 3])
    block = gm.LearntTable([[0, 1], [1, 2]], symmetric=False).bind(states)
    w = {"pair": np.arange(9.0).reshape(3, 3)}
    group = gm.CliqueGroup(
        block, registry.get("slave solver", "pairwise-edge"), np.array([0, 2, 4, 7])
    )
    theta = np.array([9.0, 0, 0, 0, 0, 0, 0, 0, 0])
    one = group.take(np.array([0]))
    assert (
        one.solve(theta[:4], one.prepare(w)).value[0]
        == group.solve(theta, group.prepare(w)).value[0]
    )


@settings(deadline=None, max_examples=25, derandomize=True)
@given(**{**PROBLEMS, "holes": st.just(False)}, temperature=st.sampled_from([0.3, 1.0, 4.0]))
def test_soft_minima_marginals_and_expected_features(seed, kind, mixed, coarse, holes, temperature):
    group, theta, w, _ = make(seed, kind, mixed, coarse, holes, "enumeration")
    prepared = group.prepare(w)
    if not np.isfinite(group.solve(theta, prepared).value).all():
        return
    r = group.log_partition(theta, prepared, temperature)
    expected = {k: np.zeros(np.shape(v)) for k, v in w.items()}
    for m in range(group.n):
        cost = totals(group, m, theta, w)
        z = sum(np.exp(-c / temperature) for c in cost.values())
        assert r.value[m] == pytest.approx(-temperature * np.log(z))
        lo = group.block.indptr[m]
        marginal = np.zeros(len(theta))
        for x, c in cost.items():
            p = np.exp(-c / temperature) / z
            for i, a in enumerate(x):
                marginal[group.ptr[lo + i] + a] += p
            whole = np.zeros(len(group.block.members), np.int64)
            whole[lo : lo + len(x)] = x
            chosen = np.zeros(group.n)
            chosen[m] = p
            for k, f in group.block.features(group.block.shape_members(whole), chosen).items():
                expected[k] += f
        mine = slice(group.indptr[m], group.indptr[m + 1])
        assert np.allclose(r.marginals[mine], marginal[mine])
    assert set(r.features) == set(expected)
    for k in expected:
        assert np.allclose(r.features[k], expected[k])


def test_ties_go_to_the_first_labelling_and_do_not_wander():
    solver = registry.get("slave solver", "potts-edge")
    group = gm.CliqueGroup(
        gm.Potts([[0, 1]], 1.0).bind(np.array([3, 3])), solver, np.array([0, 3, 6])
    )
    for _ in range(3):
        assert group.solve(np.zeros(6), group.prepare({})).labels.tolist() == [0, 0]


def test_an_impossible_clique_has_an_infinite_minimum():
    block = gm.Table([[0, 1, 2]], np.full((2, 2, 2), INF)).bind(np.full(3, 2))
    group = gm.CliqueGroup(block, choose_solver(block), np.array([0, 2, 4, 6]))
    assert group.solve(np.zeros(6), group.prepare({})).value.tolist() == [INF]


# ---------------------------------------------------------------------- the choice of a solver


def test_the_cheapest_exact_solver_is_chosen():
    states = np.full(4, 8)
    assert choose_solver(gm.Potts([[0, 1]]).bind(states)).name == "potts-edge"
    assert choose_solver(gm.Truncated([[0, 1]]).bind(states)).name == "pairwise-edge"
    assert choose_solver(gm.Table([[0, 1, 2]], np.zeros((8, 8, 8))).bind(states)).name == "table"
    assert choose_solver(Weird([[0, 1, 2]], [1.0]).bind(states)).name == "table"
    assert choose_solver(gm.Potts([[0, 1]]).bind(states), "log_partition").has("log_partition")
    assert choose_solver(gm.Potts([[0, 1]]).bind(states), name="enumeration").name == "enumeration"


def test_exact_solvers_come_before_cheaper_relaxations(monkeypatch):
    class Loose(gm.SlaveSolver):
        name, exact = "loose", False

        def cost(self, block):
            return 0.0

        def minimise(self, block, theta, w):
            raise AssertionError("not to be called")

    objects = registry.objects("slave solver")
    monkeypatch.setattr(type(registry), "objects", lambda self, kind: [Loose(), *objects])
    assert choose_solver(gm.Potts([[0, 1]]).bind(np.full(2, 3))).exact


def test_refusals_are_named():
    block = Weird([list(range(30)), [0, 1]], [1.0, 1.0]).bind(np.full(30, 4))
    with pytest.raises(
        NoSolverError,
        match=r"No slave solver handles Weird.*potts-edge \(not Potts edges\).*gmlearn.register",
    ):
        choose_solver(block)
    with pytest.raises(
        NoSolverError, match=r"slave solver 'potts-edge' refuses Weird.*not Potts edges"
    ):
        choose_solver(block, name="potts-edge")
    with pytest.raises(gm.UnknownNameError, match="did you mean 'potts-edge'"):
        choose_solver(block, name="pots-edge")
    big = gm.Potts([[0, 1]]).bind(np.array([300, 300]))
    with pytest.raises(
        NoSolverError, match=r"enumeration refuses|'enumeration' refuses.*L\*\*k = 90000 > 65536"
    ):
        choose_solver(big, name="enumeration")


def test_colours_share_no_coordinate():
    rng = np.random.default_rng(0)
    edges = np.array([rng.choice(30, 2, replace=False) for _ in range(120)])
    group = gm.CliqueGroup(
        gm.Potts(edges).bind(np.full(30, 2)),
        registry.get("slave solver", "potts-edge"),
        2 * np.arange(31),
    )
    assert np.array_equal(np.sort(np.concatenate(group.colours)), np.arange(120))
    for colour in group.colours:
        variables = edges[colour].ravel()
        assert len(np.unique(variables)) == len(variables)


def test_more_than_64_colours():
    edges = np.array([[0, i] for i in range(1, 101)])
    group = gm.CliqueGroup(
        gm.Potts(edges).bind(np.full(101, 2)),
        registry.get("slave solver", "potts-edge"),
        2 * np.arange(102),
    )
    assert len(group.colours) == 100
