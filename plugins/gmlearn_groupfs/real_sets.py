"""The real sets of the experiment `groupfs`: ours and its rivals on random subsets, with times."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gmlearn as gm
from gmlearn_groupfs import baselines
from gmlearn_groupfs.datasets import LabelledBank, load_kernel_set, load_views, published
from gmlearn_groupfs.estimator import GroupFeatureClustering
from gmlearn_groupfs.plots import plot_comparison

#: file and share of each class that is drawn, or how many of it
SETS: dict[str, tuple[str, float]] = {
    "msrcv1": ("msrcv1.npz", 0.8),
    "mfeat": ("mfeat.npz", 60),
    "orl": ("orl.npz", 0.8),
    "Yale kernels": ("kernelset_yale_faces.npz", 0.8),
    "ORL kernels": ("kernelset_orl_faces.npz", 0.8),
    "scene15": ("scene15.npz", 80),
}
QUICK = ("msrcv1", "Yale kernels")
#: subsets on which the boosted classifier runs, the slow one
BOOSTED_DRAWS = 3
OURS, SINGLE, BOOSTED = "ours", "ours, one weighting for all", "ours, boosted"
KNN = "kNN-spectral, concatenated views"


def run_real_sets(run: Any) -> None:
    """A table for each set, and their picture."""
    n_draws = 1 if run.quick else 5
    shown = {}
    for name in run.progress(QUICK if run.quick else tuple(SETS), desc="real sets"):
        shown[name] = _one_set(run, name, n_draws)
    run.figure("real.png", plot_comparison(shown).figure, "ACC on the real sets, mean of subsets.")
    run.note(
        "Only the number of clusters is given to every method; ours takes its default settings and "
        "one start. Rows are shuffled."
    )


def draws(run: Any, name: str, n_draws: int) -> Iterator[LabelledBank]:
    """Random subsets of one set, rows shuffled, by the run's seed."""
    file, part = SETS[name]
    load = load_kernel_set if "kernels" in name else load_views
    for draw in range(n_draws):
        rng = np.random.default_rng([run.seed, draw])
        yield load(run.path(f"multiview/{file}"), name, rng, part)


def methods(data: LabelledBank, seed: int) -> dict[str, Callable[[], np.ndarray]]:
    """Every method as a function without arguments that returns labels (n,)."""
    rng = np.random.default_rng([seed, 1])
    k = data.n_clusters
    kernels = data.bank.kernels
    mean = baselines.average_kernel(kernels)
    half_to_twice = data.truth.size // (2 * k), -(-2 * data.truth.size // k)

    def ours(**options: Any) -> np.ndarray:
        model = GroupFeatureClustering(k, n_init=1, random_state=seed, **options)
        return model.fit(data.bank).labels_

    found = {
        OURS: ours,
        SINGLE: lambda: ours(shrinkage=1e6),
        BOOSTED: lambda: ours(classifier="boosted"),
        KNN: lambda: baselines.knn_spectral(data.points, k, seed),
        "spectral, mean kernel": lambda: baselines.spectral(mean, k, rng),
        "kernel k-means, size bounds": lambda: baselines.kernel_kmeans(mean, k, half_to_twice, rng),
        "many-labellings ensemble": lambda: baselines.ensemble(kernels, k, rng),
        "multi-kernel k-means": lambda: baselines.multi_kernel_kmeans(kernels, k, rng),
    }
    return found if seed < BOOSTED_DRAWS else {n: f for n, f in found.items() if n != BOOSTED}


def _one_set(run: Any, name: str, n_draws: int) -> dict[str, float]:
    """The table of one set; ACC by method for the picture."""
    scores: dict[str, list] = {}
    data = None
    for draw, data in enumerate(run.progress(draws(run, name, n_draws), desc=name)):
        for method, find in methods(data, draw).items():
            begun = time.process_time()
            labels = find()
            seconds = time.process_time() - begun
            acc = gm.clustering_accuracy(labels, data.truth)
            shared = gm.normalised_mutual_information(labels, data.truth)
            scores.setdefault(method, []).append((acc, shared, seconds))
    assert data is not None
    knn = np.median([s for _, _, s in scores[KNN]])
    rows = []
    for method, values in scores.items():
        acc, shared, seconds = np.array(values).T
        ratio = float(np.median(seconds) / knn)
        rows.append([method, len(acc), mean_and_error(acc), float(shared.mean()), f"{ratio:.1f}"])
    run.table(
        f"{name}: {n_draws} random subsets of n = {data.truth.size}, {data.n_clusters} classes, "
        f"{len(data.bank.names)} kernels; ACC ± one standard error, CPU time over that of "
        "kNN-spectral",
        ["method", "subsets", "ACC", "NMI", "time"],
        rows + _published(run, name),
    )
    run.value(f"{name}/acc", {m: [a for a, _, _ in values] for m, values in scores.items()})
    return {m: float(np.mean([a for a, _, _ in values])) for m, values in scores.items()}


def mean_and_error(values: Any) -> str:
    """The mean and its standard error."""
    return "{:.3f} ± {:.3f}".format(*gm.mean_and_error(values))


def _published(run: Any, name: str) -> list[list]:
    key = {"Yale kernels": "yale_faces", "ORL kernels": "orl_faces"}.get(name)
    if key is None:
        return []
    found = published(run.path("multiview/kernelset_reference_results.csv"), key)
    return [
        [f"published (Du et al. 2015), whole set: {method}", "-", f"{acc:.3f}", nmi, "-"]
        for method, (acc, nmi) in found.items()
    ]
