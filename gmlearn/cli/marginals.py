"""``gmlearn marginals``: probabilities of the labels of a model file, and log Z."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any

from gmlearn.cli.console import OK, add_file_options, report
from gmlearn.cli.solve import stored_weights

if TYPE_CHECKING:
    from gmlearn.model import CRF
    from gmlearn.probabilities import Marginals

EPILOG = """examples:
  gmlearn marginals network.uai
  gmlearn marginals network.uai.gz --evidence network.uai.evid --json
  gmlearn marginals grid.uai --method trw --time-limit 20 --out marginals.json

Files: as for "gmlearn solve". "gmlearn plugins" lists the methods.
p(x) = exp(-energy / T) / Z (UAI: the product of the tables, at T = 1). log Z is a natural
logarithm and lies between "lower" and "upper"; status "exact" says that they are equal.
A model without a feasible labelling is an answer: status "infeasible", exit code 0.
Infinite numbers are null in JSON."""
SHOWN = 20


def add_commands(commands: Any, **options: Any) -> None:
    """Add ``marginals`` to the parser."""
    parser = commands.add_parser(
        "marginals",
        help="probabilities of the labels of a model file, and log Z",
        epilog=EPILOG,
        **options,
        description="Probabilities of all labels, and the partition function between two bounds.",
    )
    add_file_options(parser, "FILE.json")
    parser.add_argument(
        "--method", metavar="NAME", default="auto", help="a registered method (default: auto)"
    )
    parser.add_argument(
        "--temperature", metavar="T", type=float, default=1.0, help="of the energy (default: 1)"
    )
    parser.set_defaults(function=marginals_of_file)


def marginals_of_file(arguments: argparse.Namespace) -> int:
    """Read, infer, report."""
    import gmlearn as gm

    crf = gm.read(arguments.file, evidence=arguments.evidence)
    found = gm.marginals(
        crf,
        stored_weights(crf, arguments.file),
        arguments.method,
        arguments.temperature,
        arguments.time_limit,
        arguments.seed,
    )
    report(arguments, found.as_dict(), describe(crf, found))
    return OK


def describe(crf: CRF, found: Marginals) -> str:
    """The answer for readers: one line for each fact, then the most uncertain variables."""
    method = f"{found.method} ({found.reason})" if found.reason else found.method
    ten = math.log(10.0)
    facts = {
        "model": crf,
        "log Z": f"{found.log_partition:.10g} (log10 Z {found.log_partition / ten:.8g})",
        "lower": f"{found.lower:.10g}",
        "upper": f"{found.upper:.10g}",
        "status": f"{found.status.value}: {found.status.meaning}",
        "method": method,
        "seconds": f"{found.seconds:.3g}",
    }
    lines = [f"{name:8} {value}" for name, value in facts.items()]
    if found.status != "infeasible":
        for v in range(min(SHOWN, crf.n_vars)):
            p = found.node[v, : crf.n_states[v]]
            lines.append(f"p(x{v})".ljust(8) + " " + " ".join(f"{q:.5f}" for q in p))
        if crf.n_vars > SHOWN:
            lines.append(f"... ({crf.n_vars} variables in all; --json or --out gives them)")
    return "\n".join(lines)
