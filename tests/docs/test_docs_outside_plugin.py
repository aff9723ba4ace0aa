"""The plugin from outside is installed like a stranger's, found by its entry point, and passes
its own tests.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys

import docs_code
import pytest

PLUGIN = docs_code.ROOT / "examples" / "outside_plugin"


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Installed beside the environment of the tests, not into it; without the network if the
    build backend is there.
    """
    target = tmp_path_factory.mktemp("outside")
    # a copy, so that the build leaves nothing in the checkout
    source = target / "source"
    shutil.copytree(PLUGIN, source)
    offline = (
        ["--no-build-isolation", "--no-index"] if importlib.util.find_spec("hatchling") else []
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            *offline,
            "--disable-pip-version-check",
            "--target",
            target / "site",
            source,
        ],
        capture_output=True,
        text=True,
    )
    if done.returncode and not offline:
        pytest.skip(
            f"hatchling is not installed and could not be fetched: {done.stderr.splitlines()[-1]}"
        )
    assert done.returncode == 0, done.stderr
    path = os.pathsep.join(
        [str(target / "site"), str(docs_code.ROOT), str(docs_code.ROOT / "plugins")]
    )
    inherited = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    return {**inherited, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def gmlearn(environment, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "gmlearn.cli", *arguments],
        env=environment,
        capture_output=True,
        text=True,
    )


def test_it_is_found_by_its_entry_point(environment):
    done = gmlearn(environment, "plugins", "--json")
    assert done.returncode == 0, done.stderr
    registered = json.loads(done.stdout)["registered"]
    mine = [(r["kind"], r["name"]) for r in registered if r["owner"] == "monotone"]
    assert mine == [("potential", "monotone"), ("slave solver", "monotone")]


def test_it_keeps_the_contracts(environment):
    done = gmlearn(environment, "check", "monotone", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert len(rows) >= 25
    assert all(row["ok"] for row in rows)


def test_its_own_tests_pass(environment):
    command = [
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        "--rootdir",
        PLUGIN,
        PLUGIN / "tests",
    ]
    done = subprocess.run(
        [sys.executable, "-m", *command], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
