"""TRW-S: the sequential block-coordinate ascent for pairwise models, and its decoding.

The dual of trees that share the edges of the model is raised one node after the other: a node takes
the average of what its trees say, (unary cost + all messages) times gamma_v, and sends on what is
not the neighbour's own message (Kolmogorov, PAMI 2006). The bound never falls; a labelling is fixed
node by node in the same pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from gmlearn.model.crf import CRF
from gmlearn.model.grid import find_grid
from gmlearn.potentials.form import DENSE, POTTS
from gmlearn.slaves import EdgeCosts
from gmlearn.slaves.choose import has_edge_form
from gmlearn.solvers.problem import MapSolver, Problem
from gmlearn.solvers.warm import KeptMessages

#: labels up to which the grid kernel writes out its one table
MAX_GRID_LABELS = 1000


class Graph(NamedTuple):
    """A pairwise model for `pass_general`: the two ends of each edge, those of a variable side by
    side, first those of edges from lower variables.

    offsets : int (V + 1,), the coordinates of each variable.   ptr : int (V + 1,), its ends.
    middle : int (V,), where those of edges to higher variables begin.   other : int (2E,), the
    opposite variable.   home : int (V + 1,), where messages to each variable lie, one after the
    other.   target : int (2E,), where the message to the opposite end lies.   first : bool (2E,),
    is it the edge's first end?   gamma : float (V,), 1 / the larger number of edges to variables
    before or after.
    """

    offsets: np.ndarray
    ptr: np.ndarray
    middle: np.ndarray
    other: np.ndarray
    home: np.ndarray
    target: np.ndarray
    first: np.ndarray
    gamma: np.ndarray


class PairwiseMessages:
    """TRW-S state of any pairwise model: one message per edge, in the direction of the last
    pass.
    """

    locally_optimal = False

    def __init__(self, crf: CRF, w: Mapping[str, np.ndarray]):
        from gmlearn.solvers._trws_numba import lay_out_ends

        blocks = crf.clique_blocks
        self.crf, self.unary = crf, crf.unary_costs(w)
        edges = [np.zeros((0, 2), np.int64), *(b.variables for b in blocks)]
        self.edges = edges[1] if len(edges) == 2 else np.concatenate(edges)
        ends, self._place, edge = lay_out_ends(self.edges, crf.n_states)
        self._costs = EdgeCosts.of(blocks, w).take(edge)
        lower = np.arange(len(self.edges)), (self.edges[:, 0] > self.edges[:, 1]).astype(np.int64)
        first = np.zeros(len(edge), bool)
        first[self._place[lower]] = True
        ptr, middle, other, home, target = ends
        gamma = 1.0 / np.maximum(np.maximum(middle - ptr[:-1], ptr[1:] - middle), 1)
        self._graph = Graph(crf.offsets, ptr, middle, other, home, target, first, gamma)
        self.message = np.zeros(home[-1])
        self._towards = 0  # the end, lower or higher, that messages were sent to
        self.work = 2.0 * sum(max(b.form_size(), 2.0 * len(b) * b.max_states) for b in blocks)
        self.labels = np.zeros(crf.n_vars, np.int64)
        self.earlier: np.ndarray | None = None

    @property
    def kept(self) -> KeptMessages:
        has, where = self._rows()
        rows = np.zeros(has.shape)
        rows[has] = self.message[where]
        return KeptMessages(self.edges, rows)

    def restore(self, kept: KeptMessages) -> None:
        """Start from the messages of an earlier model."""
        has, where = self._rows()
        self.message[where] = kept.match(self.edges, self.crf.n_states)[has]

    def _rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Which labels (E, L) the messages of all edges have, and where these lie."""
        ends = np.sort(self.edges, axis=1)[:, self._towards]
        label = np.arange(self.crf.n_states.max(initial=0))
        has = label < self.crf.n_states[ends][:, None]
        target = self._graph.target[self._place[:, 1 - self._towards]]
        return has, (target[:, None] + label)[has]

    def half(self, forward: bool) -> float:
        """One pass; returns the bound."""
        from gmlearn.solvers._trws_numba import pass_general

        self._towards = int(forward)
        self.labels, self.earlier = np.zeros_like(self.labels), self.labels
        return pass_general(
            self._graph, self.unary, self._costs, self.message, forward, self.labels
        )

    def sweep(self) -> float:
        """A forward and a backward pass; returns the bound."""
        bound = self.half(True)
        return bound if bound == np.inf else self.half(False)

    def decode(self, improve: bool = False) -> np.ndarray:
        """The labelling that the last pass fixed node by node."""
        return self.labels


