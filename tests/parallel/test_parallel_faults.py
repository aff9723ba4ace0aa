"""Workers that end before their time: their shards are rebuilt and the call is repeated on them."""

import os
import signal
import threading

import pytest
from parallel_cases import Counter, builders, square, totals

from gmlearn.parallel import make_executor
from gmlearn.parallel.remote import WorkerLost


def kill_later(pid, seconds):
    timer = threading.Timer(seconds, os.kill, (pid, signal.SIGKILL))
    timer.start()
    return timer


def test_killed_in_the_middle_of_a_call(remote):
    remote.host(builders(5))
    remote.call("add", 10)
    remote.remember(totals(remote))
    remote.call("add", 100)  # not in the snapshot: lost with the worker
    pids = remote.call("pid")
    timer = kill_later(pids[0], 0.3)
    found = remote.call("add_slowly", 1, 0.3)
    timer.join()
    assert found == [(0, 11), (1, 111), (2, 11), (3, 111), (4, 11)]
    assert remote.generation == 1
    assert pids[0] not in remote.call("pid")
    assert totals(remote) == [11, 111, 11, 111, 11]


def test_killed_between_calls_and_nothing_remembered(remote):
    remote.host(builders(4, total=3))
    remote.call("add", 1)
    os.kill(remote.call("pid")[1], signal.SIGKILL)
    assert remote.call("add", 1) == [(0, 5), (1, 4), (2, 5), (3, 4)]
    remote.remember(totals(remote))
    remote.remember(None)
    os.kill(remote.call("pid")[0], signal.SIGKILL)
    found = remote.call("add", 1, only=[0, 1])
    assert found[0] == (0, 4)
    assert remote.generation == 2


def test_killed_by_its_own_work_once(remote, tmp_path):
    remote.host(builders(2))
    assert sorted(remote.call("die_once", str(tmp_path / "flag"), only=[0])) == [(0, 1)]
    assert remote.generation == 1


def test_killed_while_mapping_and_while_building(remote, tmp_path):
    def die_once(item):
        if item == 3 and not (tmp_path / "map").exists():
            (tmp_path / "map").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return square(item)

    def build():
        if not (tmp_path / "build").exists():
            (tmp_path / "build").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return Counter(1)

    assert remote.map(die_once, range(6)) == [0, 1, 4, 9, 16, 25]
    assert remote.generation == 0  # there were no shards to rebuild
    remote.host([*builders(1), build, *builders(3)[2:]])
    assert remote.call("add", 1) == [(0, 1), (1, 1), (2, 1)]


def test_both_workers_killed():
    with make_executor("processes", 2) as executor:
        executor.host(builders(4))
        executor.remember([1, 2, 3, 4])
        for pid in executor.pids:
            os.kill(pid, signal.SIGKILL)
        assert executor.call("add", 1) == [(0, 2), (1, 3), (2, 4), (3, 5)]
        assert executor.generation == 1


def test_work_that_always_kills_is_given_up():
    with make_executor("processes", 2) as executor:
        executor.host(builders(2))
        with pytest.raises(
            WorkerLost, match=r"workers ended 4 times in a row while calling 'die'; .*out of memory"
        ):
            executor.call("die", only=[1])
        assert executor.call("add", 1) == [(0, 1), (1, 1)]
        with pytest.raises(WorkerLost, match="while building shards"):
            executor.host([Counter(0).die])


@pytest.fixture
def interruptible():
    """Ctrl-C is heard, also where the tests run as a shell's background job, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupted_call_leaves_no_stray_answer(interruptible):
    """Ctrl-C while waiting: the answer that nobody took must not be the answer to the next call."""
    with make_executor("processes", 2) as executor:
        executor.host(builders(2))
        executor.remember([5, 6])
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            # far longer than the timer, however busy the machine is
            executor.call("add_slowly", 1, 20.0)
        timer.join()
        assert executor.call("snapshot") == [5, 6]
        assert executor.generation == 1


def test_a_cluster_of_which_one_worker_is_left(cluster):
    """Shards move to the survivor at once: nobody waits for a new worker."""
    with make_executor(cluster) as executor:
        executor.host(builders(4))
        executor.remember(totals(executor))
        for _ in range(2):
            os.kill(executor.call("pid")[0], signal.SIGKILL)
            assert executor.call("add", 1, only=[0]) == [(0, 1)]
        assert executor.generation == 2
