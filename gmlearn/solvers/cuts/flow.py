"""Graphs for max-flow: built once, run again after their terminal capacities changed."""

from __future__ import annotations

import numpy as np


class FlowGraph:
    """A graph with a source and a sink, and the flow that was sent through it so far.

    Parameters
    ----------
    n : number of nodes.
    edges : int (E, 2).   forward, backward : float (E,), capacities >= 0 of both directions;
        `backward` is 0 if not given.
    terminal : float (n,), the capacity from the source (> 0) or to the sink (< 0).

    Attributes
    ----------
    ptr (n + 1,), head, sister (2E,) : the arcs of each node, in CSR order.   place (E,) : the arc
        of each edge.
    capacity (2E,), terminal (n,) : what is left of them.   flow : what all calls of `run` sent.
    """

    def __init__(
        self,
        n: int,
        edges: np.ndarray,
        forward: np.ndarray,
        terminal: np.ndarray,
        backward: np.ndarray | None = None,
    ):
        from gmlearn.solvers.cuts._maxflow_numba import link

        n_arcs = 2 * len(edges)
        self.ptr = np.zeros(n + 1, np.int32)
        self.head = np.empty(n_arcs, np.int32)
        self.sister = np.empty(n_arcs, np.int32)
        self.capacity = np.empty(n_arcs)
        self.terminal = np.array(terminal, float)
        self.place = link(
            edges[:, 0],
            edges[:, 1],
            np.asarray(forward, float),
            np.zeros(len(edges)) if backward is None else np.asarray(backward, float),
            self.ptr,
            self.head,
            self.sister,
            self.capacity,
        )
        self._node = np.zeros((n, 4), np.int32)
        self.flow = 0.0

    def run(self) -> float:
        """Send as much more as possible; returns the flow of all runs."""
        from gmlearn.solvers.cuts._maxflow_numba import max_flow

        self.flow += max_flow(
            self.ptr, self.head, self.sister, self.capacity, self.terminal, self._node
        )
        return self.flow

    @property
    def source_side(self) -> np.ndarray:
        """bool (n,): the smallest source side of a minimum cut, after `run`."""
        from gmlearn.solvers.cuts._maxflow_numba import SOURCE, TREE

        return self._node[:, TREE] == SOURCE

    @property
    def sink_side(self) -> np.ndarray:
        """bool (n,): the smallest sink side of a minimum cut, after `run`."""
        from gmlearn.solvers.cuts._maxflow_numba import SINK, TREE

        return self._node[:, TREE] == SINK
