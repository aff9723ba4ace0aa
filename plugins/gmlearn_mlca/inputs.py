"""What ``fit`` accepts: one dataset, a list of datasets, or an iterator of chunks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp


def dataset_pairs(X: Any, y: Any) -> Iterator[tuple[Any, Any]]:
    """The (X_i, y_i) that make up the training data.

    ``(array, y)`` is one pair; ``([X_1, ...], [y_1, ...])`` with two-dimensional X_i is a list of
    datasets with linked classes; an iterator (or generator) in place of X, with ``y=None``, yields
    the pairs itself; a Dask array is computed block of rows by block of rows, never as a whole.
    """
    if is_lazy_array(X):
        yield from _row_blocks(X, y)
    elif y is None and isinstance(X, Iterator):
        yield from _checked_pairs(X)
    elif is_dataset_list(X):
        if not isinstance(y, (list, tuple)) or len(y) != len(X):
            given = f"{len(y)}" if isinstance(y, (list, tuple)) else f"a {type(y).__name__}"
            raise ValueError(
                f"y: expected a list of {len(X)} label vectors, one for each dataset of X, got "
                f"{given}"
            )
        yield from zip(X, y)
    else:
        yield X, y


def is_dataset_list(X: Any) -> bool:
    """A list of two-dimensional arrays, as opposed to a list of rows?"""
    return (
        isinstance(X, (list, tuple)) and len(X) > 0 and all(getattr(x, "ndim", 0) == 2 for x in X)
    )


def is_lazy_array(X: Any) -> bool:
    """A Dask array (or one that looks like it)? Told by its attributes, so that Dask is not
    needed to ask.
    """
    return hasattr(X, "dask") and hasattr(X, "chunks") and hasattr(X, "compute")


def _row_blocks(X: Any, y: Any) -> Iterator[tuple[Any, Any]]:
    """(X_block, y_block) of a Dask array, one block of rows in memory at a time."""
    if y is None or len(y) != X.shape[0]:
        raise ValueError(
            f"y: expected {X.shape[0]} labels, one for each row of X, got "
            f"{'none' if y is None else len(y)}"
        )
    ends = np.cumsum([0, *X.chunks[0]]).tolist()
    for a, b in pairwise(ends):
        labels = y[a:b]
        yield X[a:b].compute(), labels.compute() if is_lazy_array(labels) else labels


def _checked_pairs(chunks: Iterator) -> Iterator[tuple[Any, Any]]:
    empty = True
    for i, pair in enumerate(chunks):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ValueError(
                f"X: an iterator must yield pairs (X_chunk, y_chunk); item {i} is a "
                f"{type(pair).__name__}"
            )
        empty = False
        yield pair[0], pair[1]
    if empty:
        raise ValueError(
            "X: the iterator of chunks yielded nothing; expected at least one pair (X_chunk, "
            "y_chunk)"
        )


def check_target(y: Any, n_samples: int) -> np.ndarray:
    """y as labels (n,) or finite memberships (n, k) of the right length."""
    if y is None:
        raise ValueError(
            "MLCA requires y to be passed, but the target y is None; expected labels (n,) or "
            "memberships (n, k)"
        )
    y = y.toarray() if sp.issparse(y) else np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = _column_as_vector(y)
    if y.ndim not in (1, 2) or len(y) != n_samples:
        raise ValueError(
            f"y: expected {n_samples} labels (n,) or memberships (n, k), one row for each row of "
            f"X, "
            f"got shape {y.shape}; X and y have inconsistent numbers of samples"
        )
    if y.dtype.kind in "fc" and not np.isfinite(y).all():
        raise ValueError("y: contains NaN or infinity; only finite labels are accepted")
    if y.ndim == 2:
        return y.astype(np.float64)
    if y.dtype.kind == "f" and np.any(y != np.floor(y)):
        raise ValueError(
            "y: Unknown label type: expected class labels, got continuous values; pass integers "
            "or strings"
        )
    return y


def _column_as_vector(y: np.ndarray) -> np.ndarray:
    import warnings

    from sklearn.exceptions import DataConversionWarning

    warnings.warn(
        "A column-vector y was passed when a 1d array was expected; use y.ravel()",
        DataConversionWarning,
        stacklevel=4,
    )
    return y.ravel()


def distinct(y: np.ndarray) -> np.ndarray:
    """The sorted different labels; small non-negative integers are counted, which is ten times
    faster than sorting.
    """
    if y.dtype.kind in "iu" and y.size and y.min() >= 0 and y.max() < 1 << 16:
        return np.flatnonzero(np.bincount(y)).astype(y.dtype)
    return np.unique(y)


def merge_classes(known: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sorted union of two sorted class lists, and where each known class is in it."""
    union = np.union1d(known, new)
    return union, np.searchsorted(union, known)


def encode(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Positions of the labels y in the sorted `classes`, or an error that names the strangers."""
    if (
        y.dtype.kind in "iu"
        and classes.dtype.kind in "iu"
        and classes[-1] - classes[0] == len(classes) - 1
    ):
        # consecutive integers need no search
        codes = y.astype(np.intp, copy=False) - classes[0]
        if not codes.size or (codes.min() >= 0 and codes.max() < len(classes)):
            return codes
        codes = np.clip(codes, 0, len(classes) - 1)
    else:
        codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    strangers = classes[codes] != y
    if np.any(strangers):
        raise ValueError(
            f"y: labels {np.unique(y[strangers])[:5].tolist()} were not announced; known classes "
            f"are "
            f"{classes[:20].tolist()}. Pass all of them as classes=... in the first call of "
            f"partial_fit"
        )
    return codes
