"""Grids among the parts of a joined model."""

from __future__ import annotations

import numpy as np
import pytest

import gmlearn as gm
from gmlearn.model.grid import grid_widths

GRID = gm.grid_edges(3, 4)
#: variables, edges, width (0: no grid)
PARTS = [
    (12, GRID, 4),
    (12, GRID[::-1, ::-1], 4),
    (5, gm.grid_edges(1, 5), 5),
    (6, gm.grid_edges(3, 2), 2),
    (12, GRID[:-1], 0),
    (12, np.concatenate([GRID[:-1], GRID[:1]]), 0),
    (12, np.concatenate([GRID[1:], [[3, 4]]]), 0),
    (4, np.zeros((0, 2), np.int64), 0),
    (0, np.zeros((0, 2), np.int64), 0),
    (1, np.zeros((0, 2), np.int64), 0),
]


@pytest.mark.parametrize("seed", range(4))
def test_grids_are_found_whatever_their_neighbours_and_the_order_of_edges(seed):
    rng = np.random.default_rng(seed)
    chosen = [PARTS[k] for k in rng.permutation(len(PARTS))]
    first = np.cumsum([0, *(n for n, _, _ in chosen)])
    edges = np.concatenate([e + shift for (_, e, _), shift in zip(chosen, first)])
    found = grid_widths(rng.permutation(edges), first)
    assert found.tolist() == [width for _, _, width in chosen]


@pytest.mark.parametrize("n, edges, width", PARTS)
def test_a_grid_on_its_own(n, edges, width):
    assert gm.find_grid(edges, n) == ((n // width, width) if width else None)
