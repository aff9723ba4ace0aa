"""The performance page, made from what the benchmarks printed.

    python docs/build_performance.py highorder ...     # run tests/benchmarks/NAME.py and keep its output in docs/measurements

Every number on the page is a line of a text file there, and every text file the output of one command of the repository. mkdocs
makes the page from them at every build (this file is one of its hooks).
"""

from __future__ import annotations

import argparse
import ast
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
BENCHMARKS = DOCS.parent / "tests" / "benchmarks"
MEASUREMENTS = DOCS / "measurements"
LEAD = """# Performance

This page is made from the output of the scripts in `tests/benchmarks/`, kept word for word in `docs/measurements/`. To measure
on your machine and rebuild it:

    python -m pip install -e '.[bench]'
    python docs/build_performance.py {names}

Read the ratios: they are taken within one run. Seconds depend on the machine and on what else it was doing. Benchmarks without
a section here have no output kept.
"""


def measure(name: str, arguments: list[str]) -> None:
    """Run one benchmark on one BLAS thread and keep what it printed."""
    script = BENCHMARKS / f"{name}.py"
    if not script.exists():
        known = ", ".join(sorted(p.stem for p in BENCHMARKS.glob("*.py")))
        raise SystemExit(f"no benchmark {name!r}; there are: {known}")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, script, *arguments], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr}")
    import numpy

    command = " ".join(["python", f"tests/benchmarks/{name}.py", *arguments])
    head = f"$ {command}    # Python {platform.python_version()}, numpy {numpy.__version__}, {platform.machine()}"
    MEASUREMENTS.mkdir(exist_ok=True)
    (MEASUREMENTS / f"{name}.txt").write_text(f"{head}\n{done.stdout}", encoding="utf-8")


def purpose(name: str) -> str:
    """The first sentence of a benchmark's docstring."""
    text = ast.get_docstring(ast.parse((BENCHMARKS / f"{name}.py").read_text(encoding="utf-8"))) or name
    return " ".join(text.split("\n\n")[0].split())


def page() -> str:
    """The page as markdown."""
    texts = {p.stem: p.read_text(encoding="utf-8").rstrip() for p in sorted(MEASUREMENTS.glob("*.txt"))}
    parts = [f"## {name}\n\n{purpose(name)}\n\n```text\n{text}\n```\n" for name, text in texts.items()]
    return "\n".join([LEAD.format(names=" ".join(texts)), *parts])


def on_files(files: Any, config: Any) -> Any:
    """Called by mkdocs."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "performance.md", content=page()))
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", metavar="NAME", nargs="+", help="benchmarks to run")
    parser.add_argument("--arguments", default="", help="what to pass to them, in one string")
    options = parser.parse_args()
    for name in options.names:
        measure(name, options.arguments.split())
        print(f"docs/measurements/{name}.txt")


if __name__ == "__main__":
    main()
