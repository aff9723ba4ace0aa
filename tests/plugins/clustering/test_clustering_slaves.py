"""Point and cluster slaves, completion, loss and the learning objective against enumeration."""

from itertools import product

import numpy as np
import pytest
from gmlearn_clustering import (
    ClusteringLoss,
    clustering_loss,
    exemplar_model,
    medoid_completion,
    training_slaves,
)
from gmlearn_clustering.distances import EuclideanSample, MatrixSample
from hypothesis import given, settings
from hypothesis import strategies as st

import gmlearn as gm


def problem(seed, n, ties=False):
    """A random sample with signed penalty, its slaves, weights and multipliers that sum to zero
    per exemplar.
    """
    rng = np.random.default_rng(seed)
    cluster = np.unique(rng.integers(0, min(3, n), n), return_inverse=True)[1]
    features = rng.integers(0, 3, (2, n, n)).astype(float) if ties else rng.random((2, n, n))
    for f in features:
        np.fill_diagonal(f, 0.0)
    alpha, beta = rng.choice([0.0, 0.5, 1.0, 2.0], 2)
    penalty = float(rng.choice([-1.0, 0.0, 0.7, 2.0]))
    slaves = training_slaves(MatrixSample(features), cluster, alpha, beta, penalty)
    slaves.cluster, slaves.alpha, slaves.beta, slaves.penalty = cluster, alpha, beta, penalty
    w = {"distance": rng.integers(0, 3, 2).astype(float) if ties else rng.random(2)}
    dual = gm.Dual(slaves, w)
    dual.lam = dual.centred(
        rng.integers(-2, 3, len(dual.coords)).astype(float)
        if ties
        else rng.normal(size=len(dual.coords))
    )
    return slaves, w, dual, rng


def point_minimum(theta, distances, cluster, beta, p):
    """min over (x_qq, assignment of p) by enumeration; x_pp = 1 iff p chooses itself."""
    n, best = len(theta), np.inf
    for open_set in product((0, 1), repeat=n):
        for q in range(n):
            if not open_set[q] or open_set[p] != (q == p):
                continue
            cost = float(np.dot(theta, open_set))
            if q != p:
                cost += distances[p, q] + beta * (cluster[p] == cluster[q])
            best = min(best, cost)
    return best


def assignments(n):
    """All consistent clusterings as assignments (N,): x_p = q only if x_q = q."""
    for x in product(range(n), repeat=n):
        if all(x[x[p]] == x[p] for p in range(n)):
            yield np.array(x)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 5), st.booleans())
def test_slave_minima_are_exact_and_minimisers_attain_them(seed, n, ties):
    slaves, w, dual, _ = problem(seed, n, ties)
    distances = slaves.sample.matrix(w["distance"])
    theta = dual.share + dual.lam
    points, clusters = (
        g.solve(theta[s], p) for g, s, p in zip(slaves.groups, slaves.slices, dual.prepared)
    )
    for p in range(n):
        row, chosen = theta[p * n : (p + 1) * n], points.labels[p]
        assert points.value[p] == pytest.approx(
            point_minimum(row, distances, slaves.cluster, slaves.beta, p)
        )
        ind = points.ind[p * n : (p + 1) * n]
        assert ind[chosen] == 1 and ind[p] == (chosen == p)
        own = (
            0.0
            if chosen == p
            else distances[p, chosen] + slaves.beta * (slaves.cluster[p] == slaves.cluster[chosen])
        )
        assert row @ ind + own == pytest.approx(points.value[p])
    start, theta = slaves.groups[1].start, theta[slaves.slices[1]]
    for c in range(slaves.groups[1].n):
        part, ind = theta[start[c] : start[c + 1]], clusters.ind[start[c] : start[c + 1]]
        best = min(
            np.dot(part, x) - slaves.alpha * abs(1 - sum(x))
            for x in product((0, 1), repeat=len(part))
        )
        assert clusters.value[c] == pytest.approx(best)
        assert part @ ind - slaves.alpha * abs(1 - ind.sum()) == pytest.approx(best)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 5), st.booleans())
def test_bound_never_exceeds_the_loss_augmented_minimum(seed, n, ties):
    slaves, w, dual, _ = problem(seed, n, ties)
    costs = slaves.sample.matrix(w["distance"]).copy()
    np.fill_diagonal(costs, slaves.penalty)
    augmented = [
        costs[np.arange(n), x].sum() - clustering_loss(x, slaves.cluster, slaves.alpha, slaves.beta)
        for x in assignments(n)
    ]
    assert dual.round().bound <= min(augmented) + 1e-9


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 5))
def test_completion_is_the_cheapest_consistent_clustering_and_loss_vanishes_there_only(seed, n):
    slaves, w, _, _ = problem(seed, n)
    costs = slaves.sample.matrix(w["distance"]).copy()
    target, energy = medoid_completion(costs, slaves.cluster, slaves.penalty)
    np.fill_diagonal(costs, slaves.penalty)
    consistent = {
        tuple(x): costs[np.arange(n), x].sum()
        for x in assignments(n)
        if np.array_equal(slaves.cluster[:, None] == slaves.cluster, x[:, None] == x)
    }
    assert tuple(target) in consistent and energy == pytest.approx(min(consistent.values()))
    for x in assignments(n):
        assert (clustering_loss(x, slaves.cluster) == 0.0) == (tuple(x) in consistent)


