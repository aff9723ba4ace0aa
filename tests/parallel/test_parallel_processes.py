"""Worker processes: scripts without ceremony, nothing left behind, one thread each."""

import os
import subprocess
import sys
import textwrap
import time

import pytest
from parallel_cases import builders, square

from gmlearn.parallel import make_executor


def run(code, *flags):
    done = subprocess.run(
        [sys.executable, *flags, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def alive(pid):
    """Is there such a process? A zombie counts."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def gone(pid, seconds=10.0):
    deadline = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(pid)


SCRIPT = """
    import numpy as np
    import gmlearn as gm
    from gmlearn.parallel import make_executor

    class Mine:
        def __init__(self, start): self.start = start
        def value(self, other): return Mine(self.start + other.start)
        def fail(self): raise Failure(f"start {self.start}")

    class Failure(Exception): pass

    class HalfHamming(gm.Hamming):
        name = "half hamming"

    gm.register(HalfHamming)

    def build(): return Mine(3)
    def loss_name(_): return gm.plugins() and __import__("gmlearn.registry").registry.registry.get("loss", "half hamming").name

    executor = make_executor("processes", 2)
    executor.host([build, lambda: Mine(4)])
    found = executor.call("value", Mine(10))
    assert [type(f) is Mine for f in found] == [True, True]
    print([f.start for f in found])
    print(executor.map(loss_name, [1, 2, 3]))
    try:
        executor.call("fail")
    except Failure as error:
        print(error)
"""


def test_what_a_script_defines_and_registers_is_known_to_workers_and_not_closing_is_no_fault(
    tmp_path,
):
    """The script has no guard, and never closes its executor."""
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT + "\n    print(*executor.pids)"))
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    values, names, failure, pids = done.stdout.strip().split("\n")
    assert (values, names, failure) == ("[13, 14]", str(["half hamming"] * 3), "start 3")
    assert all(gone(int(pid)) for pid in pids.split())


def test_workers_end_and_tidy_up_when_the_parent_is_killed(tmp_path):
    code = f"""
    import os, signal, tempfile, time
    from gmlearn.parallel import make_executor
    class Shard:
        def __init__(self): self.folder = tempfile.TemporaryDirectory(dir={str(tmp_path)!r})
        def sleep(self, seconds): time.sleep(seconds)
    executor = make_executor("processes", 2)
    executor.host([Shard, Shard])
    print(*executor.pids, flush=True)
    import threading
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
    executor.call("sleep", 60)
    """
    parent = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60
    )
    assert parent.returncode == -9
    assert len(parent.stdout.split()) == 2
    assert all(gone(int(pid)) for pid in parent.stdout.split())  # though they had 60 s of work
    assert list(tmp_path.iterdir()) == []


def test_shards_tidy_up_when_the_executor_is_closed(tmp_path):
    import functools
    import tempfile

    with make_executor("processes", 2) as executor:
        executor.host([functools.partial(tempfile.TemporaryDirectory, dir=tmp_path)] * 3)
        assert len(list(tmp_path.iterdir())) == 3
    assert list(tmp_path.iterdir()) == []


def test_closed_workers_are_gone_and_not_zombies():
    with make_executor("processes", 2) as executor:
        executor.host(builders(2))
        pids = executor.pids
        assert len(pids) == 2 and all(alive(pid) for pid in pids)
    assert not any(alive(pid) for pid in pids)


def test_replaced_workers_are_not_zombies_either():
    with make_executor("processes", 1) as executor:
        executor.host(builders(1))
        (old,) = executor.pids
        os.kill(old, 9)
        assert executor.call("add", 1) == [(0, 1)]
        assert not alive(old)


def test_an_executor_that_is_dropped_ends_its_workers():
    executor = make_executor("processes", 1)
    assert executor.map(square, [3]) == [9]
    (pid,) = executor.pids
    del executor
    assert gone(pid)


def test_linear_algebra_has_one_thread_in_a_worker():
    def threads(_):
        import numpy  # noqa: F401
        import threadpoolctl

        return [pool["num_threads"] for pool in threadpoolctl.threadpool_info()]

    with make_executor("processes", 1) as executor:
        assert set(executor.map(threads, [0])[0]) == {1}


def test_workers_are_started_when_they_are_needed():
    with make_executor("processes", 2) as executor:
        assert executor.pids == []
        executor.map(square, [1])
        assert len(executor.pids) == 2


def test_import_is_light():
    heavy = (
        "multiprocessing",
        "subprocess",
        "distributed",
        "dask",
        "cloudpickle",
        "concurrent.futures.process",
    )
    out, _ = run(f"import sys, gmlearn\nprint([m for m in {heavy!r} if m in sys.modules])")
    assert out.strip() == "[]"
    out, _ = run(f"import sys, gmlearn.parallel\nprint([m for m in {heavy!r} if m in sys.modules])")
    assert out.strip() == "[]"


def test_what_cannot_be_sent_is_said_before_anything_is_done():
    import threading

    with make_executor("processes", 1) as executor:
        executor.host(builders(1))
        with pytest.raises(TypeError, match="pickle"):
            executor.call("add", threading.Lock())
        assert executor.call("add", 1) == [(0, 1)]
