"""BIF files: Bayesian networks as text."""

from __future__ import annotations

import os
import re
from typing import NoReturn

import numpy as np

import gmlearn as gm
from gmlearn_formats.bayes import NetworkBuilder

#: comments, quoted words, punctuation, words
_TOKEN = re.compile(rb'//[^\n]*|/\*.*?\*/|"([^"\n]*)"|([{}()\[\]|,;])|([^\s{}()\[\]|,;"]+)', re.S)


class Bif(gm.FileFormat):
    """Bayesian networks: E(x) = -sum log p(child | parents).

    ``table`` lists all probabilities with the first variable of the declaration changing slowest;
    ``(states of the parents) numbers`` gives those of the child, ``default`` those of parents that
    are not listed. Properties are skipped.
    """

    name = "bif"
    extensions = gm.compressed(".bif")

    def read(self, path: str | os.PathLike) -> gm.CRF:
        text = gm.read_text(path)
        words = _Words(path, text)
        states: dict[str, list[str]] = {}
        tables: list[_Table] = []
        while words.more():
            keyword = words.next("network, variable or probability")
            if keyword == "network":
                words.skip_until("{")
                words.skip_braces()
            elif keyword == "variable":
                name, values = _variable(words)
                if states.setdefault(name, values) is not values:
                    words.fail("different names of variables", repr(name[:40]))
            elif keyword == "probability":
                tables.append(_Table(words))
            else:
                words.fail("network, variable or probability", repr(keyword[:40]))
        network = NetworkBuilder(path, states, len(text))
        for table in tables:
            table.add_to(network)
        return network.finish()


def _variable(words: _Words) -> tuple[str, list[str]]:
    """``name { type discrete [ n ] { a, b }; property ...; }``."""
    name = words.next("the name of a variable")
    words.expect("{")
    values: list[str] = []
    while (word := words.next("type, property or }")) != "}":
        if word == "type":
            words.expect("discrete")
            words.expect("[")
            count = words.next("the number of states")
            words.expect("]")
            words.expect("{")
            values = words.items("}")
            if str(len(values)) != count or len(set(values)) != len(values):
                words.fail(f"{count[:20]} different states of {name!r}", f"{values[:8]}")
        words.skip_until(";")
    return name, values


class _Table:
    """The probabilities of one variable: all in one list, or row by row."""

    def __init__(self, words: _Words):
        words.expect("(")
        self.line = words.line()
        self.names = [words.next("a variable")]
        separator = words.next("| or )")
        if separator == "|":
            self.names += words.items(")")
        elif separator != ")":
            words.fail("| or )", repr(separator[:40]))
        self.whole: list[float] | None = None
        self.default: list[float] | None = None
        self.rows: list[tuple[list[str], list[float]]] = []
        words.expect("{")
        while (word := words.next("table, default, ( or }")) != "}":
            if word == "table":
                self.whole = words.numbers()
            elif word == "default":
                self.default = words.numbers()
            elif word == "(":
                self.rows.append((words.items(")"), words.numbers()))
            else:
                words.skip_until(";")

    def add_to(self, network: NetworkBuilder) -> None:
        scope = network.scope(self.names, self.line)
        shape = network.builder.shape(scope)
        if self.whole is not None:
            if len(self.whole) != np.prod(shape, dtype=float):
                self._fail(network, f"{np.prod(shape, dtype=float):.15g}", str(len(self.whole)))
            network.add(scope, np.array(self.whole).reshape(shape), self.line)
            return
        table = network.builder.default_table(shape, np.nan).reshape(shape)
        columns = np.moveaxis(table, 0, -1)
        if self.default is not None:
            columns[...] = self._checked(network, self.default, shape[0])
        for given, numbers in self.rows:
            columns[self._place(network, given)] = self._checked(network, numbers, shape[0])
        network.add(scope, table, self.line)

    def _place(self, network: NetworkBuilder, given: list[str]) -> tuple[int, ...]:
        parents = self.names[1:]
        known = len(given) == len(parents) and all(
            value in network.states[name] for name, value in zip(parents, given)
        )
        if not known:
            self._fail(network, "a state of each parent", f"{given[:8]}")
        return tuple(network.states[n].index(value) for n, value in zip(parents, given))

    def _checked(self, network: NetworkBuilder, numbers: list[float], n: int) -> list[float]:
        if len(numbers) != n:
            self._fail(network, f"{n} probabilities", str(len(numbers)))
        return numbers

    def _fail(self, network: NetworkBuilder, expected: str, got: str) -> NoReturn:
        what = f"{expected} in the table of {self.names[0][:40]!r}"
        raise gm.FormatError(network.file, what, got, self.line)


class _Words:
    """The words and punctuation of a file, front to back, with line numbers."""

    def __init__(self, file: str | os.PathLike, text: bytes):
        self.file = file
        self.text = text
        self._found = _TOKEN.finditer(text)
        self._position = 0
        self._ahead: str | None = None

    def more(self) -> bool:
        """Is there another word?"""
        if self._ahead is None:
            for match in self._found:
                self._position = match.start()
                word = next((g for g in match.groups() if g is not None), None)
                if word is not None:  # else a comment
                    self._ahead = word.decode("utf-8", "backslashreplace")
                    break
        return self._ahead is not None

    def next(self, expected: str) -> str:
        if not self.more():
            self.fail(expected, "the end of the file")
        word, self._ahead = self._ahead, None
        return word  # type: ignore[return-value]

    def expect(self, word: str) -> None:
        found = self.next(repr(word))
        if found != word:
            self.fail(repr(word), repr(found[:40]))

    def items(self, end: str) -> list[str]:
        """Words up to `end`; commas are skipped."""
        found = []
        while (word := self.next(f"words and {end!r}")) != end:
            if word != ",":
                found.append(word)
        return found

    def numbers(self) -> list[float]:
        """Numbers up to a semicolon."""
        found = []
        for word in self.items(";"):
            try:
                found.append(float(word))
            except ValueError:
                self.fail("numbers", repr(word[:40]))
        return found

    def skip_until(self, word: str) -> None:
        while self.next(repr(word)) != word:
            pass

    def skip_braces(self) -> None:
        """Skip to the brace that closes one that was just opened."""
        depth = 1
        while depth:
            depth += {"{": 1, "}": -1}.get(self.next("'}'"), 0)

    def line(self) -> int:
        return 1 + self.text.count(b"\n", 0, self._position)

    def fail(self, expected: str, got: str) -> NoReturn:
        raise gm.FormatError(self.file, expected, got, self.line())
