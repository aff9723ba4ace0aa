"""The potentials: what they mean, what they refuse, who solves them, and cliques of hundreds of
variables.
"""

import subprocess
import sys

import gmlearn_highorder as h
import numpy as np
import pytest
from highorder_cases import KINDS, ensure_registered, numbers

import gmlearn as gm

ensure_registered()


def test_every_potential_and_solver_is_registered():
    names = {(e.kind, e.name) for e in gm.plugins()}
    assert {("potential", k) for k in KINDS} <= names
    assert {("slave solver", s.name) for _, s in KINDS.values()} <= names


def test_the_plugin_module_is_light():
    heavy = "numba sklearn matplotlib cvxpy"
    code = (
        "import sys, gmlearn_highorder.plugin as p; p.gmlearn_slave_solvers(); "
        f"print([m for m in '{heavy}'.split() if m in sys.modules])"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert out.strip() == "[]"


@pytest.mark.parametrize("kind", KINDS)
def test_auto_chooses_the_special_solver(kind):
    """A model with larger cliques is decomposed with our solver, and enumeration is never
    cheaper.
    """
    cliques = np.array([[0, 1, 2, 3, 4, 5], [3, 4, 5, 6, 7, 8]])
    extra = {
        "pn_potts": {"beta": 0.0},
        "robust_pn": {"beta": -1.0, "truncation": 2},
        "cardinality": {"costs": np.arange(7.0)},
        "pattern": {"patterns": [[0] * 6, [1] * 6], "psi": -1.0},
        "label_cost": {"costs": 1.0},
        "value_sum": {"values": [0, 1, 2], "costs": np.arange(13.0)},
    }.get(kind, {})
    where = {"pattern": {"variables": cliques}, "implication": {"pairs": cliques[:, :2]}}.get(
        kind, {"cliques": cliques}
    )
    crf = gm.CRF(9, 3)
    block = crf.add(kind, **where, **extra)
    enumeration = next(
        e.obj for e in gm.plugins() if e.kind == "slave solver" and e.name == "enumeration"
    )
    solver = KINDS[kind][1]
    assert solver.cost(block) < enumeration.cost(block)
    groups = gm.decompose(crf, "per-clique").groups
    assert solver.name in [g.solver.name for g in groups if hasattr(g, "solver")]


def test_solvers_refuse_other_blocks():
    block = gm.Potts([[0, 1]]).bind(np.array([2, 2]))
    robust = h.RobustPn([[0, 1]], 1, beta=0.0).bind(np.array([2, 2]))
    for _, solver in KINDS.values():
        assert solver.refuses(block)
    assert h.PnPottsSlave().refuses(robust)


def test_label_cost_refuses_many_labels():
    block = h.LabelCost([[0, 1]], 1.0).bind(np.array([13, 13]))
    assert "13 labels" in h.LabelCostSlave().refuses(block)


def test_robust_pn_is_the_truncated_minimum_of_the_paper():
    rng = np.random.default_rng(0)
    k, size = 8, 3
    for _ in range(200):
        q, beta_max = float(rng.uniform(0.3, 4)), 1.0
        beta = beta_max - rng.random(size)
        x = rng.choice(size, k, p=rng.dirichlet(np.full(size, 0.5)))
        deviating = k - np.bincount(x, minlength=size)
        paper = min(beta_max, (beta + deviating * (beta_max - beta) / q).min())
        block = h.RobustPn([np.arange(k)], q, beta, beta_max).bind(np.full(k, size))
        np.testing.assert_allclose(block.energy(x, {}), paper)


def test_robust_pn_with_truncation_one_is_pn_potts():
    rng = np.random.default_rng(1)
    cliques, beta = [[0, 1, 2], [1, 2, 3, 4]], rng.normal(size=(2, 3))
    plain = h.PnPotts(cliques, beta, 0.1).bind(np.full(5, 3))
    robust = h.RobustPn(cliques, 1, beta, 0.1).bind(np.full(5, 3))
    theta = rng.normal(size=(7, 3))
    for power in ("minimise", "min_marginals"):
        a = getattr(h.PnPottsSlave(), power)(plain, theta, h.PnPottsSlave().prepare(plain, {}))
        b = getattr(h.RobustPnSlave(), power)(robust, theta, h.RobustPnSlave().prepare(robust, {}))
        np.testing.assert_allclose(
            a[-1] if power == "minimise" else a, b[-1] if power == "minimise" else b
        )


def large_block(kind, rng, sizes, states=4):
    """Cliques of hundreds of variables, no table in sight."""
    cliques = np.split(rng.permutation(int(sizes.sum())), np.cumsum(sizes)[:-1])
    m = len(sizes)
    blocks = {
        "pn_potts": lambda: h.PnPotts(cliques, numbers(rng, (m, states), False) * 20),
        "robust_pn": lambda: h.RobustPn(
            cliques, 0.2 * sizes, numbers(rng, (m, states), False) * 20
        ),
        "cardinality": lambda: h.Cardinality(
            cliques, [numbers(rng, s + 1, False) * 5 for s in sizes]
        ),
        "exactly_one": lambda: h.ExactlyOne(cliques),
        "exactly_k": lambda: h.Exactly(cliques, sizes // 10),
        "at_most_k": lambda: h.AtMost(cliques, sizes // 10),
        "label_cost": lambda: h.LabelCost(cliques, rng.random(states) * 30),
        "value_sum": lambda: h.ValueSum(
            cliques, [0, 1, 3, 0], [numbers(rng, 3 * s + 1, False) * 5 for s in sizes]
        ),
    }
    return blocks[kind]().bind(np.full(int(sizes.sum()), states))


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("pattern", "implication")])
def test_cliques_of_hundreds_of_variables(kind):
    """The minimum is what its labels pay, equals every member's best min-marginal, and no single
    change improves it.
    """
    rng = np.random.default_rng(2)
    sizes = np.array([300, 17, 421, 1])
    block, solver = large_block(kind, rng, sizes), KINDS[kind][1]
    theta = rng.normal(size=(int(sizes.sum()), 4))
    w = solver.prepare(block, {})
    labels, value = solver.minimise(block, theta, w)
    member = np.arange(len(labels))

    def total(x):
        return block.energy(x, {}) + np.add.reduceat(theta[member, x], block.indptr[:-1])

    np.testing.assert_allclose(total(labels), value)
    marginals = solver.min_marginals(block, theta, w)
    np.testing.assert_allclose(marginals.min(axis=1), value[block.owner], atol=1e-9)
    np.testing.assert_allclose(marginals[member, labels], value[block.owner], atol=1e-9)
    for i in rng.choice(len(labels), 40):
        x = labels.copy()
        x[i] = (x[i] + 1) % 4
        assert (total(x) >= value - 1e-9).all()


def test_patterns_of_hundreds_of_variables():
    """Listed labellings compete with the best unlisted one; here both win somewhere, and so does
    one change of a listed one.
    """
    rng = np.random.default_rng(4)
    k, size = 300, 4
    patterns = np.unique(rng.integers(0, size, size=(12, k)), axis=0)
    theta = rng.random((3, k, size))
    theta[1:, np.arange(k), patterns[5]] -= 2.0  # what the members prefer is listed
    psi = np.full((3, 12), -500.0)
    psi[1:], psi[1, 5] = 5.0, -5.0
    block = h.Pattern(np.arange(3 * k).reshape(3, k), patterns, psi, 0.0).bind(np.full(3 * k, size))
    solver = h.PatternSlave()
    labels, value = solver.minimise(block, theta, solver.prepare(block, {}))
    listed = theta[:, np.arange(k)[None, :], patterns].sum(axis=2)
    assert value[0] == pytest.approx((listed[0] - 500.0).min())
    assert value[1] == pytest.approx(listed[1, 5] - 5.0) and (labels[1] == patterns[5]).all()
    two = np.sort(theta[2], axis=1)
    assert (
        value[2] == pytest.approx(listed[2, 5] + (two[:, 1] - two[:, 0]).min())
        and (labels[2] != patterns[5]).sum() == 1
    )
    marginals = solver.min_marginals(block, theta, solver.prepare(block, {}))
    np.testing.assert_allclose(
        marginals.min(axis=2), np.repeat(value[:, None], k, axis=1), atol=1e-9
    )


@pytest.mark.parametrize("kind", ["pn_potts", "cardinality", "exactly_one", "at_most_k"])
def test_soft_minima_of_large_cliques(kind):
    """At a low temperature the soft minimum is the minimum; marginals are distributions and the
    slope in theta.
    """
    rng = np.random.default_rng(3)
    sizes = np.array([300, 40])
    block, solver = large_block(kind, rng, sizes, 3), KINDS[kind][1]
    theta = rng.normal(size=(340, 3))
    w = solver.prepare(block, {})
    value = solver.minimise(block, theta, w)[1]
    cold, marginals, _ = solver.log_partition(block, theta, w, 1e-4)
    np.testing.assert_allclose(cold, value, atol=0.2)
    np.testing.assert_allclose(marginals.sum(axis=1), 1.0, atol=1e-9)
    move = rng.normal(size=theta.shape)
    up, down = (solver.log_partition(block, theta + s * 1e-5 * move, w, 1.0)[0] for s in (1, -1))
    slope = np.add.reduceat(
        (solver.log_partition(block, theta, w, 1.0)[1] * move).sum(axis=1), block.indptr[:-1]
    )
    np.testing.assert_allclose((up - down) / 2e-5, slope, atol=1e-4)


BAD = [
    (h.PnPotts, {"cliques": [[0, 1]]}, "give either `beta`"),
    (h.PnPotts, {"cliques": [[0, 1]], "beta": 0.0, "weight": "w"}, "not both"),
    (
        h.PnPotts,
        {"cliques": [[0, 1]], "beta": [[1, 2], [3, 4]]},
        r"PnPotts.beta: expected .* 1 rows",
    ),
    (
        h.PnPotts,
        {"cliques": [[0, 1]], "beta": 0.0, "features": [[1.0]]},
        "PnPotts.features: need the name",
    ),
    (
        h.PnPotts,
        {"cliques": [[0, 1]], "weight": "w", "features": [[1.0], [2.0]]},
        "one row per clique",
    ),
    (h.PnPotts, {"cliques": [[0, 1]], "weight": "w", "weight_max": "w"}, "same segment 'w'"),
    (h.PnPotts, {"cliques": [[0, 1]], "beta": np.nan}, "PnPotts.beta: contains NaN"),
    (
        h.PnPotts,
        {"cliques": [[0, 1]], "beta": 0.0, "beta_max": [1.0, 2.0]},
        "PnPotts.beta_max: expected shape",
    ),
    (
        h.RobustPn,
        {"cliques": [[0, 1, 2]], "truncation": 1.5, "beta": 0.0},
        "RobustPn.truncation: expected 0 < Q",
    ),
    (h.RobustPn, {"cliques": [[0, 1, 2]], "truncation": 0, "beta": 0.0}, "got 0 for clique 0"),
    (h.Pattern, {"variables": [[0, 1]], "patterns": [[0, 1], [0, 1]], "psi": 0.0}, "listed twice"),
    (
        h.Pattern,
        {"variables": [[0, 1]], "patterns": [[0, 1, 1]], "psi": 0.0},
        "Pattern.patterns: expected shape",
    ),
    (
        h.Pattern,
        {"variables": [[0, 1]], "patterns": np.zeros((0, 2), int), "psi": 0.0},
        "at least one pattern",
    ),
    (h.Cardinality, {"cliques": [[0, 1]]}, "give either `costs`"),
    (h.Cardinality, {"cliques": [[0, 1]], "costs": [0.0, 1.0]}, "one entry for each count"),
    (
        h.Cardinality,
        {"cliques": [[0, 1], [0]], "costs": [[0.0, 1.0], [0.0, 1.0]]},
        "one entry for each count",
    ),
    (
        h.Cardinality,
        {"cliques": [[0, 1]], "costs": [0.0, 1, 2], "label": -1},
        "Cardinality.label: expected whole numbers",
    ),
    (
        h.AtMost,
        {"cliques": [[0, 1]], "number": -2},
        "AtMost.number: expected whole numbers >= 0, got -2",
    ),
    (h.AtMost, {"cliques": [[0, 1]], "number": 0.5}, "AtMost.number: expected whole numbers"),
    (
        h.Exactly,
        {"cliques": [[0, 1]], "number": 3},
        "Exactly.number: clique 0 has 2 members, 3 were asked for",
    ),
    (h.Implication, {"pairs": [[0, 1, 2]]}, "Implication.pairs: expected shape"),
    (h.Implication, {"pairs": [[0, 1]], "weight": "w"}, "Implication.cost: contains inf"),
    (h.LabelCost, {"cliques": [[0, 1]]}, "give `costs`"),
    (h.LabelCost, {"cliques": [[0, 1]], "costs": np.ones((2, 2))}, "LabelCost.costs: expected"),
]


@pytest.mark.parametrize("make, arguments, message", BAD)
def test_bad_arguments_are_named(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(**arguments)


BAD_IN_MODEL = [
    (h.PnPotts, {"cliques": [[0, 1]], "beta": [1.0, 2.0]}, "expected costs of 3 options, got 2"),
    (
        h.PnPotts,
        {"cliques": [[0, 1]], "weight": "w", "features": np.ones((1, 2, 4))},
        r"expected features of shape \(M, 3, F\)",
    ),
    (h.PnPotts, {"cliques": [[0, 0]], "beta": 0.0}, "names a variable twice"),
    (
        h.Pattern,
        {"variables": [[0, 1]], "patterns": [[0, 3]], "psi": 0.0},
        "pattern 0 has label 3 in place 1",
    ),
    (h.Cardinality, {"cliques": [[0, 1]], "costs": np.zeros(3), "label": 3}, "counted label 3"),
    (h.Implication, {"pairs": [[0, 1]], "premise": 3}, "premise 3 of pair 0"),
    (h.Implication, {"pairs": [[0, 1]], "conclusion": 5}, "conclusion 5 of pair 0"),
    (h.LabelCost, {"cliques": [[0, 1]], "costs": [1.0, 2.0]}, "expected costs of 3 labels, got 2"),
]


@pytest.mark.parametrize("make, arguments, message", BAD_IN_MODEL)
def test_blocks_that_do_not_fit_the_model(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        gm.CRF(3, 3).add(make(**arguments))
