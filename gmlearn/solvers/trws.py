"""TRW-S: the sequential block-coordinate ascent for pairwise models, and its decoding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from gmlearn.decompositions.base import is_edge_block
from gmlearn.model.crf import CRF
from gmlearn.model.grid import find_grid
from gmlearn.potentials.base import DENSE, POTTS
from gmlearn.slaves import EdgeCosts
from gmlearn.solvers.polish import BlockPolisher, Polisher
from gmlearn.solvers.problem import MapSolver, Problem


class PairwiseMessages:
    """TRW-S state of any pairwise model: one message per edge, in the direction of the last pass."""

    def __init__(self, crf: CRF, w: Mapping[str, np.ndarray]):
        from gmlearn._utils._sorting_numba import counting_order

        blocks = crf.clique_blocks
        self.crf, self.unary = crf, crf.unary_costs(w)
        self.edges = (
            np.concatenate([b.variables for b in blocks]) if blocks else np.zeros((0, 2), np.int64)
        )
        self.costs = EdgeCosts.of(blocks, w)
        size = crf.n_states[self.edges].max(axis=1) if len(self.edges) else np.zeros(0, np.int64)
        self.mptr = np.cumsum(size) - size
        self.message = np.zeros(int(size.sum()))
        self.adj_ptr, slot = counting_order(self.edges.ravel(), crf.n_vars)
        self.adj_edge = slot // 2
        lower = (
            np.bincount(self.edges.max(axis=1), minlength=crf.n_vars)
            if len(self.edges)
            else np.zeros(crf.n_vars)
        )
        upper = (
            np.bincount(self.edges.min(axis=1), minlength=crf.n_vars)
            if len(self.edges)
            else np.zeros(crf.n_vars)
        )
        self.gamma = 1.0 / np.maximum(np.maximum(lower, upper), 1)
        self.order = np.arange(crf.n_vars)
        self.labels = np.zeros(crf.n_vars, np.int64)

    def half(self, forward: bool) -> float:
        """One pass; returns the bound."""
        from gmlearn.solvers._trws_numba import pass_general

        return pass_general(
            self.unary,
            self.crf.offsets,
            self.order,
            self.adj_ptr,
            self.adj_edge,
            self.order,
            self.edges,
            self.gamma,
            self.message,
            self.mptr,
            *self.costs.arrays(),
            forward,
            self.labels,
        )

    def sweep(self) -> float:
        """A forward and a backward pass; returns the bound."""
        bound = self.half(True)
        return bound if bound == np.inf else self.half(False)

    def decode(self) -> np.ndarray:
        """The labelling that the last pass fixed node by node."""
        return self.labels.copy()

    def stored(self, to_lower: bool) -> np.ndarray:
        """The messages of the last pass, flat, edge by edge, indexed by the labels of the end that they go to."""
        size = self.crf.n_states[self.edges.min(axis=1) if to_lower else self.edges.max(axis=1)]
        where = np.repeat(self.mptr - (np.cumsum(size) - size), size) + np.arange(int(size.sum()))
        return self.message[where]


class GridMessages:
    """TRW-S state of a 4-connected grid whose edges share one table, with a strength for each.

    Laid out by anti-diagonals (see `_trws_grid_numba`), along the shorter side of the grid: memory at most twice the grid's.
    """

    def __init__(self, crf: CRF, w: Mapping[str, np.ndarray], shape: tuple[int, int]):
        from gmlearn.solvers._trws_grid_numba import SIGNED_POTTS, lay_out

        (height, width), size = shape, int(crf.n_states[0])
        lane_step, other_step = (width, 1) if height <= width else (1, width)
        lanes, others = min(shape), max(shape)
        diagonals = lanes + others - 1
        self.transposed = height > width
        self.unary = np.zeros((diagonals, size, lanes))
        lay_out(crf.unary_costs(w).reshape(-1, size), lane_step, other_step, self.unary)
        block = crf.clique_blocks[0]
        form = block.pairwise(w)
        self.kind, self.cut = form.kind, form.cut
        if form.kind != DENSE and (form.scale < 0).any():  # the short cuts need strengths >= 0
            self.kind = SIGNED_POTTS if form.kind == POTTS else DENSE
        self.table = form.values[: size * size].reshape(size, size).copy()
        self.table_t = np.ascontiguousarray(self.table.T)
        first, second = block.variables[:, 0], block.variables[:, 1]
        end = np.maximum(first, second)
        row, column = np.divmod(end, width)
        self.is_slanted = np.abs(first - second) == lane_step
        self.diagonal, self.lane = row + column, column if self.transposed else row
        self.straight, self.slanted = (
            np.zeros((diagonals + 1, size, lanes)),
            np.zeros((diagonals + 1, size, lanes + 1)),
        )
        self.scale_straight, self.scale_slanted = (
            np.zeros((diagonals + 1, lanes)),
            np.zeros((diagonals + 1, lanes + 1)),
        )
        for chosen, scale in (
            (~self.is_slanted, self.scale_straight),
            (self.is_slanted, self.scale_slanted),
        ):
            scale[self.diagonal[chosen], self.lane[chosen]] = form.scale[chosen]
        self.gamma = self._weights(lanes, others)

    def _weights(self, lanes: int, others: int) -> np.ndarray:
        """1 / the larger number of neighbours before or after each node, (D, lanes)."""
        lane = np.arange(lanes)
        other = np.arange(lanes + others - 1)[:, None] - lane
        before = (lane > 0) * 1.0 + (other > 0)
        after = (lane + 1 < lanes) * 1.0 + (other + 1 < others)
        return 1.0 / np.maximum(np.maximum(before, after), 1.0)

    @property
    def _arrays(self) -> tuple[np.ndarray, ...]:
        return self.unary, self.straight, self.slanted, self.scale_straight, self.scale_slanted

    def half(self, forward: bool) -> float:
        """One pass; returns the bound."""
        from gmlearn.solvers._trws_grid_numba import pass_diagonals

        return pass_diagonals(
            *self._arrays,
            self.gamma,
            self.table if forward else self.table_t,
            self.kind,
            self.cut,
            forward,
        )

    def sweep(self) -> float:
        """A forward and a backward pass; returns the bound."""
        self.half(True)
        return self.half(False)

    def decode(self) -> np.ndarray:
        """Sequential decoding from the backward messages."""
        from gmlearn.solvers._trws_grid_numba import decode_diagonals

        diagonals, _, lanes = self.unary.shape
        labels = np.zeros((lanes, diagonals - lanes + 1), np.int64)
        decode_diagonals(*self._arrays, self.table, labels)
        return (labels.T if self.transposed else labels).ravel()

    def stored(self, to_lower: bool) -> np.ndarray:
        """The messages of the last pass, flat, edge by edge, indexed by the labels of the end that they go to."""
        where = self.diagonal, slice(None), self.lane
        return np.where(self.is_slanted[:, None], self.slanted[where], self.straight[where]).ravel()


class BinaryGridMessages(GridMessages):
    """The same for two labels: one number per node and edge, the cost of label 1 minus that of label 0."""

    def __init__(self, crf: CRF, w: Mapping[str, np.ndarray], shape: tuple[int, int]):
        super().__init__(crf, w, shape)
        self.base = float(self.unary[:, 0].sum())
        self.differences = (
            self.unary[:, 1] - self.unary[:, 0],
            np.zeros(self.scale_straight.shape),
            np.zeros(self.scale_slanted.shape),
        )

    def half(self, forward: bool) -> float:
        from gmlearn.solvers._trws_grid_numba import pass_binary

        return self.base + pass_binary(
            *self.differences,
            self.scale_straight,
            self.scale_slanted,
            self.gamma,
            self.table if forward else self.table_t,
            forward,
        )

    def sweep(self) -> float:
        from gmlearn.solvers._trws_grid_numba import sweep_binary

        return self.base + sweep_binary(
            *self.differences,
            self.scale_straight,
            self.scale_slanted,
            self.gamma,
            self.table,
            self.table_t,
        )

    def _write_out(self) -> None:
        """The messages of both labels, the smaller one 0."""
        for message, difference in zip((self.straight, self.slanted), self.differences[1:]):
            message[:, 0], message[:, 1] = np.maximum(-difference, 0.0), np.maximum(difference, 0.0)

    def decode(self) -> np.ndarray:
        self._write_out()
        return super().decode()

    def stored(self, to_lower: bool) -> np.ndarray:
        self._write_out()
        return super().stored(to_lower)


def make_messages(crf: CRF, w: Mapping[str, np.ndarray]) -> PairwiseMessages | GridMessages:
    """The grid kernel where it applies (one block, one table, no hard constraints), else the general one."""
    blocks = crf.clique_blocks
    if len(blocks) == 1 and crf.uniform and np.isfinite(crf.unary).all():
        shape = find_grid(blocks[0].variables, crf.n_vars)
        form = blocks[0].pairwise(w)
        oriented = bool((blocks[0].variables[:, 0] < blocks[0].variables[:, 1]).all())
        shared = bool((form.start == form.start[0]).all()) and int(form.stride[0]) == int(
            crf.n_states[0]
        )
        table = form.values[int(form.start[0]) : int(form.start[0]) + int(crf.n_states[0]) ** 2]
        finite = np.isfinite(table).all() and int(form.start[0]) == 0
        if shape is not None and shared and finite and (oriented or form.kind != DENSE):
            return (BinaryGridMessages if crf.n_states[0] == 2 else GridMessages)(crf, w, shape)
    return PairwiseMessages(crf, w)


def trws_refuses(crf: CRF) -> str | None:
    """Why TRW-S cannot take a model; None if it can."""
    odd = [b for b in crf.clique_blocks if not is_edge_block(b)]
    return f"{odd[0]} is not a block of edges" if odd else None


class Messages(Protocol):
    """What `run_messages` drives."""

    def sweep(self) -> float:
        """Pass forth and back; returns the bound without the model's constant."""

    def decode(self) -> np.ndarray:
        """A labelling (V,)."""