def objective(slaves, w, lam):
    dual = gm.Dual(slaves, w, lam)
    target, energy = medoid_completion(
        slaves.sample.matrix(w["distance"]), slaves.cluster, slaves.penalty
    )
    features = slaves.block.features(target[None])
    current = dual.round()
    gradient = features["distance"] - slaves.groups[0].features(current.results[0])["distance"]
    return energy - current.bound, gradient, current


@pytest.mark.parametrize("seed", range(8))
def test_objective_bounds_the_hinge_and_its_subgradient_is_right(seed):
    slaves, w, dual, rng = problem(seed, 5)
    value, gradient, current = objective(slaves, w, dual.lam)
    costs = slaves.sample.matrix(w["distance"]).copy()
    np.fill_diagonal(costs, slaves.penalty)
    hinge = medoid_completion(costs, slaves.cluster, slaves.penalty)[1] - min(
        costs[np.arange(5), x].sum() - clustering_loss(x, slaves.cluster, slaves.alpha, slaves.beta)
        for x in assignments(5)
    )
    assert value >= hinge - 1e-9 >= -2e-9
    step, move = 1e-6, rng.normal(size=2)  # away from ties the slave objective is linear around w
    moved = objective(slaves, {"distance": w["distance"] + step * move}, dual.lam)[0]
    assert (moved - value) / step == pytest.approx(
        gradient @ move, abs=1e-6 * (1 + abs(gradient @ move)) + 1e-8 / step * 1e-2
    )
    direction = dual.centred(rng.normal(size=len(dual.lam)))
    moved = objective(slaves, w, dual.lam + step * direction)[0]
    assert (moved - value) / step == pytest.approx(-(current.ind @ direction), abs=1e-4)


def test_learnt_penalty_enters_unary_and_features():
    slaves, w, _, _ = problem(0, 5)
    learnt = training_slaves(slaves.sample, slaves.cluster, 1.0, 1.0, penalty=None)
    w = {**w, "penalty": np.array([0.3])}
    assert np.allclose(learnt.unary(w), 1.3)
    assert learnt.unary_features(np.full(5, 0.2))["penalty"] == pytest.approx(1.0)
    target, energy = medoid_completion(learnt.sample.matrix(w["distance"]), slaves.cluster, 0.3)
    assert learnt.block.features(target[None])["penalty"] == learnt.groups[1].n
    assert learnt.block.energy(target[None], w)[0] == pytest.approx(energy)


def test_part_of_the_points_solves_like_the_whole():
    slaves, w, dual, rng = problem(2, 6)
    group, index = slaves.groups[0], np.array([1, 4])
    theta = rng.normal(size=36)
    whole = group.solve(theta, dual.prepared[0])
    part = group.take(index)
    some = part.solve(theta.reshape(6, 6)[index].ravel(), part.prepare(w))
    assert np.allclose(some.value, whole.value[index]) and np.array_equal(
        some.labels, whole.labels[index]
    )
    both = slaves.groups[1].take(np.arange(slaves.groups[1].n))
    assert np.array_equal(both.coords, slaves.groups[1].coords)


def test_euclidean_sample_equals_the_tensor():
    rng = np.random.default_rng(0)
    Z, w, target = rng.normal(size=(12, 4)), rng.random(4), rng.integers(0, 12, 12)
    tensor = (Z[:, None] - Z[None]) ** 2
    sample = EuclideanSample(Z)
    assert np.allclose(sample.matrix(w), tensor @ w)
    assert np.allclose(sample.gather(target), tensor[np.arange(12), target].sum(axis=0))


@pytest.mark.parametrize("seed", range(4))
def test_model_loss_and_slaves_agree_on_every_assignment(seed):
    slaves, w, dual, _ = problem(seed, 4)
    model, truth = (
        exemplar_model(slaves.sample, slaves.penalty),
        np.unique(slaves.cluster, return_index=True)[1][slaves.cluster],
    )
    loss = ClusteringLoss(slaves.alpha, slaves.beta)
    augmented = loss.augment(model, truth)
    costs = slaves.sample.matrix(w["distance"]).copy()
    np.fill_diagonal(costs, slaves.penalty)
    consistent = {tuple(x) for x in assignments(4)}
    for x in product(range(4), repeat=4):
        x = np.array(x)
        if tuple(x) not in consistent:
            assert np.isinf(model.energy(x, w))
            continue
        assert model.energy(x, w) == pytest.approx(costs[np.arange(4), x].sum())
        delta = clustering_loss(x, slaves.cluster, slaves.alpha, slaves.beta)
        assert augmented.energy(x, w) == pytest.approx(model.energy(x, w) - delta)
        assert loss.value(model, x, truth, np.ones(4, bool)) == delta
    found = gm.decompose(augmented)
    assert type(found).__name__ == "ClusteringSlaves" and np.allclose(
        found.unary(w), slaves.unary(w)
    )
    assert dual.round().bound == pytest.approx(gm.Dual(found, w, dual.lam).round().bound)
    for labels in found.proposals(dual.round().results, dual.round().mean):
        assert tuple(labels) in consistent


