"""Kernel banks, neighbour kernels and the made data."""

import numpy as np
import pytest
from gmlearn_groupfs import KernelBank, make_grouped_views
from gmlearn_groupfs.links import propagate_links, with_evidence
from gmlearn_groupfs.neighbours import NeighbourKernels, default_neighbours
from scipy.spatial.distance import cdist


@pytest.fixture
def views():
    rng = np.random.default_rng(0)
    return [rng.normal(size=(12, 3)), rng.random((12, 5))]


@pytest.mark.parametrize(
    ("metric", "reference"),
    [
        ("euclidean", lambda a: cdist(a, a)),
        ("cosine", lambda a: cdist(a, a, "cosine")),
        ("manhattan", lambda a: cdist(a, a, "cityblock")),
        ("chi2", lambda a: np.array([[((x - y) ** 2 / (x + y)).sum() for y in a] for x in a])),
    ],
)
def test_named_distances(views, metric, reference):
    bank = KernelBank.from_views(views[1:], metric, gamma=0.7, scale=False)
    np.testing.assert_allclose(bank.kernels[0], np.exp(-0.7 * reference(views[1]) ** 2), atol=1e-7)


def test_median_heuristic_and_given_widths(views):
    distances = np.stack([cdist(v, v) for v in views])
    bank = KernelBank.from_distances(distances)
    upper = np.triu_indices(12, 1)
    np.testing.assert_allclose(bank.gammas, [1 / np.median(d[upper] ** 2) for d in distances])
    np.testing.assert_allclose(
        KernelBank.from_distances(distances, [0.1, 2]).kernels[1], np.exp(-2 * distances[1] ** 2)
    )


def test_cross_kernels_agree_with_the_bank(views):
    bank = KernelBank.from_views(views, ["euclidean", "cosine"])
    np.testing.assert_allclose(bank.cross([v[:4] for v in views]), bank.kernels[:, :4], atol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda v: KernelBank.from_kernels([np.eye(3), np.eye(4)]),
            r"kernels\[1\]: expected shape \(3, 3\)",
        ),
        (
            lambda v: KernelBank.from_kernels([np.triu(np.ones((3, 3)))]),
            r"kernels\[0\]: expected a symmetric matrix",
        ),
        (
            lambda v: KernelBank.from_kernels([np.full((2, 2), np.nan)]),
            r"kernels\[0\]: contains NaN",
        ),
        (lambda v: KernelBank.from_kernels([]), "kernels: expected at least one"),
        (lambda v: KernelBank.from_kernels([np.eye(3)], names=["a", "b"]), "names: expected 1"),
        (
            lambda v: KernelBank.from_distances([-np.ones((2, 2))]),
            "distances: expected non-negative",
        ),
        (
            lambda v: KernelBank.from_distances([np.ones((2, 2))], gamma=-1),
            "gamma: expected 'median'",
        ),
        (lambda v: KernelBank.from_views([v[0], v[1][:5]]), r"views\[1\]: expected 12 rows"),
        (lambda v: KernelBank.from_views(v, "hamming"), "metric: expected one of 'euclidean'"),
        (lambda v: KernelBank.from_views(v, ["cosine"]), "metric: expected one name or 2"),
        (lambda v: KernelBank.from_views(v, "chi2"), "chi2 distance needs non-negative"),
        (
            lambda v: KernelBank.from_views(v).cross([v[0]]),
            "views: expected 2 views as in fit, got 1",
        ),
        (lambda v: KernelBank.from_views(v).cross([v[0], v[0]]), r"views\[1\]: expected 5 columns"),
        (
            lambda v: KernelBank.from_kernels([np.eye(3)]).cross(np.ones((1, 2, 4))),
            r"kernels: expected shape \(1, any, 3\)",
        ),
    ],
)
def test_bad_input_is_named(views, make, message):
    with pytest.raises(ValueError, match=message):
        make(views)


def test_neighbour_kernels_against_sorting():
    rng = np.random.default_rng(2)
    points = rng.normal(size=(15, 2))
    kernel = np.exp(-(cdist(points, points) ** 2))
    graph = NeighbourKernels(kernel[None], 4)
    near = np.zeros((15, 15))
    for i in range(15):
        for size in (2, 4, 6):
            near[i, [j for j in np.argsort(-kernel[i]) if j != i][:size]] += 1 / 3
    np.testing.assert_allclose(graph.kernels[0], (near + near.T) / 2)
    new = np.exp(-(cdist(points[:3] + 1e-9, points) ** 2))
    cross = graph.cross(new[None])[0]
    assert cross.shape == (3, 15)
    # a copy of a point is that point's neighbour, both ways
    assert np.all(cross[np.arange(3), np.arange(3)] == 1)
    assert default_neighbours(210, 7) == 20


def test_links_spread_to_the_neighbours_of_their_ends():
    # three cliques of four, hardly joined
    graph = np.kron(np.eye(3), np.ones((4, 4))) - np.eye(12) + 0.01
    evidence = propagate_links(graph, np.array([[0, 4]]), np.array([[1, 8]]), 0.9)
    np.testing.assert_allclose(evidence, evidence.T)
    assert np.abs(evidence).max() == 1.0
    # points that no link names, in the cliques that links join or part
    assert evidence[2, 6] > 0.2 and evidence[2, 10] < -0.2
    stay = propagate_links(graph, np.array([[0, 4]]), np.array([[1, 8]]), 0.0)
    assert stay[0, 4] == stay[4, 0] == 1.0 and stay[1, 8] == -1.0 and np.count_nonzero(stay) == 4
    moved = with_evidence(np.full((2, 12, 12), 0.5), np.clip(stay, -1, 1))
    assert (
        moved[0, 0, 4] == 1.0
        and moved[1, 1, 8] == 0.0
        and moved[0, 2, 3] == 0.5
        and moved[0, 5, 5] == 0.0
    )


def test_made_data_shows_each_cluster_in_one_view():
    data = make_grouped_views(n_groups=3, clusters_per_group=2, cluster_size=15, random_state=4)
    assert data.labels.shape == (90,) and np.all(np.bincount(data.labels) == 15)
    for c, own in enumerate(data.view_of_cluster):
        spread = [view[data.labels == c].std(axis=0).mean() for view in data.views]
        assert np.argmin(spread) == own
    with pytest.raises(ValueError, match="n_groups: expected a number"):
        make_grouped_views(n_groups=0)
