"""Executors by name."""

from __future__ import annotations

import os
from typing import Any

from gmlearn._utils.validation import check_choice, check_number
from gmlearn.parallel.base import Executor
from gmlearn.parallel.local import Serial, Threads

NAMES = ("auto", "serial", "threads", "processes", "dask")


def make_executor(executor: Any = "auto", n_jobs: int = 1, scheduler: Any = None) -> Executor:
    """The executor of a name, or the one that is given.

    Parameters
    ----------
    executor : "serial"; "threads"; "processes" on this machine; "dask"; "auto": Dask if a scheduler
        is given, else serial for one job and threads for more. Or an `Executor`, returned as it is,
        or a ``distributed.Client``.
    n_jobs : threads or processes (-1: all cores). A Dask cluster has as many as it has.
    scheduler : address ("tcp://host:8786") or ``distributed.Client``, for "dask"; None: the current
        client, or else `n_jobs` Dask workers on this machine.
    """
    if isinstance(executor, Executor):
        return executor
    if not isinstance(executor, str) and _is_client(executor):
        executor, scheduler = "dask", executor
    check_choice("executor", executor, NAMES)
    n_jobs = count_jobs(n_jobs)
    if executor == "auto":
        executor = "dask" if scheduler is not None else "serial" if n_jobs == 1 else "threads"
    if executor == "dask":
        return _dask(scheduler, n_jobs)
    if scheduler is not None:
        raise ValueError(f"scheduler: only the executor 'dask' has one, got executor={executor!r}")
    if executor == "processes":
        from gmlearn.parallel.processes import Processes

        return Processes(n_jobs)
    return Serial() if executor == "serial" else Threads(n_jobs)


def count_jobs(n_jobs: int) -> int:
    """`n_jobs`, or the number of cores for -1."""
    check_number("n_jobs", n_jobs, low=-1, integer=True)
    if n_jobs == 0:
        raise ValueError("n_jobs: expected -1 (all cores) or at least 1, got 0")
    return (os.cpu_count() or 1) if n_jobs == -1 else int(n_jobs)


def _is_client(obj: Any) -> bool:
    """Told by its name, so that distributed is not imported to find out."""
    return any(
        c.__module__.split(".")[0] == "distributed" and c.__name__ == "Client"
        for c in type(obj).__mro__
    )


def _dask(scheduler: Any, n_jobs: int) -> Executor:
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "executor: 'dask' needs the package distributed; pip install 'gmlearn[dask]'"
        ) from error
    from gmlearn.parallel.cluster import Dask

    return Dask(scheduler, n_jobs)
