"""Training with every executor: the same weights, lost workers, samples that are loaded when
they are needed.
"""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from learn_cases import chain_samples, ring_samples

import gmlearn as gm

BATCH = [
    dict(optimizer="subgradient"),
    dict(optimizer="cutting-plane"),
    dict(optimizer="lbfgs", temperature=0.5, iterations=3),
    dict(optimizer="bcfw", batch=0),
    dict(optimizer="stochastic", batch=3),
    dict(optimizer="incremental"),
]


def largest_difference(a, b):
    return max(np.abs(a.weights[name] - b.weights[name]).max() for name in a.weights)


@pytest.mark.parametrize("options", BATCH, ids=lambda o: o["optimizer"])
def test_the_same_weights_with_every_executor(shared_executor, options):
    samples, how = (
        ring_samples(0, n=5),
        dict(regularizer=gm.L2(0.1), max_iter=7, tol=-1.0, **options),
    )
    serial, other = gm.train(samples, **how), gm.train(samples, executor=shared_executor, **how)
    assert largest_difference(serial, other) <= 1e-9
    np.testing.assert_allclose(other.history.objective, serial.history.objective, atol=1e-9)


def test_latent_training_with_every_executor(shared_executor):
    samples = ring_samples(0, n=5, hidden=True)
    how = dict(optimizer="subgradient", max_iter=7, completion_every=2, tol=-1.0)
    serial, other = gm.train(samples, **how), gm.train(samples, executor=shared_executor, **how)
    assert largest_difference(serial, other) <= 1e-9
    for a, b in zip(serial.completions, other.completions):
        np.testing.assert_array_equal(a, b)


def test_bcfw_takes_another_path_to_the_same_optimum(shared_executor):
    samples = ring_samples(0, n=5)
    how = dict(optimizer="bcfw", regularizer=gm.L2(0.1), max_iter=80, tol=1e-6)
    best = gm.train(samples, optimizer="cutting-plane", regularizer=gm.L2(0.1), tol=1e-8).objective
    assert gm.train(samples, executor=shared_executor, **how).objective == pytest.approx(
        best, rel=1e-3
    )
    assert gm.train(samples, executor=shared_executor, batch=0, **how).objective == pytest.approx(
        best, rel=1e-3
    )


def test_a_checkpoint_moves_between_executors(shared_executor, tmp_path):
    samples, how = (
        ring_samples(0, n=4),
        dict(optimizer="bcfw", batch=0, regularizer=gm.L2(0.1), tol=-1.0),
    )
    whole = gm.train(samples, max_iter=9, **how)
    gm.train(
        samples,
        executor=shared_executor,
        max_iter=4,
        checkpoint=tmp_path / "c.npz",
        checkpoint_every=1,
        **how,
    )
    resumed = gm.train(samples, max_iter=9, checkpoint=tmp_path / "c.npz", **how)
    assert largest_difference(whole, resumed) <= 1e-9


def test_predictions_with_every_executor(shared_executor):
    samples = chain_samples(0)
    model = gm.train(samples, max_iter=5)
    alone = [model.predict(s.crf) for s in samples]
    together = model.predict_many([s.crf for s in samples], executor=shared_executor)
    for a, b in zip(alone, together):
        np.testing.assert_array_equal(a.labels, b.labels)
        assert a.energy == b.energy and a.bound == b.bound


# ---------------------------------------------------------------------- faults


def kill_one(executor):
    """A callback that ends one worker after the third pass."""
    pids = sorted({pid for pid in executor.map(worker_pid, range(8))})
    assert len(pids) == 2

    def callback(passes, weights, history):
        if passes == 3:
            os.kill(pids[0], signal.SIGKILL)

    return callback


def worker_pid(_):
    return os.getpid()


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "remote, optimizer, passes, checkpoint",
    [
        ("processes", "bcfw", 60, True),
        ("dask", "subgradient", 150, True),
        pytest.param("processes", "subgradient", 150, True, marks=SLOW),
        pytest.param("dask", "bcfw", 60, True, marks=SLOW),
        pytest.param("processes", "bcfw", 60, False, marks=SLOW),
        pytest.param("dask", "bcfw", 60, False, marks=SLOW),
        pytest.param("processes", "subgradient", 150, False, marks=SLOW),
        pytest.param("dask", "subgradient", 150, False, marks=SLOW),
    ],
    indirect=["remote"],
)
def test_a_worker_killed_in_the_middle(remote, optimizer, passes, checkpoint, tmp_path):
    """Its samples are built again, from the last checkpoint or from nothing, and training ends
    at the same objective.
    """
    samples, how = (
        ring_samples(0, n=6),
        dict(optimizer=optimizer, regularizer=gm.L2(0.1), max_iter=passes, tol=-1.0),
    )
    if checkpoint:
        how |= dict(checkpoint=tmp_path / "c.npz", checkpoint_every=2)
    undisturbed = (
        gm.train(samples, **(how | dict(checkpoint=None)), batch=0)
        if optimizer == "bcfw"
        else gm.train(samples, **(how | dict(checkpoint=None)))
    )
    disturbed = gm.train(samples, executor=remote, callbacks=[kill_one(remote)], **how)
    assert remote.generation >= 1
    assert disturbed.objective <= undisturbed.objective * (1 + 1e-3)


