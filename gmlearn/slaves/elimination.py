"""Variable elimination: in which order, and as flat arrays that the compiled kernels follow.

Eliminating a variable joins all tables that mention it and minimises it out; what is left is a
message over its neighbours, a table like any other. The cost is exponential in the induced width
of the order (the most neighbours that a variable has when its turn comes), not in the number of
variables.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

#: entries of the largest table and of all tables together that one slave may have
MAX_TABLE, MAX_TOTAL = 2.0**20, 2.0**24
#: entries of joined tables that the kernels sum at a time
BUFFER = 4096
#: better orders than one that has so many times the entries that are of use are not looked for
HOPELESS = 2.0**10
#: better orders are looked for on at most so many variables, once where the first one has at most
#: EASY entries, else with about so many operations
MAX_SEARCHED, EASY, SEARCH_WORK = 3000, 2.0**18, 2e9


class Order(NamedTuple):
    """An order of elimination.

    variables : in the order of their elimination.   entries : of all joined tables together.
    largest : entries of the largest one.   width : induced width.
    """

    variables: np.ndarray
    entries: float
    largest: float
    width: int


def elimination_order(
    indptr: np.ndarray,
    scope: np.ndarray,
    domain: np.ndarray,
    max_table: float = MAX_TABLE,
    max_total: float = MAX_TOTAL,
) -> Order | None:
    """The better of a greedy order and the order of the variables; None if both pass a limit.

    The order of the variables is the classical frontier on grids, where the greedy one can be far
    worse.

    Parameters
    ----------
    indptr, scope : the variables of each clique, flat.
    domain : int (V,), number of states; variables with one state are joined with nothing.
    max_table, max_total : limits of the largest table and of all tables together.
    """
    found = list(_orders_within(indptr, scope, domain, max_table, max_total))
    return min(found, key=lambda order: order.entries) if found else None


def eliminates(
    indptr: np.ndarray, scope: np.ndarray, domain: np.ndarray, max_table: float, max_total: float
) -> bool:
    """Would `elimination_order` find one?"""
    return any(True for _ in _orders_within(indptr, scope, domain, max_table, max_total))


def _orders_within(
    indptr: np.ndarray, scope: np.ndarray, domain: np.ndarray, max_table: float, max_total: float
) -> Iterator[Order]:
    """Those of both orders that keep the limits."""
    from gmlearn.slaves._plans_numba import neighbours

    near = neighbours(indptr, scope, domain)
    for greedy in (True, False):
        order = _simulated(near, domain, max_table, max_total, greedy)
        if order is not None:
            yield order


def _simulated(
    near: tuple[np.ndarray, np.ndarray],
    domain: np.ndarray,
    max_table: float,
    max_total: float,
    greedy: bool,
) -> Order | None:
    from gmlearn.slaves._plans_numba import simulate

    found = Order(*simulate(*near, domain, float(max_table), float(max_total), greedy))
    return None if found.width < 0 else found


def searched_order(
    indptr: np.ndarray,
    scope: np.ndarray,
    domain: np.ndarray,
    seed: int = 0,
    most: float = np.inf,
) -> Order:
    """A better order than `elimination_order` finds, for one large elimination: the best of that
    one and of a number of greedy ones, by added edges (min-fill) and by tables (min-weight), with
    random ties. None is looked for where `most` entries, that are of use, are out of reach.
    """
    from gmlearn.slaves._orders_numba import greedy_order
    from gmlearn.slaves._plans_numba import neighbours

    n, near = len(domain), neighbours(indptr, scope, domain)
    best = _simulated(near, domain, np.inf, np.inf, True)
    assert best is not None
    if best.entries <= 40 * n**2:  # what one more order would cost
        return best
    best = _simulated(near, domain, np.inf, best.entries, False) or best
    if n > MAX_SEARCHED or best.entries > HOPELESS * most:
        return best
    matrix = np.zeros((n, n), bool)
    matrix[np.repeat(np.arange(n), np.diff(near[0])), near[1]] = True
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
                best = Order(order, entries, float(np.exp(sizes.max())), int(width))
        # operations on the matrix, about; an easy elimination is not searched for long
        spent += max(n**2 * 40.0, SEARCH_WORK / 40, SEARCH_WORK * EASY / best.entries)
    return best


def c_strides(shape: Sequence[int]) -> list[int]:
    """How far one label more of each variable moves in a table of this shape."""
    return list(accumulate([1, *shape[:0:-1]], operator.mul))[::-1]


class Cliques(NamedTuple):
    """Tables within a vector of values: entry x of clique f is at ``at[f] + sum_i x[slots[i]] *
    strides[i]``, i from indptr[f] to indptr[f + 1].
    """

    indptr: np.ndarray
    slots: np.ndarray
    at: np.ndarray
    strides: np.ndarray


class Program(NamedTuple):
    """Eliminations of several hypergraphs ("structures") as flat arrays.

    All tables of one elimination live in one vector of `size` values: the `given` ones (dual costs
    and cliques) first, then the messages. A step eliminates the variable in one slot: it joins
    inputs and writes a message over its scope. The last steps of connected components have an empty
    scope and leave the minimum.

    step_ptr : int (structures + 1,), the steps of each.   given, size : int (structures,).
    slot, states, message, rest : int (steps,), the slot eliminated, its number of states, where the
        message begins and its entries.
    outer, inner : int (steps,), the first axes of a message over which a counter runs, and the
        entries of the others.
    scope_ptr, scope, scope_states : the slots of each message, C order, and their states.
    in_ptr, at, span, step, kind : the inputs of each step: where they begin, their entries, how far
        one label more of the variable moves, and how they lie along the inner entries.
    stride_ptr, stride : (inputs, outer), the move of each input along the outer axes.
    offset_ptr, offset : (inputs, inner), where it has the inner entries.
    """

    step_ptr: np.ndarray
    given: np.ndarray
    size: np.ndarray
    slot: np.ndarray
    states: np.ndarray
    message: np.ndarray
    rest: np.ndarray
    outer: np.ndarray
    inner: np.ndarray
    scope_ptr: np.ndarray
    scope: np.ndarray
    scope_states: np.ndarray
    in_ptr: np.ndarray
    at: np.ndarray
    span: np.ndarray
    step: np.ndarray
    kind: np.ndarray
    stride_ptr: np.ndarray
    stride: np.ndarray
    offset_ptr: np.ndarray
    offset: np.ndarray


def program_of(
    order: np.ndarray,
    states: np.ndarray,
    cliques: Cliques,
    given: int,
    steps: tuple[np.ndarray, ...] | None = None,
) -> Program:
    """The elimination in `order` of variables with `states`, of the sum of cliques within `given`
    values.

    steps : in_ptr, inputs, scope_ptr, scope, what each step joins; by default those of the order.
    """
    from gmlearn.slaves._plans_numba import bucket_steps, write

    if steps is None:
        steps = bucket_steps(order, cliques.indptr, cliques.slots)
    *columns, size = write(order, states, *cliques, given, steps, BUFFER)
    ends = np.array([0, len(order)]), np.array([given]), np.array([size])
    return Program(*ends, order, *columns)


def one_step(v: int, scope: Sequence[int], states: np.ndarray, cliques: Cliques) -> Program:
    """The elimination of one variable, with a message over `scope`, which is kept elsewhere."""
    n = len(cliques.at)
    steps = np.array([0, n]), np.arange(n), np.array([0, len(scope)]), np.array(scope, np.int64)
    return program_of(np.array([v]), states, cliques, 0, steps)


def one_after_the_other(programs: Sequence[Program]) -> Program:
    """The structures of several programs in one."""
    columns = {}
    for name in Program._fields:
        parts = [getattr(p, name) for p in programs]
        if name.endswith("_ptr"):
            sizes = np.concatenate([[0], *(np.diff(a) for a in parts)])
            columns[name] = np.cumsum(sizes)
        else:
            columns[name] = np.concatenate(parts)
    return Program(**columns)
