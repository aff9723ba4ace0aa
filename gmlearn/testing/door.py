"""The doors of the kit: by name, by owner, as a pytest decorator, and the built-ins as if they
were a stranger's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from gmlearn._utils.validation import did_you_mean
from gmlearn.registry import KINDS, Entry, Registry, registry
from gmlearn.testing.fuzzing import fuzz
from gmlearn.testing.kit import (
    NotApplicable,
    checks_for,
    checks_of,
    forget_examples,
    kind_of,
    known_failures,
    name_of,
    outcome,
)

Things = Any


def _owner_entries(owner: str) -> list[Entry]:
    """What an owner has registered; its package's name does as well as its own."""
    return [e for e in registry.entries() if owner in (e.owner, f"gmlearn_{e.owner}")]


def things_of(owner: str, kind: str | None = None) -> list[Any]:
    """Everything (of one kind) that a plugin has registered and that the kit has checks for."""
    entries = _owner_entries(owner)
    if not entries:
        owners = sorted({e.owner for e in registry.entries()})
        raise ValueError(
            f"owner: no plugin {owner!r} has registered anything; owners: {', '.join(owners)}"
        )
    return [e.obj for e in entries if kind in (None, e.kind) and _has_checks(e.kind)]


def solvers_of(owner: str) -> list[Any]:
    """The slave solvers of a plugin."""
    return things_of(owner, "slave solver")


def _has_checks(kind: str) -> bool:
    try:
        return bool(checks_of(kind))
    except ValueError:
        return False


def resolve(what: Things) -> list[Any]:
    """Things out of an owner's name, a registered name (of any kind), a thing, or a list of
    these.
    """
    if not isinstance(what, str):
        if getattr(what, "registry_kind", None) is None and isinstance(what, Iterable):
            return [thing for part in what for thing in resolve(part)]
        return [what]
    if _owner_entries(what):
        return things_of(what)
    named = [e.obj for e in registry.entries() if e.name == what and _has_checks(e.kind)]
    if named:
        return named
    known = {text for e in registry.entries() for text in (e.name, e.owner)}
    hint = did_you_mean(what, known, f"known: {', '.join(sorted(known))}")
    raise ValueError(f"nothing is registered, and no plugin known, as {what!r}; {hint}")


def run_checks(name: Things) -> list[tuple[str, str, bool, str]]:
    """Run all checks on what is registered under a name, or by a plugin: rows (thing, check, ok,
    message).

    A known failure is ok, with its reason as the message; so is a check that does not apply, with
    the reason.
    """
    rows = []
    for thing in resolve(name):
        for one in checks_for(thing):
            ok, message = outcome(one, thing)
            rows.append((f"{kind_of(thing)} {name_of(thing)}", one.name, ok, message))
    return rows


def run_fuzz(name: Things, cases: int = 2000, seed: int = 0) -> list[tuple[str, str, bool, str]]:
    """Read and use mutated files of the potentials among what a name stands for, and of those that
    its slave solvers are for: rows as of `run_checks`, one for each potential.
    """
    rows = []
    for kind in _potentials(resolve(name)):
        what = (f"potential {name_of(kind)}", "fuzz")
        try:
            found = fuzz([kind], cases, seed)
        except NotApplicable as reason:
            rows.append((*what, True, f"not applicable: {reason}"))
            continue
        told = f"{found.cases} mutated files, {found.accepted} of them accepted"
        rows.append((*what, not found.failures, "; ".join([told, *found.failures])))
    return rows


def _potentials(things: Iterable[Any]) -> list[Any]:
    """The potentials among things, and those of the examples of slave solvers; each once."""
    found: dict[Any, None] = {}
    for thing in things:
        if kind_of(thing) == "potential":
            found[thing] = None
        elif kind_of(thing) == "slave solver":
            rng = np.random.default_rng(0)
            found |= {type(block): None for block, _ in thing.examples(rng)}
    registered = {e.obj for e in registry.entries("potential")}
    return [kind for kind in found if kind in registered]


def parametrize_with_checks(owner_or_names: Things) -> Callable:
    """Pytest decorator: one test for each check of each thing. The test receives `thing` and
    `check` and calls one on the other.

    Parameters
    ----------
    owner_or_names : a plugin's name, a registered name, a thing, or a list of these.

    Examples
    --------
    >>> import gmlearn as gm
    >>> @gm.testing.parametrize_with_checks(gm.Potts)
    ... def test_contracts(thing, check):
    ...     check(thing)
    """
    import pytest

    parameters = []
    for thing in resolve(owner_or_names):
        for one in checks_for(thing):
            reason = known_failures(thing).get(one.name)
            marks = (
                []
                if reason is None
                else [pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError)]
            )
            parameters.append(
                pytest.param(
                    thing,
                    _skipping(one),
                    id=f"{kind_of(thing)}-{name_of(thing)}-{one.name}",
                    marks=marks,
                )
            )
    return pytest.mark.parametrize(("thing", "check"), parameters)


def _skipping(one: Callable) -> Callable:
    """The check, with `NotApplicable` as a skip that gives the reason."""
    import pytest

    def run(thing: Any) -> None:
        try:
            one(thing)
        except NotApplicable as reason:
            pytest.skip(str(reason))

    return run


@contextmanager
def loopback(owner: str = "loopback") -> Iterator[Registry]:
    """Within it, the built-in parts are a foreign plugin's: registered under `owner` through a
    fresh registry, nothing else.

    The tests run once inside it, so that the door that plugins use is known to be wide enough.
    """
    from gmlearn import builtin

    plugin = ModuleType(f"gmlearn_{owner}")
    for kind in KINDS.values():
        if hasattr(builtin, kind.hook):
            setattr(plugin, kind.hook, getattr(builtin, kind.hook))
    fresh = Registry(entry_points=False)
    fresh.add_plugin(plugin, owner)
    before = dict(vars(registry))
    # every room holds the one registry object, so its contents are exchanged, not the object
    vars(registry).update(vars(fresh))
    forget_examples()
    try:
        yield registry
    finally:
        vars(registry).clear()
        vars(registry).update(before)
        forget_examples()
