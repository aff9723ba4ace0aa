"""The mutation fuzzer: nothing of ours breaks, and whatever breaks is told."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest

import gmlearn as gm
from gmlearn.registry import registry
from gmlearn.testing import fuzzing

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="cases run in forked children")
POTENTIALS = [e.name for e in registry.entries("potential")]


def test_mutated_files_of_every_potential():
    things = [registry.get("potential", name) for name in POTENTIALS]
    found = gm.testing.fuzz(things, 400, seed=2)
    assert found.failures == []
    assert found.cases == 400 and 40 < found.accepted < 300


@pytest.mark.slow
def test_mutated_files_of_every_potential_long():
    """A million cases; GMLEARN_FUZZ_CASES for another number, a new seed each time."""
    cases = int(os.environ.get("GMLEARN_FUZZ_CASES", 1_000_000))
    things = [registry.get("potential", name) for name in POTENTIALS]
    seed = time.time_ns() % 2**32
    found = gm.testing.fuzz(things, cases, seed=seed)
    print(f"seed {seed}: {found.cases} cases, {found.accepted} of them accepted")
    assert found.failures == []


class Fragile(gm.Block):
    """A potential whose energy trusts `place`, as compiled code would."""

    name = "test-fragile"
    ends = "crash"

    def __init__(self, edges, place=0.5, other=0.25):
        super().__init__(edges)
        self.place, self.other = place, other

    def energy(self, x, w):
        if self.place != 0.5:
            if self.ends == "crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            while self.ends == "hang":
                time.sleep(0.1)
            if self.ends == "raise":
                raise RuntimeError("no such place")
        return np.full(len(self), self.other if self.ends != "wrong" else -1.0)

    @classmethod
    def examples(cls, rng):
        return [(cls([[0, 1]]).bind(np.full(2, 2)), {})]


@pytest.mark.parametrize(
    "ends, told",
    [("crash", "signal 11"), ("hang", "more than 1 s"), ("raise", "RuntimeError: no such place")],
)
def test_what_breaks_is_told(ends, told, monkeypatch):
    registry.add(Fragile)
    monkeypatch.setattr(Fragile, "ends", ends)
    monkeypatch.setattr(fuzzing, "SECONDS", 1)
    found = gm.testing.fuzz([Fragile], 600, most_failures=2)
    assert len(found.failures) >= 2 and found.cases < 600
    assert all(told in failure for failure in found.failures)
    assert "seed 0, case" in found.failures[0] and "test-fragile" in found.failures[0]


def test_a_bound_that_is_none_is_told(monkeypatch):
    """Answers are compared with enumeration."""
    real = fuzzing.solve

    def boast(*args, **options):
        result = real(*args, **options)
        result.bound = result.energy = result.energy - 0.1
        return result

    monkeypatch.setattr(fuzzing, "solve", boast)
    with pytest.raises(AssertionError, match=r"energy|minimum"):
        gm.testing.fuzz([gm.Potts], 1)


def test_what_cannot_be_fuzzed_says_so():
    rows = gm.testing.run_fuzz("hamming", 10)
    assert rows == []
    rows = gm.testing.run_fuzz("pn-potts", 10)  # a slave solver stands for its potential
    assert [(thing, ok) for thing, _, ok, _ in rows] == [("potential pn_potts", True)]
    assert rows[0][3].startswith("10 mutated files")
