"""Text files as a stream of tokens with line numbers, numbers in bulk."""

from __future__ import annotations

import gzip
import lzma
import os
import re
import zlib
from bisect import bisect_right
from collections.abc import Callable
from itertools import islice
from typing import IO, Any, NoReturn

import numpy as np

from gmlearn._utils.archive import room_for
from gmlearn._utils.files import check_path
from gmlearn.io.base import FormatError, Path

#: a text larger than this, after decompression, is refused
MAX_TEXT_BYTES = 2**30
#: a small compressed file may grow to `SAFE_BYTES`, a larger one by this factor of what it has more
#: (tables of zeros reach about 100); parsed, a text takes up to 25 times its length
MAX_RATIO, SAFE_BYTES = 100, 4_900_000
#: what decompressing an .xz file may take, whatever size of dictionary it declares
XZ_MEMORY = 2**26
#: bytes of a compressed file that are read at a time
PIECE = 2**16
#: text is cut into tokens piece by piece, so that they never exist all at once
CHUNK_BYTES = 2**20

_SPACE = re.compile(rb"\s")
_TOKEN = re.compile(rb"\S+")
_INTEGER = re.compile(rb"[+-]?[0-9]{1,40}")


def compressed(*extensions: str) -> tuple[str, ...]:
    """Each extension, plain and with the endings that `read_text` decompresses.

    >>> compressed(".uai")
    ('.uai', '.uai.gz', '.uai.xz')
    """
    return tuple(plain + ending for plain in extensions for ending in ("", *_ARCHIVES))


def read_text(path: Path) -> bytes:
    """The bytes of a file, decompressed if its name ends in ``.gz`` or ``.xz``; bombs and
    truncated archives are refused.
    """
    size = os.path.getsize(check_path("path", path))
    archive = _ARCHIVES.get(_ending(path))
    limit = MAX_TEXT_BYTES
    if archive is not None:
        limit = min(limit, room_for(size, SAFE_BYTES, MAX_RATIO))
    with open(path, "rb") as stream:
        try:
            text = (archive(stream) if archive else stream).read(limit + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError) as error:
            raise FormatError(
                path, f"a complete {_ending(path)} archive", f"a damaged one ({error})"
            ) from None
    if len(text) > limit:
        advice = " after decompression (a file that is not compressed may be larger)"
        raise FormatError(path, f"at most {limit} bytes{advice if archive else ''}", "more")
    return text


def compress(path: Path, text: bytes) -> bytes:
    """What a file of this name holds: `text`, compressed if the name says so."""
    ending = _ending(path)
    if ending == ".gz":
        return gzip.compress(text, mtime=0)
    return lzma.compress(text) if ending == ".xz" else text


def _ending(path: Path) -> str:
    return os.path.splitext(os.fspath(path))[1].lower()


class _Xz:
    """An .xz file read in pieces, so that neither its contents nor the dictionary that it declares
    take more memory than allowed.
    """

    def __init__(self, stream: IO[bytes]):
        self.stream = stream

    def read(self, size: int) -> bytes:
        decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY)
        parts: list[bytes] = []
        left = size
        while left > 0 and not decoder.eof:
            piece = self.stream.read(PIECE) if decoder.needs_input else b""
            if not piece and decoder.needs_input:
                raise EOFError("it ends early")
            parts.append(decoder.decompress(piece, left))
            left -= len(parts[-1])
        return b"".join(parts)


#: endings of compressed files, and what reads them from an open file
_ARCHIVES: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": lambda stream: gzip.GzipFile(fileobj=stream),
    ".xz": _Xz,
}


