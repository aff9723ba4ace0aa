"""The look of every gmlearn picture."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

#: Okabe and Ito's colours, told apart by everyone.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000")


def style() -> dict[Any, Any]:
    """The matplotlib settings of the house style; `styled` draws with them."""
    from cycler import cycler

    return {
        "axes.prop_cycle": cycler(color=PALETTE),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "grid.linewidth": 0.6,
        "font.size": 10,
        "axes.titlesize": 11,
        "axes.titlelocation": "left",
        "legend.frameon": False,
        "image.cmap": "cividis",
        "figure.constrained_layout.use": True,
        "figure.dpi": 110,
    }


@contextlib.contextmanager
def styled(changes: dict[Any, Any] | None = None) -> Iterator[Any]:
    """Within it, what matplotlib draws has the house style, but for some settings; gives
    ``matplotlib.pyplot``.

    Examples
    --------
    >>> import gmlearn as gm
    >>> with gm.plot.styled() as plt:
    ...     figure, panels = plt.subplots(1, 2)
    """
    import matplotlib.pyplot

    with matplotlib.rc_context({**style(), **(changes or {})}):
        yield matplotlib.pyplot


def image(ax: Any, picture: Any, title: str = "", **settings: Any) -> None:
    """A picture without ticks; `settings` go to ``ax.imshow``."""
    ax.imshow(picture, **settings)
    ax.set(title=title, xticks=[], yticks=[])
    ax.grid(False)


def axes(ax: Any = None, figsize: tuple[float, float] = (5.0, 3.4), **settings: Any) -> Any:
    """`ax`, or a new axes in the house style; `settings` go to ``ax.set``."""
    if ax is None:
        with styled() as plt:
            _, ax = plt.subplots(figsize=figsize)
    if settings:
        ax.set(**settings)
    return ax
