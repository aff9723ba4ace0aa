"""What MLCA keeps of the data: one small matrix that adds up over chunks, files and machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from gmlearn_mlca.inputs import encode

# rows are read in pieces of about this size: in the cache for the second product, and large enough
# for full BLAS speed
CHUNK_BYTES = 2 << 20
#: mean in standard deviations from which rows are shifted before they are squared
FAR_FROM_ZERO = {np.dtype(np.float32): 2.0, np.dtype(np.float64): 1e3}


class PartitionStatistics:
    """Sufficient statistics of a partitioned dataset: the second moments A = [X-o Y 1]'[X-o Y 1],
    in float64.

    X (n, d) are the rows and Y (n, k) their memberships, one-hot or soft. The origin o is 0, or for
    data far from 0 the mean of the first chunk, so that no digits are lost; moments about any other
    point follow from A. ``add`` costs O(n d^2) time for labels, O(n (d + k)^2) for memberships, and
    one chunk of extra memory; statistics of disjoint rows are merged by ``+``.

    Parameters
    ----------
    n_features, n_classes : d and k.
    """

    def __init__(self, n_features: int, n_classes: int) -> None:
        self.n_features = n_features
        self.n_classes = n_classes
        self.origin = np.zeros(n_features)
        self.moments = np.zeros((n_features + n_classes + 1,) * 2)

    @property
    def n_samples(self) -> int:
        return int(self.moments[-1, -1])

    @property
    def mean(self) -> np.ndarray:
        """X'1 / n (d,)."""
        return self.origin + self.moments[: self.n_features, -1] / self.n_samples

    @property
    def overlaps(self) -> np.ndarray:
        """Y'Y (k, k); for labels a diagonal matrix of counts."""
        return self.moments[self.n_features : -1, self.n_features : -1]

    @property
    def weights(self) -> np.ndarray:
        """Y'1 (k,)."""
        return self.moments[self.n_features : -1, -1]

    def about(self, origin: np.ndarray) -> np.ndarray:
        """The moments with X taken relative to another point (d,)."""
        move = np.eye(len(self.moments))
        move[: self.n_features, -1] = self.origin - origin
        return move @ self.moments @ move.T

    def regression(self, centred: bool) -> tuple[np.ndarray, np.ndarray]:
        """X'X (d, d) and X'Y (d, k) of the rows as they are, or with their mean subtracted."""
        moments = self.about(self.mean if centred else np.zeros(self.n_features))
        return moments[: self.n_features, : self.n_features], moments[
            : self.n_features, self.n_features : -1
        ]

    def rounding(self, dtype: Any, relative: float) -> np.ndarray:
        """(d,) the size of (X - mean)'(X - mean) on the diagonal below which a column of `dtype`
        cannot be told from a constant.
        """
        return (
            relative * self.moments.diagonal()[: self.n_features]
            + self.n_samples * (4.0 * np.finfo(dtype).eps * self.origin) ** 2
        )

    def add(self, X: Any, y: np.ndarray, classes: np.ndarray | None = None) -> PartitionStatistics:
        """Account for rows X (n, d), dense or CSR; dense rows are read chunk by chunk.

        `y` holds memberships (n, k), or labels (n,) if the sorted `classes` (k,) are given. Float32
        chunks are multiplied in float32 and summed in float64, which is both faster and more
        accurate than one large float32 product. NaN and infinities reach the diagonal of A and are
        found there, so that finding them costs no pass over the data; nothing of a bad block is
        kept.
        """
        fresh = PartitionStatistics(self.n_features, self.n_classes)
        fresh.origin = self.origin
        table = None
        for start, stop in _row_chunks(X):
            rows, members = X[start:stop], y[start:stop]
            if classes is not None:
                members = encode(members, classes)
            if sp.issparse(rows):
                product = self._of_sparse(rows, members).about(fresh.origin)
            else:
                if self.n_samples == 0 and start == 0:
                    fresh.origin = _choose_origin(rows)
                with np.errstate(invalid="ignore", over="ignore"):  # told below, with the place
                    table = _shifted(table, rows, fresh.origin)
                    product = _moments(table, members, self.n_classes)
            if not np.isfinite(product.diagonal()).all():
                raise ValueError(_describe_non_finite(rows, start))
            fresh.moments += product
        self.moments += fresh.moments
        self.origin = fresh.origin
        return self

    def _of_sparse(self, rows: Any, members: np.ndarray) -> PartitionStatistics:
        statistics = PartitionStatistics(self.n_features, self.n_classes)
        statistics.moments = _moments(rows, members, self.n_classes)
        return statistics

    def __add__(self, other: PartitionStatistics) -> PartitionStatistics:
        if (self.n_features, self.n_classes) != (other.n_features, other.n_classes):
            raise ValueError(
                f"other: expected statistics of {self.n_features} features and {self.n_classes} "
                f"classes, "
                f"got {other.n_features} and {other.n_classes}"
            )
        result = PartitionStatistics(self.n_features, self.n_classes)
        result.origin = self.origin if self.n_samples else other.origin
        result.moments = self.about(result.origin) + other.about(result.origin)
        return result

    def with_classes(self, n_classes: int, position: np.ndarray) -> PartitionStatistics:
        """The same data with class c moved to column ``position[c]`` of `n_classes` columns (new
        ones empty).
        """
        wide = PartitionStatistics(self.n_features, n_classes)
        wide.origin = self.origin
        place = np.r_[np.arange(self.n_features), self.n_features + position, len(wide.moments) - 1]
        wide.moments[np.ix_(place, place)] = self.moments
        return wide


