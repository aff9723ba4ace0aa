"""E(Q): energies, local search, dual bound and exact solver against enumeration."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse
from gmlearn_clustering import (
    ExemplarClustering,
    assign,
    exemplar_energy,
    exemplars_of_number,
    minimise_exemplars,
)
from gmlearn_clustering import _local_search_numba as kernels
from gmlearn_clustering.dual_bound import dual_prices, price_bound, reduce_problem
from gmlearn_clustering.energy import with_penalty
from gmlearn_clustering.exact import exact_exemplars
from gmlearn_clustering.facility import facility_problem
from gmlearn_clustering.local_search import local_search
from hypothesis import given, settings
from hypothesis import strategies as st


def subsets(n):
    return [np.array(c) for k in range(1, n + 1) for c in combinations(range(n), k)]


def energy_by_definition(costs, exemplars):
    rest = [p for p in range(len(costs)) if p not in exemplars]
    return sum(min(costs[p, q] for q in exemplars) for p in rest) + sum(
        costs[q, q] for q in exemplars
    )


def random_costs(rng, n, kind):
    if kind == "ties":
        costs = rng.integers(0, 3, (n, n)).astype(float)
    elif kind == "signed":
        costs = rng.normal(size=(n, n))
    else:
        costs = rng.random((n, n))
    if kind == "forbidden":
        costs[rng.random((n, n)) < 0.3] = np.inf
    costs[np.arange(n), np.arange(n)] = rng.normal(size=n) + 0.5  # negative penalties, too
    return costs


KINDS = st.sampled_from(["metricless", "ties", "signed", "forbidden"])


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 7), KINDS)
def test_energy_is_its_definition(seed, n, kind):
    costs = random_costs(np.random.default_rng(seed), n, kind)
    for exemplars in subsets(n):
        assert exemplar_energy(costs, exemplars) == pytest.approx(
            energy_by_definition(costs, exemplars)
        )
        chosen = assign(costs, exemplars)
        assert set(chosen[chosen >= 0]) <= set(exemplars) and (chosen[exemplars] == exemplars).all()


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 7), KINDS)
def test_local_search_bound_and_exact_against_enumeration(seed, n, kind):
    costs = random_costs(np.random.default_rng(seed), n, kind)
    minimum = min(exemplar_energy(costs, q) for q in subsets(n))
    local = minimise_exemplars(costs, "local", n_kicks=400)
    exact = minimise_exemplars(costs, "exact")
    assert exact.energy == pytest.approx(minimum, abs=1e-7)
    assert exact.bound == pytest.approx(minimum, abs=1e-6)
    assert local.energy >= minimum - 1e-9 and local.bound <= minimum + 1e-9
    assert local.energy <= minimum + 0.05 * (1 + abs(minimum))
    assert local.energy == pytest.approx(exemplar_energy(costs, np.unique(local.labels)))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(2, 7), KINDS)
def test_facility_form_has_the_same_energies(seed, n, kind):
    costs = random_costs(np.random.default_rng(seed), n, kind)
    problem = facility_problem(costs, prune=False)
    always = np.flatnonzero(problem.always_open)
    for exemplars in subsets(n):
        energy = exemplar_energy(costs, exemplars)
        if np.isfinite(energy) and set(always) <= set(exemplars):
            assert problem.energy(exemplars) == pytest.approx(energy)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 9), KINDS)
def test_another_penalty_gives_the_problem_built_anew(seed, n, kind):
    rng = np.random.default_rng(seed)
    distances, penalty = random_costs(rng, n, kind), float(rng.normal() + 0.5)
    found = facility_problem(with_penalty(distances, 50.0)).at_penalty(penalty)
    wanted = facility_problem(with_penalty(distances, penalty))
    assert found.offset == pytest.approx(wanted.offset)
    for name in (
        "fee",
        "alone",
        "always_open",
        "row_start",
        "row_exemplar",
        "row_cost",
        "column_start",
        "column_client",
    ):
        assert np.array_equal(getattr(found, name), getattr(wanted, name)), name


def test_bound_and_reduction_keep_the_optimum():
    rng = np.random.default_rng(3)
    for _ in range(5):
        X = rng.normal(size=(40, 3))
        costs = with_penalty(((X[:, None] - X[None]) ** 2).sum(-1), 4.0)
        problem = facility_problem(costs)
        start = local_search(problem, n_kicks=0)
        upper = exemplar_energy(costs, start)
        prices = dual_prices(problem, upper)
        best, proved = exact_exemplars(problem, start)
        minimum = exemplar_energy(costs, best)
        assert price_bound(problem, prices)[0] <= minimum + 1e-9 and proved == pytest.approx(
            minimum
        )
        small = reduce_problem(problem, prices, upper)
        assert len(small.row_cost) <= len(problem.row_cost)
        assert small.energy(best) == pytest.approx(minimum)


def test_costs_whose_sums_are_rounded_away():
    """The bound may then be above the energy of `start`, and nothing is left to search."""
    costs = np.array(
        [
            [0.7032208554576599, -1.0658156756047208e16, 10964281.719541546],
            [42882462.70115386, 1.3288941362324896e16, 1.3246582599361687],
            [-173788609.4572958, -0.5763184340865047, 1.8848966017285434e100],
        ]
    )
    best, proved = exact_exemplars(facility_problem(costs), np.array([0]))
    energy = exemplar_energy(costs, best)
    minimum = min(exemplar_energy(costs, np.array(q)) for q in ([0], [1], [0, 1]))
    assert proved <= energy == pytest.approx(minimum, rel=1e-6)


def test_optimiser_is_near_exact_on_clustered_sets():
    ratios = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = 2 * rng.normal(size=(6, 4))[rng.integers(0, 6, 90)] + rng.normal(size=(90, 4))
        costs = with_penalty(((X[:, None] - X[None]) ** 2).sum(-1), 12.0)
        ratios.append(
            minimise_exemplars(costs, "local", n_kicks=400).energy
            / minimise_exemplars(costs, "exact").energy
        )
    assert np.mean(ratios) <= 1.0005 and np.max(ratios) <= 1.006


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 12), KINDS, st.booleans())
def test_search_keeps_its_books(seed, n, kind, fixed):
    """The cost that the compiled search returns is that of the set it leaves, ties and kicks
    included.
    """
    rng = np.random.default_rng(seed)
    problem = facility_problem(random_costs(rng, n, kind), prune=not fixed)
    is_open = problem.always_open.copy()
    is_open[rng.choice(np.flatnonzero(np.isfinite(problem.fee)), size=1)] = True
    size = is_open.sum()
    cost = kernels.search(*problem.arrays, is_open, 60, 60, fixed, True, seed)
    assert cost + problem.offset == pytest.approx(problem.energy(np.flatnonzero(is_open)))
    assert not fixed or is_open.sum() == size


def test_rows_are_sorted_by_cost_and_then_index_with_places_in_the_columns():
    rng = np.random.default_rng(0)
    for forbidden in (False, True):
        costs = rng.integers(0, 4, (30, 30)).astype(float)
        if forbidden:
            costs[rng.random((30, 30)) < 0.2] = np.inf
        problem = facility_problem(with_penalty(costs, 9.0))
        for p in range(30):
            row = slice(problem.row_start[p] + 1, problem.row_start[p + 1])
            pairs = list(zip(problem.row_cost[row], problem.row_exemplar[row]))
            assert pairs == sorted(pairs)
        client = problem.column_client.astype(np.int64)
        entry = problem.row_start[client] + problem.column_place
        assert np.array_equal(
            problem.row_exemplar[entry], np.repeat(np.arange(30), np.diff(problem.column_start))
        )
        assert np.array_equal(problem.row_cost[entry], problem.column_cost)


def test_prices_may_start_from_others():
    X = np.random.default_rng(3).normal(size=(60, 3))
    costs = with_penalty(((X[:, None] - X[None]) ** 2).sum(-1), 4.0)
    problem = facility_problem(costs)
    upper = exemplar_energy(costs, local_search(problem))
    first = dual_prices(problem, upper, n_rounds=20)
    kept = first.copy()
    better = dual_prices(problem, upper, n_rounds=200, start=first)
    assert (
        np.array_equal(first, kept)
        and price_bound(problem, better)[0] >= price_bound(problem, first)[0] - 1e-9
    )


def test_same_seed_same_answer_and_ties_to_the_lowest_index():
    costs = with_penalty(np.ones((6, 6)), 0.5)
    costs[:] = np.where(np.eye(6, dtype=bool), 2.0, 1.0)
    first = minimise_exemplars(costs, seed=4)
    assert np.array_equal(first.labels, minimise_exemplars(costs, seed=4).labels)
    assert assign(np.where(np.eye(4, dtype=bool), 9.0, 1.0), np.array([1, 2])).tolist() == [
        1,
        1,
        2,
        1,
    ]


def test_sparse_graph_equals_dense_with_forbidden_pairs():
    rng = np.random.default_rng(0)
    for _ in range(5):
        costs = random_costs(rng, 25, "forbidden")
        keep = np.isfinite(costs)
        graph = scipy.sparse.csr_array((costs[keep], np.nonzero(keep)), shape=costs.shape)
        dense, sparse = minimise_exemplars(costs, "exact"), minimise_exemplars(graph, "exact")
        assert sparse.energy == pytest.approx(dense.energy)
        assert exemplar_energy(graph, np.unique(dense.labels)) == pytest.approx(dense.energy)


def test_wanted_number_of_clusters():
    X = np.random.default_rng(1).normal(size=(30, 2))
    distances = ((X[:, None] - X[None]) ** 2).sum(-1)
    for k in (1, 2, 5, 17, 29, 30):
        assert len(exemplars_of_number(distances, k)[1]) == k
    best = min(distances[:, list(c)].min(axis=1).sum() for c in combinations(range(30), 2))
    found = exemplars_of_number(distances, 2)[1]
    assert distances[:, found].min(axis=1).sum() == pytest.approx(best)
    # equal distances: the number jumps from 1 to n, so only swaps can give the numbers between
    assert len(exemplars_of_number(1.0 - np.eye(8), 3)[1]) == 3


def test_excess_of_a_wanted_number_is_that_over_the_penalised_optimum():
    rng = np.random.default_rng(2)
    for kind in ("metricless", "ties"):
        distances = with_penalty(random_costs(rng, 25, kind), 0.0)
        for k in (2, 6, 11):
            model = ExemplarClustering(metric="precomputed", n_clusters=k, random_state=0)
            model.fit(distances)
            best = minimise_exemplars(with_penalty(distances, model.penalty_), "exact")
            assert len(model.cluster_centers_indices_) == k
            assert model.energy_ - model.excess_ >= best.energy - 1e-9
            assert model.excess_ == pytest.approx(model.energy_ - best.energy, abs=1e-6)
            assert model.lower_bound_ <= best.energy + 1e-9


def test_bad_costs():
    with pytest.raises(ValueError, match="costs: expected a square matrix"):
        minimise_exemplars(np.ones((2, 3)))
    with pytest.raises(ValueError, match="costs: contains NaN"):
        minimise_exemplars(np.array([[1.0, np.nan], [0.0, 1.0]]))
    with pytest.raises(ValueError, match="only forbidden"):
        minimise_exemplars(np.array([[np.inf, np.inf], [1.0, 1.0]]))
    with pytest.raises(ValueError, match="solver: expected one of"):
        minimise_exemplars(np.ones((2, 2)), solver="magic")
    with pytest.raises(ValueError, match="n_clusters"):
        exemplars_of_number(np.ones((3, 3)), 4)
