"""What a file format is, and the one error that every reader raises."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from gmlearn.model import CRF

Path = str | os.PathLike


class FormatError(ValueError):
    """A file that is not what its extension promises: malformed, truncated, or too large to be
    true.

    Attributes
    ----------
    file : str.   line : int, counted from 1, or None in binary files.   expected, got : str.
    """

    def __init__(self, file: Path, expected: str, got: str, line: int | None = None):
        self.file = os.fspath(file)
        self.line = line
        self.expected = expected
        self.got = got
        where = self.file if line is None else f"{self.file}, line {line}"
        super().__init__(f"{where}: expected {expected}, got {got}")


class FileFormat(ABC):
    """One way to store a model; `gm.read` and `gm.write` find it by the extension of the path.

    A subclass sets `name` and `extensions` and writes `read`; `write` is optional.
    """

    registry_kind: ClassVar[str] = "format"
    name: ClassVar[str] = ""
    #: lower case, with the dot; the longest one that a path ends with wins
    extensions: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def read(self, path: Path) -> CRF:
        """The model stored at `path`; `FormatError` if the file is not sound."""

    def write(self, crf: CRF, path: Path, weights: Any = None) -> None:
        """Store `crf` at `path`, whole or not at all."""
        raise ValueError(
            f"{os.fspath(path)}: the format {self.name!r} can be read but not written; use .uai "
            f"or .npz"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.extensions)})"
