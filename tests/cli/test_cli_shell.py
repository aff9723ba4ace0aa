"""``gmlearn completion``, ``gmlearn warmup``, ``--versions``: the way of a new user."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

import gmlearn as gm
from gmlearn._utils import prebuilt
from gmlearn.cli import main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_options_and_names(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("solve", "--time-limit", "trws", "cluster-synthetic", "highorder", "warmup"):
        assert word in script


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    "words, expected",
    [
        (["gmlearn", "sol"], {"solve"}),
        (["gmlearn", "solve", "--time"], {"--time-limit"}),
        (["gmlearn", "solve", "--solver", "trw"], {"trws"}),
        (["gmlearn", "run", "cluster-m"], {"cluster-multiview"}),
    ],
)
def test_bash_completes(words, expected, capsys, tmp_path):
    main(["completion", "bash"])
    script = tmp_path / "completion.bash"
    typed = " ".join(words)
    script.write_text(
        capsys.readouterr().out
        + f"COMP_WORDS=({typed})\nCOMP_CWORD={len(words) - 1}\n_gmlearn\n"
        + 'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(["bash", str(script)], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == expected


def test_warmup_compiles_the_lists_and_says_where(capsys, monkeypatch):
    one = [kernel for kernel in prebuilt.listed(["gmlearn"]) if kernel.function == "counting_order"]
    monkeypatch.setattr(prebuilt, "listed", lambda packages: one)
    assert main(["warmup"]) == 0
    assert "1 kernels are compiled for this CPU, in" in capsys.readouterr().out
    assert main(["warmup", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernels"] == 1


def test_versions_are_what_a_report_needs(capsys):
    gm.show_versions()
    shown = capsys.readouterr().out
    for word in ("gmlearn", gm.__version__, "numba", "plugins", "clustering", "kernels"):
        assert word in shown
    assert main(["--versions"]) == 0
    assert capsys.readouterr().out == shown


def test_python_m_gmlearn_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "gmlearn", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"gmlearn {gm.__version__}\n"


def test_a_manifest_is_printed_for_an_installed_plugin(capsys):
    assert main(["plugins", "--manifest", "vision"]) == 0
    assert json.loads(capsys.readouterr().out)["registers"]["experiment"]
    assert main(["plugins", "--manifest", "nowhere"]) == 2
    assert "no installed plugin 'nowhere'" in capsys.readouterr().err