@pytest.mark.parametrize("remote", ["processes", pytest.param("dask", marks=SLOW)], indirect=True)
def test_a_worker_killed_while_training_with_hidden_labels(remote):
    samples = ring_samples(0, n=6, hidden=True)
    model = gm.train(
        samples,
        executor=remote,
        callbacks=[kill_one(remote)],
        regularizer=gm.L2(0.1),
        max_iter=60,
        tol=-1.0,
        completion_every=5,
    )
    undisturbed = gm.train(
        samples, regularizer=gm.L2(0.1), max_iter=60, tol=-1.0, completion_every=5
    )
    assert remote.generation >= 1
    for sample, labels in zip(samples, model.completions):
        np.testing.assert_array_equal(
            labels[sample.observed], np.asarray(sample.labels)[sample.observed]
        )
    # latent: another local optimum is possible
    assert model.objective <= 1.2 * undisturbed.objective


# ---------------------------------------------------------------------- samples that are loaded whe


@pytest.mark.parametrize(
    "optimizer, more",
    [
        ("subgradient", {}),
        ("bcfw", {}),
        ("bcfw", {"batch": 0}),
        ("stochastic", {}),
        ("incremental", {}),
        ("cutting-plane", {}),
    ],
)
def test_lazy_samples_give_the_same_weights(optimizer, more, tmp_path):
    """Nothing but `memory` outlives a call: with batch=0, a sample is loaded anew between two
    moves of one pass.
    """
    samples = ring_samples(0, n=4, hidden=optimizer == "bcfw")
    for k, sample in enumerate(samples):
        gm.write_sample(sample, tmp_path / f"{k}.npz")
    lazy = gm.LazySamples([tmp_path / f"{k}.npz" for k in range(4)], load=gm.read_sample)
    how = dict(optimizer=optimizer, regularizer=gm.L2(0.1), max_iter=7, tol=-1.0, **more)
    assert largest_difference(gm.train(samples, **how), gm.train(lazy, **how)) <= 1e-12


def test_lazy_samples_are_loaded_by_the_workers(shared_executor, tmp_path):
    samples = ring_samples(0, n=4)
    for k, sample in enumerate(samples):
        gm.write_sample(sample, tmp_path / f"{k}.npz")
    lazy = gm.LazySamples([str(tmp_path / f"{k}.npz") for k in range(4)], load=gm.read_sample)
    how = dict(optimizer="subgradient", regularizer=gm.L2(0.1), max_iter=5, tol=-1.0)
    assert (
        largest_difference(
            gm.train(samples, **how), gm.train(lazy, executor=shared_executor, **how)
        )
        <= 1e-9
    )


def test_functions_as_lazy_samples_and_errors():
    samples = chain_samples(0)
    lazy = gm.LazySamples([lambda s=s: s for s in samples])
    assert len(lazy) == len(samples) and len(lazy[1:3]) == 2
    assert largest_difference(gm.train(samples, max_iter=3), gm.train(lazy, max_iter=3)) <= 1e-12
    with pytest.raises(TypeError, match=r"sources\[1\]: expected a function"):
        gm.LazySamples([lambda: samples[0], "path.npz"])
    with pytest.raises(TypeError, match=r"samples\[2\]: expected a gmlearn.Sample, got int"):
        gm.train(gm.LazySamples([0, 1, 2], load=lambda k: samples[k] if k < 2 else k))
    with pytest.raises(ValueError, match="expected at least one"):
        gm.train(gm.LazySamples([]))


LARGE = """
import resource, sys
sys.path.insert(0, {tests!r})
import numpy as np, gmlearn as gm

def large(k):
    rng = np.random.default_rng(k)
    crf = gm.CRF(8000, 3)
    truth = rng.integers(0, 3, 8000)
    crf.add(gm.Unary(rng.normal(size=(8000, 30)) + truth[:, None], "u"))
    crf.add(gm.Potts(gm.grid_edges(80, 100), weight="smooth"))
    return gm.Sample(crf, truth)

n = int(sys.argv[1])
gm.train(gm.LazySamples(range(n), load=large), optimizer="subgradient", max_iter=2, tol=-1.0)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def test_memory_does_not_grow_with_the_number_of_lazy_samples():
    def peak(n):
        run = subprocess.run(
            [sys.executable, "-c", LARGE.format(tests=str(Path(__file__).parents[1])), str(n)],
            capture_output=True,
            text=True,
            check=True,
        )
        return int(run.stdout)

    few, many = peak(2), peak(10)  # a sample and its multipliers take about 7 MB
    assert many <= few + 30
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0
