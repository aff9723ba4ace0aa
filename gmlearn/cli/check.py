"""``gmlearn check``: the conformance kit on one plugin, or on one registered thing."""

from __future__ import annotations

import argparse
from typing import Any

from gmlearn.cli.console import FAILED, OK, CommandError, print_json, say

EPILOG = """examples:
  gmlearn check highorder         everything that the plugin registers
  gmlearn check pn_potts          one thing
  gmlearn check core --json
  gmlearn check pn_potts --fuzz 10000    mutated files of a potential

Potentials, slave solvers, decompositions, losses and solvers are compared with enumeration on
small examples.
Exit code 1 if a check fails."""


def add_commands(commands: Any, **options: Any) -> None:
    """Add ``check`` to the parser."""
    parser = commands.add_parser(
        "check",
        help="run the conformance checks on a plugin",
        epilog=EPILOG,
        **options,
        description="Run the conformance kit (gmlearn.testing) on a plugin.",
    )
    parser.add_argument(
        "name", metavar="NAME", help="a plugin or a registered thing, see gmlearn plugins"
    )
    parser.add_argument(
        "--json", action="store_true", help="print a list of {thing, check, ok, message}"
    )
    parser.add_argument(
        "--fuzz",
        metavar="CASES",
        nargs="?",
        type=int,
        const=2000,
        help="instead, read and use so many mutated files (2000) of its potentials, in children",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the mutations (0)")
    parser.set_defaults(function=check_plugin)


def check_plugin(arguments: argparse.Namespace) -> int:
    """Run the checks and tell which failed."""
    from gmlearn.registry import registry

    name = arguments.name
    registry.entries()  # which loads the plugins
    if name in registry.failures:
        raise CommandError(f"the plugin {name!r} failed to load: {registry.failures[name]}", FAILED)
    if arguments.fuzz is not None and arguments.fuzz < 1:
        raise CommandError(f"--fuzz: expected a number of cases, got {arguments.fuzz}")
    if arguments.fuzz is None:
        from gmlearn.testing import run_checks

        rows = run_checks(name)
    else:
        from gmlearn.testing import run_fuzz

        rows = run_fuzz(name, arguments.fuzz, arguments.seed)
    outcomes = [
        (str(thing), str(check), bool(ok), str(message)) for thing, check, ok, message in rows
    ]
    failed = sum(not ok for _, _, ok, _ in outcomes)
    if arguments.json:
        print_json(
            [dict(zip(("thing", "check", "ok", "message"), outcome)) for outcome in outcomes]
        )
    else:
        for thing, check, ok, message in outcomes:
            print(
                f"{'ok  ' if ok else 'FAIL'}  {thing}: {check}{f': {message}' if message else ''}"
            )
        print(
            f"{name}: {len(outcomes)} checks, {failed} failed"
            if outcomes
            else f"{name}: nothing of it has a contract to check"
        )
    if failed:
        say(f"{failed} of {len(outcomes)} checks failed for {name!r}")
    return FAILED if failed else OK
