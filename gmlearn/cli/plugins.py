"""``gmlearn plugins``: everything that is registered, its kind and its owner."""

from __future__ import annotations

import argparse
import warnings
from typing import Any

from gmlearn.cli.console import OK, CommandError, print_json, text_table

EPILOG = """examples:
  gmlearn plugins
  gmlearn plugins --json
  gmlearn plugins --manifest vision > plugins/gmlearn_vision/gmlearn.json
  GMLEARN_BLOCK_PLUGINS=vision,mlca gmlearn plugins      leave some plugins out

"core" owns the built-in parts. A plugin that fails to load is listed with the reason; the rest
works without it."""


def add_commands(commands: Any, **options: Any) -> None:
    """Add ``plugins`` to the parser."""
    parser = commands.add_parser(
        "plugins",
        help="what is registered, and by whom",
        epilog=EPILOG,
        **options,
        description="List every registered thing with its kind and its owner.",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print as JSON: registered (kind, name, owner) and failed",
    )
    parser.add_argument(
        "--manifest",
        metavar="NAME",
        help="print the gmlearn.json of one plugin, which lets it be imported only when needed",
    )
    parser.set_defaults(function=list_plugins)


def list_plugins(arguments: argparse.Namespace) -> int:
    """The table of the registry, and the plugins that were left out."""
    from gmlearn.registry import KINDS, PluginWarning, registry

    if arguments.manifest is not None:
        return print_manifest(arguments.manifest)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)  # the failures are listed below
        entries = sorted(
            registry.entries(),
            key=lambda e: (list(KINDS).index(e.kind), e.owner != "core", e.owner),
        )
    if arguments.json:
        registered = [{"kind": e.kind, "name": e.name, "owner": e.owner} for e in entries]
        print_json({"registered": registered, "failed": registry.failures})
        return OK
    print(text_table(["kind", "name", "owner"], [[e.kind, e.name, e.owner] for e in entries]))
    for owner, reason in sorted(registry.failures.items()):
        print(f"\nleft out: {owner}: {reason}")
    return OK


def print_manifest(owner: str) -> int:
    """The file that a plugin should ship."""
    from importlib import metadata

    from gmlearn.registry import described, package_of, registry

    names = [(e.kind, e.name) for e in registry.entries() if e.owner == owner]
    targets = [p.value for p in metadata.entry_points(group="gmlearn") if p.name == owner]
    if not names or not targets:
        raise CommandError(f"--manifest: no installed plugin {owner!r} registers anything")
    print(described(package_of(targets[0]), names).as_text(), end="")
    return OK
