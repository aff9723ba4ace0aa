"""Processes on this machine, for work that holds the interpreter lock."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import weakref
from multiprocessing import Pipe
from typing import ClassVar

from gmlearn.parallel.messages import loads
from gmlearn.parallel.remote import Answer, Remote

#: one thread each for the linear algebra in a worker: the processes are the parallelism
ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMBA_NUM_THREADS",
    ),
    "1",
)
#: how long an idle worker may take to end by itself, in seconds
PATIENCE = 2.0


class Worker:
    """A process and the socket to it.

    It is a fresh interpreter, so scripts need no ``if __name__ == "__main__"``.
    """

    def __init__(self) -> None:
        self.connection, theirs = Pipe()
        path = os.pathsep.join(p or os.getcwd() for p in sys.path)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gmlearn.parallel.worker", str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
        )
        theirs.close()

    def send(self, head: bytes, shared: bytes) -> bool:
        """Is it there to be asked?"""
        try:
            self.connection.send_bytes(head)
            self.connection.send_bytes(shared)
        except OSError:  # its end is closed: it is gone
            return False
        return True

    def receive(self) -> Answer | None:
        try:
            return loads(self.connection.recv_bytes())
        except (EOFError, OSError):
            return None

    def kill(self) -> None:
        """End it now, and leave no zombie."""
        self.connection.close()
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """Let it end, it does when the socket is closed; else end it."""
        self.connection.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE)
        self.kill()


class Processes(Remote):
    """Worker processes that are started at the first use and replaced when they end before their
    time.

    What is sent must be picklable by cloudpickle, which includes functions and classes of the
    script itself.
    """

    name: ClassVar[str] = "processes"

    def __init__(self, n_jobs: int) -> None:
        if os.name != "posix":
            raise ValueError("executor: 'processes' needs a POSIX system; use 'threads' or 'dask'")
        super().__init__()
        self.n_workers = n_jobs
        self._workers: list[Worker] = []
        self._end = weakref.finalize(self, _end_all, self._workers, os.getpid())

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return [worker.process.pid for worker in self._workers]

    def _slots(self) -> list[int]:
        while len(self._workers) < self.n_workers:
            self._workers.append(Worker())
        return list(range(self.n_workers))

    def _exchange(self, heads: dict[int, bytes], shared: bytes) -> dict[int, Answer | None]:
        answers: dict[int, Answer | None] = {}
        try:
            sent = [w for w, head in heads.items() if self._workers[w].send(head, shared)]
            for w in heads:
                answers[w] = self._workers[w].receive() if w in sent else None
        # interrupted: an answer that nobody takes would be taken for the next one
        except BaseException:
            for w in heads:
                if w not in answers:
                    self._workers[w].kill()
            raise
        return answers

    def _replace(self, lost: list[int]) -> None:
        for w in lost:
            self._workers[w].kill()
            self._workers[w] = Worker()

    def close(self) -> None:
        super().close()
        self._end()


def _end_all(workers: list[Worker], owner: int) -> None:
    # a fork of this process has copies of the handles, but they are not its own
    if os.getpid() == owner:
        for worker in workers:
            worker.connection.close()
        for worker in workers:
            worker.end()
        workers.clear()
