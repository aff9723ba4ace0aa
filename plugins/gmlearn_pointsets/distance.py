"""The matching distance between point sets: invariant under permutation, rotation, translation,
on request scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

import gmlearn as gm

from .rigid import principal_frames, start_rotations
from .sets import PointSets, check_point_sets
from .sinkhorn import softassign
from .state import MatchState, Motions, Pairs, checked_motions

#: annealing of a single distance, in units of one over the sets' mean squared radius
BETA_START, BETA_END, ANNEAL_RATE, SWEEPS = 8.0, 200.0, 1.5, 2
#: Sinkhorn inside the annealing: the next sweep corrects what this one leaves
SINKHORN_TOL, SINKHORN_SWEEPS = 1e-3, 50
MAX_ALTERNATIONS = 50
#: numbers that the state of one block of pairs may hold
STATE_ENTRIES = 20_000_000


@dataclass(frozen=True)
class PointSetMatch:
    """The best match found: X_j ~ shift + scale * rotation @ Y_partner[j].

    Attributes
    ----------
    distance : float, or (I, A) for batches: the sum of squared residuals (and the price of
        outliers).
    partner : int (J,) or (I, A, J): index of the point of Y matched to each point of X, -1 for none
        and for padding.
    rotation : float (D, D) or (I, A, D, D).   shift : (D,) or (I, A, D).   scale : float or (I, A).
    plan : float (J, K) or (I, A, J, K), the soft match, if a positive temperature was asked for;
        else None.
    """

    distance: Any
    partner: np.ndarray
    rotation: np.ndarray
    shift: np.ndarray
    scale: Any
    n_points: int
    plan: np.ndarray | None = None

    @property
    def angle(self):
        """Planar rotation in radians, (I, A) for batches."""
        if self.rotation.shape[-1] != 2:
            raise ValueError("angle: defined in the plane only; use rotation for points in space")
        return np.arctan2(self.rotation[..., 1, 0], self.rotation[..., 0, 0])

    @property
    def correspondence(self) -> np.ndarray:
        """The match as a matrix (..., J, K): `plan` if soft, else zeros and ones."""
        if self.plan is not None:
            return self.plan
        return (self.partner[..., None] == np.arange(self.n_points)).astype(float)


def point_set_distance(
    X,
    Y=None,
    *,
    rotation: bool = True,
    translation: bool = True,
    scale: bool = False,
    dims: int | None = None,
    method: str = "softassign",
    outlier_cost: float | None = None,
    temperature: float = 0.0,
    max_rotation: float | None = None,
    n_starts: int = 24,
    n_refine: int = 4,
) -> PointSetMatch:
    r"""Distance between point sets under the best correspondence and motion.

    .. math:: D(X, Y) = \min_{m, R, t, s} \sum_{jk} m_{jk} |X_j - t - s R Y_k|^2

    over one-to-one matches m (Gold, Mjolsness and Rangarajan 1993).

    Parameters
    ----------
    X : float (J, D) for one set; (I, J, D), or a list of I arrays (J_i, D), for many.
    Y : the same for the A sets to compare with; all I x A pairs are computed in one call. None: X
        with itself.
    rotation, translation, scale : which motions are free. With `scale` the distance is in the units
        of X and no longer symmetric.
    dims : 2 or 3, checked against the data; None: whatever the data has.
    method : "softassign" anneals a soft match from each start and finishes hard; "hard" alternates
        linear assignment and the closed form from each start: five to ten times faster, more easily
        trapped when noise is high.
    outlier_cost : price of leaving a point of either set unmatched. None: none of the smaller set
        may be, and the surplus of the larger is left out at no cost.
    temperature : for "softassign": stop at this temperature and return the soft match (`plan`) with
        its expected cost.
    max_rotation : radians: start the search from rotations up to this angle only, for sets that are
        known to be roughly upright (a 6 is not a 9). None: any rotation.
    n_starts : rotations tried between the principal axes (plane: equally spaced; space: 24 or 60),
        ranked by the sum of nearest-point distances. 1 starts from no rotation only.
    n_refine : how many of them are followed to the end.

    Returns
    -------
    PointSetMatch

    Notes
    -----
    O(I A (n_starts J K + n_refine J^2 K)). The objective has local minima; the starts turn with the
    sets, so the answer is invariant even where it is not the global minimum.

    Examples
    --------
    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    >>> turned = square[::-1] @ np.array([[0.0, 1.0], [-1.0, 0.0]]) + 3.0
    >>> match = point_set_distance(square, turned)
    >>> round(match.distance, 9), match.partner.tolist()
    (0.0, [3, 2, 1, 0])
    """
    _check_search(method, temperature, n_starts, n_refine, dims)
    motions = checked_motions(rotation, translation, scale, outlier_cost, max_rotation)
    x = check_point_sets("X", X, dims)
    y = x if Y is None else check_point_sets("Y", Y, dims)
    if x.dims != y.dims:
        raise ValueError(f"X, Y: the points have different dimensions, {x.dims} and {y.dims}")
    image, centre = np.indices((len(x), len(y))).reshape(2, -1)
    mirror = Y is None and not scale and temperature == 0
    if mirror:  # symmetric: half the work
        image, centre = image[image <= centre], centre[image <= centre]
    found = match_pairs(x, y, image, centre, motions, method, n_starts, n_refine, temperature)
    if mirror:
        found = _mirror(found, x, image, centre)
    lead = () if x.single and y.single else (len(x), len(y))
    shaped: list[Any] = [
        None if part is None else part.reshape(lead + part.shape[1:]) for part in found
    ]
    distance, partner, R, t, s, plan = shaped
    if not lead:
        distance, s = float(distance), float(s)
    return PointSetMatch(distance, partner, R, t, s, y.points.shape[1], plan)


def _check_search(method, temperature, n_starts, n_refine, dims) -> None:
    gm.check_choice("method", method, ("softassign", "hard"))
    gm.check_number("temperature", temperature, low=0.0)
    if method == "hard" and temperature > 0:
        raise ValueError(
            f"temperature: method 'hard' has none, got {temperature!r}; use method 'softassign'"
        )
    gm.check_number("n_starts", n_starts, low=1, integer=True)
    gm.check_number("n_refine", n_refine, low=1, integer=True)
    if dims is not None and dims not in (2, 3):
        raise ValueError(f"dims: expected 2, 3 or None, got {dims!r}")


def match_pairs(
    x: PointSets,
    y: PointSets,
    image,
    centre,
    motions: Motions,
    method: str = "hard",
    n_starts: int = 24,
    n_refine: int = 4,
    temperature: float = 0.0,
):
    """Distance (P,), partner (P, J), R (P, D, D), t (P, D), s (P,) and plan or None, for pairs in
    order of image.

    Images are taken a block at a time, so that memory stays bounded for any number of pairs.
    """
    block = max(1, STATE_ENTRIES // (len(y) * (x.points.shape[1] + y.points[0].size)))
    edges = np.searchsorted(image, np.arange(0, len(x) + block, block))
    parts = [
        _match_block(
            x, y, image[a:b], centre[a:b], motions, method, n_starts, n_refine, temperature
        )
        for a, b in pairwise(edges)
    ]
    return [None if part[0] is None else np.concatenate(part) for part in zip(*parts)]


def _match_block(x, y, image, centre, motions, method, n_starts, n_refine, temperature):
    """`match_pairs` for a block of images, cut out here."""
    first = image[0] if len(image) else 0
    cut = slice(first, image[-1] + 1 if len(image) else 1)
    x, image = PointSets(x.points[cut], x.sizes[cut]), image - first
    x_mean, y_mean = x.means() * motions.translation, y.means() * motions.translation
    pairs = _start(x.shifted(x_mean), y.shifted(y_mean), image, centre, motions, n_starts, n_refine)
    if temperature > 0:
        distance, partner, R, t, s, plan = _soft_match(pairs, temperature)
    else:
        shifts = np.zeros(pairs.starts.shape[:2] + (x.dims,))
        scales = np.repeat(pairs.scale[image, centre][:, None], pairs.starts.shape[1], axis=1)
        if method == "softassign":
            for b in range(pairs.starts.shape[1]):
                pairs.starts[:, b], shifts[:, b], scales[:, b], _ = _anneal(
                    pairs, b, BETA_END, SWEEPS
                )
        distance, partner, R, t, s = hard_match(pairs, shifts, scales)
        plan = None
    t = t + x_mean[image] - s[:, None] * np.einsum("pde,pe->pd", R, y_mean[centre])
    return distance, partner, R, t, s, plan


def _start(x, y, image, centre, motions, n_starts, n_refine) -> Pairs:
    """Start rotations of every pair, the most promising `n_refine` of `n_starts`; scales from
    the sets' spreads.
    """
    from ._batch_numba import rank_starts

    image, centre = np.ascontiguousarray(image), np.ascontiguousarray(centre)
    scale = np.ones((len(x), len(y)))
    if motions.scale:
        scale = np.sqrt(x.spreads()[:, None] / y.spreads())
    if not motions.rotation or n_starts == 1:
        starts = np.broadcast_to(np.eye(x.dims), (len(image), 1, x.dims, x.dims)).copy()
    else:
        turns = start_rotations(x.dims, n_starts, motions.max_rotation)
        starts = np.empty((len(image), min(n_refine, len(turns)), x.dims, x.dims))
        x_frames, y_frames = _frames(x, motions), _frames(y, motions)
        rank_starts(
            x.points,
            x.sizes,
            x_frames,
            y.points,
            y.sizes,
            y_frames,
            image,
            centre,
            turns,
            scale,
            motions.outlier_cost,
            starts,
        )
    return Pairs(x, y, image, centre, starts, scale, motions)


def _frames(sets: PointSets, motions: Motions) -> np.ndarray:
    """Frames (I, D, D) between which start rotations are tried: principal axes, or none if
    rotation is limited.
    """
    if motions.max_rotation is None:
        return principal_frames(sets.points, sets.sizes)
    return np.broadcast_to(np.eye(sets.dims), (len(sets), sets.dims, sets.dims)).copy()


def hard_match(pairs: Pairs, shifts: np.ndarray, scales: np.ndarray):
    """Alternate assignment and closed form from every start; the best of each pair."""
    from ._batch_numba import hard_from_starts

    n, dims = len(pairs.image), pairs.x.dims
    distance, partner = np.empty(n), np.full((n, pairs.x.points.shape[1]), -1)
    R, t, s = np.empty((n, dims, dims)), np.empty((n, dims)), np.empty(n)
    hard_from_starts(
        pairs.x.points,
        pairs.x.sizes,
        pairs.y.points,
        pairs.y.sizes,
        pairs.image,
        pairs.centre,
        pairs.motions.outlier_cost,
        pairs.motions.free,
        pairs.starts,
        shifts,
        scales,
        R,
        t,
        s,
        partner,
        distance,
        MAX_ALTERNATIONS,
    )
    return distance, partner, R, t, s


def _anneal(pairs: Pairs, start: int, beta_end: float, sweeps: int, radius_units: bool = True):
    """Softassign from one start of every pair; returns rotations, shifts, scales and free
    energies of the pairs.
    """
    state = MatchState(pairs.x, pairs.y, pairs.motions, pairs.scale)
    index = pairs.image, pairs.centre
    state.rotation[index] = pairs.starts[:, start]
    unit = 2.0 / (pairs.x.spreads()[pairs.image] + pairs.y.spreads()[pairs.centre])
    last = beta_end * unit if radius_units else np.full(len(unit), beta_end)
    beta = np.minimum(BETA_START * unit, last)
    while True:
        for _ in range(sweeps):
            state.sweep(pairs.y.points, *index, beta, SINKHORN_TOL, SINKHORN_SWEEPS)
        if (beta >= last).all():
            return (
                state.rotation[index],
                state.shift[index],
                state.scale[index],
                state.free_energy[index],
            )
        beta = np.minimum(beta * ANNEAL_RATE, last)


def _soft_match(pairs: Pairs, temperature: float):
    """The best start's soft match at a positive temperature, with its expected cost as the
    distance.
    """
    n, n_starts = pairs.starts.shape[:2]
    tries = [
        _anneal(pairs, b, 1.0 / temperature, 4 * SWEEPS, radius_units=False)
        for b in range(n_starts)
    ]
    best = np.argmin([energy for *_, energy in tries], axis=0)
    R, t, s = (np.stack([one[part] for one in tries])[best, np.arange(n)] for part in range(3))
    plan = np.zeros((n, pairs.x.points.shape[1], pairs.y.points.shape[1]))
    distance = np.empty(n)
    price = None if np.isinf(pairs.motions.outlier_cost) else pairs.motions.outlier_cost
    sizes = np.stack([pairs.x.sizes[pairs.image], pairs.y.sizes[pairs.centre]], axis=1)
    for rows, cols in np.unique(sizes, axis=0):
        same = np.flatnonzero((sizes == (rows, cols)).all(1))
        moved = t[same, None] + s[same, None, None] * pairs.y.points[
            pairs.centre[same], :cols
        ] @ np.swapaxes(R[same], 1, 2)
        cost = ((pairs.x.points[pairs.image[same], :rows, None] - moved[:, None]) ** 2).sum(3)
        match = softassign(cost, temperature, outlier_cost=price).plan
        plan[same, :rows, :cols] = match
        unmatched = 0.0 if price is None else price * (rows + cols - 2 * match.sum((1, 2)))
        distance[same] = (match * cost).sum((1, 2)) + unmatched
    partner = np.where(plan.max(2) > 0.5, plan.argmax(2), -1)
    return distance, partner, R, t, s, plan


def _mirror(found, x: PointSets, image, centre):
    """Fill the lower half of a symmetric batch from the upper: X ~ t + R Y reads backwards as Y
    ~ R'(X - t).
    """
    distance, partner, R, t, s, _ = found
    size, points, dims = len(x), x.points.shape[1], x.dims
    full_d, full_s = np.empty((size, size)), np.ones((size, size))
    full_p = np.full((size, size, points), -1)
    full_R, full_t = np.empty((size, size, dims, dims)), np.empty((size, size, dims))
    backwards = np.full_like(partner, -1)
    p, j = np.nonzero(partner >= 0)
    backwards[p, partner[p, j]] = j
    full_d[centre, image], full_p[centre, image], full_s[centre, image] = distance, backwards, s
    full_R[centre, image] = np.swapaxes(R, 1, 2)
    full_t[centre, image] = -np.einsum("ped,pe->pd", R, t)
    full_d[image, centre], full_p[image, centre], full_s[image, centre] = distance, partner, s
    full_R[image, centre], full_t[image, centre] = R, t
    flat = size * size
    return (
        full_d.reshape(flat),
        full_p.reshape(flat, points),
        full_R.reshape(flat, dims, dims),
        full_t.reshape(flat, dims),
        full_s.reshape(flat),
        None,
    )
