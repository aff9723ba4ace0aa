"""Numpy archives as models need them: finite costs, and the readers' one error."""

from __future__ import annotations

import numpy as np

from gmlearn._utils import archive
from gmlearn._utils.archive import write_archive
from gmlearn.io.base import FormatError, Path

__all__ = ["read_archive", "write_archive"]


def read_archive(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an archive: bool, integer or real numbers, never NaN or -inf; sizes are
    checked before allocating.
    """
    try:
        arrays = archive.read_archive(path)
    except archive.ArchiveError as error:
        raise FormatError(path, error.expected, error.got) from None
    for name, array in arrays.items():
        if array.dtype.kind == "f" and (np.isnan(array) | np.isneginf(array)).any():
            raise FormatError(
                path, f"finite numbers or inf in the array {name[:60]!r}", "NaN or -inf"
            )
    return arrays
