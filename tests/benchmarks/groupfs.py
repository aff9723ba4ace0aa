"""How fast the pieces of group-dependent feature selection are, as ratios within one run.

    python tests/benchmarks/groupfs.py

The unit is a 300 x 300 float64 matrix product timed in the same run, so figures of different
machines compare.
"""

from __future__ import annotations

import time

import numpy as np
from gmlearn_groupfs import constrained_assignment, greedy_assignment, make_grouped_views
from gmlearn_groupfs._boosting_numba import N_BINS, best_hypercut
from gmlearn_groupfs.boosting import BoostedClassifiers
from gmlearn_groupfs.contrast import ContrastClassifiers
from gmlearn_groupfs.kernels import KernelBank
from scipy.optimize import linprog
from scipy.sparse import identity, kron, vstack


def seconds(function, repeats: int = 5) -> float:
    """Best CPU time of a few calls, the first (compilation) left out."""
    function()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def linear_program(costs, lower, upper):
    """The transportation problem by HiGHS, for comparison."""
    n, n_clusters = costs.shape
    sizes = kron(np.ones((1, n)), identity(n_clusters))
    return linprog(
        costs.ravel(),
        A_ub=vstack([sizes, -sizes]),
        b_ub=np.repeat([upper, -lower], n_clusters),
        A_eq=kron(identity(n), np.ones((1, n_clusters))),
        b_eq=np.ones(n),
        bounds=(0, 1),
    ).fun


def assignment(unit: float) -> None:
    rng = np.random.default_rng(0)
    n, n_clusters = 600, 20
    truth = np.repeat(np.arange(n_clusters), n // n_clusters)
    costs = rng.normal(size=(n, n_clusters))
    costs[np.arange(n), truth] -= 1.5
    order = rng.permutation(n)
    must = [
        (i, rng.choice(np.flatnonzero((truth == truth[i]) & (np.arange(n) != i))))
        for i in order[:200]
    ]
    cannot = [(i, rng.choice(np.flatnonzero(truth != truth[i]))) for i in order[200:400]]
    flow = seconds(lambda: constrained_assignment(costs, (24, 36)))
    program = seconds(lambda: linear_program(costs, 24, 36), 1)
    linked = seconds(lambda: constrained_assignment(costs, (24, 36), must, cannot), 3)
    labels = constrained_assignment(costs, (24, 36))
    print(
        f"assignment (600, 20): shortest paths {1e3 * flow:.1f} ms ({flow / unit:.1f} units), "
        f"HiGHS LP {program / flow:.0f}x that, 200 + 200 links {linked:.2f} s "
        f"({linked / flow:.0f}x)"
    )
    print(
        f"  exact: LP - ours = "
        f"{linear_program(costs, 24, 36) - costs[np.arange(n), labels].sum():.1e}; greedy is "
        f"{costs[np.arange(n), greedy_assignment(costs, 36)].sum() - costs[np.arange(n), labels].sum():.3f} above"
    )


def boosting(unit: float) -> None:
    data = make_grouped_views(n_groups=5, clusters_per_group=4, cluster_size=30, random_state=0)
    n, n_kernels = data.labels.size, len(data.views)
    kernels = KernelBank.from_views(data.views).kernels.astype(np.float32)
    # labels half wrong, as in early iterations: no single cut is perfect
    member = np.where(np.random.default_rng(0).random(n) < 0.5, data.labels, np.arange(n) % 20) == 0
    signs = np.where(member, 1.0, -1.0)
    weight, response = np.full(n, 0.25), 0.5 * (signs - signs.mean())
    positives, negatives = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
    work = np.empty(n, np.float32), np.empty((N_BINS, 2)), np.zeros(6)

    def stage(n_cuts):
        return best_hypercut(
            kernels, positives, negatives, weight, response, n_cuts, np.array([1], np.uint64), *work
        )

    def argsort_stage(n_cuts):
        for k in range(n_cuts):
            kernel = kernels[k % n_kernels]
            projection = (
                kernel[positives[k % positives.size]] - kernel[negatives[k % negatives.size]]
            )
            order = np.argsort(projection)
            left_weight, left = np.cumsum(weight[order])[:-1], np.cumsum(response[order])[:-1]
            (
                left**2 / left_weight + (response.sum() - left) ** 2 / (weight.sum() - left_weight)
            ).max()

    thousand, hundred, full = (
        seconds(lambda: stage(1000)),
        seconds(lambda: argsort_stage(100)),
        seconds(lambda: stage(0), 1),
    )
    print(
        f"boosting stage, 1000 hypercuts, n = 600: {1e3 * thousand:.2f} ms ({thousand / unit:.1f} "
        f"units); with exact thresholds "
        f"by argsort {10 * hundred / thousand:.0f}x; all "
        f"{positives.size * negatives.size * n_kernels} hypercuts {full:.3f} s"
    )
    gains = [stage(k) / stage(0) for k in (20, 200, 1000)]
    shares = " / ".join(f"{gain:.2f}" for gain in gains)
    print(
        f"  gain of the best of 20 / 200 / 1000 random cuts, as a share of the full search: "
        f"{shares}"
    )


def classifiers() -> None:
    data = make_grouped_views(random_state=0)
    kernels = KernelBank.from_views(data.views).kernels
    contrast = seconds(
        lambda: ContrastClassifiers(kernels, 16, n_neighbours=13).scores(data.labels, 5, 0), 3
    )
    boosted = seconds(lambda: BoostedClassifiers(kernels, 16).scores(data.labels, 5, 0), 3)
    print(
        f"scores of 16 clusters, n = 320, 4 kernels: contrast {1e3 * contrast:.0f} ms, boosted "
        f"(15 stages) "
        f"{boosted / contrast:.0f}x"
    )


def main() -> None:
    matrix = np.random.default_rng(0).normal(size=(300, 300))
    unit = seconds(lambda: matrix @ matrix, 20)
    print(f"unit: 300 x 300 matrix product, {1e3 * unit:.2f} ms")
    assignment(unit)
    boosting(unit)
    classifiers()


if __name__ == "__main__":
    main()
