"""Clustering of point sets by nested annealing."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

import gmlearn as gm

from .annealing import Schedule, anneal, memberships
from .distance import match_pairs
from .hard import Clustering, aligned, finish, match_all
from .seeding import DistanceRows, k_means_plus_plus, random_centres
from .sets import PointSets, check_point_sets
from .state import MatchState, Motions, checked_motions


class PointSetClustering(TransformerMixin, ClusterMixin, BaseEstimator):
    r"""Cluster images made of points, whatever their order, position and rotation.

    .. math:: \min_{M, Y} \sum_{ia} M_{ia} D(X_i, Y_a), \qquad \sum_a M_{ia} = 1

    with the matching distance D of `point_set_distance` (Gold, Mjolsness and Rangarajan 1993).
    Matches and memberships are soft, with entropies at inverse temperature beta; coordinate descent
    and a rising beta harden both; a hard alternation finishes.

    Parameters
    ----------
    n_clusters : number of clusters.
    n_init : starts; the lowest energy wins.
    init : "k-means++" under the matching distance, or "random" points (the paper's start; often
        poor).
    beta_start, beta_end, anneal_rate : the inverse temperatures, in units of one over the images'
        mean squared radius. `beta_end` should reach about r^2 / (2 sigma^2) for noise sigma and
        radius r.
    membership_ratio : inverse temperature of the memberships over that of the matches.
    max_sweeps : sweeps at one temperature at most; fewer if the energy stands still.
    rotation, translation, scale, reflection, max_rotation, outlier_cost, n_starts, n_refine : as in
        `point_set_distance`.
    sinkhorn_tol, sinkhorn_sweeps : how far each soft match is taken in one sweep.
    random_state : int, `numpy.random.RandomState` or None.
    show_progress : True, False, or None: only where someone can see the bar.

    Attributes
    ----------
    labels_ : int (I,).   memberships_ : float (I, A), rows sum to one.   energy_ : float, sum of
        distances to the own centre.
    cluster_centers_ : float (A, K, D); a list of arrays (K_a, D) if the centres have different
        numbers of points.
    distances_ : float (I, A), images to centres.   aligned_ : list of arrays (J_i, D), images in
        their centre's frame.
    history_ : list of (beta, energies of the sweeps, pairs swept) of the winning start.
        n_features_in_ : D.

    Notes
    -----
    The soft matches are the sweeps of one compiled kernel that also moves the sets, not slaves of
    ``gm.solve``, which takes 8 to 10 times as long for the hard matches of the same pairs (64 pairs
    of 15 points). A sweep costs O(P J K) for the P pairs not yet pruned, at first all images x
    centres. Sets of different sizes may be mixed; a centre has as many points as the image that it
    started from.

    Examples
    --------
    >>> from gmlearn_pointsets import make_point_sets
    >>> data = make_point_sets(n_centres=3, n_points=10, random_state=0)
    >>> model = PointSetClustering(3, n_init=1, random_state=0).fit(data.images)
    >>> model.labels_.shape, model.cluster_centers_.shape
    ((12,), (3, 10, 2))
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_init: int = 4,
        init: str = "k-means++",
        beta_start: float = 8.0,
        beta_end: float = 200.0,
        anneal_rate: float = 1.1,
        membership_ratio: float = 1.0,
        max_sweeps: int = 4,
        rotation: bool = True,
        translation: bool = True,
        scale: bool = False,
        reflection: bool = False,
        max_rotation: float | None = None,
        outlier_cost: float | None = None,
        n_starts: int = 12,
        n_refine: int = 2,
        sinkhorn_tol: float = 1e-2,
        sinkhorn_sweeps: int = 50,
        random_state=None,
        show_progress: bool | None = None,
    ):
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.init = init
        self.beta_start = beta_start
        self.beta_end = beta_end
        self.anneal_rate = anneal_rate
        self.membership_ratio = membership_ratio
        self.max_sweeps = max_sweeps
        self.rotation = rotation
        self.translation = translation
        self.scale = scale
        self.reflection = reflection
        self.max_rotation = max_rotation
        self.outlier_cost = outlier_cost
        self.n_starts = n_starts
        self.n_refine = n_refine
        self.sinkhorn_tol = sinkhorn_tol
        self.sinkhorn_sweeps = sinkhorn_sweeps
        self.random_state = random_state
        self.show_progress = show_progress

    # ------------------------------------------------------------------ fitting

    def fit(self, X, y=None) -> PointSetClustering:
        """Cluster the images X: float (I, J, D), or a list of arrays (J_i, D). `y` is ignored."""
        images = self._check_images(X)
        schedule, motions, unit = self._check_parameters(images)
        images = PointSets(
            images.shifted(images.means() * motions.translation).points / unit, images.sizes
        )
        rng = np.random.default_rng(gm.check_random_state(self.random_state).randint(2**31))
        everyone = np.arange(len(images))

        def to_all(index: int) -> np.ndarray:
            own = np.full(len(images), index)
            search = "hard", self.n_starts, self.n_refine
            return match_pairs(images, images, everyone, own, motions, *search)[0]

        rows = DistanceRows(len(images), to_all)
        best: Clustering | None = None
        with gm.progress(
            total=self.n_init * len(schedule.betas()), desc="annealing", show=self.show_progress
        ) as bar:
            for _ in range(self.n_init):
                centres = self._start(images, rows, rng)
                state = MatchState(images, centres, motions)
                if self.init == "k-means++":
                    start = match_all(images, centres, motions, self.n_starts, self.n_refine)
                    state.rotation[:] = start.rotation
                    state.shift[:] = start.shift
                    state.scale[:] = start.scale
                centres, _, history = anneal(state, centres, schedule, on_temperature=bar.update)
                found = finish(images, centres, motions, self.n_starts, self.n_refine)
                if best is None or found.energy < best.energy:
                    best, self.history_ = found, history
        assert best is not None  # n_init is at least 1
        self._store(images, best, unit, schedule)
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # an image is itself a table of points
        tags.input_tags.three_d_array = True
        return tags

    def _check_images(self, X) -> PointSets:
        images = check_point_sets("X", X)
        if images.single:
            raise ValueError(
                f"X: expected many point sets (I, J, D) or a list of (J, D), got one of shape "
                f"{np.shape(X)}"
            )
        return images

    def _check_parameters(self, images: PointSets) -> tuple[Schedule, Motions, float]:
        """Everything checked; the unit is the images' root mean squared radius."""
        gm.check_number("n_clusters", self.n_clusters, low=1, integer=True)
        if len(images) < self.n_clusters:
            raise ValueError(
                f"n_clusters: expected at most the number of images, {len(images)}, got "
                f"{self.n_clusters}"
            )
        for name in ("n_init", "max_sweeps", "n_starts", "n_refine", "sinkhorn_sweeps"):
            gm.check_number(name, getattr(self, name), low=1, integer=True)
        for name in ("beta_start", "beta_end", "membership_ratio", "sinkhorn_tol"):
            gm.check_number(name, getattr(self, name), low=0.0, strict=True)
        gm.check_number("anneal_rate", self.anneal_rate, low=1.0, strict=True)
        gm.check_choice("init", self.init, ("k-means++", "random"))
        if self.beta_end < self.beta_start:
            raise ValueError(
                f"beta_end: expected at least beta_start={self.beta_start}, got {self.beta_end}"
            )
        unit = float(np.sqrt(images.spreads().mean()))
        schedule = Schedule(
            self.beta_start,
            self.beta_end,
            self.anneal_rate,
            self.max_sweeps,
            membership_ratio=self.membership_ratio,
            sinkhorn_tol=self.sinkhorn_tol,
            sinkhorn_sweeps=self.sinkhorn_sweeps,
        )
        return schedule, self._motions(unit), unit

    def _motions(self, unit: float) -> Motions:
        """What may move, for points measured in `unit`."""
        return checked_motions(
            self.rotation,
            self.translation,
            self.scale,
            self.outlier_cost,
            self.max_rotation,
            self.reflection,
            unit,
        )

    def _start(self, images: PointSets, rows: DistanceRows, rng: np.random.Generator) -> PointSets:
        if self.init == "random":
            return random_centres(images, self.n_clusters, rng)
        chosen = k_means_plus_plus(rows, self.n_clusters, rng)
        return PointSets(images.points[chosen], images.sizes[chosen])

    def _store(self, images: PointSets, found: Clustering, unit: float, schedule: Schedule) -> None:
        """Fitted attributes, back in the units of the data."""
        self.labels_ = found.labels
        self.memberships_ = memberships(found.distance, schedule.end * schedule.membership_ratio)[0]
        self.distances_, self.energy_ = found.distance * unit**2, found.energy * unit**2
        points, sizes = found.centres.points * unit, found.centres.sizes
        self.cluster_centers_ = (
            points if (sizes == points.shape[1]).all() else [p[:n] for p, n in zip(points, sizes)]
        )
        moved, self.n_features_in_ = aligned(images, found, found.labels)[0] * unit, images.dims
        self.aligned_ = [set_[:size] for set_, size in zip(moved, images.sizes)]

    # ------------------------------------------------------------------ using

    def predict(self, X) -> np.ndarray:
        """Nearest centre (I,) of each image."""
        return self.transform(X).argmin(1)

    def transform(self, X) -> np.ndarray:
        """Matching distances (I, A) from images to centres."""
        check_is_fitted(self, "cluster_centers_")
        images = self._check_images(X)
        if images.dims != self.n_features_in_:
            raise ValueError(
                f"X: fitted on points in {self.n_features_in_} dimensions, got {images.dims}"
            )
        motions = self._motions(unit=1.0)
        centres = check_point_sets("cluster_centers_", self.cluster_centers_)
        return match_all(images, centres, motions, self.n_starts, self.n_refine).distance

    def plot(self, ax=None):
        """Centres with their aligned members; see `gmlearn_pointsets.plots.plot_centres`."""
        from .plots import plot_centres

        check_is_fitted(self, "cluster_centers_")
        return plot_centres(self, ax=ax)
