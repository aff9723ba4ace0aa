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
from gmlearn.slaves.elimination import (
    Factor,
    Order,
    Program,
    Writer,
    c_strides,
    searched_order,
)

#: entries of joined tables below which nobody asks for the exact memory
SMALL = 2.0**18


class JunctionTree:
    """One elimination of a whole model: its plan, what it costs, and its two passes.

    Parameters
    ----------
    graph : the model's tables.
    temperature : T; costs are divided by it.
    seed : of the search for an order.

    Attributes
    ----------
    allowed : list of int arrays, the labels that each variable may take.
    possible : False if some variable has none, or a table has no finite entry.
    """

    def __init__(self, graph: FactorGraph, temperature: float = 1.0, seed: int = 0):
        self.graph, self.temperature, self.seed = graph, temperature, seed
        kept = allowed_labels(graph)
        self.allowed = [
            np.flatnonzero(kept[a:b]) for a, b in zip(graph.offsets[:-1], graph.offsets[1:])
        ]
        self.domain = np.array([len(a) for a in self.allowed], np.int64)
        self.possible = bool((self.domain > 0).all())
        #: the variables with a choice, and the slot of each
        self.live = np.flatnonzero(self.domain > 1)
        self.slot = np.full(graph.n_vars, -1)
        self.slot[self.live] = np.arange(len(self.live))

    @cached_property
    def scopes(self) -> list[list[int]]:
        """The slots of each table that have a choice."""
        slots = self.slot[self.graph.scope]
        ends = self.graph.indptr[1:]
        return [s[s >= 0].tolist() for s in np.split(slots, ends)[:-1]]

    @cached_property
    def order(self) -> Order:
        """The order of elimination, with its width and the entries of its tables."""
        return searched_order(self.scopes, self.domain[self.live], self.seed)

    @cached_property
    def bytes(self) -> float:
        """Memory that the two passes ask for: all messages, and the inputs of one step; for small
        models no more than that.
        """
        if self.order.entries <= SMALL:  # messages and inputs are fewer than entries
            return 16.0 * self.order.entries
        states = self.domain[self.live].astype(float)
        rank = np.argsort(self.order.variables)
        buckets: list[list[set[int]]] = [[{v}] for v in self.order.variables]
        for scope in self.scopes:
            if scope:
                buckets[min(rank[v] for v in scope)].append(set(scope))
        messages, inputs = 0.0, 0.0
        for v, bucket in zip(self.order.variables, buckets):
            rest = set().union(*bucket) - {v}
            messages += float(np.prod(states[list(rest)]))
            inputs = max(inputs, sum(float(np.prod(states[list(s)])) for s in bucket))
            if rest:
                buckets[min(rank[u] for u in rest)].append(rest)
        return 8.0 * (messages + inputs)

    # ------------------------------------------------------------------ the given values

    def _table(self, f: int) -> np.ndarray:
        """The entries of clique f that may occur, over T, one axis for each variable."""
        graph = self.graph
        scope = graph.scope[graph.indptr[f] : graph.indptr[f + 1]]
        return graph.table(f)[np.ix_(*[self.allowed[v] for v in scope])] / self.temperature

    @cached_property
    def _given(self) -> tuple[Program, np.ndarray, float, np.ndarray]:
        """(program, given values, constant, where each table begins or -1)."""
        graph, states = self.graph, self.domain[self.live].tolist()
        factors: list[Factor] = []
        values: list[np.ndarray] = []
        size, constant = 0, 0.0
        costs = graph.unary / self.temperature
        for v, labels in enumerate(self.allowed):
            own = costs[graph.offsets[v] + labels]
            if len(labels) == 1:
                constant += float(own[0])
                continue
            factors.append(Factor((int(self.slot[v]),), size, (1,)))
            values.append(own)
            size += len(own)
        begins = np.full(graph.n_factors, -1)
        for f, scope in enumerate(self.scopes):
            table = self._table(f).ravel()
            if not scope:
                constant += float(table[0])
                continue
            begins[f] = size
            factors.append(Factor(tuple(scope), size, tuple(c_strides([states[s] for s in scope]))))
            values.append(table)
            size += len(table)
        writer = Writer()
        writer.add(states, factors, self.order.variables)
        return writer.program(), np.concatenate(values), constant, begins

    # ------------------------------------------------------------------ the passes

    @cached_property
    def _room(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Room for the outer axes, the inputs and the inner entries of one step."""
        p = self._given[0]
        inputs = np.diff(p.in_ptr)
        return (
            np.empty(int(p.outer.max()), np.int64),
            np.empty(int(inputs.max()), np.int64),
            np.empty(int((np.diff(p.offset_ptr) // inputs).max())),
        )

    @cached_property
    def _collected(self) -> tuple[np.ndarray, float]:
        """(values and messages of the first pass, log Z)."""
        if not self.possible:
            return np.zeros(0), -np.inf
        if len(self.live) == 0:
            constant = sum(
                float(self.graph.unary[o + a[0]]) for o, a in zip(self.graph.offsets, self.allowed)
            )
            constant += sum(float(self.graph.table(f)[self._only(f)]) for f in self._all_factors)
            return np.zeros(0), -constant / self.temperature
        from gmlearn.probabilities._junction_numba import collect

        program, values, constant, _ = self._given
        x = np.empty(int(program.size[0]))
        x[: len(values)] = values
        return x, -(collect(program, x, *self._room) + constant)

    @property
    def _all_factors(self) -> range:
        return range(self.graph.n_factors)

    def _only(self, f: int) -> tuple[int, ...]:
        """The one joint label of a clique without a choice."""
        scope = self.graph.scope[self.graph.indptr[f] : self.graph.indptr[f + 1]]
        return tuple(int(self.allowed[v][0]) for v in scope)

    @property
    def log_partition(self) -> float:
        """log Z, without the model's constant; -inf if nothing is feasible."""
        return self._collected[1]

    def marginals(self) -> tuple[np.ndarray, list[np.ndarray | None]]:
        """Marginals of the labels (n_coords,), and of the allowed entries of each table; None for
        tables without a choice. The messages are used up.
        """
        graph = self.graph
        out = np.zeros(len(graph.unary))
        single = np.flatnonzero(self.domain == 1)
        out[graph.offsets[single] + np.array([self.allowed[v][0] for v in single], int)] = 1.0
        joint: list[np.ndarray | None] = [None] * graph.n_factors
        if len(self.live) == 0:
            return out, joint
        from gmlearn.probabilities._junction_numba import distribute

        program, values, _, begins = self._given
        x, _ = self._collected
        del self._collected
        span = input_spans(program, self._spans)
        most = int(np.add.reduceat(span, program.in_ptr[:-1]).max())
        y = np.zeros(len(values))
        distribute(program, x, span, y, np.empty(most), *self._room)
        at = 0
        for v in self.live.tolist():
            labels = self.allowed[v]
            out[graph.offsets[v] + labels] = y[at : at + len(labels)]
            at += len(labels)
        for f in np.flatnonzero(begins >= 0).tolist():
            scope = graph.scope[graph.indptr[f] : graph.indptr[f + 1]]
            shape = [len(self.allowed[v]) for v in scope]
            joint[f] = y[begins[f] : begins[f] + int(np.prod(shape))].reshape(shape)
        return out, joint

    @property
    def _spans(self) -> dict[int, int]:
        """Entries of each given table, by where it begins."""
        begins = self._given[3]
        states = self.domain[self.live]
        ends = np.cumsum(states)
        spans = dict(zip((ends - states).tolist(), states.tolist()))
        for f in np.flatnonzero(begins >= 0).tolist():
            spans[int(begins[f])] = int(np.prod(states[self.scopes[f]]))
        return spans

    def whole_table(self, f: int, joint: np.ndarray | None) -> np.ndarray:
        """The marginals of clique f with all its labels."""
        graph = self.graph
        scope = graph.scope[graph.indptr[f] : graph.indptr[f + 1]]
        out = np.zeros(graph.n_states[scope])
        out[np.ix_(*[self.allowed[v] for v in scope])] = 1.0 if joint is None else joint
        return out

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Exact samples, int (n, V)."""
        labels = np.array([a[0] for a in self.allowed], np.int64)
        out = np.tile(labels, (n, 1))
        if len(self.live):
            from gmlearn.probabilities._junction_numba import draw

            program, (x, _) = self._given[0], self._collected
            chosen = np.zeros((n, len(self.live)), np.int64)
            weight = np.empty(int(program.states.max()))
            draw(program, x, rng.random((n, len(program.slot))), chosen, weight)
            padded = np.zeros((len(self.live), int(self.domain.max())), np.int64)
            for row, v in enumerate(self.live):
                padded[row, : self.domain[v]] = self.allowed[v]
            out[:, self.live] = padded[np.arange(len(self.live)), chosen]
        return out


def input_spans(program: Program, given: dict[int, int]) -> np.ndarray:
    """int (inputs,): the entries of every input of a program."""
    spans = {**given, **dict(zip(program.message.tolist(), program.rest.tolist()))}
    return np.array([spans[a] for a in program.at.tolist()], np.int64)


def allowed_labels(graph: FactorGraph) -> np.ndarray:
    """bool (n_coords,): the labels left when those are removed that cost inf, or for which every
    entry of some table with the labels left does, until nothing changes.
    """
    kept = np.isfinite(graph.unary)
    changed = not np.isfinite(graph.values).all()
    tables = {f: np.isfinite(graph.table(f)) for f in range(graph.n_factors)} if changed else {}
    hard = {f: table for f, table in tables.items() if not table.all()}
    while changed:
        changed = False
        for f, finite in hard.items():
            scope = graph.scope[graph.indptr[f] : graph.indptr[f + 1]].tolist()
            own = [kept[graph.offsets[v] : graph.offsets[v + 1]] for v in scope]
            left = finite[np.ix_(*own)]
            for axis, labels in enumerate(own):
                others = tuple(a for a in range(len(scope)) if a != axis)
                possible = left.any(axis=others)
                if not possible.all():
                    changed = True
                    labels[labels] = possible
                    left = finite[np.ix_(*own)]
    return kept
