"""The experiment `groupfs`: clusters that pick their own views, on made and on real data,
against the rivals.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gmlearn_groupfs import baselines
from gmlearn_groupfs.datasets import LabelledBank, load_kernel_set, load_views, published
from gmlearn_groupfs.estimator import GroupFeatureClustering
from gmlearn_groupfs.kernels import KernelBank
from gmlearn_groupfs.plots import plot_comparison, plot_kernel_usage, plot_links
from gmlearn_groupfs.scores import accuracy, accuracy_and_nmi, random_links, top_view_share
from gmlearn_groupfs.synthetic import make_grouped_views

OURS = {
    "ours, contrast": dict(classifier="contrast"),
    "ours, boosted": dict(classifier="boosted"),
    "ours, boosted, spectral start": dict(classifier="boosted", init="spectral"),
    "ours, boosted, random start": dict(classifier="boosted", init="random"),
}

#: what n_init = 3 gives: of every three consecutive starts the one of least loss
BEST_OF_THREE = "ours, contrast, n_init = 3"


def groupfs(run: Any) -> None:
    """Synthetic set, real sets, links; tables, figures and values through `run`."""
    synthetic_set(run)
    n_starts = 1 if run.quick else 10
    summary = {}
    for banks in run.progress(list(real_sets(run, n_starts)), desc="real sets"):
        summary[banks[0].name] = real_set(run, banks, n_starts)
    run.figure(
        "real.png", plot_comparison(summary).figure, "ACC on the real sets, mean over starts."
    )
    links_curve(run)
    run.note(
        "Numbers of clusters and size bounds (.8 of the smallest to 1.2 of the largest class) are "
        "taken as known; "
        "nothing else is: starts are chosen by their loss, never by labels. Rows are shuffled."
    )


def real_sets(run: Any, n_starts: int):
    """The data sets, rows shuffled by the run's seed; two small ones in a quick run.

    Each is a list of banks through which the starts go by turns: one bank, but for mfeat, where
    every start has its own random subset of 60 samples a class.
    """
    rng = np.random.default_rng(run.seed)
    yield [load_views(run.path("multiview/msrcv1.npz"), "msrcv1", rng)]
    if not run.quick:
        yield [
            load_views(run.path("multiview/mfeat.npz"), "mfeat (600)", rng, per_class=60)
            for _ in range(n_starts)
        ]
        yield [load_views(run.path("multiview/orl.npz"), "orl", rng)]
    yield [load_kernel_set(run.path("multiview/kernelset_yale_faces.npz"), "Yale kernels", rng)]
    if not run.quick:
        yield [load_kernel_set(run.path("multiview/kernelset_orl_faces.npz"), "ORL kernels", rng)]


def ours(data: LabelledBank, options: dict, seed: int, **fit: Any) -> GroupFeatureClustering:
    """One fit with one start (n_init = 1)."""
    model = GroupFeatureClustering(
        data.n_clusters, data.sizes, n_init=1, random_state=seed, **options
    )
    return model.fit(data.bank, **fit)


def rivals(data: LabelledBank, seed: int) -> dict[str, np.ndarray]:
    """Labels of every rival, on the average kernel but for the ensemble."""
    rng = np.random.default_rng([seed, 1])
    mean, n_clusters = baselines.average_kernel(data.bank.kernels), data.n_clusters
    return {
        "kernel k-means": baselines.kernel_kmeans(mean, n_clusters, None, rng),
        "kernel k-means, same size bounds": baselines.kernel_kmeans(
            mean, n_clusters, data.sizes, rng
        ),
        "spectral": baselines.spectral(mean, n_clusters, rng),
        "many-labellings ensemble": baselines.ensemble(data.bank.kernels, n_clusters, rng),
    }


# ---------------------------------------------------------------------- the made set


def synthetic_set(run: Any) -> None:
    """Five fresh draws in which each group of clusters is visible in one view only."""
    n_draws = 1 if run.quick else 5
    figures: dict[str, list] = {}
    top: dict[str, list[float]] = {"ours, contrast": [], "ours, boosted": []}
    model, made = None, None
    for draw in run.progress(range(n_draws), desc="synthetic"):
        made = make_grouped_views(random_state=1000 * (run.seed + 1) + draw)
        data = LabelledBank("synthetic", KernelBank.from_views(made.views), made.labels)
        for name, options in OURS.items():
            if run.quick and "start" in name:
                continue
            fitted = ours(data, options, draw)
            figures.setdefault(name, []).append(accuracy_and_nmi(data.truth, fitted.labels_))
            if name in top:
                top[name].append(
                    top_view_share(
                        fitted.kernel_usage_, fitted.labels_, made.labels, made.view_of_cluster
                    )
                )
            if name == "ours, contrast":
                model = fitted
        for m, view in enumerate(made.views):
            alone = LabelledBank("view", KernelBank.from_views([view]), made.labels)
            figures.setdefault(f"ours, view {m} alone", []).append(
                accuracy_and_nmi(data.truth, ours(alone, OURS["ours, contrast"], draw).labels_)
            )
        for name, labels in rivals(data, draw).items():
            figures.setdefault(name, []).append(accuracy_and_nmi(data.truth, labels))
    run.table(
        f"Synthetic set, {n_draws} draws: ACC mean, worst; NMI mean; share of clusters with the "
        f"right view on top",
        ["method", "ACC", "worst", "NMI", "right view"],
        [
            [name, *_summary(values), np.mean(top[name]) if name in top else "-"]
            for name, values in figures.items()
        ],
    )
    for name in top:
        key = f"synthetic/{name.split(', ')[1]}"
        run.value(f"{key}/acc", [a for a, _ in figures[name]])
        run.value(f"{key}/right_view", top[name])
    _usage_figure(run, model, made)


def _summary(values: list) -> list[float]:
    scores = np.array(values)
    return [float(scores[:, 0].mean()), float(scores[:, 0].min()), float(scores[:, 1].mean())]


def _usage_figure(run: Any, model: Any, made: Any) -> None:
    """Clusters ordered by the view that shows them: a staircase if every cluster found its view."""
    view = np.array(
        [
            np.bincount(made.view_of_cluster[made.labels[model.labels_ == c]]).argmax()
            for c in range(model.n_clusters)
        ]
    )
    order = np.argsort(view, kind="stable")
    ax = plot_kernel_usage(model.kernel_usage_, model.kernel_names_, order=order, groups=view)
    ax.set_title("Every group of clusters picks its view")
    run.figure(
        "kernel_usage.png",
        ax.figure,
        "Kernel usage by cluster on the synthetic set; lines part the true groups.",
    )


# ---------------------------------------------------------------------- real sets


def real_set(run: Any, banks: list[LabelledBank], n_starts: int) -> dict[str, float]:
    """The table of one data set; returns ACC by method for the summary picture."""
    figures: dict[str, list] = {}
    losses = []
    for seed in run.progress(range(n_starts), desc=banks[0].name):
        data = banks[seed % len(banks)]
        for name, options in OURS.items():
            # boosting is the slow one, and its other starts are for the record only
            if name == "ours, contrast" or seed < (
                5 if "start" not in name else 0 if run.quick else 3
            ):
                model = ours(data, options, seed)
                figures.setdefault(name, []).append(accuracy_and_nmi(data.truth, model.labels_))
                losses += [model.loss_] if name == "ours, contrast" else []
        for name, labels in rivals(data, seed).items():
            figures.setdefault(name, []).append(accuracy_and_nmi(data.truth, labels))
    data = banks[0]
    if n_starts >= 3 and len(banks) == 1:  # losses of different subsets do not compare
        triples = [[(k + j) % n_starts for j in range(3)] for k in range(n_starts)]
        figures[BEST_OF_THREE] = [
            figures["ours, contrast"][min(three, key=losses.__getitem__)] for three in triples
        ]
    shown = {name: float(np.mean(values, axis=0)[0]) for name, values in figures.items()}
    rng = np.random.default_rng(run.seed)
    if not run.quick:
        mean = baselines.average_kernel(data.bank.kernels)
        labels = baselines.affinity_propagation(mean, data.n_clusters, rng)
        figures[f"affinity propagation ({labels.max() + 1} clusters found)"] = [
            accuracy_and_nmi(data.truth, labels)
        ]
    rows = [[name, len(values), *_summary(values)] for name, values in figures.items()]
    if not run.quick:
        rows += _single_kernels(data, 2, rng)
    rows += _published(run, data.name)
    subsets = (
        f", {len(banks)} random subsets (affinity propagation and single kernels: the first)"
        if len(banks) > 1
        else ""
    )
    run.table(
        f"{data.name}: n = {data.truth.size}, {data.n_clusters} classes, sizes in "
        f"{list(data.sizes)}, "
        f"{len(data.bank.names)} kernels{subsets}",
        ["method", "starts", "ACC", "worst", "NMI"],
        rows,
    )
    run.value(f"{data.name}/acc", shown)
    return {
        name: value
        for name, value in shown.items()
        if "start" not in name and name != BEST_OF_THREE
    }


def _single_kernels(data: LabelledBank, n_starts: int, rng: np.random.Generator) -> list[list]:
    """Ours and spectral clustering on every kernel alone."""
    rows = []
    for m, name in enumerate(data.bank.names):
        alone = LabelledBank(
            name, KernelBank.from_kernels(data.bank.kernels[m : m + 1]), data.truth
        )
        for method, find in (
            ("ours", lambda k, s: ours(k, OURS["ours, contrast"], s).labels_),
            ("spectral", lambda k, s: baselines.spectral(k.bank.kernels[0], k.n_clusters, rng)),
        ):
            values = [accuracy_and_nmi(data.truth, find(alone, seed)) for seed in range(n_starts)]
            rows.append([f"{name} alone, {method}", n_starts, *_summary(values)])
    return rows


def _published(run: Any, name: str) -> list[list]:
    key = {"Yale kernels": "yale_faces", "ORL kernels": "orl_faces"}.get(name)
    if key is None:
        return []
    found = published(run.path("multiview/kernelset_reference_results.csv"), key)
    return [
        [f"published (Du et al. 2015): {method}", "-", acc, "-", nmi]
        for method, (acc, nmi) in found.items()
    ]


# ---------------------------------------------------------------------- links

LINKED: dict[str, dict[str, Any]] = {
    "contrast": dict(classifier="contrast"),
    "contrast, links carried on": dict(link_reach=0.5),
    "boosted": dict(classifier="boosted"),
}


def links_curve(run: Any) -> None:
    """0 to 3 must- and cannot-links per class on msrcv1, scored on all points and on those that
    no link touches.
    """
    n_draws = 1 if run.quick else 10
    data = load_views(run.path("multiview/msrcv1.npz"), "msrcv1", np.random.default_rng(run.seed))
    curves: dict[str, Any] = {}
    rows = []
    for name, options in LINKED.items():
        scores = np.zeros((3, 4, n_draws))
        for draw in run.progress(range(n_draws), desc=f"links, {name}"):
            scores[:, :, draw] = np.transpose(
                [scored for scored in _scores_with_links(run, data, options, draw)]
            )
        everywhere, free, before = scores
        curves |= {f"{name}, all points": everywhere, f"{name}, points without links": free}
        rows += [
            [f"{name}, all points", *everywhere.mean(axis=1)],
            [f"{name}, points without links", *free.mean(axis=1)],
            [
                f"{name}, what links gain on points without",
                *(_with_error(gain) for gain in free - before),
            ],
        ]
        run.value(
            f"links/{name}",
            {
                "all": everywhere.mean(axis=1),
                "untouched": free.mean(axis=1),
                "untouched_gain": (free - before).mean(axis=1),
            },
        )
    run.figure("links.png", plot_links(curves).figure, "What a few links per class buy on msrcv1.")
    run.table(
        f"msrcv1, ACC by must- and cannot-links per class, {n_draws} draws of links (± one "
        f"standard error)",
        ["scored on", "0", "1", "2", "3"],
        rows,
    )


def _with_error(values: np.ndarray) -> str:
    return f"{values.mean():+.3f} ± {values.std() / np.sqrt(max(len(values) - 1, 1)):.3f}"


def _scores_with_links(run: Any, data: LabelledBank, options: dict, draw: int):
    """For 0..3 links per class: ACC of all points, of the untouched ones, and of these before
    links were given.
    """
    before = None
    for per_class in range(4):
        must, cannot = random_links(data.truth, per_class, np.random.default_rng([run.seed, draw]))
        labels = ours(data, options, draw, must_link=must, cannot_link=cannot).labels_
        before = labels if before is None else before
        free = np.setdiff1d(np.arange(labels.size), np.concatenate([must.ravel(), cannot.ravel()]))
        yield (
            accuracy(data.truth, labels),
            *(accuracy(data.truth[free], found[free]) for found in (labels, before)),
        )
