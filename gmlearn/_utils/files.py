"""Files that are either whole or absent."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any


def check_path(name: str, path: Any) -> str:
    """`path` as a string; a number would be taken for an open file."""
    if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
        raise TypeError(
            f"{name}: expected the name of a file, str or os.PathLike, got {type(path).__name__}"
        )
    return os.fspath(path)


def check_folder(name: str, path: Any) -> str:
    """The name of a file that can be written: its folder is there and may be written to."""
    found = check_path(name, path)
    folder = os.path.dirname(found) or os.curdir
    if not os.path.isdir(folder):
        raise ValueError(f"{name}: expected a file in a folder that exists, got {found!r}")
    if os.path.isdir(found):
        raise ValueError(f"{name}: expected the name of a file, got the folder {found!r}")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{name}: the folder {folder!r} may not be written to")
    return found


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike, mode: str = "wb") -> Iterator[IO]:
    """Open a temporary file beside `path` that takes its name only once it is complete and on disk.

    Whatever interrupts the writing (an exception, a kill, a full disk), `path` keeps its previous
    content.
    """
    path = Path(check_path("path", path))
    name = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    # the user's umask decides who may read it
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, mode, encoding=None if "b" in mode else "utf-8") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, path)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            told = f"{error.strerror} while writing; what was there before is kept"
            raise OSError(error.errno, told, os.fspath(path)) from error
        raise
