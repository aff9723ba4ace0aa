"""The relaxed k-means energy under a metric, and its spectral oracle.

Relaxed k-means: minimise -<Chat, X M X'> over rank-k orthogonal projectors Chat (n, n). Everything
here needs Chat only inside span[X J], with C = J J' the true partition, so no n x n matrix appears
and, after one pass over the data, nothing depends on n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

RELATIVE_RANK = 1e-7
#: up to this size all eigenvectors take less time than a choice of them
_SMALL = 32


@dataclass(frozen=True)
class ReducedDataset:
    """A dataset with its true partition, in an orthonormal basis Q (n, q) of span[X J], q <= min(n,
    d + k).

    Attributes
    ----------
    data : Q'X (q, d).  partition : Q'J (q, p), J the orthonormal factor of C = J J'; p = 0 where
        there is no truth.
    n_samples : n.  n_clusters : k, the rank of the projectors that compete with C.
    lift : (d + p, q) with Q = [X J] lift.
    """

    data: np.ndarray
    partition: np.ndarray
    n_samples: int
    n_clusters: int
    lift: np.ndarray

    @classmethod
    def from_moments(
        cls,
        gram: np.ndarray,
        cross: np.ndarray,
        overlap: np.ndarray,
        n_samples: int,
        n_clusters: int,
    ) -> ReducedDataset:
        """From X'X (d, d), X'J (d, k) and J'J (k, k) alone: O((d + k)^3)."""
        d = len(gram)
        joint = np.block([[gram, cross], [cross.T, overlap]])
        scale = np.sqrt(np.where(joint.diagonal() > 0, joint.diagonal(), 1.0))
        values, vectors = scipy.linalg.eigh(joint / scale[:, None] / scale)
        keep = values > RELATIVE_RANK**2 * values[-1]
        # factor' factor = joint, so factor = Q'[X J]
        factor = (np.sqrt(values[keep]) * vectors[:, keep]).T * scale
        lift = vectors[:, keep] / np.sqrt(values[keep]) / scale[:, None]
        return cls(factor[:, :d], factor[:, d:], n_samples, n_clusters, lift)

    @classmethod
    def from_data(cls, X: Any, J: np.ndarray, n_clusters: int | None = None) -> ReducedDataset:
        """From rows X (n, d), dense or sparse, and the factor J (n, k) of C: O(n (d + k)^2)."""
        gram, cross = X.T @ X, X.T @ J
        gram = gram.toarray() if sp.issparse(gram) else gram
        return cls.from_moments(
            np.asarray(gram, float),
            np.asarray(cross, float),
            J.T @ J,
            X.shape[0],
            n_clusters or J.shape[1],
        )


@dataclass(frozen=True)
class SpectralMinimum:
    """A minimiser Chat = U U' of the relaxed (or loss-augmented) energy: its value, X'ChatX (d,
    d), <Chat, C>, Q'U (q, <= k).
    """

    value: float
    features: np.ndarray
    overlap: float
    vectors: np.ndarray


def spectral_minimum(
    dataset: ReducedDataset, M: np.ndarray, augmented: bool = False
) -> SpectralMinimum:
    """min over rank-k projectors of -<Chat, X M X'> - [augmented] ||Chat - C||^2, exactly.

    -||Chat - C||^2 = 2 <Chat, C> - k - ||C||^2, so the minimiser projects on the top-k eigenvectors
    of X M X' - 2 [augmented] C. Outside span[X J] that matrix is zero: if fewer than k eigenvalues
    inside are positive, directions from outside fill up, which add nothing to the value, the
    features or the overlap. O(q^3).
    """
    A = dataset.data @ M @ dataset.data.T
    if augmented:
        A = A - 2.0 * dataset.partition @ dataset.partition.T
    q, k = len(A), dataset.n_clusters
    if q <= _SMALL:
        values, vectors = (part[..., -k:] for part in np.linalg.eigh((A + A.T) / 2.0))
    else:
        values, vectors = scipy.linalg.eigh((A + A.T) / 2.0, subset_by_index=(max(0, q - k), q - 1))
    outside = dataset.n_samples - q
    # positive directions first; then outside ones, as many as there are; then the least negative
    n_inside = max(int(np.sum(values > 0)), k - outside)
    chosen = vectors[:, len(values) - n_inside :]
    projected = chosen.T @ dataset.data
    overlap = float(np.sum((chosen.T @ dataset.partition) ** 2))
    value = -float(values[len(values) - n_inside :].sum())
    if augmented:
        # ||Chat||^2 + ||C||^2
        value -= k + float(np.sum((dataset.partition.T @ dataset.partition) ** 2))
    return SpectralMinimum(value, projected.T @ projected, overlap, chosen)


def project_psd(M: np.ndarray) -> np.ndarray:
    """The nearest positive semidefinite matrix in Frobenius norm."""
    values, vectors = np.linalg.eigh((M + M.T) / 2.0)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T
