"""Weights learnt through the graph distance: how well labels spread over the neighbour graph.

The graph of `graph` depends on ranks; soft ranks make it differentiable in the weights. With d =
w . f of a point to its nearest candidates, t a share of its mean distance to neighbours and s the
logistic function,

    r_pq = 1/2 + sum over candidates k of s((d_pq - d_pk) / t),     W_pq = s((5.5 - r_pq) / .25) / r

goes to 1 / rank of the five nearest as t falls. K = (I - decay A)^-1 spreads the labels of all
other points to p; the loss is -log of the share that comes from p's own cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from gmlearn_clustering.distances import SampleDistances
from gmlearn_clustering.graph import DECAY, N_NEIGHBORS, nearest_neighbours

#: candidates of a point; softness of ranks, as a share of distances, and of the last neighbour
_N_CANDIDATES, _SOFTNESS, _EDGE = 15, 0.1, 0.25
#: added to a share before its logarithm, so that a lost point costs no more than 7
_LOST = 1e-3
#: times that candidates are chosen anew, and steps between two choices
_N_CHOICES, _N_STEPS = 3, 30


class Candidates(NamedTuple):
    """A sample ready for gradients: candidates (N, M), their features (F, N, M), softness (N, 1, 1)
    of the ranks, and one-hot clusters (N, K), zero where not known.
    """

    nearest: np.ndarray
    features: np.ndarray
    softness: np.ndarray
    member: np.ndarray


def through_graph_weights(
    samples: Sequence[SampleDistances],
    partitions: Sequence[np.ndarray],
    start: np.ndarray,
    shrinkage: float = 1.0,
) -> np.ndarray:
    """Weights w >= 0 (F,) of sum 1 that spread labels best, shrunk towards given ones.

    min over w of the mean of the losses + shrinkage F |w - start|^2, by L-BFGS; O(N^3) a step.

    Parameters
    ----------
    samples, partitions : training sets and their clusters, -1 where not known.
    start : (F,) weights to begin with and to stay near to, such as those of triplets.
    """
    from scipy.optimize import minimize

    centre = start / start.sum()
    n_features = len(centre)
    w = centre
    for _ in range(_N_CHOICES):
        ready = [_candidates(s, truth, w) for s, truth in zip(samples, partitions)]

        def value(u: np.ndarray, ready: list[Candidates] = ready) -> tuple[float, np.ndarray]:
            total = u.sum()
            v = u / total
            loss = shrinkage * n_features * float((v - centre) @ (v - centre))
            gradient = 2.0 * shrinkage * n_features * (v - centre)
            for one in ready:
                own, slope = spreading_loss(one, v)
                loss += own / len(ready)
                gradient += slope / len(ready)
            return loss, (gradient - gradient @ v) / total  # of u / sum(u)

        bounds = [(1e-9, None)] * n_features
        found = minimize(
            value,
            np.maximum(w, 1e-9),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": _N_STEPS},
        ).x
        w = found / found.sum()
    return w


def spreading_loss(one: Candidates, w: np.ndarray) -> tuple[float, np.ndarray]:
    """The loss of one sample at w, and its gradient (F,)."""
    distance = np.tensordot(w, one.features, 1)
    steps = expit((distance[:, :, None] - distance[:, None, :]) / one.softness)
    rank = 0.5 + steps.sum(axis=2)
    kept = expit((N_NEIGHBORS + 0.5 - rank) / _EDGE)
    n = len(rank)
    rows = np.arange(n)[:, None]
    one_way = np.zeros((n, n))
    one_way[rows, one.nearest] = kept / rank
    both = (one_way + one_way.T) / 2.0
    root = both.sum(axis=1) ** -0.5
    kernel = np.linalg.inv(np.eye(n) - DECAY * both * root[:, None] * root)
    loss, slope = _spread(kernel, one.member)
    # back through the inverse, the degrees, the mean of both directions, and the soft ranks
    slope = DECAY * kernel @ slope @ kernel
    to_root = ((slope + slope.T) * both) @ root
    slope = slope * root[:, None] * root - 0.5 * (to_root * root**3)[:, None]
    slope = ((slope + slope.T) / 2.0)[rows, one.nearest]
    slope = slope * -(kept * (1.0 - kept) / (_EDGE * rank) + kept / rank**2)
    softened = steps * (1.0 - steps) / one.softness
    slope = slope * softened.sum(axis=2) - np.einsum("pij,pj->pi", softened, slope)
    return loss, np.einsum("fpi,pi->f", one.features, slope)


def _spread(kernel: np.ndarray, member: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean -log share of the own cluster in what other points spread, and its gradient (N, N)."""
    weight = kernel.copy()
    np.fill_diagonal(weight, 0.0)
    received = weight @ member
    total = np.maximum(received.sum(axis=1), 1e-300)
    own = (received * member).sum(axis=1)
    known = member.sum(axis=1)
    share = own / total
    loss = -float((known * np.log(share + _LOST)).sum() / known.sum())
    to_share = -known / (known.sum() * (share + _LOST))
    to_received = (to_share / total)[:, None] * member
    to_received -= (to_share * own / total**2)[:, None] * member.any(axis=0)
    slope = to_received @ member.T
    np.fill_diagonal(slope, 0.0)
    return loss, slope


def _candidates(sample: SampleDistances, cluster: np.ndarray, w: np.ndarray) -> Candidates:
    """The nearest points of every point under w, every feature at mean 1 within the set."""
    means = sample.means()
    scale = 1.0 / np.where(means > 0.0, means, 1.0)
    distances = sample.matrix(w * scale)
    nearest = nearest_neighbours(distances, min(_N_CANDIDATES, len(cluster) - 1))
    points = np.repeat(np.arange(len(cluster)), nearest.shape[1])
    rows = sample.rows(points, nearest.ravel()) * scale
    features = np.ascontiguousarray(rows.T).reshape(-1, *nearest.shape)
    near = np.take_along_axis(distances, nearest[:, :N_NEIGHBORS], axis=1).mean(axis=1)
    member = (cluster[:, None] == np.arange(cluster.max() + 1)).astype(np.float64)
    softness = np.maximum(_SOFTNESS * near, 1e-12)[:, None, None]
    return Candidates(nearest, features, softness, member)