class Tokens:
    """Whitespace-separated tokens, read from front to back; every complaint names the line.

    Sizes declared in the file are compared with the characters left before anything is allocated: n
    tokens need at least 2 n - 1 of them.

    Parameters
    ----------
    first_line : the number of the first line, for texts that are part of a file.
    """

    def __init__(self, file: Path, text: bytes, first_line: int = 1):
        self.file, self.text, self.first_line = file, text, first_line
        self._items: list[bytes] = []
        self._next = self._stop = 0
        # (index of the first token, offset) of every chunk so far
        self._pieces: list[tuple[int, int]] = []

    # ------------------------------------------------------------------ reading

    @property
    def index(self) -> int:
        """How many tokens have been read."""
        return (self._pieces[-1][0] if self._pieces else 0) + self._next

    def left(self) -> int:
        """No more tokens than this can follow."""
        return len(self._items) - self._next + (len(self.text) - self._stop + 1) // 2

    def word(self, expected: str) -> str:
        """The next token as text."""
        return self._token(expected).decode("utf-8", "backslashreplace")

    def integer(self, expected: str, low: float = -np.inf, high: float = np.inf) -> int:
        """The next token as an integer in low..high."""
        token = self._token(expected)
        if _INTEGER.fullmatch(token) is not None:
            value = int(token)
            if low <= value <= high:
                return value
        self.fail(expected + _range_text(low, high))

    def numbers(self, n: int, expected: str) -> np.ndarray:
        """The next `n` tokens as finite floats (n,)."""
        if n > self.left():
            room = (
                f"a file with room for at most {self.left()} more"
                if self._more()
                else "the end of the file"
            )
            self.fail(f"{n} {expected}", room, index=self.index)
        values, first, filled = np.empty(n), self.index, 0
        while filled < n:
            if not self._more():
                self.fail(
                    f"{n} {expected}", f"the end of the file after {filled}", index=self.index
                )
            part = self._items[self._next : self._next + n - filled]
            values[filled : filled + len(part)] = self._floats(part, expected)
            filled += len(part)
            self._next += len(part)
        finite = np.isfinite(values)
        if not finite.all():
            self.fail(f"{expected}: finite numbers", index=first + int(np.argmin(finite)))
        return values

    def whole(
        self, n: int, expected: str, low: float = -np.inf, high: float = np.inf
    ) -> np.ndarray:
        """The next `n` tokens as whole numbers in low..high, as floats (n,)."""
        first = self.index
        values = self.numbers(n, expected)
        wrong = (values != np.floor(values)) | (values < low) | (values > high)
        if wrong.any():
            self.fail(
                f"{expected}: whole numbers{_range_text(low, high)}",
                index=first + int(np.argmax(wrong)),
            )
        return values

    def integers(
        self, n: int, expected: str, low: float = -(2.0**53), high: float = 2.0**53
    ) -> np.ndarray:
        """The next `n` tokens as integers in low..high, int64 (n,)."""
        return self.whole(n, expected, low, high).astype(np.int64)

    def end(self, expected: str) -> None:
        """Complain unless the text is used up."""
        if self._more():
            self._next += 1
            self.fail(expected)

    # ------------------------------------------------------------------ complaining

    def fail(self, expected: str, got: str | None = None, index: int | None = None) -> NoReturn:
        """Raise a `FormatError` about token `index`, by default the last one read."""
        token, line = self._locate(self.index - 1 if index is None else index)
        if got is None:
            got = (
                "the end of the file"
                if token is None
                else repr(token[:40].decode("utf-8", "backslashreplace"))
            )
        raise FormatError(self.file, expected, got, line)

    def _locate(self, index: int) -> tuple[bytes | None, int]:
        """Token number `index` and its line; None beyond the end."""
        position = None
        if self._pieces and index >= 0:
            first, offset = self._pieces[
                bisect_right(self._pieces, index, key=lambda piece: piece[0]) - 1
            ]
            position = next(islice(_TOKEN.finditer(self.text, offset), index - first, None), None)
        end = len(self.text) if position is None else position.start()
        line = self.first_line + self.text.count(b"\n", 0, end)
        return (None if position is None else position.group()), line

    # ------------------------------------------------------------------ inside

    def _token(self, expected: str) -> bytes:
        if not self._more():
            self.fail(expected, "the end of the file", index=self.index)
        self._next += 1
        return self._items[self._next - 1]

    def _more(self) -> bool:
        """Is there a next token? Cuts the next chunk if the current one is used up."""
        while self._next == len(self._items):
            if self._stop >= len(self.text):
                return False
            first, start = self.index, self._stop
            space = _SPACE.search(self.text, min(start + CHUNK_BYTES, len(self.text)))
            self._stop = len(self.text) if space is None else space.end()
            self._items = self.text[start : self._stop].split()
            self._next = 0
            self._pieces.append((first, start))
        return True

    def _floats(self, part: list[bytes], expected: str) -> np.ndarray:
        try:
            values = np.fromiter(map(float, part), np.float64, len(part))
        except ValueError:
            bad = next(i for i, token in enumerate(part) if not _is_number(token))
        else:
            # Python reads 1_000 as a number; no file format does.
            underscores = (
                [i for i, token in enumerate(part) if b"_" in token]
                if b"_" in b"".join(part)
                else []
            )
            if not underscores:
                return values
            bad = underscores[0]
        self.fail(f"{expected}: numbers", index=self.index + bad)


def _is_number(token: bytes) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True


def _range_text(low: float, high: float) -> str:
    if abs(high) >= 2.0**53:
        return f", at least {low:.15g}" if abs(low) < 2.0**53 else ""
    return f" in {low:.15g}..{high:.15g}"
