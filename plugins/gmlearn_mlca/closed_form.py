"""The closed form of MLCA from sufficient statistics (Law et al., CVPR 2016, theorems 3.1, 3.2
and 4.1).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

#: singular value of a projection, relative to the largest, below which it counts as zero
RANK_TOLERANCE = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-7}
#: eigenvalue of X'X, likewise. Float32 products leave about 1e-6 where there should be nothing
#: (measured: 1e-7 to 1.6e-6).
GRAM_TOLERANCE = {np.dtype(np.float32): 4e-6, np.dtype(np.float64): 1e-12}


def partition_factor(overlaps: np.ndarray, kind: str, projector: bool = True) -> np.ndarray:
    """T (k, p) such that the target matrix is C = F F' with F = Y T.

    multivariate: T = (Y'Y)^{+1/2}, so C = Y Y^+ is the orthogonal projector of the partition (an
    empty class gives a zero column); with ``projector=False``, T = I and C = Y Y'. univariate: F =
    u = (y_1 - y_0) / ||y_1 - y_0||.
    """
    if kind == "univariate":
        sign = np.array([[-1.0], [1.0]])
        return sign / np.sqrt((sign.T @ overlaps @ sign).item())
    if not projector:
        return np.eye(len(overlaps))
    values, vectors = np.linalg.eigh(overlaps)
    keep = values > 1e-12 * values[-1]
    return (vectors[:, keep] / np.sqrt(values[keep])) @ vectors[:, keep].T


def closed_form(
    gram: np.ndarray,
    cross: np.ndarray,
    n_components: int,
    *,
    ridge: float = 0.0,
    tol: float = 1e-7,
    gram_tol: float = 1e-12,
    target_norm: float = 1.0,
    floor: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """W (d, r) with W W' = X^+ (P_X C P_X)_(r) X^{+T}, the optimal metric, and the r eigenvalues of
    P_X C P_X.

    With C = F F', G = X'X and B = X'F, take the thin SVD G^{+1/2} B = U S V'. Then P_X C P_X has
    the eigenvalues S^2 and its best rank-r part is (X G^+ B V_r)(X G^+ B V_r)', so W = G^+ B V_r:
    the multivariate regression of F on X, turned to principal axes and cut at r = min(k, rank).
    O(d^3 + d^2 p).

    Parameters
    ----------
    gram, cross : G (d, d) and B (d, p).
    n_components : k, the largest rank wanted.
    ridge : adds ``ridge * trace(G)/d`` to the diagonal of G.
    tol : singular value of G^{+1/2} B, relative to `target_norm`, that counts as zero.
    gram_tol : eigenvalue of G (with its diagonal scaled to 1), relative to the largest, that counts
        as zero.
    target_norm : the largest singular value of F (1 if C is a projector), to which `tol` is
        relative.
    floor : (d,), what the diagonal of G must exceed; a column below it is constant but for
        rounding.

    Returns
    -------
    W : (d, r); r = 0 if P_X C P_X = 0, the degenerate case where any metric is as good as another.
    eigenvalues : (r,), decreasing; their sum is <Chat, C> on the training data.
    """
    variance = gram.diagonal()
    alive = variance > (0.0 if floor is None else floor)
    # 1/inf = 0 removes a constant column
    scale = np.where(alive, np.sqrt(np.where(alive, variance, 1.0)), np.inf)
    if ridge:
        gram = gram + ridge * variance.mean() * np.eye(len(gram))
    # the rank is decided on columns of unit norm, so that it does not depend on the features' units
    values, vectors = scipy.linalg.eigh(gram / scale[:, None] / scale)
    keep = values > gram_tol * max(values[-1], 0.0) if alive.any() else np.zeros(len(values), bool)
    root = vectors[:, keep] / np.sqrt(values[keep]) / scale[:, None]
    projected = root.T @ cross
    _, singular, axes = np.linalg.svd(projected, full_matrices=False)
    rank = min(int(np.sum(singular > tol * target_norm)), n_components)
    V = axes[:rank].T
    # one sign, on every machine; [[1]] if p = 1
    V *= np.where(V[np.abs(V).argmax(axis=0), np.arange(rank)] < 0, -1.0, 1.0)
    W = root @ (projected @ V)
    null = np.linalg.qr(vectors[:, ~keep] / np.where(alive, scale, 1.0)[:, None])[0]
    # rescaling changed which solution is shortest: X^+ has no part in the null space of X
    return W - null @ (null.T @ W), singular[:rank] ** 2
