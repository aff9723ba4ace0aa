"""``gmlearn demo``: define, solve and learn a model of pictures, then learn to cluster."""

from __future__ import annotations

from typing import Any

import numpy as np

import gmlearn as gm
from gmlearn_clustering.estimator import ExemplarClustering
from gmlearn_clustering.learner import ExemplarClusteringLearner
from gmlearn_clustering.scores import accuracy, pair_f
from gmlearn_clustering.synthetic import SyntheticSets, noisy_gaussians

HEIGHT, WIDTH, N_LABELS = 24, 36, 3
N_CLUSTERS = 8
#: what the learnt picture model is compared with: weights that a person might choose
GUESSED = {"colour": -np.eye(N_LABELS), "smooth": 0.5, "patch": np.zeros(N_LABELS)}
CODE = """\
from gmlearn_clustering import ExemplarClusteringLearner
learner = ExemplarClusteringLearner().fit(sets_of_points, their_labels)
labels = learner.cluster(new_points)"""


def demo(run: gm.Run) -> None:
    """Two jobs on generated data, each before and after learning, against simple rivals."""
    n_steps = (2 if run.quick else 3) + 4
    with run.progress(total=n_steps, desc="demo") as bar:
        _pictures(run, bar)
        _clusters(run, bar)
    run.code = CODE


def _step(bar: Any, what: str) -> None:
    bar.update(1)
    bar.set_postfix_str(what)


# ------------------------------------------------------------------ pictures


def _truth() -> np.ndarray:
    """(H W,): a board of 3 x 3 fields in three labels."""
    rows = np.arange(HEIGHT) // 8
    columns = np.arange(WIDTH) // 12
    return np.add.outer(rows, columns).ravel() % N_LABELS


def _model(colours: np.ndarray) -> gm.CRF:
    """Colours (H W, 3), edges between neighbours, and every 3 x 3 patch as a clique of nine."""
    crf = gm.CRF(HEIGHT * WIDTH, N_LABELS)
    crf.add(gm.Unary(colours, weight="colour"))
    crf.add(gm.Potts(gm.grid_edges(HEIGHT, WIDTH), weight="smooth"))
    patches = gm.grid_cliques(HEIGHT, WIDTH, 3, 3)
    crf.add("pn_potts", cliques=patches, weight="patch")
    return crf


def _pictures(run: gm.Run, bar: Any) -> None:
    """Learn the weights of the model from pictures with hidden labels; label a new picture."""
    rng = np.random.default_rng(run.seed)
    truth = _truth()
    samples = []
    for _ in range(2 if run.quick else 3):
        colours = np.eye(N_LABELS)[truth] + rng.normal(size=(len(truth), N_LABELS))
        hidden = rng.random(len(truth)) < 0.2
        samples.append(gm.Sample(_model(colours), truth, hidden=hidden))
        _step(bar, "learning the weights of a picture model")
    model = gm.train(samples, regularizer=gm.L2(1.0), max_iter=12)
    _step(bar, "labelling a new picture")
    colours = np.eye(N_LABELS)[truth] + rng.normal(size=(len(truth), N_LABELS))
    crf = _model(colours)
    alone = colours.argmax(axis=1)
    before = gm.solve(crf, GUESSED)
    after = model.predict(crf)
    answers = {"model, guessed weights": before, "model, learnt weights": after}
    wrong = {"each pixel alone": float(np.mean(alone != truth))}
    rows: list[list[Any]] = [["each pixel alone", wrong["each pixel alone"], None, None, None]]
    for name, answer in answers.items():
        wrong[name] = float(np.mean(answer.labels != truth))
        # rounded: sums of many costs differ in their last digits
        gap = abs(round(answer.gap, 9))
        rows.append([name, wrong[name], answer.energy, answer.bound, gap])
    run.table(
        f"A picture that was not seen in training: {HEIGHT * WIDTH} variables, "
        f"{len(crf.blocks[2])} cliques of nine",
        ["method", "wrong pixels", "energy", "lower bound", "gap"],
        rows,
    )
    run.explain("wrong pixels", "share of the pixels with another label than the true one")
    run.explain("energy", "cost of the labelling found, under the weights of its row")
    run.explain("lower bound", "no labelling has a lower energy than this")
    run.explain("gap", "energy minus lower bound; 0 proves that the labelling is the best one")
    run.value("wrong_alone", wrong["each pixel alone"])
    run.value("wrong_guessed", wrong["model, guessed weights"])
    run.value("wrong_learnt", wrong["model, learnt weights"])
    run.note(
        f"Pictures: {wrong['each pixel alone']:.0%} of the pixels are wrong if each is labelled "
        f"alone, {wrong['model, guessed weights']:.1%} with guessed weights, "
        f"{wrong['model, learnt weights']:.1%} with weights learnt from {len(samples)} pictures in "
        "which a fifth of the labels was hidden."
    )
    run.figure(
        "picture.png",
        _picture_figure(truth, alone, before.labels, after.labels),
        "The true labels; each pixel labelled alone; the model of edges and cliques of nine, "
        "before and after learning.",
    )


