"""``gmlearn run letters``: handwritten words (or, without data, generated ones) by chain CRFs."""

from __future__ import annotations

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import LinearSVC

import gmlearn as gm
from gmlearn_structured.graphs import ChainCRF
from gmlearn_structured.synthetic import noisy_words

Words = tuple[list[np.ndarray], list[np.ndarray]]


def load_letters(run: gm.Run) -> tuple[Words, np.ndarray]:
    """Words and the fold of each: from ``structured/letters.npz``, or generated."""
    if run.data is None:
        X, y = noisy_words(60 if run.quick else 600, run.seed, 12, 24)
        return (X, y), np.arange(len(X)) % 2
    stored = np.load(run.path("structured/letters.npz"))
    pixels = np.unpackbits(stored["pixels"], axis=1).astype(float)
    ends = np.cumsum(stored["lengths"].astype(int))[:-1]
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))[stored["labels"].astype(int)]
    return (np.split(pixels, ends), np.split(letters, ends)), stored["folds"]


def run_letters(run: gm.Run) -> None:
    """Test error by method and by the number of training words; confusions and transitions."""
    (X, y), folds = load_letters(run)
    train = np.flatnonzero(folds == 1)
    test = np.flatnonzero(folds != 1)
    if run.quick:
        train, test = train[:200], test[:400]
    given = [X[k] for k in train], [y[k] for k in train]
    asked = [X[k] for k in test], [y[k] for k in test]
    run.value("words", {"train": len(train), "test": len(test)})
    models: dict[str, ChainCRF] = {}

    def rows():
        start = time.process_time()
        svm = LinearSVC(C=0.1, random_state=run.seed).fit(*map(np.concatenate, given))
        right = svm.score(*map(np.concatenate, asked))
        yield ["LinearSVC, letter by letter", right, time.process_time() - start]
        for loss in ("hinge", "likelihood"):
            start = time.process_time()
            models[loss] = _chain(run, loss).fit(*given)
            right = models[loss].score(*asked)
            yield [f"ChainCRF, {loss}", right, time.process_time() - start]

    found = run.table("right letters on the test words", ["method", "right", "CPU s"], rows())
    run.value("right", {row[0]: row[1] for row in found})
    _learning_curve(run, given, asked)
    _pictures(run, models["likelihood"], asked)


def _chain(run: gm.Run, loss: str) -> ChainCRF:
    return ChainCRF(loss=loss, C=0.1 if loss == "hinge" else 1.0, max_iter=20 if run.quick else 60)


def _learning_curve(run: gm.Run, given: Words, asked: Words) -> None:
    sizes = np.unique(np.linspace(0, len(given[0]), 4 if run.quick else 6).astype(int))[1:]
    curve = []
    for n in run.progress(sizes.tolist(), desc="learning curve"):
        own = given[0][:n], given[1][:n]
        chain = _chain(run, "likelihood").fit(*own)
        known = [np.isin(t, chain.classes_).all() for t in asked[1]]
        some = [[part[k] for k in np.flatnonzero(known)] for part in asked]
        curve.append([n, chain.score(*own), chain.score(*some)])
    run.table("learning curve, likelihood", ["training words", "train", "test"], curve)
    figure, ax = plt.subplots(figsize=(5, 3.5))
    for column, name in ((1, "training words"), (2, "test words")):
        ax.plot([row[0] for row in curve], [row[column] for row in curve], "o-", label=name)
    ax.set(xlabel="training words", ylabel="right letters")
    ax.legend()
    run.figure("learning_curve.png", figure, "Right letters by the number of training words.")


def _pictures(run: gm.Run, chain: ChainCRF, asked: Words) -> None:
    names = chain.classes_
    true, found = np.concatenate(asked[1]), np.concatenate(chain.predict(asked[0]))
    confusion = np.zeros((len(names), len(names)))
    np.add.at(confusion, (np.searchsorted(names, true), np.searchsorted(names, found)), 1.0)
    np.fill_diagonal(confusion, 0.0)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.5))
    pictures = (
        (confusion, "confusions", "read as", "letter"),
        (-chain.weights_["pair"], "scores of transitions", "next letter", "letter"),
    )
    for ax, (image, title, across, down) in zip(axes, pictures):
        shown = ax.imshow(image, cmap="viridis")
        figure.colorbar(shown, ax=ax, shrink=0.8)
        ax.set_xticks(range(len(names)), names, fontsize=6)
        ax.set_yticks(range(len(names)), names, fontsize=6)
        ax.set(title=title, xlabel=across, ylabel=down)
    run.figure("letters.png", figure, "Which letters are confused, and what the chain has learnt.")
