"""Everything that gmlearn_clustering registers keeps its contract: the conformance kit's checks."""

from itertools import product

import numpy as np
import pytest
from gmlearn_clustering import ClusteringLoss, exemplar_model
from gmlearn_clustering.distances import MatrixSample
from gmlearn_clustering.slaves import ExemplarDecomposition

import gmlearn as gm


@gm.testing.parametrize_with_checks("clustering")
def test_contracts(thing, check):
    check(thing)


@pytest.mark.parametrize("seed", range(3))
def test_slaves_sum_to_the_energy(seed):
    """What the kit cannot read off slaves that share the indicators x_qq alone."""
    decomposition = ExemplarDecomposition()
    for crf, w in decomposition.examples(np.random.default_rng(seed)):
        slaves = decomposition.decompose(crf)
        points, *counts = slaves.groups
        ubar = points.prepare(crf.check_weights(w)) + points.extra
        for x in map(np.array, product(range(crf.n_vars), repeat=crf.n_vars)):
            if np.any(x[x] != x):
                assert crf.energy(x, w) == np.inf
                continue
            total = slaves.constant(w) + slaves.unary(w) @ slaves.indicators(x)
            total += sum(ubar[p, q] for p, q in enumerate(x) if p != q)
            total -= sum(
                group.alpha * abs(1 - np.isin(members, x).sum())
                for group in counts
                for members in group.members_of
            )
            assert total == pytest.approx(crf.energy(x, w))


def test_loss_refuses_labels_that_are_no_clustering():
    crf, loss = exemplar_model(MatrixSample(np.ones((1, 3, 3)))), ClusteringLoss()
    with pytest.raises(ValueError, match="point 0 is assigned to 1, which is assigned to 2"):
        loss.augment(crf, np.array([1, 2, 2]))
    with pytest.raises(ValueError, match="the cluster of every point must be known, got 1 hidden"):
        loss.value(crf, np.zeros(3, int), np.zeros(3, int), np.array([True, False, True]))
