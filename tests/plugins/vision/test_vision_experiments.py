"""Generated data, and quick runs of the experiments."""

import json
import pathlib

import numpy as np
import pytest
from gmlearn_vision import patch_samples, piecewise_constant
from gmlearn_vision.decompositions_experiment import cells, crosses, frustrated_grid, hierarchy

import gmlearn as gm

DATA = pathlib.Path(__file__).parents[4] / "shared" / "data"


def carry_out(name, function, tmp_path, data=None):
    run = gm.Run(name=name, quick=True, out=tmp_path, data=data, show_progress=False)
    function(run)
    run.write()
    written = json.loads((tmp_path / "result.json").read_text())
    assert all((tmp_path / f["file"]).stat().st_size > 10_000 for f in written["figures"])
    return written["values"]


def test_piecewise_constant_has_large_regions():
    image = piecewise_constant(np.random.default_rng(0), 40, 50, 5)
    assert image.shape == (40, 50) and image.min() >= 0 and image.max() < 5
    assert np.mean(image[:, 1:] != image[:, :-1]) < 0.15


def test_patch_samples_tell_the_label_of_constant_patches():
    sample = patch_samples(np.random.default_rng(0), 1, side=20)[0]
    inside = sample["truth"][sample["cliques"]]
    constant = (inside == inside[:, :1]).all(axis=1)
    guess = sample["features"][constant, :, 0].argmax(axis=1)
    assert np.mean(guess == inside[constant, 0]) > 0.9
    assert np.mean(sample["unary"].argmin(axis=1) == sample["truth"]) < 0.6


@pytest.mark.parametrize("side", [3, 5, 8])
def test_cells_share_no_edge_and_crosses_are_their_unions(side):
    small, large = cells(side).sets, crosses(side).sets
    edges = frustrated_grid(np.random.default_rng(0), side).clique_blocks[0].variables
    assert max(sum(np.isin(e, s).all() for s in small) for e in edges) == 1
    assert all(sum(np.isin(s, union).all() for union in large) == 1 for s in small)
    assert max(len(union) for union in large) == {3: 7, 5: 10, 8: 12}[side]


def test_larger_slaves_give_tighter_bounds():
    crf = frustrated_grid(np.random.default_rng(0), 5)
    optimum = gm.solve(crf).energy
    found = [
        gm.solve(crf, solver="bcfw", decomposition=d, max_iter=100).bound
        for d in hierarchy(5).values()
    ]
    assert found[0] == pytest.approx(found[1], abs=0.05)
    assert found[1] + 0.5 < found[2] <= found[3] + 0.02
    assert found[3] <= optimum + 1e-9


def test_decompositions_experiment(tmp_path):
    from gmlearn_vision.decompositions_experiment import run_decompositions

    values = carry_out("decompositions", run_decompositions, tmp_path)
    assert values["per clique"]["bound"] < values["2 x 2 cells"]["bound"] <= values["optimum"]


def test_pn_potts_experiment(tmp_path):
    from gmlearn_vision.pn_experiment import run_pn_potts

    values = carry_out("pn-potts", run_pn_potts, tmp_path)
    assert values["test error at w = 0"] > 0.4
    assert values["bcfw"]["test error"] < 0.15


@pytest.mark.slow
def test_denoise_experiment_without_data(tmp_path):
    from gmlearn_vision.denoise_experiment import run_denoise

    values = carry_out("denoise", run_denoise, tmp_path)
    assert values["6 labels: monotone"] < 0.095
    assert values["8 levels: learnt"] <= values["8 levels: best truncated linear"]


@pytest.mark.slow
@pytest.mark.skipif(
    not (DATA / "stereo").exists(), reason="needs the Middlebury pairs beside the checkout"
)
def test_stereo_experiment(tmp_path):
    from gmlearn_vision.stereo_experiment import run_stereo

    values = carry_out("stereo", run_stereo, tmp_path, DATA)
    mean = values["mean of the three"]
    assert mean["learnt: non-occluded"] < mean["constant: non-occluded"]
    assert mean["learnt, check and fill: all"] < 0.028


def test_plugin_registers_without_heavy_imports():
    import subprocess
    import sys

    code = (
        "import sys, gmlearn_vision.plugin as p; p.gmlearn_experiments(); "
        "sys.exit(any(m in sys.modules for m in ('numba', 'sklearn', 'matplotlib', 'cvxpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