@dataclass(frozen=True)
class GridLayout:
    """Where the nodes and edges of a grid lie among its anti-diagonals; see `_trws_grid_numba`.

    height, width : of the grid.   way, diagonal, lane : int (E,), the place of each edge: 0 for a
    straight one, 1 for a slanted one, and the node where it ends; anti-diagonals are numbered
    modulo R.   gamma : float (R, lanes), 1 / the larger number of neighbours before or after each
    node; R is the number of nodes of a lane, and one.
    """

    height: int
    width: int
    way: np.ndarray
    diagonal: np.ndarray
    lane: np.ndarray
    gamma: np.ndarray

    @classmethod
    def of(cls, edges: np.ndarray, shape: tuple[int, int]) -> GridLayout:
        height, width = shape
        first, second = edges[:, 0], edges[:, 1]
        row, column = np.divmod(np.maximum(first, second), width)
        lanes, rows = min(shape), max(shape) + 1
        i = np.arange(lanes)
        j = (np.arange(rows)[:, None] - i) % rows
        before = (i > 0) * 1.0 + (j > 0)
        after = (i + 1 < lanes) * 1.0 + (j + 2 < rows)
        return cls(
            height,
            width,
            (np.abs(first - second) == (width if height <= width else 1)).astype(np.int8),
            ((row + column) % rows).astype(np.int32),
            (row if height <= width else column).astype(np.int32),
            1.0 / np.maximum(np.maximum(before, after), 1.0),
        )

    @property
    def transposed(self) -> bool:
        """Do lanes run along the columns?"""
        return self.height > self.width

    @property
    def where(self) -> tuple[Any, ...]:
        """The index of all edges' values in an array (2, R, ..., lanes + 1)."""
        return self.way, self.diagonal, ..., self.lane


class GridMessages:
    """TRW-S state of a 4-connected grid whose edges share one table, with a strength for each.

    Laid out by anti-diagonals (see `_trws_grid_numba`), along the shorter side of the grid.
    """

    locally_optimal = True
    earlier: np.ndarray | None = None

    def __init__(self, crf: CRF, w: Mapping[str, np.ndarray], layout: GridLayout):
        from gmlearn.solvers._trws_grid_numba import SIGNED_POTTS, lay_out

        self.layout, size = layout, int(crf.n_states[0])
        rows, lanes = layout.gamma.shape
        self.unary = np.zeros((rows, size, lanes))
        steps = (1, layout.width) if layout.transposed else (layout.width, 1)
        costs = crf.unary_costs(w) if crf.unary_blocks else crf.unary
        lay_out(costs.reshape(-1, size), *steps, self.unary)
        block = crf.clique_blocks[0]
        self.edges, self.n_states = block.variables, crf.n_states
        form = block.pairwise(w)
        self.kind, self.cut = form.kind, form.cut
        if form.kind != DENSE and (form.scale < 0).any():  # the short cuts need strengths >= 0
            self.kind = SIGNED_POTTS if form.kind == POTTS else DENSE
        self.table = form.table(0, size, size)
        self.table_t = np.ascontiguousarray(self.table.T)
        self.scale = np.zeros((2, rows, lanes + 1))
        self.scale[layout.where] = form.scale
        self.message = np.zeros((2, rows, size, lanes + 1))
        self.work = 2.0 * len(self.edges) * size * (size if self.kind == DENSE else 1.0)

    @property
    def kept(self) -> KeptMessages:
        return KeptMessages(self.edges, self.message, self.layout)

    def restore(self, kept: KeptMessages) -> None:
        """Start from the messages of an earlier model."""
        if kept.layout is self.layout:
            self.message = kept.values.copy()
            return
        rows = kept.match(self.edges, self.n_states)
        binary = self.message.ndim == 3
        self.message[self.layout.where] = rows[:, 1] - rows[:, 0] if binary else rows

    def half(self, forward: bool) -> float:
        """One pass; returns the bound."""
        from gmlearn.solvers._trws_grid_numba import pass_diagonals

        return pass_diagonals(
            self.unary,
            *self.message,
            *self.scale,
            self.layout.gamma,
            self.table if forward else self.table_t,
            self.kind,
            self.cut,
            forward,
        )

    def sweep(self) -> float:
        """A forward and a backward pass; returns the bound."""
        self.half(True)
        return self.half(False)

    def decode(self, improve: bool = False) -> np.ndarray:
        """Sequential decoding from the backward messages."""
        return self._decode(self.message, improve)

    def _decode(self, message: np.ndarray, improve: bool) -> np.ndarray:
        from gmlearn.solvers._trws_grid_numba import decode_diagonals, improve_diagonals

        rows, lanes = self.layout.gamma.shape
        labels = np.zeros((lanes, rows - 1), np.int64)
        decode_diagonals(self.unary, *message, *self.scale, self.table, labels)
        if improve:
            improve_diagonals(self.unary, *self.scale, self.table, labels)
        return (labels.T if self.layout.transposed else labels).ravel()


