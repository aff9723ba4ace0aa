"""Pictures of learnt weights, objectives and clusterings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import gmlearn as gm


def plot_weights(weights: np.ndarray, names: Sequence[str] | None = None, ax: Any = None) -> Any:
    """Bars; with names (at most 40) horizontal, largest on top."""
    if names is None or len(weights) > 40:
        ax = gm.plot.axes(ax, xlabel="dimension", ylabel="weight", title="Learnt weights")
        ax.bar(np.arange(len(weights)), weights, width=1.0, color=gm.plot.PALETTE[0])
        return ax
    order = np.argsort(weights)
    ax = gm.plot.axes(
        ax, figsize=(5.0, 0.22 * len(weights) + 1.2), xlabel="weight", title="Learnt weights"
    )
    ax.barh(np.arange(len(weights)), weights[order], color=gm.plot.PALETTE[0])
    ax.set_yticks(np.arange(len(weights)), [names[i] for i in order], fontsize=8)
    ax.grid(axis="y", visible=False)
    return ax


def plot_objective(objective: Sequence[float], ax: Any = None) -> Any:
    """Objective by round."""
    ax = gm.plot.axes(ax, xlabel="round", ylabel="objective", title="Learning objective")
    ax.plot(np.arange(1, len(objective) + 1), objective, color=gm.plot.PALETTE[0])
    ax.set_ylim(bottom=min(0.0, min(objective)))
    return ax


def plot_clustering(
    X: np.ndarray,
    truth: np.ndarray,
    exemplars: np.ndarray,
    dimensions: tuple[int, int] = (0, 1),
    ax: Any = None,
) -> Any:
    """Points in two dimensions, colour and marker by true cluster, the exemplars found as
    circles.
    """
    i, j = dimensions
    ax = gm.plot.axes(
        ax, xlabel=f"dimension {i}", ylabel=f"dimension {j}", title="Test set and its exemplars"
    )
    palette = gm.plot.PALETTE
    for k, cluster in enumerate(np.unique(truth)):  # where colours repeat, markers differ
        own = np.asarray(truth) == cluster
        ax.scatter(
            X[own, i],
            X[own, j],
            color=palette[k % len(palette)],
            marker="o^sDv"[k // len(palette) % 5],
            s=11,
            alpha=0.8,
            linewidths=0,
        )
    ax.scatter(
        X[exemplars, i],
        X[exemplars, j],
        s=160,
        facecolors="none",
        edgecolors="black",
        linewidths=1.4,
    )
    return ax
