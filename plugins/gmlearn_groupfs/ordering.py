"""An order of the samples that depends on the data and the seed alone, so that shuffled rows
give the same answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gmlearn_groupfs.kernels import KernelBank


def canonical_bank(
    given: Any, metric: Any, gamma: Any, scale: bool, seed: int
) -> tuple[KernelBank, np.ndarray]:
    """The bank in canonical order, and that order (n,): row k of the bank is sample order[k].

    Rows are sorted by what they contain (a view's entries; a kernel's sorted row) and then shuffled
    by the seed. So ties, random draws and rounding are the same for every order of the input, and
    the order of the input (often sorted by class) tells nothing. Exact duplicates are
    interchangeable and keep no order. O(M n^2 log n).
    """
    if isinstance(given, KernelBank):
        order = _shuffled(_order_of_kernels(given.kernels), seed)
        views = tuple(view[order] for view in given.views)
        return KernelBank(
            given.kernels[:, order][:, :, order],
            given.names,
            given.gammas,
            views,
            given.metrics,
            given.scales,
        ), order
    arrays = _as_arrays(given)
    if all(
        a.ndim == 2 and a.shape[0] == a.shape[1] and np.allclose(a, a.T, rtol=1e-6, atol=1e-8)
        for a in arrays
    ):
        return canonical_bank(KernelBank.from_kernels(arrays), metric, gamma, scale, seed)
    if len({a.shape[:1] for a in arrays}) != 1 or any(a.ndim != 2 for a in arrays):
        # raises, naming the array that does not fit
        KernelBank.from_views(arrays, metric, gamma, scale)
    order = _shuffled(_order_of_rows([np.asarray(a, dtype=float) for a in arrays]), seed)
    return KernelBank.from_views([a[order] for a in arrays], metric, gamma, scale), order


def _as_arrays(given: Any) -> list[np.ndarray]:
    if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
        raise ValueError(
            f"X: expected a table (n, d), a list of views, kernels (M, n, n) or a KernelBank, got "
            f"{given!r}"
        )
    arrays = [np.asarray(a) for a in given]
    if not arrays:
        raise ValueError("X: expected at least one kernel or view, got none")
    return arrays


def _order_of_kernels(kernels: np.ndarray) -> np.ndarray:
    """Rows of kernels (M, n, n) by their sums, and where those do not tell all rows apart by their
    sorted entries.
    """
    largest = max(float(np.abs(kernels).max(initial=0.0)), np.finfo(float).tiny)
    # whole numbers: a sum that does not depend on the order of its terms
    sums: list[np.ndarray] = []
    for kernel in kernels:
        sums.append(np.rint(kernel * (2.0**40 / largest)).astype(np.int64).sum(axis=1))
        order = np.lexsort(sums)
        ordered = np.stack(sums)[:, order]
        if np.any(ordered[:, 1:] != ordered[:, :-1], axis=0).all():
            return order
    return _order_of_rows(np.sort(kernels, axis=2))


def _order_of_rows(blocks: Any) -> np.ndarray:
    """Lexicographic order of the rows of the blocks (n, d), taken side by side."""
    table = np.concatenate(list(blocks), axis=1)
    return np.lexsort(table.T[::-1])


def _shuffled(order: np.ndarray, seed: int) -> np.ndarray:
    return order[np.random.default_rng([seed, 7]).permutation(order.size)]
