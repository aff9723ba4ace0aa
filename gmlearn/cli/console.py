"""How commands speak: one-line messages, aligned tables, valid JSON, and exit codes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

#: exit codes: all went well; the command failed or a check did; wrong usage or bad input; Ctrl-C
#: (128 + SIGINT)
OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


class CommandError(Exception):
    """Ends a command with one line on stderr and an exit code."""

    def __init__(self, message: str, code: int = USAGE):
        super().__init__(message)
        self.code = code


def say(message: object, program: str = "gmlearn") -> None:
    """One line on stderr, whatever the message looks like."""
    print(f"{program}: {' '.join(str(message).split())}", file=sys.stderr)


def print_json(value: Any) -> None:
    """`value` as strict JSON on stdout; infinities and NaN must be None by now."""
    print(json.dumps(value, allow_nan=False, indent=1))


def add_file_options(parser: argparse.ArgumentParser, out: str) -> None:
    """What commands on a model file have in common; `out` is what ``--out`` is shown to take."""
    parser.add_argument("file", metavar="FILE", help="the model")
    parser.add_argument("--evidence", metavar="FILE", help="UAI evidence: variables that are fixed")
    parser.add_argument("--time-limit", metavar="S", type=float, help="seconds (default: none)")
    parser.add_argument(
        "--seed", metavar="N", type=int, default=0, help="of whatever is random (default: 0)"
    )
    parser.add_argument("--out", metavar=out, help="also write the whole answer to this file")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


def report(arguments: argparse.Namespace, answer: dict[str, Any], text: str) -> None:
    """Print the answer, as JSON if asked for, and write it where ``--out`` says."""
    from gmlearn._utils.files import atomic_write

    if arguments.out is not None:
        with atomic_write(arguments.out, "w") as stream:
            json.dump(answer, stream, allow_nan=False)
    if arguments.json:
        print_json(answer)
    else:
        print(text)
    if arguments.out is not None:
        say(f"written to {arguments.out}")


def text_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns padded with blanks: text to the left, numbers to the right."""
    from gmlearn.experiments.report import cell

    texts = [list(header), *([cell(value) for value in row] for row in rows)]
    widths = [max(len(line[j]) for line in texts) for j in range(len(header))]
    left = [all(isinstance(row[j], str) for row in rows) for j in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(
            c.ljust(n) if to_left else c.rjust(n) for c, n, to_left in zip(cells, widths, left)
        ).rstrip()

    return "\n".join([line(texts[0]), "  ".join("-" * n for n in widths), *map(line, texts[1:])])
