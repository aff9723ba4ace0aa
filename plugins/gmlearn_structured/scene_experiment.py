"""``gmlearn run scene``: sets of labels for pictures (or, without data, generated points)."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

import gmlearn as gm
from gmlearn_structured.labels import MultiLabelCRF
from gmlearn_structured.synthetic import label_sets

Points = tuple[np.ndarray, np.ndarray]


def load_scene(run: gm.Run) -> tuple[Points, Points]:
    """Training and test points: from ``structured/scene_multilabel.npz``, or generated."""
    if run.data is None:
        n = 120 if run.quick else 1000
        return label_sets(n, run.seed), label_sets(n, run.seed + 1)
    stored = np.load(run.path("structured/scene_multilabel.npz"))
    return (
        (stored["X_train"].astype(float), stored["y_train"].astype(int)),
        (stored["X_test"].astype(float), stored["y_test"].astype(int)),
    )


def run_scene(run: gm.Run) -> None:
    """Hamming loss by the graph over the labels; the learnt couplings."""
    given, asked = load_scene(run)
    run.value("points", {"train": len(given[0]), "test": len(asked[0])})
    models: dict[str, Any] = {}

    def rows():
        for method, fit in METHODS.items():
            c = choose_c(run, fit, given)
            start = time.process_time()
            models[method] = fit(run, c, given)
            found = models[method].predict(asked[0])
            yield [method, c, *_errors(found, asked[1]), time.process_time() - start]

    header = ["method", "C", "Hamming loss", "wrong sets", "CPU s"]
    found = run.table("test points", header, rows())
    run.value("Hamming loss", {row[0]: row[2] for row in found})
    _learning_curve(run, given, asked)
    _picture(run, models["MultiLabelCRF, full"])


def fit_svm(run: gm.Run, c: float, given: Points) -> OneVsRestClassifier:
    return OneVsRestClassifier(LinearSVC(C=c, random_state=run.seed)).fit(*given)


def fit_crf(run: gm.Run, c: float, given: Points, edges: str) -> MultiLabelCRF:
    return MultiLabelCRF(edges=edges, C=c, max_iter=20 if run.quick else 40).fit(*given)


METHODS: dict[str, Callable] = {"LinearSVC, one against the rest": fit_svm}
METHODS |= {
    f"MultiLabelCRF, {edges}": partial(fit_crf, edges=edges)
    for edges in ("independent", "tree", "full")
}
#: the values of C that are tried
GRID = (0.03, 0.1, 0.3, 1.0)


def choose_c(run: gm.Run, fit: Callable, given: Points) -> float:
    """The C of least Hamming loss on every second training point after training on the others."""
    first, second = ((given[0][k::2], given[1][k::2]) for k in (0, 1))
    losses = [_errors(fit(run, c, first).predict(second[0]), second[1])[0] for c in GRID]
    return GRID[int(np.argmin(losses))]


def _errors(found: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    wrong = found != truth
    return float(wrong.mean()), float(wrong.any(axis=1).mean())


def _learning_curve(run: gm.Run, given: Points, asked: Points) -> None:
    curve = []
    order = np.random.default_rng(run.seed).permutation(len(given[0]))  # stored class by class
    for part in run.progress([0.25, 0.5, 1.0], desc="learning curve"):
        n = int(part * len(given[0]))
        model = fit_crf(run, 0.1, (given[0][order[:n]], given[1][order[:n]]), "tree")
        curve.append([n, 1.0 - model.score(*asked)])
    run.table("learning curve, tree", ["training points", "Hamming loss"], curve)


def _picture(run: gm.Run, model: MultiLabelCRF) -> None:
    k = int(model.n_outputs_)
    tables = model.weights_["pair"].transpose(2, 0, 1)
    # how much cheaper two labels are together than expected from each alone
    together = tables[:, 0, 1] + tables[:, 1, 0] - tables[:, 0, 0] - tables[:, 1, 1]
    image = np.zeros((k, k))
    image[tuple(model.edges_.T)] = together
    figure, ax = plt.subplots(figsize=(4.5, 4))
    shown = ax.imshow(image + image.T, cmap="RdBu")
    figure.colorbar(shown, ax=ax)
    ax.set(title="couplings of labels", xlabel="label", ylabel="label")
    run.figure("couplings.png", figure, "Labels that come together (positive) or apart.")
