"""Variable elimination: in which order, and as flat arrays that the compiled kernels follow.

Eliminating a variable joins all tables that mention it and minimises it out; what is left is a
message over its neighbours, a table like any other. The cost is exponential in the induced width
of the order (the most neighbours that a variable has when its turn comes), not in the number of
variables.
"""

from __future__ import annotations

import heapq
import operator
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

#: entries of the largest table and of all tables together that one slave may have
MAX_TABLE, MAX_TOTAL = 2.0**20, 2.0**24
#: entries of joined tables that the kernels sum at a time
BUFFER = 256
#: better orders are looked for on at most so many variables, where the first one has more than
#: EASY entries, with about so many operations
MAX_SEARCHED, EASY, SEARCH_WORK = 3000, 2.0**18, 2e9


class Order(NamedTuple):
    """An order of elimination.

    variables : in the order of their elimination.   entries : of all joined tables together.
    largest : entries of the largest one.   width : induced width.
    """

    variables: list[int]
    entries: float
    largest: float
    width: int


def elimination_order(
    scopes: Iterable[Sequence[int]],
    domain: np.ndarray,
    max_table: float = MAX_TABLE,
    max_total: float = MAX_TOTAL,
) -> Order | None:
    """The better of a greedy order and the order of the variables; None if both pass a limit.

    The order of the variables is the classical frontier on grids, where the greedy one can be far
    worse.

    Parameters
    ----------
    scopes : the variables of each clique.
    domain : int (V,), number of states; variables with one state are joined with nothing.
    max_table, max_total : limits of the largest table and of all tables together.
    """
    near = _neighbours(scopes, domain)
    found = [
        o
        for o in (_simulate(near, domain, max_table, max_total, greedy) for greedy in (True, False))
        if o is not None
    ]
    return min(found, key=lambda o: o.entries) if found else None


def _neighbours(scopes: Iterable[Sequence[int]], domain: np.ndarray) -> list[set[int]]:
    """The variables that share a clique with each; none of those with one state."""
    near: list[set[int]] = [set() for _ in domain]
    many = (domain > 1).tolist()
    for scope in scopes:
        scope = [v for v in scope if many[v]]
        for v in scope:
            near[v].update(scope)
    for v, s in enumerate(near):
        s.discard(v)
    return near


def searched_order(scopes: Sequence[Sequence[int]], domain: np.ndarray, seed: int = 0) -> Order:
    """A better order than `elimination_order` finds, for one large elimination: the best of that
    one and of a number of greedy ones, by added edges (min-fill) and by tables (min-weight), with
    random ties.
    """
    from gmlearn.slaves._orders_numba import greedy_order

    n, near = len(domain), _neighbours(scopes, domain)
    found = _simulate(near, domain, np.inf, np.inf, True)
    assert found is not None
    if found.entries <= EASY:
        return found
    other = _simulate(near, domain, np.inf, found.entries, False)
    best = found if other is None else other
    if n > MAX_SEARCHED:
        return best
    matrix = np.zeros((n, n), bool)
    for v, own in enumerate(near):
        matrix[v, list(own)] = True
    log_states = np.log(domain.astype(float))
    rng = np.random.default_rng(seed)
    spent = 0.0
    while spent < SEARCH_WORK:
        noise = rng.random(n)
        most = np.log(best.largest) + 1.0
        for by_fill in (True, False):
            order, sizes, width = greedy_order(matrix.copy(), log_states, by_fill, noise, most)
            entries = float(np.exp(sizes).sum()) if width >= 0 else np.inf
            if entries < best.entries:
                largest = float(np.exp(sizes.max()))
                best = Order(order.tolist(), entries, largest, int(width))
        # operations on the matrix, about; an easy elimination is not searched for long
        spent += max(n**2 * 40.0, SEARCH_WORK / 40, SEARCH_WORK * EASY / best.entries)
    return best


def _simulate(
    near: list[set[int]], domain: np.ndarray, max_table: float, max_total: float, greedy: bool
) -> Order | None:
    """Eliminate on the graph alone: smallest resulting table first, or in the order of the
    variables.
    """
    near = [set(s) for s in near]
    log = np.log(domain.astype(float)).tolist()

    def weight(v: int) -> float:
        return log[v] + sum(log[u] for u in near[v])

    heap = [(weight(v) if greedy else float(v), v) for v in range(len(near))]
    heapq.heapify(heap)
    current = {v: w for w, v in heap}
    done: set[int] = set()
    order: list[int] = []
    total, largest, width = 0.0, 0.0, 0
    while heap:
        w, v = heapq.heappop(heap)
        if v in done or w != current[v]:
            continue
        size = float(np.exp(weight(v)))
        total += size
        largest, width = max(largest, size), max(width, len(near[v]))
        if size > max_table * 1.000001 or total > max_total:
            return None
        done.add(v)
        order.append(v)
        scope = near[v]
        for u in scope:
            near[u] |= scope
            near[u] -= {u, v}
        if greedy:
            for u in scope:
                current[u] = weight(u)
                heapq.heappush(heap, (current[u], u))
        near[v] = set()
    return Order(order, total, largest, width)


class Factor(NamedTuple):
    """A table within a vector of values: entry x is at ``at + sum_i x[slots[i]] * strides[i]``."""

    slots: tuple[int, ...]
    at: int
    strides: tuple[int, ...]


