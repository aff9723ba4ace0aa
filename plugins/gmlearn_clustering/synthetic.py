"""The generated data of the paper's first experiment: Gaussian clusters with noisy dimensions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import gmlearn as gm


@dataclass(frozen=True)
class SyntheticSets:
    """Train and test sets with labels; `noisy` (D,) tells the dimensions of large variance."""

    train: list[np.ndarray]
    train_labels: list[np.ndarray]
    test: list[np.ndarray]
    test_labels: list[np.ndarray]
    noisy: np.ndarray


def noisy_gaussians(
    rho: float,
    n_points: int = 300,
    n_dimensions: int = 100,
    n_clusters: int = 10,
    n_sets: int = 10,
    noise: float = 10.0,
    separation: float = 8.0,
    seed: int = 0,
) -> SyntheticSets:
    """Sets drawn from mixtures of Gaussians with diagonal covariance; the last share `rho` of the
    dimensions is noisy.

    Parameters
    ----------
    rho : share of noisy dimensions, in [0, 1).
    noise : standard deviation there; 1 elsewhere.
    separation : least distance between two cluster means over the other dimensions; means are drawn
        from N(0, 4) anew for every set. (Ten dimensions without it: the true weights themselves
        reach only a pair-F of .96.)
    """
    gm.check_number("rho", rho, low=0.0, high=0.99)
    gm.check_number("n_clusters", n_clusters, low=2, high=n_points, integer=True)
    random = np.random.default_rng(seed)
    noisy = np.arange(n_dimensions) >= n_dimensions - round(rho * n_dimensions)
    deviation = np.where(noisy, noise, 1.0)
    sets = []
    for _ in range(2 * n_sets):
        means = _separated_means(random, n_clusters, ~noisy, separation)
        labels = np.sort(
            np.concatenate(
                [np.arange(n_clusters), random.integers(0, n_clusters, n_points - n_clusters)]
            )
        )
        sets.append(
            (means[labels] + deviation * random.normal(size=(n_points, n_dimensions)), labels)
        )
    points, truth = [x for x, _ in sets], [y for _, y in sets]
    return SyntheticSets(points[:n_sets], truth[:n_sets], points[n_sets:], truth[n_sets:], noisy)


def _separated_means(
    random: np.random.Generator, n: int, informative: np.ndarray, separation: float
) -> np.ndarray:
    """Means from N(0, 4), each redrawn until it keeps its distance over the informative
    dimensions.
    """
    means = np.empty((n, len(informative)))
    for c in range(n):
        for _ in range(10_000):
            means[c] = 2.0 * random.normal(size=len(informative))
            distance = np.linalg.norm((means[:c] - means[c])[:, informative], axis=1)
            if (distance >= separation).all():
                break
        else:
            raise ValueError(
                f"separation: no {n} means {separation:g} apart in {int(informative.sum())} "
                f"dimensions; lower it"
            )
    return means


def distractor_gaussians(
    n_points: int = 160,
    n_clusters: int = 8,
    n_sets: int = 5,
    n_fine: int = 6,
    n_coarse: int = 30,
    n_distractor: int = 20,
    n_noise: int = 44,
    separation: float = 2.0,
    seed: int = 0,
) -> SyntheticSets:
    """Sets that only a learnt distance clusters: all dimensions have variance 1, four kinds differ.

    - fine: every cluster has its own mean, which spreads `separation` times as far as its points;
    - coarse: pairs of clusters share a mean, and all these dimensions share most of their noise:
      each tells clusters apart as well as a fine one, but together they say no more than one;
    - distractor: another partition, into as many clusters, with twice the separation;
    - noise: nothing, with the same variance.

    Standardised distances see the distractor; weighing each dimension by itself sees the coarse
    ones. `noisy` marks the dimensions that are not fine.
    """
    gm.check_number("n_clusters", n_clusters, low=4, high=n_points, integer=True)
    random = np.random.default_rng(seed)
    sets = []
    for _ in range(2 * n_sets):
        labels = np.sort(np.arange(n_points) % n_clusters)
        other = random.permutation(labels)
        fine = separation * random.normal(size=(n_clusters, n_fine))[labels]
        fine += random.normal(size=fine.shape)
        group = separation * random.normal(size=(n_clusters // 2 + 1, 1))[labels // 2]
        shared = group + random.normal(size=(n_points, 1))
        coarse = shared + 0.3 * random.normal(size=(n_points, n_coarse))
        away = 2.0 * separation * random.normal(size=(n_clusters, n_distractor))[other]
        away += random.normal(size=away.shape)
        rows = np.hstack([fine, coarse, away, random.normal(size=(n_points, n_noise))])
        sets.append((rows / rows.std(axis=0), labels))
    points, truth = [x for x, _ in sets], [y for _, y in sets]
    noisy = np.arange(points[0].shape[1]) >= n_fine
    return SyntheticSets(points[:n_sets], truth[:n_sets], points[n_sets:], truth[n_sets:], noisy)
