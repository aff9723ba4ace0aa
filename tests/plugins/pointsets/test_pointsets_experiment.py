"""The generated images, the digits, the plugin's hooks and the experiment."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from gmlearn_pointsets import centre_errors, digit_point_sets, make_point_sets
from gmlearn_pointsets.rigid import planar_rotation

import gmlearn as gm


def test_images_are_moved_noisy_copies_of_their_centres():
    data = make_point_sets(n_centres=3, images_per_centre=5, n_points=8, sigma=1e-9, random_state=0)
    assert data.images.shape == (15, 8, 2) and np.bincount(data.labels).tolist() == [5, 5, 5]
    from gmlearn_pointsets import point_set_distance

    match = point_set_distance(data.images, data.centres, method="hard")
    assert (match.distance.argmin(1) == data.labels).all()
    own = np.arange(15), data.labels
    assert match.distance[own].max() < 1e-12
    assert np.abs(match.angle[own]).max() <= np.deg2rad(27) + 1e-6


def test_floor_is_the_mean_error_with_everything_known():
    data = make_point_sets(
        n_centres=5, images_per_centre=4, n_points=30, sigma=0.05, arc=0.0, random_state=0
    )
    noise = np.random.default_rng(0).normal(scale=0.05, size=(2000, 4, 30, 2)).mean(1)
    assert np.linalg.norm(noise, axis=2).sum(1).mean() == pytest.approx(data.floor, rel=0.01)
    assert data.floor == pytest.approx(1.2533 * data.line, rel=1e-4)


def test_centre_errors_ignore_motion_and_order():
    rng = np.random.default_rng(1)
    truth = rng.random((4, 9, 2))
    found = np.array(
        [
            centre[rng.permutation(9)] @ planar_rotation(rng.uniform(0, 6)).T + rng.normal(size=2)
            for centre in truth[[2, 0, 3, 1]]
        ]
    )
    np.testing.assert_allclose(centre_errors(found, truth), 0.0, atol=1e-6)
    found[0] += 0.01 * rng.normal(size=(9, 2))
    assert (centre_errors(found, truth) > 1e-3).sum() == 1


def test_digits_are_point_sets_of_equal_size():
    points, labels = digit_point_sets((0, 1), per_class=3, n_points=12, random_state=0)
    assert points.shape == (6, 12, 2) and sorted(labels) == [0, 0, 0, 1, 1, 1]
    assert points.min() >= 0 and points.max() <= 1
    widths = np.ptp(points[:, :, 0], axis=1)
    # a zero is wider than a one
    assert widths[labels == 0].mean() > widths[labels == 1].mean()


def test_importing_the_plugin_is_light():
    code = (
        "import sys, gmlearn_pointsets.plugin; "
        "print([m for m in ('numba', 'sklearn', 'matplotlib', 'cvxpy') if m in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


def test_hooks_offer_the_parts():
    from gmlearn_pointsets import plugin

    assert [experiment.name for experiment in plugin.gmlearn_experiments()] == ["pointsets"]


@pytest.mark.slow
def test_quick_experiment_meets_the_limits(tmp_path):
    from gmlearn_pointsets import plugin

    run = gm.Run(name="pointsets", quick=True, out=tmp_path)
    plugin.gmlearn_experiments()[0].run(run).write()
    assert run.values["16 images"]["met"] and run.values["100 images"]["met"]
    assert (
        run.values["digits"]["turned and shifted: invariant"]
        > run.values["digits"]["turned and shifted: no invariance"] + 0.3
    )
    assert {path.suffix for path in tmp_path.iterdir()} == {".png", ".json", ".md", ".html"}
