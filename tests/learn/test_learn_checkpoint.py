"""Checkpoints: bitwise resumption after a stop at any pass or a kill, whole files, clear errors
for other files.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from learn_cases import chain_samples, ring_samples

import gmlearn as gm

OPTIMIZERS = ("bcfw", "subgradient", "stochastic", "incremental", "cutting-plane", "lbfgs")
PASSES = 8


def options(optimizer):
    return dict(
        optimizer=optimizer,
        regularizer=gm.L2(0.1),
        tol=-1.0,
        temperature=0.5 if optimizer == "lbfgs" else 0.0,
        **({"iterations": 2} if optimizer == "lbfgs" else {}),
    )


def same(a, b):
    """Bitwise the same model and history, but for the clock."""
    assert a.objective == b.objective and a.status == b.status
    for name in a.weights:
        np.testing.assert_array_equal(a.weights[name], b.weights[name])
    left, right = a.history.arrays(), b.history.arrays()
    for name in left:
        if name != "seconds":
            np.testing.assert_array_equal(left[name], right[name], err_msg=name)
    for x, y in zip(a.completions, b.completions):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_stopped_at_any_pass_it_resumes_to_the_same_result(optimizer, tmp_path):
    samples = ring_samples(0, n=3)
    whole = gm.train(samples, max_iter=PASSES, **options(optimizer))
    for stop in range(1, PASSES):
        path = tmp_path / f"stop{stop}.npz"
        gm.train(
            samples,
            max_iter=stop,
            checkpoint=path,
            checkpoint_every=2 if stop % 2 == 0 else 1,
            **options(optimizer),
        )
        same(
            whole,
            gm.train(
                samples, max_iter=PASSES, checkpoint=path, checkpoint_every=3, **options(optimizer)
            ),
        )
    assert {p.suffix for p in tmp_path.iterdir()} == {".npz"}


def test_latent_training_resumes_to_the_same_result(tmp_path):
    samples, how = ring_samples(0, hidden=True), dict(completion_every=3, **options("bcfw"))
    whole = gm.train(samples, max_iter=11, **how)
    for stop in (2, 3, 6, 7):
        gm.train(
            samples, max_iter=stop, checkpoint=tmp_path / f"{stop}.npz", checkpoint_every=1, **how
        )
        same(whole, gm.train(samples, max_iter=11, checkpoint=tmp_path / f"{stop}.npz", **how))


@pytest.mark.parametrize("stop", [1, 4, 40])
def test_kept_minimisers_resume_too(tmp_path, stop):
    samples, how = ring_samples(0, n=3), dict(exchanges=2, working_set=3, **options("bcfw"))
    whole = gm.train(samples, max_iter=60, **how)
    gm.train(samples, max_iter=stop, checkpoint=tmp_path / "a.npz", checkpoint_every=1, **how)
    with np.load(tmp_path / "a.npz") as stored:
        assert any("known_values" in name for name in stored.files)
    same(
        whole,
        gm.train(samples, max_iter=60, checkpoint=tmp_path / "a.npz", checkpoint_every=50, **how),
    )


def test_validation_and_patience_resume_too(tmp_path):
    samples, how = (
        chain_samples(0),
        dict(validation=chain_samples(9), patience=4, **options("subgradient")),
    )
    whole = gm.train(samples, max_iter=40, **how)
    gm.train(samples, max_iter=3, checkpoint=tmp_path / "c.npz", checkpoint_every=1, **how)
    same(whole, gm.train(samples, max_iter=40, checkpoint=tmp_path / "c.npz", **how))


def test_a_finished_run_is_not_trained_further(tmp_path):
    samples, how = (
        chain_samples(0),
        dict(regularizer=gm.L2(0.1), tol=1e-2, checkpoint=tmp_path / "c.npz", max_iter=200),
    )
    first = gm.train(samples, **how)
    assert "certified" in first.status
    same(first, gm.train(samples, **how))


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
import gmlearn as gm
from learn_cases import ring_samples
gm.train(ring_samples(0, n=3), optimizer="bcfw", regularizer=gm.L2(0.1), tol=-1.0, max_iter=10**6, checkpoint={path!r},
         checkpoint_every=1, callbacks=[lambda passes, *a: print(passes, flush=True)])
"""


@pytest.mark.parametrize(
    "moment",
    [0.1, 0.13, *(pytest.param(m, marks=pytest.mark.slow) for m in np.linspace(0.15, 0.7, 18))],
)
def test_a_killed_process_resumes_to_the_same_result(moment, tmp_path):
    """SIGKILL at some moment after the first checkpoint: no half file is left, and no more than
    one interval is lost.
    """
    path = tmp_path / "killed.npz"
    script = SCRIPT.format(tests=str(Path(__file__).parents[1]), path=str(path))
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 100
        while not path.exists() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(moment)
    finally:
        process.send_signal(signal.SIGKILL)
        told = [int(line) for line in process.communicate()[0].split("\n")[:-1]]
    assert process.returncode == -signal.SIGKILL
    done = int(np.load(path)["state_t"])
    assert done >= 1 and done >= told[-1] - 1
    left = [p.name for p in tmp_path.iterdir() if p.suffix == ".npz"]
    assert left == ["killed.npz"]
    samples = ring_samples(0, n=3)
    resumed = gm.train(samples, checkpoint=path, max_iter=done + 3, **options("bcfw"))
    same(gm.train(samples, max_iter=done + 3, **options("bcfw")), resumed)