class BinaryGridMessages(GridMessages):
    """The same for two labels: one number per node and edge, the cost of label 1 minus that of
    label 0.
    """

    def __init__(self, crf: CRF, w: Mapping[str, np.ndarray], layout: GridLayout):
        super().__init__(crf, w, layout)
        self.base = float(self.unary[:, 0].sum())
        self.difference = self.unary[:, 1] - self.unary[:, 0]
        self.message = np.zeros(self.scale.shape)

    def half(self, forward: bool) -> float:
        from gmlearn.solvers._trws_grid_numba import pass_binary

        return self.base + pass_binary(
            self.difference,
            *self.message,
            *self.scale,
            self.layout.gamma,
            self.table if forward else self.table_t,
            forward,
        )

    def sweep(self) -> float:
        from gmlearn.solvers._trws_grid_numba import sweep_binary

        return self.base + sweep_binary(
            self.difference,
            *self.message,
            *self.scale,
            self.layout.gamma,
            self.table,
            self.table_t,
        )

    def decode(self, improve: bool = False) -> np.ndarray:
        return self._decode(np.maximum(self.message[:, :, None] * [[-1.0], [1.0]], 0.0), improve)


def make_messages(
    crf: CRF, w: Mapping[str, np.ndarray], kept: KeptMessages | None = None
) -> PairwiseMessages | GridMessages:
    """The grid kernel where it applies (one block, one table, no hard constraints), else the
    general one; starting from the messages `kept` of an earlier model, if any.
    """
    layout = _grid_layout(crf, w, kept)
    if layout is None:
        messages: PairwiseMessages | GridMessages = PairwiseMessages(crf, w)
    else:
        messages = (BinaryGridMessages if crf.n_states[0] == 2 else GridMessages)(crf, w, layout)
    if kept is not None:
        messages.restore(kept)
    return messages


def _grid_layout(
    crf: CRF, w: Mapping[str, np.ndarray], kept: KeptMessages | None
) -> GridLayout | None:
    """The layout for the grid kernel (the kept one, if the edges are the same); None where it does
    not apply.
    """
    blocks = crf.clique_blocks
    if len(blocks) != 1 or not crf.uniform or not np.isfinite(crf.unary).all():
        return None
    edges, form, size = blocks[0].variables, blocks[0].pairwise(w), int(crf.n_states[0])
    shared = all(bool((a == a[:1]).all()) for a in (form.start, form.stride))
    oriented = form.kind != DENSE or bool((edges[:, 0] < edges[:, 1]).all())
    if not (shared and oriented) or size > MAX_GRID_LABELS:
        return None
    if not np.isfinite(form.table(0, size, size)).all():
        return None
    if kept is not None and kept.layout is not None and np.array_equal(kept.edges, edges):
        return kept.layout
    shape = find_grid(edges, crf.n_vars)
    return None if shape is None else GridLayout.of(edges, shape)


