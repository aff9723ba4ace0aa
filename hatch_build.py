"""Build hook: compile the kernels that the packages list, so that first calls need not.

``gmlearn/_utils/prebuilt.py`` says how they are found. Where they cannot be compiled (no numba for
this Python, no room, ``GMLEARN_PREBUILT=0``) the wheel is built without them and works all the
same: numba compiles at the first call.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PrebuiltKernels(BuildHookInterface):
    """Adds ``_prebuilt`` folders to wheels, and to the checkout of an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or os.environ.get("GMLEARN_PREBUILT") == "0":
            return
        root = Path(self.root)
        lists = [root / "gmlearn" / "kernels.txt", *root.glob("plugins/*/kernels.txt")]
        packages = [path.parent.name for path in lists]
        reason = compile_kernels(root, sorted(packages))
        if reason:
            self.app.display_warning(f"built without compiled kernels: {reason}")
            return
        # machine code: the wheel is for this platform and Python
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["artifacts"].append("_prebuilt/")


def compile_kernels(root: Path, packages: list[str]) -> str | None:
    """Compile in a process per core, numba set to a level of CPUs; the reason if one fails.

    Each process has a cache of its own: what numba loads from a cache cannot be saved elsewhere.
    """
    level = start(root, "import gmlearn._utils.prebuilt as m; print(m.level())", os.environ)
    answer, message = level.communicate()
    if level.returncode:
        return last_line(message)
    environment = os.environ | {"NUMBA_CPU_NAME": answer.strip(), "NUMBA_CPU_FEATURES": ""}
    parts = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as caches:
        compilers = []
        for part in range(parts):
            code = f"import gmlearn._utils.prebuilt as m; m.build({packages}, {part}, {parts})"
            cache = {"NUMBA_CACHE_DIR": os.path.join(caches, str(part))}
            compilers.append(start(root, code, environment | cache))
        messages = [compiler.communicate()[1] for compiler in compilers]
    for compiler, message in zip(compilers, messages):
        if compiler.returncode:
            return last_line(message) or "failed"
    return None


def start(root: Path, code: str, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """A Python that imports from this source tree.

    Not by PYTHONPATH: pip lends it to isolated builds for their requirements, and drops from it
    whatever the calling environment has installed, as an editable install has this tree.
    """
    paths = [str(root), str(root / "plugins")]
    return subprocess.Popen(
        [sys.executable, "-B", "-c", f"import sys; sys.path[:0] = {paths}; {code}"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def last_line(message: str) -> str:
    return message.strip().rpartition("\n")[2]
