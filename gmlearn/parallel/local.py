"""This process and its threads: shards are plain objects here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, ClassVar

from gmlearn.parallel.base import Builder, Executor, arguments


class Serial(Executor):
    """One shard after the other; a call is a plain method call."""

    name: ClassVar[str] = "serial"
    local: ClassVar[bool] = True

    def __init__(self) -> None:
        self._shards: list[Any] = []

    @property
    def shards(self) -> list[Any]:
        return self._shards

    def host(self, builders: Sequence[Builder]) -> None:
        self._shards = []
        self._shards = self.map(_build, builders)

    def call(
        self,
        method: str,
        *args: Any,
        only: Sequence[int] | None = None,
        each: Sequence[tuple] | None = None,
    ) -> list[Any]:
        calls = arguments(len(self._shards), only, each)
        return [getattr(self._shards[i], method)(*args, *further) for i, further in calls]

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        return [function(item) for item in items]

    def close(self) -> None:
        self._shards = []


class Threads(Serial):
    """A pool of threads: the compiled slaves release the interpreter lock."""

    name: ClassVar[str] = "threads"

    def __init__(self, n_jobs: int) -> None:
        super().__init__()
        self.n_workers = n_jobs
        self._pool: ThreadPoolExecutor | None = ThreadPoolExecutor(
            n_jobs, thread_name_prefix="gmlearn"
        )

    def call(
        self,
        method: str,
        *args: Any,
        only: Sequence[int] | None = None,
        each: Sequence[tuple] | None = None,
    ) -> list[Any]:
        calls = arguments(len(self._shards), only, each)
        return self.map(lambda call: getattr(self._shards[call[0]], method)(*args, *call[1]), calls)

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        if self._pool is None:
            raise RuntimeError("the executor 'threads' is closed")
        items = list(items)
        if len(items) == 1:  # nothing to share: a handover would only cost time
            return super().map(function, items)
        futures = [self._pool.submit(function, item) for item in items]
        wait(futures)  # also after an error: no shard may still be at work when the caller goes on
        return [future.result() for future in futures]

    def close(self) -> None:
        super().close()
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)


def _build(builder: Builder) -> Any:
    return builder()
