"""Compiled variable elimination by a `Program`: minima and min-marginals.

A step joins its inputs block by block: a counter runs over the outer axes of its scope, and a block
has the entries e of the inner axes for every label a of the variable, at ``a * inner + e``. So all
loops inside are plain sums, minima and exponentials of rows.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from gmlearn.slaves._plans_numba import CONSTANT, CONTIGUOUS


class Room(NamedTuple):
    """Room for one step: the counter of the outer axes, where the inputs stand, one block, its
    bits, one row, a number for each label, and the marginals of all inputs.
    """

    digits: np.ndarray
    position: np.ndarray
    total: np.ndarray
    bits: np.ndarray
    weight: np.ndarray
    sums: np.ndarray
    belief: np.ndarray


@njit(cache=True, nogil=True)
def room_of(p):
    """Room that is large enough for every step."""
    outer, inner, states, inputs, block, belief = 0, 0, 0, 0, 0, 0
    for s in range(len(p.slot)):
        outer = max(outer, p.outer[s])
        inner = max(inner, p.inner[s])
        states = max(states, p.states[s])
        inputs = max(inputs, p.in_ptr[s + 1] - p.in_ptr[s])
        block = max(block, p.inner[s] * p.states[s])
        belief = max(belief, p.span[p.in_ptr[s] : p.in_ptr[s + 1]].sum())
    return Room(
        np.empty(outer, np.int64),
        np.empty(inputs, np.int64),
        np.empty(block),
        np.empty(block, np.int64),
        np.empty(inner),
        np.empty(states),
        np.empty(belief),
    )


@njit(cache=True, nogil=True)
def begin(at, n_outer, digits, position):
    """The first state of the outer axes: where all inputs begin."""
    for i in range(len(at)):
        position[i] = at[i]
    for d in range(n_outer):
        digits[d] = 0


@njit(cache=True, nogil=True)
def advance(outer_states, stride, digits, position):
    """The next state of the outer axes, the last one fastest; `position` follows in all inputs."""
    k = len(outer_states)
    for d in range(k - 1, -1, -1):
        if digits[d] + 1 < outer_states[d]:
            digits[d] += 1
            for i in range(len(position)):
                position[i] += stride[i * k + d]
            return
        for i in range(len(position)):
            position[i] -= digits[d] * stride[i * k + d]
        digits[d] = 0


@njit(cache=True, nogil=True)
def join(x, position, step, kind, offset, inner, total):
    """total = the sum of all inputs, for each label and entry of a block."""
    for a in range(len(total) // inner):
        same = 0.0
        for i in range(len(position)):
            if kind[i] == CONSTANT:
                same += x[position[i] + a * step[i]]
        row = total[a * inner : (a + 1) * inner]
        for e in range(inner):
            row[e] = same
        for i in range(len(position)):
            first = position[i] + a * step[i]
            if kind[i] == CONTIGUOUS:
                part = x[first : first + inner]
                for e in range(inner):
                    row[e] += part[e]
            elif kind[i] != CONSTANT:
                where = offset[i * inner : (i + 1) * inner]
                for e in range(inner):
                    row[e] += x[first + where[e]]


@njit(cache=True, nogil=True)
def least(total, inner, low):
    """low[e] = the minimum over the labels of a block."""
    for e in range(inner):
        low[e] = total[e]
    for first in range(inner, len(total), inner):
        row = total[first : first + inner]
        for e in range(inner):
            low[e] = row[e] if row[e] < low[e] else low[e]


@njit(cache=True, nogil=True)
def step_of(p, s, room):
    """(at, step, kind, offset, stride, outer states, digits, position, block) of step s."""
    lo, hi = p.in_ptr[s], p.in_ptr[s + 1]
    return (
        p.at[lo:hi],
        p.step[lo:hi],
        p.kind[lo:hi],
        p.offset[p.offset_ptr[s] : p.offset_ptr[s + 1]],
        p.stride[p.stride_ptr[s] : p.stride_ptr[s + 1]],
        p.scope_states[p.scope_ptr[s] : p.scope_ptr[s] + p.outer[s]],
        room.digits,
        room.position[: hi - lo],
        room.total[: p.inner[s] * p.states[s]],
    )


@njit(cache=True, nogil=True)
def eliminate(p, s, x, message, back, room):
    """Step s on the values x: message gets the minimum for each state of the scope, back the best
    label.
    """
    at, step, kind, offset, stride, outer, digits, position, total = step_of(p, s, room)
    begin(at, len(outer), digits, position)
    n, inner = p.states[s], p.inner[s]
    for first in range(0, len(message), inner):
        join(x, position, step, kind, offset, inner, total)
        low, best = message[first : first + inner], back[first : first + inner]
        least(total, inner, low)
        for a in range(n - 1, -1, -1):
            row = total[a * inner : (a + 1) * inner]
            for e in range(inner):
                best[e] = a if row[e] == low[e] else best[e]
        advance(outer, stride, digits, position)


@njit(cache=True, nogil=True)
def eliminate_one(p, x, message, back):
    """`eliminate` of a program with one step."""
    eliminate(p, 0, x, message, back, room_of(p))


@njit(cache=True, nogil=True)
def load(x, theta, theta_ptr, tables, table_ptr, m, scale):
    """The given values of slave m: its dual costs, then its cliques."""
    n = theta_ptr[m + 1] - theta_ptr[m]
    for i in range(n):
        x[i] = scale * theta[theta_ptr[m] + i]
    for i in range(table_ptr[m + 1] - table_ptr[m]):
        x[n + i] = scale * tables[table_ptr[m] + i]


@njit(cache=True, nogil=True)
def unload(y, out, theta_ptr, clique_out, table_ptr, m):
    """The other way round."""
    n = theta_ptr[m + 1] - theta_ptr[m]
    for i in range(n):
        out[theta_ptr[m] + i] = y[i]
    for i in range(table_ptr[m + 1] - table_ptr[m]):
        clique_out[table_ptr[m] + i] = y[n + i]


@njit(cache=True, nogil=True)
def forward(p, t, x, back, room):
    """All steps of structure t on the values x; returns the minimum."""
    value = 0.0
    for s in range(p.step_ptr[t], p.step_ptr[t + 1]):
        first, last = p.message[s], p.message[s] + p.rest[s]
        eliminate(p, s, x, x[first:last], back[first - p.given[t] : last - p.given[t]], room)
        if p.scope_ptr[s + 1] == p.scope_ptr[s]:
            value += x[first]
    return value


@njit(cache=True, nogil=True)
def minimise(p, structure, theta, theta_ptr, tables, table_ptr, slot_ptr, labels, value):
    """Minima (M,) of all slaves, and the labels (S,) of their variables by backtracking.

    structure : int (M,), the elimination of each slave.   theta_ptr, table_ptr, slot_ptr : int
        (M + 1,), where its dual costs, cliques and labels begin.
    """
    room, x = room_of(p), np.empty(p.size.max())
    back = np.empty((p.size - p.given).max(), np.int32)
    for m in range(len(structure)):
        t, first = structure[m], slot_ptr[m]
        load(x, theta, theta_ptr, tables, table_ptr, m, 1.0)
        value[m] = forward(p, t, x, back, room)
        for s in range(p.step_ptr[t + 1] - 1, p.step_ptr[t] - 1, -1):
            at = 0
            for d in range(p.scope_ptr[s], p.scope_ptr[s + 1]):
                at = at * p.scope_states[d] + labels[first + p.scope[d]]
            labels[first + p.slot[s]] = back[p.message[s] - p.given[t] + at]


@njit(cache=True, nogil=True)
def backward(p, t, x, y, room):
    """From the last step to the first: y gets the min-marginals of all values of x.

    The min-marginal of a joined entry is what it costs beyond the minimum over its labels (the
    message), plus what the state of its scope has at the step that reads the message.
    """
    for s in range(p.step_ptr[t + 1] - 1, p.step_ptr[t] - 1, -1):
        at, step, kind, offset, stride, outer, digits, position, total = step_of(p, s, room)
        begin(at, len(outer), digits, position)
        inner = p.inner[s]
        for first in range(p.message[s], p.message[s] + p.rest[s], inner):
            join(x, position, step, kind, offset, inner, total)
            for e in range(len(total)):
                low, belief = x[first + e % inner], y[first + e % inner]
                total[e] = belief + (total[e] - low) if low < np.inf else np.inf
            for i in range(len(at)):
                for e in range(len(total)):
                    a, j = e // inner, e % inner
                    where = position[i] + a * step[i] + offset[i * inner + j]
                    y[where] = min(y[where], total[e])
            advance(outer, stride, digits, position)


@njit(cache=True, nogil=True)
def min_marginals(p, structure, theta, theta_ptr, tables, table_ptr, out, clique_out):
    """Min-marginals of all dual variables, and of all entries of the cliques' tables."""
    room, x = room_of(p), np.empty(p.size.max())
    back = np.empty((p.size - p.given).max(), np.int32)
    y = np.empty(len(x))
    for m in range(len(structure)):
        t = structure[m]
        load(x, theta, theta_ptr, tables, table_ptr, m, 1.0)
        value = forward(p, t, x, back, room)
        for i in range(p.size[t]):
            y[i] = np.inf
        if value < np.inf:
            for s in range(p.step_ptr[t], p.step_ptr[t + 1]):
                if p.scope_ptr[s + 1] == p.scope_ptr[s]:
                    y[p.message[s]] = value
            backward(p, t, x, y, room)
        unload(y, out, theta_ptr, clique_out, table_ptr, m)
