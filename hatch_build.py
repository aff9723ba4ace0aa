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
    """Compile in a process per core, numba set to a level of CPUs; the reason if one fails."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root), str(root / "plugins")]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    module = "gmlearn._utils.prebuilt"
    level = subprocess.run(
        [sys.executable, "-c", f"import {module} as m; print(m.level())"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if level.returncode:
        return level.stderr.strip().rpartition("\n")[2]
    environment |= {"NUMBA_CPU_NAME": level.stdout.strip(), "NUMBA_CPU_FEATURES": ""}
    parts = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as cache:
        environment["NUMBA_CACHE_DIR"] = cache
        compilers = [
            subprocess.Popen(
                [sys.executable, "-m", module, str(part), str(parts), *packages],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for part in range(parts)
        ]
        messages = [compiler.communicate()[1] for compiler in compilers]
    for compiler, message in zip(compilers, messages):
        if compiler.returncode:
            return message.strip().rpartition("\n")[2] or "failed"
    return None
