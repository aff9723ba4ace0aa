"""``gmlearn run letters``: handwritten words (or, without data, generated ones) by chain CRFs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

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
    """Test error by method and by the number of training words; confusions and transitions.

    Two tasks: train on one fold and test on the others; train on all others and test on that fold.
    Every C is chosen on training words alone.
    """
    (X, y), folds = load_letters(run)
    small, large = np.flatnonzero(folds == 1), np.flatnonzero(folds != 1)
    if run.quick:
        small, large = small[:200], large[:400]
    parts = {
        name: ([X[k] for k in index], [y[k] for k in index])
        for name, index in (("one fold", small), ("other folds", large))
    }
    run.value("words", {name: len(part[0]) for name, part in parts.items()})
    models: dict[str, ChainCRF] = {}

    def rows():
        for given, asked in (("one fold", "other folds"), ("other folds", "one fold")):
            for method, (fit, grid) in METHODS.items():
                c = choose_c(run, fit, grid, parts[given])
                start = time.process_time()
                models[method] = fit(run, c, parts[given])
                right = share_right(models[method], parts[asked])
                yield [given, method, c, right, time.process_time() - start]

    header = ["trained on", "method", "C", "right", "CPU s"]
    found = run.table("right letters on the words of the other part", header, rows())
    run.value("right", {f"{row[1]}, trained on {row[0]}": row[3] for row in found})
    _pictures(run, models["ChainCRF, likelihood"], parts["one fold"])
    _learning_curve(run, parts["one fold"], parts["other folds"])


def fit_svm(run: gm.Run, c: float, given: Words) -> LinearSVC:
    return LinearSVC(C=c, random_state=run.seed).fit(*map(np.concatenate, given))


def fit_hinge(run: gm.Run, c: float, given: Words) -> ChainCRF:
    return _chain(run, "hinge", c).fit(*given)


def fit_likelihood(run: gm.Run, c: float, given: Words) -> ChainCRF:
    return _chain(run, "likelihood", c).fit(*given)


#: how each method is trained, and the values of C that are tried
METHODS = {
    "LinearSVC, letter by letter": (fit_svm, (0.01, 0.1, 1.0)),
    "ChainCRF, hinge": (fit_hinge, (0.03, 0.1, 0.3)),
    "ChainCRF, likelihood": (fit_likelihood, (0.3, 1.0, 3.0)),
}
#: training words that the choice of C looks at, half of them for its own training
MOST_WORDS = 1400


def choose_c(run: gm.Run, fit: Callable, grid: tuple[float, ...], given: Words) -> float:
    """The C that does best on every second training word after training on the others."""
    X, y = (part[:MOST_WORDS] for part in given)
    first, second = (X[::2], y[::2]), (X[1::2], y[1::2])
    right = [share_right(fit(run, c, first), second) for c in grid]
    return grid[int(np.argmax(right))]


def share_right(model: Any, asked: Words) -> float:
    """The share of right letters; a letter that the model has never seen counts as wrong."""
    if isinstance(model, ChainCRF):
        found = np.concatenate(model.predict(asked[0]))
    else:
        found = model.predict(np.concatenate(asked[0]))
    return float(np.mean(found == np.concatenate(asked[1])))


def _chain(run: gm.Run, loss: str, c: float) -> ChainCRF:
    return ChainCRF(loss=loss, C=c, max_iter=20 if run.quick else 60)


def _learning_curve(run: gm.Run, given: Words, asked: Words) -> None:
    sizes = np.unique(np.linspace(0, len(given[0]), 4 if run.quick else 6).astype(int))[1:]
    curve = []
    order = np.random.default_rng(run.seed).permutation(len(given[0]))  # the same word comes often
    for n in run.progress(sizes.tolist(), desc="learning curve"):
        own = [given[0][k] for k in order[:n]], [given[1][k] for k in order[:n]]
        chain = fit_likelihood(run, 1.0, own)
        curve.append([n, share_right(chain, own), share_right(chain, asked)])
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
