"""Denoising with a learnt pairwise potential V(|a - b|) on the grid of pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

import gmlearn as gm
from gmlearn_vision.estimators import ImageEstimator
from gmlearn_vision.grids import edge_lengths, grid_crf
from gmlearn_vision.posterior import posterior_mean
from gmlearn_vision.shapes import DifferenceShape

#: name of the weight segment
POTENTIAL = "V"


class Denoiser(ImageEstimator):
    r"""Denoising by the energy :math:`\sum_p u(x_p, z_p) + \sum_{pq} V(|x_p - x_q|)`, with V learnt
    from pairs of images.

    Parameters
    ----------
    levels : int L, levels evenly spaced over the range of the clean images; or float (L,), the
        levels themselves, evenly spaced. Labels are positions in this list.
    data : "absolute": u = |x - z| in units of the spacing of the levels; "quadratic": :math:`(x -
        z)^2 / 2\sigma^2`, with sigma measured on the training pairs. Missing pixels (a mask, or
        NaN) cost nothing.
    shape : "free", "monotone" or "concave"; `truncation` : int, V is constant beyond so many
        levels. See `DifferenceShape`.
    connectivity : 4 or 8; V is divided by the length of diagonal edges.
    output : "map", a labelling of least energy; "mean" (quadratic data only), the posterior mean,
        not confined to the levels. The margin says nothing about the spread of the posterior, and
        images differ in texture: a factor of V is
        chosen for each image, without its truth, by Stein's estimate of the squared error, see
        `posterior_mean`.
    loss : name or `gmlearn.Loss` of the margin; for many levels `gmlearn.LabelDistance` forgives
        near misses. The data costs are fixed, so the scale of the loss matters:
        ``gmlearn.Hamming(0.1)`` smooths less than ``"hamming"`` (scale 1).
    regularization : mu of mu/2 |V|^2, against the loss for each pixel.
    max_iter : passes over the images in training.
    solver, solver_iter : MAP solver and its rounds.
    n_jobs : threads over images.   random_state : of the training: int, `RandomState` or None.

    Attributes
    ----------
    levels_ : float (L,).   potential_ : float (L,), V.   noise_ : measured standard deviation.
    model_ : `gmlearn.TrainedModel`.

    Examples
    --------
    >>> import numpy as np
    >>> from gmlearn_vision import Denoiser, piecewise_constant
    >>> rng = np.random.default_rng(0)
    >>> clean = [piecewise_constant(rng, 24, 24, 4) for _ in range(3)]
    >>> noisy = [c + rng.normal(size=c.shape) for c in clean]
    >>> denoiser = Denoiser(levels=np.arange(4), max_iter=20).fit(noisy[:2], clean[:2])
    >>> bool(np.mean(denoiser.predict(noisy[2]) != clean[2]) < 0.3)
    True
    """

    def __init__(
        self,
        levels: Any = 32,
        *,
        data: str = "absolute",
        shape: str = "monotone",
        truncation: int | None = None,
        connectivity: int = 4,
        output: str = "map",
        loss: Any = "hamming",
        regularization: float = 1e-4,
        max_iter: int = 60,
        solver: str = "trws",
        solver_iter: int = 50,
        n_jobs: int = 1,
        random_state: Any = 0,
    ) -> None:
        self.levels = levels
        self.data = data
        self.shape = shape
        self.truncation = truncation
        self.connectivity = connectivity
        self.output = output
        self.loss = loss
        self.regularization = regularization
        self.max_iter = max_iter
        self.solver = solver
        self.solver_iter = solver_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ------------------------------------------------------------------ training

    def fit(
        self, X: Any, y: Any = None, *, masks: Any = None, callbacks: Sequence[Any] = ()
    ) -> Denoiser:
        """Learn V.

        Parameters
        ----------
        X, y : noisy and clean images, (H, W), or lists of images of any sizes.
        masks : bool like X, True where a pixel was observed; None: wherever it is not NaN.
        callbacks : for `gmlearn.train`, called with (passes, weights, history).
        """
        if y is None:
            raise ValueError("y: expected the clean images, got None; Denoiser requires y")
        noisy, clean = check_images("X", X, allow_nan=True), check_images("y", y)
        masks = self._masks(noisy, masks)
        if [z.shape for z in noisy] != [x.shape for x in clean]:
            raise ValueError(
                f"y: expected images of the shapes {[z.shape for z in noisy]}, got "
                f"{[x.shape for x in clean]}"
            )
        self._check_parameters()
        self.levels_ = self._levels(clean)
        residual = np.concatenate([(z - x)[m] for z, x, m in zip(noisy, clean, masks)])
        self.noise_ = max(
            float(np.sqrt(np.mean(residual**2))) if residual.size else 0.0, 1e-6 * self.spacing_
        )
        n_pixels = sum(x.size for x in clean)
        samples = [
            gm.Sample(self.crf(z, m), self._labels(x).ravel(), weight=1.0 / n_pixels)
            for z, x, m in zip(noisy, clean, masks)
        ]
        self.model_ = self._train(samples, callbacks)
        self.potential_ = self.model_.weights[POTENTIAL]
        return self

    def _train(self, samples: list[gm.Sample], callbacks: Sequence[Any]) -> gm.TrainedModel:
        start = {POTENTIAL: np.minimum(np.arange(len(self.levels_)), self.truncation or np.inf) > 0}
        return gm.train(
            samples,
            self.loss,
            constraints=DifferenceShape(self.shape, self.truncation),
            weights=start,
            regularizer=gm.L2(self.regularization),
            max_iter=self.max_iter,
            n_jobs=self.n_jobs,
            seed=self._seed(),
            callbacks=callbacks,
        )

    def _check_parameters(self) -> None:
        gm.check_choice("data", self.data, ("absolute", "quadratic"))
        gm.check_choice("output", self.output, ("map", "mean"))
        gm.check_choice("connectivity", self.connectivity, (4, 8))  # type: ignore[arg-type]
        gm.check_number("regularization", self.regularization, low=0)
        DifferenceShape(self.shape, self.truncation)
        if self.output == "mean" and self.data != "quadratic":
            raise ValueError(f"data: expected 'quadratic' for output='mean', got {self.data!r}")
        if self.output == "mean" and self.connectivity != 4:
            raise ValueError(
                f"connectivity: expected 4 for output='mean', got {self.connectivity!r}"
            )

    def _levels(self, clean: list[np.ndarray]) -> np.ndarray:
        with gm.naming("levels"):
            single = np.ndim(self.levels) == 0
        if single:
            n = int(gm.check_number("levels", self.levels, low=2, integer=True))
            low, high = min(x.min() for x in clean), max(x.max() for x in clean)
            if low == high:
                raise ValueError(
                    f"levels: the clean images have the single value {low:g}; give the levels "
                    f"themselves"
                )
            levels = np.linspace(low, high, n)
        else:
            levels = gm.check_array("levels", self.levels, ndim=1)
            steps = np.diff(levels)
            if len(levels) < 2 or (steps <= 0).any() or not np.allclose(steps, steps[0]):
                raise ValueError(
                    f"levels: expected at least two increasing, evenly spaced numbers, got "
                    f"{levels.tolist()}"
                )
        self.spacing_ = float(levels[1] - levels[0])
        return levels

    def _labels(self, image: np.ndarray) -> np.ndarray:
        """The nearest level of every pixel."""
        return np.clip(
            np.rint((image - self.levels_[0]) / self.spacing_), 0, len(self.levels_) - 1
        ).astype(np.int64)

    def _masks(self, noisy: list[np.ndarray], masks: Any) -> list[np.ndarray]:
        seen = [~np.isnan(z) for z in noisy]
        if masks is None:
            return seen
        masks = [masks] if np.ndim(masks[0]) == 1 else list(masks)
        if [np.shape(m) for m in masks] != [z.shape for z in noisy]:
            raise ValueError(
                f"masks: expected the shapes {[z.shape for z in noisy]}, got "
                f"{[np.shape(m) for m in masks]}"
            )
        return [s & np.asarray(m, bool) for s, m in zip(seen, masks)]

    # ------------------------------------------------------------------ the model of one image

    def costs(self, noisy: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """u (H, W, L)."""
        residual = np.where(mask, noisy, 0.0)[..., None] - self.levels_
        if self.data == "absolute":
            u = np.abs(residual) / self.spacing_
        else:
            u = 0.5 * (residual / self.noise_) ** 2
        return np.where(mask[..., None], u, 0.0)

    def crf(self, noisy: np.ndarray, mask: np.ndarray) -> gm.CRF:
        """The model of an image, with the weight segment "V"."""
        crf, edges = grid_crf(self.costs(noisy, mask), self.connectivity)
        contrast = None if self.connectivity == 4 else 1.0 / edge_lengths(edges, noisy.shape[1])
        crf.add(gm.Difference(edges, POTENTIAL, contrast=contrast))
        return crf

    # ------------------------------------------------------------------ use

    def predict(self, X: Any, mask: Any = None) -> np.ndarray | list[np.ndarray]:
        """Denoised images, of the shapes of the noisy ones."""
        check_is_fitted(self, "potential_")
        images = check_images("X", X, allow_nan=True)
        masks = self._masks(images, mask)
        found = [
            self._mean(z, m) if self.output == "mean" else self._map(z, m)
            for z, m in zip(images, masks)
        ]
        return found[0] if np.ndim(X[0]) == 1 else found

    def _map(self, noisy: np.ndarray, mask: np.ndarray) -> np.ndarray:
        result = gm.solve(
            self.crf(noisy, mask),
            {POTENTIAL: self.potential_},
            solver=self.solver,
            max_iter=self.solver_iter,
        )
        return self.levels_[result.labels].reshape(noisy.shape)

    def _mean(self, noisy: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return posterior_mean(
            np.where(mask, noisy, 0.0), mask, self.costs(noisy, mask), self.potential_, self.levels_
        )

    def plot_potential(self, ax: Any = None, label: str | None = None) -> Any:
        """V against the difference of grey levels."""
        check_is_fitted(self, "potential_")
        ax = gm.plot.axes(ax, xlabel="difference |a - b|", ylabel="V")
        ax.plot(
            np.arange(len(self.potential_)) * self.spacing_,
            self.potential_,
            marker="o",
            markersize=3,
            label=label,
        )
        return ax


def check_images(name: str, value: Any, allow_nan: bool = False) -> list[np.ndarray]:
    """A list of checked images (H, W) from one image or several."""
    with gm.naming(name):
        if not len(value):
            raise ValueError("expected an image (H, W) or a list of them, got nothing")
        images = [value] if np.ndim(value[0]) == 1 else list(value)
    return [
        gm.check_array(f"{name}[{i}]", image, ndim=2, allow_nan=allow_nan)
        for i, image in enumerate(images)
    ]
