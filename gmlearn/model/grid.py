"""Grids numbered row by row: their edges, cells, and how to recognise one."""

from __future__ import annotations

import numpy as np

from gmlearn._utils.validation import check_array, check_choice, check_number

#: variables that any machine could hold
MAX_VARIABLES = 2**40


def grid_edges(height: int, width: int, connectivity: int = 4) -> np.ndarray:
    """Edges (M, 2) of a grid: horizontal, vertical, then (8-connected) the two diagonals."""
    check_number("height", height, low=1, integer=True)
    check_number("width", width, low=1, high=MAX_VARIABLES // height, integer=True)
    check_choice("connectivity", connectivity, (4, 8))
    index = np.arange(height * width).reshape(height, width)
    pairs = [(index[:, :-1], index[:, 1:]), (index[:-1], index[1:])]
    if connectivity == 8:
        pairs += [(index[:-1, :-1], index[1:, 1:]), (index[:-1, 1:], index[1:, :-1])]
    return np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in pairs])


def grid_cliques(
    height: int, width: int, clique_height: int, clique_width: int, stride: int = 1
) -> np.ndarray:
    """All windows (M, clique_height * clique_width) of a grid, at every `stride`-th position."""
    for name, value in (
        ("height", height),
        ("width", width),
        ("clique_height", clique_height),
        ("clique_width", clique_width),
        ("stride", stride),
    ):
        check_number(name, value, low=1, high=2**31, integer=True)
    rows = np.arange(0, height - clique_height + 1, stride)
    columns = np.arange(0, width - clique_width + 1, stride)
    corner = (rows[:, None] * width + columns[None, :]).ravel()
    inside = (np.arange(clique_height)[:, None] * width + np.arange(clique_width)[None, :]).ravel()
    return corner[:, None] + inside[None, :]


def find_grid(edges: np.ndarray, n_vars: int) -> tuple[int, int] | None:
    """(height, width) if `edges` are exactly those of a 4-connected grid numbered row by row,
    else None.
    """
    edges = check_array("edges", edges, shape=(None, 2), dtype=np.int64)
    check_number("n_vars", n_vars, low=0, high=MAX_VARIABLES, integer=True)
    if len(edges) and (edges.min() < 0 or edges.max() >= n_vars):
        return None
    low = np.minimum(edges[:, 0], edges[:, 1])  # much faster than reductions along an axis of two
    step = np.abs(edges[:, 0] - edges[:, 1])
    wide = step[step > 1]
    width = int(wide[0]) if len(wide) else n_vars
    if width < 2 or n_vars % width or ((step != 1) & (step != width)).any():
        return None
    height = n_vars // width
    if len(edges) != height * (width - 1) + (height - 1) * width:
        return None
    horizontal = low[step == 1]
    if (horizontal % width == width - 1).any() or (np.bincount(low * 2 + (step != 1)) > 1).any():
        return None
    return height, width
