"""Arrays with a JSON header in one .npz file: written whole or not at all, read without executing code."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from gmlearn._utils.files import atomic_write


def save_arrays(path: str | os.PathLike, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write `arrays` and a JSON `header` (with its "kind") to `path`, atomically."""
    text = np.frombuffer(json.dumps(dict(header)).encode(), np.uint8)
    with atomic_write(path) as stream:
        np.savez(stream, header=text, **arrays)  # type: ignore[arg-type]


def load_arrays(path: str | os.PathLike, kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(header, arrays) of a file of the given kind, or a ValueError that says what is wrong with it."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(bytes(arrays.pop("header").astype(np.uint8)).decode())
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, AttributeError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{os.fspath(path)}: not a {kind} file, or damaged ({type(error).__name__}: {error})") from None
    if not isinstance(header, dict) or header.get("kind") != kind:
        found = header.get("kind") if isinstance(header, dict) else type(header).__name__
        raise ValueError(f"{os.fspath(path)}: expected a {kind} file, found {found!r}")
    return header, arrays
