"""What executors in other processes have in common: where each shard lives, and what happens
when a worker is lost.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gmlearn.parallel.base import Builder, Executor, arguments
from gmlearn.parallel.host import script_plugins
from gmlearn.parallel.messages import Buffer, dumps, unpack

Answer = list[tuple[str, Buffer]]
#: after so many faults in a row within one call, the work itself is taken to be what ends the
#: workers
MAX_FAULTS = 4


class WorkerLost(RuntimeError):
    """Workers ended again and again within one call."""


class Remote(Executor):
    """Shards on numbered workers. A subclass sends requests and finds new workers; the rest is
    here.

    A lost worker costs its shards: they are built anew on a worker that is there, given the last
    snapshot that was remembered, and the interrupted call is repeated on them (only on them);
    `generation` rises by one.
    """

    def __init__(self) -> None:
        self._builders: list[Builder] = []
        self._snapshots: list[Any] | None = None
        self._place: list[int] = []
        self._closed = False

    # ------------------------------------------------------------------ what a subclass does

    @abstractmethod
    def _slots(self) -> list[int]:
        """Numbers of the workers, each as often as it can run shards at the same time."""

    @abstractmethod
    def _exchange(self, heads: dict[int, bytes], shared: bytes) -> dict[int, Answer | None]:
        """Send each worker its head and the shared part, and wait for all; None from a worker
        that is lost or was replaced.
        """

    @abstractmethod
    def _replace(self, lost: list[int]) -> None:
        """Start or find workers so that `_slots` holds only live ones."""

    # ------------------------------------------------------------------ Executor

    def host(self, builders: Sequence[Builder]) -> None:
        self._check_open()
        slots = self._slots()
        self._builders, self._snapshots = list(builders), None
        self._place = [slots[i % len(slots)] for i in range(len(builders))]
        try:
            self._build(range(len(builders)), fresh=True)
        except BaseException:
            self._builders, self._place = [], []
            raise

    def call(
        self,
        method: str,
        *args: Any,
        only: Sequence[int] | None = None,
        each: Sequence[tuple] | None = None,
    ) -> list[Any]:
        self._check_open()
        calls = arguments(len(self._place), only, each)
        return self._finish(
            len(calls),
            lambda j: self._place[calls[j][0]],
            lambda jobs: ("call", method, [calls[j] for j in jobs]),
            dumps(args),
            f"calling {method!r}",
        )

    def remember(self, snapshots: Sequence[Any] | None) -> None:
        if snapshots is not None and len(snapshots) != len(self._place):
            raise ValueError(
                f"snapshots: expected one for each of the {len(self._place)} shards, got "
                f"{len(snapshots)}"
            )
        self._snapshots = None if snapshots is None else list(snapshots)

    def map(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """As for every executor; item j goes to worker ``j % n_workers``."""
        self._check_open()
        items = list(items)

        def where(job: int) -> int:
            slots = self._slots()
            return slots[job % len(slots)]

        return self._finish(
            len(items),
            where,
            lambda jobs: ("map", [items[j] for j in jobs]),
            dumps((function, script_plugins())),
            "mapping",
        )

    def close(self) -> None:
        self._closed = True
        self._builders = []
        self._snapshots = None
        self._place = []

    # ------------------------------------------------------------------ rounds and faults

    def _finish(
        self,
        n_jobs: int,
        where: Callable[[int], int],
        request: Callable[[list[int]], tuple],
        shared: bytes,
        what: str,
    ) -> list[Any]:
        """Results of the jobs 0, 1, ...; those of lost workers are repeated once the shards are
        back.
        """
        answers: dict[int, tuple[str, Buffer]] = {}
        waiting = list(range(n_jobs))
        for _ in range(MAX_FAULTS):
            got, lost = self._round(waiting, where, request, shared)
            answers |= got
            if not lost:
                return [unpack(answers[j]) for j in range(n_jobs)]
            self._build(self._evacuate(lost))
            waiting = [j for j in waiting if j not in answers]
        raise self._hopeless(what)

    def _build(self, shards: Iterable[int], fresh: bool = False) -> None:
        """Build these shards where they are placed, with their snapshots; `fresh`: all workers
        first drop what they hold.
        """
        waiting, shared = list(shards), dumps(script_plugins())

        def request(jobs: list[int]) -> tuple:
            return (
                "build",
                fresh,
                [
                    (i, self._builders[i], None if self._snapshots is None else self._snapshots[i])
                    for i in jobs
                ],
            )

        for _ in range(MAX_FAULTS if waiting or fresh else 0):
            answers, lost = self._round(
                waiting, self._place.__getitem__, request, shared, everyone=fresh
            )
            for i in waiting:
                if i in answers:
                    unpack(answers[i])
            if not lost:
                return
            waiting = self._evacuate(lost)
        if waiting:
            raise self._hopeless("building shards")

    def _round(
        self,
        jobs: list[int],
        where: Callable[[int], int],
        request: Callable[[list[int]], tuple],
        shared: bytes,
        everyone: bool = False,
    ) -> tuple[dict[int, tuple[str, Buffer]], list[int]]:
        """One request to each worker that has jobs: (outcomes by job, lost workers)."""
        groups: dict[int, list[int]] = {w: [] for w in self._slots()} if everyone else {}
        for job in jobs:
            groups.setdefault(where(job), []).append(job)
        answers = self._exchange({w: dumps(request(js)) for w, js in groups.items()}, shared)
        outcomes: dict[int, tuple[str, Buffer]] = {}
        for w, js in groups.items():
            answer = answers[w]
            if answer is not None:  # one answer to several jobs: the request itself failed
                outcomes.update(zip(js, answer if len(answer) == len(js) else answer * len(js)))
        return outcomes, [w for w in groups if answers[w] is None]

    def _evacuate(self, lost: list[int]) -> list[int]:
        """Find workers in place of the lost ones and give them their shards, which are returned:
        they are not built yet.
        """
        self._replace(lost)
        gone = [i for i, w in enumerate(self._place) if w in lost]
        slots = self._slots()
        load = {w: -slots.count(w) for w in slots}  # a worker with more threads takes more
        for i, w in enumerate(self._place):
            if i not in gone and w in load:
                load[w] += 1
        for i in gone:
            self._place[i] = min(load, key=load.__getitem__)
            load[self._place[i]] += 1
        self.generation += bool(gone)
        return gone

    def _hopeless(self, what: str) -> WorkerLost:
        return WorkerLost(
            f"executor {self.name!r}: workers ended {MAX_FAULTS} times in a row while {what}; the "
            f"work itself may "
            f"end them (out of memory, or a crash in compiled code)"
        )

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(f"the executor {self.name!r} is closed")
