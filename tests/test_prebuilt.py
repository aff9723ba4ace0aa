"""Kernels that are compiled when a package is built: found when they fit, compiled otherwise."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import numba
import numpy as np
import pytest

from gmlearn._utils import prebuilt
from gmlearn.slaves.elimination import Program

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ["gmlearn", *sorted(p.parent.name for p in ROOT.glob("plugins/*/kernels.txt"))]
KERNEL = """
from numba import njit

@njit(cache=True)
def total(x):
    result = 0.0
    for value in x:
        result += value
    return result
"""
BUILD = "from gmlearn._utils import prebuilt; print(prebuilt.build(['tiny']))"
CALL = """
import numpy as np
from numba.core import event
from gmlearn._utils import prebuilt

prebuilt.install()
from tiny._sums_numba import total

with event.install_recorder("numba:compile") as recorder:
    answer = total(np.arange(4.0))
print(answer, len(recorder.buffer) // 2)
"""


@pytest.mark.parametrize(
    "value",
    [
        np.zeros((2, 3)),
        np.zeros((2, 3)).T,
        np.zeros((4, 4))[::2, ::2],
        np.frombuffer(b"12345678"),
        np.zeros(2, bool),
        np.uint32(3),
        True,
        None,
        (1, 2.0),
        (1, 2),
        Program(*[np.zeros(1, np.int64) for _ in Program._fields]),
    ],
)
def test_types_are_spelt_and_read_back(value):
    kind = numba.typeof(value)
    assert prebuilt._read(prebuilt.spell(kind)) == kind


def test_what_cannot_be_spelt_is_told():
    with pytest.raises(LookupError, match="no spelling for the numba type"):
        prebuilt.spell(numba.typeof("text"))


@pytest.mark.parametrize("package", PACKAGES)
def test_the_lists_fit_the_kernels(package):
    """A line that fits no kernel is harmless; many of them want tests/record_kernels.py."""
    kernels = prebuilt.listed([package])
    assert kernels and len(set(kernels)) == len(kernels)
    fitting = 0
    for kernel in kernels:
        found = getattr(importlib.import_module(kernel.module), kernel.function, None)
        count = found.py_func.__code__.co_argcount if found else -1
        fitting += len(kernel.signature()) <= count
    assert fitting >= 0.8 * len(kernels)


def test_a_listed_package_must_be_installed():
    with pytest.raises(ValueError, match="no package 'gmlearn_nowhere'"):
        prebuilt.listed(["gmlearn_nowhere"])


def test_a_stamp_changes_with_the_kernels_that_a_module_imports(tmp_path, monkeypatch):
    package = tmp_path / "stamped"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "_inner_numba.py").write_text("VALUE = 1\n")
    (package / "_outer_numba.py").write_text("from ._inner_numba import VALUE\n")
    (package / "_other_numba.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    outer, other = "stamped._outer_numba", "stamped._other_numba"

    def stamps():
        prebuilt._stamp.cache_clear()
        return prebuilt._stamp(outer), prebuilt._stamp(other)

    before = stamps()
    assert stamps() == before
    (package / "_inner_numba.py").write_text("VALUE = 2\n")
    after = stamps()
    assert after[0] != before[0] and after[1] == before[1]
    prebuilt._stamp.cache_clear()


def test_kernel_modules_import_one_another_as_the_stamp_expects():
    """Whatever a kernel calls in another module must change its stamp."""
    files = [*ROOT.glob("gmlearn/**/*_numba.py"), *ROOT.glob("plugins/**/*_numba.py")]
    for path in files:
        for line in path.read_text("utf-8").splitlines():
            if re.match(r"\s*(from|import)\b.*_numba\b", line):
                assert prebuilt.IMPORTED.match(line.encode()), f"{path.name}: {line}"


def test_a_shipped_kernel_is_found_unless_its_source_has_changed(tmp_path):
    package = tmp_path / "tiny"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "_sums_numba.py").write_text(KERNEL)
    (package / "kernels.txt").write_text('tiny._sums_numba total ["float64 1 C"]\n')

    def run(cache, *command):
        environment = {
            **os.environ,
            "NUMBA_CACHE_DIR": str(tmp_path / cache),
            "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]),
        }
        done = subprocess.run(
            [sys.executable, *command], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert "1" in run("build", "-c", BUILD)
    assert run("empty", "-c", CALL) == ["6.0", "0"]
    (package / "_sums_numba.py").write_text(KERNEL.replace("0.0", "1.0"))
    assert run("empty too", "-c", CALL) == ["7.0", "1"]
    for damaged in package.glob("_prebuilt/*/*.nbi"):
        damaged.write_bytes(b"nonsense")
    assert run("empty again", "-c", CALL)[0] == "7.0"


MOVED = """
from typing import NamedTuple
import numpy as np
from numba import njit
from gmlearn._utils import prebuilt

prebuilt.install()
from {module} import Pair
import kernels

print(kernels.total(Pair(np.arange(3.0), np.arange(2.0))))
"""


def test_a_cache_that_names_classes_of_another_version_is_emptied(tmp_path):
    """A class that moved to another file between two versions."""
    pair = "from typing import NamedTuple\nclass Pair(NamedTuple):\n    a: object\n    b: object\n"
    kernel = "from numba import njit\n\n@njit(cache=True)\ndef total(p):\n    return p.a.sum() + p.b.sum()"
    (tmp_path / "kernels.py").write_text(kernel)
    environment = {
        **os.environ,
        "PYTHONPATH": str(tmp_path),
        "NUMBA_CACHE_DIR": str(tmp_path / "c"),
    }
    for module, other in (("old", "new"), ("new", "old")):
        (tmp_path / f"{module}.py").write_text(pair)
        (tmp_path / f"{other}.py").write_text("# empty")
        done = subprocess.run(
            [sys.executable, "-c", MOVED.format(module=module)],
            capture_output=True,
            text=True,
            env=environment,
        )
        assert done.stdout.strip() == "4.0", done.stderr


def test_the_build_hook_compiles_with_what_pip_lends_to_an_isolated_build(tmp_path, monkeypatch):
    """Requirements come by PYTHONPATH there; a build that replaces it compiles nothing."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    lent = tmp_path / "lent"
    lent.mkdir()
    (lent / "only_here.py").write_text("VALUE = 3\n")
    monkeypatch.setenv("PYTHONPATH", str(lent))
    child = hook.start(
        ROOT, "import only_here, gmlearn_clustering; print(only_here.VALUE)", os.environ
    )
    answer, message = child.communicate()
    assert answer.strip() == "3", message
