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
    width = int(grid_widths(edges, np.array([0, n_vars]))[0])
    return (n_vars // width, width) if width else None


def grid_widths(edges: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """int (n,): the width of each part of a joined model whose edges are exactly those of such a
    grid, 0 for the others.

    edges : int (E, 2).   parts : int (n + 1,), the first variable of each part, and their number.
    """
    if len(parts) == 2 and len(edges):
        # one grid with its edges in the order of `grid_edges` is told much faster
        n = int(parts[1])
        jumps = edges[:, 1] - edges[:, 0]
        jump = int(jumps[np.argmax(jumps > 1)])
        whole = jump > 1 and n % jump == 0 and len(edges) == 2 * n - jump - n // jump
        if whole and np.array_equal(edges, grid_edges(n // jump, jump)):
            return np.array([jump])
    low = np.minimum(edges[:, 0], edges[:, 1])  # much faster than reductions along an axis of two
    step = np.abs(edges[:, 0] - edges[:, 1])
    home = np.searchsorted(parts, low, side="right") - 1
    size = np.diff(parts)
    width = size.copy()
    wide = np.flatnonzero(step > 1)[::-1]  # the first one of a part is written last
    width[home[wide]] = step[wide]
    found = width >= 2
    width = np.maximum(width, 1)
    height = size // width
    found &= size == height * width
    found &= np.bincount(home, minlength=len(size)) == 2 * size - height - width
    own = width[home]
    column = (low - parts[home]) % own
    found[home[(step != 1) & (step != own)]] = False
    found[home[(step == 1) & (column == own - 1)]] = False
    repeated = np.flatnonzero(np.bincount(low * 2 + (step != 1)) > 1) // 2
    found[np.searchsorted(parts, repeated, side="right") - 1] = False
    return np.where(found, width, 0)
