"""A Dask cluster: by address or client, with threads, without workers, and what it keeps of us."""

import gc
import subprocess
import sys
import time

import pytest
from parallel_cases import builders, totals

from gmlearn.parallel import make_executor

distributed = pytest.importorskip("distributed")


def hosts_of(client):
    def count():
        import gc

        from gmlearn.parallel import cluster

        gc.collect()
        return len(cluster._HOSTS)

    return sum(client.run(count).values())


def test_by_address_and_by_the_current_client(cluster):
    for arguments in ({"scheduler": cluster.scheduler.address}, {}, {"scheduler": cluster}):
        with make_executor("dask", **arguments) as executor:
            executor.host(builders(3))
            assert totals(executor) == [0, 0, 0]
        assert cluster.status == "running"  # ours stays open
    with make_executor(scheduler=cluster.scheduler.address) as executor:
        assert executor.name == "dask" and executor.n_workers == 2


def held(cluster):
    """How many results and actors each worker holds; tracebacks of time-outs may hold futures."""
    gc.collect()
    counts = cluster.run(lambda dask_worker: len(dask_worker.data) + len(dask_worker.state.actors))
    return list(counts.values())


def test_the_cluster_forgets_closed_and_dropped_executors(cluster):
    executor = make_executor(cluster)
    executor.host(builders(3))
    assert hosts_of(cluster) == 2
    executor.close()
    executor = make_executor(cluster)
    executor.host(builders(3))
    del executor
    deadline = time.monotonic() + 10
    while (hosts_of(cluster) or any(held(cluster))) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert hosts_of(cluster) == 0
    assert held(cluster) == [0] * len(cluster.scheduler_info()["workers"])


def test_a_worker_with_threads_runs_as_many_shards_at_once():
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=3, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        make_executor(client) as executor,
    ):
        assert executor.n_workers == 3
        executor.host(builders(3))
        start = time.monotonic()
        executor.call("add_slowly", 1, 0.5)
        assert time.monotonic() - start < 1.2
        assert totals(executor) == [1, 1, 1]


def test_a_request_that_is_run_again_is_done_once(cluster):
    """The scheduler may run a task again whose result was lost on the way."""
    from gmlearn.parallel.host import ShardHost
    from gmlearn.parallel.messages import dumps, unpack

    host = ShardHost()
    host.answer(1, dumps(("build", True, [(0, builders(1)[0], 5)])), dumps([]))
    first, again = (
        host.answer(2, dumps(("call", "add", [(0, ())])), dumps((1,))) for _ in range(2)
    )
    assert unpack(first[0]) == unpack(again[0]) == (0, 6)
    assert unpack(host.answer(3, dumps(("call", "add", [(0, ())])), dumps((1,)))[0]) == (0, 7)
    assert host.answer(4, dumps(("call", "add", [(1, ())])), dumps((1,))) is None


def test_bad_schedulers(monkeypatch):
    from gmlearn.parallel import cluster as room

    monkeypatch.setattr(room, "PATIENCE", 1.0)
    with pytest.raises(
        ValueError, match=r"scheduler: expected an address or a distributed\.Client, got int"
    ):
        make_executor("dask", scheduler=8786)
    with pytest.raises(
        OSError, match=r"scheduler: no Dask scheduler answers at 'tcp://127\.0\.0\.1:9'"
    ):
        make_executor("dask", scheduler="tcp://127.0.0.1:9")
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as empty,
        distributed.Client(empty, set_as_default=False) as client,
        pytest.raises(TimeoutError, match="no worker has joined in 1 s"),
    ):
        make_executor(client)


SCRIPT = """
import gmlearn.parallel as parallel

def answer(x): return x + 1

if __name__ == "__main__":
    with parallel.make_executor("dask", 2) as executor:
        print(executor.n_workers, executor.map(answer, range(4)))
    executor = parallel.make_executor("dask", 1)
    print(executor.map(answer, [1]))
"""


def test_without_any_client_workers_are_started_here_and_end_with_the_executor(tmp_path):
    """The second one of the script is never closed."""
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.stderr) == ("2 [1, 2, 3, 4]\n[2]\n", "")


VANISHING = """
import signal, socket, subprocess, sys
import numpy as np, gmlearn as gm
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = str(probe.getsockname()[1])
run = [sys.executable, "-m"]
scheduler = subprocess.Popen([*run, "distributed.cli.dask_scheduler", "--host", "127.0.0.1",
                              "--port", port, "--no-dashboard"])
worker = subprocess.Popen([*run, "distributed.cli.dask_worker", "tcp://127.0.0.1:" + port,
                           "--nthreads", "1", "--no-dashboard"])
crf = gm.CRF(8, 2)
crf.add(gm.Unary(np.random.default_rng(0).normal(size=(8, 2)), weight="u"))
crf.add(gm.Potts([[i, i + 1] for i in range(7)], weight="s"))
def kill(passes, weights, history):
    if passes == 3:
        scheduler.send_signal(signal.SIGKILL)
try:
    with gm.make_executor("dask", scheduler="tcp://127.0.0.1:" + port) as executor:
        gm.train([gm.Sample(crf, np.arange(8) % 2)], max_iter=50, tol=0, executor=executor,
                 callbacks=[kill], show_progress=False)
    print("finished")
except Exception as error:
    print(error)
finally:
    worker.kill()
    scheduler.kill()
"""


@pytest.mark.slow
def test_a_scheduler_that_vanishes_ends_the_training(tmp_path):
    """An error that says so, not a hang."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", VANISHING],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
    )
    assert "lost the connection to the scheduler" in done.stdout, done.stdout + done.stderr
