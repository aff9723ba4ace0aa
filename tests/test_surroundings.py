"""Unusual surroundings: read-only folders, no display, other hash seeds, systems that are not Linux,
two runs on one checkpoint.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import gmlearn as gm

MODEL = """
import numpy as np, gmlearn as gm
rng = np.random.default_rng(0)
def sample():
    y = np.repeat(rng.integers(0, 3, 4), 4)
    c = gm.CRF(16, 3)
    c.add(gm.Unary(np.eye(3)[y] + rng.normal(size=(16, 3)), weight="u"))
    c.add(gm.Potts([[i, i + 1] for i in range(15)], weight="s"))
    c.add("pn_potts", cliques=[[0, 1, 2, 3], [8, 9, 10, 11]], weight="p")
    return gm.Sample(c, y)
S = [sample() for _ in range(4)]
"""


def child(code, **environment):
    """A fresh interpreter; its answer and what it complained about."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=180,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_kernels_where_no_cache_can_be_written():
    """They are compiled in a private folder that does not outlive the process."""
    code = """
import os
os.environ.pop("NUMBA_CACHE_DIR", None)
os.access = lambda *a, **k: False
import gmlearn as gm, numpy as np
folder = os.environ["NUMBA_CACHE_DIR"]
crf = gm.CRF(4, 3).add_unary(np.eye(4, 3))
crf.add(gm.Potts([[0, 1], [1, 2], [2, 3], [0, 3]], 0.5))
assert gm.solve(crf, solver="trws").status.name
from gmlearn.solvers import _trws_numba
assert oct(os.stat(folder).st_mode)[-3:] == "700" and os.path.exists(folder)
print(folder)
"""
    out, complaints = child(code, GMLEARN_PREBUILT="0")
    assert "set NUMBA_CACHE_DIR" in complaints
    assert "gmlearn-kernels-" in out and not os.path.exists(out.strip())


def test_an_ordinary_machine_is_left_alone(tmp_path):
    code = "import os, gmlearn; print(os.environ.get('NUMBA_CACHE_DIR'))"
    assert child(code, NUMBA_CACHE_DIR=str(tmp_path))[0].strip() == str(tmp_path)


def test_hash_seeds_change_nothing():
    code = f"""{MODEL}
m = gm.train(S, regularizer=gm.L2(1.0), max_iter=15, show_progress=False)
r = gm.solve(S[0].crf, m.weights)
print(repr(m.objective), r.labels.tolist(), repr(r.bound))
print([w.tobytes().hex() for _, w in sorted(m.weights.items())])
"""
    assert child(code, PYTHONHASHSEED="0")[0] == child(code, PYTHONHASHSEED="12345")[0]


def test_pictures_without_a_display(tmp_path):
    code = f"""{MODEL}
r = gm.solve(S[0].crf, {{"u": np.eye(3), "s": 0.5, "p": 0.1 * np.ones(3)}}, solver="bcfw", max_iter=5)
r.plot().figure.savefig({str(tmp_path / "r.png")!r})
"""
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "MPLBACKEND")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=180, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "r.png").stat().st_size > 1000


#: what Windows or macOS lack: attributes of modules, and modules
MISSING = {
    "os": ["fork", "forkpty", "sched_getaffinity", "getuid", "geteuid", "setsid", "killpg"],
    "signal": ["SIGKILL", "SIGALRM", "alarm", "setitimer", "SIGUSR1", "SIGHUP"],
}
ABSENT = ["resource", "fcntl", "pwd", "grp", "termios"]


def test_without_what_only_linux_has():
    """Everything can be imported, solved and trained where these names do not exist."""
    code = f"""
import os, signal, sys, subprocess, tempfile, shutil, importlib, pathlib
for module, names in {MISSING!r}.items():
    for name in names:
        vars(sys.modules[module]).pop(name, None)
for name in {ABSENT!r}:
    sys.modules[name] = None
{MODEL}
m = gm.train(S, max_iter=3, show_progress=False)
gm.solve(S[0].crf, m.weights)
import gmlearn.testing, gmlearn.cli.app
for entry in gm.plugins():
    assert entry.name
print("well")
"""
    assert child(code)[0].strip() == "well"


@pytest.mark.skipif(os.name == "nt", reason="children are started by shell-free commands here")
def test_two_runs_on_one_checkpoint(tmp_path):
    """Each finishes with the weights of a run of its own; the file stays whole."""
    code = f"""{MODEL}
import sys, json
m = gm.train(S, checkpoint={str(tmp_path / "run.checkpoint")!r}, checkpoint_every=1, max_iter=12,
             show_progress=False)
print(json.dumps([m.objective, [w.tobytes().hex() for _, w in sorted(m.weights.items())]]))
"""
    runs = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = [json.loads(run.communicate(timeout=180)[0]) for run in runs]
    alone = json.loads(child(code.replace("run.checkpoint", "alone.checkpoint"))[0])
    assert answers == [alone, alone]
    again = json.loads(child(code)[0])
    assert again == alone
    assert not list(tmp_path.glob("*.part"))


def test_a_folder_that_cannot_be_written_to(tmp_path, monkeypatch):
    """Refused before any work."""
    crf = gm.CRF(2, 2)
    crf.add(gm.Unary(np.eye(2), weight="u"))
    monkeypatch.setattr(os, "access", lambda *a, **k: False)
    with pytest.raises(ValueError, match=r"checkpoint: the folder .* may not be written to"):
        gm.train([gm.Sample(crf, [0, 1])], checkpoint=tmp_path / "m.checkpoint")
