"""Speed and quality of gmlearn_clustering, as ratios within one run.

``python tests/benchmarks/clustering.py [exact|large|sparse|number|round|training]``; all parts without an
argument.

Run with one BLAS thread (OPENBLAS_NUM_THREADS=1): two on a busy machine can be far slower than one.
"""

from __future__ import annotations

import resource
import sys
import time
import warnings

import numpy as np
from gmlearn_clustering import (
    ClusteringLoss,
    ExemplarClustering,
    ExemplarClusteringLearner,
    exemplar_energy,
    noisy_gaussians,
    training_sample,
)
from gmlearn_clustering.distances import EuclideanSample
from gmlearn_clustering.energy import with_penalty
from gmlearn_clustering.exact import exact_exemplars
from gmlearn_clustering.facility import facility_problem
from gmlearn_clustering.local_search import local_search

import gmlearn as gm
from gmlearn.learn.first_order import LambdaStep, move_multipliers


def timed(function, clock=time.perf_counter):
    start = clock()
    return function(), clock() - start


def compile_search():
    """Search in a small set that needs kicks, so that no part of the search compiles while it is
    timed.
    """
    local_search(facility_problem(with_penalty(np.random.default_rng(0).random((60, 60)), 2.0)))


def affinity_propagation(distances, penalty):
    from sklearn.cluster import AffinityPropagation

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AffinityPropagation(
            affinity="precomputed", preference=-penalty, random_state=0
        ).fit(-distances)
    return model.cluster_centers_indices_


def instances(n_seeds=16):
    """Two penalties on plane points, a Gaussian, clusters with Euclidean distances, clusters
    with asymmetric distances.
    """
    for seed in range(n_seeds):
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(80, 151)), int(rng.integers(4, 12))
        if seed % 4 < 2:
            X = rng.normal(size=(n, 2 if seed % 4 == 0 else 5))
        else:
            X = 2 * rng.normal(size=(k, 4))[rng.integers(0, k, n)] + rng.normal(size=(n, 4))
        distances = ((X[:, None] - X[None]) ** 2).sum(-1)
        if seed % 4 == 2:
            distances = np.sqrt(distances)
        if seed % 4 == 3:
            distances *= rng.uniform(0.7, 1.3, distances.shape)
        for factor in (1.0, 5.0):
            yield distances, factor * float(np.median(distances))


def exact():
    """Local search against the exact optimum and affinity propagation, N = 80..150."""
    compile_search()
    affinity_propagation(np.ones((5, 5)), 1.0)  # import
    ratio, ratio_ap, seconds, seconds_ap, seconds_exact = [], [], [], [], []
    for distances, penalty in instances():
        costs = with_penalty(distances, penalty)
        found, t = timed(lambda c=costs: local_search(facility_problem(c)), time.process_time)
        centres, t_ap = timed(
            lambda d=distances, p=penalty: affinity_propagation(d, p), time.process_time
        )
        (best, bound), t_exact = timed(
            lambda c=costs, f=found: exact_exemplars(facility_problem(c), f, time_limit=60),
            time.process_time,
        )
        optimum = exemplar_energy(costs, best)
        if optimum - bound > 1e-6 * optimum:
            print(f"  not proved within 60 s: gap {(optimum - bound) / optimum:.1e}")
        ratio.append(exemplar_energy(costs, found) / optimum)
        ratio_ap.append(exemplar_energy(costs, centres) / optimum if len(centres) else np.nan)
        seconds.append(t), seconds_ap.append(t_ap), seconds_exact.append(t_exact)
    print(
        f"{len(ratio)} instances, N = 80..150: energy / optimum mean {np.mean(ratio):.5f} max "
        f"{np.max(ratio):.5f}; "
        f"affinity propagation mean {np.nanmean(ratio_ap):.4f} max {np.nanmax(ratio_ap):.4f}"
    )
    print(
        f"  time of affinity propagation / ours: {np.sum(seconds_ap) / np.sum(seconds):.2f}; "
        f"exact solver / ours: "
        f"median {np.median(np.array(seconds_exact) / seconds):.1f}, largest "
        f"{np.max(np.array(seconds_exact) / seconds):.0f}"
    )


