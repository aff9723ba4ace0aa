"""Pictures: which kernel each cluster uses, and what links buy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import gmlearn as gm


def plot_kernel_usage(
    usage: np.ndarray, names: Sequence[str], ax: Any = None, order: Any = None, groups: Any = None
) -> Any:
    """`usage` (C, M) as a heat map; clusters in `order`; a white line where `groups` (C,), in
    that order, changes.
    """
    usage = gm.check_array("usage", usage, ndim=2)
    order = (
        np.arange(len(usage))
        if order is None
        else gm.check_index("order", order, len(usage), ndim=1)
    )
    ax = gm.plot.axes(
        ax,
        figsize=(1.6 + 0.75 * usage.shape[1], 1.4 + 0.19 * len(order)),
        xlabel="kernel",
        ylabel="cluster",
    )
    image = ax.imshow(
        usage[order], aspect="auto", vmin=0.0, vmax=1.0, interpolation="nearest", cmap="cividis"
    )
    ax.set_xticks(range(usage.shape[1]), names, rotation=0 if max(map(len, names)) <= 8 else 60)
    ax.set_yticks(range(len(order)), order + 1, fontsize=8)
    ax.grid(False)
    if groups is not None:
        for border in np.flatnonzero(np.diff(np.asarray(groups)[order])):
            ax.axhline(border + 0.5, color="white", linewidth=1.5)
    ax.figure.colorbar(image, ax=ax, label="share of the classifier")
    return ax


def plot_links(curves: Mapping[str, np.ndarray], ax: Any = None) -> Any:
    """ACC against links per class; curves: name -> (levels, draws). Bars are one standard
    deviation.
    """
    ax = gm.plot.axes(
        ax, figsize=(7.0, 3.4), xlabel="must-links and cannot-links per class", ylabel="ACC"
    )
    for k, (name, values) in enumerate(curves.items()):
        values = np.asarray(values)
        levels = np.arange(len(values)) + 0.03 * (k - (len(curves) - 1) / 2)
        ax.errorbar(
            levels,
            values.mean(axis=1),
            values.std(axis=1),
            marker="o",
            markersize=4,
            capsize=2,
            color=gm.plot.PALETTE[(k // 2) % len(gm.plot.PALETTE)],
            linestyle="-" if k % 2 == 0 else "--",
            label=name,
        )
    ax.set_xticks(range(len(next(iter(curves.values())))))
    # bars fill the panel
    ax.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


def plot_curves(levels: Sequence[int], curves: Mapping[str, np.ndarray], ax: Any = None) -> Any:
    """ACC against the number of noise views; curves: name -> (levels, draws). Bars are one standard
    deviation.
    """
    ax = gm.plot.axes(ax, figsize=(7.0, 3.4), xlabel="noise views", ylabel="ACC")
    for k, (name, values) in enumerate(curves.items()):
        colour = gm.plot.PALETTE[k % len(gm.plot.PALETTE)]
        mean, spread = np.mean(values, axis=1), np.std(values, axis=1)
        width = 2.5 if k == 0 else 1.2
        ax.errorbar(
            levels, mean, spread, marker="o", capsize=2, color=colour, label=name, linewidth=width
        )
    ax.set_ylim(0.0, 1.03)
    ax.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


def plot_comparison(rows: Mapping[str, Mapping[str, float]], ax: Any = None) -> Any:
    """ACC by data set (outer keys) and method (inner keys) as points on a line."""
    ax = gm.plot.axes(ax, figsize=(6.6, 0.8 + 0.55 * len(rows)), xlabel="ACC")
    for k, name in enumerate(next(iter(rows.values()))):
        place = [i + 0.11 * (k - 2.5) for i in range(len(rows))]
        ax.plot(
            [row[name] for row in rows.values()],
            place,
            "o" if k < 3 else "|",
            markersize=7 if k < 3 else 11,
            markeredgewidth=2,
            color=gm.plot.PALETTE[k % len(gm.plot.PALETTE)],
            linestyle="none",
            label=name,
        )
    ax.set_yticks(range(len(rows)), list(rows))
    ax.invert_yaxis()
    ax.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax
