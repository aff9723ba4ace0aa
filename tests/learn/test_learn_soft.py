"""Soft objectives: from the hinge to the likelihood, against enumeration and an independent
optimiser.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learn_cases import chain_samples, objective_of, random_point, random_problem, ring_samples
from scipy.optimize import minimize
from scipy.special import logsumexp

import gmlearn as gm
from gmlearn.testing.brute_force import energy_table

SOFT_KINDS = ("tree", "loopy", "table", "pn_potts", "cardinality")
seeds = st.integers(0, 10**6)
FEW = settings(deadline=None, max_examples=25)


def enumerated(samples, layout, mu, temperature=1.0):
    """w -> R(w) + sum_k c_k [E(x^k) + eps log sum_x exp(-E(x)/eps)] by enumeration."""

    def value(w):
        total = 0.5 * mu * w @ w
        for s in samples:
            table = energy_table(s.crf, layout.split(w))
            total += s.weight * (
                table[tuple(s.labels)] + temperature * logsumexp(-table / temperature)
            )
        return total

    return value


def test_maximum_likelihood_on_a_chain_is_that_of_scipy_on_the_enumerated_likelihood():
    samples = chain_samples(0, n=4, length=4)
    model = gm.train(
        samples, loss="none", temperature=1.0, regularizer=gm.L2(0.1), max_iter=40, tol=1e-15
    )
    layout = objective_of(samples, {"loss": "none"}).layout
    reference = minimize(
        enumerated(samples, layout, 0.1),
        np.zeros(layout.size),
        method="BFGS",
        options={"gtol": 1e-9},
    )
    assert model.objective == pytest.approx(reference.fun, rel=1e-8)
    np.testing.assert_allclose(layout.join(model.weights), reference.x, atol=1e-6)
    assert model.settings["optimizer"] == "lbfgs"


@FEW
@given(seeds, st.sampled_from(SOFT_KINDS), st.sampled_from([0.3, 1.0, 2.0]))
def test_the_slaves_bound_the_log_partition_from_above(seed, kind, temperature):
    rng = np.random.default_rng(seed)
    samples, options = random_problem(
        rng, kind, 2, loss="none", temperature=temperature, regularizer=gm.NoRegularizer()
    )
    objective = objective_of(samples, options)
    w, lams = random_point(rng, objective)
    value = objective.value(w, objective.vertices(w, lams))
    assert value >= enumerated(samples, objective.layout, 0.0, temperature)(w) - 1e-9
    if kind == "tree":
        value = objective.value(w, objective.vertices(w))
        assert value == pytest.approx(
            enumerated(samples, objective.layout, 0.0, temperature)(w), abs=1e-9
        )


@FEW
@given(seeds, st.sampled_from(SOFT_KINDS))
def test_gradients_are_marginals(seed, kind):
    rng = np.random.default_rng(seed)
    samples, options = random_problem(rng, kind, 2, temperature=0.7, regularizer=gm.L2(0.5))
    objective = objective_of(samples, options)
    (w, lams), (dw, dlams) = random_point(rng, objective), random_point(rng, objective)
    vertices = objective.vertices(w, lams)
    slope = float((objective.slope(vertices) + 0.5 * w) @ dw)
    slope -= sum(
        s.weight * float(d @ s.dual.centred(v.ind))
        for s, v, d in zip(objective.batches, vertices, dlams)
    )
    h = 1e-5
    ahead, back = (
        objective.value(
            w + t * dw, objective.vertices(w + t * dw, [a + t * b for a, b in zip(lams, dlams)])
        )
        for t in (h, -h)
    )
    assert (ahead - back) / (2 * h) == pytest.approx(slope, rel=1e-5, abs=1e-6)


@FEW
@given(seeds, st.sampled_from(SOFT_KINDS))
def test_soft_objective_falls_to_the_hinge_with_the_temperature(seed, kind):
    rng = np.random.default_rng(seed)
    samples, options = random_problem(rng, kind, 2, decomposition="per-clique")
    hinge = objective_of(samples, options)
    w, _ = random_point(rng, hinge)
    values = [objective_of(samples, options | {"temperature": t}) for t in (1.0, 0.1, 1e-3)]
    values = [o.value(w, o.vertices(w)) for o in values]
    limit = hinge.value(w, hinge.vertices(w))
    assert values[0] >= values[1] >= values[2] >= limit - 1e-9
    assert values[2] <= limit + 0.2  # at most eps log(number of labellings) a slave


def loopy_samples(seed, n=6):
    """3 x 3 grids with noisy features of two labels, and learnt tables."""
    rng = np.random.default_rng(seed)
    samples = []
    for _ in range(n):
        truth = np.sort(rng.integers(0, 2, 9))
        crf = gm.CRF(9, 2)
        crf.add(gm.Unary(np.eye(2)[truth] + rng.normal(size=(9, 2))))
        crf.add(gm.LearntTable(gm.grid_edges(3, 3), "pair"))
        samples.append(gm.Sample(crf, truth))
    return samples


def two_block_chains(seed, n=4):
    """Chains with two blocks on the same edges."""
    rng = np.random.default_rng(seed)
    edges = [[i, i + 1] for i in range(3)]
    samples = []
    for _ in range(n):
        crf = gm.CRF(4, 3)
        crf.add(gm.Unary(rng.normal(size=(4, 2))))
        crf.add(gm.LearntTable(edges, "pair"))
        crf.add(gm.Potts([[b, a] for a, b in edges], weight="smooth"))
        samples.append(gm.Sample(crf, rng.integers(0, 3, 4)))
    return samples


LIKELIHOOD = dict(loss="none", temperature=1.0, regularizer=gm.L2(0.1), max_iter=40, tol=1e-12)


@pytest.mark.parametrize("samples", [loopy_samples(1), two_block_chains(2)])
def test_the_likelihood_is_exact_where_one_slave_holds_the_model(samples):
    model = gm.train(samples, **LIKELIHOOD)
    layout = samples[0].crf.layout
    exact = enumerated(samples, layout, 0.1)
    best = minimize(exact, np.zeros(layout.size), method="BFGS", options={"gtol": 1e-7})
    assert model.objective_kind == "exact"
    assert model.objective == pytest.approx(exact(layout.join(model.weights)), rel=1e-9)
    assert model.objective == pytest.approx(best.fun, rel=1e-4)
    assert model.exact_objective == (model.objective, model.objective)


def test_slaves_that_share_variables_bound_the_likelihood_and_say_by_how_much():
    samples = loopy_samples(3)
    model = gm.train(samples, decomposition="chains", **LIKELIHOOD)
    layout = samples[0].crf.layout
    exact = enumerated(samples, layout, 0.1)
    value = exact(layout.join(model.weights))
    best = minimize(exact, np.zeros(layout.size), method="BFGS", options={"gtol": 1e-6})
    assert model.objective_kind == "upper bound"
    assert best.fun <= value <= model.objective <= 1.5 * best.fun
    assert value <= 1.1 * best.fun
    low, high = model.exact_objective
    assert low - 1e-8 <= value <= high + 1e-8
    assert "upper bound" in repr(model)


def pseudo_likelihood(samples, layout, mu):
    """w -> R(w) - sum_v log p(x_v | rest), written out."""

    def value(w):
        total = 0.5 * mu * w @ w
        for s in samples:
            table = energy_table(s.crf, layout.split(w))
            for v in range(s.crf.n_vars):
                at = tuple(slice(None) if u == v else s.labels[u] for u in range(s.crf.n_vars))
                total += table[tuple(s.labels)] + logsumexp(-table[at])
        return total

    return value


def piecewise_likelihood(samples, layout, mu):
    """w -> R(w) + E(x) + the log-partitions of all cliques and variables on their own."""

    def value(w):
        total = 0.5 * mu * w @ w
        for s in samples:
            named = layout.split(w)
            total += s.crf.energy(s.labels, named)
            unary = s.crf.unary_costs(named).reshape(s.crf.n_vars, -1)
            total += logsumexp(-unary, axis=1).sum()
            for block in s.crf.clique_blocks:
                total += logsumexp(-block.table(named).reshape(len(block), -1), axis=1).sum()
        return total

    return value


@pytest.mark.parametrize(
    "name, kind, written_out",
    [
        ("pseudo", "pseudo-likelihood", pseudo_likelihood),
        ("piecewise", "piecewise", piecewise_likelihood),
    ],
)
@pytest.mark.parametrize("samples", [loopy_samples(4, 3), two_block_chains(5, 3)])
def test_named_alternatives_minimise_what_they_say(name, kind, written_out, samples):
    model = gm.train(samples, likelihood=name, **LIKELIHOOD)
    layout = samples[0].crf.layout
    reference = minimize(
        written_out(samples, layout, 0.1), np.zeros(layout.size), options={"gtol": 1e-7}
    )
    assert model.objective_kind == kind
    assert model.objective == pytest.approx(reference.fun, rel=1e-6)
    np.testing.assert_allclose(layout.join(model.weights), reference.x, atol=1e-3)


def test_a_likelihood_needs_a_temperature_and_a_known_name():
    with pytest.raises(ValueError, match="likelihood: 'pseudo' needs a temperature"):
        gm.train(ring_samples(0), likelihood="pseudo")
    with pytest.raises(ValueError, match="likelihood: expected one of 'trw'"):
        gm.train(ring_samples(0), likelihood="psuedo", temperature=1.0)


def test_a_trained_model_predicts_marginals(tmp_path):
    samples = two_block_chains(6)
    model = gm.train(samples, **(LIKELIHOOD | {"max_iter": 3}))
    model.save(tmp_path / "model.npz")
    again = gm.load(tmp_path / "model.npz")
    assert (again.objective_kind, again.exact_objective) == ("exact", model.exact_objective)
    crf = samples[0].crf
    found = again.predict_marginals(crf)
    exact = gm.marginals(crf, model.weights, "brute-force")
    np.testing.assert_allclose(found.node, exact.node, atol=1e-9)


def test_soft_training_at_a_low_temperature_is_near_the_hinge():
    samples = ring_samples(0)
    hinge = gm.train(samples, optimizer="cutting-plane", regularizer=gm.L2(0.5), tol=1e-6)
    soft = gm.train(samples, temperature=0.02, regularizer=gm.L2(0.5), max_iter=15, tol=-1)
    assert hinge.objective - 1e-7 <= soft.objective <= hinge.objective * 1.05


def test_soft_training_of_a_loopy_model_minimises_over_the_multipliers_too():
    samples = ring_samples(0)
    options = dict(loss="none", temperature=1.0, regularizer=gm.L2(0.1), decomposition="chains")
    model = gm.train(samples, max_iter=40, tol=1e-13, **options)
    objective = objective_of(samples, options)
    w = objective.layout.join(model.weights)
    assert model.objective < objective.value(w, objective.vertices(w)) - 1e-3  # lambda = 0 is worse
    assert model.objective >= enumerated(samples, objective.layout, 0.1)(w) - 1e-9
    assert model.history.gap[-1] < 1e-4


def test_bounds_on_single_weights_hold_in_soft_training():
    model = gm.train(
        chain_samples(),
        temperature=0.5,
        regularizer=gm.L2(0.1),
        max_iter=10,
        constraints={"u": gm.Box(-0.2, 0.1), "pair": gm.Fixed(np.full(6, 0.25))},
    )
    assert model.weights["u"].min() >= -0.2 and model.weights["u"].max() <= 0.1
    assert model.weights["u"].min() == pytest.approx(-0.2)
    np.testing.assert_allclose(model.weights["pair"], 0.25)


@pytest.mark.parametrize(
    "options, reason",
    [
        (dict(temperature=1.0, optimizer="bcfw"), "temperature > 0 needs the optimiser 'lbfgs'"),
        (dict(temperature=0.0, optimizer="lbfgs"), "needs a temperature > 0"),
        (dict(temperature=1.0, regularizer=gm.L1(0.1)), "only quadratic regularisers"),
        (dict(temperature=1.0, constraints=gm.Simplex()), "only bounds on single weights"),
    ],
)
def test_optimisers_say_what_they_cannot_do(options, reason):
    with pytest.raises(ValueError, match=reason):
        gm.train(chain_samples(), **options)


def test_negative_temperature_is_refused():
    with pytest.raises(ValueError, match="temperature"):
        gm.train(chain_samples(), temperature=-1.0)