def binary_model(costs, rows, clusters, alpha):
    """The paper's x_pq in high-order blocks by name: an exactly-one for each of `rows`, its
    implications, counts of exemplars.
    """
    n = len(costs)
    crf = gm.CRF(n * n, 2)
    crf.add_unary(np.stack([np.zeros(n * n), costs.ravel()], axis=1))
    if len(rows):
        crf.add("exactly_one", cliques=[p * n + np.arange(n) for p in rows])
        crf.add(
            "implication", pairs=[(p * n + q, q * n + q) for p in rows for q in range(n) if q != p]
        )
    if len(clusters):
        crf.add(
            "cardinality",
            cliques=[c * n + c for c in clusters],
            costs=-alpha * np.abs(1.0 - np.arange(n + 1)),
        )
    return crf


@pytest.mark.parametrize("seed", range(6))
def test_explicit_binary_model_has_the_same_energies_bounds_and_slave_minima(seed):
    """N = 3 against the specialised slaves: every labelling, every slave at random multipliers,
    and the bounds.
    """
    n = 3
    slaves, w, dual, _ = problem(seed + 20, n)
    constant, everyone = -slaves.beta * n, np.arange(n)
    clusters = [
        np.flatnonzero(slaves.cluster == slaves.cluster[c[0]]) for c in slaves.groups[1].members_of
    ]
    ubar = dual.prepared[0] + slaves.extra
    np.fill_diagonal(ubar, slaves.unary(w))

    explicit = binary_model(ubar, everyone, clusters, slaves.alpha)
    energies = {}
    for bits in product((0, 1), repeat=n * n):
        energy = explicit.energy(np.array(bits)) + constant
        if np.isfinite(energy):
            energies[tuple(np.array(bits).reshape(n, n).argmax(axis=1))] = energy
    assert set(energies) == {tuple(x) for x in assignments(n)}
    for x, energy in energies.items():
        assert energy == pytest.approx(slaves.crf.energy(np.array(x), w))

    theta, current = dual.share + dual.lam, dual.round()
    points, counts = (theta[part] for part in slaves.slices)
    minima = []
    for p in range(n):  # what no other slave holds, and this slave's share of the exemplars
        costs = np.where(everyone[:, None] == p, ubar, 0.0)
        np.fill_diagonal(costs, points[p * n : (p + 1) * n])
        minima.append(gm.testing.brute_force(binary_model(costs, [p], [], 0.0))[1])
    assert current.results[0].value == pytest.approx(np.array(minima))
    costs = np.zeros((n, n))
    costs[slaves.groups[1].coords, slaves.groups[1].coords] = counts
    by_cluster = [
        gm.testing.brute_force(
            binary_model(np.where(np.isin(everyone, c), costs, 0.0), [], [c], slaves.alpha)
        )[1]
        for c in clusters
    ]
    assert current.results[1].value == pytest.approx(np.array(by_cluster))
    assert current.bound == pytest.approx(sum(minima) + sum(by_cluster) + constant)
    # the slave of the high-order plugin
    alone = gm.decompose(binary_model(costs, [], clusters, slaves.alpha), "per-clique")
    assert gm.Dual(alone, {}).round().bound == pytest.approx(sum(by_cluster))

    minimum = min(energies.values())
    best = gm.solve(explicit, solver="dual-subgradient", max_iter=1500)
    special = gm.solve(slaves.crf, w, solver="dual-subgradient", max_iter=1500)
    assert best.bound + constant == pytest.approx(special.bound, abs=1e-5)
    assert best.energy + constant == pytest.approx(minimum) and special.energy == pytest.approx(
        minimum
    )
    assert max(best.bound + constant, special.bound) <= minimum + 1e-9


def test_a_model_with_other_blocks_is_left_to_others():
    """The decomposition claims what it can cover; anything else gets a labelling without a bound
    instead of an error.
    """
    rng = np.random.default_rng(0)
    crf = exemplar_model(rng.random((18, 18)))
    crf.add(gm.Table([[0, 1], [3, 2]], rng.normal(size=(2, 18, 18))))
    r = gm.solve(crf, time_limit=0.3)
    assert np.isfinite(r.energy) and r.bound == -np.inf and "no bound" in r.reason
