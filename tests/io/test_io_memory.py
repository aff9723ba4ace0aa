"""Small files take little memory, whatever they unfold to: below 200 MB for one of a megabyte."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys

import numpy as np
import pytest

import gmlearn as gm
from gmlearn.io.npz import pack_model
from gmlearn.io.text import SAFE_BYTES

LIMIT = 200e6
READ = """
import sys, gmlearn as gm
try:
    gm.read(sys.argv[1])
except gm.FormatError as error:
    print(error)
status = open("/proc/self/status").read()
print(1024 * int(status.split("VmHWM:")[1].split()[0]))
"""


def tiny_factors(n_bytes):
    """As many factors of one label as fit into so many bytes of text: the most objects."""
    n = (n_bytes - 100) // 11
    return b"MARKOV\n2\n2 2\n%d\n" % n + b"1 0\n" * n + b"2\n1 1\n" * n


def shared_variable(potential, n_labels, n_cliques, **arguments):
    """Arrays of a model whose cliques all hold one variable of many labels, or many of two."""
    crf = gm.CRF([2])
    crf.add(potential, cliques=[[0]], **arguments)
    arrays = pack_model(crf, "m.npz")
    arrays["n_states"], arrays["unary"] = np.array([n_labels]), np.zeros(n_labels)
    for name in [n for n in arrays if n.startswith("block0.")]:
        arrays[name] = np.repeat(arrays[name], n_cliques, axis=0)
    return arrays


FILES = {
    "states.uai.gz": gzip.compress(b"MARKOV\n1\n4194304\n0\n"),
    "default.wcsp.gz": gzip.compress(b"t 2 2048 1 9\n2048 2048\n2 0 1 3 0\n"),
    "most.uai.gz": gzip.compress(tiny_factors(SAFE_BYTES)),
    "bomb.uai.gz": gzip.compress(b"MARKOV\n1\n2\n1\n1 0\n2\n1 1" + b" " * 2 * 10**7),
    "bomb.cfn.gz": gzip.compress(b'{"problem": {"name": ' + b"[" * 2 * 10**7),
    "pn.npz": shared_variable("pn_potts", 100_000, 100_000, beta=1.0),
    "label.npz": shared_variable("label_cost", 100_000, 100_000, costs=1.0),
    "robust.npz": shared_variable("robust_pn", 100_000, 100_000, truncation=1, beta=1.0),
}


#: takes as long as all others together
LONGEST = "most.uai.gz"


@pytest.mark.parametrize(
    "name", [*sorted(FILES.keys() - {LONGEST}), pytest.param(LONGEST, marks=pytest.mark.slow)]
)
def test_memory_of_small_files(name, tmp_path):
    if not os.path.exists("/proc/self/status"):
        pytest.skip("the peak of a process is read from /proc")
    path = tmp_path / name
    if name.endswith(".npz"):
        np.savez_compressed(path, **FILES[name])
    else:
        path.write_bytes(FILES[name])
    assert path.stat().st_size < 2**20
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert int(lines[-1]) < LIMIT
    assert name.startswith("bomb") == (len(lines) == 2), lines[:-1]


@pytest.mark.parametrize("potential", ["at_most_k", "exactly_k"])
def test_cliques_of_very_different_sizes(potential, tmp_path):
    """One clique of many members among many of one: costs are not written out as a rectangle."""
    crf = gm.CRF(20_000, 2)
    cliques = [np.arange(10_000), *np.arange(10_000, 20_000)[:, None]]
    crf.add(potential, cliques=cliques, number=1)
    gm.write(crf, tmp_path / "m.npz")
    again = gm.read(tmp_path / "m.npz").blocks[0]
    assert again.pool.size == 2 * 10_000 + 10_001
