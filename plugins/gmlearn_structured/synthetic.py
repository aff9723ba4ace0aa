"""Generated data: words with noisy letters, points with sets of labels, pictures of crosses."""

from __future__ import annotations

import numpy as np


def noisy_words(
    n: int, seed: int = 0, n_labels: int = 6, n_features: int = 12, noise: float = 0.7
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Words of 1 to 9 letters from a Markov chain, each letter a noisy prototype.

    Returns
    -------
    X : list of float (T, n_features).   y : list of str (T,).
    """
    rng = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))[:n_labels]
    world = np.random.default_rng(12345)  # the same letters and chain for every seed
    prototypes = world.normal(size=(n_labels, n_features)) * 0.6
    chain = world.dirichlet(np.full(n_labels, 0.4), size=n_labels)
    X, y = [], []
    for _ in range(n):
        word = [int(rng.integers(n_labels))]
        for _ in range(int(rng.integers(0, 9))):
            word.append(int(rng.choice(n_labels, p=chain[word[-1]])))
        X.append(prototypes[word] + noise * rng.normal(size=(len(word), n_features)))
        y.append(letters[word])
    return X, y


def label_sets(
    n: int, seed: int = 0, n_labels: int = 5, n_features: int = 10, noise: float = 3.0
) -> tuple[np.ndarray, np.ndarray]:
    """Points with sets of labels that come in pairs: label 2j + 1 mostly follows label 2j.

    Returns
    -------
    X : float (n, n_features).   y : int (n, n_labels) of 0 and 1.
    """
    rng = np.random.default_rng(seed)
    world = np.random.default_rng(54321)
    directions = world.normal(size=(n_labels, n_features))
    y = (rng.random((n, n_labels)) < 0.4).astype(np.int64)
    copied = rng.random((n, n_labels)) < 0.85
    for second in range(1, n_labels, 2):
        y[:, second] = np.where(copied[:, second], y[:, second - 1], y[:, second])
    return y @ directions + noise * rng.normal(size=(n, n_features)), y


def crosses(
    n: int, seed: int = 0, size: int = 10, per_picture: int = 2, noise: float = 0.5
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Pictures of crosses, 1 on 0: what is a cross can be told by a model whose centres and arms
    are hidden states of the label 1.

    Returns
    -------
    X : list of float (size, size, 2), the labels' indicators with noise.   y : list of int (size,
        size).
    """
    rng = np.random.default_rng(seed)
    y = np.zeros((n, size, size), np.int64)
    for picture in y:
        for row, column in rng.integers(1, size - 1, (per_picture, 2)):
            picture[row - 1 : row + 2, column] = 1
            picture[row, column - 1 : column + 2] = 1
    return list(np.eye(2)[y] + noise * rng.normal(size=(*y.shape, 2))), list(y)
