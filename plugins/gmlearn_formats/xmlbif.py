"""XMLBIF files: Bayesian networks as XML."""

from __future__ import annotations

import os
from xml.parsers import expat

import numpy as np

import gmlearn as gm
from gmlearn_formats.bayes import NetworkBuilder

#: elements that hold others, and elements whose text counts
_HOLDERS = ("VARIABLE", "DEFINITION", "PROBABILITY")
_TEXTS = ("NAME", "OUTCOME", "VALUE", "FOR", "GIVEN", "TABLE")


class XmlBif(gm.FileFormat):
    """Bayesian networks in the XML interchange format: E(x) = -sum log p(child | parents).

    Numbers of a ``TABLE`` have the states of the ``FOR`` variable changing fastest, those of the
    first ``GIVEN`` slowest. Declared entities are refused: they can blow up a small file.
    """

    name = "xmlbif"
    extensions = gm.compressed(".xmlbif", ".xml")

    def read(self, path: str | os.PathLike) -> gm.CRF:
        text = gm.read_text(path)
        elements = _Elements(path, text).found
        states: dict[str, list[str]] = {}
        for kind, parts, line in elements:
            if kind == "VARIABLE":
                name = _one(path, parts, "NAME", line)
                values = parts.get("OUTCOME", []) + parts.get("VALUE", [])
                if states.setdefault(name, values) is not values:
                    raise gm.FormatError(path, "different variables", repr(name[:40]), line)
        network = NetworkBuilder(path, states, len(text))
        for kind, parts, line in elements:
            if kind != "VARIABLE":
                child = _one(path, parts, "FOR", line)
                parents = parts.get("GIVEN", [])
                scope = network.scope([child, *parents], line)
                shape = network.builder.shape(scope)
                tokens = gm.Tokens(path, _one(path, parts, "TABLE", line).encode(), line)
                size = np.prod(shape, dtype=float)
                if size > tokens.left():
                    tokens.fail(f"{size:.15g} probabilities of {child[:40]!r}", "fewer", index=0)
                table = tokens.numbers(int(size), f"probabilities of {child[:40]!r}")
                tokens.end(f"the end of the {int(size)} probabilities of {child[:40]!r}")
                table = np.moveaxis(table.reshape([*shape[1:], shape[0]]), -1, 0)
                network.add(scope, table, line)
        return network.finish()


def _one(path: str | os.PathLike, parts: dict[str, list[str]], name: str, line: int) -> str:
    found = parts.get(name, [])
    if len(found) != 1:
        raise gm.FormatError(path, f"one <{name}>", str(len(found)), line)
    return found[0]


class _Elements:
    """The variables and definitions of a file: (kind, texts by element, line)."""

    def __init__(self, path: str | os.PathLike, text: bytes):
        self.path = path
        self.found: list[tuple[str, dict[str, list[str]], int]] = []
        self._parts: list[str] | None = None
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.EntityDeclHandler = self._refuse_entity
        try:
            self.parser.Parse(text, True)
        except (expat.ExpatError, ValueError, LookupError) as error:
            if isinstance(error, gm.FormatError):
                raise
            line = self.parser.CurrentLineNumber
            raise gm.FormatError(path, "well-formed XML", str(error)[:80], line) from None

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name.upper() in _HOLDERS:
            self.found.append((name.upper(), {}, self.parser.CurrentLineNumber))
        self._parts = [] if name.upper() in _TEXTS else None

    def _characters(self, data: str) -> None:
        if self._parts is not None:
            self._parts.append(data)

    def _end(self, name: str) -> None:
        # the name of the network stands outside of all holders
        if self._parts is not None and name.upper() in _TEXTS and self.found:
            texts = self.found[-1][1].setdefault(name.upper(), [])
            texts.append("".join(self._parts).strip())
        self._parts = None

    def _refuse_entity(self, name: str, *rest: object) -> None:
        line = self.parser.CurrentLineNumber
        raise gm.FormatError(self.path, "no declared entities", repr(name[:40]), line)
