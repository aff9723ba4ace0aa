"""``gmlearn plugins``, ``gmlearn check``, help, version, and how light the start is."""

from __future__ import annotations

import json
import subprocess
import sys
import types
import warnings

import pytest

import gmlearn as gm
from gmlearn.cli import main
from gmlearn.registry import PluginWarning, Registry

HEAVY = ("numba", "cvxpy", "matplotlib", "networkx")


def test_plugins_lists_kind_name_owner(capsys):
    assert main(["plugins"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["potential", "potts", "core"] in rows and ["solver", "auto", "core"] in rows
    assert main(["plugins", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {"kind": "format", "name": "uai", "owner": "core"} in listed["registered"]
    assert len(listed["registered"]) == len(gm.plugins())


def test_failed_plugins_are_listed_with_the_reason(capsys, monkeypatch):
    def broken():
        raise ImportError("no module named quux")

    own = Registry(entry_points=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)
        own._load("sad", broken)
    monkeypatch.setattr("gmlearn.registry.registry", own)
    assert main(["plugins"]) == 0
    assert "sad: ImportError: no module named quux" in capsys.readouterr().out
    assert main(["plugins", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["failed"] == {
        "sad": "ImportError: no module named quux"
    }
    assert main(["check", "sad"]) == 1
    assert "quux" in capsys.readouterr().err


@pytest.fixture
def outcomes(monkeypatch):
    """A conformance kit with given outcomes."""
    kit = types.ModuleType("gmlearn.testing")
    kit.answers = [
        ("potts", "energy is const + w.features", True, ""),
        ("potts", "inf stays exact", True, ""),
    ]
    kit.run_checks = lambda name: kit.answers
    monkeypatch.setitem(sys.modules, "gmlearn.testing", kit)
    return kit.answers


def test_check_passes(outcomes, capsys):
    assert main(["check", "core"]) == 0
    out = capsys.readouterr().out
    assert "inf stays exact" in out and "2 checks, 0 failed" in out


def test_check_fails_with_code_1(outcomes, capsys):
    outcomes.append(("table", "batch equals one by one", False, "values differ"))
    assert main(["check", "potts"]) == 1
    said = capsys.readouterr()
    assert (
        "FAIL  table: batch equals one by one: values differ" in said.out
        and "1 of 3 checks failed" in said.err
    )
    assert main(["check", "potts", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)[-1] == {
        "thing": "table",
        "check": "batch equals one by one",
        "ok": False,
        "message": "values differ",
    }


def test_check_with_nothing_to_check_says_so(outcomes, capsys):
    outcomes.clear()
    assert main(["check", "uai"]) == 0
    assert "nothing of it has a contract" in capsys.readouterr().out


def test_check_of_an_unknown_name_lists_near_ones(capsys):
    assert main(["check", "pots"]) == 2
    err = capsys.readouterr().err
    assert "did you mean" in err and "'potts'" in err and err.count("\n") == 1


def test_version_help_and_usage(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"gmlearn {gm.__version__}\n"
    for command in ([], ["solve"], ["run"], ["demo"], ["plugins"], ["check"]):
        assert main([*command, "--help"]) == 0
        out = capsys.readouterr().out
        assert "example" in out and "gmlearn" in out
    assert main([]) == 2
    assert "commands" in capsys.readouterr().out
    assert main(["fly"]) == 2
    err = capsys.readouterr().err
    assert "fly" in err and err.count("\n") == 1


def test_unexpected_errors_name_their_kind(capsys, monkeypatch):
    def crash(*_):
        raise ZeroDivisionError("a\nb")

    monkeypatch.setattr("gmlearn.registry.registry", types.SimpleNamespace(entries=crash))
    assert main(["plugins"]) == 1
    assert (
        capsys.readouterr().err == "gmlearn: error: ZeroDivisionError: a b (--debug shows where)\n"
    )


def test_warnings_are_one_line(capsys, monkeypatch):
    def warn(*_):
        warnings.warn("watch\nout", UserWarning, stacklevel=1)
        return []

    monkeypatch.setattr(
        "gmlearn.registry.registry", types.SimpleNamespace(entries=warn, failures={})
    )
    assert main(["run", "--list"]) == 0
    assert capsys.readouterr().err.splitlines()[0] == "gmlearn: warning: watch out"


@pytest.mark.parametrize("arguments", [["--help"], ["plugins"], ["run", "--list"]])
def test_start_is_light(arguments):
    """No plugin may pull in a compiler, a modelling language or a plotting library just to be
    listed.
    """
    code = (
        f"import sys; from gmlearn.cli import main; code = main({arguments!r}); "
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and done.stderr.splitlines()[-1] == "[]", done.stderr


def test_module_is_the_command_and_survives_a_closed_pipe():
    done = subprocess.run(
        f"'{sys.executable}' -m gmlearn.cli plugins | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0 and done.stdout.split() == ["kind", "name", "owner"]
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr


def test_check_with_the_real_kit(capsys):
    assert main(["check", "potts", "--json"]) == 0
    outcomes = json.loads(capsys.readouterr().out)
    assert len(outcomes) > 3 and all(o["ok"] and "potts" in o["thing"] for o in outcomes)
