"""Two results of one benchmark, line by line.

    python tests/benchmarks/compare.py OLD.json NEW.json [--threshold 1.2]

The files are those that ``docs/build_performance.py`` keeps in docs/measurements, or any JSON with
numbers in it (``cold.py --json``). Prints every number that changed by more than the threshold, and
ends with exit code 1 if there is one. Seconds are comparable only on one quiet machine; ratios are
comparable anywhere.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def numbers(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """(name, number) of everything numeric in a JSON value."""
    if isinstance(value, dict) and "what" in value:
        for k, number in enumerate(value["numbers"]):
            yield f"{value['what']} [{k}]", float(number)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from numbers(part, f"{name} {key}".strip())
    elif isinstance(value, list):
        for k, part in enumerate(value):
            yield from numbers(part, name if isinstance(part, dict) else f"{name} [{k}]")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield name, float(value)


def changed(old: Any, new: Any, threshold: float) -> list[tuple[str, float, float]]:
    """(name, old, new) of the numbers that both have and that differ by more than the factor."""
    before = dict(numbers(old))
    found = []
    for name, now in numbers(new):
        then = before.get(name)
        if then is None or then == now:
            continue
        if min(then, now) <= 0 or max(then, now) / min(then, now) > threshold:
            found.append((name, then, now))
    return found


def main(arguments: list[str] | None = None) -> int:
    """Print the changes; 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--threshold", type=float, default=1.2, help="a factor (default: 1.2)")
    options = parser.parse_args(arguments)
    old, new = (json.loads(path.read_text("utf-8")) for path in (options.old, options.new))
    found = changed(old, new, options.threshold)
    for name, then, now in found:
        print(f"{then:12.4g} -> {now:12.4g}  {f'x {now / then:.2f}' if then else '':8}  {name}")
    print(f"{len(found)} numbers changed by more than a factor of {options.threshold}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
