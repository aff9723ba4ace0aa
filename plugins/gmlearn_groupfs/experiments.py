"""The experiment `groupfs`: clusters that pick their own views, on made and on real data,
against the rivals.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import gmlearn as gm
from gmlearn_groupfs.datasets import LabelledBank, load_views
from gmlearn_groupfs.estimator import GroupFeatureClustering
from gmlearn_groupfs.kernels import KernelBank
from gmlearn_groupfs.plots import plot_curves, plot_kernel_usage, plot_links
from gmlearn_groupfs.real_sets import BOOSTED, OURS, mean_and_error, methods, run_real_sets
from gmlearn_groupfs.scores import accuracy, random_links, top_view_share
from gmlearn_groupfs.synthetic import GroupedViews, make_grouped_views

#: views of pure noise that are added to the four views of the made set
NOISE_VIEWS = (0, 1, 2, 4, 6)


def groupfs(run: Any) -> None:
    """Made set, real sets, links; tables, figures and values through `run`."""
    made_set(run)
    run_real_sets(run)
    links_curve(run)


# ---------------------------------------------------------------------- the made set


def made_set(run: Any) -> None:
    """Five fresh draws in which each group of clusters is visible in one view only, with more and
    more views that show nothing.
    """
    n_draws = 1 if run.quick else 5
    levels = NOISE_VIEWS[:2] if run.quick else NOISE_VIEWS
    curves: dict[str, np.ndarray] = {}
    for draw in run.progress(range(n_draws), desc="made set"):
        made = make_grouped_views(random_state=1000 * (run.seed + 1) + draw)
        for k, n_noise in enumerate(levels):
            data = _with_noise_views(made, n_noise, draw)
            for name, find in methods(data, draw).items():
                if name == BOOSTED and n_noise:
                    continue
                scores = curves.setdefault(name, np.full((len(levels), n_draws), np.nan))
                scores[k, draw] = accuracy(data.truth, find())
    run.table(
        f"Made set, four views and more that are noise: ACC ± one standard error, {n_draws} draws",
        ["method", *(f"{n} noise views" for n in levels)],
        [[name, *map(_known, scores)] for name, scores in curves.items()],
    )
    run.figure(
        "noise.png",
        plot_curves(levels, curves).figure,
        "The made set with more and more views of noise; bars are one standard deviation.",
    )
    run.value("synthetic/curves", {name: scores.tolist() for name, scores in curves.items()})
    run.value("synthetic/contrast/acc", curves[OURS][0].tolist())
    _right_views(run, n_draws)


def _known(values: np.ndarray) -> str:
    values = values[np.isfinite(values)]
    return mean_and_error(values) if values.size else "-"


def _with_noise_views(made: GroupedViews, n_noise: int, draw: int) -> LabelledBank:
    rng = np.random.default_rng([draw, n_noise])
    noise = [rng.normal(size=made.views[0].shape) for _ in range(n_noise)]
    bank = KernelBank.from_views([*made.views, *noise])
    return LabelledBank("made set", bank, made.labels, np.hstack(bank.views))


def _right_views(run: Any, n_draws: int) -> None:
    """Whether the view that shows a cluster is the one that it uses most, by classifier."""
    shown = None
    for classifier in ("boosted", "contrast"):
        found = []
        for draw in range(n_draws):
            made = make_grouped_views(random_state=1000 * (run.seed + 1) + draw)
            model = GroupFeatureClustering(16, n_init=1, classifier=classifier, random_state=draw)
            model.fit(made.views)
            shown = model, made
            usage = model.kernel_usage_
            found.append(top_view_share(usage, model.labels_, made.labels, made.view_of_cluster))
        run.value(f"synthetic/{classifier}/right_view", found)
    assert shown is not None
    _usage_figure(run, *shown)


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
                *("{:+.3f} ± {:.3f}".format(*gm.mean_and_error(gain)) for gain in free - before),
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


def _scores_with_links(run: Any, data: LabelledBank, options: dict, draw: int):
    """For 0..3 links per class: ACC of all points, of the untouched ones, and of these before
    links were given.
    """
    before = None
    for per_class in range(4):
        must, cannot = random_links(data.truth, per_class, np.random.default_rng([run.seed, draw]))
        model = GroupFeatureClustering(data.n_clusters, n_init=1, random_state=draw, **options)
        labels = model.fit(data.bank, must_link=must, cannot_link=cannot).labels_
        before = labels if before is None else before
        free = np.setdiff1d(np.arange(labels.size), np.concatenate([must.ravel(), cannot.ravel()]))
        yield (
            accuracy(data.truth, labels),
            *(accuracy(data.truth[free], found[free]) for found in (labels, before)),
        )
