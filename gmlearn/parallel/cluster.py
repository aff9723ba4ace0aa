"""A Dask cluster: shards on the workers of a ``distributed`` scheduler, here or on other machines.

Each worker holds one `ShardHost`. It is a Dask *actor*, so the cluster frees it as soon as this
client is gone, however that happens, and never spills it to disk. It is asked by ordinary tasks
that are bound to its worker, not by the actor's own methods: a call to a lost actor may wait for
ever, a task can be watched and let go.
"""

from __future__ import annotations

import logging
import time
import uuid
import weakref
from typing import Any, ClassVar

import dask
import distributed
import numpy as np

from gmlearn.parallel.host import ShardHost
from gmlearn.parallel.messages import Buffer
from gmlearn.parallel.remote import Answer, Remote

#: how long to wait for a scheduler, and for a worker where there is none, in seconds
PATIENCE = 60.0
#: how often to ask whether the workers are still there, in seconds
POLL = 0.5
#: what the scheduler says of a task whose workers ended
_KILLED = distributed.KilledWorker
#: hosts in this process by (executor, worker): several workers may be threads of one process
_HOSTS: weakref.WeakValueDictionary[tuple[str, str], ShardHost] = weakref.WeakValueDictionary()


class Dask(Remote):
    """Shards on a Dask cluster; a worker with several threads runs as many of its shards at once.

    Parameters
    ----------
    scheduler : address, ``distributed.Client``, or None: the current client, or else workers on
        this machine that end with the executor. A client that is given stays open.
    n_jobs : how many such workers.

    Notes
    -----
    Shards of a lost worker move to the workers that are left. Workers that join later are used from
    the next `host` on.
    """

    name: ClassVar[str] = "dask"

    def __init__(self, scheduler: Any = None, n_jobs: int = 1) -> None:
        super().__init__()
        self._token, self._serial = uuid.uuid4().hex, 0
        self._hosts: dict[int, distributed.Future] = {}
        self._addresses: dict[int, str] = {}
        self._threads: dict[int, int] = {}
        self._client, own = _client(scheduler, n_jobs)
        self._end = weakref.finalize(self, _end, self._client, own, self._hosts)
        try:
            self._client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            client = repr(self._client)
            self.close()
            raise TimeoutError(
                f"scheduler: no worker has joined in {PATIENCE:g} s: {client}"
            ) from None
        self._find_workers()

    def host(self, builders: Any) -> None:
        self._check_open()
        self._find_workers()
        super().host(builders)

    def _find_workers(self) -> None:
        """Forget workers that left, number those that joined, and open a host on each."""
        deadline = time.monotonic() + PATIENCE
        while not (present := self._present()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the Dask cluster has had no worker for {PATIENCE:g} s")
            time.sleep(0.2)
        for w, address in list(self._addresses.items()):
            if address not in present:
                self._forget(w)
        for address in sorted(present.keys() - set(self._addresses.values())):
            w = max(self._addresses, default=-1) + 1
            self._addresses[w], self._threads[w] = address, present[address]
            self._hosts[w] = self._client.submit(
                _open,
                self._token,
                present[address],
                workers=[address],
                actor=True,
                pure=False,
                key=f"gmlearn-host-{self._token}-{uuid.uuid4().hex}",
            )
        self.n_workers = len(self._slots())

    def _present(self) -> dict[str, int]:
        """Threads of each worker that the scheduler has now, by address."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        return {address: info["nthreads"] for address, info in workers.items()}

    def _forget(self, w: int) -> None:
        del self._addresses[w], self._threads[w]
        self._hosts.pop(w).release()

    # ------------------------------------------------------------------ Remote

    def _slots(self) -> list[int]:
        rounds = max(self._threads.values())
        return [w for r in range(rounds) for w, n in self._threads.items() if n > r]

    def _exchange(self, heads: dict[int, bytes], shared: bytes) -> dict[int, Answer | None]:
        self._serial += 1
        lost = self._watch({w: self._hosts[w] for w in heads})
        # shards travel once, and not back
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            futures = {
                w: self._client.submit(
                    _ask,
                    self._token,
                    self._serial,
                    _array(head),
                    _array(shared),
                    pure=False,
                    retries=0,
                    workers=[self._addresses[w]],
                    key=f"gmlearn-ask-{self._token}-{self._serial}-{w}",
                )
                for w, head in heads.items()
                if w not in lost
            }
        lost |= self._watch(futures)
        answers = self._fetch({w: future for w, future in futures.items() if w not in lost})
        return {w: answers.get(w) for w in heads}

    def _watch(self, futures: dict[int, distributed.Future]) -> set[int]:
        """Wait for tasks that are bound to their workers: those of workers that left, which
        would wait for ever.
        """
        lost: set[int] = set()
        while pending := [f for w, f in futures.items() if w not in lost and not f.done()]:
            try:
                # wait() asks the default client, which may be another or none
                with self._client.as_current():
                    distributed.wait(pending, timeout=POLL)
            except TimeoutError:
                lost |= self._gone(futures)
        return lost

    def _fetch(self, futures: dict[int, distributed.Future]) -> dict[int, Answer | None]:
        """Results of finished tasks, except of workers that leave before they have sent them."""
        patience = 10 * POLL
        while True:
            futures = {
                w: f
                for w, f in futures.items()
                if f.status != "error" or not isinstance(f.exception(), _KILLED)
            }
            try:
                results = self._client.sync(
                    self._gather, list(futures.values()), callback_timeout=patience
                )
                return dict(zip(futures, results))
            # a large answer on a slow line, or a worker that left: the first gets more time
            except TimeoutError:
                patience *= 2
                lost = self._gone(futures)
                futures = {w: f for w, f in futures.items() if w not in lost}

    async def _gather(self, futures: list[distributed.Future]) -> list[Answer | None]:
        return await self._client.gather(futures, asynchronous=True)

    def _gone(self, futures: dict[int, distributed.Future]) -> set[int]:
        present = self._present()
        return {w for w in futures if self._addresses[w] not in present}

    def _replace(self, lost: list[int]) -> None:
        for w in lost:
            self._forget(w)  # also one that is there again under its old address: its host is not
        self._find_workers()

    def close(self) -> None:
        super().close()
        self._end()


def _client(scheduler: Any, n_jobs: int) -> tuple[distributed.Client, list[Any]]:
    """(client, what was started here and must be closed, in that order)."""
    if scheduler is None:
        try:
            return distributed.Client.current(), []
        except ValueError:  # there is none
            cluster = distributed.LocalCluster(
                n_workers=n_jobs,
                threads_per_worker=1,
                processes=True,
                dashboard_address=":0",
                # workers that leave are dealt with here
                silence_logs=logging.ERROR,
            )
            client = distributed.Client(cluster, set_as_default=False)
            return client, [client, cluster]
    if isinstance(scheduler, distributed.Client):
        if scheduler.asynchronous:
            raise ValueError(
                "scheduler: expected a synchronous distributed.Client, got one with "
                "asynchronous=True"
            )
        return scheduler, []
    if not isinstance(scheduler, str):
        raise ValueError(
            f"scheduler: expected an address or a distributed.Client, got "
            f"{type(scheduler).__name__}"
        )
    try:
        client = distributed.Client(scheduler, timeout=PATIENCE / 4, set_as_default=False)
    except (OSError, ValueError) as error:
        raise OSError(f"scheduler: no Dask scheduler answers at {scheduler!r} ({error})") from None
    return client, [client]


def _end(client: distributed.Client, own: list[Any], hosts: dict[int, distributed.Future]) -> None:
    """Let the cluster free the shards; a closed client has done so already."""
    if client.status == "running":
        for host in hosts.values():
            host.release()
    hosts.clear()
    for started in own:
        started.close()


# ---------------------------------------------------------------------- on the worker


def _open(token: str, n_threads: int) -> ShardHost:
    host = ShardHost(n_threads)
    _HOSTS[token, distributed.get_worker().address] = host
    return host


def _ask(token: str, serial: int, head: np.ndarray, shared: np.ndarray) -> Answer | None:
    host = _HOSTS.get((token, distributed.get_worker().address))
    answer = None if host is None else host.answer(serial, head, shared)
    return None if answer is None else [(kind, _array(content)) for kind, content in answer]


def _array(content: Buffer) -> np.ndarray:
    """Bytes as Dask moves them without copies: three times as fast as bytes objects, at 8 MB."""
    return np.frombuffer(content, np.uint8)
