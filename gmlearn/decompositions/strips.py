"""Strips: overlapping windows of bounded induced width, without being told any sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, pairwise

import numpy as np

from gmlearn._utils.validation import check_flag, check_number
from gmlearn.decompositions.base import Decomposition, Slaves, split_by_part
from gmlearn.decompositions.subgraphs import cover
from gmlearn.model.crf import CRF
from gmlearn.model.grid import find_grid
from gmlearn.slaves.elimination import elimination_order
from gmlearn.slaves.junction_tree import by_shape


class Strips(Decomposition):
    """Windows of bounded induced width, each overlapping the next.

    On a grid these are `width` neighbouring lines (rows, or columns if the grid is higher than
    wide), and neighbouring windows have `overlap` lines in common. On a torus they are rings of
    half as many rows, and of columns. Elsewhere windows run along an
    order of the variables in which cliques are short (their own order or that of Cuthill and
    McKee), each as long as its induced width allows. Cliques of more than `width` + 1 variables and
    those that fit into no window get a slave of their own.

    Parameters
    ----------
    width : the induced width; a slave has tables of L^(width + 1) entries.
    overlap : lines of a grid that two windows have in common.
    share : hold the cliques inside two windows in both, see `Subgraphs`.
    """

    name = "strips"
    joint = True

    def __init__(self, width: int = 3, overlap: int = 1, share: bool = True):
        self.width = int(check_number("width", width, low=2, integer=True))
        self.overlap = int(check_number("overlap", overlap, low=1, high=width - 1, integer=True))
        self.share = check_flag("share", share)

    def decompose(self, crf: CRF, power: str | None = None) -> Slaves:
        shapes = [by_shape(block) for block in crf.clique_blocks]
        cliques = [
            split_by_part(variables, crf.parts)
            for _, variables, shape in chain.from_iterable(shapes)
            if 1 < len(shape) <= self.width + 1
        ]
        sets: list[np.ndarray] = []
        for i, (low, high) in enumerate(pairwise(crf.parts.tolist())):
            sets += [
                low + s for s in self.windows([c[i] for c in cliques if len(c[i])], high - low)
            ]
        return cover(crf, sets, self.share, power, max_arity=self.width + 1)

    def windows(self, cliques: list[np.ndarray], n_vars: int) -> Iterable[np.ndarray]:
        """The variables of each window of a model with these cliques."""
        pairs = [np.sort(c, axis=1) for c in cliques if c.shape[1] == 2]
        edges = np.unique(np.concatenate(pairs), axis=0) if pairs else np.zeros((0, 2), np.int64)
        grid = find_grid(edges, n_vars) if pairs else None
        if grid is not None:
            return grid_windows(*grid, self.width, self.overlap)
        torus = find_torus(edges, n_vars) if len(pairs) == len(cliques) else None
        if torus is not None and self.width >= 4:
            return torus_windows(*torus, self.width // 2, max(self.overlap // 2, 1))
        return windows_of(cliques, n_vars, self.width)


def grid_windows(height: int, width: int, lines: int, overlap: int) -> list[np.ndarray]:
    """Windows of so many lines along the longer side, across the lines first: the best order of
    elimination.
    """
    index = np.arange(height * width).reshape(height, width)
    index = index if height <= width else index.T
    starts = range(0, max(len(index) - overlap, 1), lines - overlap)
    return [index[s : s + lines].T.ravel() for s in starts]


def find_torus(edges: np.ndarray, n_vars: int) -> tuple[int, int] | None:
    """(height, width) if all `edges` (E, 2), each sorted, are those of a grid numbered row by row
    whose borders are joined, else None.
    """
    step = edges[:, 1] - edges[:, 0]
    wide = step[step > 1]
    width = int(np.bincount(wide).argmax()) if len(wide) else 0
    if width < 3 or n_vars % width or n_vars // width < 3:
        return None
    column = edges[:, 0] % width
    across = ((step == 1) & (column < width - 1)) | ((step == width - 1) & (column == 0))
    down = (step == width) | (step == n_vars - width)
    return (n_vars // width, width) if (across | down).all() else None


def torus_windows(height: int, width: int, lines: int, overlap: int) -> list[np.ndarray]:
    """Rings of so many rows, and of so many columns, all around; of induced width 2 `lines`."""
    index = np.arange(height * width).reshape(height, width)
    found = []
    for grid in (index, index.T):
        for start in range(0, len(grid), lines - overlap):
            found.append(grid[(start + np.arange(min(lines, len(grid)))) % len(grid)].T.ravel())
    return found


def windows_of(cliques: list[np.ndarray], n_vars: int, width: int) -> Iterator[np.ndarray]:
    """Windows of induced width `width` along an order of the variables; the order is taken as a
    circle, so that cliques across its ends are covered as well.
    """
    if not sum(map(len, cliques)):
        return
    line = _short_order(cliques, n_vars)
    scope = np.concatenate([c.ravel() for c in cliques])
    sizes = np.concatenate([np.full(len(c), c.shape[1]) for c in cliques])
    first, left = np.cumsum(sizes) - sizes, np.ones(len(sizes), bool)
    for turn in (0, n_vars // 2):
        order = np.roll(line, turn)
        rank = np.empty(n_vars, np.int64)
        rank[order] = np.arange(n_vars)
        local = rank[scope]
        low, high = np.minimum.reduceat(local, first), np.maximum.reduceat(local, first)
        for begin, end in _cut(local, sizes, low, high, left, n_vars, width):
            covered = (low >= begin) & (high < end)
            if (covered & left).any():
                left &= ~covered
                yield order[begin:end]
        if not left.any():
            return


def _cut(
    scope: np.ndarray,
    sizes: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    left: np.ndarray,
    n_vars: int,
    width: int,
) -> Iterator[tuple[int, int]]:
    """The ends of windows that are as long as the width allows and overlap by the cliques across
    their ends.
    """

    def fits(begin: int, end: int) -> bool:
        inside = (low >= begin) & (high < end)
        indptr = np.concatenate([[0], np.cumsum(sizes[inside])])
        local = scope[np.repeat(inside, sizes)] - begin
        states = np.full(end - begin, 2)
        return elimination_order(indptr, local, states, 2.0 ** (width + 1)) is not None

    begin, length = 0, width + 1
    while begin < n_vars and left.any():
        good, bad = begin + 1, n_vars + 1
        trial = min(begin + length, n_vars)
        while bad - good > 1:
            if fits(begin, trial):
                good = trial
            else:
                bad = trial
            trial = min(2 * trial - begin, n_vars) if bad > n_vars else (good + bad) // 2
        length = good - begin
        yield begin, good
        across = low[(low >= begin) & (low < good) & (high >= good) & (high - low < length)]
        begin = max(int(across.min(initial=good)), begin + max(length // 2, 1))


def _short_order(cliques: list[np.ndarray], n_vars: int) -> np.ndarray:
    """The order of the variables, or that of Cuthill and McKee if the cliques are shorter in it."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    first = np.concatenate([np.repeat(c[:, :1], c.shape[1] - 1, axis=1).ravel() for c in cliques])
    other = np.concatenate([c[:, 1:].ravel() for c in cliques])
    near = csr_array((np.ones(2 * len(first)), (np.r_[first, other], np.r_[other, first])))
    near.resize(n_vars, n_vars)

    def span(order: np.ndarray) -> float:
        rank = np.empty(n_vars, np.int64)
        rank[order] = np.arange(n_vars)
        return float(sum(np.ptp(rank[c], axis=1).sum() for c in cliques))

    near_order = reverse_cuthill_mckee(near, symmetric_mode=True).astype(np.int64)
    return min((np.arange(n_vars), near_order), key=span)
