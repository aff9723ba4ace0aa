r"""Kernel banks: M kernels over the same samples, :math:`K_m(i, j) = \exp(-\gamma_m d_m(x_i,
x_j)^2)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import gmlearn as gm


def _euclidean(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    squared = (
        np.einsum("ij,ij->i", a, a)[:, None]
        + np.einsum("ij,ij->i", b, b)[None, :]
        - 2.0 * (a @ b.T)
    )
    return np.sqrt(np.maximum(squared, 0.0))


def _cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    unit = [
        x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), np.finfo(float).tiny)
        for x in (a, b)
    ]
    return np.maximum(1.0 - unit[0] @ unit[1].T, 0.0)


def _manhattan(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    from scipy.spatial.distance import cdist

    return cdist(a, b, "cityblock")


def _chi2(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    from sklearn.metrics.pairwise import additive_chi2_kernel

    return -additive_chi2_kernel(a, b)


#: distance functions by name: (n, d), (k, d) -> (n, k)
DISTANCES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "euclidean": _euclidean,
    "cosine": _cosine,
    "manhattan": _manhattan,
    "chi2": _chi2,
}


@dataclass(frozen=True, eq=False)
class KernelBank:
    """M kernels of the same n samples, with what is needed to compare new samples to them.

    kernels : float64 (M, n, n), symmetric and finite.   names : one per kernel.
    gammas : (M,) or None, the widths where the kernels were made from distances.
    views, metrics, scales : only for a bank made from views; then `cross_views` accepts new views.
    """

    kernels: np.ndarray
    names: tuple[str, ...]
    gammas: np.ndarray | None = None
    views: tuple[np.ndarray, ...] = ()
    metrics: tuple[str, ...] = ()
    scales: tuple[tuple[np.ndarray, np.ndarray], ...] = field(default=(), repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """(M, n, n)."""
        return self.kernels.shape

    @classmethod
    def from_kernels(cls, kernels: Any, names: Sequence[str] | None = None) -> KernelBank:
        """A bank from given kernel matrices (M, n, n)."""
        stack = _check_square("kernels", kernels)
        return cls(stack, _check_names(names, len(stack)))

    @classmethod
    def from_distances(
        cls, distances: Any, gamma: Any = "median", names: Sequence[str] | None = None
    ) -> KernelBank:
        """A bank from distance matrices (M, n, n); gamma a number, one per matrix, or "median":
        1 / median(d^2).
        """
        stack = _check_square("distances", distances)
        if stack.min(initial=0.0) < 0:
            raise ValueError(f"distances: expected non-negative numbers, got {stack.min():g}")
        gammas = _check_gammas(gamma, stack)
        return cls(
            np.exp(-gammas[:, None, None] * stack**2), _check_names(names, len(stack)), gammas
        )

    @classmethod
    def from_views(
        cls,
        views: Any,
        metric: Any = "euclidean",
        gamma: Any = "median",
        scale: bool = True,
        names: Sequence[str] | None = None,
    ) -> KernelBank:
        """A bank from views, a list of M arrays (n, d_m).

        metric : a name in "euclidean", "cosine", "manhattan", "chi2", or one for each view.
        scale : standardise the columns first (not for chi2, which needs counts; never centred for
            cosine).
        """
        arrays = _check_views("views", views)
        with gm.naming("metric"):
            metrics = (metric,) * len(arrays) if isinstance(metric, str) else tuple(metric)
        if len(metrics) != len(arrays):
            raise ValueError(
                f"metric: expected one name or {len(arrays)} (one per view), got {len(metrics)}"
            )
        for name in metrics:
            gm.check_choice("metric", name, tuple(DISTANCES))
        scales = tuple(_scaling(x, name, scale) for x, name in zip(arrays, metrics))
        scaled = tuple((x - shift) / width for x, (shift, width) in zip(arrays, scales))
        distances = np.stack([DISTANCES[name](x, x) for x, name in zip(scaled, metrics)])
        distances = 0.5 * (distances + distances.transpose(0, 2, 1))
        distances[:, np.arange(len(scaled[0])), np.arange(len(scaled[0]))] = 0.0
        bank = cls.from_distances(
            distances,
            gamma,
            names if names is not None else [f"view {m}" for m in range(len(arrays))],
        )
        return cls(bank.kernels, bank.names, bank.gammas, scaled, metrics, scales)

    def cross(self, kernels_or_views: Any) -> np.ndarray:
        """Kernels between new samples and the bank's own, (M, k, n): checked if given as such,
        computed from views.
        """
        n_kernels, n, _ = self.kernels.shape
        if not self.views:
            return gm.check_array("kernels", kernels_or_views, shape=(n_kernels, None, n))
        new = _check_views("views", kernels_or_views)
        if len(new) != n_kernels:
            raise ValueError(f"views: expected {n_kernels} views as in fit, got {len(new)}")
        for m, (x, own) in enumerate(zip(new, self.views)):
            if x.shape[1] != own.shape[1]:
                raise ValueError(
                    f"views[{m}]: expected {own.shape[1]} columns as in fit, got {x.shape[1]}"
                )
        assert self.gammas is not None  # a bank of views always has widths
        return np.stack(
            [
                np.exp(-g * DISTANCES[name]((x - shift) / width, own) ** 2)
                for x, own, name, g, (shift, width) in zip(
                    new, self.views, self.metrics, self.gammas, self.scales
                )
            ]
        )


def _scaling(view: np.ndarray, metric: str, scale: bool) -> tuple[np.ndarray, np.ndarray]:
    if metric == "chi2" and view.min(initial=0.0) < 0:
        raise ValueError(f"views: the chi2 distance needs non-negative numbers, got {view.min():g}")
    nothing = np.zeros(view.shape[1]), np.ones(view.shape[1])
    if not scale or metric == "chi2":
        return nothing
    width = view.std(axis=0)
    width = np.where(width > 0, width, 1.0)
    return (nothing[0] if metric == "cosine" else view.mean(axis=0)), width


def _check_square(name: str, matrices: Any) -> np.ndarray:
    """Symmetric finite matrices of one size, (M, n, n); tiny asymmetries of rounding are
    averaged away.
    """
    if isinstance(matrices, np.ndarray) and matrices.ndim == 2:
        matrices = matrices[None]
    arrays = [gm.check_array(f"{name}[{m}]", k, ndim=2) for m, k in enumerate(matrices)]
    if not arrays:
        raise ValueError(f"{name}: expected at least one matrix, got none")
    n = len(arrays[0])
    for m, k in enumerate(arrays):
        if k.shape != (n, n):
            raise ValueError(
                f"{name}[{m}]: expected shape ({n}, {n}) like {name}[0], got {k.shape}"
            )
        if not np.allclose(
            k, k.T, rtol=1e-6, atol=1e-8 * max(1.0, float(np.abs(k).max(initial=0.0)))
        ):
            i, j = map(int, np.unravel_index(np.argmax(np.abs(k - k.T)), k.shape))
            raise ValueError(
                f"{name}[{m}]: expected a symmetric matrix, got {k[i, j]:g} at ({i}, {j}) "
                f"and {k[j, i]:g} at ({j}, {i})"
            )
    return np.stack([0.5 * (k + k.T) for k in arrays])


def _check_views(name: str, views: Any) -> tuple[np.ndarray, ...]:
    arrays = tuple(gm.check_array(f"{name}[{m}]", x, ndim=2) for m, x in enumerate(views))
    if not arrays:
        raise ValueError(f"{name}: expected at least one view, got none")
    for m, x in enumerate(arrays):
        if len(x) != len(arrays[0]):
            raise ValueError(
                f"{name}[{m}]: expected {len(arrays[0])} rows like {name}[0], got {len(x)}"
            )
    return arrays


def _check_names(names: Sequence[str] | None, n_kernels: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"kernel {m}" for m in range(n_kernels))
    if len(names) != n_kernels:
        raise ValueError(f"names: expected {n_kernels} (one per kernel), got {len(names)}")
    return tuple(map(str, names))


def _check_gammas(gamma: Any, distances: np.ndarray) -> np.ndarray:
    if isinstance(gamma, str):
        gm.check_choice("gamma", gamma, ("median",))
        upper = np.triu_indices(distances.shape[1], k=1)
        medians = np.array([np.median(d[upper] ** 2) if upper[0].size else 1.0 for d in distances])
        return 1.0 / np.where(medians > 0, medians, 1.0)
    gammas = gm.check_array("gamma", gamma, ndim=(0, 1))
    if gammas.size not in (1, len(distances)) or np.any(gammas <= 0):
        raise ValueError(
            f"gamma: expected 'median', a positive number or {len(distances)} of them, got "
            f"{gamma!r}"
        )
    return np.broadcast_to(gammas, len(distances)).copy()
