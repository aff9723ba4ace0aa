"""The energy view: the cluster loss as a potential, its slave, and gm.solve."""

import itertools
import subprocess
import sys

import gmlearn_groupfs.plugin
import numpy as np
import pytest
from gmlearn_groupfs import (
    AssignmentSolver,
    ClusterLoss,
    GroupFeatureClustering,
    PartitionSolver,
    constrained_assignment,
    make_grouped_views,
)

import gmlearn as gm


@pytest.fixture(scope="module", autouse=True)
def registered():
    """The plugin, where its entry point is not installed."""
    if not any(entry.name == "cluster_loss" for entry in gm.plugins()):
        gm.register(gmlearn_groupfs.plugin)


def total_loss(scores, labels):
    """Sum over clusters and points of ln(1 + exp(-y f)), written out."""
    signs = 2.0 * (labels[:, None] == np.arange(scores.shape[1])) - 1.0
    return np.log1p(np.exp(-signs * scores)).sum()


def test_energy_is_the_total_loss_or_infinite():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(5, 3))
    block = ClusterLoss([np.arange(5)], scores, (1, 3), [(0, 1)], [(2, 3)]).bind(np.full(5, 3))
    for labels in itertools.product(range(3), repeat=5):
        x = np.array(labels)
        sizes = np.bincount(x, minlength=3)
        kept = sizes.min() >= 1 and sizes.max() <= 3 and x[0] == x[1] and x[2] != x[3]
        expected = total_loss(scores, x) if kept else np.inf
        assert block.energy(x[None], {})[0] == pytest.approx(expected)


def test_slave_matches_enumeration():
    rng = np.random.default_rng(1)
    solver = AssignmentSolver()
    for block, w in solver.examples(rng):
        theta = rng.normal(size=(len(block), block.arity, block.max_states))
        kept = theta.copy()
        labels, values = solver.minimise(block, theta, w)
        np.testing.assert_array_equal(theta, kept)
        for m in range(len(block)):
            one = block.take([m])
            energies = [
                one.energy(np.array([x]), w)[0] + theta[m, np.arange(block.arity), list(x)].sum()
                for x in itertools.product(range(block.max_states), repeat=block.arity)
            ]
            assert values[m] == pytest.approx(min(energies))
            direct = (
                one.energy(labels[m][None], w)[0]
                + theta[m, np.arange(block.arity), labels[m]].sum()
            )
            assert direct == pytest.approx(values[m])


@pytest.mark.parametrize("scores_as", ["potential", "unary"])
def test_solve_answers_the_assignment_step(scores_as):
    rng = np.random.default_rng(2)
    scores, sizes, cannot = rng.normal(size=(60, 4)), (12, 18), [(0, 1), (1, 2)]
    direct = constrained_assignment(-scores, sizes, cannot_link=cannot)
    crf = gm.CRF(np.full(60, 4))
    if scores_as == "potential":
        crf.add(ClusterLoss([np.arange(60)], scores, sizes, cannot_link=cannot))
        expected = total_loss(scores, direct)
    else:
        crf.add_unary(-scores)
        crf.add(ClusterLoss([np.arange(60)], None, sizes, cannot_link=cannot))
        expected = -scores[np.arange(60), direct].sum()
    result = gm.solve(crf)
    assert result.energy == pytest.approx(expected)
    assert result.bound == pytest.approx(expected)
    assert result.status == gm.Status.OPTIMAL
    np.testing.assert_array_equal(result.labels, direct)


def test_bad_blocks_are_refused():
    with pytest.raises(ValueError, match="scores: expected shape"):
        ClusterLoss([np.arange(4)], np.zeros((5, 2)))
    with pytest.raises(ValueError, match="scores: expected 3 clusters"):
        ClusterLoss([np.arange(4)], np.zeros((4, 2))).bind(np.full(4, 3))
    with pytest.raises(ValueError, match="the same number of states"):
        ClusterLoss([np.arange(2)]).bind(np.array([2, 3]))
    with pytest.raises(ValueError, match="sizes: the upper bounds leave room"):
        ClusterLoss([np.arange(4)], sizes=(0, 1)).bind(np.full(4, 2))
    assert "cluster_loss" in AssignmentSolver().refuses(gm.Potts([[0, 1]]))


def test_plugin_is_light():
    code = (
        "import sys, gmlearn_groupfs.plugin as p; p.gmlearn_potentials(); "
        "p.gmlearn_slave_solvers(); "
        "p.gmlearn_experiments(); print([m for m in ('numba', 'sklearn', 'matplotlib', 'cvxpy') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("seed", range(6))
def test_auto_leaves_partitions_to_the_exact_solver(seed):
    rng = np.random.default_rng(seed)
    crf = gm.CRF(6, 3).add_unary(rng.normal(size=(6, 3)))
    links = ([(0, 3)], [(1, 2), (2, 4)]) if seed % 2 else (None, None)
    crf.add(ClusterLoss([rng.permutation(6)], rng.normal(size=(6, 3)), (1, 3), *links))
    if seed > 3:
        crf = crf.clamp({0: 1, 5: 2})
    best = min(crf.energy(x) for x in itertools.product(range(3), repeat=6))
    result = gm.solve(crf)
    assert "constrained_assignment: it claims" in result.reason
    assert result.energy == result.bound == pytest.approx(best)
    full = crf.clamp(np.zeros(6, np.int64))
    assert gm.solve(full).status == gm.Status.INFEASIBLE


def test_other_models_are_not_claimed():
    solver = PartitionSolver()
    block = ClusterLoss([np.arange(4)], None, (1, 3))
    crf, larger, pair, two = gm.CRF(4, 2), gm.CRF(5, 2), gm.CRF(4, 2), gm.CRF(4, 2)
    for model in (crf, larger, pair):
        model.add(block)
    pair.add(gm.Potts([[0, 1]], 1.0))
    two.add(ClusterLoss([[0, 1], [2, 3]], None, (1, 1)))
    assert solver.claims(crf, {})
    for model in (larger, pair, two, gm.CRF(4, 2)):
        assert not solver.claims(model, {})


def test_the_estimator_assigns_through_solve(monkeypatch):
    seen, solve = [], gm.solve
    monkeypatch.setattr(gm, "solve", lambda *a, **k: seen.append(a[0]) or solve(*a, **k))
    views = make_grouped_views(2, 2, 10, n_nuisance=1, random_state=0).views
    GroupFeatureClustering(4, n_init=1, max_iter=3).fit(views)
    assert len(seen) > 1
    assert all(isinstance(crf.blocks[0], ClusterLoss) for crf in seen)
