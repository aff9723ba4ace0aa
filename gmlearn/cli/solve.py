"""``gmlearn solve``: the best labelling of a model file, with its certificate."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from gmlearn._utils.threads import in_thread
from gmlearn.cli.console import INTERRUPTED, OK, CommandError, add_file_options, report, say

if TYPE_CHECKING:
    from gmlearn.model import CRF
    from gmlearn.solvers import Result

EPILOG = """examples:
  gmlearn solve grid.uai
  gmlearn solve grid.uai.gz --evidence grid.uai.evid --time-limit 20
  gmlearn solve grid.uai --gap 1e-3
  gmlearn solve model.wcsp --solver exact --out labels.json
  gmlearn solve model.npz --json | python -m json.tool

Files: .uai, .wcsp, .cfn (each also .gz), .npz as gm.write makes it, and what plugins add.
"gmlearn plugins" lists the solvers.
The energy is minimised (UAI: minus the logarithm of the product). No labelling has an
energy below "bound".
An infeasible model is an answer: status "infeasible", exit code 0. Infinite numbers
are null in JSON.
Ctrl-C ends the search and prints the best labelling so far (exit code 130)."""
SHOWN_LABELS = 40
#: moves a terminal to the beginning of its line, and clears that
CLEAR = "\r\x1b[K"


def add_commands(commands: Any, **options: Any) -> None:
    """Add ``solve`` to the parser."""
    parser = commands.add_parser(
        "solve",
        help="find the best labelling of a model file, with a bound",
        epilog=EPILOG,
        **options,
        description="Find a labelling of low energy and a lower bound that says how good it is.",
    )
    add_file_options(parser, "LABELS.json")
    parser.add_argument(
        "--solver", metavar="NAME", default="auto", help="a registered solver (default: auto)"
    )
    parser.add_argument(
        "--gap",
        metavar="G",
        type=float,
        default=0.0,
        help="stop at this relative gap between energy and bound (default: 0, a proof)",
    )
    parser.add_argument(
        "--max-iter",
        metavar="N",
        type=int,
        help="rounds (default: its own, or what the time limit allows)",
    )
    parser.set_defaults(function=solve_file)


def solve_file(arguments: argparse.Namespace) -> int:
    """Read, solve, report."""
    import gmlearn as gm

    search = interruptible(arguments.solver)
    crf = gm.read(arguments.file, evidence=arguments.evidence)
    result = gm.solve(
        crf,
        stored_weights(crf, arguments.file),
        search,
        arguments.time_limit,
        arguments.max_iter,
        arguments.seed,
        gap=arguments.gap,
        on_progress=live_line if sys.stderr.isatty() else None,
    )
    if sys.stderr.isatty():
        print(CLEAR, end="", file=sys.stderr, flush=True)
    answer = {**result.as_dict(), "interrupted": search.interrupted}
    report(arguments, answer, describe(crf, result))
    if search.interrupted:
        kept = "is in the file too" if arguments.out is not None else "is above"
        say(
            f"interrupted: the best labelling so far {kept} (energy {result.energy:.8g}, gap "
            f"{result.gap:.3g})"
        )
    return INTERRUPTED if search.interrupted else OK


def live_line(result: Result) -> None:
    """Energy, bound and gap so far, in one line of the terminal that the next one replaces."""
    relative = result.gap / max(abs(result.energy), abs(result.bound), 1e-300)
    text = f"energy {result.energy:.8g}  bound {result.bound:.8g}  gap {relative:.2%}"
    line = f"{CLEAR}{result.seconds:.1f} s  {text}"
    print(line, end="", file=sys.stderr, flush=True)


def describe(crf: CRF, result: Result) -> str:
    """The answer for readers: one line for each fact."""
    shown = " ".join(map(str, result.labels[:SHOWN_LABELS].tolist()))
    if len(result.labels) > SHOWN_LABELS:
        shown += f" ... ({len(result.labels)} in all; --json or --out gives them)"
    solver = f"{result.solver} ({result.reason})" if result.reason else result.solver
    facts = {
        "model": crf,
        "energy": f"{result.energy:.10g}",
        "bound": f"{result.bound:.10g}",
        "gap": f"{result.gap:.4g}",
        "status": f"{result.status.value}: {result.message}",
        "solver": solver,
        "seconds": f"{result.seconds:.3g}",
        "labels": shown,
    }
    return "\n".join(f"{name:8} {value}" for name, value in facts.items())


def interruptible(name: str) -> Any:
    """The registered solver `name`, for which Ctrl-C is a reason to stop rather than an error."""
    from gmlearn.registry import registry
    from gmlearn.solvers import MapSolver, Problem

    inner = registry.get("solver", name)

    class Interruptible(MapSolver):
        name = inner.name
        bounds = inner.bounds
        settings = inner.settings
        interrupted = False

        def refuses(self, crf: CRF) -> str | None:
            return inner.refuses(crf)

        def run(self, problem: Problem) -> None:
            try:
                in_thread(lambda: inner.run(problem))
            except KeyboardInterrupt:
                if problem.labels is None:  # nothing to report yet
                    raise
                self.interrupted = problem.interrupted = True
                # the user is waiting: no further round just for a bound
                self.bounds = True  # type: ignore[misc]

    return Interruptible()


def stored_weights(crf: CRF, path: str) -> Any:
    """The weights that an .npz keeps beside its model; None for models without weights."""
    from gmlearn.io import read_weights

    if crf.layout.size == 0:
        return None
    weights = read_weights(path) if path.lower().endswith(".npz") else None
    if weights is None:
        raise CommandError(
            f"{path}: the model has weights {crf.layout.shapes} and the file holds no values for "
            f"them; "
            f"store them with gm.write(crf, path, weights=...)"
        )
    return weights