def trws_refuses(crf: CRF) -> str | None:
    """Why TRW-S cannot take a model; None if it can."""
    odd = [b for b in crf.clique_blocks if not has_edge_form(b)]
    return f"{odd[0]} is not a block of edges" if odd else None


class Messages(Protocol):
    """What `run_messages` drives; `work` is about how many table entries a sweep reads.

    locally_optimal : does decoding end where no single move helps?   earlier : what the pass before
    the last decoded, where that is another labelling.
    """

    work: float
    locally_optimal: bool
    earlier: np.ndarray | None

    def sweep(self) -> float:
        """Pass forth and back; returns the bound without the model's constant."""

    def decode(self, improve: bool = False) -> np.ndarray:
        """A labelling (V,); `improve` it by moves of single variables, where that is cheap."""


def run_messages(
    problem: Problem,
    messages: Messages,
    source: str = "TRW-S",
    max_iter: int = 500,
    stall: tuple[int, float] = (10, 1e-4),
) -> None:
    """Sweep until the problem says stop, or the bound rises by less than a fraction of the gap
    within a window of sweeps.

    Labellings are decoded after 5, 15, 45, ... sweeps, when the bound no longer moves, and at the
    end, where they are polished. Where a relative gap is asked for, they are decoded more often (on
    grids, where a sweep costs less than that, once it raises the bound by a small part of that gap
    only; after a warm start at once), improved by single moves, and fused with the best labelling
    known: decodings of single passes, forward and backward, are good in different places.
    """
    gap, constant = problem.options.gap, problem.crf.constant
    recent: list[float] = []
    improve = gap > 0 and not messages.locally_optimal
    decoded, settled = 5 / 3 if problem.options.warm is None else 1, False
    for k in range(max_iter):
        bound = messages.sweep() + constant
        problem.iterations += 1
        problem.count(messages.work)
        problem.raise_bound(bound)
        rise, size = bound - recent[-1] if recent else np.inf, max(problem.scale, abs(bound))
        recent.append(bound)
        still, near = rise <= 1e-9 * size, rise <= 0.1 * gap * size
        if k + 1 >= decoded * (1.3 if improve or (near and gap > 0) else 3) or (
            still and not settled
        ):
            decoded, settled = k + 1, still
            for labels in (messages.earlier, messages.decode(improve=True)):
                if labels is None:
                    continue
                if improve:
                    labels = problem.polisher.icm(labels)
                fuse = near or improve or problem.options.warm is not None
                if fuse and np.isfinite(problem.energy):
                    problem.polisher.combine(problem, labels)  # at least as good as either
                else:
                    problem.offer(labels, source)
        problem.log()
        window = bound - recent[-1 - stall[0]] if k >= stall[0] else np.inf
        if problem.stop() or window < max(stall[1] * problem.gap, 0.01 * gap * size):
            break
    if not problem.closed and bound < np.inf:
        problem.polisher(problem, messages.decode(), source)


def run_trws(
    problem: Problem, max_iter: int = 500, stall: tuple[int, float] = (20, 1e-6)
) -> PairwiseMessages | GridMessages:
    """TRW-S, from the messages of an earlier result if there are any; returns the state."""
    messages = make_messages(problem.crf, problem.w, problem.kept.messages)
    run_messages(problem, messages, "TRW-S", max_iter, stall)
    problem.messages = messages.kept
    return messages


class TRWS(MapSolver):
    """Sequential tree-reweighted message passing: the fastest ascent for pairwise models; may
    stall below the LP bound.
    """

    name = "trws"

    def refuses(self, crf: CRF) -> str | None:
        return trws_refuses(crf)

    def run(self, problem: Problem) -> None:
        run_trws(problem)
