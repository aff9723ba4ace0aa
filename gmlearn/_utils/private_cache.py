"""A cache for compiled kernels where none of numba's usual places can be written to.

Home and package folders may be read only (containers, shared installations); numba then refuses
every cached kernel. Such a process gets a folder of its own, which is removed at its end: machine
code is never read from a place that somebody else could have filled.
"""

from __future__ import annotations

import os
import sys


class PrivateCacheWarning(UserWarning):
    """Kernels are compiled anew in every process."""


def ensure_kernel_folder(package: str) -> None:
    """Set ``NUMBA_CACHE_DIR`` to a private folder if numba could write nowhere else.

    package : the folder of the kernels' package, the first place that numba tries. Nothing is
    imported, and nothing done, on an ordinary machine.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    places = (os.environ.get("NUMBA_CACHE_DIR"), os.path.join(package, "__pycache__"), home)
    if any(place and _writable(place) for place in places):
        return
    import atexit
    import shutil
    import tempfile
    import warnings

    folder = tempfile.mkdtemp(prefix="gmlearn-kernels-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = folder
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = folder
    warnings.warn(
        "no folder for compiled kernels can be written to, so every process compiles them anew; "
        "set NUMBA_CACHE_DIR to a folder of yours",
        PrivateCacheWarning,
        stacklevel=3,
    )


def _writable(place: str) -> bool:
    """Can this folder be written to, or be made?"""
    while not os.path.exists(place):
        above = os.path.dirname(place)
        if above == place:
            return False
        place = above
    return os.path.isdir(place) and os.access(place, os.W_OK)
