"""``gmlearn marginals``."""

import json

import numpy as np
import pytest

import gmlearn as gm
from gmlearn.cli.app import main

UAI = "MARKOV\n2\n2 2\n2\n1 0\n2 0 1\n\n2\n 1 3\n4\n 1 1 2 0\n"


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.uai"
    path.write_text(UAI)
    return path


def test_json_has_all_marginals_and_log_z(model, capsys):
    assert main(["marginals", str(model), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["status"] == "exact"
    assert answer["log_partition"] == pytest.approx(np.log(8))
    np.testing.assert_allclose(answer["node"], [[0.25, 0.75], [0.875, 0.125]])
    assert answer["lower"] == answer["upper"] == answer["log_partition"]


def test_evidence_and_text(model, tmp_path, capsys):
    evidence = tmp_path / "model.uai.evid"
    evidence.write_text("1 1 0")
    out = tmp_path / "answer.json"
    command = ["marginals", str(model), "--evidence", str(evidence), "--out", str(out)]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "exact" in text and "p(x1)    1.00000 0.00000" in text
    assert json.loads(out.read_text())["log_partition"] == pytest.approx(np.log(7))


def test_bad_usage_is_one_line(model, capsys):
    assert main(["marginals", str(model), "--temperature", "-1"]) == 2
    assert "temperature: expected" in capsys.readouterr().err
    assert main(["marginals", str(model), "--method", "elimnation"]) == 2
    assert "elimination" in capsys.readouterr().err


def test_an_infeasible_model_is_an_answer(tmp_path, capsys):
    crf = gm.CRF(2, 2)
    crf.add(gm.Table([[0, 1]], np.full((2, 2), np.inf)))
    gm.write(crf, tmp_path / "model.npz")
    assert main(["marginals", str(tmp_path / "model.npz")]) == 0
    assert "infeasible" in capsys.readouterr().out
