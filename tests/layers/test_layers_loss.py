"""structured_loss: values against enumeration, gradients against finite differences and training."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

import gmlearn as gm

CHAIN = [[0, 1], [1, 2], [2, 3]]
LOOP = [[0, 1], [1, 2], [2, 3], [0, 3], [0, 2]]
TRUTH = np.array([0, 1, 1, 2])


def numbers(seed=0):
    """Costs of a loopy model with a table and cliques, by name."""
    rng = np.random.default_rng(seed)
    return {
        "unary": rng.normal(size=(4, 3)),
        "strength": rng.random(5),
        "table": rng.normal(size=(3, 3)),
        "tables": rng.normal(size=(2, 3, 3, 3)),
        "beta": rng.normal(size=(1, 3)) - 1.0,
        "beta_max": rng.normal(size=1),
        "features": rng.normal(size=(4, 2)),
        "w": rng.normal(size=(3, 2)),
    }


def loopy(c):
    crf = gm.CRF(4, 3).add_unary(c["unary"])
    crf.add(gm.Potts(LOOP, c["strength"]))
    crf.add(gm.Pairwise([[1, 3], [0, 1]], table=c["table"]))
    crf.add(gm.Table([[0, 1, 2], [1, 2, 3]], c["tables"]))
    crf.add("pn_potts", cliques=[[0, 1, 2, 3]], beta=c["beta"], beta_max=c["beta_max"])
    crf.add(gm.Unary(c["features"], weight="w"))
    return crf


def chain(c):
    crf = gm.CRF(4, 3).add_unary(c["unary"])
    crf.add(gm.Potts(CHAIN, c["strength"][:3]))
    crf.add(gm.Unary(c["features"], weight="w"))
    return crf


def ragged_word(n, c):
    crf = gm.CRF(n, 3)
    crf.add(gm.Potts([[v, v + 1] for v in range(n - 1)], c["strength"][: n - 1]))
    crf.add(gm.Unary(c["features"][:n], weight="w"))
    return crf


def gradients(answer):
    """By the names of `numbers`."""
    strength, table, tables, (beta, beta_max), features = answer.blocks
    found = (answer.unary, strength, table, tables, beta, beta_max, features, answer.weights["w"])
    return dict(zip(numbers(), found))


def numerical(function, costs, name, step=1e-5):
    """Central differences of function(costs) in some entries of an array, NaN in the others."""
    out = np.full(costs[name].shape, np.nan)
    for index in list(np.ndindex(out.shape))[:: max(out.size // 6, 1)]:
        out[index] = 0.0
        for sign in (1, -1):
            moved = costs[name].copy()
            moved[index] += sign * step
            out[index] += sign * function({**costs, name: moved}) / (2 * step)
    return out


def expect_equal(found, expected):
    """Where `numerical` has looked."""
    seen = ~np.isnan(expected)
    np.testing.assert_allclose(found[seen], expected[seen], atol=1e-6)


def energies(crf, w):
    labellings = np.array(list(itertools.product(range(3), repeat=crf.n_vars)))
    return labellings, np.array([crf.energy(x, w) for x in labellings])


@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_likelihood_of_a_chain_is_exact(temperature):
    c = numbers()
    w = {"w": c["w"]}
    answer = gm.structured_loss(chain(c), TRUTH, w, kind="likelihood", temperature=temperature)
    _, e = energies(chain(c), w)
    expected = chain(c).energy(TRUTH, w) + temperature * np.log(np.exp(-e / temperature).sum())
    assert answer.value == pytest.approx(expected, abs=1e-10)
    assert answer.gap == 0.0


def test_hinge_of_a_chain_is_exact():
    c = numbers()
    w = {"w": c["w"]}
    answer = gm.structured_loss(chain(c), TRUTH, w)
    labellings, e = energies(chain(c), w)
    expected = chain(c).energy(TRUTH, w) - (e - (labellings != TRUTH).sum(axis=1)).min()
    assert answer.value == pytest.approx(expected, abs=1e-10)
    assert answer.gap == pytest.approx(0.0, abs=1e-10)


@pytest.mark.parametrize("name", sorted(numbers()))
@pytest.mark.parametrize("kind, tol", [("likelihood", 1e-14), ("sparsemap", 1e-10)])
def test_gradients_of_a_loopy_model_agree_with_finite_differences(kind, tol, name):
    def value(c):
        return answer_of(c).value

    def answer_of(c):
        return gm.structured_loss(
            loopy(c), TRUTH, {"w": c["w"]}, kind=kind, decomposition="chains", max_iter=500, tol=tol
        )

    c = numbers()
    found = gradients(answer_of(c))[name]
    assert found.shape == c[name].shape
    expect_equal(found, numerical(value, c, name))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["hinge", "likelihood"])
def test_subgradient_inequality_at_fixed_multipliers(kind, seed):
    rng = np.random.default_rng(seed)
    c = numbers(seed)
    at = gm.structured_loss(loopy(c), TRUTH, {"w": c["w"]}, kind=kind)
    slope = gradients(at)
    for scale in (1e-3, 0.1, 2.0):
        moved = {name: value + scale * rng.normal(size=value.shape) for name, value in c.items()}
        moved["w"], moved["features"] = c["w"], c["features"]  # bilinear in these two
        there = gm.structured_loss(
            loopy(moved), TRUTH, {"w": c["w"]}, kind=kind, state=at.state, max_iter=0
        )
        linear = sum(np.sum(slope[name] * (moved[name] - c[name])) for name in c)
        assert there.value >= at.value + linear - 1e-9


def test_sparsemap_of_a_chain_against_a_quadratic_program():
    import cvxpy as cp

    c = numbers()
    w = {"w": c["w"]}
    crf = chain(c)
    labellings, e = energies(crf, w)
    corners = np.eye(3)[labellings].reshape(len(e), -1)
    for temperature in (0.3, 2.0):
        share = cp.Variable(len(e), nonneg=True)
        cost = e @ share + 0.5 * temperature * cp.sum_squares(corners.T @ share)
        problem = cp.Problem(cp.Minimize(cost), [cp.sum(share) == 1])
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
        found = gm.relaxed(crf, w, method="sparsemap", temperature=temperature, tol=1e-12)
        np.testing.assert_allclose(found.node.ravel(), corners.T @ share.value, atol=1e-5)
        assert found.bound == pytest.approx(problem.value, abs=1e-8)
        answer = gm.structured_loss(
            crf, TRUTH, w, kind="sparsemap", temperature=temperature, tol=1e-12
        )
        expected = crf.energy(TRUTH, w) + 0.5 * temperature * 4 - problem.value
        assert answer.value == pytest.approx(expected, abs=1e-8)
        assert -1e-12 <= answer.gap < 1e-10
    assert (found.node == 0.0).any()


@pytest.mark.parametrize("seed", range(2))
def test_the_derivative_of_sparsemap(seed):
    c, rng = numbers(seed), np.random.default_rng(seed)
    change, step = rng.normal(size=(4, 3)), 1e-6

    def solution(unary):
        crf = loopy({**c, "unary": unary})
        return gm.relaxed(crf, {"w": c["w"]}, method="sparsemap", tol=1e-10)

    sides = [solution(c["unary"] + sign * step * change).node for sign in (1, -1)]
    found = solution(c["unary"]).pull_back(change)
    np.testing.assert_allclose(found, (sides[0] - sides[1]) / (2 * step), atol=1e-6)
    assert np.sum(found * change) <= 1e-12  # a label that costs more gets less


def test_perturbed_is_the_mean_over_noisy_models():
    c = numbers()
    w = {"w": c["w"]}
    answer = gm.structured_loss(
        chain(c), TRUTH, w, kind="perturbed", temperature=0.7, perturbations=5, seed=3
    )
    noise, total = np.random.default_rng(3), 0.0
    for _ in range(5):
        crf = chain(c)
        crf.unary = crf.unary + 0.7 * noise.normal(size=12)
        total += (crf.energy(TRUTH, w) - energies(crf, w)[1].min()) / 5
    assert answer.value == pytest.approx(total, abs=1e-10)
    for name, found in zip(("unary", "features"), (answer.unary, answer.blocks[1])):
        expected = numerical(
            lambda c: (
                gm.structured_loss(
                    chain(c), TRUTH, w, kind="perturbed", temperature=0.7, perturbations=5, seed=3
                ).value
            ),
            c,
            name,
        )
        expect_equal(found, expected)
    assert np.unique(np.round(answer.unary * 5, 9) % 1).tolist() == [0.0]


def test_hinge_gradients_where_slaves_agree():
    c = numbers(1)
    c["unary"] = 5.0 * c["unary"]  # so that the relaxation is tight

    def answer_of(c):
        return gm.structured_loss(loopy(c), TRUTH, {"w": c["w"]}, tol=0.0)

    answer = answer_of(c)
    assert answer.gap == pytest.approx(0.0, abs=1e-9)
    for name, found in gradients(answer).items():
        expected = numerical(lambda c: answer_of(c).value, c, name)
        expect_equal(found, expected)


def test_values_and_bounds_enclose_the_hinge():
    for seed in range(4):
        c = numbers(seed)
        w = {"w": c["w"]}
        answer = gm.structured_loss(loopy(c), TRUTH, w)
        labellings, e = energies(loopy(c), w)
        exact = loopy(c).energy(TRUTH, w) - (e - (labellings != TRUTH).sum(axis=1)).min()
        assert answer.bound - 1e-9 <= exact <= answer.value + 1e-9


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_same_as_the_objective_of_training_at_the_same_multipliers(temperature):
    c = [numbers(seed) for seed in range(3)]
    w = {"w": c[0]["w"]}
    kind, loss = ("likelihood", "none") if temperature else ("hinge", "hamming")
    answer = gm.structured_loss([loopy(each) for each in c], [TRUTH] * 3, w, kind=kind)
    options = gm.TrainingOptions(loss=loss, temperature=temperature, regularizer=gm.NoRegularizer())
    samples = [gm.Sample(loopy(each), TRUTH) for each in c]
    objective = gm.build_objective(samples, options)
    flat = objective.layout.join(w)
    for batch in objective.batches:
        kept = answer.state.costs[batch.first : batch.first + len(batch.samples)]
        batch.set_weights(flat)
        batch.dual.lam = batch.dual.centred(batch.dual.slaves.recall_each(kept))
    vertices = objective.vertices(flat)
    assert objective.value(flat, vertices) == pytest.approx(answer.value.sum(), abs=1e-9)
    slope = objective.layout.split(objective.slope(vertices))
    np.testing.assert_allclose(slope["w"], answer.weights["w"], atol=1e-9)


@pytest.mark.parametrize("kind", ["hinge", "likelihood", "sparsemap"])
def test_a_list_is_the_same_as_one_by_one(kind):
    rng = np.random.default_rng(3)
    crfs, truths = [], []
    for n in (3, 5, 1, 4):
        crf = gm.CRF(n, 2).add_unary(rng.normal(size=(n, 2)))
        crf.add(gm.Potts([[v, v + 1] for v in range(n - 1)] or np.zeros((0, 2), int), 0.3))
        if n == 5:
            crf.add(gm.Table([[0, 2, 4]], rng.normal(size=(2, 2, 2))))
        crfs.append(crf)
        truths.append(rng.integers(0, 2, n))
    together = gm.structured_loss(crfs, truths, kind=kind, max_iter=300, tol=1e-9)
    for k, (crf, truth) in enumerate(zip(crfs, truths)):
        alone = gm.structured_loss(crf, truth, kind=kind, max_iter=300, tol=1e-9)
        assert together.value[k] == pytest.approx(alone.value, abs=1e-6)
        np.testing.assert_allclose(together.unary[k], alone.unary, atol=1e-5)
        assert len(together.blocks[k]) == len(alone.blocks)
        for a, b in zip(together.blocks[k], alone.blocks):
            np.testing.assert_allclose(a, b, atol=1e-5)


def test_variables_of_different_numbers_of_states():
    rng = np.random.default_rng(0)
    crf = gm.CRF([2, 3, 4]).add_unary([rng.normal(size=n) for n in (2, 3, 4)])
    tables = [rng.normal(size=(2, 3)), rng.normal(size=(3, 4))]
    crf.add(gm.Table([[0, 1], [1, 2]], tables))
    answer = gm.structured_loss(crf, [1, 2, 3], kind="likelihood")
    assert answer.unary.shape == (3, 4)
    assert (answer.unary[0, 2:] == 0).all()
    np.testing.assert_allclose(answer.unary.sum(axis=1), 0.0, atol=1e-12)
    assert [g.shape for g in answer.blocks[0]] == [(2, 3), (3, 4)]
    np.testing.assert_allclose(answer.blocks[0][0].sum(axis=0), answer.unary[1, :3], atol=1e-12)


@pytest.mark.parametrize("kind", ["hinge", "likelihood"])
def test_a_state_goes_on_where_the_last_call_ended(kind):
    c = [numbers(seed) for seed in range(3)]
    crfs, w = [loopy(each) for each in c], {"w": c[0]["w"]}
    first = gm.structured_loss(crfs, [TRUTH] * 3, w, kind=kind, decomposition="chains")
    cold = gm.structured_loss(crfs, [TRUTH] * 3, w, kind=kind, decomposition="chains", max_iter=0)
    assert cold.value.sum() > first.value.sum() + 1e-3
    order = [2, 0, 1]
    state = pickle.loads(pickle.dumps(first.state))
    for kept in (first.state, state):
        again = gm.structured_loss(
            crfs, [TRUTH] * 3, w, kind=kind, decomposition="chains", max_iter=0, state=kept
        )
        np.testing.assert_allclose(again.value, first.value, atol=1e-9)
    # the dual costs of a sample do not depend on its place among others
    moved = gm.LossState([state.costs[k] for k in order])
    shuffled = gm.structured_loss(
        [crfs[k] for k in order],
        [TRUTH] * 3,
        w,
        kind=kind,
        decomposition="chains",
        max_iter=0,
        state=moved,
    )
    np.testing.assert_allclose(shuffled.value, first.value[order], atol=1e-9)


@pytest.mark.parametrize("kind", ["hinge", "likelihood"])
def test_other_unary_costs_of_the_same_blocks(kind):
    c = numbers()
    w, first = {"w": c["w"]}, loopy(c)
    state = gm.structured_loss(first, TRUTH, w, kind=kind).state
    for unary in (c["unary"] + 0.1, np.where(np.eye(4, 3), np.inf, c["unary"])):
        crf = first.copy()
        crf.unary = unary.ravel()
        truth = [1, 0, 0, 0]
        for labels in (TRUTH, truth):
            if not np.isfinite(crf.energy(labels, w)):
                continue
            warm = gm.structured_loss(crf, labels, w, kind=kind, state=state, max_iter=0)
            fresh = gm.LossState(state.costs)
            plain = gm.structured_loss(crf, labels, w, kind=kind, state=fresh, max_iter=0)
            assert warm.value == pytest.approx(plain.value, abs=1e-9)
            np.testing.assert_allclose(warm.unary, plain.unary, atol=1e-9)


def test_hidden_variables_are_completed():
    c = numbers()
    w, hidden = {"w": c["w"]}, np.array([False, True, False, True])
    answer = gm.structured_loss(chain(c), TRUTH, w, hidden=hidden, kind="likelihood")
    clamped = chain(c).clamp(np.where(hidden, -1, TRUTH))
    completed = gm.solve(clamped, w).labels
    plain = gm.structured_loss(chain(c), completed, w, kind="likelihood")
    assert answer.value == pytest.approx(plain.value, abs=1e-10)
    np.testing.assert_allclose(answer.unary, plain.unary, atol=1e-12)


def test_bad_input_is_refused():
    c = numbers()
    crf, w = chain(c), {"w": c["w"]}
    bad = crf.copy()
    bad.unary = crf.unary.copy()
    bad.unary[4] = np.nan
    with pytest.raises(ValueError, match=r"samples\[1\]\.crf\.unary: contains NaN.*variable 1"):
        gm.structured_loss([crf, bad], [TRUTH, TRUTH], w)
    with pytest.raises(ValueError, match="kind"):
        gm.structured_loss(crf, TRUTH, w, kind="hinges")
    with pytest.raises(ValueError, match="truth: expected one for each of 2 models, got 1"):
        gm.structured_loss([crf, crf], [TRUTH], w)
    with pytest.raises(ValueError, match="weights"):
        gm.structured_loss(crf, TRUTH)
    with pytest.raises(ValueError, match=r"samples\[0\].*labels"):
        gm.structured_loss(crf, [0, 1, 5, 0], w)
    state = gm.structured_loss(crf, TRUTH, w).state
    with pytest.raises(ValueError, match="state: made for 1 models, got 2"):
        gm.structured_loss([crf, crf], [TRUTH, TRUTH], w, state=state)


@pytest.mark.parametrize("kind", ["hinge", "likelihood", "sparsemap", "perturbed"])
def test_a_plan_is_the_loss_at_other_costs_labels_and_weights(kind):
    sizes = (3, 4, 2)
    c = numbers()
    rng = np.random.default_rng(5)
    models = [ragged_word(n, c) for n in sizes]
    truths = [rng.integers(0, 3, n) for n in sizes]
    plan = gm.LossPlan(models, truths, kind=kind, tol=1e-9)
    for _ in range(3):
        rows = [rng.normal(size=(n, 3)) for n in sizes]
        labels = [rng.integers(0, 3, n) for n in sizes]
        w = {"w": rng.normal(size=(3, 2))}
        fed = [m.copy().add_unary(u) for m, u in zip(models, rows)]
        expected = gm.structured_loss(fed, labels, w, kind=kind, tol=1e-9)
        padded = np.zeros((3, 4, 3))
        whole = np.zeros((3, 4), int)
        for k, n in enumerate(sizes):
            padded[k, :n], whole[k, :n] = rows[k], labels[k]
        for unary, truth in ((rows, labels), (padded, whole)):
            found = plan(unary, w, truth=truth)
            np.testing.assert_allclose(found.value, expected.value, atol=1e-8)
            for a, b in zip(found.unary, expected.unary):
                np.testing.assert_allclose(a, b, atol=1e-6)
            np.testing.assert_allclose(found.weights["w"], expected.weights["w"], atol=1e-6)
            for a, b in zip(found.blocks, expected.blocks):
                np.testing.assert_allclose(a[0], b[0], atol=1e-6)


def test_a_plan_of_one_model_with_labels_that_become_forbidden():
    c = numbers()
    plan = gm.LossPlan(loopy({**c, "unary": np.zeros((4, 3))}), TRUTH, kind="likelihood")
    forbidden = np.where(np.arange(12).reshape(4, 3) == 2, np.inf, c["unary"])
    for unary in (c["unary"], forbidden, c["unary"]):
        found = plan(unary, {"w": c["w"]})
        expected = gm.structured_loss(
            loopy({**c, "unary": unary}), TRUTH, {"w": c["w"]}, kind="likelihood"
        )
        assert found.value == pytest.approx(expected.value, abs=1e-9)
    assert found.unary.shape == (4, 3)


def test_blocks_of_an_earlier_answer_are_those_of_its_costs():
    c = numbers()
    plan = gm.LossPlan(loopy({**c, "unary": np.zeros((4, 3))}), TRUTH, kind="likelihood")
    first = plan(c["unary"], {"w": c["w"]})
    plan(-c["unary"], {"w": -c["w"]}, truth=[2, 2, 0, 0])
    expected = gm.structured_loss(loopy(c), TRUTH, {"w": c["w"]}, kind="likelihood")
    np.testing.assert_allclose(first.blocks[0], expected.blocks[0], atol=1e-9)
    copied = pickle.loads(pickle.dumps(first))
    np.testing.assert_array_equal(copied.blocks[0], first.blocks[0])


def test_a_plan_names_sample_and_tensor_of_bad_input():
    c = numbers()
    plan = gm.LossPlan([ragged_word(3, c), ragged_word(2, c)], [[0, 1, 1], [2, 0]])
    w = {"w": c["w"]}
    broken = [np.zeros((3, 3)), np.array([[0.0, 0.0, 0.0], [0.0, np.nan, 0.0]])]
    with pytest.raises(ValueError, match=r"unary\[1\]: the cost of variable 1, label 1 is nan"):
        plan(broken, w)
    with pytest.raises(ValueError, match=r"unary\[0\]: expected shape \(3, 3\), got \(2, 3\)"):
        plan([np.zeros((2, 3))] * 2, w)
    with pytest.raises(ValueError, match="unary: expected one for each of 2 samples, got 1"):
        plan([np.zeros((3, 3))], w)
    with pytest.raises(ValueError, match=r"truth\[1\]: expected shape \(2,\), got \(1,\)"):
        plan(None, w, truth=[[0, 0, 0], [0]])
    with pytest.raises(ValueError, match=r"truth\[1\]: variable 0 has states 0\.\.2"):
        plan(None, w, truth=[[0, 0, 0], [3, 0]])
    with pytest.raises(ValueError, match="truth: expected whole numbers, got 0"):
        plan(None, w, truth=[[0, 0, 0], [0.5, 0]])


@pytest.mark.parametrize("kind", ["hinge", "likelihood"])
def test_models_keep_their_costs(kind):
    c = numbers()
    crf, w = chain(c), {"w": c["w"]}
    before = crf.unary.copy()
    plan = gm.LossPlan(crf, TRUTH, kind=kind)
    first = plan(c["unary"], w).value
    state = gm.structured_loss(crf, TRUTH, w, kind=kind).state
    other = crf.copy().add_unary(c["unary"])
    gm.structured_loss(other, TRUTH, w, kind=kind, state=state)
    np.testing.assert_array_equal(crf.unary, before)
    assert plan(c["unary"], w).value == first
