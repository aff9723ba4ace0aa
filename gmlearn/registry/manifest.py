"""What an installed plugin registers, known without importing it.

A plugin package may ship a file ``gmlearn.json`` beside its ``__init__.py``::

    {"registers": {"potential": ["pn_potts"], "slave solver": ["pn_potts"]},
     "serves": "own potentials"}

Its module is then imported only when one of these names is asked for, or once its package has been
imported by somebody else. ``"serves": "any model"`` says that its solvers, slave solvers and
decompositions also take models of other potentials, so they have to be asked about every model.
``gmlearn plugins --manifest NAME`` prints the file. A plugin without one is imported at the first
look-up.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = "gmlearn.json"
SERVES = ("own potentials", "any model")
#: kinds of things that are asked about a model, not called by name
_ASKED = ("slave solver", "decomposition", "solver")


@dataclass(frozen=True)
class Manifest:
    """The names that a plugin registers.

    package : the importable package.   names : (kind, name) of everything.
    serves : which models its solvers and decompositions may take, one of ``SERVES``.
    """

    package: str
    names: frozenset[tuple[str, str]]
    serves: str = SERVES[0]

    def needed(self, kind: str) -> bool:
        """Can something of this kind matter now?"""
        if all(kind != own for own, _ in self.names):
            return False
        only_own = kind in _ASKED and self.serves == SERVES[0]
        return not only_own or self.package in sys.modules

    def as_text(self) -> str:
        """The content of the file."""
        registers: dict[str, list[str]] = {}
        for kind, name in sorted(self.names):
            registers.setdefault(kind, []).append(name)
        return json.dumps({"registers": registers, "serves": self.serves}, indent=1) + "\n"


def package_of(target: str) -> str:
    """The package of an entry point's target, "package.module:object"."""
    return target.partition(":")[0].partition(".")[0]


def read_manifest(target: str) -> Manifest | None:
    """The manifest of the package that an entry point names; None if it has none that can be
    understood.
    """
    package = package_of(target)
    try:
        spec = importlib.util.find_spec(package)
    except ValueError:  # a module that was made by hand
        return None
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / FILE
    if not path.exists():
        return None
    try:
        return _parsed(package, json.loads(path.read_text("utf-8")))
    except (ValueError, KeyError, AttributeError, TypeError):
        return None


def _parsed(package: str, content: Any) -> Manifest:
    names = {(kind, name) for kind, its in content["registers"].items() for name in its}
    serves = content["serves"]
    if serves not in SERVES:
        raise ValueError(f"{FILE} of {package}: serves must be one of {SERVES}, got {serves!r}")
    return Manifest(package, frozenset(names), serves)


def described(package: str, names: Iterable[tuple[str, str]]) -> Manifest:
    """The manifest that a package should ship: what it registers, and `serves` as it says today."""
    known = read_manifest(package)
    return Manifest(package, frozenset(names), known.serves if known else SERVES[1])
