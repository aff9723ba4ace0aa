"""``gmlearn run`` and ``gmlearn demo``: experiments, their tables and their files."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmlearn.cli.console import FAILED, INTERRUPTED, OK, CommandError, print_json, say, text_table

if TYPE_CHECKING:
    from gmlearn.experiments import Experiment, Run

RUN_EPILOG = """examples:
  gmlearn run --list
  gmlearn run cluster-synthetic --quick
  gmlearn run cluster-multiview --data ~/data --out results/multiview --json

Writes result.json, table.md, PNG figures and report.html (self-contained) into DIR, all at the
end, so that DIR never holds a mixture of two runs. Ctrl-C puts what was finished into
DIR/interrupted; of an experiment made of cells, finished ones stay in DIR/cells for --resume. Some
experiments need real data: without --data they say which folder layout they expect and where such
data is published."""
DEMO_EPILOG = """example:
  gmlearn demo --out my-first-run

Needs no files. Defines a model of pictures with cliques of nine pixels, learns its weights from
pictures with hidden labels and labels a new one, with a bound; then learns a distance and clusters
data that it has not seen. Prints before and after, beside simple methods, and writes figures and
one self-contained HTML page."""


def add_commands(commands: Any, **options: Any) -> None:
    """Add ``run`` and ``demo`` to the parser."""
    run = commands.add_parser(
        "run",
        help="repeat an experiment",
        epilog=RUN_EPILOG,
        **options,
        description="Carry out an experiment and write its tables, figures and report.",
    )
    run.add_argument("experiment", metavar="EXPERIMENT", nargs="?", help="its name, see --list")
    run.add_argument("--list", action="store_true", help="describe all experiments")
    run.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        help="folder with real data, for the experiments that need it",
    )
    run.set_defaults(function=run_experiment)
    demo = commands.add_parser(
        "demo",
        help="define, solve, learn and cluster, in less than a minute",
        epilog=DEMO_EPILOG,
        **options,
        description="The main jobs on generated data, with pictures.",
    )
    demo.set_defaults(function=run_demo, data=None)
    for parser in (run, demo):
        parser.add_argument(
            "--quick", action="store_true", help="smaller settings, less than a minute"
        )
        parser.add_argument(
            "--out", metavar="DIR", type=Path, help="where to write (default: ./gmlearn-runs/NAME)"
        )
        parser.add_argument(
            "--seed", metavar="N", type=int, default=0, help="of whatever is random (default: 0)"
        )
        parser.add_argument("--json", action="store_true", help="print the result as JSON")
    run.add_argument(
        "--resume", action="store_true", help="go on where a run into the same folder stopped"
    )
    demo.set_defaults(resume=False)


def run_experiment(arguments: argparse.Namespace) -> int:
    """``gmlearn run``."""
    from gmlearn.registry import registry

    if arguments.list:
        return list_experiments(arguments.json)
    if arguments.experiment is None:
        raise CommandError("run: give the name of an experiment; gmlearn run --list describes them")
    if arguments.data is not None and not arguments.data.is_dir():
        raise CommandError(f"--data: expected a folder, found none at {str(arguments.data)!r}")
    experiment = registry.get("experiment", arguments.experiment)
    return carry_out(experiment, arguments, own_options(experiment, arguments.extra))


def own_options(experiment: Experiment, words: list[str]) -> dict[str, str]:
    """The experiment's own choices from the words ``--name value`` that ``run`` does not know."""
    parser = argparse.ArgumentParser(experiment.name, add_help=False, exit_on_error=False)
    for name, values in experiment.options.items():
        parser.add_argument(f"--{name}", choices=list(values), default=values[0])
    try:
        found, unknown = parser.parse_known_args(words)
    except argparse.ArgumentError as error:
        raise CommandError(f"run {experiment.name}: {error}") from None
    if unknown:
        accepted = ", ".join(f"--{name}" for name in experiment.options) or "none of its own"
        raise CommandError(
            f"run {experiment.name}: unrecognized arguments: {' '.join(unknown)}; options of this "
            f"experiment: {accepted}"
        )
    return dict(vars(found))


def run_demo(arguments: argparse.Namespace) -> int:
    """``gmlearn demo``: the experiment named "demo", which the clustering plugin brings."""
    from gmlearn.registry import UnknownNameError, registry

    try:
        demo = registry.get("experiment", "demo")
    except UnknownNameError:
        loaded = any(entry.owner == "clustering" for entry in registry.entries())
        reason = registry.failures.get(
            "clustering",
            "it registers no experiment 'demo'"
            if loaded
            else "it is not installed, or blocked by GMLEARN_BLOCK_PLUGINS",
        )
        raise CommandError(
            f"the demo comes with the plugin 'clustering' (package gmlearn_clustering): {reason}",
            FAILED,
        ) from None
    return carry_out(demo, arguments)


