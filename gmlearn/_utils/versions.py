"""What runs here: versions of gmlearn and of what it computes with, plugins, compiled kernels."""

from __future__ import annotations

import contextlib
import platform
from importlib import metadata

from gmlearn._version import __version__

PACKAGES = ("numpy", "scipy", "numba", "llvmlite", "scikit-learn", "cvxpy", "matplotlib")
EXTRAS = ("PyMaxflow", "pytoulbar2", "distributed", "torch", "jax")


def versions() -> dict[str, str]:
    """Of Python, of gmlearn and of what it computes with, and the kind of machine."""
    found = {"gmlearn": __version__, "python": platform.python_version()}
    for package in (*PACKAGES, *EXTRAS):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return {**found, "system": f"{platform.system()} {platform.machine()}"}


def show_versions() -> None:
    """Print what a report of a problem should contain: versions, plugins, where kernels come from.

    Examples
    --------
    >>> gm.show_versions()  # doctest: +SKIP
    gmlearn       0.2.0
    python        3.12.4
    ...
    """
    from gmlearn._utils.prebuilt import shipped_for

    plugins = sorted(point.name for point in metadata.entry_points(group="gmlearn"))
    lines = {
        **versions(),
        "plugins": ", ".join(plugins),
        "kernels": shipped_for("gmlearn") or "compiled at the first call",
    }
    width = max(map(len, lines))
    for name, value in lines.items():
        print(f"{name:{width}}  {value}")
