"""Compiled variable elimination, of minima (temperature 0) and of soft minima."""

import numpy as np
from numba import njit


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
def join(x, position, offset, total):
    """total[e] = the sum of all inputs at entry e of the inner axes."""
    size = len(total)
    for e in range(size):
        total[e] = x[position[0] + offset[e]]
    for i in range(1, len(position)):
        first, row = position[i], i * size
        for e in range(size):
            total[e] += x[first + offset[row + e]]


@njit(cache=True, nogil=True)
def eliminate(
    x, at, offset, stride, outer_states, n, temperature, message, back, digits, position, total
):
    """Join the inputs that begin at x[at] and minimise out a variable with `n` states.

    offset, stride : see `elimination.Joined`.   message : float, the (soft) minimum for each
        state of the scope.   back : int, the best label.   digits, position, total : room for
        the outer axes, the inputs and the inner entries.
    """
    begin(at, len(outer_states), digits, position)
    inner = len(total) // n
    for first in range(0, len(message), inner):
        join(x, position, offset, total)
        for j in range(inner):
            low, best = total[j * n], 0
            for a in range(1, n):
                if total[j * n + a] < low:
                    low, best = total[j * n + a], a
            if temperature > 0 and low < np.inf:
                weight = 0.0
                for a in range(n):
                    weight += np.exp((low - total[j * n + a]) / temperature)
                low -= temperature * np.log(weight)
            message[first + j] = low
            back[first + j] = best
        advance(outer_states, stride, digits, position)


