"""The 41 benchmark instances: their best known assignments must have their published energies."""

from __future__ import annotations

import csv
import json
import pathlib

import pytest

from gmlearn import io

MAPS = pathlib.Path(__file__).parents[3] / "shared" / "data" / "maps"
ROWS = list(csv.DictReader((MAPS / "index.csv").open())) if MAPS.is_dir() else []


@pytest.fixture(scope="module")
def solutions():
    return json.loads((MAPS / "solutions.json").read_text())


@pytest.mark.skipif(not ROWS, reason="the shared data sets are not beside the checkout")
@pytest.mark.parametrize("row", ROWS, ids=[row["file"] for row in ROWS])
def test_known_assignment_has_known_energy(row, solutions, tmp_path):
    crf = io.read(MAPS / row["file"], evidence=MAPS / row["evidence"] if row["evidence"] else None)
    assert crf.n_vars == int(row["n_vars"])
    assert crf.n_states.max() == int(row["max_card"])
    assert max((block.arity for block in crf.blocks), default=1) == int(row["max_arity"])
    energy = crf.energy(solutions[row["file"]])
    assert energy == pytest.approx(float(row["known_optimum"]), abs=float(row["tolerance"]))
    io.write(crf, tmp_path / "model.npz")
    assert io.read(tmp_path / "model.npz").energy(solutions[row["file"]]) == energy


@pytest.mark.skipif(not ROWS, reason="the shared data sets are not beside the checkout")
def test_all_instances_are_listed():
    assert len(ROWS) == 41