def large(n=2000):
    """N = 2000 against many more kicks and affinity propagation."""
    compile_search()
    rng = np.random.default_rng(0)
    for kind in ("Gaussian", "clusters"):
        X = rng.normal(size=(n, 5))
        if kind == "clusters":
            X += 2 * rng.normal(size=(30, 5))[rng.integers(0, 30, n)]
        distances = ((X[:, None] - X[None]) ** 2).sum(-1)
        penalty = 5.0 * float(np.median(distances))
        costs = with_penalty(distances, penalty)
        found, t = timed(lambda c=costs: local_search(facility_problem(c)), time.process_time)
        others = [local_search(facility_problem(costs), n_kicks=10000, seed=s) for s in (1, 2)]
        centres, t_ap = timed(
            lambda d=distances, p=penalty: affinity_propagation(d, p), time.process_time
        )
        energies = [exemplar_energy(costs, q) for q in (*others, centres, found) if len(q)]
        print(
            f"N = {n}, {kind}: energy / best known {energies[-1] / min(energies):.5f} "
            f"({len(found)} clusters), affinity "
            f"propagation {exemplar_energy(costs, centres) / min(energies):.5f}; time of affinity "
            f"propagation / ours "
            f"{t_ap / t:.1f} ({t:.1f} CPU s)"
        )


def sparse():
    """N = 20,000 and 100,000 on a neighbour graph: time, memory, and the gap over all pairs."""
    for n in (20_000, 100_000):
        rng = np.random.default_rng(1)
        X = 4 * rng.normal(size=(60, 8))[rng.integers(0, 60, n)] + rng.normal(size=(n, 8))
        clustering = ExemplarClustering(penalty=200.0, n_neighbors=20, random_state=0)
        model, t = timed(lambda c=clustering, X=X: c.fit(X), time.process_time)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
        print(
            f"N = {n}, neighbour graph: {len(model.cluster_centers_indices_)} clusters, gap "
            f"{model.gap_ / model.energy_:.3f} of the energy, {t:.0f} CPU s, peak memory "
            f"{peak:.2f} GB"
        )


def number():
    """k given against the penalty at which about k are best: time, and what k costs more."""
    compile_search()
    rng = np.random.default_rng(0)
    for n in (300, 800, 2000):
        for kind in ("Gaussian", "clusters"):
            X = rng.normal(size=(n, 5))
            if kind == "clusters":
                X += 2 * rng.normal(size=(12, 5))[rng.integers(0, 12, n)]
            distances = ((X[:, None] - X[None]) ** 2).sum(-1)
            ratio, excess = [], []
            for k in (5, 20, 50, 90):
                given = ExemplarClustering(metric="precomputed", n_clusters=k, random_state=0)
                _, t = timed(lambda m=given, d=distances: m.fit(d), time.process_time)
                own = ExemplarClustering(given.penalty_, metric="precomputed", random_state=0)
                _, t_own = timed(lambda m=own, d=distances: m.fit(d), time.process_time)
                ratio.append(t / t_own)
                excess.append(given.excess_ / given.energy_)
            print(
                f"N = {n}, {kind}, k = 5, 20, 50, 90: time / that of its own number "
                f"{' '.join(f'{r:.2f}' for r in ratio)}; energy above the best number's "
                f"{' '.join(f'{e:.4f}' for e in excess)}"
            )


def sample_round(n=500, d=100):
    """One sample-round of learning against the distance product alone."""
    rng = np.random.default_rng(0)
    sample = EuclideanSample(rng.normal(size=(n, d)))
    options = gm.TrainingOptions(loss=ClusteringLoss(), decomposition="exemplar")
    state = gm.build_objective(
        [training_sample(sample, np.repeat(np.arange(10), n // 10))], options
    ).batches[0]
    w = np.full(d, 1.0 / d)

    step = LambdaStep(0.01)

    def one_round():
        w[:] *= 1.0 + 1e-9  # other weights in every round, so that no matrix is remembered
        (one,) = state.samples
        state.set_truth(one.completion(one, {"distance": w}))
        move_multipliers(state, w, step)

    one_round()
    product, whole = [], []
    for _ in range(200):
        product.append(timed(lambda: sample._matrix(w), time.thread_time)[1])
        whole.append(timed(one_round, time.thread_time)[1])
    product, whole = (1e3 * np.median(t) for t in (product, whole))
    print(
        f"N = {n}, D = {d}: distance product {product:.2f} ms; a round of training (completion, "
        f"distances, slaves, multipliers) {whole / product:.2f} times that"
    )


def training(n=2000, d=100):
    """N = 2000 trains: time and memory."""
    sets = noisy_gaussians(0.5, n, d, n_sets=1, seed=11)
    learner, t = timed(
        lambda: ExemplarClusteringLearner().fit(sets.train, sets.train_labels), time.process_time
    )
    labels, t_cluster = timed(lambda: learner.cluster(sets.test[0]), time.process_time)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(
        f"N = {n}, D = {d}, one training set: fit {t:.0f} CPU s, clustering a new set "
        f"{t_cluster:.0f} CPU s, "
        f"{labels.max() + 1} clusters, peak memory {peak:.2f} GB"
    )


if __name__ == "__main__":
    parts = {
        "exact": exact,
        "large": large,
        "sparse": sparse,
        "number": number,
        "round": sample_round,
        "training": training,
    }
    for name in sys.argv[1:] or parts:
        parts[name]()
