"""Batches out of a plan: samples chosen anew for each call, in any order."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gmlearn as gm
from gmlearn.layers.host import Host
from gmlearn.layers.loss import LossOptions
from gmlearn.layers.models import Models

KINDS = ("hinge", "likelihood", "sparsemap", "perturbed")


def mixed(seed, n=7):
    """Models of different sizes, states and potentials, with labels and costs for each."""
    rng = np.random.default_rng(seed)
    crfs, truths, costs = [], [], []
    for k in range(n):
        states = rng.integers(2, 4, 3 + k % 3)
        states[[0, 2]] = 3
        crf = gm.CRF(states)
        crf.add_unary([rng.normal(size=s) for s in states])
        edges = np.stack([np.arange(len(states) - 1), np.arange(1, len(states))], axis=1)
        tables = [rng.normal(size=(states[a], states[b])) for a, b in edges]
        crf.add(gm.Table(edges, tables))
        if k % 2:
            crf.add(gm.Potts(edges, weight="pair", contrast=rng.random(len(edges))))
        if k % 3 == 0:
            crf.add("pn_potts", cliques=[[0, 1, 2], list(range(len(states)))], beta=-0.5)
        if k % 3 == 1:
            crf.add(gm.Unary(rng.normal(size=(2, 3, 2)), weight="u", variables=[2, 0]))
        crf.constant = float(k)
        crfs.append(crf)
        truths.append(np.array([rng.integers(s) for s in states]))
        costs.append(rng.normal(size=(len(states), states.max())))
    return crfs, truths, costs, {"pair": np.array(0.3), "u": np.array([0.2, -0.4])}


def weights_of(crfs, w):
    return {name: w[name] for crf in crfs for name in crf.layout.shapes}


def fed(crfs, costs):
    """The models with costs of their own."""
    given = zip(crfs, costs)
    return [crf.copy().add_unary([r[:s] for r, s in zip(c, crf.n_states)]) for crf, c in given]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", [None, "hamming", gm.WeightedHamming([1.0, 2.0, 0.5])])
def test_chosen_samples_are_as_without_a_plan(kind, loss):
    crfs, truths, costs, w = mixed(0)
    options = dict(kind=kind, loss=loss, max_iter=60, tol=1e-9, perturbations=3)
    plan = gm.LossPlan(crfs, truths, **options)
    for numbers in ([4, 0, 6], [2, 2, 5, 1], [3]):
        answer = plan([costs[k] for k in numbers], w, samples=numbers)
        own, labels, given = [[a[k] for k in numbers] for a in (crfs, truths, costs)]
        models = fed(own, given)
        together = gm.structured_loss(models, labels, weights_of(models, w), **options)
        np.testing.assert_allclose(answer.value, together.value, rtol=1e-9)
        for a, b in zip(answer.unary, together.unary):
            np.testing.assert_allclose(a, b, atol=1e-7)
        for name, value in together.weights.items():
            np.testing.assert_allclose(answer.weights[name], value, atol=1e-7)
        for a, b in zip(answer.blocks, together.blocks):
            assert len(a) == len(b)
        if kind == "perturbed":  # the noise is that of the batch
            continue
        apart = [
            gm.structured_loss(crf, y, weights_of([crf], w), **options)
            for crf, y in zip(models, labels)
        ]
        np.testing.assert_allclose(answer.value, [a.value for a in apart], atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_models_that_are_taken_have_the_energies_of_their_parts(seed):
    crfs, _, _, w = mixed(seed, 9)
    models = Models(crfs, "auto")
    assert models.union is not None
    rng = np.random.default_rng(seed)
    for numbers in (rng.permutation(9), rng.integers(0, 9, 5), np.array([8])):
        union = models.take(numbers, models.unary(numbers))
        labels = [np.array([rng.integers(s) for s in crfs[k].n_states]) for k in numbers]
        apart = [crfs[k].energy(x, weights_of([crfs[k]], w)) for k, x in zip(numbers, labels)]
        own = weights_of([union], w)
        assert np.isclose(union.energy(np.concatenate(labels), own), sum(apart))
        each = union.energies(np.concatenate(labels), own)
        np.testing.assert_allclose(each + [crfs[k].constant for k in numbers], apart)


def test_few_tables_of_many_are_cut_out():
    edges, rng = np.array([[0, 1], [1, 2]]), np.random.default_rng(0)
    crfs = [gm.CRF(3, 4) for _ in range(50)]
    for crf in crfs:
        crf.add(gm.Table(edges, rng.normal(size=(2, 4, 4))))
    models = Models(crfs, "auto")
    numbers = np.array([7, 40, 7])
    block = models.take(numbers, models.unary(numbers)).blocks[0]
    assert len(block.values) == 2 * 2 * 16


def test_a_plan_does_not_see_later_changes_of_its_models():
    crfs, truths, costs, w = mixed(1, 4)
    plan = gm.LossPlan(crfs, truths, kind="likelihood")
    before = plan([costs[k] for k in (2, 1)], w, samples=[2, 1]).value
    for crf in crfs:
        crf.unary += 1000.0 * np.arange(len(crf.unary))
        crf.add(gm.Table([[0, 1]], np.full((1, *crf.n_states[:2]), 7.0)))
    np.testing.assert_array_equal(plan([costs[k] for k in (2, 1)], w, samples=[2, 1]).value, before)
    # nor those that are planned first
    fresh = gm.LossPlan(mixed(1, 4)[0], truths, kind="likelihood")
    numbers = [0, 3]
    np.testing.assert_array_equal(
        plan([costs[k] for k in numbers], w, samples=numbers).value,
        fresh([costs[k] for k in numbers], w, samples=numbers).value,
    )


def test_models_built_anew_with_arrays_that_changed_in_place():
    """Nothing is remembered between two calls of `structured_loss` without a state."""
    rng = np.random.default_rng(0)
    features, contrast = rng.normal(size=(4, 2)), rng.random(3)
    edges, w = np.array([[0, 1], [1, 2], [2, 3]]), {"u": rng.normal(size=(3, 2))}

    def loss():
        crf = gm.CRF(4, 3)
        crf.add(gm.Unary(features, weight="u"))
        crf.add(gm.Potts(edges, contrast))
        return gm.structured_loss([crf] * 3, [[0, 1, 2, 0]] * 3, w, kind="likelihood").value

    before = loss()
    features[0, 0] += 1.0
    between = loss()
    contrast[1] += 1.0
    after = loss()
    features[0, 0] -= 1.0
    contrast[1] -= 1.0
    assert (before != between).all() and (between != after).all()
    np.testing.assert_allclose(loss(), before)


def test_a_layer_keeps_the_dual_state_of_each_sample_in_shuffled_batches():
    rng = np.random.default_rng(0)
    models, truths = [], []
    for n in (4, 5, 6, 4, 5):
        crf = gm.CRF(n, 3)
        ring = np.stack([np.arange(n), np.roll(np.arange(n), -1)], axis=1)
        crf.add(gm.Potts(ring, rng.normal(size=n)))
        models.append(crf)
        truths.append(rng.integers(0, 3, n))
    costs = [rng.normal(size=(crf.n_vars, 3)) for crf in models]
    host = Host.of_loss(models, "hinge", "sum", {"decomposition": "per-clique", "tol": 1e-7})
    whole = gm.structured_loss(
        [crf.copy().add_unary(u) for crf, u in zip(models, costs)],
        truths,
        decomposition="per-clique",
        tol=1e-7,
    )
    host.options = LossOptions("hinge", decomposition="per-clique", max_iter=60)
    for _ in range(3):
        order = rng.permutation(5)
        total = 0.0
        for ids in (order[:2], order[2:]):
            batch = [costs[k] for k in ids], [truths[k] for k in ids]
            total += host.loss(*batch, None, None, ids)[0]
    assert sorted(host.kept) == list(range(5))
    np.testing.assert_allclose(total, whole.value.sum(), rtol=1e-3)
    # at multipliers that were kept one round is enough
    host.options = LossOptions("hinge", decomposition="per-clique", max_iter=0)
    host._plans.options = host.options
    host._plans._known.clear()
    warm = sum(host.loss([costs[k]], [truths[k]], None, None, [k])[0] for k in (3, 1, 4, 0, 2))
    np.testing.assert_allclose(warm, total, rtol=1e-2)


@pytest.mark.parametrize("kind", ["hinge", "likelihood"])
def test_the_answers_are_the_same_for_every_number_of_threads(kind):
    crfs, truths, costs, w = mixed(2, 12)
    rng = np.random.default_rng(0)
    jobs = [rng.permutation(12)[: 1 + k % 5] for k in range(40)] * 2  # some batches at once
    plan = gm.LossPlan(crfs, truths, kind=kind, max_iter=20)

    def by_plan(numbers):
        answer = plan([costs[k] for k in numbers], w, samples=numbers)
        blocks = [a for own in answer.blocks for a in own if isinstance(a, np.ndarray)]
        return [*answer.value, *answer.unary, *answer.weights.values(), *blocks]

    def alone(numbers):
        models = fed([crfs[k] for k in numbers], [costs[k] for k in numbers])
        labels = [truths[k] for k in numbers]
        own = weights_of(models, w)
        answer = gm.structured_loss(models, labels, own, kind=kind, max_iter=20)
        return [*answer.value, *answer.unary]

    for work in (by_plan, alone):
        expected = [work(numbers) for numbers in jobs]
        for n_threads in (2, 5):
            with ThreadPoolExecutor(n_threads) as pool:
                for found, right in zip(pool.map(work, jobs), expected):
                    assert len(found) == len(right)
                    for a, b in zip(found, right):
                        np.testing.assert_array_equal(a, b)


def test_a_layer_in_several_threads_keeps_each_sample_its_state():
    crfs, truths, costs, w = mixed(3, 12)
    batches = np.split(np.random.default_rng(0).permutation(12), 4)

    def epochs(n_threads):
        host = Host.of_loss(crfs, "hinge", "sum", {"max_iter": 3})

        def work(ids):
            return host.loss([costs[k] for k in ids], [truths[k] for k in ids], w, None, ids)[0]

        with ThreadPoolExecutor(n_threads) as pool:
            return [list(pool.map(work, batches)) for _ in range(3)]

    assert epochs(1) == epochs(4)
    assert epochs(1)[0] != epochs(1)[2]


def test_gradients_of_a_plan_have_the_precision_of_its_costs():
    crfs, truths, costs, w = mixed(0, 3)
    plan = gm.LossPlan(crfs, truths, kind="likelihood")
    exact = plan(costs, w)
    single = plan([cost.astype(np.float32) for cost in costs], w)
    for a, b in zip(single.unary, exact.unary):
        assert (a.dtype, b.dtype) == (np.float32, np.float64)
        np.testing.assert_allclose(a, b, atol=1e-5)
    alone = gm.LossPlan(crfs[0], truths[0])
    assert alone(costs[0].astype(np.float32)).unary.dtype == np.float32


def test_bad_samples_are_refused():
    crfs, truths, costs, w = mixed(0, 3)
    plan = gm.LossPlan(crfs, truths, kind="likelihood")
    with pytest.raises(ValueError, match=r"samples: expected numbers in 0\.\.2, got 3"):
        plan(None, w, samples=[0, 3])
    with pytest.raises(ValueError, match="samples: expected"):
        plan(None, w, samples=[])
    with pytest.raises(ValueError, match="samples"):
        plan(None, w, samples=[0.5])
    costs[2][1, 0] = np.nan
    with pytest.raises(ValueError, match=r"unary\[0\] \(sample 2\): the cost of variable 1"):
        plan([costs[2], costs[0]], w, samples=[2, 0])
    with pytest.raises(ValueError, match="one model"):
        gm.LossPlan(crfs[0], truths[0])(costs[0], w, samples=[0])
