"""Names of a package that are imported on first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_exports(
    package: str, names: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package whose public names cost nothing until they are used.

    Parameters
    ----------
    package : its ``__name__``.
    names : module within the package -> the public names that it holds, separated by spaces.

    Examples
    --------
    >>> import gmlearn as gm
    >>> __getattr__, __dir__, __all__ = gm.lazy_exports("gmlearn", {"losses": "Hamming NoLoss"})
    >>> __all__
    ['Hamming', 'NoLoss']
    >>> __getattr__("Hamming") is gm.Hamming
    True
    """
    home = {name: f"{package}.{module}" for module, held in names.items() for name in held.split()}
    public = sorted(home)

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(home[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: public, public
