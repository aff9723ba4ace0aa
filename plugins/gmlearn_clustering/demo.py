"""``gmlearn demo``: learn to cluster, on generated data, with the picture."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import gmlearn as gm
from gmlearn_clustering.estimator import ExemplarClustering
from gmlearn_clustering.learner import ExemplarClusteringLearner
from gmlearn_clustering.plots import plot_objective, plot_weights
from gmlearn_clustering.scores import accuracy, pair_f
from gmlearn_clustering.synthetic import noisy_gaussians


def demo(run: gm.Run) -> None:
    """Learn a distance from partitioned sets in which half of the dimensions are noise; cluster
    sets never seen before.
    """
    n_points, n_sets = (80, 4) if run.quick else (200, 8)
    sets = noisy_gaussians(
        rho=0.5, n_points=n_points, n_dimensions=40, n_clusters=8, n_sets=n_sets, seed=run.seed
    )
    with run.progress(total=2 * n_sets + 2, desc="demo") as bar:
        plain = []
        for X, truth in zip(sets.test, sets.test_labels):
            plain.append(
                accuracy(
                    truth,
                    ExemplarClustering(n_clusters=8, random_state=run.seed).fit(X).labels_,
                )
            )
            bar.update(1)
        run.value("accuracy_before", float(np.mean(plain)))
        run.note(
            f"Squared Euclidean distance with the number of clusters given: accuracy "
            f"{np.mean(plain):.3f}."
        )
        learner = ExemplarClusteringLearner(n_rounds=60, random_state=run.seed).fit(
            sets.train, sets.train_labels
        )
        run.value(
            "noise_weight_share", float(learner.weights_[sets.noisy].sum() / learner.weights_.sum())
        )
        bar.update(1)
        rows = run.table(
            "Sets never seen in training (8 clusters each)",
            [
                "set",
                "accuracy before",
                "accuracy learnt",
                "pair F",
                "clusters found",
                "energy",
                "lower bound",
                "gap",
            ],
            _clustered(learner, sets, plain, run.seed, bar),
        )
        learnt = float(np.mean([row[2] for row in rows]))
        run.value("accuracy_learnt", learnt)
        run.value("largest_gap", float(max(row[-1] for row in rows)))
        run.note(f"Learnt distance, number of clusters found: accuracy {learnt:.3f}.")
        run.figure(
            "demo.png",
            _figure(learner, sets, learner.cluster(sets.test[0])),
            "Weights learnt (noise dimensions should vanish), the training objective, and a set "
            "never seen before.",
        )
        bar.update(1)


def _clustered(
    learner: ExemplarClusteringLearner, sets, plain: list[float], seed: int, bar
) -> Iterator[list]:
    """A row for each set never seen before: scores of the learnt distance, and the certificate
    of its clustering.
    """
    for i, (X, truth) in enumerate(zip(sets.test, sets.test_labels)):
        labels = learner.cluster(X)
        n_clusters = int(labels.max()) + 1
        found = ExemplarClustering(
            n_clusters=n_clusters, metric="precomputed", random_state=seed
        ).fit(learner.distance(X))
        bar.update(1)
        yield [
            i,
            plain[i],
            accuracy(truth, labels),
            pair_f(truth, labels),
            n_clusters,
            found.energy_,
            found.lower_bound_,
            found.gap_,
        ]


def _figure(learner: ExemplarClusteringLearner, sets, labels: np.ndarray):
    import matplotlib
    import matplotlib.pyplot as plt

    X, truth = sets.test[0], sets.test_labels[0]
    with matplotlib.rc_context(gm.plot.style()):
        figure, axes = plt.subplots(2, 2, figsize=(9.5, 7))
        plot_weights(learner.weights_, ax=axes[0, 0])
        noisy = np.arange(len(learner.weights_))[sets.noisy]
        axes[0, 0].plot(
            noisy, np.zeros(len(noisy)), "|", color="black", markersize=9, label="noise dimension"
        )
        axes[0, 0].set(title="learnt weights", xlabel="dimension")
        axes[0, 0].legend()
        plot_objective(learner.history_["objective"], ax=axes[0, 1])
        axes[0, 1].set(title="training objective")
        _scatter(axes[1, 0], X, truth, "an unseen set as it is, true clusters")
        _scatter(
            axes[1, 1], learner.transform(X), labels, "under the learnt distance, clusters found"
        )
    return figure


def _scatter(ax, X: np.ndarray, labels: np.ndarray, title: str) -> None:
    """Points in their first two principal components, coloured by cluster."""
    centred = X - X.mean(axis=0)
    plane = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    for c in np.unique(labels):
        ax.scatter(
            *plane[labels == c].T, s=14, color=gm.plot.PALETTE[int(c) % len(gm.plot.PALETTE)]
        )
    ax.set(title=title, xlabel="first component", ylabel="second component")
