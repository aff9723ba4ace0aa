"""A shard that counts, sleeps, fails and dies on demand."""

from __future__ import annotations

import os
import signal
import time
from functools import partial

from gmlearn.parallel import Executor


class Counter:
    """The sum of what it was given; `restore` takes the sum of a lost one."""

    def __init__(self, index: int, total: int = 0):
        self.index, self.total = index, total

    def add(self, *values):
        self.total += sum(values)
        return self.index, self.total

    def add_slowly(self, value, seconds):
        time.sleep(seconds)
        return self.add(value)

    def snapshot(self):
        return self.total

    def restore(self, total):
        self.total = total

    def pid(self):
        return os.getpid()

    def die(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def die_once(self, flag):
        """The worker is killed unless the file is there already."""
        if not os.path.exists(flag):
            open(flag, "w").close()
            self.die()
        return self.add(1)

    def fail(self, which):
        if self.index in which:
            raise KeyError(f"shard {self.index} of {which}")
        return self.index


class Odd(Exception):
    """Cannot be rebuilt from its args, as many exceptions of real libraries."""

    def __init__(self, place, *, reason):
        super().__init__(f"{place}: {reason}")
        self.place = place


def builders(n: int, total: int = 0):
    return [partial(Counter, i, total) for i in range(n)]


def totals(executor: Executor) -> list[int]:
    return executor.call("snapshot")


def square(x):
    return x * x


def raise_odd(x):
    raise Odd("here", reason=x)


def refuse(message):
    raise ValueError(message)
