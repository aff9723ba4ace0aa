"""Words, brackets and raw lists of a CFN file, with line numbers."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

import gmlearn as gm

#: a bracket, or a word (quoted or not) and the colon that makes it a key; commas and stray colons
#: are blanks
_TOKEN = re.compile(rb'[\s,:]*(?:([\[\]{}])|(?:"([^"\[\]{}\n]*)"|([^\s,:\[\]{}"]+))(\s*:)?)')
_BRACKET = re.compile(rb"[\[\]{}]")
_WORD = re.compile(rb'"([^"]*)"|([^\s,:"]+)')
INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
#: depth of lists in parameters
MAX_DEPTH = 3
_CLOSING = {b"[": b"]", b"{": b"}"}


@dataclass
class Word:
    """A name or a number; `key` if a colon follows."""

    text: str
    key: bool

    @property
    def is_integer(self) -> bool:
        return not self.key and INTEGER.fullmatch(self.text) is not None


class Scanner:
    """A pointer into the text: words, brackets, and whole lists as raw slices (numbers are never
    single objects).
    """

    def __init__(self, file: str | os.PathLike, text: bytes):
        self.file, self.text = file, text
        self.position = self.last = 0
        self._open: list[bytes] = []
        # an offset and its line: lines are counted once, not from the start for every function
        self._counted = (0, 1)

    def _peek(self) -> tuple[bytes, Word | None, int] | None:
        """(bracket, word, where it ends) of the next item, None at the end."""
        match = _TOKEN.match(self.text, self.position)
        self.last = self.position if match is None else match.end() - 1
        if match is None:
            return None
        bracket, quoted, bare, colon = match.groups()
        if bracket:
            return bracket, None, match.end()
        text = bare if quoted is None else quoted
        return b"", Word(text.decode("utf-8", "backslashreplace"), colon is not None), match.end()

    def at_bracket(self, brackets: bytes) -> bool:
        """Is the next item one of these brackets?"""
        item = self._peek()
        return item is not None and item[0] != b"" and item[0] in brackets

    def open(self, what: str) -> None:
        """Go into an object or list."""
        item = self._peek()
        if item is None or item[0] not in _CLOSING:
            self.fail(f"{{ or [ to begin {what}")
        self._open.append(_CLOSING[item[0]])
        self.position = item[2]

    def close(self, what: str) -> None:
        """Leave the innermost object or list."""
        item = self._peek()
        if item is None or item[0] != self._open[-1]:
            self.fail(f"{self._open[-1].decode()}, {what}")
        self._open.pop()
        self.position = item[2]

    def word(self, what: str) -> Word:
        item = self._peek()
        if item is None or item[1] is None:
            self.fail(what)
        self.position = item[2]
        return item[1]

    def tag(self, name: str) -> None:
        """Skip the word `name`; toulbar2 lets it be left out where a bracket follows."""
        if not self.at_bracket(b"[{"):
            found = self.word(f'"{name}"')
            if found.text != name:
                self.fail(f'"{name}"', repr(found.text[:40]))

    def raw_list(self, what: str) -> tuple[bytes, int]:
        """A list without inner brackets, as its text and the line on which it begins."""
        self.open(what)
        match = _BRACKET.search(self.text, self.position)
        start, end = self.position, len(self.text) if match is None else match.start()
        line = self.line(start)
        self.position = end
        self.close(f"the end of {what}")
        if self.text.count(b'"', start, end) % 2:
            raise gm.FormatError(
                self.file, f"paired quotes in {what}", "an odd number of them", line
            )
        return self.text[start:end], line

    def nested(self, what: str, depth: int = 0) -> list:
        """A list of words and of lists, to `MAX_DEPTH`."""
        if depth > MAX_DEPTH:
            self.fail(f"at most {MAX_DEPTH} brackets within brackets in {what}")
        self.open(what)
        items: list = []
        while not self.at_bracket(b"]}"):
            inner = self.at_bracket(b"[{")
            items.append(self.nested(what, depth + 1) if inner else self.word(what).text)
        self.close(f"the end of {what}")
        return items

    def end(self) -> None:
        if self.text[self.position :].strip():
            self.fail("the end of the file")

    def line(self, offset: int) -> int:
        start, line = self._counted if self._counted[0] <= offset else (0, 1)
        self._counted = (offset, line + self.text.count(b"\n", start, offset))
        return self._counted[1]

    def fail(self, expected: str, got: str | None = None) -> NoReturn:
        """Raise a `FormatError` at the pointer."""
        if got is None:
            rest = self.text[self.position : self.position + 200].lstrip(b" \t\r\n,:")[:30]
            got = repr(rest.decode("utf-8", "backslashreplace")) if rest else "the end of the file"
        raise gm.FormatError(self.file, expected, got, self.line(min(self.last, len(self.text))))


def words_of(text: bytes) -> list[str]:
    """The words of a raw list."""
    return [
        (bare or quoted).decode("utf-8", "backslashreplace") for quoted, bare in _WORD.findall(text)
    ]


def to_number(text: str) -> float | None:
    """A finite number, or None."""
    try:
        value = float(text) if "_" not in text else np.nan
    except ValueError:
        return None
    return value if np.isfinite(value) else None
