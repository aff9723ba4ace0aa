"""Numpy archives (.npz): written whole or not at all, read as if from strangers: nothing
executed, nothing allocated unpaid.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from gmlearn._utils.files import atomic_write, check_path
from gmlearn._utils.validation import HUGE

#: an archive of less than `SMALL_FILE` bytes may hold arrays of `SAFE_BYTES`, a larger one this
#: many times what it has more
MAX_RATIO, SAFE_BYTES, SMALL_FILE = 100, 2**23, 2**20
#: the same of a JSON header, of which three bytes become an object of eighty
SAFE_HEADER = 2**21
#: what numpy writes before the numbers of an array; anything else (objects, records, strings) does
#: not match
_HEADER = re.compile(
    rb"\{'descr': '([<>|]?[biuf][1248])', 'fortran_order': (True|False), "
    rb"'shape': \(([0-9, ]{0,400})\), \}\s*"
)
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    struct.error,
    ValueError,
    OverflowError,
    OSError,
)
#: what code that takes apart a header or arrays of the wrong kind stumbles over
_MISFIT = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


class ArchiveError(ValueError):
    """An archive that is damaged, or not of the kind that was expected."""

    def __init__(self, path: str | os.PathLike, expected: str, got: str):
        self.file = os.fspath(path)
        self.expected = expected
        self.got = got
        super().__init__(f"{self.file}: expected {expected}, got {got}")


def save_arrays(
    path: str | os.PathLike, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    """Write `arrays` and a JSON `header` (with its "kind") to `path`, atomically."""
    text = np.frombuffer(json.dumps(dict(header)).encode(), np.uint8)
    write_archive(path, {"header": text, **arrays})


def load_arrays(path: str | os.PathLike, kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(header, arrays) of a file of the given kind, or a ValueError that says what is wrong with
    it.
    """
    with damage_named(path, kind):
        arrays = read_archive(path)
        header = json.loads(bytes(arrays.pop("header").astype(np.uint8)).decode())
    if not isinstance(header, dict) or header.get("kind") != kind:
        found = header.get("kind") if isinstance(header, dict) else type(header).__name__
        raise ValueError(f"{os.fspath(path)}: expected a {kind} file, found {str(found)[:60]!r}")
    return header, arrays


@contextlib.contextmanager
def damage_named(path: str | os.PathLike, kind: str) -> Iterator[None]:
    """Whatever the parsing of a file stumbles over is a ValueError that names the file."""
    try:
        yield
    except _MISFIT as error:
        name, said = os.fspath(path), str(error)
        if said.startswith(name) and not isinstance(error, ArchiveError):
            raise  # it says so already
        raise ValueError(
            f"{name}: not a {kind} file, or damaged ({type(error).__name__}: "
            f"{said.removeprefix(f'{name}: ')[:200]})"
        ) from None


def check_like(
    found: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
    optional: Collection[str] = (),
    growing: Collection[str] = (),
) -> None:
    """Stored arrays must have the names, types and shapes of `expected`, and be finite where those
    are.

    Compiled code trusts them afterwards. Those in `optional` may be absent, those in `growing` may
    differ in their first length.
    """
    if not expected.keys() - set(optional) <= found.keys() <= expected.keys():
        raise ValueError(f"expected the arrays {sorted(expected)}, got {sorted(found)}")
    for name, array in found.items():
        given = np.asarray(array)
        like = np.asarray(expected[name])
        skip = name in growing
        if (
            given.dtype != like.dtype
            or given.ndim != like.ndim
            or given.shape[skip:] != like.shape[skip:]
        ):
            raise ValueError(
                f"{name}: expected {like.dtype} of shape {like.shape}, got {given.dtype} of shape "
                f"{given.shape}"
            )
        if (
            given.dtype.kind == "f"
            and np.isfinite(like).all()
            and not (np.abs(given.astype(float)) < HUGE).all()
        ):
            raise ValueError(f"{name}: expected finite numbers below {HUGE:g}")


