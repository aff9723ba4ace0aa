"""Rivals, scores and the experiment itself."""

import pathlib

import numpy as np
import pytest
from gmlearn_groupfs import baselines
from gmlearn_groupfs.datasets import published
from gmlearn_groupfs.kernels import KernelBank
from gmlearn_groupfs.scores import accuracy, random_links

import gmlearn as gm

DATA = pathlib.Path(__file__).parents[4] / "shared" / "data"


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(0)
    truth = rng.permutation(np.repeat(np.arange(3), 20))
    centres = np.array([[0, 0], [8, 0], [0, 8]])
    return KernelBank.from_views(
        [centres[truth] + rng.normal(size=(60, 2)) for _ in range(2)]
    ).kernels, truth


def test_rivals_solve_an_easy_set(blobs):
    kernels, truth = blobs
    rng = np.random.default_rng(1)
    mean = baselines.average_kernel(kernels)
    for labels in (
        baselines.kernel_kmeans(mean, 3, None, rng),
        baselines.kernel_kmeans(mean, 3, (15, 25), rng),
        baselines.spectral(mean, 3, rng),
        baselines.knn_spectral(np.hstack(list(kernels)), 3, 0),
        baselines.multi_kernel_kmeans(kernels, 3, rng),
        baselines.ensemble(kernels, 3, rng),
    ):
        assert accuracy(truth, labels) > 0.95


def test_bounded_kernel_kmeans_keeps_its_bounds(blobs):
    labels = baselines.kernel_kmeans(blobs[0][0], 4, (14, 16), np.random.default_rng(0))
    assert set(np.bincount(labels)) <= {14, 15, 16}


def test_accuracy_matches_clusters_one_to_one():
    assert accuracy(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0])) == 1.0
    assert accuracy(np.array([0, 0, 1, 1]), np.array([0, 0, 0, 0])) == 0.5
    assert accuracy(np.array([0, 0, 1, 1]), np.array([0, 1, 2, 3])) == 0.5


def test_links_tell_the_truth():
    truth = np.repeat(np.arange(4), 5)
    must, cannot = random_links(truth, 2, np.random.default_rng(0))
    assert len(must) == len(cannot) == 8
    assert np.all(truth[must[:, 0]] == truth[must[:, 1]]) and np.all(
        truth[cannot[:, 0]] != truth[cannot[:, 1]]
    )


@pytest.mark.skipif(not DATA.exists(), reason="the data folder is not beside the checkout")
def test_published_figures_are_read():
    found = published(DATA / "multiview" / "kernelset_reference_results.csv", "yale_faces")
    assert found["RMKKM"] == (0.5218, 0.5558)


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="the data folder is not beside the checkout")
def test_quick_experiment_reports(tmp_path):
    from gmlearn_groupfs.experiments import groupfs

    run = gm.Run(name="groupfs", quick=True, out=tmp_path, data=DATA, show_progress=False)
    groupfs(run)
    run.write()
    assert {"kernel_usage.png", "noise.png", "real.png", "links.png", "result.json"} <= {
        p.name for p in tmp_path.iterdir()
    }
    assert min(run.values["synthetic/contrast/acc"]) >= 0.9
    assert run.values["synthetic/contrast/right_view"] == [1.0]