def _picture_figure(*labellings: np.ndarray) -> Any:
    import matplotlib

    titles = ("truth", "each pixel alone", "guessed weights", "learnt weights")
    with gm.plot.styled() as plt:
        figure, axes = plt.subplots(2, 2, figsize=(7, 5.2))
        colours = matplotlib.colors.ListedColormap(gm.plot.PALETTE[:N_LABELS])
        for ax, labels, title in zip(axes.flat, labellings, titles):
            ax.imshow(labels.reshape(HEIGHT, WIDTH), cmap=colours, vmin=0, vmax=N_LABELS - 1)
            ax.set(title=title, xticks=[], yticks=[])
    return figure


# ------------------------------------------------------------------ clusters


def _clusters(run: gm.Run, bar: Any) -> None:
    """Learn a distance from partitioned sets in which most dimensions are noise; cluster sets that
    were not seen.
    """
    n_points, n_sets = (80, 4) if run.quick else (150, 6)
    sets = noisy_gaussians(
        rho=0.8,
        n_points=n_points,
        n_dimensions=40,
        n_clusters=N_CLUSTERS,
        n_sets=n_sets,
        seed=run.seed,
    )
    _step(bar, "clustering with given distances")
    found = {name: [method(X) for X in sets.test] for name, method in _rivals(run.seed).items()}
    _step(bar, "learning a distance")
    learner = ExemplarClusteringLearner(n_rounds=60, random_state=run.seed)
    learner.fit(sets.train, sets.train_labels)
    found["learnt distance"] = [learner.cluster(X) for X in sets.test]
    scores = {}
    rows = []
    for name, labellings in found.items():
        pairs = list(zip(sets.test_labels, labellings))
        scores[name] = float(np.mean([accuracy(truth, labels) for truth, labels in pairs]))
        given = "given" if name != "learnt distance" else "found"
        sizes = [len(np.unique(labels)) for labels in labellings]
        f = float(np.mean([pair_f(truth, labels) for truth, labels in pairs]))
        rows.append([name, scores[name], f, f"{_span(sizes)} ({given})"])
    run.table(
        f"{n_sets} sets that were not seen in training: {n_points} points, 40 dimensions, "
        f"{N_CLUSTERS} clusters each",
        ["method", "accuracy", "pair F", "number of clusters"],
        rows,
    )
    run.explain("accuracy", "share of points in the right cluster, clusters matched at their best")
    run.explain("pair F", "harmonic mean of precision and recall over pairs of points put together")
    run.explain("number of clusters", "given to the method, or found by it, over all sets")
    noise = float(learner.weights_[sets.noisy].sum() / learner.weights_.sum())
    for key, name in {
        "accuracy_before": "Euclidean distance",
        "accuracy_standardised": "Euclidean distance, standardised",
        "accuracy_kmeans": "k-means, standardised",
        "accuracy_learnt": "learnt distance",
    }.items():
        run.value(key, scores[name])
    run.value("noise_weight_share", noise)
    run.note(
        f"Clusters: accuracy {scores['Euclidean distance']:.2f} with Euclidean distance, "
        f"{scores['Euclidean distance, standardised']:.2f} after standardising, "
        f"{scores['k-means, standardised']:.2f} by k-means, all given the number of clusters; "
        f"{scores['learnt distance']:.2f} with a distance learnt from {n_sets} partitioned sets, "
        f"which also finds the number. The 32 noise dimensions get {noise:.1%} of the weight. "
        "Where at most half of the dimensions are noise, standardising is enough."
    )
    run.figure(
        "clusters.png",
        _cluster_figure(sets, learner, found),
        "An unseen set, coloured by cluster: by standardised Euclidean distance, and under the "
        "learnt distance.",
    )
    _step(bar, "done")


def _span(sizes: list[int]) -> str:
    low, high = min(sizes), max(sizes)
    return str(low) if low == high else f"{low} to {high}"


def _rivals(seed: int) -> dict[str, Any]:
    """Simple methods that are given the number of clusters."""
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import StandardScaler

    def exemplars(X: np.ndarray) -> np.ndarray:
        return ExemplarClustering(n_clusters=N_CLUSTERS, random_state=seed).fit(X).labels_

    def standardised(X: np.ndarray) -> np.ndarray:
        return exemplars(StandardScaler().fit_transform(X))

    def kmeans(X: np.ndarray) -> np.ndarray:
        method = KMeans(N_CLUSTERS, n_init=10, random_state=seed)
        return method.fit(StandardScaler().fit_transform(X)).labels_

    return {
        "Euclidean distance": exemplars,
        "Euclidean distance, standardised": standardised,
        "k-means, standardised": kmeans,
    }


def _cluster_figure(sets: SyntheticSets, learner: ExemplarClusteringLearner, found: dict) -> Any:

    X = sets.test[0]
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    with gm.plot.styled() as plt:
        figure, axes = plt.subplots(1, 2, figsize=(7, 3.4))
        before = found["Euclidean distance, standardised"][0]
        _scatter(axes[0], scaled, before, "before: standardised")
        _scatter(axes[1], learner.transform(X), found["learnt distance"][0], "after: learnt")
    return figure


def _scatter(ax: Any, X: np.ndarray, labels: np.ndarray, title: str) -> None:
    """Points in their first two principal components, coloured by cluster."""
    centred = X - X.mean(axis=0)
    plane = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    for c in np.unique(labels):
        colour = gm.plot.PALETTE[int(c) % len(gm.plot.PALETTE)]
        ax.scatter(*plane[labels == c].T, s=14, color=colour)
    ax.set(title=title, xlabel="first component", ylabel="second component")