def _row_chunks(X: Any) -> Iterator[tuple[int, int]]:
    n, d = X.shape
    rows = n if sp.issparse(X) else max(256, CHUNK_BYTES // max(1, d * X.dtype.itemsize))
    for start in range(0, n, max(rows, 1)):
        yield start, min(start + rows, n)


def _choose_origin(rows: np.ndarray) -> np.ndarray:
    """The mean of the rows if some column is so far from 0 that its square would drown its
    variance, else 0 (faster).
    """
    sample = rows[:1000].astype(np.float64)
    if not np.isfinite(sample).all():
        return np.zeros(rows.shape[1])  # the caller will complain
    mean, deviation = sample.mean(axis=0), sample.std(axis=0)
    far = np.any(np.abs(mean) > FAR_FROM_ZERO[rows.dtype] * deviation)
    return mean.astype(rows.dtype).astype(np.float64) if far else np.zeros(rows.shape[1])


def _indicator(codes: np.ndarray, n_classes: int, dtype: Any) -> sp.csr_array:
    """The one-hot matrix Y (n, k) of integer labels, sparse."""
    return sp.csr_array(
        (np.ones(len(codes), dtype), codes, np.arange(len(codes) + 1)),
        shape=(len(codes), n_classes),
    )


def _shifted(table: np.ndarray | None, rows: np.ndarray, origin: np.ndarray) -> np.ndarray:
    """X - o of one chunk, in the memory of the previous one if it has the same length; the rows
    themselves if o = 0.
    """
    if not origin.any():
        return rows
    if table is None or table.shape != rows.shape:
        table = np.empty_like(rows)
    return np.subtract(rows, origin.astype(rows.dtype), out=table)


def _moments(rows: Any, members: np.ndarray, k: int) -> np.ndarray:
    """[X Y 1]'[X Y 1] from its blocks, without a copy of X; members are labels (n,) or Y (n, k)."""
    if members.ndim == 1 and not sp.issparse(rows):
        return _moments_of_labels(rows, members, k)
    Y = sp.csr_array(members) if members.ndim == 2 else _indicator(members, k, rows.dtype)
    labels = sp.hstack([Y, sp.csr_array(np.ones((rows.shape[0], 1), rows.dtype))], format="csr")
    gram, sums = _dense(rows.T @ rows), _dense(labels.T @ rows)
    return np.block([[gram, sums.T], [sums, _dense(labels.T @ labels)]])


def _moments_of_labels(rows: np.ndarray, codes: np.ndarray, k: int) -> np.ndarray:
    from gmlearn_mlca._sums_numba import add_rows

    d = rows.shape[1]
    moments = np.zeros((d + k + 1, d + k + 1))
    moments[:d, :d] = rows.T @ rows
    sums, counts = np.zeros((k, d), rows.dtype), np.zeros(k)
    add_rows(rows, codes, sums, counts)
    moments[d:-1, :d] = sums
    moments[-1, :d] = moments[d:-1, :d].sum(axis=0)
    moments[:d, d:] = moments[d:, :d].T
    np.fill_diagonal(moments[d:-1, d:-1], counts)
    moments[d:-1, -1] = moments[-1, d:-1] = counts
    moments[-1, -1] = len(rows)
    return moments


def _dense(product: Any) -> np.ndarray:
    return product.toarray() if sp.issparse(product) else product


def _describe_non_finite(rows: Any, start: int) -> str:
    data = rows.toarray() if sp.issparse(rows) else rows
    bad = np.argwhere(~np.isfinite(data))
    if not len(bad):
        last = start + rows.shape[0] - 1
        return (
            f"X: squares overflow {rows.dtype} in rows {start}..{last}; rescale X or pass float64"
        )
    row, column = (int(i) for i in bad[0])
    return (
        f"X: contains {'NaN' if np.isnan(data[row, column]) else 'infinity'} (first at row "
        f"{start + row}, column "
        f"{column}); NaN and inf are not accepted, only finite numbers"
    )
