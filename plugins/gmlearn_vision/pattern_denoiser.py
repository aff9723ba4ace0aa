"""Denoising with learnt high-order cliques: a pattern for every small window of pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

import gmlearn as gm
from gmlearn_vision.denoiser import check_images
from gmlearn_vision.estimators import ImageEstimator
from gmlearn_vision.patterns import gaussian_mean, learn_patterns, pattern_crf

#: entries of the tables that belief propagation holds at once, and windows by which bands overlap
TABLE_ENTRIES, MARGIN = 15_000_000, 16
#: share of the noise's variance that is left in a restored image, for the second look at its
#: windows; chosen on Berkeley crops that serve neither for training nor as test images
REMAINING = 0.05


class PatternDenoiser(ImageEstimator):
    r"""Denoising by cliques of n x n pixels, each of which follows one of K learnt patterns.

    Two things are learnt: the patterns, from clean images (`learn_patterns`); and which patterns
    lie side by side, by ``gm.train`` on a CRF with one variable h_c for each window,

    .. math:: E(h; z) = \sum_c w\, u_c(h_c; z) + \sum_{cd} T(h_c, h_d),

    u_c being the cost of a pattern under noise. An image is restored by the posterior mean: the
    marginals of h by ``gm.marginals``, then the mean of the Gaussian that they leave
    (`gaussian_mean`). A second look then takes the windows' patterns from the restored image, in
    which they show more clearly, and restores once more: a step down in patterns and one in grey
    values on their joint cost (as in Zoran and Weiss, ICCV 2011).

    Parameters
    ----------
    n_patterns : K.   side : n, of the windows.
    neighbours : learn T; False takes the windows' patterns as independent, which is better for
        drawings: where most windows are exactly flat, T overrules what a single window shows.
    looks : 1 for the posterior mean alone, which is better for fine texture of low contrast; 2 for
        the second look as well.
    regularization : mu of mu/2 |w|^2, against the mean bound of a window's likelihood.
    max_iter : passes of the training.   message_iter : rounds of belief propagation.
    random_state : of the patterns' start: int, `RandomState` or None.

    Attributes
    ----------
    patterns_ : `Patterns`, flat ones first.   noise_ : measured standard deviation.
    weights_ : of the CRF: "evidence" (1,), "across" and "down" (K, K).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> clean = [40.0 * (np.add.outer(np.arange(40), a * np.arange(40)) > 30) for a in (0, 1, 2)]
    >>> noisy = [c + 10.0 * rng.normal(size=c.shape) for c in clean]
    >>> model = PatternDenoiser(4, max_iter=10, random_state=0).fit(noisy[:2], clean[:2])
    >>> bool(np.std(model.predict(noisy[2]) - clean[2]) < 5.0)
    True
    """

    def __init__(
        self,
        n_patterns: int = 15,
        *,
        side: int = 3,
        neighbours: bool = True,
        looks: int = 2,
        regularization: float = 1e-4,
        max_iter: int = 10,
        message_iter: int = 10,
        random_state: Any = 0,
    ) -> None:
        self.n_patterns = n_patterns
        self.side = side
        self.neighbours = neighbours
        self.looks = looks
        self.regularization = regularization
        self.max_iter = max_iter
        self.message_iter = message_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> PatternDenoiser:
        """Learn from noisy images X and clean ones y, (H, W) or lists of them."""
        if y is None:
            raise ValueError("y: expected the clean images, got None; PatternDenoiser requires y")
        gm.check_number("n_patterns", self.n_patterns, low=1, integer=True)
        gm.check_number("side", self.side, low=2, integer=True)
        gm.check_number("looks", self.looks, low=1, high=2, integer=True)
        noisy, clean = check_images("X", X), check_images("y", y)
        if [z.shape for z in noisy] != [x.shape for x in clean]:
            raise ValueError(
                f"y: expected images of the shapes {[z.shape for z in noisy]}, got "
                f"{[x.shape for x in clean]}"
            )
        residual = np.concatenate([(z - x).ravel() for z, x in zip(noisy, clean)])
        self.noise_ = max(float(np.sqrt(np.mean(residual**2))), 1e-6)
        self.patterns_ = learn_patterns(clean, self.n_patterns, self.side, self._seed())
        pair = np.zeros((self.n_patterns, self.n_patterns))
        self.weights_ = {"evidence": np.ones(1), "across": pair, "down": pair}
        if self.neighbours:
            self.weights_ = self._train(noisy, clean)
        return self

    def _train(self, noisy: list[np.ndarray], clean: list[np.ndarray]) -> dict[str, np.ndarray]:
        """The likelihood of the clean windows' patterns, given the noisy image, by its convex
        bound: the pseudo-likelihood makes neighbours agree too much where most of an image is flat.
        """
        truths = [self.patterns_.costs(x, 0.0).argmin(axis=1) for x in clean]
        n_windows = sum(map(len, truths))
        samples = [
            gm.Sample(pattern_crf(self.patterns_, z, self.noise_**2), h, weight=1.0 / n_windows)
            for z, h in zip(noisy, truths)
        ]
        found = gm.train(
            samples,
            loss="none",
            temperature=1.0,
            regularizer=gm.L2(self.regularization),
            weights=self.weights_,
            max_iter=self.max_iter,
            show_progress=False,
        )
        return found.weights

    def probabilities(self, noisy: np.ndarray) -> np.ndarray:
        """Pattern probabilities (windows, K) of the windows of one image.

        A large image is worked on in bands of rows that overlap by `MARGIN` windows on either side.
        """
        check_is_fitted(self, "patterns_")
        height, width = (n - self.side + 1 for n in noisy.shape)
        rows = max(1, TABLE_ENTRIES // (2 * width * self.n_patterns**2) - 2 * MARGIN)
        rounds: dict[str, Any] = {"max_iter": self.message_iter, "damping": 0.3}
        parts = []
        for start in range(0, height, rows):
            low, high = max(0, start - MARGIN), min(height, start + rows + MARGIN)
            band = noisy[low : high + self.side - 1]
            crf = pattern_crf(self.patterns_, band, self.noise_**2)
            node = gm.marginals(crf, self.weights_, method="loopy-bp", **rounds).node
            inner = slice(start - low, min(start + rows, height) - low)
            parts.append(np.reshape(node, (high - low, width, -1))[inner])
        return np.concatenate(parts).reshape(height * width, -1)

    def predict(self, X: Any) -> np.ndarray | list[np.ndarray]:
        """Denoised images, of the shapes of the noisy ones."""
        check_is_fitted(self, "patterns_")
        border = self.side - 1  # so that every pixel lies in as many windows
        inner = slice(border, -border)
        found = []
        for image in check_images("X", X):
            padded = np.pad(image, border, mode="reflect")
            q = self.probabilities(padded)
            mean = gaussian_mean(padded, self.patterns_, q, self.noise_**2)
            if self.looks == 2:
                q = self.patterns_.probabilities(mean, REMAINING * self.noise_**2)
                mean = gaussian_mean(padded, self.patterns_, q, self.noise_**2)
            found.append(mean[inner, inner])
        return found[0] if np.ndim(X[0]) == 1 else found

    def plot_patterns(self, ax: Any = None) -> Any:
        """Each pattern by the window that it stretches most, titled with its share."""
        import matplotlib.pyplot as plt

        check_is_fitted(self, "patterns_")
        if ax is None:
            rows = -(-self.n_patterns // 5)
            _, ax = plt.subplots(rows, 5, figsize=(7, 1.6 * rows), squeeze=False)
        axes = np.ravel(ax)
        for panel, share, matrix in zip(axes, self.patterns_.share, self.patterns_.covariance):
            values, vectors = np.linalg.eigh(matrix)
            shape = self.patterns_.basis @ vectors[:, -1] * np.sqrt(values[-1])
            panel.imshow(shape.reshape(self.side, self.side), cmap="gray", vmin=-60, vmax=60)
            panel.set_title(f"{share:.2f}, ±{np.sqrt(values[-1]):.0f}", fontsize=8)
        for panel in axes:
            panel.axis("off")
        return axes
