"""``gmlearn solve``: the answer, its JSON, its files, bad input, and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import gmlearn as gm
from gmlearn.cli import main
from gmlearn.registry import registry


@pytest.fixture
def chain(tmp_path):
    """A chain of five variables as UAI, the model itself, and its true minimum."""
    rng = np.random.default_rng(3)
    crf = gm.CRF(5, 3).add_unary(rng.random((5, 3)))
    crf.add(gm.Pairwise([[0, 1], [1, 2], [2, 3], [3, 4]], table=rng.random((4, 3, 3))))
    path = tmp_path / "chain.uai"
    gm.write(crf, path)
    labellings = np.indices((3,) * 5).reshape(5, -1).T
    return path, crf, min(crf.energy(x) for x in labellings)


def test_json_holds_the_certified_minimum(chain, capsys):
    path, crf, minimum = chain
    assert main(["solve", str(path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {"energy", "bound", "gap", "status", "solver", "seconds", "labels"} <= set(answer)
    assert answer["energy"] == pytest.approx(minimum, abs=1e-6)
    assert answer["bound"] == pytest.approx(minimum, abs=1e-6)
    assert crf.energy(answer["labels"]) == pytest.approx(minimum, abs=1e-6)
    assert (answer["status"], answer["solver"], answer["interrupted"]) == ("optimal", "auto", False)


def test_text_tells_the_same(chain, capsys):
    path, _, minimum = chain
    assert main(["solve", str(path), "--solver", "brute-force"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert float(lines["energy"]) == pytest.approx(minimum, abs=1e-6)
    assert lines["status"].startswith("optimal") and lines["solver"].startswith("brute-force")
    assert len(lines["labels"].split()) == 5


def test_long_labellings_are_cut_in_text(tmp_path, capsys):
    gm.write(gm.CRF(100, 2).add_unary(np.tile([0.0, 1.0], (100, 1))), tmp_path / "m.npz")
    assert main(["solve", str(tmp_path / "m.npz")]) == 0
    assert "100 in all" in capsys.readouterr().out


def test_out_writes_all_labels(chain, tmp_path, capsys):
    path, crf, minimum = chain
    out = tmp_path / "labels.json"
    assert (
        main(
            [
                "solve",
                str(path),
                "--out",
                str(out),
                "--seed",
                "1",
                "--time-limit",
                "10",
                "--max-iter",
                "50",
            ]
        )
        == 0
    )
    assert crf.energy(json.loads(out.read_text())["labels"]) == pytest.approx(minimum, abs=1e-6)
    assert str(out) in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["chain.uai", "labels.json"]


def test_evidence_fixes_variables(chain, tmp_path, capsys):
    path, crf, _ = chain
    evidence = tmp_path / "chain.evid"
    evidence.write_text("2 0 2 4 1\n")
    assert main(["solve", str(path), "--evidence", str(evidence), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["labels"][0], answer["labels"][4]) == (2, 1)
    assert answer["energy"] == pytest.approx(gm.solve(crf.clamp({0: 2, 4: 1})).energy, abs=1e-6)


def test_weights_come_from_the_archive(tmp_path, capsys):
    crf = gm.CRF(2, 2).add_unary([[0, 1], [3, 0]])
    crf.add(gm.Potts([[0, 1]], weight="smooth"))
    gm.write(crf, tmp_path / "with.npz", weights={"smooth": 2.0})
    gm.write(crf, tmp_path / "without.npz")
    assert main(["solve", str(tmp_path / "with.npz"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["energy"] == pytest.approx(
        gm.solve(crf, {"smooth": 2.0}).energy
    )
    assert main(["solve", str(tmp_path / "without.npz")]) == 2
    assert "smooth" in capsys.readouterr().err


def test_infeasible_is_an_answer_with_nulls(tmp_path, capsys):
    crf = gm.CRF(2, 2)
    crf.add(gm.Pairwise([[0, 1]], table=[[np.inf, np.inf], [np.inf, np.inf]]))
    gm.write(crf, tmp_path / "m.npz")
    assert main(["solve", str(tmp_path / "m.npz"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["status"], answer["energy"], answer["bound"], answer["gap"]) == (
        "infeasible",
        None,
        None,
        0.0,
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.uai"], ["nowhere.uai", "No such file"]),
        (["model.xyz"], ["model.xyz", ".uai"]),
        (["{path}", "--solver", "brute-fource"], ["brute-fource", "did you mean 'brute-force'"]),
        (["{path}", "--time-limit", "-1"], ["time_limit", "-1"]),
        (["{path}", "--time-limit", "soon"], ["--time-limit", "soon"]),
        (["{path}", "--evidence", "nowhere.evid"], ["nowhere.evid"]),
        (["{path}", "--out", "/nowhere/at/all.json"], ["/nowhere/at"]),
        ([], ["FILE"]),
    ],
)
def test_bad_input_is_one_line_and_code_2(chain, arguments, words, capsys):
    assert main(["solve", *(a.format(path=chain[0]) for a in arguments)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and all(word in err for word in words), err


def test_truncated_file_names_the_place(chain, capsys):
    path = chain[0]
    path.write_text(path.read_text()[:60])
    assert main(["solve", str(path)]) == 2
    err = capsys.readouterr().err
    assert "chain.uai" in err and "expected" in err and err.count("\n") == 1


@pytest.mark.parametrize("place", [["--debug", "solve", "x.xyz"], ["solve", "x.xyz", "--debug"]])
def test_debug_shows_the_trace(place, capsys):
    assert main(place) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_relative_gap_is_reported(tmp_path, capsys):
    rng = np.random.default_rng(0)
    crf = gm.CRF(100, 3).add_unary(rng.normal(size=(100, 3)))
    crf.add(gm.Pairwise(gm.grid_edges(10, 10), table=rng.normal(size=(180, 3, 3))))
    gm.write(crf, tmp_path / "m.npz")
    assert main(["solve", str(tmp_path / "m.npz"), "--gap", "0.2", "--json"]) == 0
    said = capsys.readouterr()
    answer = json.loads(said.out)
    assert answer["status"] == "within gap" and "within gap=0.2" in answer["message"]
    assert answer["gap"] <= 0.2 * abs(answer["energy"]) and said.err == "", "no terminal, no line"
    assert main(["solve", str(tmp_path / "m.npz"), "--gap", "0.2"]) == 0
    assert "status   within gap: within gap=0.2, at a relative gap of" in capsys.readouterr().out
    assert main(["solve", str(tmp_path / "m.npz"), "--gap", "-1"]) == 2
    assert "gap" in capsys.readouterr().err


def test_a_terminal_shows_a_live_line(chain, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["solve", str(chain[0]), "--json"]) == 0
    said = capsys.readouterr()
    assert "energy" in said.err and "bound" in said.err and "gap 0.00%" in said.err
    assert said.err.endswith("\r\x1b[K"), "the line is cleared at the end"
    assert json.loads(said.out)["status"] == "optimal"


class Interrupted(gm.MapSolver):
    """Finds something (or not) and is then interrupted, as by Ctrl-C."""

    name = "test-interrupted"
    bounds = False

    def __init__(self, find: bool):
        self.find = find

    def run(self, problem):
        if self.find:
            problem.offer(np.ones(problem.crf.n_vars, np.int64), "test")
        raise KeyboardInterrupt


@pytest.mark.parametrize("find", [True, False])
def test_interrupt_reports_the_best_so_far(chain, tmp_path, capsys, find):
    path, crf, _ = chain
    registry.add(Interrupted(find))
    out = tmp_path / "labels.json"
    assert (
        main(["solve", str(path), "--solver", "test-interrupted", "--json", "--out", str(out)])
        == 130
    )
    said = capsys.readouterr()
    assert "interrupted" in said.err
    assert out.exists() == find
    if find:
        answer = json.loads(said.out)
        assert answer["labels"] == [1] * 5 and answer["interrupted"] is True
        assert answer["energy"] == pytest.approx(crf.energy([1] * 5))
        assert answer["status"] == "interrupted" and answer["bound"] is None
    else:
        assert said.out == "" and "nothing was written" in said.err


SEARCH_FOR_EVER = """
import signal, sys, time
import gmlearn as gm
from gmlearn.cli import main

# a shell starts background jobs, and with them perhaps this test, with Ctrl-C ignored
signal.signal(signal.SIGINT, signal.default_int_handler)

class Slow(gm.MapSolver):
    name = "slow"
    def run(self, problem):
        problem.offer([0] * problem.crf.n_vars, "test")
        print("searching", file=sys.stderr, flush=True)
        while True:
            time.sleep(0.05)

gm.register(Slow())
sys.exit(main(["solve", sys.argv[1], "--solver", "slow", "--json", "--out", "labels.json"]))
"""


@pytest.mark.skipif(os.name == "nt", reason="signals as in POSIX")
def test_ctrl_c_in_a_real_process(chain, tmp_path):
    path, crf, _ = chain
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SEARCH_FOR_EVER, str(path)],
        cwd=tmp_path,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stderr.readline() == "searching\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "interrupted: the best labelling so far" in err and "Traceback" not in err
    answer = json.loads(out)
    assert answer["energy"] == pytest.approx(crf.energy([0] * 5))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["chain.uai", "labels.json"]
    assert json.loads((tmp_path / "labels.json").read_text()) == answer
