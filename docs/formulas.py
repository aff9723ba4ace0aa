r"""Formulas as MathML, which browsers draw by themselves: the pages need no script, from elsewhere
or ours.

A hook of mkdocs, and an extension of griffe. Pages write ``$\sum_i \theta_i$`` or ``$$ ... $$``;
docstrings write ``:math:`...``` or ``.. math::`` and are turned into the same. A command that the
converter does not know ends the build.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

import griffe

#: commands that the converter does not know, and what says the same
OTHER_WORDS = {
    r"\arg\min": r"\operatorname{argmin}",
    r"\arg\max": r"\operatorname{argmax}",
    r"\Bigl": "",
    r"\Bigr": "",
    r"\Big": "",
}
#: what the extension arithmatex leaves for a script to draw
LEFT = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def mathml(latex: str, display: bool = False) -> str:
    """One formula; ValueError if a command of it is not understood."""
    from latex2mathml.converter import convert

    for theirs, ours in OTHER_WORDS.items():
        latex = latex.replace(theirs, ours)
    shown = convert(" ".join(latex.split()), display="block" if display else "inline")
    unknown = re.search(r"\\\w+", shown)
    if unknown:
        raise ValueError(f"formula {latex!r}: {unknown[0]} is not understood")
    return shown


def on_page_content(content: str, **kwargs: Any) -> str:
    """Called by mkdocs with the HTML of a page."""
    return LEFT.sub(lambda m: mathml(html.unescape(m[3]), display=m[2] == "["), content)


def _block(match: re.Match) -> str:
    return "\n$$\n" + " ".join(textwrap.dedent(f"{match[1]}\n{match[2]}").split()) + "\n$$\n\n"


def markdown(docstring: str) -> str:
    """A docstring as the pages show it."""
    text = re.sub(
        r"^[ ]*\.\. math::[ ]*(.*)\n((?:[ ]+\S.*\n?|[ ]*\n(?=[ ]+\S))*)",
        _block,
        docstring,
        flags=re.MULTILINE,
    )
    text = re.sub(r":math:`([^`]*)`", lambda m: f"${' '.join(m[1].split())}$", text).replace(
        "``", "`"
    )
    prose, heading, examples = text.partition("\nExamples\n--------\n")
    return "\n".join(_described(_brackets(prose).split("\n"))) + heading + examples


def _brackets(text: str) -> str:
    """Brackets in prose stay brackets, where markdown would see a link; code and formulas are
    left alone.
    """
    parts = re.split(r"(`[^`]*`|\$\$[^$]*\$\$|\$[^$\n]*\$)", text)
    return "".join(
        part if i % 2 else re.sub(r"(?<!\\)\[", r"\\[", part) for i, part in enumerate(parts)
    )


def _described(lines: Iterable[str]) -> Iterator[str]:
    """Our sections say "name : shape, meaning" in one line; griffe would take all of it for a
    type.
    """
    section = ""
    held: list[str] = []
    for line in lines:
        if held and set(line) == {"-"}:
            section = held.pop()
            yield from (section, line)
            continue
        yield from _item(section, held)
        held = []
        if line and not line.startswith(" "):
            held = [line]
        else:
            yield line
    yield from _item(section, held)


def _item(section: str, held: list[str]) -> list[str]:
    """The line of an item as a name and its text; an answer may have no name."""
    if not held or section not in ("Parameters", "Attributes", "Returns", "Yields"):
        return held
    name, colon, text = held[0].partition(" : ")
    if section in ("Returns", "Yields"):
        return (
            [f"{name} :", f"    {text}"]
            if colon and name.isidentifier()
            else [":", f"    {held[0]}"]
        )
    return [name, f"    {text}"] if colon else held


class Docstrings(griffe.Extension):
    """Rewrites every docstring that griffe collects."""

    def on_instance(self, *, obj: Any, **kwargs: Any) -> None:
        if not obj.is_alias and obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)