def write_archive(path: str | os.PathLike, arrays: Mapping[str, np.ndarray]) -> None:
    """Store named arrays without pickle, whole or not at all."""
    with atomic_write(path) as stream:
        np.savez(stream, allow_pickle=False, **arrays)  # type: ignore[arg-type]


def read_archive(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """All arrays of an archive: bool, integer or real numbers; sizes are checked before
    allocating.
    """
    check_path("path", path)
    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        try:
            with zipfile.ZipFile(stream) as archive:
                members = archive.infolist()
                _check_members(path, members, room_for(size, SAFE_BYTES, MAX_RATIO))
                _check_header(path, members, room_for(size, SAFE_HEADER, MAX_RATIO))
                return {
                    m.filename.removesuffix(".npy"): _array(path, m.filename, _content(archive, m))
                    for m in members
                }
        except ArchiveError:
            raise
        except _DAMAGE as error:
            raise ArchiveError(
                path,
                "a numpy archive (.npz)",
                f"a damaged one ({type(error).__name__}: {str(error)[:80]})",
            ) from None


def room_for(size: int, safe: int, ratio: int) -> int:
    """Bytes that a compressed file of `size` bytes may grow to."""
    return safe + ratio * max(0, size - SMALL_FILE)


def _check_members(path: str | os.PathLike, members: list[zipfile.ZipInfo], limit: int) -> None:
    declared = sum(member.file_size for member in members)
    if declared > limit:
        raise ArchiveError(
            path,
            f"at most {limit} bytes of arrays in an archive of this size",
            f"{declared} declared",
        )
    if len({member.filename for member in members}) != len(members):
        raise ArchiveError(path, "different names of arrays", "one twice")
    for member in members:
        if member.compress_type not in (
            zipfile.ZIP_STORED,
            zipfile.ZIP_DEFLATED,
        ) or not member.filename.endswith(".npy"):
            raise ArchiveError(
                path, "stored or deflated .npy arrays", f"the member {member.filename[:60]!r}"
            )


def _check_header(path: str | os.PathLike, members: list[zipfile.ZipInfo], limit: int) -> None:
    for member in members:
        if member.filename == "header.npy" and member.file_size > limit:
            raise ArchiveError(
                path,
                f"at most {limit} bytes of header in an archive of this size",
                f"{member.file_size} declared",
            )


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    # Reading a given number of bytes, unlike reading all, never decompresses more than was
    # declared.
    with archive.open(member) as stream:
        data = stream.read(member.file_size)
    if len(data) != member.file_size:
        raise EOFError(f"{member.filename[:60]!r} ends early")
    return data


def _array(path: str | os.PathLike, name: str, data: bytes) -> np.ndarray:
    """The array of one ``.npy`` file; its header is matched, never evaluated."""
    what = f"the array {name[:60]!r}"
    version = data[6:8]
    width = {b"\x01\x00": 2, b"\x02\x00": 4}.get(data[6:8], 0)
    start = 8 + width + int.from_bytes(data[8 : 8 + width], "little")
    match = _HEADER.fullmatch(data, 8 + width, min(start, len(data)))
    if data[:6] != b"\x93NUMPY" or not width or start > len(data) or match is None:
        raise ArchiveError(
            path,
            f"numbers in {what}, as numpy 1.0 or 2.0 files hold them",
            f"version {version!r}, header {data[10:80]!r}",
        )
    dtype = np.dtype(match[1].decode())
    fortran = match[2] == b"True"
    shape = tuple(int(length) for length in match[3].split(b",") if length.strip())
    if len(shape) > 32 or math.prod(shape) * dtype.itemsize != len(data) - start:
        raise ArchiveError(
            path,
            f"{what} to fill its {len(data) - start} bytes",
            f"shape {str(shape)[:60]} of {dtype}",
        )
    # a bool byte other than 0 and 1 must not get further
    stored = np.dtype(np.uint8) if dtype.kind == "b" else dtype
    array = np.frombuffer(data, stored, offset=start).reshape(shape, order="F" if fortran else "C")
    # writable, as kernels expect
    return array != 0 if dtype.kind == "b" else array.astype(dtype.newbyteorder("="), order="C")
