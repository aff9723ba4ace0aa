"""Executors of every kind, on a Dask cluster that the tests of one file share."""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager

import pytest

from gmlearn.parallel import make_executor


@contextmanager
def two_workers():
    """A local cluster of two worker processes, as its client."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def cluster():
    """A cluster that the tests of one file share: none of them may count on both workers being
    there.
    """
    with two_workers() as client:
        yield client


def made(request):
    """Two workers (one for serial) of the kind that the request asks for."""
    scheduler = request.getfixturevalue("cluster") if request.param == "dask" else None
    with make_executor(request.param, 1 if request.param == "serial" else 2, scheduler) as executor:
        yield executor


KINDS = ["serial", "threads", "processes", "dask"]
executor = pytest.fixture(made, params=KINDS, name="executor")
#: one executor of each kind for all tests of a file, which use it one after the other
shared_executor = pytest.fixture(made, params=KINDS, name="shared_executor", scope="module")


@pytest.fixture(params=["processes", "dask"])
def remote(request):
    """Two workers in other processes, which a test may kill."""
    with ExitStack() as stack:
        scheduler = stack.enter_context(two_workers()) if request.param == "dask" else None
        yield stack.enter_context(make_executor(request.param, 2, scheduler))
