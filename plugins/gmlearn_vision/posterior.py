r"""Posterior marginals of a grid by sum-product message passing.

With one table V for all edges a message is a matrix product, :math:`m \propto h\,K` with :math:`K =
e^{-V/T}`, so a whole column of pixels sends at once: a sweep over an H x W grid is W products of
(H, L) by (L, L).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

import gmlearn as gm

#: smallest and largest factor of V that `posterior_mean` tries, and how many values in between
STRENGTHS, TRIALS = (0.5, 16.0), 9


def posterior_marginals(
    costs: Any, potential: Any, temperature: float = 1.0, max_iter: int = 20, tol: float = 1e-3
) -> np.ndarray:
    r"""Label marginals (H, W, L) of :math:`p(x) \propto \exp(-E(x)/T)` on a 4-connected grid, by
    loopy belief propagation.

    Exact on a single row or column; elsewhere the fixed point of the Bethe approximation.

    Parameters
    ----------
    costs : float (H, W, L), the pixels' costs; inf forbids a label.
    potential : float (L,), V(|a - b|), or (L, L), a table indexed by the upper (left) and lower
        (right) label.
    temperature : T > 0.
    max_iter, tol : rounds of four sweeps; the change of the marginals below which they end.

    Notes
    -----
    O(H W L^2) in each sweep, all of it in matrix products; memory 5 H W L.
    """
    costs = gm.check_array("costs", costs, ndim=3, allow_inf=True)
    labels = costs.shape[2]
    potential = gm.check_array("potential", potential, ndim=(1, 2))
    if potential.shape not in ((labels,), (labels, labels)):
        raise ValueError(
            f"potential: expected shape ({labels},) or ({labels}, {labels}), got {potential.shape}"
        )
    gm.check_number("temperature", temperature, low=0, strict=True)
    gm.check_number("max_iter", max_iter, low=1, integer=True)
    if potential.ndim == 1:
        potential = potential[np.abs(np.subtract.outer(np.arange(labels), np.arange(labels)))]
    low = costs.min(axis=2, keepdims=True)
    if not np.isfinite(low).all():
        raise ValueError("costs: every pixel needs a label of finite cost")
    local = np.exp(-(costs - low) / temperature)
    kernel = np.exp(-(potential - potential.min()) / temperature)
    # from the left and the right, (W, H, L)
    across = np.full((2, *costs.swapaxes(0, 1).shape), 1.0 / labels)
    down = np.full((2, *costs.shape), 1.0 / labels)  # from above and below, (H, W, L)
    old = np.full(costs.shape, np.inf)
    for _ in range(max_iter):
        # a whole column sends at once: turned, so that it lies together in memory
        _sweep(
            np.ascontiguousarray((local * down[0] * down[1]).swapaxes(0, 1)),
            across[0],
            across[1],
            kernel,
        )
        seen = local * np.ascontiguousarray((across[0] * across[1]).swapaxes(0, 1))
        _sweep(seen, down[0], down[1], kernel)
        belief = seen * down[0] * down[1]
        belief /= belief.sum(axis=2, keepdims=True)
        if np.abs(belief - old).max() < tol:
            break
        old = belief
    return belief


def _sweep(
    local: np.ndarray, forward: np.ndarray, backward: np.ndarray, kernel: np.ndarray
) -> None:
    """Messages along the first axis, all lines at once, there and back; (N, lines, L) each, the
    messages written in place.
    """
    n = len(local)
    for t in range(1, n):
        sent = (local[t - 1] * forward[t - 1]) @ kernel
        forward[t] = sent / sent.sum(axis=1, keepdims=True)
    for t in range(n - 2, -1, -1):
        sent = (local[t + 1] * backward[t + 1]) @ kernel.T
        backward[t] = sent / sent.sum(axis=1, keepdims=True)


def posterior_mean(
    noisy: np.ndarray,
    mask: np.ndarray,
    costs: np.ndarray,
    potential: np.ndarray,
    levels: np.ndarray,
) -> np.ndarray:
    r"""The posterior mean (H, W) with the factor of V that has the least estimated squared error.

    Under Gaussian noise the derivative of the posterior mean is the posterior variance over
    sigma^2, so Stein's unbiased estimate of the squared error is, up to a constant, :math:`\sum_p
    (z_p - m_p)^2 + 2 \mathrm{var}_p`: no truth is needed.

    Parameters
    ----------
    noisy, mask : (H, W), the image and where it was observed.   costs : (H, W, L), its quadratic
        costs, with the true sigma.
    potential : (L,), V.   levels : (L,), the grey values of the labels.

    References
    ----------
    C. Stein. Estimation of the mean of a multivariate normal distribution. Annals of Statistics
    1981.
    """
    best = (np.inf, np.full(noisy.shape, levels.mean()))

    def risk(logarithm: float) -> float:
        nonlocal best
        marginals = posterior_marginals(costs, np.exp(logarithm) * potential, max_iter=10)
        mean = marginals @ levels
        variance = np.maximum(marginals @ levels**2 - mean**2, 0.0)
        value = float(((noisy - mean) ** 2 + 2.0 * variance)[mask].sum())
        if value < best[0]:
            best = (value, mean)
        return value

    minimize_scalar(
        risk, bounds=np.log(STRENGTHS), method="bounded", options={"maxiter": TRIALS, "xatol": 0.05}
    )
    return best[1]
