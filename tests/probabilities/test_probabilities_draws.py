"""The k best labellings and samples, against enumeration; many models at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from probability_cases import enumerated, random_model

import gmlearn as gm
from gmlearn.probabilities import best as module
from gmlearn.testing.brute_force import energy_table

seeds = st.integers(0, 10**6)
FEW = settings(deadline=None, max_examples=40)
KINDS = ("forest", "loopy", "hard", "triples", "unequal", "learnt")


def sorted_energies(crf, w):
    energy = np.sort(energy_table(crf, crf.check_weights(w)).ravel())
    return energy[np.isfinite(energy)]


def diverse(crf, w, k, min_distance):
    """Energies of the greedy diverse sequence, by enumeration."""
    table = energy_table(crf, crf.check_weights(w))
    x = np.indices(table.shape).reshape(crf.n_vars, -1).T
    energy, chosen = table.ravel().copy(), []
    for _ in range(k):
        at = int(energy.argmin())
        if not np.isfinite(energy[at]):
            break
        chosen.append(energy[at])
        energy[(x != x[at]).sum(axis=1) < min_distance] = np.inf
    return np.array(chosen)


@FEW
@given(seeds, st.sampled_from(KINDS))
def test_the_k_best_are_those_of_enumeration_in_order(seed, kind):
    crf, w = random_model(np.random.default_rng(seed), kind)
    known = sorted_energies(crf, w)[:6]
    found = gm.k_best(crf, w, k=6)
    np.testing.assert_allclose([r.energy for r in found], known, atol=1e-9)
    assert len({tuple(r.labels) for r in found}) == len(found)
    assert all(r.status == "optimal" and r.gap == 0 for r in found)
    assert all(crf.energy(r.labels, w) == pytest.approx(r.energy) for r in found)


@FEW
@given(seeds, st.sampled_from(["forest", "loopy", "hard"]), st.integers(2, 3))
def test_diverse_ones_keep_their_distance(seed, kind, min_distance):
    crf, w = random_model(np.random.default_rng(seed), kind)
    found = gm.k_best(crf, w, k=3, min_distance=min_distance)
    np.testing.assert_allclose([r.energy for r in found], diverse(crf, w, 3, min_distance))


@settings(deadline=None, max_examples=15)
@given(seeds, st.sampled_from(["loopy", "hard", "triples"]), st.integers(1, 3))
def test_constrained_solves_have_valid_bounds(seed, kind, min_distance):
    crf, w = random_model(np.random.default_rng(seed), kind)
    w = crf.check_weights(w)
    found = module._by_solving(crf, w, 3, min_distance, None, 0)
    table = energy_table(crf, w)
    x = np.indices(table.shape).reshape(crf.n_vars, -1).T
    far = np.isfinite(table.ravel())
    for r in found:
        assert r.bound <= table.ravel()[far].min() + 1e-9 <= r.energy + 2e-9
        assert far[np.ravel_multi_index(tuple(r.labels), table.shape)]
        far &= (x != r.labels).sum(axis=1) >= min_distance


def test_k_best_of_a_large_loopy_model():
    rng = np.random.default_rng(0)
    crf = gm.CRF(225, 3).add_unary(rng.normal(size=(225, 3)))
    crf.add(gm.Potts(gm.grid_edges(15, 15), 0.6))
    found = gm.k_best(crf, k=3, min_distance=5)
    assert len(found) == 3
    for i, r in enumerate(found):
        assert r.bound <= r.energy + 1e-9
        assert all(module.distance(r.labels, s.labels) >= 5 for s in found[:i])


def test_k_best_refuses_bad_input_and_an_infeasible_model_has_none():
    crf = gm.CRF(2, 2)
    with pytest.raises(ValueError, match="k: expected"):
        gm.k_best(crf, k=0)
    with pytest.raises(ValueError, match="min_distance: expected at most the 2 variables, got 3"):
        gm.k_best(crf, min_distance=3)
    assert gm.k_best(gm.CRF(1, 2).add_unary([[np.inf, np.inf]])) == []
    assert len(gm.k_best(crf, k=9)) == 4


@pytest.mark.parametrize("kind", ["forest", "loopy", "hard", "triples", "learnt"])
def test_samples_have_the_frequencies_of_enumeration(kind):
    crf, w = random_model(np.random.default_rng(1), kind)
    _, node, cliques = enumerated(crf, w, 0.7)
    drawn = gm.sample(crf, w, 20_000, seed=1, temperature=0.7)
    assert drawn.exact and drawn.method == "elimination" and len(drawn) == 20_000
    np.testing.assert_allclose(drawn.frequencies(node.shape[1]), node, atol=0.02)
    scope = crf.blocks[0].variables[0]
    joint = cliques[0][0]
    pairs = np.zeros(joint.shape)
    np.add.at(pairs, tuple(drawn[:, scope].T), 1 / len(drawn))
    np.testing.assert_allclose(pairs, joint, atol=0.02)
    again = gm.sample(crf, w, 20_000, seed=1, temperature=0.7)
    assert (again.labels == drawn.labels).all()


@pytest.mark.parametrize("kind", ["forest", "loopy", "hard", "triples", "learnt", "cardinality"])
@pytest.mark.parametrize("seed", [11, 12, 13])
def test_whole_labellings_are_drawn_as_often_as_they_should_be(kind, seed):
    """Pearson's test over all labellings, those that are expected less than 5 times together."""
    from scipy.stats import chisquare

    crf, w = random_model(np.random.default_rng(seed), kind)
    energy = energy_table(crf, crf.check_weights(w)).ravel()
    p = np.exp(energy.min() - energy) if np.isfinite(energy).any() else np.zeros(len(energy))
    if not p.any():
        pytest.skip("nothing is feasible")
    n = 5000
    drawn = gm.sample(crf, w, n, seed=seed).labels
    count = np.bincount(np.ravel_multi_index(tuple(drawn.T), crf.n_states), minlength=len(p))
    expected = n * p / p.sum()
    assert not count[p == 0].any()
    rare = expected < 5
    observed = np.append(count[~rare], count[rare].sum())
    expected = np.append(expected[~rare], max(expected[rare].sum(), 1e-9))
    if expected[-1] < 5:  # too few to stand on their own
        observed, expected = (np.append(a[:-2], a[-2:].sum()) for a in (observed, expected))
    if len(expected) > 1:
        assert chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-4


