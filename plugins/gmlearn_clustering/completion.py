"""Completion of the latent part: the exemplars of a given partition."""

from __future__ import annotations

import numpy as np


def medoid_completion(
    distances: np.ndarray, cluster: np.ndarray, penalty: float | np.ndarray
) -> tuple[np.ndarray, float]:
    """The cheapest x that is consistent with a partition, in closed form.

    q_C = argmin over q in C of d_qq + sum over p in C, p != q, of d_pq for every cluster C (ties:
    lowest index), and every p in C is assigned to q_C, the exemplar of its own cluster, even where
    another one is nearer.

    Parameters
    ----------
    distances : (N, N) d_pq; the diagonal is ignored. cluster : (N,) labels 0..K-1. penalty : d_qq,
        a number or (N,).

    Returns
    -------
    target : (N,) the exemplar of every point. energy : of that x. O(sum of the squared cluster
        sizes).
    """
    from gmlearn_clustering import _slaves_numba as kernels

    n = len(cluster)
    penalties = np.ascontiguousarray(np.broadcast_to(np.asarray(penalty, dtype=np.float64), (n,)))
    members = np.argsort(cluster, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(cluster))])
    target = np.empty(n, dtype=np.int64)
    energy = kernels.cluster_medoids(
        np.ascontiguousarray(distances), penalties, members, start, target
    )
    return target, float(energy)


def completed(
    distances: np.ndarray, cluster: np.ndarray, penalty: float | np.ndarray
) -> np.ndarray:
    """`medoid_completion`'s target (N,) where some clusters are -1, not known: the others get their
    medoids, then every unknown point goes to the nearest exemplar, or is one where that is cheaper.
    """
    known = np.flatnonzero(cluster >= 0)
    own = penalty if np.ndim(penalty) == 0 else np.asarray(penalty)[known]
    if len(known) == len(cluster):
        return medoid_completion(distances, cluster, own)[0]
    target = np.arange(len(cluster))
    target[known] = known[
        medoid_completion(distances[np.ix_(known, known)], cluster[known], own)[0]
    ]
    exemplars = np.unique(target[known])
    unknown = np.flatnonzero(cluster < 0)
    away = distances[np.ix_(unknown, exemplars)]
    alone = np.broadcast_to(penalty, (len(cluster),))[unknown]
    nearest = exemplars[np.argmin(away, axis=1)]
    target[unknown] = np.where(away.min(axis=1) <= alone, nearest, unknown)
    return target
