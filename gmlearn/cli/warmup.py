"""``gmlearn warmup``: compile every listed kernel for this CPU, once."""

from __future__ import annotations

import argparse
from typing import Any

from gmlearn.cli.console import OK, print_json

EPILOG = """example:
  gmlearn warmup

Kernels are compiled at their first call, or come compiled with the installation for a common level
of CPUs. This compiles all of them for this very CPU and keeps them in numba's cache
(NUMBA_CACHE_DIR chooses where), so no later call has to. Takes one or two minutes, less the second
time."""


def add_commands(commands: Any, **options: Any) -> None:
    """Add ``warmup`` to the parser."""
    parser = commands.add_parser(
        "warmup",
        help="compile all kernels now",
        epilog=EPILOG,
        **options,
        description="Compile the kernels of gmlearn and of all installed plugins.",
    )
    parser.add_argument("--json", action="store_true", help="print as JSON: kernels and folders")
    parser.set_defaults(function=warm_up)


def warm_up(arguments: argparse.Namespace) -> int:
    """Compile what the packages list, with a progress bar, and say where it is kept."""
    from importlib import metadata

    from gmlearn._utils.prebuilt import ignored, listed
    from gmlearn._utils.progress import progress
    from gmlearn.registry import package_of

    points = metadata.entry_points(group="gmlearn")
    kernels = listed(sorted({"gmlearn", *(package_of(point.value) for point in points)}))
    folders = set()
    with ignored(), progress(kernels, desc="kernels") as bar:
        for kernel in bar:
            bar.set_postfix_str(kernel.function)
            kernel.compile()
            folders.add(kernel.dispatcher().stats.cache_path)
    if arguments.json:
        print_json({"kernels": len(kernels), "folders": sorted(folders)})
    else:
        print(f"{len(kernels)} kernels are compiled for this CPU, in")
        print("\n".join(f"  {folder}" for folder in sorted(folders)))
    return OK
