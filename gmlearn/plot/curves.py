"""Curves of a run, learnt weights, and label maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gmlearn._utils.validation import check_array
from gmlearn.plot.style import PALETTE, axes, styled

BLUE, ORANGE, GREEN = PALETTE[:3]
#: bars up to which a weight chart names every segment's entries
MANY_BARS = 80


def plot_bounds(history: Any, ax: Any = None) -> Any:
    """Best energy and best lower bound of a MAP run against time; the band between them is what is
    not yet proved.

    Parameters
    ----------
    history : with lists `seconds`, `bound`, `energy`, as in ``gm.solve(crf).history``. Infinite
        values are left out.
    ax : matplotlib axes; a new one by default.

    Returns
    -------
    The axes.
    """

    seconds, bound, energy = (
        _floats(getattr(history, name)) for name in ("seconds", "bound", "energy")
    )
    _check_points(seconds, "history")
    with styled():
        ax = axes(ax, xlabel="seconds", ylabel="energy")
        ax.step(seconds, energy, where="post", color=ORANGE, label="best labelling")
        ax.step(seconds, bound, where="post", color=BLUE, label="lower bound")
        ax.fill_between(seconds, bound, energy, step="post", color=BLUE, alpha=0.12, linewidth=0)
        for values, colour in ((energy, ORANGE), (bound, BLUE)):
            ax.plot(seconds[-1:], values[-1:], "o", color=colour, markersize=4)
        gap = 0.0 if energy[-1] == bound[-1] else energy[-1] - bound[-1]
        ax.set_title(f"gap {gap:.3g}" if np.isfinite(gap) else "gap not known")
        ax.legend()
    return ax


def plot_entropy(marginals: Any, ax: Any = None, shape: tuple[int, int] | None = None) -> Any:
    """How uncertain each variable is: the entropy of its marginal in bits.

    Parameters
    ----------
    marginals : with `entropy` (V,), as ``gm.marginals`` returns.
    ax : matplotlib axes; a new one by default.
    shape : (rows, columns) of a grid whose variables are numbered row by row; bars otherwise.

    Returns
    -------
    The axes.
    """

    bits = np.asarray(marginals.entropy) / np.log(2.0)
    with styled():
        if shape is None:
            ax = axes(ax, xlabel="variable", ylabel="entropy (bits)")
            ax.bar(np.arange(len(bits)), bits, color=BLUE)
        else:
            ax = axes(ax)
            image = ax.imshow(check_array("entropy", bits.reshape(shape)), cmap="magma", vmin=0.0)
            ax.set_axis_off()
            ax.figure.colorbar(image, ax=ax, label="entropy (bits)")
        ax.set_title(f"log Z in [{marginals.lower:.6g}, {marginals.upper:.6g}]")
    return ax


def plot_objective(history: Any, ax: Any = None) -> Any:
    """The training objective, its lower bound and the optimiser's gap, against time.

    Parameters
    ----------
    history : with lists `seconds`, `objective`, `bound`, `gap`, `passes`; None where a pass did not
        measure one.
    ax : matplotlib axes; a new one by default. The gap, if known, has a logarithmic axis of its own
        on the right.

    Returns
    -------
    The axes of the objective.
    """

    seconds, objective, bound, gap = (
        _floats(getattr(history, name)) for name in ("seconds", "objective", "bound", "gap")
    )
    _check_points(seconds, "history")
    passes = [p for p in history.passes if p is not None]
    with styled():
        ax = axes(ax, xlabel="seconds", ylabel="objective")
        for values, colour, label in (
            (objective, ORANGE, "objective"),
            (bound, BLUE, "lower bound"),
        ):
            known = np.isfinite(values)
            if known.any():
                ax.plot(
                    seconds[known],
                    values[known],
                    color=colour,
                    marker="o",
                    markersize=3,
                    label=label,
                )
        handles, labels = ax.get_legend_handles_labels()
        known = np.isfinite(gap) & (gap > 0)
        if known.any():
            right = ax.twinx()
            right.plot(seconds[known], gap[known], color=GREEN, linestyle="--", label="gap (right)")
            right.set(yscale="log", ylabel="gap")
            right.grid(False)
            right.spines["right"].set_visible(True)
            handles, labels = handles + right.lines, [*labels, "gap (right)"]
        if passes:
            ax.set_title(f"{passes[-1]} passes")
        if handles:
            ax.legend(handles, labels)
    return ax


def plot_weights(weights: Mapping[str, Any], ax: Any = None) -> Any:
    """Learnt weights by segment: a heat map for a single matrix, else one bar for each weight,
    coloured by segment.

    Parameters
    ----------
    weights : name -> array, as in ``m.weights``. Arrays of more than one dimension are drawn row by
        row.
    ax : matplotlib axes; a new one by default.

    Returns
    -------
    The axes.
    """

    if not isinstance(weights, Mapping) or not weights:
        raise ValueError(
            f"weights: expected a mapping of at least one segment, name -> array, got {weights!r}"
        )
    segments = {name: check_array(f"weights[{name!r}]", value) for name, value in weights.items()}
    with styled():
        only = next(iter(segments.values()))
        if len(segments) == 1 and only.ndim == 2 and min(only.shape) > 1:
            return _heat_map(next(iter(segments)), only, ax)
        return _bars(segments, ax)


def plot_labels(
    labels: Any, shape: Sequence[int], ax: Any = None, energy: float | None = None
) -> Any:
    """A labelling of a grid as a picture.

    Parameters
    ----------
    labels : int (V,), for example ``result.labels``.
    shape : (height, width), with V = height * width, row by row.
    ax : matplotlib axes; a new one by default.
    energy : shown in the title.

    Returns
    -------
    The axes.
    """
    import matplotlib
    from matplotlib.colors import ListedColormap

    if len(shape) != 2:
        raise ValueError(f"shape: expected (height, width), got {tuple(shape)}")
    flat = check_array("labels", labels, dtype=np.int64).ravel()
    if flat.size != int(shape[0]) * int(shape[1]):
        raise ValueError(
            f"shape: {tuple(shape)} has {int(shape[0]) * int(shape[1])} places, but there are "
            f"{flat.size} labels"
        )
    last = int(flat.max(initial=0))
    few = last < len(PALETTE)
    colours = ListedColormap(PALETTE[: last + 1]) if few else matplotlib.colormaps["cividis"]
    with styled():
        ax = axes(ax)
        image = ax.imshow(
            flat.reshape(shape), cmap=colours, vmin=-0.5, vmax=last + 0.5, interpolation="nearest"
        )
        # no taller than a picture that fills the width of its axes
        ax.figure.colorbar(
            image,
            ax=ax,
            label="label",
            ticks=range(last + 1) if few else None,
            pad=0.02,
            shrink=min(1.0, 1.1 * shape[0] / shape[1]),
        )
        ax.set(xticks=[], yticks=[])
        ax.grid(False)
        if energy is not None:
            ax.set_title(f"energy {energy:.6g}")
    return ax


def _bars(segments: Mapping[str, np.ndarray], ax: Any) -> Any:
    total = sum(value.size for value in segments.values())
    ax = axes(ax, ylabel="weight")
    start, centres = 0.0, []
    for i, (_, value) in enumerate(segments.items()):
        where = start + np.arange(value.size)
        ax.bar(
            where,
            value.ravel(),
            width=0.8 if total <= MANY_BARS else 1.0,
            color=PALETTE[i % len(PALETTE)],
        )
        centres.append(start + (value.size - 1) / 2)
        start += value.size + 1  # an empty place between segments
    ax.axhline(0, color="black", linewidth=0.8)
    ax.set_xticks(
        centres,
        [f"{name}\n{value.shape}" if value.size > 1 else name for name, value in segments.items()],
    )
    ax.grid(False, axis="x")
    return ax


def _heat_map(name: str, matrix: np.ndarray, ax: Any) -> Any:
    reach = float(np.abs(matrix).max()) or 1.0
    ax = axes(ax, title=f"{name} {matrix.shape}")
    # orange and purple: told apart by everyone, white is zero
    image = ax.imshow(
        matrix, cmap="PuOr", vmin=-reach, vmax=reach, interpolation="nearest", aspect="auto"
    )
    ax.figure.colorbar(image, ax=ax, label="weight")
    for axis in (ax.xaxis, ax.yaxis):
        axis.get_major_locator().set_params(integer=True)
    ax.grid(False)
    return ax


def _floats(values: Sequence[float | None]) -> np.ndarray:
    """As floats, with NaN (a hole in the curve) for None and infinities."""
    array = np.array([np.nan if v is None else v for v in values], float)
    return np.where(np.isfinite(array), array, np.nan)


def _check_points(seconds: np.ndarray, name: str) -> None:
    if len(seconds) == 0:
        raise ValueError(f"{name}: expected at least one point, got an empty history")
