"""Pictures: one colour-blind-safe style for everything."""

from gmlearn.plot.curves import plot_bounds, plot_entropy, plot_labels, plot_objective, plot_weights
from gmlearn.plot.graph import plot_factor_graph
from gmlearn.plot.style import PALETTE, axes, image, style, styled

__all__ = [
    "PALETTE",
    "axes",
    "image",
    "plot_bounds",
    "plot_entropy",
    "plot_factor_graph",
    "plot_labels",
    "plot_objective",
    "plot_weights",
    "style",
    "styled",
]
