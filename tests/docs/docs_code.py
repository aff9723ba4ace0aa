"""What the documentation's tests share: where it is, and how its code blocks are read and run."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "pages"
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


def blocks(path: Path) -> list[tuple[str, str]]:
    """(language, code) of the fenced blocks of a page, in order."""
    return FENCE.findall(path.read_text(encoding="utf-8"))


def python_of(path: Path) -> list[str]:
    return [code for language, code in blocks(path) if language == "python"]


def run(code: str, names: dict) -> str:
    """Run a block in `names`; returns what it printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "<documentation>", "exec"), names)
    return out.getvalue()


def promised(code: str) -> list[str]:
    """The lines that a block says it prints."""
    return [
        line.removeprefix("# prints: ")
        for line in code.splitlines()
        if line.startswith("# prints: ")
    ]


def assert_same_output(said: list[str], printed: str) -> None:
    """Same words; numbers may differ a little between machines."""
    found = printed.splitlines()
    assert len(found) >= len(said), f"promised {said}, printed {found}"
    for promise, line in zip(said, found):
        assert NUMBER.sub("#", promise) == NUMBER.sub("#", line)
        for a, b in zip(NUMBER.findall(promise), NUMBER.findall(line)):
            assert abs(float(a) - float(b)) <= 0.5 + 0.1 * abs(float(a)), (
                f"{promise!r} was promised, {line!r} printed"
            )
