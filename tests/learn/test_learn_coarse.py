"""Training on coarse slaves, and what the default optimiser says of its own accuracy."""

import itertools

import cvxpy as cp
import gmlearn_clustering as gc
import numpy as np
import pytest
from gmlearn_clustering.distances import DimensionBank
from learn_cases import KINDS, random_problem
from primal_cases import AllDifferent, register

import gmlearn as gm

PENALTY = 3.0


def point_sets(seed, n, n_clusters=3, n_dims=4, n_sets=2):
    """Point sets in which the second half of the dimensions is noise: (points, clusters) each."""
    rng = np.random.default_rng(seed)
    for _ in range(n_sets):
        cluster = rng.integers(0, n_clusters, n)
        centres = 3.0 * rng.normal(size=(n_clusters, n_dims))
        centres[:, n_dims // 2 :] = 0.0
        points = centres[cluster] + rng.normal(size=(n, n_dims)) * rng.uniform(0.5, 3.0, n_dims)
        yield points, np.unique(cluster, return_inverse=True)[1]


def exemplar_samples(seed, n):
    """Samples with the medoids of equal weights as their truth, distances (N, N, F), clusters."""
    sets = list(point_sets(seed, n))
    bank = DimensionBank()
    bank.fit([points for points, _ in sets], [cluster for _, cluster in sets])
    samples, distances = [], []
    for points, cluster in sets:
        prepared = bank.prepare(points)
        n_features = prepared.n_features
        made = gc.training_sample(prepared, cluster, PENALTY)
        equal = {name: np.full(s, 1.0 / n_features) for name, s in made.crf.layout.shapes.items()}
        samples.append(gm.Sample(made.crf, made.completion(made, equal), loss=gc.ClusteringLoss()))
        f = np.stack([prepared.matrix(unit) for unit in np.eye(n_features)], axis=-1)
        f[np.arange(n), np.arange(n)] = 0.0
        distances.append(f)
    return samples, distances, [cluster for _, cluster in sets]


def exemplar_optimum(samples, distances, clusters):
    """The least F for L2(1) and w >= 0 as one quadratic program, in the assignments x_pq.

    Its relaxation: rows sum to 1, x_pq <= x_qq, and of the loss -|1 - sum_q x_qq| the convex
    envelope 2 max x_qq - sum x_qq - 1.
    """
    slope, kappa, constraints = 0.0, 0.0, []
    for sample, f, cluster in zip(samples, distances, clusters):
        n = len(cluster)
        x = cp.Variable((n, n), nonneg=True)
        chosen = cp.diag(x)
        rows = np.ones((n, 1)) @ cp.reshape(chosen, (1, n), order="C")
        constraints += [cp.sum(x, axis=1) == 1, x <= rows]
        wrong = (cluster[:, None] != cluster).astype(float)
        cost = PENALTY * cp.sum(chosen) - cp.sum(cp.multiply(x, wrong))
        for c in range(cluster.max() + 1):
            members = chosen[np.flatnonzero(cluster == c)]
            cost += 2 * cp.max(members) - cp.sum(members) - 1
        zero = {name: np.zeros(shape) for name, shape in sample.crf.layout.shapes.items()}
        kappa += sample.crf.energy(sample.labels, zero) - cost
        features = [cp.sum(cp.multiply(x, f[:, :, d])) for d in range(f.shape[2])]
        truth = np.concatenate([v.ravel() for v in sample.crf.features(sample.labels).values()])
        slope += cp.hstack(features) - truth
    dual = cp.Problem(cp.Maximize(kappa - 0.5 * cp.sum_squares(cp.pos(slope))), constraints)
    return dual.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("seed, n", [(201, 60), (202, 80), (203, 100)])
def test_training_on_exemplar_models_comes_within_a_thousandth(seed, n):
    """It ended 5 to 9 % too high, after the 100 passes that were the default."""
    samples, distances, clusters = exemplar_samples(seed, n)
    best = exemplar_optimum(samples, distances, clusters)
    model = gm.train(samples, decomposition="exemplar", constraints=gm.NonNegative())
    assert best * (1 - 1e-6) <= model.objective <= best * (1 + 1e-3)
    assert 0.95 * best < model.bound <= best * (1 + 1e-6)


register()


def matching_samples(seed, n, n_samples=4):
    """Points and noisy copies in another order, matched by distances and a weak feature."""
    rng = np.random.default_rng(seed)
    edges = np.array(list(itertools.combinations(range(n), 2)))
    samples = []
    for _ in range(n_samples):
        points = rng.random((n, 2))
        order = rng.permutation(n)
        copies = points[order] + 0.08 * rng.normal(size=(n, 2))
        truth = np.argsort(order)
        a, b = (np.linalg.norm(p[:, None] - p, axis=-1) for p in (points, copies))
        unary = rng.random((n, n, 4))
        unary[np.arange(n), truth, 0] *= 0.5
        change = np.abs(a[edges[:, 0], edges[:, 1]][:, None, None] - b)
        crf = gm.CRF(n, n)
        crf.add(gm.Unary(unary, weight="u"))
        crf.add(gm.FeatureTable(edges, np.stack([change, change**2], axis=-1), weight="pair"))
        crf.add(AllDifferent([np.arange(n)]))
        samples.append(gm.Sample(crf, truth))
    return samples


@pytest.mark.parametrize(
    "seed, n",
    [
        (301, 5),
        (302, 6),
        pytest.param(303, 6, marks=pytest.mark.xfail(reason="ends .3 % above, gap 7 %")),
    ],
)
def test_training_of_graph_matching_comes_within_a_thousandth(seed, n):
    samples = matching_samples(seed, n)
    reference = gm.train(
        samples, optimizer="cutting-plane", regularizer=gm.L2(0.1), tol=1e-5, max_iter=300
    )
    assert "certified" in reference.status
    model = gm.train(samples, regularizer=gm.L2(0.1))
    assert reference.bound * (1 - 1e-6) <= model.objective <= reference.objective * (1 + 1e-3)
    assert model.bound <= reference.objective * (1 + 1e-6)


SETS = {
    "none": None,
    "box": gm.Box(-0.1, 0.4),
    "orthant": gm.NonNegative(),
    "simplex": {"pair": gm.Simplex(0.5)},
    "fixed": {"pair": gm.Fixed(0.1)},
}


#: every kind of slave and every set, in a third of all pairs
PAIRS = [(k, s) for i, k in enumerate(KINDS) for j, s in enumerate(SETS) if (i + j) % 3 == 0]


@pytest.mark.parametrize("kind, within", PAIRS)
def test_the_bound_of_bcfw_is_below_the_certified_optimum(kind, within):
    """With short proximal steps, too: multipliers are then far from their final size, and the
    bound was 20 % above the optimum.
    """
    samples, options = random_problem(np.random.default_rng(11), kind, 3, 2)
    options["constraints"] = SETS[within]
    reference = gm.train(samples, optimizer="cutting-plane", tol=1e-6, max_iter=300, **options)
    assert "certified" in reference.status
    for prox, passes in ((2.0, 150), (40.0, 60), (40.0, 300)):
        model = gm.train(samples, optimizer="bcfw", prox=prox, tol=-1, max_iter=passes, **options)
        assert model.bound <= reference.objective * (1 + 1e-6) + 1e-9, (prox, passes)


def test_the_status_says_for_which_multipliers_a_bound_holds():
    """One slave holds a chain: nothing has to agree, and the bound holds for all multipliers."""
    samples, options = random_problem(np.random.default_rng(5), "loopy", 3, 2)
    shared = gm.train(samples, tol=1e-3, **options)
    assert "converged: objective within 0.001 of its lower bound over multipliers up to" in (
        shared.status
    )
    whole = gm.train(samples, tol=1e-3, **(options | dict(decomposition="components")))
    assert whole.status == "certified: objective within 0.001 of its lower bound"