def test_samples_elsewhere_are_named_approximate(monkeypatch):
    monkeypatch.setattr("gmlearn.probabilities.samples.eliminable", lambda problem: None)
    crf = gm.CRF(4, 2).add_unary([[0, 0.5]] * 4)
    crf.add(gm.Potts([[0, 1], [1, 2], [2, 3], [0, 3]], 0.4))
    drawn = gm.sample(crf, n=10)
    assert not drawn.exact and "approximate" in repr(drawn)
    assert np.asarray(drawn).shape == (10, 4)
    # without cliques perturb-and-MAP is exact
    free = gm.CRF(1, 2).add_unary([[0.0, 1.0]])
    assert gm.sample(free, n=120).frequencies()[0, 1] == pytest.approx(0.269, abs=0.13)


def test_nothing_to_draw_is_said():
    with pytest.raises(ValueError, match="no labelling"):
        gm.sample(gm.CRF(1, 2).add_unary([[np.inf, np.inf]]), n=3)


def chains(n, rng):
    crfs = []
    for k in range(n):
        length = 2 + k % 3
        crf = gm.CRF(length, 3).add_unary(rng.normal(size=(length, 3)))
        crf.add(gm.LearntTable([[i, i + 1] for i in range(length - 1)], "pair"))
        crf.constant = float(k)
        crfs.append(crf)
    return crfs


