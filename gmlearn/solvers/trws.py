"""TRW-S: the sequential block-coordinate ascent for pairwise models, and its decoding."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gmlearn.decompositions.base import is_edge_block
from gmlearn.model.crf import CRF
from gmlearn.model.grid import find_grid
from gmlearn.potentials.base import DENSE, LINEAR
from gmlearn.slaves import EdgeCosts
from gmlearn.solvers.polish import BlockPolisher, Polisher
from gmlearn.solvers.problem import MapSolver, Problem


class PairwiseMessages:
    """TRW-S state of any pairwise model: one message per edge, in the direction of the last pass."""

    def __init__(self, crf: CRF, w: Mapping[str, np.ndarray]):
        blocks = crf.clique_blocks
        self.crf, self.unary = crf, crf.unary_costs(w)
        self.edges = np.concatenate([b.variables for b in blocks]) if blocks else np.zeros((0, 2), np.int64)
        self.costs = EdgeCosts.of(blocks, w)
        size = crf.n_states[self.edges].max(axis=1) if len(self.edges) else np.zeros(0, np.int64)
        self.mptr = np.cumsum(size) - size
        self.message = np.zeros(int(size.sum()))
        ends = self.edges.ravel()
        slot = np.argsort(ends, kind="stable")
        self.adj_ptr, self.adj_edge = np.searchsorted(ends[slot], np.arange(crf.n_vars + 1)), slot // 2
        lower = np.bincount(self.edges.max(axis=1), minlength=crf.n_vars) if len(self.edges) else np.zeros(crf.n_vars)
        upper = np.bincount(self.edges.min(axis=1), minlength=crf.n_vars) if len(self.edges) else np.zeros(crf.n_vars)
        self.gamma = 1.0 / np.maximum(np.maximum(lower, upper), 1)
        self.order = np.arange(crf.n_vars)
        self.labels = np.zeros(crf.n_vars, np.int64)

    def half(self, forward: bool) -> float:
        """One pass; returns the bound."""
        from gmlearn.solvers._trws_numba import pass_general

        return pass_general(self.unary, self.crf.offsets, self.order, self.adj_ptr, self.adj_edge, self.order, self.edges,
                            self.gamma, self.message, self.mptr, *self.costs.arrays(), forward, self.labels)

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
    """TRW-S state of a 4-connected grid whose edges share one table, with a strength for each."""

    def __init__(self, crf: CRF, w: Mapping[str, np.ndarray], shape: tuple[int, int]):
        self.crf, (height, width), size = crf, shape, int(crf.n_states[0])
        self.unary = crf.unary_costs(w).reshape(height, width, size)
        form = crf.clique_blocks[0].pairwise(w)
        # the short cut for linear costs needs strengths >= 0; the dense kernel takes any
        self.kind, self.cut = (DENSE if form.kind == LINEAR and (form.scale < 0).any() else form.kind), form.cut
        self.table = form.values[:size * size].reshape(size, size).copy()
        self.table_t = np.ascontiguousarray(self.table.T)
        edges = crf.clique_blocks[0].variables
        low, high = edges.min(axis=1), edges.max(axis=1)
        self.scale_across, self.scale_down = np.zeros((height, width + 1)), np.zeros((height + 1, width))
        flat = high - low == 1
        self.scale_across[high[flat] // width, high[flat] % width] = form.scale[flat]
        self.scale_down[high[~flat] // width, high[~flat] % width] = form.scale[~flat]
        self.across, self.down = np.zeros((height, width + 1, size)), np.zeros((height + 1, width, size))
        self.edge_position = np.where(flat, (high // width) * (width + 1) + high % width, high)
        self.flat_edge = flat

    @property
    def _arrays(self) -> tuple[np.ndarray, ...]:
        return self.unary, self.across, self.down, self.scale_across, self.scale_down

    def half(self, forward: bool) -> float:
        """One pass; returns the bound."""
        from gmlearn.solvers._trws_numba import pass_grid

        return pass_grid(*self._arrays, self.table, self.table_t, self.kind, self.cut, forward)

    def sweep(self) -> float:
        """A forward and a backward pass; returns the bound."""
        self.half(True)
        return self.half(False)

    def decode(self) -> np.ndarray:
        """Sequential decoding in raster order from the backward messages."""
        from gmlearn.solvers._trws_numba import decode_grid

        labels = np.zeros(self.unary.shape[:2], np.int64)
        decode_grid(*self._arrays, self.table, labels)
        return labels.ravel()

    def stored(self, to_lower: bool) -> np.ndarray:
        """The messages of the last pass, flat, edge by edge, indexed by the labels of the end that they go to."""
        size = self.unary.shape[2]
        out = np.empty((len(self.edge_position), size))
        out[self.flat_edge] = self.across.reshape(-1, size)[self.edge_position[self.flat_edge]]
        out[~self.flat_edge] = self.down.reshape(-1, size)[self.edge_position[~self.flat_edge]]
        return out.ravel()


def make_messages(crf: CRF, w: Mapping[str, np.ndarray]) -> PairwiseMessages | GridMessages:
    """The grid kernel where it applies (one block, one table, no hard constraints), else the general one."""
    blocks = crf.clique_blocks
    if len(blocks) == 1 and crf.uniform and np.isfinite(crf.unary).all():
        shape = find_grid(blocks[0].variables, crf.n_vars)
        form = blocks[0].pairwise(w)
        oriented = bool((blocks[0].variables[:, 0] < blocks[0].variables[:, 1]).all())
        shared = bool((form.start == form.start[0]).all()) and int(form.stride[0]) == int(crf.n_states[0])
        table = form.values[int(form.start[0]):int(form.start[0]) + int(crf.n_states[0]) ** 2]
        finite = np.isfinite(table).all() and int(form.start[0]) == 0
        if shape is not None and shared and finite and (oriented or form.kind != DENSE):
            return GridMessages(crf, w, shape)
    return PairwiseMessages(crf, w)


def trws_refuses(crf: CRF) -> str | None:
    """Why TRW-S cannot take a model; None if it can."""
    odd = [b for b in crf.clique_blocks if not is_edge_block(b)]
    return f"{odd[0]} is not a block of edges" if odd else None


def run_trws(problem: Problem, messages: PairwiseMessages | GridMessages, polisher: Polisher | BlockPolisher,
             max_iter: int = 500, stall: tuple[int, float] = (10, 1e-4)) -> None:
    """Sweep until the problem says stop, or the bound rises by less than a fraction of the gap within a window of sweeps."""
    recent: list[float] = []
    next_decode = 5
    for k in range(max_iter):
        bound = messages.sweep() + problem.crf.constant
        problem.iterations += 1
        problem.raise_bound(bound)
        recent.append(bound)
        stalled = len(recent) > stall[0] and bound - recent[-1 - stall[0]] < stall[1] * max(problem.gap, 1e-12)
        if k + 1 == next_decode or stalled:
            next_decode *= 3
            problem.offer(messages.decode(), "TRW-S")  # polished at the end
            stalled = stalled and bound - recent[-1 - stall[0]] < stall[1] * max(problem.gap, 1e-12)
        problem.log()
        if problem.stop() or stalled:
            break
    if not problem.closed:
        polisher(problem, messages.decode(), "TRW-S")


class TRWS(MapSolver):
    """Sequential tree-reweighted message passing: the fastest ascent for pairwise models; may stall below the LP bound."""

    name = "trws"

    def refuses(self, crf: CRF) -> str | None:
        return trws_refuses(crf)

    def run(self, problem: Problem) -> None:
        run_trws(problem, make_messages(problem.crf, problem.w), Polisher(problem), stall=(20, 1e-6))
