"""The assignment step against enumeration, with every mix of bounds, links and forbidden
entries.
"""

import itertools

import numpy as np
import pytest
from gmlearn_groupfs import constrained_assignment, greedy_assignment
from hypothesis import given, settings
from hypothesis import strategies as st


def brute_force(costs, lower, upper, must, cannot):
    """The least cost over all C**n labellings, inf if none is allowed."""
    n, n_clusters = costs.shape
    best = np.inf
    for labels in itertools.product(range(n_clusters), repeat=n):
        sizes = np.bincount(labels, minlength=n_clusters)
        if (
            np.all(sizes >= lower)
            and np.all(sizes <= upper)
            and all(labels[i] == labels[j] for i, j in must)
            and all(labels[i] != labels[j] for i, j in cannot)
        ):
            best = min(best, costs[np.arange(n), list(labels)].sum())
    return best


@st.composite
def problems(draw):
    n, n_clusters = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    # whole numbers make ties common
    costs = (
        rng.integers(-3, 4, (n, n_clusters))
        if draw(st.booleans())
        else rng.normal(size=(n, n_clusters))
    )
    costs = costs.astype(float)
    costs[rng.random((n, n_clusters)) < draw(st.sampled_from([0.0, 0.2]))] = np.inf
    pairs = list(itertools.combinations(range(n), 2))
    links = st.lists(st.sampled_from(pairs), max_size=3, unique=True) if pairs else st.just([])
    if draw(st.booleans()):
        lower, upper = rng.integers(0, 3, n_clusters), rng.integers(1, 6, n_clusters)
    else:
        lower, upper = draw(st.integers(0, 2)), draw(st.integers(1, 6))
    return costs, lower, upper, draw(links), draw(links)


@settings(deadline=None, max_examples=250)
@given(problems())
def test_equals_brute_force_or_is_refused(problem):
    costs, lower, upper, must, cannot = problem
    truth = brute_force(costs, lower, upper, must, cannot)
    if np.isinf(truth):
        with pytest.raises(ValueError, match=r"sizes|link|costs"):
            constrained_assignment(costs, (lower, upper), must, cannot)
        return
    labels = constrained_assignment(costs, (lower, upper), must, cannot)
    sizes = np.bincount(labels, minlength=costs.shape[1])
    assert labels.shape == (len(costs),)
    assert np.all(sizes >= lower) and np.all(sizes <= upper)
    assert all(labels[i] == labels[j] for i, j in must) and all(
        labels[i] != labels[j] for i, j in cannot
    )
    np.testing.assert_allclose(costs[np.arange(len(costs)), labels].sum(), truth, atol=1e-9)


def test_transport_equals_linear_program():
    from scipy.optimize import linprog

    rng = np.random.default_rng(3)
    n, n_clusters, lower, upper = 90, 7, 9, 16
    # uneven, so that both bounds bind
    costs = rng.normal(size=(n, n_clusters)) + np.linspace(-2, 2, n_clusters)
    labels = constrained_assignment(costs, (lower, upper))
    sizes = np.kron(np.ones((1, n)), np.eye(n_clusters))
    limits = np.repeat([upper, -lower], n_clusters)
    program = linprog(
        costs.ravel(),
        A_ub=np.vstack([sizes, -sizes]),
        b_ub=limits,
        A_eq=np.kron(np.eye(n), np.ones((1, n_clusters))),
        b_eq=np.ones(n),
        bounds=(0, 1),
    )
    np.testing.assert_allclose(costs[np.arange(n), labels].sum(), program.fun, rtol=1e-9)
    assert set(np.bincount(labels)) >= {lower, upper}


def test_large_costs_lose_no_precision():
    rng = np.random.default_rng(0)
    costs = rng.random((40, 4))
    plain = constrained_assignment(costs, (8, 12))
    np.testing.assert_array_equal(plain, constrained_assignment(1e6 * costs, (8, 12)))
    links = [(0, 1), (2, 3)], [(4, 5), (6, 7)]
    np.testing.assert_array_equal(
        constrained_assignment(costs, (8, 12), *links),
        constrained_assignment(1e-6 * costs, (8, 12), *links),
    )


