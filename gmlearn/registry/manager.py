"""Discovery of plugins, and the one table of everything that they register."""

from __future__ import annotations

import difflib
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any, NamedTuple

import pluggy

from gmlearn.registry import hookspecs
from gmlearn.registry.manifest import Manifest, read_manifest


class Kind(NamedTuple):
    """What is known of a kind of thing.

    hook : the function of a plugin that returns such things.   base : the public class that they
        derive from.
    required : what one must have to be accepted.   by_class : is the class registered, not an
        object?
    """

    hook: str
    base: str
    required: tuple[str, ...]
    by_class: bool = False


KINDS: dict[str, Kind] = {
    "potential": Kind("gmlearn_potentials", "Block", ("energy", "features", "segments"), True),
    "slave solver": Kind("gmlearn_slave_solvers", "SlaveSolver", ("minimise", "refuses", "cost")),
    "decomposition": Kind("gmlearn_decompositions", "Decomposition", ("decompose",)),
    "loss": Kind("gmlearn_losses", "Loss", ("value", "blocks"), True),
    "solver": Kind("gmlearn_solvers", "MapSolver", ("run", "refuses")),
    "marginal method": Kind("gmlearn_marginal_methods", "MarginalMethod", ("run", "refuses")),
    "optimizer": Kind("gmlearn_optimizers", "Optimizer", ("run",), True),
    "trainer": Kind("gmlearn_trainers", "Trainer", ("train",)),
    "format": Kind("gmlearn_formats", "FileFormat", ("extensions", "read")),
    "experiment": Kind("gmlearn_experiments", "Experiment", ("run", "summary")),
}


class PluginError(RuntimeError):
    """A plugin could not be loaded, or does not keep the contract."""


class PluginWarning(UserWarning):
    """A plugin was left out; the rest works."""


class UnknownNameError(LookupError):
    """A name that nothing is registered under."""


@dataclass(frozen=True)
class Entry:
    """One registered thing: its kind, its name, the object, and the plugin that brought it."""

    kind: str
    name: str
    obj: Any
    owner: str


