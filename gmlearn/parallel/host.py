"""The worker's side: a table of shards, and what may be asked of it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gmlearn.parallel.messages import Buffer, dumps, loads, outcome
from gmlearn.registry import PluginWarning, registry


class ShardHost:
    """The shards of one worker. A request is two pickles, so that what all workers share is pickled
    once.

    Requests (`head`, `shared`) and the answers to them, a list of outcomes in the order of the
    request:

    - ("build", fresh, [(shard, builder, snapshot), ...]), plugins: build, and restore if the
      snapshot is not None;
    - ("call", method, [(shard, further arguments), ...]), arguments;
    - ("map", items), (function, plugins).

    The answer None says that a shard is not here: this worker is not the one that it was.
    """

    def __init__(self, n_threads: int = 1) -> None:
        keep_memory()
        self.shards: dict[int, Any] = {}
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None
        self._last: tuple[int, list[tuple[str, Buffer]]] | None = None

    def answer(self, serial: int, head: Buffer, shared: Buffer) -> list[tuple[str, Buffer]] | None:
        """Do what is asked, once: the same serial number again gets the same answer, because
        shards have state.
        """
        if self._last is not None and self._last[0] == serial:
            return self._last[1]
        done: list[tuple[str, Buffer]] | None
        try:
            operation, *rest = loads(head)
            done = getattr(self, f"_{operation}")(*rest, loads(shared))
        # a request that cannot even be unpickled here: say so to the caller
        except Exception as error:
            done = [outcome(_raise, error)]
        self._last = (serial, done) if done is not None else None
        return done

    def _run(
        self, function: Callable[[Any], tuple[str, Buffer]], items: Iterable[Any]
    ) -> list[tuple[str, Buffer]]:
        return list(map(function, items) if self._pool is None else self._pool.map(function, items))

    def _build(
        self,
        fresh: bool,
        builders: list[tuple[int, Callable[[], Any], Any]],
        plugins: list[tuple[bytes, str]],
    ) -> list[tuple[str, Buffer]]:
        if fresh:
            self.shards.clear()
        learn_plugins(plugins)

        def build(index: int, builder: Callable[[], Any], snapshot: Any) -> None:
            shard = builder()
            if snapshot is not None:
                shard.restore(snapshot)
            self.shards[index] = shard

        return self._run(lambda item: outcome(build, *item), builders)

    def _call(
        self, method: str, calls: list[tuple[int, tuple]], args: tuple
    ) -> list[tuple[str, Buffer]] | None:
        if any(index not in self.shards for index, _ in calls):
            return None
        return self._run(lambda c: outcome(getattr(self.shards[c[0]], method), *args, *c[1]), calls)

    def _map(
        self, items: list[Any], shared: tuple[Callable[[Any], Any], list[tuple[bytes, str]]]
    ) -> list[tuple[str, Buffer]]:
        function, plugins = shared
        learn_plugins(plugins)
        return self._run(lambda item: outcome(function, item), items)

    def __del__(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False)


def keep_memory() -> None:
    """Ask the C library to keep freed memory for the next round, instead of giving it back and
    fetching empty pages again.

    Rounds allocate the same arrays again and again; in a fresh process that alone can cost as much
    as the work. Where the C library has no such settings, nothing changes.
    """
    import ctypes

    # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc's malloc.h
    trim_threshold, mmap_threshold = -1, -3
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if mallopt is not None:
        mallopt(mmap_threshold, 1 << 30)
        mallopt(trim_threshold, (1 << 31) - 1)


def script_plugins() -> list[tuple[bytes, str]]:
    """(pickled object, owner) of what this session registered by hand; a worker finds the
    installed plugins by itself.
    """
    from importlib import metadata

    installed = {"core", *(point.name for point in metadata.entry_points(group="gmlearn"))}
    found = []
    for entry in registry.loaded():
        if entry.owner in installed or entry.kind in ("experiment", "format"):
            continue
        try:
            found.append((dumps(entry.obj), entry.owner))
        except Exception as error:  # any object may refuse to be pickled
            warnings.warn(
                f"the {entry.kind} {entry.name!r} cannot be sent to workers, which will not know "
                f"it: "
                f"{type(error).__name__}: {error}",
                PluginWarning,
                stacklevel=2,
            )
    return found


def learn_plugins(plugins: list[tuple[bytes, str]]) -> None:
    """Register here what the calling session has registered."""
    known = {id(e.obj) for e in registry.loaded()} if plugins else set()
    for content, owner in plugins:
        obj = loads(content)
        if id(obj) not in known:
            registry.add(obj, owner)


def _raise(error: Exception) -> None:
    raise error
