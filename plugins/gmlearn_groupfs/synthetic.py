"""Data whose clusters are each visible in one view only: the paper's face experiment in
miniature.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import gmlearn as gm


@dataclass(frozen=True, eq=False)
class GroupedViews:
    """views : list of (n, d) arrays.

    labels : (n,) clusters.   view_of_cluster : (C,) the view that shows each one.
    """

    views: list[np.ndarray]
    labels: np.ndarray
    view_of_cluster: np.ndarray


def make_grouped_views(
    n_groups: int = 4,
    clusters_per_group: int = 4,
    cluster_size: int = 20,
    n_nuisance: int = 4,
    dimension: int = 10,
    separation: float = 9.0,
    nuisance_spread: float = 1.0,
    random_state: int | None = 0,
) -> GroupedViews:
    """`n_groups` views; view g separates the clusters of group g and shows unrelated blobs for all
    other points.

    In view g a point of group g lies at its cluster's centre plus unit noise. Every other point
    lies in one of `n_nuisance` blobs drawn without regard to its cluster (as all faces under one
    light look alike): structure, but not the structure sought. Rows come in random order. Blobs
    should hold more points than a cluster: a blob of a cluster's size is a cluster like any other,
    and nothing in the data could tell.

    Parameters
    ----------
    separation : distance between two centres, on average, in units of the noise.
    nuisance_spread : standard deviation inside a nuisance blob, in the same units.
    """
    for name, value in (
        ("n_groups", n_groups),
        ("clusters_per_group", clusters_per_group),
        ("cluster_size", cluster_size),
        ("n_nuisance", n_nuisance),
        ("dimension", dimension),
    ):
        gm.check_number(name, value, low=1, integer=True)
    rng = np.random.default_rng(random_state)
    n_clusters = n_groups * clusters_per_group
    labels = rng.permutation(np.repeat(np.arange(n_clusters), cluster_size))
    view_of_cluster = np.arange(n_clusters) // clusters_per_group
    scale = separation / np.sqrt(2.0 * dimension)
    views = []
    for g in range(n_groups):
        own = view_of_cluster[labels] == g
        centres = rng.normal(size=(n_clusters, dimension)) * scale
        blobs = rng.normal(size=(n_nuisance, dimension)) * scale
        nuisance = blobs[rng.integers(n_nuisance, size=labels.size)]
        noise = rng.normal(size=(labels.size, dimension))
        views.append(
            np.where(own[:, None], centres[labels] + noise, nuisance + nuisance_spread * noise)
        )
    return GroupedViews(views, labels, view_of_cluster)
