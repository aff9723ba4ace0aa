"""This process and its threads. Results come back in the order of the items, whatever finished first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gmlearn._utils.validation import check_number


class Executor:
    """Applies a function to every item and returns the results in the items' order."""

    def map(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        return [function(item) for item in items]

    def close(self) -> None:
        """End whatever was started."""
        return None


class Serial(Executor):
    """One item after the other."""


class Threads(Executor):
    """A pool of threads: the compiled slaves release the interpreter lock."""

    def __init__(self, n_jobs: int):
        self._pool = ThreadPoolExecutor(max_workers=n_jobs)

    def map(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        return list(self._pool.map(function, items))

    def close(self) -> None:
        self._pool.shutdown(wait=True)


def make_executor(n_jobs: int = 1) -> Executor:
    """Serial for one job, else that many threads (-1: all cores)."""
    import os

    check_number("n_jobs", n_jobs, low=-1, integer=True)
    if n_jobs == 0:
        raise ValueError("n_jobs: expected -1 (all cores) or at least 1, got 0")
    n_jobs = (os.cpu_count() or 1) if n_jobs == -1 else n_jobs
    return Serial() if n_jobs == 1 else Threads(n_jobs)
