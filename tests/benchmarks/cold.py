"""What the first call costs: CPU seconds with an empty kernel cache and with a full one.

    python tests/benchmarks/cold.py                     # all cases
    python tests/benchmarks/cold.py grid --kernels 20   # one case, its 20 slowest kernels to compile
    python tests/benchmarks/cold.py --json cold.json

Every figure comes from a child process of its own, imports included. "kernels" counts those that
numba compiled in the cold run; their seconds are wall time inside the compiler, callees included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile

#: what each child runs
CASES = {
    "grid": """
import numpy as np
import gmlearn as gm

rng = np.random.default_rng(0)
crf = gm.CRF(400, 3).add_unary(rng.normal(size=(400, 3)))
crf.add(gm.Potts(gm.grid_edges(20, 20), weight="smooth"))
print(gm.solve(crf, {"smooth": 0.5}).status)
""",
    "hard grid": """
import numpy as np
import gmlearn as gm

rng = np.random.default_rng(0)
edges = gm.grid_edges(20, 20)
crf = gm.CRF(400, 3).add_unary(rng.normal(size=(400, 3)))
crf.add(gm.Potts(edges, contrast=rng.normal(size=len(edges)), weight="smooth"))
print(gm.solve(crf, {"smooth": 1.0}).status)
""",
    "chain fit": """
import numpy as np
import gmlearn as gm

rng = np.random.default_rng(0)
samples = []
for _ in range(60):
    labels = np.sort(rng.integers(0, 4, size=12))
    features = np.eye(4)[labels] + rng.normal(size=(12, 4))
    crf = gm.CRF(12, 4)
    crf.add(gm.Unary(features, weight="unary"))
    crf.add(gm.Pairwise(np.stack([np.arange(11), np.arange(1, 12)], 1), weight="pair"))
    samples.append(gm.Sample(crf, labels))
print(gm.train(samples, regularizer=gm.L2(1.0)).objective)
""",
    "demo": """
import sys
import tempfile
from gmlearn.cli import main

with tempfile.TemporaryDirectory() as folder:
    assert main(["demo", "--json", "--out", folder]) == 0
""",
}
CHILD = """
import json, sys, time
from numba.core import event

class Recorder(event.Listener):
    def __init__(self):
        self.open = []
        self.seconds = {}

    def on_start(self, happened):
        self.open.append((happened.data["dispatcher"], time.perf_counter()))

    def on_end(self, happened):
        kernel, start = self.open.pop()
        name = kernel.py_func.__module__ + "." + kernel.py_func.__qualname__
        self.seconds[name] = self.seconds.get(name, 0) + time.perf_counter() - start

recorder = Recorder()
event.register("numba:compile", recorder)
exec(compile(sys.argv[1], "case", "exec"))
sys.stdout.flush()
print(json.dumps({
    "cpu": time.process_time(),
    "kernels": recorder.seconds,
    "plugins": sorted(n for n in sys.modules if n.startswith("gmlearn_")),
}))
"""


def run_case(source: str, cache: str) -> dict:
    """CPU seconds and compiled kernels of one child process with this kernel cache."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, source],
        env={**os.environ, "NUMBA_CACHE_DIR": cache, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{source}\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Print the table, and the kernels of each case that took longest to compile."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], help="default: all")
    parser.add_argument("--kernels", type=int, default=8, help="how many kernels to list per case")
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    options = parser.parse_args()
    figures = {}
    for name in options.cases or CASES:
        with tempfile.TemporaryDirectory() as cache:
            cold = run_case(CASES[name], cache)
            warm = run_case(CASES[name], cache)
        figures[name] = {"cold": cold, "warm": warm}
        print(
            f"{name:10} cold {cold['cpu']:6.2f} CPU s, warm {warm['cpu']:5.2f}, "
            f"{len(cold['kernels'])} kernels compiled, {len(cold['plugins'])} plugin modules loaded"
        )
        slowest = sorted(cold["kernels"].items(), key=lambda item: -item[1])
        for kernel, seconds in slowest[: options.kernels]:
            print(f"           {seconds:6.2f}  {kernel}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()