def list_experiments(as_json: bool) -> int:
    """All registered experiments and what they are about."""
    from gmlearn.registry import registry

    entries = sorted(registry.entries("experiment"), key=lambda e: e.name)
    if as_json:
        print_json(
            [
                {
                    "name": e.name,
                    "owner": e.owner,
                    "summary": e.obj.summary,
                    "data": e.obj.data,
                    "options": {name: list(v) for name, v in e.obj.options.items()},
                }
                for e in entries
            ]
        )
    elif not entries:
        say("no experiment is registered; gmlearn plugins shows what is, and what failed to load")
    else:
        width = max(len(e.name) for e in entries)
        for e in entries:
            needs = " [needs --data]" if e.obj.data else ""
            own = "".join(f" [--{name} {'|'.join(v)}]" for name, v in e.obj.options.items())
            print(f"{e.name:{width}}  {e.obj.summary}{needs}{own}")
    return OK


def carry_out(
    experiment: Experiment, arguments: argparse.Namespace, choices: dict[str, str] | None = None
) -> int:
    """Run one experiment in a staging folder and publish its files when it is complete."""
    from gmlearn.experiments import Run

    out = arguments.out if arguments.out is not None else Path("gmlearn-runs") / experiment.name
    made = _make_folder(out)
    staging = Path(tempfile.mkdtemp(prefix=".part-", dir=out))
    run = Run(
        name=experiment.name,
        title=experiment.summary,
        quick=arguments.quick,
        seed=arguments.seed,
        data=arguments.data,
        out=staging,
        cells=out / "cells",
        resume=arguments.resume,
        choices=choices or {},
    )
    interrupted = False
    try:
        try:
            _compute(experiment, run, quiet=arguments.json)
        except KeyboardInterrupt:
            if not (run.tables or run.figures or run.values):
                raise
            interrupted = True
            run.note("Interrupted by the user: this holds only what was finished by then.")
        target = out / "interrupted" if interrupted else out
        run.write()
        files = _publish(staging, target)
        if not interrupted:
            shutil.rmtree(out / "cells", ignore_errors=True)
    finally:
        shutil.rmtree(staging)
        for folder in made:  # those that stayed empty
            with contextlib.suppress(OSError):
                folder.rmdir()
    if arguments.json:
        print_json(
            {**run.as_dict(), "out": str(target), "files": files, "interrupted": interrupted}
        )
    else:
        print(_describe(run, target, files))
    if interrupted:
        say(f"interrupted: what was finished is in {target}, {out} is otherwise as it was")
    return INTERRUPTED if interrupted else OK


def _compute(experiment: Experiment, run: Run, quiet: bool) -> None:
    """The experiment itself; missing data is the user's to fix, any other exception a failure of
    the experiment.
    """
    # figures go to files: no window system is needed, or wanted
    os.environ.setdefault("MPLBACKEND", "Agg")
    try:
        with contextlib.redirect_stdout(sys.stderr) if quiet else contextlib.nullcontext():
            experiment.run(run)
    except FileNotFoundError:
        raise
    except Exception as error:
        raise RuntimeError(
            f"the experiment {experiment.name!r} failed: {type(error).__name__}: {error}"
        ) from error


def _make_folder(out: Path) -> list[Path]:
    """Make the folder; returns the folders that did not exist before, innermost first."""
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(
            f"--out: cannot make the folder {str(out)!r} ({error.strerror})"
        ) from None
    return made


def _publish(staging: Path, target: Path) -> list[str]:
    """Move all files from `staging` to `target`; returns their names."""
    files = sorted(path.relative_to(staging) for path in staging.rglob("*") if path.is_file())
    for file in files:
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        os.replace(staging / file, target / file)
    return [str(file) for file in files]


def _describe(run: Run, target: Path, files: list[str]) -> str:
    """The tables and notes for readers, and where the files are."""
    tables = [f"{title}\n\n{text_table(header, rows)}\n" for title, header, rows in run.tables]
    return "\n".join(
        [
            f"{run.name} ({'quick' if run.quick else 'full'} settings, seed {run.seed}): "
            f"{run.seconds:.1f} s\n",
            *tables,
            *run.notes,
            *(["\nTo do it yourself:", run.code] if run.code else []),
            f"\nIn {target}: {', '.join(files)}",
            f"Open {target / 'report.html'} for all of it on one page.",
        ]
    )
