"""One progress bar for the whole toolkit."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from typing import Any


def progress(
    iterable: Iterable | None = None,
    *,
    total: int | None = None,
    desc: str = "",
    show: bool | None = None,
    **options: Any,
) -> Any:
    """A tqdm bar that works in terminals and notebooks, and is silent when nobody looks.

    Parameters
    ----------
    show : True, False, or None: only when standard error is a terminal or a notebook is running.
    """
    with warnings.catch_warnings():
        # a notebook without ipywidgets gets a bar of text
        warnings.filterwarnings("ignore", message="IProgress not found")
        from tqdm.auto import tqdm

    if show is None:
        show = sys.stderr.isatty() or "ipykernel" in sys.modules
    return tqdm(
        iterable,
        total=total,
        desc=desc,
        disable=not show,
        leave=False,
        dynamic_ncols=True,
        **options,
    )