def run_messages(
    problem: Problem,
    messages: Messages,
    polisher: Polisher | BlockPolisher,
    source: str = "TRW-S",
    max_iter: int = 500,
    stall: tuple[int, float] = (10, 1e-4),
) -> None:
    """Sweep until the problem says stop, or the bound rises by less than a fraction of the gap within a window of sweeps.

    Labellings are decoded after 5, 15, 45, ... sweeps, when the bound no longer moves, and at the end, where they are polished.
    """
    recent: list[float] = []
    next_decode, settled = 5, False
    for k in range(max_iter):
        bound = messages.sweep() + problem.crf.constant
        problem.iterations += 1
        problem.raise_bound(bound)
        still = k > 0 and bound - recent[-1] <= 1e-9 * max(1.0, abs(bound))
        recent.append(bound)
        if k + 1 == next_decode or (still and not settled):
            next_decode = 3 * next_decode if k + 1 == next_decode else next_decode
            settled = still
            problem.offer(messages.decode(), source)
        problem.log()
        window = bound - recent[-1 - stall[0]] if k >= stall[0] else np.inf
        if problem.stop() or window < stall[1] * max(problem.gap, 1e-12):
            break
    if not problem.closed and bound < np.inf:
        polisher(problem, messages.decode(), source)


class TRWS(MapSolver):
    """Sequential tree-reweighted message passing: the fastest ascent for pairwise models; may stall below the LP bound."""

    name = "trws"

    def refuses(self, crf: CRF) -> str | None:
        return trws_refuses(crf)

    def run(self, problem: Problem) -> None:
        run_messages(
            problem, make_messages(problem.crf, problem.w), Polisher(problem), stall=(20, 1e-6)
        )
