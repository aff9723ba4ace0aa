r"""The exact SparseMAP solution on active minimisers, and its derivative, by projections.

Slave i stands in the affine hull of its active minimisers: :math:`y_i \in \bar v_i + T_i`, with
:math:`P_i` the projection onto the directions :math:`T_i` between them. There its cost is linear,
:math:`\langle g_i, y_i\rangle` with :math:`g_i \in T_i`. With :math:`R_i` the coordinates of slave
i and :math:`K = \sum_i R_i^T (I - P_i) R_i`, the consistent points are
:math:`\{z : K z = \sum_i R_i^T (I - P_i) y_i\}`, and

.. math:: z = -\tfrac1\epsilon\Big(u + \sum_i R_i^T g_i\Big) + s,\qquad s \in \operatorname{range} K

is the optimum among them. Conjugate gradients find s, for which K is never written out: a slave
has a small matrix of its own. The derivative of z in u is :math:`-1/\epsilon` times the projection
onto the null space of K.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gmlearn.master.mixture import Mixture

#: share below which a minimiser is not active; eigenvalues below this part of the largest are zero
ACTIVE, RANK = 1e-7, 1e-9
#: relative residual, and most iterations, of conjugate gradients
RESIDUAL, ITERATIONS = 1e-12, 500
#: most steps on coordinates without a quadratic term, and the change at which they end
STEPS, STILL = 500, 1e-12


class Span(NamedTuple):
    """Slaves of one size, with the directions between their active minimisers.

    slave : int (G,).   number : int (G, n), of minimisers in the working set.   live : bool (G, n),
        which of these are active.
    place : int (G, size), the slaves' dual variables.
    apart : float (G, n, size), the active minimisers minus their mean, zeros for others.
    basis : float (G, r, size), orthonormal directions, zeros beyond the rank.
    combine : float (G, n, r), a move by basis[j] changes the shares by combine[:, j], which sums
        to zero.
    """

    slave: np.ndarray
    number: np.ndarray
    live: np.ndarray
    place: np.ndarray
    apart: np.ndarray
    basis: np.ndarray
    combine: np.ndarray


class ActiveSet:
    """The minimisers with a share of the mixture, at a quadratic term `epsilon` (n_coords,), which
    is the same wherever it is not zero.
    """

    def __init__(self, mixture: Mixture, epsilon: np.ndarray):
        structure, state = mixture.structure, mixture.state
        self.coords = structure.coords.astype(np.int64)
        self.epsilon, self.strength = epsilon, float(epsilon.max(initial=0.0))
        active = (state.share > ACTIVE) & (state.used > 0)
        sizes = np.diff(structure.starts)
        self.spans = [
            span_of(mixture, np.flatnonzero(sizes == size), int(size), active)
            for size in np.unique(sizes[sizes > 0])
        ]

    # ------------------------------------------------------------------ directions of slaves

    def gather(self, per_dual: np.ndarray) -> np.ndarray:
        """Sums (n_coords,) over the copies of each coordinate."""
        return np.bincount(self.coords, per_dual, len(self.epsilon))

    def outside(self, per_dual: np.ndarray) -> np.ndarray:
        """(I - P_i) y_i, (D,)."""
        out = per_dual.copy()
        for span in self.spans:
            own = per_dual[span.place]
            along = np.matmul(span.basis, own[:, :, None])
            out[span.place] = own - np.matmul(along.transpose(0, 2, 1), span.basis)[:, 0]
        return out

    def spread(self, z: np.ndarray) -> np.ndarray:
        """K z."""
        return self.gather(self.outside(z[self.coords]))

    def slopes(self, prices: np.ndarray) -> np.ndarray:
        """g (D,): the gradient in T_i of the prices (M, C) of minimisers."""
        out = np.zeros(len(self.coords))
        for span in self.spans:
            own = np.take_along_axis(prices[span.slave], span.number, axis=1)
            found = np.matmul(np.where(span.live, own, 0.0)[:, None], span.combine)
            out[span.place] = np.matmul(found, span.basis)[:, 0]
        return out

    def shares(self, change: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Changes of shares (M, C) that move the slaves along the part of `change` (D,) in T_i."""
        out = np.zeros(shape)
        for span in self.spans:
            along = np.matmul(span.basis, change[span.place][:, :, None])
            found = np.matmul(span.combine, along)[:, :, 0]
            out[span.slave[:, None], span.number] = np.where(span.live, found, 0.0)
        return out

    def along(self, y: np.ndarray, move: np.ndarray) -> np.ndarray:
        """y (D,) after changes (M, C) of the shares of active minimisers, which sum to zero."""
        out = y.copy()
        for span in self.spans:
            own = np.where(span.live, move[span.slave[:, None], span.number], 0.0)
            out[span.place] += np.matmul(own[:, None], span.apart)[:, 0]
        return out

    # ------------------------------------------------------------------ the linear systems

    def solve(self, right: np.ndarray, size: float = 0.0) -> np.ndarray:
        """The least x with K x = `right`, which is in the range of K, by conjugate gradients; to a
        residual relative to `right`, or to `size`.
        """
        x, residual = np.zeros_like(right), right.copy()
        direction, square = residual, float(residual @ residual)
        enough = (RESIDUAL * max(np.sqrt(square), size)) ** 2
        for _ in range(ITERATIONS):
            if square <= enough:
                break
            image = self.spread(direction)
            step = square / float(direction @ image)
            x = x + step * direction
            residual = residual - step * image
            before, square = square, float(residual @ residual)
            direction = residual + square / before * direction
        return x

    def optimum(self, unary: np.ndarray, slopes: np.ndarray, y: np.ndarray) -> np.ndarray:
        """z (n_coords,), at unary costs u, for slaves that stand at y (D,)."""
        costs, fixed = unary + self.gather(slopes), self.gather(self.outside(y))
        loose = self.epsilon == 0.0
        z = np.bincount(self.coords, y, len(unary)) / np.maximum(self.gather(np.ones_like(y)), 1.0)
        for _ in range(STEPS):
            # coordinates without a quadratic term: proximal steps of the same strength
            centre = np.where(loose, z, 0.0) - costs / self.strength
            old, z = z, centre + self.solve(fixed - self.spread(centre))
            if np.abs(z - old)[loose].max(initial=0.0) <= STILL:
                break
        return z

    def multipliers(
        self, z: np.ndarray, unary: np.ndarray, slopes: np.ndarray, near: np.ndarray
    ) -> np.ndarray:
        """The multipliers (D,) of z closest to `near` (D,)."""
        total = unary + self.epsilon * z
        found = self.outside(near + slopes) - slopes
        found += self.outside(self.solve(total - self.gather(found), _norm(total))[self.coords])
        return found

    def pull_back(self, change: np.ndarray) -> np.ndarray:
        """The product of `change` (n_coords,) with the derivative of z in u, which is symmetric."""
        none = np.zeros(len(self.coords))
        return self.optimum(change, none, none)


