"""Cross-fitting: training features whose supervised distances were fitted on other points."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

import gmlearn as gm
from gmlearn_clustering.distances import DistanceBank, MatrixSample, as_views, pair_means


def is_supervised(bank: Any) -> bool:
    """Does the bank hold distances that are fitted on labels?"""
    return isinstance(bank, DistanceBank) and any(
        hasattr(entry, "transform") for entry in bank.distances or []
    )


def cross_fit(
    bank: DistanceBank,
    samples: Sequence[Any],
    labels: Sequence[np.ndarray],
    n_folds: int = 5,
    seed: int = 0,
    folds: Sequence[np.ndarray] | None = None,
) -> list[MatrixSample]:
    """Fit `bank` on everything, and give the training samples features as unseen points would have
    them.

    The points are cut into folds, class by class. For the pairs between folds a and b the
    supervised distances are fitted on the points outside both, so a distance that fits its own
    training points too well gets no more weight than it deserves on new ones. Fits differ in scale:
    each one's held-out distances are brought to mean 1 before they are put together, and the bank's
    `scale_` becomes the average of these means, which is what new points will show.

    Parameters
    ----------
    n_folds : at least 3; reduced to the size of the smallest class (not below 3), so that every fit
        sees every class.
    folds : the fold 0, 1, ... of every point, an array a sample, instead of random ones: if new
        points will come from other conditions than the training points (another scale, another
        day), leave out conditions, not points; if from
        beyond the range of an ordered condition, leave out ranges (`range_folds`).

    Returns
    -------
    one `MatrixSample` of all its pairs a sample. n_folds (n_folds - 1) / 2 fits.
    """
    views = [as_views(X) for X in samples]
    for k, (sample, y) in enumerate(zip(views, labels)):
        if len(sample[0]) != len(y):
            raise ValueError(
                f"y[{k}]: expected {len(sample[0])} labels, one a point of X[{k}], got {len(y)}"
            )
    if folds is None:
        smallest = min(int(np.unique(y, return_counts=True)[1].min()) for y in labels)
        n_folds = max(3, min(n_folds, smallest))
        random = np.random.default_rng(seed)
        folds = [_stratified_folds(y, n_folds, random) for y in labels]
    folds = _check_folds(folds, labels)
    n_folds = 1 + max(int(fold.max()) for fold in folds)
    if n_folds < 3:
        raise ValueError(
            f"folds: expected at least 3, so that points are left to fit on, got {n_folds}"
        )
    for a, b in combinations(range(n_folds), 2):
        left = np.concatenate([y[(fold != a) & (fold != b)] for y, fold in zip(labels, folds)])
        if len(np.unique(left)) < 2:
            raise ValueError(
                f"y: supervised distances are cross-fitted, and without folds {a} and {b} points "
                f"of fewer than two "
                f"classes are left; give at least three points of every class"
            )
    bank.fit(samples, labels)
    stacks = [bank.prepare(X).matrices for X in samples]
    distances = list(bank.distances or ())
    supervised = [i for i, entry in enumerate(distances) if hasattr(entry, "transform")]
    means = []
    for a, b in combinations(range(n_folds), 2):
        out = [(fold == a) | (fold == b) for fold in folds]
        part = DistanceBank([distances[i] for i in supervised])
        part.fit(
            [[v[~o] for v in sample] for sample, o in zip(views, out)],
            [y[~o] for y, o in zip(labels, out)],
        )
        blocks = [
            part.prepare([v[o] for v in sample]).matrices * part.scale_[:, None, None]
            for sample, o in zip(views, out)
        ]
        means.append(pair_means(blocks))
        for stack, block, fold, o in zip(stacks, blocks, folds, out):
            held = np.flatnonzero(o)
            # pairs within a fold come from the fit that leaves out the next fold, too
            first, second = fold[held][:, None], fold[held][None, :]
            wanted = (
                (first != second)
                | ((first == a) & (b == (a + 1) % n_folds))
                | ((first == b) & (a == (b + 1) % n_folds))
            )
            i, j = np.nonzero(wanted)
            for feature, matrix, mean in zip(supervised, block, means[-1]):
                stack[feature, held[i], held[j]] = matrix[i, j] / mean
    bank.scale_[supervised] = np.mean(means, axis=0)
    return [MatrixSample(stack) for stack in stacks]


def range_folds(condition: Any, n_folds: int = 3) -> np.ndarray:
    """Folds (N,) that cut an ordered condition into ranges: for new points from beyond the training
    range.

    With three ranges, the pairs between any two of them are compared by a fit on the third, which
    lies outside or between them: supervised distances are judged by how they extrapolate. Folds of
    single values would mostly show how they interpolate.

    Parameters
    ----------
    condition : (N,) numbers such as a scale or a date; equal values stay together. n_folds : number
        of ranges, with as many values each as possible; more than three are judged by fits from
        both sides.
    """
    values, index = np.unique(gm.check_array("condition", condition, ndim=1), return_inverse=True)
    gm.check_number("n_folds", n_folds, low=3, integer=True)
    if len(values) < n_folds:
        raise ValueError(
            f"condition: expected at least {n_folds} different values for {n_folds} folds, got "
            f"{len(values)}"
        )
    sizes = [len(part) for part in np.array_split(values, n_folds)]
    return np.repeat(np.arange(n_folds), sizes)[index]


def _check_folds(folds: Sequence[Any], labels: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The folds as arrays of integers, one a point."""
    if len(folds) != len(labels):
        raise ValueError(
            f"folds: expected one array for each of the {len(labels)} samples, got {len(folds)}"
        )
    arrays = [np.asarray(fold) for fold in folds]
    for k, (fold, y) in enumerate(zip(arrays, labels)):
        if fold.shape != (len(y),) or fold.dtype.kind not in "iu" or fold.min() < 0:
            raise ValueError(
                f"folds[{k}]: expected {len(y)} integers >= 0, one a point, got an array of shape "
                f"{fold.shape} "
                f"and type {fold.dtype}"
            )
    return arrays


def _stratified_folds(y: np.ndarray, n_folds: int, random: np.random.Generator) -> np.ndarray:
    """A fold 0..n_folds-1 for every point; the points of a class are spread evenly."""
    fold = np.empty(len(y), dtype=np.int64)
    first = 0
    for c in np.unique(y):
        members = random.permutation(np.flatnonzero(y == c))
        fold[members] = (first + np.arange(len(members))) % n_folds
        first += len(members)
    return fold
