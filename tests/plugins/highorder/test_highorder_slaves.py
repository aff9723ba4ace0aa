"""Every slave equals enumeration: minima, minimisers, min-marginals, log-partitions, with ties,
zeros and inf.
"""

import numpy as np
import pytest
from gmlearn_highorder import PnPotts
from highorder_cases import KINDS, clique_totals, ensure_registered, numbers, random_case

import gmlearn as gm

N_CASES = 250
SOFT = [k for k, (_, solver) in KINDS.items() if solver.has("log_partition")]


def cases(kind, n=N_CASES):
    for seed in range(n):
        block, w, theta, solver = random_case(kind, np.random.default_rng(seed))
        group = gm.CliqueGroup(block, solver, np.arange(0, 100 * 8, 100))
        yield block, w, theta, group


@pytest.mark.parametrize("kind", KINDS)
def test_minima_equal_enumeration(kind):
    for block, w, theta, group in cases(kind):
        before = theta.copy()
        result = group.solve(theta, group.prepare(w))
        truth = np.array([t.min() for t in clique_totals(block, w, theta)])
        np.testing.assert_allclose(result.value, truth, atol=1e-10)
        np.testing.assert_array_equal(theta, before)
        assert ((result.labels >= 0) & (result.labels < block.member_states)).all()
        chosen = theta[group.ptr[:-1] + result.labels]
        member_owner = np.repeat(np.arange(len(block)), np.diff(block.indptr))
        paid = np.bincount(member_owner, np.where(np.isinf(chosen), 0, chosen), len(block))
        paid = paid + group.energy(result.labels, w)
        possible = np.isfinite(result.value)
        np.testing.assert_allclose(paid[possible], truth[possible], atol=1e-10)
        assert np.isfinite(chosen[possible[member_owner]]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_min_marginals_equal_enumeration(kind):
    for block, w, theta, group in cases(kind):
        found = group.min_marginals(theta, group.prepare(w))
        truth = []
        for t in clique_totals(block, w, theta):
            truth += [t.min(axis=tuple(a for a in range(t.ndim) if a != i)) for i in range(t.ndim)]
        np.testing.assert_allclose(found, np.concatenate(truth), atol=1e-10)


def test_min_marginals_of_one_member_of_each_pn_clique():
    solver = KINDS["pn_potts"][1]
    for block, w, theta, group in cases("pn_potts", 100):
        padded, prepared = group.shaped(theta), group.prepare(w)
        member = np.random.default_rng(8).integers(0, np.diff(block.indptr))
        found = solver.member_marginals(block, padded, prepared, member)
        np.testing.assert_allclose(
            found,
            solver.min_marginals(block, padded, prepared)[block.indptr[:-1] + member],
            atol=1e-12,
        )


def test_pn_potts_with_betas_above_beta_max():
    """All members prefer one label whose beta is above beta_max: the best mixed labelling is one
    cheapest change away.
    """
    changed = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        k, size = int(rng.integers(1, 5)), int(rng.integers(2, 5))
        theta = numbers(rng, (k, size), coarse=seed % 2 == 0)
        theta[:, rng.integers(size)] -= 2.0
        block = PnPotts([np.arange(k)], rng.uniform(0.0, 3.0, size=size), -1.0).bind(
            np.full(k, size)
        )
        group = gm.CliqueGroup(block, KINDS["pn_potts"][1], np.arange(k + 1) * size)
        result = group.solve(theta.ravel(), group.prepare({}))
        truth = next(clique_totals(block, {}, theta.ravel()))
        np.testing.assert_allclose(result.value[0], truth.min(), atol=1e-12)
        np.testing.assert_allclose(truth[tuple(result.labels)], truth.min(), atol=1e-12)
        own = theta.argmin(axis=1)
        changed += bool((own == own[0]).all() and (result.labels != result.labels[0]).any())
    assert changed > 100


@pytest.mark.parametrize("kind", KINDS)
def test_clique_features_are_those_of_single_cliques(kind):
    """Slave by slave, and summed: the two ways in which training reads features."""
    for block, *_ in cases(kind, 60):
        x = np.random.default_rng(7).integers(0, block.member_states)
        each, total = (
            block.clique_features(block.shape_members(x)),
            block.features(block.shape_members(x)),
        )
        assert each is not None and {n: v.shape for n, v in each.items()} == {
            n: (len(block), *shape) for n, shape in block.segments().items()
        }
        for name, value in each.items():
            np.testing.assert_allclose(value.sum(axis=0), total[name], atol=1e-12)
            for m in range(len(block)):
                part = block.take(np.array([m]))
                one = part.features(part.shape_members(x[block.indptr[m] : block.indptr[m + 1]]))
                np.testing.assert_allclose(value[m], one[name], atol=1e-12)


@pytest.mark.parametrize("temperature", [1.0, 0.1])
@pytest.mark.parametrize("kind", SOFT)
def test_log_partition_equals_enumeration(kind, temperature):
    for block, w, theta, group in cases(kind, 120):
        found = group.log_partition(theta, group.prepare(w), temperature)
        marginals, expected = (
            [],
            {name: np.zeros(shape) for name, shape in block.segments().items()},
        )
        for m, t in enumerate(clique_totals(block, w, theta)):
            assert np.isinf(found.value[m]) == np.isinf(t.min())
            if np.isinf(t.min()):
                marginals += [np.full(s, np.nan) for s in t.shape]
                continue
            p = np.exp(-(t - t.min()) / temperature)
            np.testing.assert_allclose(
                found.value[m], t.min() - temperature * np.log(p.sum()), atol=1e-9
            )
            p /= p.sum()
            marginals += [
                p.sum(axis=tuple(a for a in range(t.ndim) if a != i)) for i in range(t.ndim)
            ]
            x = np.indices(t.shape).reshape(t.ndim, -1).T
            part = block.take(np.full(len(x), m))
            for name, value in part.features(part.shape_members(x.ravel()), p.ravel()).items():
                expected[name] += value
        marginals = np.concatenate(marginals)
        known = ~np.isnan(marginals)
        np.testing.assert_allclose(found.marginals[known], marginals[known], atol=1e-9)
        if known.all():
            assert set(found.features) == set(expected)
            for name in expected:
                np.testing.assert_allclose(found.features[name], expected[name], atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_batch_equals_one_by_one(kind):
    for _, w, theta, group in cases(kind, 30):
        whole = group.solve(theta, group.prepare(w))
        marginals = group.min_marginals(theta, group.prepare(w))
        for m in range(group.n):
            part = group.take(np.array([m]))
            mine = group.owner == m
            one = part.solve(theta[mine], part.prepare(w))
            np.testing.assert_array_equal(one.ind, whole.ind[mine])
            # w . z may round by batch size
            np.testing.assert_allclose(one.value, whole.value[[m]], atol=1e-13)
            np.testing.assert_allclose(
                part.min_marginals(theta[mine], part.prepare(w)), marginals[mine], atol=1e-12
            )


@pytest.mark.parametrize("kind", KINDS)
def test_empty_batch(kind):
    block, w, _, solver = random_case(kind, np.random.default_rng(0))
    group = gm.CliqueGroup(block.take(np.zeros(0, np.int64)), solver, np.arange(0, 800, 100))
    result = group.solve(np.zeros(0), group.prepare(w))
    assert result.value.shape == (0,) and result.ind.shape == (0,)
    assert group.features(result).keys() == block.segments().keys()


@pytest.mark.parametrize("kind", KINDS)
def test_indicators_and_features_are_supergradients(kind):
    """Minima are concave in theta and in w; indicators and features are their slopes."""
    rng = np.random.default_rng(5)
    for block, w, theta, group in cases(kind, 60):
        theta = np.where(np.isinf(theta), 3.0, theta)
        result = group.solve(theta, group.prepare(w))
        move = rng.normal(size=theta.shape)
        slope = np.bincount(group.owner, result.ind * move, group.n)
        possible = np.isfinite(result.value)
        assert (group.solve(theta + move, group.prepare(w)).value <= result.value + slope + 1e-9)[
            possible
        ].all()
        other = {name: rng.normal(size=shape) for name, shape in block.segments().items()}
        if other and possible.all():
            rise = sum(
                float(np.sum(g * (other[name] - w[name])))
                for name, g in group.features(result).items()
            )
            assert (
                group.solve(theta, group.prepare(other)).value.sum()
                <= result.value.sum() + rise + 1e-9
            )


@pytest.mark.parametrize("kind", KINDS)
def test_energy_is_linear_in_the_weights(kind):
    rng = np.random.default_rng(6)
    for block, _, _, group in cases(kind, 60):
        x = block.shape_members(rng.integers(0, block.member_states))
        zero = {name: np.zeros(shape) for name, shape in block.segments().items()}
        w = {name: rng.normal(size=shape) for name, shape in block.segments().items()}
        constant, features = block.energy(x, zero), block.features(x)
        assert {n: g.shape for n, g in features.items()} == block.segments()
        expected = constant.sum() + sum(float(np.sum(features[n] * w[n])) for n in w)
        np.testing.assert_allclose(block.energy(x, w).sum(), expected, atol=1e-9)
        weight = rng.random(len(block))
        weighted = block.features(x, weight)
        for n in w:
            single = [
                block.take(np.array([m])).features(
                    group.block.take(np.array([m])).shape_members(
                        x.ravel()[block.indptr[m] : block.indptr[m + 1]]
                    )
                )[n]
                for m in range(len(block))
            ]
            np.testing.assert_allclose(
                weighted[n], sum(weight[m] * single[m] for m in range(len(block))), atol=1e-9
            )


@pytest.mark.parametrize(
    "solver", sorted({s.name: s for _, s in KINDS.values()}.items()), ids=lambda item: item[0]
)
def test_examples_for_the_conformance_kit(solver):
    """What the kit will see is accepted by the solver and by enumeration, and both agree."""
    ensure_registered()
    enumeration = next(
        e.obj for e in gm.plugins() if e.kind == "slave solver" and e.name == "enumeration"
    )
    rng = np.random.default_rng(9)
    examples = solver[1].examples(rng)
    assert examples
    for block, w in examples:
        assert solver[1].refuses(block) is None and enumeration.refuses(block) is None
        assert {n: np.shape(v) for n, v in w.items()} == block.segments()
        theta = rng.normal(size=int(block.member_states.sum()))
        ours, spec = (
            gm.CliqueGroup(block, s, np.arange(100) * 10) for s in (solver[1], enumeration)
        )
        np.testing.assert_allclose(
            ours.solve(theta, ours.prepare(w)).value, spec.solve(theta, spec.prepare(w)).value
        )
