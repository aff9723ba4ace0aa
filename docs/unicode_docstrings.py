"""An extension of griffe: the formulas of docstrings in Unicode, so that the pages need no script from elsewhere.

``:math:`\\sum_i \\theta_i``` becomes code, Σ_i θ_i; ``.. math::`` a block of it; double backquotes single ones; brackets in prose
stay brackets, where markdown would see a link.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

import griffe

SYMBOLS = {
    "sum": "Σ", "prod": "Π", "sqrt": "√", "nabla": "∇", "cdot": "·", "times": "×", "le": "≤", "ge": "≥", "ne": "≠", "in": "∈",
    "notin": "∉", "propto": "∝", "infty": "∞", "top": "ᵀ", "setminus": "∖", "langle": "⟨", "rangle": "⟩", "to": "→", "pm": "±",
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "eta": "η", "theta": "θ", "lambda": "λ", "mu": "μ",
    "pi": "π", "phi": "φ", "psi": "ψ", "rho": "ρ", "sigma": "σ", "tau": "τ", "Delta": "Δ", "Sigma": "Σ",
}
ACCENTS = {"bar": "\u0304", "hat": "\u0302", "tilde": "\u0303"}
#: words that only shape the type, or that are read as they are
SILENT = ("mathrm", "operatorname", "text", "Bigl", "Bigr", "Big", "left", "right", "displaystyle")


def unicode_formula(latex: str) -> str:
    """LaTeX as plain text: symbols by their characters, fractions with a slash."""
    text = re.sub(r"\\(bar|hat|tilde)\s*\{?(\\?\w+)\}?", lambda m: _accented(m[1], m[2]), latex)
    text = re.sub(r"\\t?frac\s*(\{[^{}]*\}|\w)\s*(\{[^{}]*\}|\w)", lambda m: f"{_group(m[1])}/{_group(m[2])}", text)
    text = re.sub(r"\\(?:" + "|".join(SILENT) + r")(?![a-zA-Z])\s*(?:\{([^{}]*)\})?", lambda m: m[1] or "", text)
    text = re.sub(r"\\([a-zA-Z]+)", lambda m: SYMBOLS.get(m[1], "   " if m[1] in ("quad", "qquad") else m[1]), text)
    text = text.replace(r"\|", "‖").replace(r"\{", "⦃").replace(r"\}", "⦄")
    text = re.sub(r"\\[,;! ]", " ", text)
    text = re.sub(r"\{(\w)\}", r"\1", text).replace("⦃", "{").replace("⦄", "}")
    return re.sub(r" {4,}", "   ", text).strip()


def _accented(accent: str, letter: str) -> str:
    letter = SYMBOLS.get(letter.removeprefix("\\"), letter)
    return letter[0] + ACCENTS[accent] + letter[1:]


def _group(part: str) -> str:
    inner = part.strip("{}")
    return inner if len(inner) == 1 or not part.startswith("{") else f"({inner})"


def _block(match: re.Match) -> str:
    lines = textwrap.dedent(match[2]).strip().splitlines() if match[2].strip() else []
    formulas = [unicode_formula(line) for line in [match[1], *lines] if line.strip()]
    return "\n" + "\n".join(f"    {formula}" for formula in formulas) + "\n"


def markdown(docstring: str) -> str:
    """A docstring as the pages show it."""
    text = re.sub(r"^[ ]*\.\. math::[ ]*(.*)\n((?:[ ]+\S.*\n?|[ ]*\n(?=[ ]+\S))*)", _block, docstring, flags=re.MULTILINE)
    text = re.sub(r":math:`([^`]*)`", lambda m: f"`{unicode_formula(m[1])}`", text).replace("``", "`")
    prose, heading, examples = text.partition("\nExamples\n--------\n")
    return "\n".join(_described(_brackets(line) for line in prose.split("\n"))) + heading + examples


def _described(lines: Iterable[str]) -> Iterator[str]:
    """Our sections say "name : shape, meaning" in one line; griffe would take all of it for a type."""
    section, returns = "", False
    held: list[str] = []
    for line in lines:
        if held and set(line) == {"-"}:
            section = held.pop()
            returns = section in ("Returns", "Yields")
            yield from ([f"**{section}**", ""] if returns else [section, line])
            continue
        yield from held
        held = []
        name, colon, text = line.partition(" : ")
        if section and colon and not line.startswith(" "):
            yield from ([f"- `{name}`: {text}"] if returns else [name, f"    {text}"])
        elif line and not line.startswith(" "):
            held = [line]
        else:
            yield line
    yield from held


def _brackets(line: str) -> str:
    parts = line.split("`")
    return "`".join(part if i % 2 else re.sub(r"(?<!\\)\[", r"\\[", part) for i, part in enumerate(parts))


class UnicodeDocstrings(griffe.Extension):
    """Rewrites every docstring that griffe collects."""

    def on_instance(self, *, obj: Any, **kwargs: Any) -> None:
        if not obj.is_alias and obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)
