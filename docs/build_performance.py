"""The performance page, made from what the benchmarks printed.

    python docs/build_performance.py [--data DIR]       # all of them, about half an hour
    python docs/build_performance.py highorder grids    # some of them

runs tests/benchmarks/NAME.py and keeps its output in docs/measurements/NAME.txt, and its numbers in
NAME.json, of which ``tests/benchmarks/compare.py OLD NEW`` compares two. mkdocs makes the page from
these files at every build (this file is one of its hooks); ``comparisons.py`` says which numbers go
into its table and its chart. NAME-SOMETHING.txt is a further run of NAME.py.
"""

from __future__ import annotations

import argparse
import ast
import html
import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
BENCHMARKS = DOCS.parent / "tests" / "benchmarks"
MEASUREMENTS = DOCS / "measurements"
LEAD = """# Performance

Each row is one comparison within one run on one thread: above 1, gmlearn is faster; below 1, the
other is. Every number is read from `docs/measurements/*.json`, which the command beside it writes.

![How many times as fast gmlearn is, one bar for each comparison](images/performance.svg)

TABLE

Real instances with known optima are in [Results](results/maps.md). To measure on your machine and
rebuild this page:

    python -m pip install -e '.[bench]'
    python docs/build_performance.py

`tests/benchmarks/compare.py OLD.json NEW.json` lists what changed between two measurements. Seconds
depend on the machine; ratios are comparable. `--data DIR` adds the benchmarks on real instances.

## What each benchmark printed
"""
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
#: the arguments with which the outputs on the page are made; DIR is what --data says
RECIPES = {
    "cold": "",
    "clustering": "",
    "grids": "",
    "groupfs": "",
    "highorder": "",
    "mlca": "--rows 500000",
    "pointsets": "",
    "vision": "",
    "train": "--only ssvm,denoise,pn --long 30 --cap 10",
    "scale": "",
    "maps": "--data DIR --time-limit 30",
    "matching": "",
    "multicut": "",
    "marginals": "--data DIR",
    "layer": "",
    "structured": "--data DIR",
}


def measure(name: str, arguments: str, data: str | None) -> None:
    """Run one benchmark on one BLAS thread and keep what it printed."""
    script = BENCHMARKS / f"{name}.py"
    if not script.exists():
        known = ", ".join(sorted(p.stem for p in BENCHMARKS.glob("*.py")))
        raise SystemExit(f"no benchmark {name!r}; there are: {known}")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    words = [data if word == "DIR" else word for word in arguments.split()]
    done = subprocess.run(
        [sys.executable, script, *words], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{name} failed: {done.stderr.strip().splitlines()[-1:]}")
    import numpy

    command = " ".join(["python", f"tests/benchmarks/{name}.py", *arguments.split()])
    head = f"$ {command}    # Python {platform.python_version()}, numpy {numpy.__version__}, {platform.machine()}"
    MEASUREMENTS.mkdir(exist_ok=True)
    (MEASUREMENTS / f"{name}.txt").write_text(f"{head}\n{done.stdout}", encoding="utf-8")
    content = json.dumps({"command": command, "rows": rows(done.stdout)}, indent=1)
    (MEASUREMENTS / f"{name}.json").write_text(content + "\n", encoding="utf-8")


def rows(text: str) -> list[dict[str, Any]]:
    """The lines of a benchmark that have numbers: the words with # for each, and the numbers."""
    found = []
    for line in text.splitlines():
        words = " ".join(NUMBER.sub("#", line).split())
        if "#" in words:
            found.append({"what": words, "numbers": [float(n) for n in NUMBER.findall(line)]})
    return found


def benchmark(measurement: str) -> str:
    """The benchmark that made the text file of this stem."""
    return measurement.partition("-")[0]


def purpose(name: str) -> str:
    """The first sentence of a benchmark's docstring."""
    text = (
        ast.get_docstring(ast.parse((BENCHMARKS / f"{name}.py").read_text(encoding="utf-8")))
        or name
    )
    return " ".join(text.split("\n\n")[0].split())


def page() -> str:
    """The page as markdown."""
    texts = {
        p.stem: p.read_text(encoding="utf-8").rstrip() for p in sorted(MEASUREMENTS.glob("*.txt"))
    }
    parts = [
        f"<details markdown><summary>{name}: {html.escape(purpose(benchmark(name)))}</summary>\n\n"
        f"```text\n{text}\n```\n\n</details>\n"
        for name, text in texts.items()
    ]
    return "\n".join([LEAD.replace("TABLE", comparisons().table()), *parts])


def comparisons() -> Any:
    """The module beside this file: mkdocs loads hooks without their folder on the path."""
    spec = importlib.util.spec_from_file_location("comparisons", DOCS / "comparisons.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def on_files(files: Any, config: Any) -> Any:
    """Called by mkdocs."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "performance.md", content=page()))
    chart = comparisons().chart()
    files.append(File.generated(config, "images/performance.svg", content=chart))
    return files


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="benchmarks to run (default: all)")
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="folder with real data; without it the benchmarks that need it are left out",
    )
    parser.add_argument(
        "--arguments", help="what to pass to them, in one string, instead of the usual"
    )
    options = parser.parse_args()
    failed = []
    for name in options.names or RECIPES:
        arguments = RECIPES.get(name, "") if options.arguments is None else options.arguments
        if "DIR" in arguments.split() and options.data is None:
            print(f"{name}: left out, needs --data DIR")
            continue
        start = time.perf_counter()
        try:
            measure(name, arguments, options.data)
        except RuntimeError as error:  # the others are still worth having
            failed.append(str(error))
            print(error, flush=True)
            continue
        print(f"docs/measurements/{name}.txt ({time.perf_counter() - start:.0f} s)", flush=True)
    if failed:
        raise SystemExit(f"{len(failed)} failed")


if __name__ == "__main__":
    main()
