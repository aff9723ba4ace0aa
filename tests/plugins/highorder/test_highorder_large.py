"""Cliques too large to enumerate, against an independent minimisation over how many members take
each label.
"""

import gmlearn_highorder as h
import numpy as np
import pytest
from highorder_cases import KINDS, numbers

SIZE, LABELS = 45, 3


def symmetric_block(kind, rng):
    """One clique whose cost depends on the counts of labels only."""
    clique, beta = [np.arange(SIZE)], 15 * numbers(rng, LABELS, False)
    costs = 4 * numbers(rng, SIZE + 1, False)
    costs[rng.random(SIZE + 1) < 0.2] = np.inf
    blocks = {
        "pn_potts": lambda: h.PnPotts(clique, 2 * beta, 3.0),
        "robust_pn": lambda: h.RobustPn(
            clique, float(rng.uniform(1, 22)), beta, float(rng.normal())
        ),
        "cardinality": lambda: h.Cardinality(clique, costs, label=int(rng.integers(LABELS))),
        "exactly_one": lambda: h.ExactlyOne(clique),
        "at_most_k": lambda: h.AtMost(clique, int(rng.integers(SIZE))),
        "label_cost": lambda: h.LabelCost(clique, beta if rng.random() < 0.5 else np.abs(beta)),
    }
    return blocks[kind]().bind(np.full(SIZE, LABELS))


def best_by_counts(theta):
    """best[n0, n1, n2]: the lowest sum of theta with these counts, by dynamic programming over
    the members.
    """
    best = np.full((SIZE + 1,) * LABELS, np.inf)
    best[0, 0, 0] = 0.0
    for row in theta:
        moved = [np.full_like(best, np.inf) for _ in range(LABELS)]
        moved[0][1:] = best[:-1] + row[0]
        moved[1][:, 1:] = best[:, :-1] + row[1]
        moved[2][:, :, 1:] = best[:, :, :-1] + row[2]
        best = np.minimum.reduce(moved)
    return best


def minimum(block, theta):
    best = best_by_counts(theta)
    counts = np.argwhere(np.isfinite(best))
    x = np.concatenate([np.repeat(np.arange(LABELS), c) for c in counts])
    energy = block.take(np.zeros(len(counts), np.int64)).energy(x, {})
    return (energy + best[tuple(counts.T)]).min()


@pytest.mark.parametrize(
    "kind", ["pn_potts", "robust_pn", "cardinality", "exactly_one", "at_most_k", "label_cost"]
)
def test_large_cliques_against_counts(kind):
    solver = KINDS[kind][1]
    for seed in range(8):
        rng = np.random.default_rng(seed)
        block = symmetric_block(kind, rng)
        theta = numbers(rng, (SIZE, LABELS), coarse=seed % 2 == 1)
        if seed % 4 >= 2:
            theta[rng.random(theta.shape) < 0.1] = np.inf
            theta[:, 0] = np.where(np.isinf(theta).all(axis=1), 0.0, theta[:, 0])
        prepared = solver.prepare(block, {})
        np.testing.assert_allclose(
            solver.minimise(block, theta, prepared)[1][0], minimum(block, theta), atol=1e-9
        )
        marginals = solver.min_marginals(block, theta, prepared)
        for i, l in zip(rng.integers(SIZE, size=3), rng.integers(LABELS, size=3)):
            fixed = theta.copy()
            fixed[i, np.arange(LABELS) != l] = np.inf
            expected = minimum(block, fixed) if np.isfinite(theta[i, l]) else np.inf
            np.testing.assert_allclose(marginals[i, l], expected, atol=1e-9)