def test_greedy_respects_the_upper_bound_and_is_never_better():
    costs = np.random.default_rng(1).normal(size=(30, 3))
    greedy, exact = greedy_assignment(costs, 11), constrained_assignment(costs, (0, 11))
    assert np.bincount(greedy).max() <= 11
    assert costs[np.arange(30), greedy].sum() >= costs[np.arange(30), exact].sum() - 1e-12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            dict(sizes=(0, 1)),
            r"sizes: the upper bounds leave room for 2 points in 2 clusters, got 4",
        ),
        (dict(sizes=(3, 4)), r"sizes: the lower bounds ask for 6 points in 2 clusters, got only 4"),
        (dict(sizes=(3, 2)), r"sizes: expected 0 <= lower <= upper, got \[3, 2\]"),
        (dict(sizes=3), r"sizes: expected a pair"),
        (dict(sizes=([1, 1, 1], 4)), r"sizes\[0\]: expected one number or 2"),
        (
            dict(must_link=[(0, 1), (1, 2)], cannot_link=[(2, 0)]),
            r"cannot_link: \(2, 0\) contradicts .* 2 - 1 - 0",
        ),
        (
            dict(cannot_link=[(0, 1), (1, 2), (0, 2), (2, 3)]),
            r"cannot_link: 3 points are pairwise kept apart \(0, 1, 2\)",
        ),
        (
            dict(sizes=(2, 2), must_link=[(0, 1), (1, 2)]),
            r"must_link: 3 points are tied together \(0, 1, 2\).* at most 2",
        ),
        (
            dict(sizes=(2, 2), cannot_link=[(0, 1), (0, 2), (0, 3)]),
            r"cannot_link \(0, 1\), \(0, 2\), \(0, 3\) cannot be met together with the size bounds \[2, 2\].*widen",
        ),
        (dict(must_link=[(0, 4)]), r"must_link: expected indices in 0\.\.3, got 4"),
        (
            dict(cannot_link=[(1, 1)]),
            r"cannot_link: expected pairs of different points, got \(1, 1\)",
        ),
        (dict(cannot_link=[(1, 1, 2)]), r"cannot_link: expected shape \(any, 2\)"),
    ],
)
def test_conflicts_are_explained(arguments, message):
    with pytest.raises(ValueError, match=message):
        constrained_assignment(np.zeros((4, 2)), **arguments)


def test_an_odd_ring_of_links_needs_a_third_cluster():
    ring = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]
    message = r"cannot_link \(0, 1\), \(1, 2\), \(2, 3\), \(3, 4\), \(4, 0\) cannot be met .* 2 clusters; .* raise"
    with pytest.raises(ValueError, match=message):
        constrained_assignment(np.zeros((8, 2)), cannot_link=[(5, 6), *ring, (6, 7)])
    assert len(set(constrained_assignment(np.zeros((8, 3)), cannot_link=ring))) == 3


def test_nearly_tied_costs_end():
    """Costs equal up to rounding: floating-point shortest paths could chase cycles for ever."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        n, n_clusters = int(rng.integers(30, 200)), int(rng.integers(2, 30))
        costs = rng.integers(0, 6, (n, n_clusters)) / 7 + 1e-15 * rng.normal(size=(n, n_clusters))
        sizes = np.bincount(
            constrained_assignment(costs, (n // n_clusters - 1, n // n_clusters + 2)),
            minlength=n_clusters,
        )
        assert sizes.min() >= n // n_clusters - 1 and sizes.max() <= n // n_clusters + 2


def test_forbidden_entries_are_explained():
    with pytest.raises(
        ValueError, match=r"no cluster has a finite cost for point\(s\) \[0, 1\] tied by must-links"
    ):
        constrained_assignment([[np.inf, 0], [0, np.inf]], must_link=[(0, 1)])
    with pytest.raises(ValueError, match=r"forbid fewer entries"):
        constrained_assignment([[0, np.inf], [0, np.inf]], sizes=(1, 1))
    with pytest.raises(ValueError, match=r"costs: contains NaN"):
        constrained_assignment([[0, np.nan]])
