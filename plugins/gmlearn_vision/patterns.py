r"""Patterns of small square cliques: what the grey values in a window do once their mean is gone.

A pattern k is a Gaussian over the d = n^2 - 1 differences from the window's mean, with mean zero
and covariance S_k: flat ground, an edge of some direction, texture. A window of a clean image
follows the mixture sum_k pi_k N(0, S_k); under white noise of variance v, sum_k pi_k N(0, S_k +
v I). Fitted by expectation maximisation (Zoran and Weiss, ICCV 2011, use such mixtures of larger
windows).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import gmlearn as gm

#: added to the variances of a pattern, in squared grey levels: rounding to whole levels leaves 1/12
FLOOR = 0.5
#: windows that the mixture is fitted on at most, and rounds of the fit
MAX_WINDOWS, ROUNDS = 40_000, 40


@dataclass(frozen=True)
class Patterns:
    """side : n, of the square windows.   share : pi (K,).   covariance : S (K, d, d) in the
    coordinates `basis` (n^2, d), orthonormal and orthogonal to the constant window.
    """

    side: int
    share: np.ndarray
    covariance: np.ndarray
    basis: np.ndarray

    def __len__(self) -> int:
        return len(self.share)

    def costs(self, image: np.ndarray, variance: float) -> np.ndarray:
        """-log pi_k N(window; 0, S_k + variance I), (windows, K), less the smallest of each row."""
        Z = windows(image, self.side) @ self.basis
        cost = -_log_densities(Z, self.share, self.covariance + variance * np.eye(Z.shape[1]))
        return cost - cost.min(axis=1, keepdims=True)

    def probabilities(self, image: np.ndarray, variance: float) -> np.ndarray:
        """Of the patterns of every window on its own, (windows, K)."""
        weight = np.exp(-self.costs(image, variance))
        return weight / weight.sum(axis=1, keepdims=True)


def windows(image: np.ndarray, side: int) -> np.ndarray:
    """All side x side windows, one row each, (windows, side^2)."""
    view = np.lib.stride_tricks.sliding_window_view(image, (side, side))
    return view.reshape(-1, side * side)


def learn_patterns(images: Sequence[np.ndarray], n_patterns: int, side: int, seed: int) -> Patterns:
    """The mixture of the windows of clean images, from a start by contrast: quantiles of the
    windows' energy, mixed at random so that equal contrasts can part.
    """
    rng = np.random.default_rng(seed)
    constant = np.full((side * side, 1), 1.0 / side)
    basis = np.linalg.svd(constant)[0][:, 1:]
    Z = np.concatenate([windows(image, side) @ basis for image in images])
    Z = Z[rng.permutation(len(Z))[:MAX_WINDOWS]]
    if len(Z) < 2 * n_patterns:
        raise ValueError(
            f"y: expected at least {2 * n_patterns} windows of {side} x {side} pixels for "
            f"{n_patterns} patterns, got {len(Z)}"
        )
    rank = (Z**2).sum(axis=1).argsort().argsort()
    member = np.eye(n_patterns)[rank * n_patterns // len(Z)]
    member = 0.7 * member + 0.3 * rng.dirichlet(np.full(n_patterns, 0.3), len(Z))
    for _ in range(ROUNDS):
        total = np.maximum(member.sum(axis=0), 1e-9)
        share = total / total.sum()
        covariance = np.stack([(Z * m[:, None]).T @ Z / t for m, t in zip(member.T, total)])
        covariance += FLOOR * np.eye(Z.shape[1])
        joint = _log_densities(Z, share, covariance)
        member = np.exp(joint - joint.max(axis=1, keepdims=True))
        member /= member.sum(axis=1, keepdims=True)
    order = np.trace(covariance, axis1=1, axis2=2).argsort()
    return Patterns(side, share[order], covariance[order], basis)


def _log_densities(Z: np.ndarray, share: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """log pi_k N(z; 0, S_k) up to one constant, (n, K)."""
    out = np.empty((len(Z), len(share)))
    for k, matrix in enumerate(covariance):
        factor = np.linalg.cholesky(matrix)
        white = np.linalg.solve(factor, Z.T)
        out[:, k] = np.log(share[k]) - np.log(factor.diagonal()).sum() - 0.5 * (white**2).sum(0)
    return out


def pattern_crf(patterns: Patterns, image: np.ndarray, variance: float) -> gm.CRF:
    """One variable for each window, its pattern; weights "evidence" (1,), "across" and "down"
    (K, K), the latter for windows one pixel apart, left and right, upper and lower.
    """
    height, width = (n - patterns.side + 1 for n in image.shape)
    index = np.arange(height * width).reshape(height, width)
    crf = gm.CRF(height * width, len(patterns))
    crf.add(gm.Unary(patterns.costs(image, variance)[:, :, None], weight="evidence"))
    pairs = {"across": (index[:, :-1], index[:, 1:]), "down": (index[:-1], index[1:])}
    for name, (first, second) in pairs.items():
        crf.add(gm.Pairwise(np.stack([first.ravel(), second.ravel()], axis=1), weight=name))
    return crf


def gaussian_mean(
    image: np.ndarray, patterns: Patterns, probabilities: np.ndarray, variance: float
) -> np.ndarray:
    r"""The mean of :math:`\exp(-|x - z|^2 / 2v - \frac{1}{2 n^2} \sum_c x_c^T B S_c^{-1} B^T x_c)`.

    :math:`S_c = \sum_k q_{ck} S_k` is the second moment of window c under its pattern probabilities
    q (windows, K). A pixel lies in n^2 windows, hence the factor. Conjugate gradients, O(n^4) a
    pixel in each step.
    """
    side = patterns.side
    moment = np.einsum("nk,kij->nij", probabilities, patterns.covariance)
    basis = patterns.basis
    precision = np.einsum(
        "ia,nab,jb->nij", basis, np.linalg.inv(moment) / side**2, basis, optimize=True
    )

    def times(x: np.ndarray) -> np.ndarray:
        pulls = np.einsum("nij,nj->ni", precision, windows(x, side))
        return x / variance + _scatter(pulls, x.shape, side)

    target = image / variance
    x = image.copy()
    residual = target - times(x)
    direction, square = residual.copy(), float((residual**2).sum())
    limit = 1e-8 * float((target**2).sum())
    for _ in range(100):
        if square <= limit:
            break
        image_of = times(direction)
        step = square / float((direction * image_of).sum())
        x += step * direction
        residual -= step * image_of
        previous, square = square, float((residual**2).sum())
        direction = residual + square / previous * direction
    return x


def _scatter(rows: np.ndarray, shape: tuple[int, ...], side: int) -> np.ndarray:
    """The sum over windows of what each gives to its pixels, the transpose of `windows`."""
    height, width = (n - side + 1 for n in shape)
    parts = rows.reshape(height, width, side, side)
    out = np.zeros(shape)
    for dy in range(side):
        for dx in range(side):
            out[dy : dy + height, dx : dx + width] += parts[:, :, dy, dx]
    return out
