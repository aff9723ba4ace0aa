"""One interface: every executor gives the same results, in the same order, with the same errors."""

import functools
import gc
import threading

import numpy as np
import pytest
from parallel_cases import Odd, builders, raise_odd, refuse, square, totals

from gmlearn.io import FormatError
from gmlearn.parallel import Executor, Serial, Threads, make_executor


def test_shards_keep_their_state_and_answer_in_order(executor):
    executor.host(builders(5))
    assert executor.call("add", 1) == [(i, 1) for i in range(5)]
    assert executor.call("add", 1, only=[3, 0]) == [(3, 2), (0, 2)]
    assert executor.call("add", 1, each=[(10 * i,) for i in range(5)]) == [
        (0, 3),
        (1, 12),
        (2, 22),
        (3, 33),
        (4, 42),
    ]
    assert executor.call("add", only=[4, 1], each=[(1, 2), (3,)]) == [(4, 45), (1, 15)]
    assert totals(executor) == [3, 15, 22, 33, 45]
    assert executor.generation == 0
    assert executor.call("add", 1, only=[]) == []


def test_the_slowest_does_not_change_the_order(executor):
    executor.host(builders(3))
    assert executor.call("add_slowly", 1, each=[(0.1,), (0.0,), (0.05,)]) == [
        (0, 1),
        (1, 1),
        (2, 1),
    ]


def test_new_shards_replace_the_old_ones(executor):
    executor.host(builders(4, total=7))
    executor.host(builders(2))
    assert totals(executor) == [0, 0]
    with pytest.raises(ValueError, match=r"only: expected shards in 0\.\.1, got 2"):
        executor.call("snapshot", only=[2])
    with pytest.raises(ValueError, match="each: expected arguments for 2 shards, got 1"):
        executor.call("add", each=[(1,)])


def test_the_first_error_by_order_is_raised_as_it_was_and_the_shards_live_on(executor):
    executor.host(builders(5))
    with pytest.raises(KeyError) as caught:
        executor.call("fail", [1, 3, 4])
    assert type(caught.value) is KeyError
    assert caught.value.args == ("shard 1 of [1, 3, 4]",)
    if not executor.local:
        assert "in fail" in caught.value.__notes__[0]
    assert executor.call("add", 1) == [(i, 1) for i in range(5)]
    with pytest.raises(AttributeError, match="no_such"):
        executor.call("no_such")


def test_a_builder_that_fails(executor):
    with pytest.raises(ValueError, match="no shard today"):
        executor.host([*builders(1), functools.partial(refuse, "no shard today")])
    assert executor.call("snapshot") == []
    executor.host(builders(1))
    assert totals(executor) == [0]


@pytest.mark.parametrize(
    "error",
    [
        functools.partial(Odd, "here", reason="there"),
        functools.partial(FormatError, "a.uai", "a number", "a word", 3),
        functools.partial(FileNotFoundError, 2, "No such file", "x.npz"),
        functools.partial(UnicodeDecodeError, "utf-8", b"x", 0, 1, "bad"),
    ],
    ids=lambda error: error.func.__name__,
)
def test_errors_that_cannot_be_rebuilt_from_their_args(executor, error):
    with pytest.raises(error.func) as caught:
        executor.map(_raise, [error])
    assert type(caught.value) is error.func
    assert str(caught.value) == str(error())
    for name in ("place", "line", "filename"):
        assert getattr(caught.value, name, None) == getattr(error(), name, None)


def test_an_error_that_cannot_be_sent_says_so(remote):
    with pytest.raises(
        RuntimeError, match=r"Local: held \(not sent as it was: TypeError: cannot pickle"
    ):
        remote.map(_raise_local, [1])


def _raise(error):
    raise error()


def _raise_local(_):
    class Local(Exception):
        lock = threading.Lock()

    raise Local("held")


def test_map(executor):
    assert executor.map(square, range(7)) == [x * x for x in range(7)]
    assert executor.map(square, []) == []
    assert executor.map(lambda x: x + 1, (1, 2)) == [2, 3]
    found = executor.map(lambda n: np.arange(n), [100_000, 3])
    assert found[0].sum() == 4_999_950_000 and found[1].tolist() == [0, 1, 2]
    with pytest.raises(Odd, match="here: 1"):
        executor.map(raise_odd, [1, 2])


def test_map_leaves_the_shards_alone(executor):
    executor.host(builders(2))
    executor.call("add", 5)
    executor.map(square, [1, 2, 3])
    assert totals(executor) == [5, 5]


def test_large_messages(executor):
    """Larger than any buffer of a pipe, both ways at once."""
    executor.host([Echo, Echo, Echo])
    content = np.random.default_rng(0).random(300_000)
    for found in executor.call("echo", content):
        np.testing.assert_array_equal(found, content)


class Echo:
    def echo(self, content):
        return content


def test_names_and_workers(executor):
    assert executor.name in ("serial", "threads", "processes", "dask")
    assert executor.local == (executor.name in ("serial", "threads"))
    assert executor.n_workers == (1 if executor.name == "serial" else 2)
    executor.host(builders(3))
    if executor.local:
        assert [shard.index for shard in executor.shards] == [0, 1, 2]
    else:
        pids = executor.call("pid")
        assert pids[0] == pids[2] != pids[1]
        with pytest.raises(AttributeError, match="live in other processes"):
            executor.shards  # noqa: B018


def test_close_twice_and_use_after_it(executor):
    executor.host(builders(2))
    executor.close()
    executor.close()
    if executor.name != "serial":
        with pytest.raises(RuntimeError, match=f"the executor '{executor.name}' is closed"):
            executor.map(square, [1])


def test_snapshots_are_counted(remote):
    remote.host(builders(3))
    with pytest.raises(ValueError, match="snapshots: expected one for each of the 3 shards, got 2"):
        remote.remember([1, 2])


def test_no_thread_is_left():
    before = threading.active_count()
    with make_executor("threads", 3) as threads:
        threads.host(builders(6))
        assert threads.call("add", 1)[5] == (5, 1)
    gc.collect()
    assert threading.active_count() == before


class Forever(Executor):
    """What someone else's executor has to bring."""

    name = "forever"

    def host(self, builders): ...
    def call(self, method, *args, only=None, each=None): ...
    def map(self, function, items): ...
    def close(self): ...


def test_make_executor(monkeypatch):
    mine = Forever()
    assert make_executor(mine) is mine
    assert (
        type(make_executor())
        is Serial
        is type(make_executor("auto", 1))
        is type(make_executor("serial", 4))
    )
    with make_executor("auto", 2) as threads:
        assert type(threads) is Threads and threads.n_workers == 2
    with make_executor("processes", -1) as processes:
        assert processes.n_workers >= 1
    with pytest.raises(
        ValueError,
        match="executor: expected one of 'auto', 'serial', 'threads', 'processes', 'dask', got "
        "'two'",
    ):
        make_executor("two")
    with pytest.raises(
        ValueError, match="scheduler: only the executor 'dask' has one, got executor='threads'"
    ):
        make_executor("threads", 2, "tcp://127.0.0.1:1")
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'gmlearn\[dask\]'"):
        make_executor("dask", scheduler="tcp://127.0.0.1:1")
