r"""Sum-product by variable elimination, :math:`\log Z = \log\sum_x e^{-E(x)/T}`, exact in two
passes.

Labels that cannot occur are removed first: those of infinite cost, and those that no entry of some
table allows (so observed variables cost nothing). The first pass eliminates the variables one by
one, the second goes back and leaves the marginals of all tables (Lauritzen and Spiegelhalter 1988;
Dechter 1999). Everything is a logarithm, so nothing overflows.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from gmlearn.model.factors import FactorGraph
from gmlearn.slaves.elimination import Cliques, Order, Program, program_of, searched_order


class JunctionTree:
    """One elimination of a whole model: its plan, what it costs, and its two passes.

    Parameters
    ----------
    graph : the model's tables.
    temperature : T; costs are divided by it.
    seed : of the search for an order.   most : joined entries that are of use.

    Attributes
    ----------
    label_ptr, label : the labels that each variable may take, flat.
    possible : False if some variable has none.
    live : int, the variables with a choice.   states : how many labels they have.
    constant : float (V,), over T, what each variable without a choice costs, and each clique
        without one at its first variable.
    """

    def __init__(
        self, graph: FactorGraph, temperature: float = 1.0, seed: int = 0, most: float = np.inf
    ):
        from gmlearn.probabilities._junction_numba import labels_left, remove_impossible, restricted

        self.graph, self.seed, self.most = graph, seed, most
        kept = np.isfinite(graph.unary)
        cliques = graph.indptr, graph.scope, graph.stride, graph.start, graph.scale, graph.values
        if np.isfinite(graph.values).all():
            self.label_ptr, self.label = labels_left(graph.offsets, kept)
        else:
            self.label_ptr, self.label = remove_impossible(graph.offsets, *cliques, kept)
        domain = self.label_ptr[1:] - self.label_ptr[:-1]
        self.possible = bool(domain.all())
        self.live = (domain > 1).nonzero()[0]
        self.states = domain[self.live]
        if self.possible:
            slot = np.full(graph.n_vars, -1)
            slot[self.live] = np.arange(len(self.live))
            left = self.label_ptr, self.label, slot, float(temperature)
            found = restricted(graph.offsets, graph.unary, *cliques, *left)
            self.values, self.constant, self.begin = found[:3]
            self.cliques = Cliques(*found[3])

    @cached_property
    def order(self) -> Order:
        """The order of elimination, with its width and the entries of its tables."""
        cliques = self.cliques.indptr, self.cliques.slots, self.states
        return searched_order(*cliques, self.seed, self.most)

    @cached_property
    def _steps(self) -> tuple[np.ndarray, ...]:
        from gmlearn.slaves._plans_numba import bucket_steps

        return bucket_steps(self.order.variables, self.cliques.indptr, self.cliques.slots)

    @cached_property
    def bytes(self) -> float:
        """Memory that the two passes ask for: all messages, and the inputs of one step."""
        from gmlearn.slaves._plans_numba import joined_sizes

        if len(self.live) == 0:
            return 0.0
        cliques = self.cliques
        messages, inputs = joined_sizes(self.states, cliques.indptr, cliques.slots, *self._steps)
        return 8.0 * (float(messages.sum()) + inputs + len(self.values))

    @cached_property
    def _program(self) -> Program:
        order, given = self.order.variables, len(self.values)
        return program_of(order, self.states, self.cliques, given, self._steps)

    @cached_property
    def _collected(self) -> tuple[np.ndarray, float]:
        """(values and messages of the first pass, log Z)."""
        if not self.possible:
            return np.zeros(0), -np.inf
        if len(self.live) == 0:
            return np.zeros(0), -float(self.constant.sum())
        from gmlearn.slaves._elimination_soft_numba import collect_one

        x = np.empty(int(self._program.size[0]))
        x[: len(self.values)] = self.values
        return x, -(collect_one(self._program, x) + float(self.constant.sum()))

    @property
    def log_partition(self) -> float:
        """log Z, without the model's constant; -inf if nothing is feasible."""
        return self._collected[1]

    def log_partitions(self, parts: np.ndarray) -> np.ndarray:
        """log Z of each part of a joined model, float (n,), before `marginals`.

        parts : int (n + 1,), where the variables of each begin.
        """
        n = len(parts) - 1
        home, total = np.repeat(np.arange(n), np.diff(parts)), self.constant.copy()
        if len(self.live):
            (x, _), program = self._collected, self._program
            last = np.flatnonzero(np.diff(program.scope_ptr) == 0)
            total[self.live[program.slot[last]]] += x[program.message[last]]
        return -np.bincount(home, total, n)

    def marginals(self) -> tuple[np.ndarray, np.ndarray]:
        """Marginals of the labels (n_coords,), and of all entries of `values`. The messages are
        used up.
        """
        from gmlearn.slaves._elimination_soft_numba import distribute_one

        joint = np.empty(len(self.values))
        if len(self.live):
            x, _ = self._collected
            del self._collected
            distribute_one(self._program, x, joint)
        if len(self.live) == len(self.label_ptr) - 1 and len(self.label) == len(self.graph.unary):
            return joint[: len(self.label)].copy(), joint
        domain = self.label_ptr[1:] - self.label_ptr[:-1]
        own = np.ones(len(self.label))
        own[np.repeat(domain > 1, domain)] = joint[: int(self.states.sum())]
        out = np.zeros(len(self.graph.unary))
        out[np.repeat(self.graph.offsets[:-1], domain) + self.label] = own
        return out, joint

    def table(self, f: int, joint: np.ndarray) -> np.ndarray:
        """The marginals of clique f with all its labels, from those of `marginals`."""
        graph = self.graph
        scope = graph.scope[graph.indptr[f] : graph.indptr[f + 1]]
        left = [self.label[self.label_ptr[v] : self.label_ptr[v + 1]] for v in scope]
        shape = [len(labels) for labels in left]
        out, begin = np.zeros(graph.n_states[scope]), self.begin[f]
        own = joint[begin : begin + int(np.prod(shape))].reshape(shape) if begin >= 0 else 1.0
        out[np.ix_(*left)] = own
        return out

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Exact samples, int (n, V)."""
        out = np.tile(self.label[self.label_ptr[:-1]], (n, 1))
        if len(self.live):
            from gmlearn.slaves._elimination_soft_numba import draw

            (x, _), chosen = self._collected, np.zeros((n, len(self.live)), np.int64)
            random = rng.random((n, len(self.live)))
            draw(self._program, x, random, chosen, np.empty(int(self.states.max())))
            out[:, self.live] = self.label[self.label_ptr[self.live] + chosen]
        return out
