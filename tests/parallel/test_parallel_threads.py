"""Threads over samples: the same results in the same order."""

import threading
import time

import numpy as np
import pytest
from learn_cases import ring_samples

import gmlearn as gm
from gmlearn.parallel import Serial, Threads, make_executor


@pytest.mark.parametrize(
    "optimizer", ["bcfw", "subgradient", "stochastic", "incremental", "cutting-plane", "lbfgs"]
)
def test_two_threads_give_the_weights_of_one(optimizer):
    temperature = 0.5 if optimizer == "lbfgs" else 0.0
    options = dict(
        optimizer=optimizer, regularizer=gm.L2(0.1), max_iter=7, tol=-1, temperature=temperature
    )
    one, two = (gm.train(ring_samples(0, n=5), n_jobs=n, **options) for n in (1, 2))
    assert one.objective == pytest.approx(two.objective, rel=1e-12)
    for name in one.weights:
        np.testing.assert_allclose(one.weights[name], two.weights[name], rtol=1e-10, atol=1e-12)


def test_completions_run_on_threads_too():
    one, two = (
        gm.train(ring_samples(0, n=5, hidden=True), n_jobs=n, max_iter=7, completion_every=2)
        for n in (1, 2)
    )
    for a, b in zip(one.completions, two.completions):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(one.weights["u"], two.weights["u"], rtol=1e-10)


def test_results_come_in_the_order_of_the_items():
    executor = make_executor(n_jobs=3)
    found = executor.map(lambda i: (time.sleep(0.02 * (3 - i)), i)[1], range(4))
    executor.close()
    assert isinstance(executor, Threads) and found == [0, 1, 2, 3]


def test_one_item_stays_with_the_thread_of_the_caller():
    with make_executor(n_jobs=2) as executor:
        assert executor.map(lambda _: threading.get_ident(), [0]) == [threading.get_ident()]


def test_one_job_is_serial_and_minus_one_is_all_cores():
    assert type(make_executor(n_jobs=1)) is Serial
    assert make_executor(n_jobs=1).map(str, [1, 2]) == ["1", "2"]
    make_executor(n_jobs=-1).close()


def test_an_error_in_a_thread_reaches_the_caller_and_no_thread_is_left():
    sample = ring_samples(0, hidden=True)[0]

    def fails(sample, weights):
        raise RuntimeError("no completion today")

    with pytest.raises(RuntimeError, match="no completion today"):
        gm.train([gm.Sample(sample.crf, sample.labels, sample.hidden, completion=fails)], n_jobs=2)
    assert not [t.name for t in threading.enumerate() if t.name.startswith("gmlearn")]


@pytest.mark.parametrize("n_jobs", [0, -3, 1.5, None])
def test_bad_numbers_of_jobs(n_jobs):
    with pytest.raises((ValueError, TypeError), match="n_jobs"):
        make_executor(n_jobs=n_jobs)


@pytest.mark.parametrize("executor", [-1, 3, None, True, "thread", object()])
def test_what_is_no_executor(executor):
    with pytest.raises(ValueError, match="executor: expected one of 'auto'"):
        make_executor(executor)
