"""What an executor is: a place that holds shards, objects that are built on a worker, stay
there, and are called.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

Builder = Callable[[], Any]


class Executor(ABC):
    """Holds shards and calls them, on workers that may be this process, its threads, other
    processes or other machines.

    Per-shard state stays with the shard: only arguments go out and results come back, one round
    trip for each worker and call.

    Attributes
    ----------
    name : how `make_executor` knows it.   local : shards live in this process, see `shards`.
    n_workers : how many shards can run at the same time.
    generation : rises by one whenever shards had to be rebuilt because a worker was lost.
    """

    name: ClassVar[str] = ""
    local: ClassVar[bool] = False
    n_workers: int = 1
    generation: int = 0

    @property
    def shards(self) -> list[Any]:
        """The shard objects themselves, where they live in this process."""
        raise AttributeError(
            f"the shards of the executor {self.name!r} live in other processes; use call()"
        )

    @abstractmethod
    def host(self, builders: Sequence[Builder]) -> None:
        """Build shard i by ``builders[i]()`` on worker ``i % n_workers``, in place of all earlier
        shards.

        The first exception, by order of the shards, comes through with its type and message; then
        there are no shards.
        """

    @abstractmethod
    def call(
        self,
        method: str,
        *args: Any,
        only: Sequence[int] | None = None,
        each: Sequence[tuple] | None = None,
    ) -> list[Any]:
        """``shard.method(*args, *each[j])`` on the j-th of the shards `only` (all of them by
        default), results in that order.

        All of them run to their end; then the first exception, by that order, is raised with its
        type and message.
        """

    def remember(self, snapshots: Sequence[Any] | None) -> None:
        """What ``shard.restore(snapshots[i])`` is given when shard i is rebuilt on another
        worker; None: its builder alone.
        """
        return None

    @abstractmethod
    def map(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """``function(item)`` for every item, in the items' order."""

    @abstractmethod
    def close(self) -> None:
        """Drop the shards and end whatever was started; may be called again."""

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_workers})"


def arguments(
    n_shards: int, only: Sequence[int] | None, each: Sequence[tuple] | None
) -> list[tuple[int, tuple]]:
    """(shard, its further arguments) of a call, checked."""
    chosen = list(range(n_shards)) if only is None else [int(i) for i in only]
    outside = [i for i in chosen if not 0 <= i < n_shards]
    if outside:
        raise ValueError(f"only: expected shards in 0..{n_shards - 1}, got {outside[0]}")
    if each is None:
        return [(i, ()) for i in chosen]
    if len(each) != len(chosen):
        raise ValueError(f"each: expected arguments for {len(chosen)} shards, got {len(each)}")
    return [(i, tuple(further)) for i, further in zip(chosen, each)]
