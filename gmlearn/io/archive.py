"""Numpy archives as models need them: finite costs, and the readers' one error."""

from __future__ import annotations

import numpy as np

from gmlearn._utils import archive
from gmlearn._utils.archive import write_archive
from gmlearn._utils.validation import HUGE
from gmlearn.io.base import FormatError, Path

__all__ = ["read_archive", "write_archive"]


def read_archive(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an archive: bool, integer or real numbers, +inf among them but neither NaN nor
    -inf, nor numbers so large that sums overflow; sizes are checked before allocating.
    """
    try:
        arrays = archive.read_archive(path)
    except archive.ArchiveError as error:
        raise FormatError(path, error.expected, error.got) from None
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not ((np.abs(array) <= HUGE) | np.isposinf(array)).all():
            raise FormatError(
                path,
                f"finite numbers or inf in the array {name[:60]!r}",
                f"NaN, -inf or a number beyond {HUGE:g}",
            )
    return arrays
