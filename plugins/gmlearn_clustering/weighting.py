"""Weights of distances from labelled points, without clustering: triplets, pairs, alignment.

Small convex problems (or closed forms) whose answers weigh the features of a learner. Labels are
clusters 0..K-1, -1 for points whose cluster is not known; they take no part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gmlearn_clustering.contrast import contrast_weights
from gmlearn_clustering.distances import SampleDistances
from gmlearn_clustering.graph import nearest_neighbours
from gmlearn_clustering.through_graph import through_graph_weights

#: nearest points of the same cluster, and of others, that make the triplets of a point
_N_SAME, _N_OTHERS = 3, 20
#: triplets or pairs at most; of more, as many are drawn
_MOST_ROWS = 200_000


def triplet_weights(
    samples: Sequence[SampleDistances],
    partitions: Sequence[np.ndarray],
    shrinkage: float = 1e-4,
    seed: int = 0,
) -> np.ndarray:
    """Weights w >= 0 (F,) under which points of other clusters are farther than those of the own.

    min over w >= 0 of the mean over triplets of [1 - w . (f_pb - f_pa)]_+^2
                     + shrinkage F |w - mean(w)|^2 / 2

    a is one of the 3 nearest points of p's cluster under the average of the features, b one of the
    20 nearest points of other clusters. The second term shrinks the weights towards the average.
    """
    rows = np.concatenate([_triplets(s, cluster) for s, cluster in zip(samples, partitions)])
    if len(rows) == 0:  # clusters of single points tell nothing
        return average_weights(samples, partitions)
    return _least_hinge(_drawn(rows, seed), shrinkage)


def pair_weights(
    samples: Sequence[SampleDistances],
    partitions: Sequence[np.ndarray],
    shrinkage: float = 1e-4,
    seed: int = 0,
) -> np.ndarray:
    """Weights w >= 0 (F,) of a large-margin classifier of pairs: same cluster or not.

    min over w >= 0, t of the mean over pairs of [1 + w . f_pq - t]_+^2 (same cluster) and
    [1 - w . f_pq + t]_+^2 (others), both kinds weighing the same, with the same shrinkage.
    """
    same: list[np.ndarray] = []
    others: list[np.ndarray] = []
    for sample, cluster in zip(samples, partitions):
        first, second = np.nonzero(np.triu(np.ones((len(cluster),) * 2, dtype=bool), 1))
        known = (cluster[first] >= 0) & (cluster[second] >= 0)
        first, second = first[known], second[known]
        equal = cluster[first] == cluster[second]
        for kept, found in ((equal, same), (~equal, others)):
            chosen = _drawn(np.flatnonzero(kept), seed)
            found.append(sample.rows(first[chosen], second[chosen]))
    near, far = _drawn(np.concatenate(same), seed), _drawn(np.concatenate(others), seed)
    if len(near) == 0:
        return average_weights(samples, partitions)
    # the threshold t is a feature of its own, free of sign and of shrinkage
    rows = np.vstack([np.c_[-near, np.ones(len(near))], np.c_[far, -np.ones(len(far))]])
    share = np.r_[np.full(len(near), 0.5 / len(near)), np.full(len(far), 0.5 / len(far))]
    return _least_hinge(rows, shrinkage, share, n_free=1)[:-1]


def alignment_weights(
    samples: Sequence[SampleDistances], partitions: Sequence[np.ndarray]
) -> np.ndarray:
    """Weights w >= 0 (F,) whose centred kernel -w . f has the largest alignment with the clusters
    (Cortes, Mohri, Rostamizadeh 2012): min over v >= 0 of v' M v - 2 v' a, w = v / |v|_1.

    M_ij = <K_i, K_j>, a_i = <K_i, Y>; K_i is the centred matrix -f_i, Y_pq = [same cluster]. O(F^2
    N^2).
    """
    from scipy.optimize import nnls

    n_features = samples[0].n_features
    gram, target = np.zeros((n_features, n_features)), np.zeros(n_features)
    for sample, cluster in zip(samples, partitions):
        known = np.flatnonzero(cluster >= 0)
        same = (cluster[known][:, None] == cluster[known][None, :]).astype(np.float64)
        kernels = np.stack(
            [
                -_centred(sample.matrix(unit)[np.ix_(known, known)]).ravel()
                for unit in np.eye(n_features)
            ]
        )
        gram += kernels @ kernels.T
        target += kernels @ _centred(same).ravel()
    # v' M v - 2 v' a as least squares: M = L L', |L' v - L^-1 a|^2
    root = np.linalg.cholesky(gram + 1e-9 * np.trace(gram) / n_features * np.eye(n_features))
    found = nnls(root.T, np.linalg.solve(root, target))[0]
    return found / found.sum() if found.sum() > 0 else np.full(n_features, 1.0 / n_features)


def average_weights(
    samples: Sequence[SampleDistances], partitions: Sequence[np.ndarray]
) -> np.ndarray:
    """The same weight for all features, (F,): what learning is compared with."""
    n_features = samples[0].n_features
    return np.full(n_features, 1.0 / n_features)


def graph_weights(
    samples: Sequence[SampleDistances], partitions: Sequence[np.ndarray]
) -> np.ndarray:
    """Triplet weights, bettered through the graph distance (see `through_graph`), (F,)."""
    start = triplet_weights(samples, partitions)
    return through_graph_weights(samples, partitions, start)


WEIGHTINGS: dict[str, Callable[..., np.ndarray]] = {
    "triplets": triplet_weights,
    "pairs": pair_weights,
    "alignment": alignment_weights,
    "through-graph": graph_weights,
    "contrast": contrast_weights,
    "average": average_weights,
}


def _triplets(sample: SampleDistances, cluster: np.ndarray) -> np.ndarray:
    """f_pb - f_pa (T, F) of the triplets of one sample."""
    n = len(cluster)
    average = sample.matrix(np.full(sample.n_features, 1.0 / sample.n_features))
    known = cluster >= 0
    same = (cluster[:, None] == cluster[None, :]) & known[:, None] & known[None, :]
    np.fill_diagonal(same, False)
    other = (cluster[:, None] != cluster[None, :]) & known[:, None] & known[None, :]
    near = nearest_neighbours(np.where(same, average, np.inf), min(_N_SAME, n - 1))
    far = nearest_neighbours(np.where(other, average, np.inf), min(_N_OTHERS, n - 1))
    # clusters may have fewer members, and all others may be one cluster
    wanted_near = np.take_along_axis(same, near, axis=1)
    wanted_far = np.take_along_axis(other, far, axis=1)
    p, i, j = np.nonzero(wanted_near[:, :, None] & wanted_far[:, None, :])
    a, b = near[p, i], far[p, j]
    chosen = _drawn(np.arange(len(p)), 0)
    p, a, b = p[chosen], a[chosen], b[chosen]
    return sample.rows(p, b) - sample.rows(p, a)


def _least_hinge(
    rows: np.ndarray, shrinkage: float, share: np.ndarray | None = None, n_free: int = 0
) -> np.ndarray:
    """min over w of sum of share [1 - rows w]_+^2 + shrinkage F |w - mean(w)|^2 / 2; w >= 0 but for
    the last `n_free`, which are not shrunk.
    """
    from scipy.optimize import minimize

    n_features = rows.shape[1] - n_free
    share = np.full(len(rows), 1.0 / len(rows)) if share is None else share

    def value(w: np.ndarray) -> tuple[float, np.ndarray]:
        short = np.maximum(1.0 - rows @ w, 0.0)
        gradient = -2.0 * (rows.T @ (share * short))
        apart = w[:n_features] - w[:n_features].mean()
        gradient[:n_features] += shrinkage * n_features * apart
        penalty = 0.5 * shrinkage * n_features * float(apart @ apart)
        return float(share @ short**2) + penalty, gradient

    bounds = [(0.0, None)] * n_features + [(None, None)] * n_free
    start = np.full(rows.shape[1], 1.0 / n_features)
    return minimize(value, start, jac=True, method="L-BFGS-B", bounds=bounds).x


def _centred(matrix: np.ndarray) -> np.ndarray:
    """Rows and columns of mean zero."""
    return matrix - matrix.mean(axis=0) - matrix.mean(axis=1)[:, None] + matrix.mean()


def _drawn(rows: np.ndarray, seed: int) -> np.ndarray:
    """At most `_MOST_ROWS` of the rows, in their order."""
    if len(rows) <= _MOST_ROWS:
        return rows
    return rows[np.sort(np.random.default_rng(seed).choice(len(rows), _MOST_ROWS, replace=False))]
