"""Everything that gmlearn_groupfs registers keeps its contract: the conformance kit's checks."""

import numpy as np
from gmlearn_groupfs import AssignmentSolver, ClusterLoss

import gmlearn as gm


@gm.testing.parametrize_with_checks("groupfs")
def test_contracts(thing, check):
    check(thing)


def test_links_that_cannot_be_kept_together_are_worth_infinity():
    """An odd cycle needs three clusters: no two constraints contradict each other, yet no
    labelling meets all.
    """
    cycle = [(i, (i + 1) % 5) for i in range(5)]
    for n_clusters, feasible in ((2, False), (3, True)):
        block = ClusterLoss([np.arange(5)], cannot_link=cycle).bind(np.full(5, n_clusters))
        labels, value = AssignmentSolver().minimise(block, np.zeros((1, 5, n_clusters)), {})
        assert value[0] == (0.0 if feasible else np.inf)
        assert block.energy(labels, {})[0] == value[0]
