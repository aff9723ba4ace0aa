"""Arrays of blocks: features, dense or sparse with rows of cliques; whether two can be joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gmlearn._utils.validation import check_array


def is_sparse(features: Any) -> bool:
    """Is it a sparse matrix or array of scipy?"""
    return hasattr(features, "tocsr")


def check_features(name: str, features: Any, ndim: int | tuple[int, ...]) -> Any:
    """A dense array with one of the numbers of dimensions, or a sparse matrix in CSR form."""
    if not is_sparse(features):
        return check_array(name, features, ndim=ndim)
    from scipy.sparse import csr_array

    found = csr_array(features, dtype=float)
    found.sum_duplicates()
    bad = np.flatnonzero(~np.isfinite(found.data))
    if bad.size:
        row = int(np.searchsorted(found.indptr, bad[0], side="right")) - 1
        raise ValueError(
            f"{name}: row {row} contains {found.data[bad[0]]}; only finite numbers are accepted"
        )
    return found


def all_finite(features: Any) -> bool:
    """Are all numbers of dense or sparse features finite?"""
    return bool(np.isfinite(features.data if is_sparse(features) else features).all())


def stacked(parts: Sequence[Any]) -> Any:
    """Feature arrays of several blocks, one after the other."""
    if not is_sparse(parts[0]):
        return np.concatenate(parts)
    from scipy.sparse import vstack

    return vstack(parts, format="csr")


def summed(rows: np.ndarray, inputs: Any, weight: np.ndarray | None, n: int) -> np.ndarray:
    """Sums (n, F) of weighted feature rows (M, F): row m goes to place ``rows[m]``."""
    from scipy.sparse import csr_array

    m = len(rows)
    data = np.ones(m) if weight is None else np.asarray(weight, float)
    # column m of the transposed matrix has one entry, in row rows[m]
    choose = csr_array((data, rows, np.arange(m + 1)), shape=(m, n)).T
    return dense_product(choose, inputs)


def dense_product(a: Any, b: Any) -> np.ndarray:
    """a @ b as a dense array, whatever is sparse."""
    product = a @ b
    return product.toarray() if is_sparse(product) else np.asarray(product)


def to_arrays(features: Any) -> dict[str, Any]:
    """The argument `features` as it goes into a file: an array, or those of a sparse matrix."""
    if not is_sparse(features):
        return {"features": features}
    arrays = {"data": features.data, "indices": features.indices, "indptr": features.indptr}
    return {**arrays, "n_features": int(features.shape[1])}


def from_arrays(state: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a file with `features` put together again; refuses a matrix that is
    none.
    """
    if "indptr" not in state:
        return dict(state)
    from scipy.sparse import csr_array

    rest = dict(state)
    data, indices, indptr = (np.asarray(rest.pop(n)) for n in ("data", "indices", "indptr"))
    shape = (indptr.size - 1, int(rest.pop("n_features")))
    if {data.ndim, indices.ndim, indptr.ndim} != {1} or min(shape) < 0:
        raise ValueError("indptr: expected the arrays of a sparse matrix")
    features = csr_array((data, indices, indptr), shape=shape)
    features.check_format(full_check=True)
    return {"features": features, **rest}


def alike(a: Any, b: Any) -> bool:
    """May the numbers of two blocks stand in one array, a row for each clique?"""
    if type(a) is not type(b):
        return False
    shapes = (a.shape, b.shape) if type(a) is np.ndarray else (np.shape(a), np.shape(b))
    return shapes[0][1:] == shapes[1][1:]


def same(a: Any, b: Any) -> bool:
    """Are two attributes of blocks equal? What cannot be compared is not."""
    if a is b:
        return True
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    return type(a) is type(b) and isinstance(a, (bool, int, float, str, tuple)) and a == b