class Registry:
    """Everything that plugins have registered, by kind and name.

    Plugins named in the entry-point group ``gmlearn`` are found on first use and imported when one
    of their names is asked for (see ``manifest``), each on its own: one that fails is reported by
    name (``PluginWarning``, and ``failures``) and the others work.
    """

    def __init__(self, entry_points: bool = True):
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._entries: dict[tuple[str, str], Entry] = {}
        self._pending_entry_points = entry_points
        #: plugins that were found and not imported yet
        self._waiting: dict[str, tuple[Manifest, Callable[[], Any]]] = {}
        #: the order in which owners are asked, whenever they were imported
        self._rank: dict[str, int] = {}
        self._lock = threading.RLock()
        self.failures: dict[str, str] = {}

    # ------------------------------------------------------------------ loading

    def _discover(self) -> None:
        """Load the built-in parts, and the plugins that do not say what they register."""
        with self._lock:
            if not self._pending_entry_points:
                return
            self._pending_entry_points = False
            blocked = {
                name for name in os.environ.get("GMLEARN_BLOCK_PLUGINS", "").split(",") if name
            }
            points = list(metadata.entry_points(group=hookspecs.PROJECT))
            # A source checkout that was never installed still has its own parts.
            from gmlearn import builtin

            self._rank["core"] = 0
            self._load("core", lambda: builtin)
            for point in sorted(points, key=lambda p: (p.name, p.value)):
                if point.value == builtin.__name__ or point.name in blocked:
                    continue
                self._rank.setdefault(point.name, len(self._rank))
                manifest = read_manifest(point.value)
                if manifest is None or point.name in self._waiting:
                    self._load(point.name, point.load)
                else:
                    self._waiting[point.name] = manifest, point.load

    def _load_those(self, wanted: Callable[[Manifest], bool]) -> None:
        """Import the plugins whose manifest says that they are wanted."""
        self._discover()
        with self._lock:
            for name, (manifest, load) in list(self._waiting.items()):
                if wanted(manifest):
                    del self._waiting[name]
                    self._load(name, load)

    def _load(self, name: str, loader: Callable[[], Any]) -> None:
        try:
            self.add_plugin(loader(), name)
        # any failure of a plugin is its own; it must not take the toolkit down
        except Exception as error:
            self.failures[name] = f"{type(error).__name__}: {error}"
            warnings.warn(
                f"gmlearn plugin {name!r} was left out: {self.failures[name]}",
                PluginWarning,
                stacklevel=2,
            )

    def add_plugin(self, plugin: Any, owner: str) -> list[Entry]:
        """Register a plugin object (usually a module) under the name `owner`; all of it or
        nothing.
        """
        with self._lock:
            if self._manager.has_plugin(owner):
                raise PluginError(f"a plugin named {owner!r} is already registered")
            unknown = [
                n
                for n in vars(plugin)
                if n.startswith("gmlearn_")
                and n not in _hook_names()
                and hasattr(getattr(plugin, n), "gmlearn_impl")
            ]
            if unknown:
                raise PluginError(
                    f"plugin {owner!r} implements unknown hooks {unknown}; known: "
                    f"{sorted(_hook_names())}"
                )
            try:
                self._manager.register(plugin, name=owner)
                self._manager.check_pending()
                entries = list(self._collect(plugin, owner))
                self._check_clashes(entries)
            except Exception:
                if self._manager.has_plugin(owner):
                    self._manager.unregister(name=owner)
                raise
            self._entries.update({(e.kind, e.name): e for e in entries})
            return entries

    def _collect(self, plugin: Any, owner: str) -> Iterator[Entry]:
        for kind, known in KINDS.items():
            hook = known.hook
            implementation = getattr(plugin, hook, None)
            if implementation is None or not hasattr(implementation, "gmlearn_impl"):
                continue
            answer = implementation()
            if not isinstance(answer, (list, tuple)):
                raise PluginError(
                    f"plugin {owner!r}: the hook {hook} must return a list, got {answer!r}"
                )
            for obj in answer:
                yield Entry(kind, checked_name(kind, obj, owner), obj, owner)

    def _check_clashes(self, entries: list[Entry]) -> None:
        taken = dict(self._entries)
        for e in entries:
            other = taken.get((e.kind, e.name))
            if other is not None:
                raise PluginError(
                    f"the {e.kind} {e.name!r} is registered twice: by {other.owner!r} and by "
                    f"{e.owner!r}"
                )
            taken[e.kind, e.name] = e

    def add(self, obj: Any, owner: str = "script") -> Entry:
        """Register one thing whose class says what it is by ``registry_kind``."""
        self._discover()
        kind = getattr(obj, "registry_kind", None)
        if kind not in KINDS:
            raise PluginError(
                f"{obj!r} cannot be registered: expected a module with gmlearn hooks, or "
                f"{expected_things()}"
            )
        entry = Entry(kind, checked_name(kind, obj, owner), obj, owner)
        self._load_those(lambda manifest: (kind, entry.name) in manifest.names)
        with self._lock:
            previous = self._entries.get((kind, entry.name))
            # a script may be run again in one session
            if previous is None or previous.owner != owner:
                self._check_clashes([entry])
            self._entries[kind, entry.name] = entry
        return entry

    # ------------------------------------------------------------------ look-up

    def entries(self, kind: str | None = None) -> list[Entry]:
        """All registered things (of one kind), whatever has to be imported for it; built-ins first,
        then the plugins by name, then what scripts have registered.
        """
        self._load_those(lambda manifest: kind is None or any(k == kind for k, _ in manifest.names))
        return self.loaded(kind)

    def loaded(self, kind: str | None = None) -> list[Entry]:
        """The registered things that have been imported by now."""
        found = [e for e in self._entries.values() if kind in (None, e.kind)]
        return sorted(found, key=lambda e: self._rank.get(e.owner, len(self._rank)))

    def names(self) -> list[tuple[str, str, str]]:
        """(kind, name, owner) of everything; imports only the plugins that have no manifest."""
        self._discover()
        found = [(e.kind, e.name, e.owner) for e in self.loaded()]
        for owner, (manifest, _) in self._waiting.items():
            found += [(kind, name, owner) for kind, name in sorted(manifest.names)]
        return found

    def objects(self, kind: str) -> list[Any]:
        """The things of a kind that may matter to a model: those of plugins that serve only
        potentials of their own are left out as long as nobody has imported these.
        """
        self._load_those(lambda manifest: manifest.needed(kind))
        return [e.obj for e in self.loaded(kind)]

    def get(self, kind: str, name: str) -> Any:
        """The object registered as `name`; an unknown name lists the near ones."""
        self._load_those(lambda manifest: (kind, name) in manifest.names)
        entry = self._entries.get((kind, name))
        if entry is not None:
            return entry.obj
        names = sorted(known for its_kind, known, _ in self.names() if its_kind == kind)
        near = difflib.get_close_matches(str(name), names, n=3, cutoff=0.5)
        hint = (
            f"did you mean {', '.join(map(repr, near))}?"
            if near
            else f"registered: {', '.join(names) or 'none'}"
        )
        lost = (
            f" Plugins that failed to load: {', '.join(sorted(self.failures))}."
            if self.failures
            else ""
        )
        raise UnknownNameError(f"no {kind} named {name!r}; {hint}{lost}")


def _hook_names() -> set[str]:
    return {kind.hook for kind in KINDS.values()}


def expected_things() -> str:
    """What can be registered and checked, in words."""
    by_class, by_object = (
        ", ".join(f"gmlearn.{k.base}" for k in KINDS.values() if k.by_class == wanted)
        for wanted in (True, False)
    )
    return f"a class derived from one of {by_class}, or an object derived from one of {by_object}"


def checked_name(kind: str, obj: Any, owner: str) -> str:
    """The name of `obj` if it has what its kind requires, else PluginError with the reason."""
    name = getattr(obj, "name", None)
    if not isinstance(name, str) or not name:
        raise PluginError(
            f"plugin {owner!r}: the {kind} {obj!r} has no `name` (a non-empty string)"
        )
    if isinstance(obj, type) and not KINDS[kind].by_class:
        raise PluginError(
            f"plugin {owner!r}: the {kind} {name!r} is a class; expected an object, "
            f"{obj.__name__}(...)"
        )
    missing = [m for m in KINDS[kind].required if not hasattr(obj, m)]
    if missing:
        raise PluginError(f"plugin {owner!r}: the {kind} {name!r} lacks {', '.join(missing)}")
    return name


registry = Registry()


def register(obj: Any, name: str | None = None) -> None:
    """Register a thing, or a whole plugin module, for this session.

    Parameters
    ----------
    obj : a class or object derived from one of gmlearn's base classes, or a module that implements
        hooks.
    name : the owner's name, for modules; the module's own name by default.
    """
    if getattr(obj, "registry_kind", None) is not None:
        registry.add(obj)
        return
    if any(getattr(obj, hook, None) is not None for hook in _hook_names()):
        registry.entries()
        registry.add_plugin(obj, name or str(getattr(obj, "__name__", type(obj).__name__)))
        return
    registry.add(obj)


def plugins() -> list[Entry]:
    """Everything registered: kind, name, object and owner."""
    return registry.entries()