FULL_DISK = """
import resource, sys
sys.path.insert(0, {tests!r})
import gmlearn as gm
from learn_cases import ring_samples
how = dict(optimizer="bcfw", regularizer=gm.L2(0.1), tol=-1.0, checkpoint={path!r}, checkpoint_every=1)
gm.train(ring_samples(0, n=3), max_iter=2, **how)
# from now on files cannot grow: as on a full disk
resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))
try:
    gm.train(ring_samples(0, n=3), max_iter=4, **how)
except OSError as error:
    print(error)
"""


def test_a_full_disk_is_told_and_leaves_the_last_checkpoint(tmp_path):
    path = tmp_path / "c.npz"
    script = FULL_DISK.format(tests=str(Path(__file__).parents[1]), path=str(path))
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "File too large" in run.stdout and "c.npz" in run.stdout
    assert [p.name for p in tmp_path.iterdir()] == ["c.npz"]
    assert int(np.load(path)["state_t"]) == 2
    samples = ring_samples(0, n=3)
    same(
        gm.train(samples, max_iter=4, **options("bcfw")),
        gm.train(samples, max_iter=4, checkpoint=path, **options("bcfw")),
    )


def test_a_failure_while_writing_leaves_the_old_file(tmp_path, monkeypatch):
    samples, path = chain_samples(0), tmp_path / "c.npz"
    gm.train(samples, max_iter=2, checkpoint=path, checkpoint_every=1, **options("bcfw"))
    before = path.read_bytes()

    def fails(stream, **arrays):
        stream.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", fails)
    with pytest.raises(OSError, match="disk full"):
        gm.train(samples, max_iter=4, checkpoint=path, checkpoint_every=1, **options("bcfw"))
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["c.npz"]


@pytest.mark.parametrize("damage", ["cut", "noise", "text", "empty", "model"])
def test_a_damaged_or_foreign_file_is_refused(damage, tmp_path):
    samples, path = chain_samples(0), tmp_path / "c.npz"
    model = gm.train(samples, max_iter=2, checkpoint=path, checkpoint_every=1, **options("bcfw"))
    good = path.read_bytes()
    middle = len(good) // 2
    content = {
        "cut": good[:middle],
        "noise": good[:middle] + bytes(64) + good[middle + 64 :],
        "text": b"not an archive",
        "empty": b"",
    }
    if damage == "model":
        model.save(path)
    else:
        path.write_bytes(content[damage])
    with pytest.raises(
        ValueError,
        match=r"c\.npz: (not a gmlearn checkpoint file, or damaged|expected a gmlearn checkpoint file)",
    ):
        gm.train(samples, max_iter=4, checkpoint=path, **options("bcfw"))


@pytest.mark.parametrize(
    "what, changed",
    [
        ("samples", dict(samples=chain_samples(0, n=4))),
        ("slaves", dict(samples=chain_samples(0, length=8))),
        ("seed", dict(seed=5)),
        ("optimizer", dict(optimizer="subgradient")),
        ("settings", dict(step=0.7)),
        pytest.param("regularizer", dict(regularizer=gm.L2(3.0))),
        pytest.param("loss", dict(loss=gm.Hamming(2.0))),
        pytest.param("blocks .unary.*labels", dict(samples=chain_samples(77))),
    ],
)
def test_the_checkpoint_of_another_problem_is_refused(what, changed, tmp_path):
    path = tmp_path / "c.npz"
    how = dict(samples=chain_samples(0), checkpoint=path, checkpoint_every=1, **options("bcfw"))
    gm.train(max_iter=2, **how)
    with pytest.raises(ValueError, match=f"belongs to another training problem.*{what}"):
        gm.train(max_iter=4, **(how | changed))


def test_a_checkpoint_loads_without_executing_code(tmp_path):
    """No array of objects, which only pickle could read."""
    path = tmp_path / "c.npz"
    gm.train(
        ring_samples(0, hidden=True),
        max_iter=3,
        checkpoint=path,
        checkpoint_every=1,
        **options("bcfw"),
    )
    with np.load(path, allow_pickle=False) as archive:
        assert all(archive[name].dtype != object for name in archive.files)
    evil = tmp_path / "evil.npz"
    np.savez(evil, header=np.array([{"kind": "gmlearn checkpoint"}], dtype=object))
    with pytest.raises(ValueError, match="damaged"):
        gm.train(chain_samples(0), checkpoint=evil)
    assert os.path.exists(evil)


@pytest.mark.parametrize("name, value", [("bits", 2**63), ("_share", 0.9), ("_share", -0.1)])
def test_planes_that_do_not_fit_their_slaves_are_refused(name, value, tmp_path):
    samples, path = ring_samples(0), tmp_path / "c.npz"
    gm.train(samples, max_iter=2, checkpoint=path, checkpoint_every=1, **options("bcfw"))
    with np.load(path) as archive:
        arrays = {n: archive[n].copy() for n in archive.files}
    chosen = next(n for n in arrays if n.endswith(name) and "old" not in n)
    arrays[chosen].flat[:] = value
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=name.strip("_")):
        gm.train(samples, max_iter=4, checkpoint=path, **options("bcfw"))
