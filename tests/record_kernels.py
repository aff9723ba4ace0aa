"""Write each package's ``kernels.txt``: the signatures that wheels ship compiled.

    python tests/record_kernels.py

runs the cases of ``benchmarks/cold.py``, the examples and every solver and optimiser on small
models, each twice in a process of its own with one kernel cache: in the second run only those
kernels are loaded that Python itself calls. Takes some minutes; run it when a kernel was added or
its arguments have changed (an old line is only ever a kernel that is compiled at the first call).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.cold import CASES

ROOT = Path(__file__).parents[1]
EVERYTHING = """
import numpy as np
import gmlearn as gm

def chain_samples(n_samples, n_labels):
    rng = np.random.default_rng(0)
    edges = np.stack([np.arange(9), np.arange(1, 10)], 1)
    for k in range(n_samples):
        labels = rng.integers(0, n_labels, 10)
        crf = gm.CRF(10, n_labels)
        crf.add(gm.Unary(np.eye(n_labels)[labels] + rng.normal(size=(10, n_labels)), weight="u"))
        crf.add(gm.Pairwise(edges, weight="p"))
        hidden = np.arange(10) == k if HIDDEN else None
        yield gm.Sample(crf, labels, hidden=hidden)

for HIDDEN in (False, True):
    for entry in gm.plugins():
        if entry.kind == "optimizer":
            try:
                gm.train(list(chain_samples(6, 3)), optimizer=entry.name, max_iter=3)
            except (ValueError, TypeError):
                pass
rng = np.random.default_rng(0)
edges = gm.grid_edges(6, 6)
models = []
for n_labels in (2, 3):
    for kind in ("plain", "signed", "truncated", "table", "triples"):
        crf = gm.CRF(36, n_labels)
        crf.add_unary(rng.normal(size=(36, n_labels)))
        if kind == "plain":
            crf.add(gm.Potts(edges))
        elif kind == "signed":
            crf.add(gm.Potts(edges, contrast=rng.normal(size=len(edges))))
        elif kind == "truncated":
            crf.add(gm.Truncated(edges, truncation=1.0))
        elif kind == "table":
            crf.add(gm.Pairwise(edges, table=rng.normal(size=(n_labels, n_labels))))
        else:
            triples = np.stack([np.arange(34), np.arange(1, 35), np.arange(2, 36)], 1)
            crf.add(gm.Table(triples, rng.normal(size=(34,) + (n_labels,) * 3)))
        models.append(crf)
for entry in gm.plugins():
    if entry.kind == "slave solver":
        gm.testing.check(entry.obj)
for crf in models:
    for entry in gm.plugins():
        if entry.kind == "solver" and entry.name != "brute_force":
            try:
                gm.solve(crf, solver=entry.name, max_iter=5)
            except (gm.SolverRefusal, ValueError, TypeError, ImportError):
                pass
"""
CHILD = """
import atexit, json, os, sys
source, out = sys.argv[1:3]
sys.argv[1:] = ["--quick"]

def write():
    from gmlearn._utils.prebuilt import spell
    from numba.core.dispatcher import Dispatcher

    lines = set()
    for name in [n for n in sys.modules if n.startswith("gmlearn") and n.endswith("_numba")]:
        for thing in vars(sys.modules[name]).values():
            if isinstance(thing, Dispatcher) and thing.py_func.__module__ == name:
                fast = thing.targetoptions.get("fastmath", False)
                if fast is True or (fast and "reassoc" in fast):
                    continue  # its sums may depend on the CPU that it was compiled for
                for signature in thing.overloads:
                    try:
                        arguments = json.dumps([spell(kind) for kind in signature])
                    except LookupError:
                        continue
                    lines.add(f"{name} {thing.py_func.__name__} {arguments}")
    with open(out, "w") as file:
        file.write("\\n".join(lines))

atexit.register(write)
exec(compile(source, "<case>", "exec"), {"__name__": "__main__", "__file__": "case.py"})
"""


def record(source: str, folder: str) -> set[str]:
    """The lines of one workload."""
    out = Path(folder, "lines.txt")
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": os.path.join(folder, "cache"),
        "GMLEARN_PREBUILT": "0",
        "MPLBACKEND": "Agg",
    }
    for _ in range(2):
        subprocess.run(
            [sys.executable, "-c", CHILD, source, str(out)], env=environment, cwd=folder, check=True
        )
    return set(out.read_text().splitlines())


def main() -> None:
    """Run all workloads and rewrite the lists."""
    lines: set[str] = set()
    workloads = [EVERYTHING, *CASES.values()]
    workloads += [path.read_text() for path in sorted((ROOT / "examples").glob("plot_*.py"))]
    with tempfile.TemporaryDirectory() as folder:
        for k, source in enumerate(workloads):
            before = len(lines)
            lines |= record(source, folder)
            print(f"{k + 1} of {len(workloads)}: {len(lines) - before} more", flush=True)
    by_package: dict[str, list[str]] = {}
    for line in sorted(lines):
        by_package.setdefault(line.partition(".")[0], []).append(line)
    for package, its_lines in by_package.items():
        home = ROOT if package == "gmlearn" else ROOT / "plugins"
        (home / package / "kernels.txt").write_text("\n".join(its_lines) + "\n")
        print(f"{package}: {len(its_lines)} kernels")


if __name__ == "__main__":
    main()
