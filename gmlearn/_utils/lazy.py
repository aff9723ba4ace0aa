"""Names of a package that are imported on first use, and known to type checkers."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
from collections.abc import Callable
from typing import Any


def lazy_exports(
    package: str,
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package whose public names cost nothing
    until they are used.

    The names stand once, in the package's stub ``__init__.pyi``, where type checkers and editors
    read them: ``from package.module import Name as Name``, or ``from package import module as
    module`` for a module. Ship the stub, and an empty file ``py.typed``, with the package.

    Parameters
    ----------
    package : its ``__name__``.

    Examples
    --------
    In ``my_package/__init__.py``::

        __getattr__, __dir__, __all__ = gm.lazy_exports(__name__)
    """
    stub = pkgutil.get_data(package, "__init__.pyi")
    assert stub is not None
    home = {
        alias.name: node.module
        for node in ast.parse(stub).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    public = sorted(home)

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if home[name] == package:
            value: Any = importlib.import_module(f"{package}.{name}")
        else:
            value = getattr(importlib.import_module(str(home[name])), name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: public, public
