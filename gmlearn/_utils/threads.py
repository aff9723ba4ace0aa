"""Calls that may take longer than anybody wants to wait, and threads that nobody asked for."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, TypeVar

T = TypeVar("T")


def one_blas_thread() -> AbstractContextManager:
    """A context where BLAS uses one thread."""
    return _libraries(len(sys.modules)).limit(limits=1, user_api="blas")


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> Any:
    """What is loaded; looked for again (a millisecond) once further modules are."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def in_thread(work: Callable[[], T], seconds: float = float("inf")) -> T | None:
    """`work()`, done in a daemon thread, or None if that takes longer than `seconds`.

    For calls of libraries that take an hour and look at no clock (HiGHS): Ctrl-C reaches the
    waiting thread at once. Work that is not waited for is left to itself, and ends with the
    process.
    """
    answer: list[T] = []
    failure: list[BaseException] = []

    def guarded() -> None:
        try:
            answer.append(work())
        except BaseException as error:  # carried over to the waiting thread
            failure.append(error)

    until = time.monotonic() + seconds
    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    while thread.is_alive() and time.monotonic() < until:
        # with a timeout, because a plain join cannot be interrupted on all systems
        thread.join(max(0.0, min(0.1, until - time.monotonic())))
    if failure:
        raise failure[0]
    return answer[0] if answer else None
