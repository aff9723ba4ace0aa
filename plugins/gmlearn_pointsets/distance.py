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
from .state import HardState, MatchState, Motions, Pairs, checked_motions

#: annealing of a single distance, in units of one over the sets' mean squared radius
BETA_START, BETA_END, ANNEAL_RATE, SWEEPS = 8.0, 200.0, 1.5, 2
#: Sinkhorn inside the annealing: the next sweep corrects what this one leaves
SINKHORN_TOL, SINKHORN_SWEEPS = 1e-3, 50
MAX_ALTERNATIONS = 50
#: starts ranked and followed by the global search, by dimension
GLOBAL_SEARCH = {2: (72, 24), 3: (864, 30)}
#: with outliers the centroids are off: the global search also starts this far from them, in units
#: of the root mean squared radius
SHIFT_SHARE = 0.4
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
    reflection: bool = False,
    method: str = "global",
    outlier_cost: float | None = None,
    temperature: float = 0.0,
    max_rotation: float | None = None,
    n_starts: int | None = None,
    n_refine: int | None = None,
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
    reflection : let `rotation` include mirror images, det R = -1.
    method : "global" alternates linear assignment and the closed form from rotations that cover all
        of them; "softassign" anneals a soft match from a few starts and finishes hard; "hard"
        alternates from a few starts: the fastest, and often trapped.
    outlier_cost : price of leaving a point of either set unmatched. None: none of the smaller set
        may be, and the surplus of the larger is left out at no cost.
    temperature : stop at this temperature and return the soft match (`plan`) with its expected
        cost, annealed as by "softassign"; not for "hard".
    max_rotation : radians: start the search from rotations up to this angle only, for sets that are
        known to be roughly upright (a 6 is not a 9). None: any rotation.
    n_starts : rotations tried between the principal axes, ranked by the sum of nearest-point
        distances. In the plane they are equally spaced; in space the 24 rotations of the cube, the
        60 of the icosahedron, or, from 61 on, about as many that cover all rotations evenly. 1
        starts from no rotation only. None: 24, for "global" 72 in the plane and 864 in space.
    n_refine : how many of them are followed to the end. None: 4, for "global" 24 and 30, and with
        an `outlier_cost` each from several shifts.

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
    motions = checked_motions(rotation, translation, scale, outlier_cost, max_rotation, reflection)
    x = check_point_sets("X", X, dims)
    if temperature > 0:
        method = "softassign"
    default_starts, default_refine = GLOBAL_SEARCH[x.dims] if method == "global" else (24, 4)
    n_starts = default_starts if n_starts is None else n_starts
    n_refine = default_refine if n_refine is None else n_refine
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
    gm.check_choice("method", method, ("global", "softassign", "hard"))
    gm.check_number("temperature", temperature, low=0.0)
    if method == "hard" and temperature > 0:
        raise ValueError(
            f"temperature: method 'hard' has none, got {temperature!r}; use method 'softassign'"
        )
    for name, value in (("n_starts", n_starts), ("n_refine", n_refine)):
        if value is not None:
            gm.check_number(name, value, low=1, integer=True)
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
    x = PointSets(x.points[cut], x.sizes[cut])
    image = image - first
    x_mean, y_mean = x.means() * motions.translation, y.means() * motions.translation
    pairs = _start(x.shifted(x_mean), y.shifted(y_mean), image, centre, motions, n_starts, n_refine)
    if temperature > 0:
        distance, partner, R, t, s, plan = _soft_match(pairs, temperature)
    else:
        if method == "global" and motions.translation and np.isfinite(motions.outlier_cost):
            shifts = _shifted_starts(pairs)
        else:
            shifts = np.zeros(pairs.starts.shape[:2] + (x.dims,))
        scales = np.repeat(pairs.scale[image, centre][:, None], pairs.starts.shape[1], axis=1)
        if method == "softassign":
            for b in range(pairs.starts.shape[1]):
                pairs.starts[:, b], shifts[:, b], scales[:, b], _ = _anneal(
                    pairs, b, BETA_END, SWEEPS
                )
        distance, partner, R, t, s = hard_match(
            pairs, shifts, scales, from_afar=method != "softassign"
        )
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
    if not motions.rotation or (n_starts == 1 and not motions.reflection):
        starts = np.broadcast_to(np.eye(x.dims), (len(image), 1, x.dims, x.dims)).copy()
    else:
        turns = start_rotations(x.dims, n_starts, motions.max_rotation, motions.reflection)
        starts = np.empty((len(image), min(n_refine, len(turns)), x.dims, x.dims))
        x_frames, y_frames = _frames(x, motions), _frames(y, motions)
        pairs = Pairs(x, y, image, centre, starts, scale, motions)
        rank_starts(pairs.arrays, x_frames, y_frames, turns, scale, motions.outlier_cost, starts)
    return Pairs(x, y, image, centre, starts, scale, motions)


def _shifted_starts(pairs: Pairs) -> np.ndarray:
    """Every start from the centroid and from either side of it along each principal axis of X:
    starts (P, B, D, D) become (P, (2D + 1) B, D, D), and their shifts are returned.
    """
    frames = np.swapaxes(principal_frames(pairs.x.points, pairs.x.sizes), 1, 2)
    radius = SHIFT_SHARE * np.sqrt(pairs.x.spreads())[:, None, None]
    around = np.concatenate([np.zeros_like(frames[:, :1]), radius * frames, -radius * frames], 1)
    n_pairs, n_starts = pairs.starts.shape[:2]
    pairs.starts = np.repeat(pairs.starts, around.shape[1], axis=1)
    shifts = np.broadcast_to(around[pairs.image, None], (n_pairs, n_starts, *around.shape[1:]))
    return shifts.reshape(n_pairs, -1, pairs.x.dims).copy()


def _frames(sets: PointSets, motions: Motions) -> np.ndarray:
    """Frames (I, D, D) between which start rotations are tried: principal axes, or none if
    rotation is limited.
    """
    if motions.max_rotation is None:
        return principal_frames(sets.points, sets.sizes)
    return np.broadcast_to(np.eye(sets.dims), (len(sets), sets.dims, sets.dims)).copy()


def hard_match(pairs: Pairs, shifts: np.ndarray, scales: np.ndarray, from_afar: bool = False):
    """Alternate assignment and closed form from every start; the best of each pair.

    `from_afar`: the starts are guesses, so outliers cost more in the first steps.
    """
    from ._batch_numba import hard_from_starts

    n, dims = len(pairs.image), pairs.x.dims
    found = HardState(
        np.empty((n, dims, dims)),
        np.empty((n, dims)),
        np.empty(n),
        np.full((n, pairs.x.points.shape[1]), -1),
        np.empty(n),
    )
    hard_from_starts(
        pairs.arrays,
        pairs.motions.outlier_cost,
        pairs.motions.free,
        pairs.starts,
        shifts,
        scales,
        found,
        MAX_ALTERNATIONS,
        from_afar,
    )
    return found.distance, found.partner, found.rotation, found.shift, found.scale


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