def test_a_list_of_forests_gives_the_same_as_one_after_the_other():
    rng = np.random.default_rng(0)
    crfs, w = chains(5, rng), {"pair": rng.normal(size=6), "unused": np.zeros(2)}
    crfs[1].unary[:3] = np.inf
    many = gm.marginals(crfs, w, temperature=0.8)
    for k, (crf, m) in enumerate(zip(crfs, many)):
        one = gm.marginals(crf, {"pair": w["pair"]}, "brute-force", temperature=0.8)
        assert (m.status, m.log_partition) == (one.status, pytest.approx(one.log_partition))
        np.testing.assert_allclose(m.node, one.node, atol=1e-9)
        if k != 1:
            np.testing.assert_allclose(m.clique(0), one.clique(0), atol=1e-9)


@pytest.mark.parametrize("method", ["auto", "elimination"])
@pytest.mark.parametrize("kind", ["loopy", "hard", "ragged", "learnt"])
def test_a_list_of_loopy_models_is_eliminated_at_once(kind, method):
    found = [random_model(np.random.default_rng(seed), kind) for seed in range(12)]
    weights = found[0][1]
    crfs = [crf for crf, w in found if {n: np.shape(a) for n, a in w.items()} == shapes(weights)]
    crfs[0].constant = 2.5
    crfs[-1] = crfs[-1].clamp({0: 0})
    assert len(crfs) > 2
    many = gm.marginals(crfs, weights, method, temperature=0.7)
    for crf, m in zip(crfs, many):
        log_z, node, cliques = enumerated(crf, weights, 0.7)
        assert m.log_partition == pytest.approx(log_z, abs=1e-8)
        if log_z == -np.inf:
            assert m.status == "infeasible" and not m.node.any()
            continue
        assert m.status == "exact"
        np.testing.assert_allclose(m.node, node, atol=1e-9)
        joint = cliques[0][0]
        own = np.asarray(m.clique(0)[0])[tuple(map(slice, joint.shape))]
        np.testing.assert_allclose(own, joint, atol=1e-9)


def shapes(weights):
    return {name: np.shape(array) for name, array in weights.items()}


def test_one_model_of_a_list_may_be_infeasible():
    rng = np.random.default_rng(1)
    crfs = []
    for _ in range(3):
        crf = gm.CRF(3, 2).add_unary(rng.normal(size=(3, 2)))
        crf.add(gm.Table([[0, 1], [1, 2], [0, 2]], rng.normal(size=(3, 2, 2))))
        crfs.append(crf)
    # no two of three variables with two labels can be equal
    crfs[1].add(gm.Table([[0, 1], [1, 2], [0, 2]], [[[np.inf, 0.0], [0.0, np.inf]]] * 3))
    many = gm.marginals(crfs)
    assert [m.status.value for m in many] == ["exact", "infeasible", "exact"]
    for crf, m in zip(crfs, many):
        np.testing.assert_array_equal(m.node, gm.marginals(crf).node)
    crfs[2].unary[:2] = np.inf  # a variable without a label
    assert [m.status.value for m in gm.marginals(crfs)] == ["exact", "infeasible", "infeasible"]


def test_a_result_of_a_list_keeps_its_model():
    crfs = chains(2, np.random.default_rng(0))
    w = {"pair": np.arange(6.0)}
    many = gm.marginals(crfs, w)
    before = gm.marginals(crfs[0], w).clique(0)
    crfs[0].add_unary(np.full((2, 3), [0.0, 9.0, 9.0]))
    np.testing.assert_allclose(many[0].clique(0), before)


def test_a_list_of_large_tables_goes_one_by_one():
    ring = gm.CRF(3, 150)
    ring.add(gm.Potts([[0, 1], [1, 2], [0, 2]], 1.0))
    one = gm.marginals(ring)
    assert one.method == "elimination"
    assert [m.log_partition for m in gm.marginals([ring, ring])] == [one.log_partition] * 2
    assert gm.marginals([]) == []
    with pytest.raises(TypeError, match=r"crf\[1\]: expected a gmlearn.CRF, got int"):
        gm.marginals([ring, 3])


def test_a_result_gives_the_marginals_of_its_model():
    crf, w = random_model(np.random.default_rng(0), "learnt")
    m = gm.solve(crf, w).marginals(temperature=0.5)
    _, node, _ = enumerated(crf, w, 0.5)
    np.testing.assert_allclose(m.node, node, atol=1e-9)