def c_strides(shape: Sequence[int]) -> list[int]:
    """How far one label more of each variable moves in a table of this shape."""
    return list(accumulate([1, *shape[:0:-1]], operator.mul))[::-1]


class Joined(NamedTuple):
    """How the kernels walk through tables that are joined: a counter for the first (outer) axes,
    a list of positions for the others, so that short loops without a branch do the work.

    outer : the number of first axes.   stride : int (inputs, outer), the step of each input along
        them.   offset : int (inputs, entries of the other axes), its positions along the others.
    """

    outer: int
    stride: np.ndarray
    offset: np.ndarray


def join_tables(
    axes: Sequence[int], shape: Sequence[int], inputs: Sequence[dict[int, int]]
) -> Joined:
    """The sum of tables over the variables `axes` with `shape` states.

    Parameters
    ----------
    inputs : for each table, its variables and how far one label more of them moves.
    """
    k, size = len(shape) - 1, shape[-1]
    while k and size * shape[k - 1] <= BUFFER:
        k -= 1
        size *= shape[k]
    stride = np.array([[steps.get(u, 0) for u in axes] for steps in inputs], np.int32)
    return Joined(k, stride[:, :k].ravel(), (stride[:, k:] @ _states(*shape[k:])).ravel())


@lru_cache(maxsize=1024)
def _states(*shape: int) -> np.ndarray:
    """int (axes, entries): all states of some axes."""
    return np.indices(shape, np.int32).reshape(len(shape), -1)


class Program(NamedTuple):
    """Eliminations of several hypergraphs ("structures") as flat arrays.

    All tables of one elimination live in one vector of `size` values: the `given` ones (dual costs
    and cliques) first, then the messages. A step eliminates the variable in one slot: it joins
    inputs and writes a message over its scope. The last steps of connected components have an empty
    scope and leave the minimum.

    step_ptr : int (structures + 1,), the steps of each.   given, size : int (structures,).
    slot, states, message, rest : int (steps,), the slot eliminated, its number of states, where the
        message begins and its entries.
    scope_ptr, scope, scope_states : the slots of each message, C order, and their states.
    in_ptr, at : the inputs of each step and where they begin.
    outer, stride_ptr, stride, offset_ptr, offset : how they are joined, see `Joined`.
    """

    step_ptr: np.ndarray
    given: np.ndarray
    size: np.ndarray
    slot: np.ndarray
    states: np.ndarray
    message: np.ndarray
    rest: np.ndarray
    scope_ptr: np.ndarray
    scope: np.ndarray
    scope_states: np.ndarray
    outer: np.ndarray
    in_ptr: np.ndarray
    at: np.ndarray
    stride_ptr: np.ndarray
    stride: np.ndarray
    offset_ptr: np.ndarray
    offset: np.ndarray


class Writer:
    """Writes a `Program`, one structure after the other."""

    def __init__(self) -> None:
        self.columns: dict[str, list] = {name: [] for name in Program._fields}

    def add(self, states: Sequence[int], factors: list[Factor], order: list[int]) -> None:
        """Append the elimination in `order` of variables with `states`, of the sum of `factors`,
        whose tables fill the given values.
        """
        put = {name: column.append for name, column in self.columns.items()}
        rank = {v: k for k, v in enumerate(order)}
        buckets: list[list[Factor]] = [[] for _ in order]
        for f in factors:
            buckets[min(rank[u] for u in f.slots)].append(f)
        size = given = max(
            f.at + 1 + sum((states[u] - 1) * s for u, s in zip(f.slots, f.strides)) for f in factors
        )
        for v, bucket in zip(order, buckets):
            scope = sorted({u for f in bucket for u in f.slots} - {v}, key=lambda u: rank[u])
            axes = [*scope, v]
            shape = [states[u] for u in axes]
            joined = join_tables(axes, shape, [dict(zip(f.slots, f.strides)) for f in bucket])
            rest = int(np.prod(shape[:-1]))
            for name, value in zip(
                ("slot", "states", "message", "rest", "outer"),
                (v, shape[-1], size, rest, joined.outer),
            ):
                put[name]([value])
            for name, array in (
                ("scope", scope),
                ("scope_states", shape[:-1]),
                ("at", [f.at for f in bucket]),
                ("stride", joined.stride),
                ("offset", joined.offset),
            ):
                put[name](array)
            if scope:
                message = Factor(tuple(scope), size, tuple(c_strides(shape[:-1])))
                buckets[rank[scope[0]]].append(message)
            size += rest
        put["given"]([given])
        put["size"]([size])
        put["step_ptr"]([len(order)])

    def program(self) -> Program:
        """What was written."""
        for pointer, column in POINTERS.items():
            self.columns[pointer] = [[len(a)] for a in self.columns[column]]
        flat: dict[str, np.ndarray] = {
            name: np.concatenate([np.zeros(0, int), *column]).astype(np.int64)
            for name, column in self.columns.items()
        }
        for pointer in ("step_ptr", *POINTERS):
            flat[pointer] = np.concatenate([[0], np.cumsum(flat[pointer])])
        short = {name: flat[name].astype(np.int32) for name in ("stride", "offset")}
        return Program(**{**flat, **short})


#: where each step's entries of a column of `Program` begin
POINTERS = {
    "scope_ptr": "scope",
    "in_ptr": "at",
    "stride_ptr": "stride",
    "offset_ptr": "offset",
}
