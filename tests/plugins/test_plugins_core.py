"""What `fit` of an estimator reaches in the core, by profile; who stays apart says why."""

import cProfile
import pstats

import numpy as np
import pytest
from gmlearn_groupfs import GroupFeatureClustering, make_grouped_views
from gmlearn_mlca import MLCA, SpectralMetric
from gmlearn_pointsets import GraphClustering, PointSetClustering, make_graphs, make_point_sets
from gmlearn_vision import Denoiser, PatternDenoiser, StereoMatcher

RNG = np.random.default_rng(0)
CLEAN = [40.0 * (np.add.outer(np.arange(12), a * np.arange(12)) > 9) for a in (0, 1)]
NOISY = [image + RNG.normal(size=image.shape) for image in CLEAN]
PAIR = RNG.random((5, 8)), RNG.random((5, 8))
TABLE = RNG.normal(size=(40, 3)) + np.repeat([[0.0], [2.0]], 20, axis=0), np.repeat([0, 1], 20)
VIEWS = make_grouped_views(n_groups=2, clusters_per_group=2, random_state=0).views

#: the function of the core that the main work of `fit` is left to
REACHED = [
    (GroupFeatureClustering(4, n_init=1, random_state=0), (VIEWS,), "solve"),
    (GraphClustering(2, random_state=0), (make_graphs(2, 2, n_nodes=4)[0],), "solve"),
    (SpectralMetric(n_rounds=5), TABLE, "train"),
    (Denoiser(np.arange(3), max_iter=2), (NOISY, CLEAN), "train"),
    (PatternDenoiser(3, max_iter=2), (NOISY, CLEAN), "train"),
    (StereoMatcher(3, max_iter=2), ([PAIR], [np.ones((5, 8))]), "train"),
]
#: estimators that do without; their docstrings say why, with the figure
APART = [
    (MLCA(), TABLE),
    (PointSetClustering(2, n_init=1), (make_point_sets(2, n_points=6, random_state=0).images,)),
]


def called(model, arguments):
    """Which of `gm.solve` and `gm.train` a fit passes through."""
    profile = cProfile.Profile()
    profile.runcall(model.fit, *arguments)
    places = {("solvers/api.py", "solve"), ("learn/trainer.py", "train")}
    files = {(key[0].replace("\\", "/"), key[2]) for key in pstats.Stats(profile).stats}
    return {name for end, name in places if any(f.endswith(end) and n == name for f, n in files)}


@pytest.mark.parametrize(("model", "arguments", "name"), REACHED, ids=lambda e: type(e).__name__)
def test_fit_passes_through_the_core(model, arguments, name):
    assert name in called(model, arguments)


@pytest.mark.parametrize(("model", "arguments"), APART, ids=lambda e: type(e).__name__)
def test_who_stays_apart_does(model, arguments):
    assert not called(model, arguments)
