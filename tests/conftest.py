"""Puts this folder on the import path, so that every room's tests can share ``core_cases``; runs
whole folders on all cores.
"""

from __future__ import annotations

import os
import pathlib

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Without a word about processes (-n) and with pytest-xdist, one process per core; single
    files and debuggers stay in one.
    """
    option = config.option
    worker = "PYTEST_XDIST_WORKER" in os.environ
    if worker or not config.pluginmanager.hasplugin("xdist") or option.numprocesses is not None:
        return
    whole = any(pathlib.Path(argument).is_dir() for argument in config.args)
    if whole and not option.usepdb and option.dist == "no" and not option.tx:
        option.numprocesses = min(len(os.sched_getaffinity(0)) if LINUX else os.cpu_count() or 1, 8)
        option.dist = "worksteal"


LINUX = hasattr(os, "sched_getaffinity")
ROOT = pathlib.Path(__file__).parents[1]
#: what is in the checkout before the first test
FOUND = {path.name for path in ROOT.iterdir()}


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tests write to temporary folders: whatever else lies in the checkout afterwards is an error,
    except caches.
    """
    left = {path.name for path in ROOT.iterdir() if path.name[0] not in "._"} - FOUND
    if left and "PYTEST_XDIST_WORKER" not in os.environ:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        raise pytest.UsageError(f"tests left files in {ROOT}: {', '.join(sorted(left))}")


def listed_tiers() -> dict[str, str]:
    """Test, or one of its cases -> "merge" or "slow", as tests/slow_tests.txt has them."""
    lines = (ROOT / "tests" / "slow_tests.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split(" ", 1) for line in lines if line and not line.startswith("#")]
    return {test: tier for tier, test in pairs}


#: Tests that run unmeasured where coverage is measured, which makes them 1.65 times as long (Python
#: 3.11): they take a third of the time and reach little that others do not.
UNMEASURED = (
    "tests/docs/",
    "tests/io/test_io_fuzz.py",
    "tests/io/test_io_memory.py",
    "tests/learn/test_learn_optimizers.py",
    "tests/parallel/test_parallel_training.py",
    "tests/plugins/highorder/test_highorder_bounds.py",
    "tests/test_architecture.py",
    "tests/testing/test_testing_planted.py",
)
#: lines of tests/slow_tests.txt that no collected test fits
UNUSED = pytest.StashKey[set[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what tests/slow_tests.txt lists, before pytest chooses by marks."""
    tiers = listed_tiers()
    used = set()
    measured = config.pluginmanager.hasplugin("_cov")
    for item in items:
        case = item.nodeid
        if measured and case.startswith(UNMEASURED):
            item.add_marker("no_cover")
        for name in (case, case.partition("[")[0]):
            if name in tiers:
                used.add(name)
                item.add_marker("slow")
                if tiers[name] == "merge":
                    item.add_marker("merge")
                break
    config.stash[UNUSED] = tiers.keys() - used


@pytest.fixture
def unused_lines(pytestconfig):
    """Lines of tests/slow_tests.txt that fit no test; skips where not all tests are collected."""
    if [str(argument).rstrip("/") for argument in pytestconfig.args] not in (["tests"], []):
        pytest.skip("only part of the tests is collected")
    return pytestconfig.stash[UNUSED]


@pytest.fixture
def put(tmp_path):
    """put("x.uai", text or bytes) -> path"""

    def write(name: str, content: str | bytes) -> pathlib.Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write