@njit(cache=True, nogil=True)
def inputs_of(p, s, position, total):
    """(at, offset, stride, outer states, position, total) of step s as `eliminate` takes them."""
    at = p.at[p.in_ptr[s] : p.in_ptr[s + 1]]
    offset = p.offset[p.offset_ptr[s] : p.offset_ptr[s + 1]]
    stride = p.stride[p.stride_ptr[s] : p.stride_ptr[s + 1]]
    outer_states = p.scope_states[p.scope_ptr[s] : p.scope_ptr[s] + p.outer[s]]
    return at, offset, stride, outer_states, position[: len(at)], total[: len(offset) // len(at)]


@njit(cache=True, nogil=True)
def forward(p, t, temperature, x, back, digits, position, total):
    """All steps of structure t on the values x; returns the (soft) minimum."""
    value = 0.0
    for s in range(p.step_ptr[t], p.step_ptr[t + 1]):
        at, offset, stride, outer_states, here, sums = inputs_of(p, s, position, total)
        n, first, last = p.states[s], p.message[s], p.message[s] + p.rest[s]
        message, best = x[first:last], back[first - p.given[t] : last - p.given[t]]
        eliminate(
            x, at, offset, stride, outer_states, n, temperature, message, best, digits, here, sums
        )
        if p.scope_ptr[s + 1] == p.scope_ptr[s]:
            value += x[first]
    return value


@njit(cache=True, nogil=True)
def room(p):
    """(x, back pointers, digits, positions, sums): arrays that are large enough for every
    structure.
    """
    digits, inputs, sums, size, messages = 0, 0, 0, 0, 0
    for s in range(len(p.slot)):
        n = p.in_ptr[s + 1] - p.in_ptr[s]
        digits, inputs = max(digits, p.outer[s]), max(inputs, n)
        sums = max(sums, (p.offset_ptr[s + 1] - p.offset_ptr[s]) // n)
    for t in range(len(p.size)):
        size, messages = max(size, p.size[t]), max(messages, p.size[t] - p.given[t])
    return (
        np.empty(size),
        np.empty(messages, np.int32),
        np.empty(digits, np.int64),
        np.empty(inputs, np.int64),
        np.empty(sums),
    )


@njit(cache=True, nogil=True)
def load(x, theta, theta_ptr, tables, table_ptr, m):
    """The given values of slave m: its dual costs, then its cliques."""
    n = theta_ptr[m + 1] - theta_ptr[m]
    for i in range(n):
        x[i] = theta[theta_ptr[m] + i]
    for i in range(table_ptr[m + 1] - table_ptr[m]):
        x[n + i] = tables[table_ptr[m] + i]


@njit(cache=True, nogil=True)
def minimise(p, structure, theta, theta_ptr, tables, table_ptr, slot_ptr, labels, value):
    """Minima (M,) of all slaves, and the labels (S,) of their variables by backtracking.

    structure : int (M,), the elimination of each slave.   theta_ptr, table_ptr, slot_ptr : int
        (M + 1,), where its dual costs, cliques and labels begin.
    """
    x, back, digits, position, total = room(p)
    for m in range(len(structure)):
        t, first = structure[m], slot_ptr[m]
        load(x, theta, theta_ptr, tables, table_ptr, m)
        value[m] = forward(p, t, 0.0, x, back, digits, position, total)
        for s in range(p.step_ptr[t + 1] - 1, p.step_ptr[t] - 1, -1):
            at = 0
            for d in range(p.scope_ptr[s], p.scope_ptr[s + 1]):
                at = at * p.scope_states[d] + labels[first + p.scope[d]]
            labels[first + p.slot[s]] = back[p.message[s] - p.given[t] + at]


@njit(cache=True, nogil=True)
def backward(p, t, temperature, x, y, digits, position, total):
    """From the last step to the first: y gets the min-marginals (temperature 0) or marginals of
    all values of x.

    The belief of a step is what a label costs beyond the minimum over its labels (the message),
    plus what the state of its scope has at the step that reads the message. For soft minima the
    first is minus the logarithm of a conditional probability, so nothing but products of
    probabilities is needed: they may underflow to 0, never overflow.
    """
    for s in range(p.step_ptr[t + 1] - 1, p.step_ptr[t] - 1, -1):
        at, offset, stride, outer_states, here, sums = inputs_of(p, s, position, total)
        begin(at, len(outer_states), digits, here)
        n, size = p.states[s], len(sums)
        for r in range(p.message[s], p.message[s] + p.rest[s], size // n):
            join(x, here, offset, sums)
            for e in range(size):
                low, belief = x[r + e // n], y[r + e // n]
                if temperature > 0:
                    excess = np.exp((low - sums[e]) / temperature) if low < np.inf else 0.0
                    sums[e] = belief * excess
                else:
                    sums[e] = belief + (sums[e] - low) if low < np.inf else np.inf
            for i in range(len(at)):
                for e in range(size):
                    where = here[i] + offset[i * size + e]
                    if temperature > 0:
                        y[where] += sums[e]
                    elif sums[e] < y[where]:
                        y[where] = sums[e]
            advance(outer_states, stride, digits, here)


@njit(cache=True, nogil=True)
def marginals(
    p, structure, theta, theta_ptr, tables, table_ptr, temperature, value, out, clique_out
):
    """(Soft) minima (M,) and the (min-)marginals of all dual variables, and of all entries of the
    cliques' tables.
    """
    x, back, digits, position, total = room(p)
    y = np.empty(len(x))
    for m in range(len(structure)):
        t = structure[m]
        load(x, theta, theta_ptr, tables, table_ptr, m)
        value[m] = forward(p, t, temperature, x, back, digits, position, total)
        for i in range(p.size[t]):
            y[i] = 0.0 if temperature > 0 else np.inf
        if value[m] < np.inf:
            for s in range(p.step_ptr[t], p.step_ptr[t + 1]):
                if p.scope_ptr[s + 1] == p.scope_ptr[s]:
                    y[p.message[s]] = 1.0 if temperature > 0 else value[m]
            backward(p, t, temperature, x, y, digits, position, total)
        n = theta_ptr[m + 1] - theta_ptr[m]
        for i in range(n):
            out[theta_ptr[m] + i] = y[i]
        for i in range(table_ptr[m + 1] - table_ptr[m]):
            clique_out[table_ptr[m] + i] = y[n + i]
