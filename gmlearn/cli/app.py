"""The parser of the command ``gmlearn``, and what happens when something goes wrong."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from gmlearn._utils.versions import show_versions
from gmlearn._version import __version__
from gmlearn.cli import check, completion, marginals, plugins, run, solve, warmup
from gmlearn.cli.console import FAILED, INTERRUPTED, OK, USAGE, CommandError, say

DESCRIPTION = "Define, solve and learn high-order graphical models."
EPILOG = """examples:
  gmlearn demo                                  define, solve, learn and cluster generated data
  gmlearn solve grid.uai --time-limit 10        the best labelling found, and a bound on the optimum
  gmlearn solve model.wcsp --json > answer.json
  gmlearn marginals network.uai                 probabilities of all labels, and log Z
  gmlearn run --list                            the experiments of all plugins
  gmlearn run cluster-synthetic --quick         one of them, in less than a minute
  gmlearn plugins                               everything that is registered, and by whom
  gmlearn check highorder                       test whether a plugin keeps the contracts
  gmlearn warmup                                compile all kernels now

exit codes: 0 done, 1 failure or a failed check, 2 wrong usage or bad input, 130 Ctrl-C.
Data goes to stdout, messages and progress to stderr. "gmlearn COMMAND --help" says more."""


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors."""

    def error(self, message: str) -> NoReturn:
        say(f"error: {message} (see {self.prog} --help)", self.prog)
        raise SystemExit(USAGE)


def build_parser() -> Parser:
    """The whole command line."""
    parser = Parser(
        "gmlearn",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gmlearn {__version__}")
    parser.add_argument(
        "--versions", action="store_true", help="print all versions, for a report of a problem"
    )
    parser.add_argument("--debug", action="store_true", help="show the whole trace of an error")
    # SUPPRESS: a subcommand that is not given --debug must not undo "gmlearn --debug COMMAND"
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--debug",
        action="store_true",
        default=argparse.SUPPRESS,
        help="show the whole trace of an error",
    )
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", parser_class=Parser
    )
    for module in (solve, marginals, run, plugins, check, warmup, completion):
        module.add_commands(
            commands, parents=[common], formatter_class=argparse.RawDescriptionHelpFormatter
        )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    parser = build_parser()
    try:
        arguments, extra = parser.parse_known_args(argv)
        if extra and arguments.command != "run":
            parser.error(f"unrecognized arguments: {' '.join(extra)}")
        arguments.extra = extra
    except SystemExit as end:  # --help, --version, or a usage error that has been printed
        return int(end.code or OK)
    if arguments.versions:
        arguments.function = _print_versions
    elif arguments.command is None:
        parser.print_help()
        return USAGE
    with _warnings_in_one_line(arguments.debug):
        return _carry_out(arguments)


def _print_versions(arguments: argparse.Namespace) -> int:
    show_versions()
    return OK


def _carry_out(arguments: argparse.Namespace) -> int:
    """Call the command and turn whatever it raises into one line and an exit code."""
    try:
        code = arguments.function(arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        say("interrupted: nothing was written")
        return INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) has gone; nothing is left to tell it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    # the border of the program: every failure ends here, in one line
    except Exception as error:
        if arguments.debug:
            traceback.print_exc()
        else:
            say(f"error: {_describe(error)}")
        return _exit_code(error)


def _describe(error: Exception) -> str:
    """The message; with the kind of error where it was not meant for users."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if _exit_code(error) == USAGE or isinstance(error, CommandError):
        return str(error)
    return f"{type(error).__name__}: {error} (--debug shows where)"


def _exit_code(error: Exception) -> int:
    from gmlearn.registry import UnknownNameError

    if isinstance(error, CommandError):
        return error.code
    return USAGE if isinstance(error, (ValueError, OSError, UnknownNameError)) else FAILED


@contextlib.contextmanager
def _warnings_in_one_line(debug: bool) -> Iterator[None]:
    """Warnings as messages for users: no file names, no source lines."""

    def show(
        message: Any, category: Any, filename: Any, lineno: Any, file: Any = None, line: Any = None
    ) -> None:
        say(f"warning: {message}")

    with warnings.catch_warnings():
        if not debug:
            warnings.showwarning = show
        yield
