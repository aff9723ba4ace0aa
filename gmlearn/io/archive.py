"""Reading numpy archives from strangers: no pickle, and no allocation that the file does not pay for."""

from __future__ import annotations

import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping

import numpy as np

from gmlearn._utils.files import atomic_write
from gmlearn.io.base import FormatError, Path

#: arrays may take `SAFE_BYTES` together; beyond that at most this many times the size of the archive
MAX_RATIO, SAFE_BYTES = 100, 2**26
#: what numpy writes before the numbers of an array; anything else (objects, records, strings) does not match
_HEADER = re.compile(rb"\{'descr': '([<>|]?[biuf][1248])', 'fortran_order': (True|False), 'shape': \(([0-9, ]{0,400})\), \}\s*")
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error, ValueError, OverflowError,
           OSError)


def write_archive(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Store named arrays without pickle, whole or not at all."""
    with atomic_write(path) as stream:
        np.savez(stream, allow_pickle=False, **arrays)  # type: ignore[arg-type]


def read_archive(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an archive: bool, integer or real numbers, never NaN or -inf; sizes are checked before allocating."""
    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        try:
            with zipfile.ZipFile(stream) as archive:
                members = archive.infolist()
                _check_members(path, members, max(SAFE_BYTES, MAX_RATIO * size))
                return {m.filename.removesuffix(".npy"): _array(path, m.filename, _content(archive, m)) for m in members}
        except FormatError:
            raise
        except _DAMAGE as error:
            raise FormatError(path, "a numpy archive (.npz)",
                              f"a damaged one ({type(error).__name__}: {str(error)[:80]})") from None


def _check_members(path: Path, members: list[zipfile.ZipInfo], limit: int) -> None:
    declared = sum(member.file_size for member in members)
    if declared > limit:
        raise FormatError(path, f"at most {limit} bytes of arrays in an archive of this size", f"{declared} declared")
    if len({member.filename for member in members}) != len(members):
        raise FormatError(path, "different names of arrays", "one twice")
    for member in members:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or not member.filename.endswith(".npy"):
            raise FormatError(path, "stored or deflated .npy arrays", f"the member {member.filename[:60]!r}")


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    # Reading a given number of bytes, unlike reading all, never decompresses more than was declared.
    with archive.open(member) as stream:
        data = stream.read(member.file_size)
    if len(data) != member.file_size:
        raise EOFError(f"{member.filename[:60]!r} ends early")
    return data


def _array(path: Path, name: str, data: bytes) -> np.ndarray:
    """The array of one ``.npy`` file; its header is matched, never evaluated."""
    what = f"the array {name[:60]!r}"
    version, width = data[6:8], {b"\x01\x00": 2, b"\x02\x00": 4}.get(data[6:8], 0)
    start = 8 + width + int.from_bytes(data[8:8 + width], "little")
    match = _HEADER.fullmatch(data, 8 + width, min(start, len(data)))
    if data[:6] != b"\x93NUMPY" or not width or start > len(data) or match is None:
        raise FormatError(path, f"numbers in {what}, as numpy 1.0 or 2.0 files hold them",
                          f"version {version!r}, header {data[10:80]!r}")
    dtype, fortran = np.dtype(match[1].decode()), match[2] == b"True"
    shape = tuple(int(length) for length in match[3].split(b",") if length.strip())
    if len(shape) > 32 or math.prod(shape) * dtype.itemsize != len(data) - start:
        raise FormatError(path, f"{what} to fill its {len(data) - start} bytes", f"shape {str(shape)[:60]} of {dtype}")
    stored = np.dtype(np.uint8) if dtype.kind == "b" else dtype  # a bool byte other than 0 and 1 must not get further
    array = np.frombuffer(data, stored, offset=start).reshape(shape, order="F" if fortran else "C")
    array = array != 0 if dtype.kind == "b" else array.astype(dtype.newbyteorder("="), order="C")  # writable, as kernels expect
    if dtype.kind == "f" and (np.isnan(array) | np.isneginf(array)).any():
        raise FormatError(path, f"finite numbers or inf in {what}", "NaN or -inf")
    return array