def _norm(values: np.ndarray) -> float:
    return float(np.sqrt(values @ values))


def span_of(mixture: Mixture, slave: np.ndarray, size: int, active: np.ndarray) -> Span:
    """The slaves of one size."""
    most = int(active[slave].sum(axis=1).max(initial=1))
    number = np.argsort(~active[slave], axis=1, kind="stable")[:, :most]
    live = np.take_along_axis(active[slave], number, axis=1)
    apart = mixture.indicators(slave, number, size) * live[:, :, None]
    n = np.maximum(live.sum(axis=1), 1)[:, None, None]
    apart -= apart.sum(axis=1, keepdims=True) / n * live[:, :, None]
    square, vectors = np.linalg.eigh(np.matmul(apart, apart.transpose(0, 2, 1)))
    real = square > RANK * np.maximum(square[:, -1:], 1.0)
    first = most - int(real.sum(axis=1).max(initial=0))  # ascending: the last ones are not zero
    scale = np.where(real, 1.0 / np.sqrt(np.where(real, square, 1.0)), 0.0)[:, first:]
    combine = vectors[:, :, first:] * scale[:, None]
    place = mixture.structure.starts[slave][:, None] + np.arange(size)
    basis = np.matmul(combine.transpose(0, 2, 1), apart)
    return Span(slave, number, live, place, apart, basis, combine)
