"""Compiled variable elimination by a `Program`: log Z, marginals and samples.

Values are energies divided by the temperature, so a message is minus the logarithm of a sum of
exponentials, and nothing overflows.
"""

import numpy as np
from numba import njit

from gmlearn._utils._exp_numba import exp_all, log_all
from gmlearn.slaves._elimination_numba import (
    advance,
    begin,
    join,
    least,
    load,
    room_of,
    step_of,
    unload,
)
from gmlearn.slaves._plans_numba import CONSTANT, CONTIGUOUS


@njit(cache=True, nogil=True)
def soft_least(total, inner, low, weight, bits):
    """low[e] = minus the logarithm of the sum over the labels of exp(-total); total is used up."""
    least(total, inner, low)
    for e in range(inner):
        low[e] = low[e] if low[e] < np.inf else 0.0  # then the sum is 0
        weight[e] = 0.0
    for first in range(0, len(total), inner):
        row = total[first : first + inner]
        for e in range(inner):
            row[e] = low[e] - row[e]
    exp_all(total, bits)
    for first in range(0, len(total), inner):
        row = total[first : first + inner]
        for e in range(inner):
            weight[e] += row[e]
    log_all(weight[:inner], bits)
    for e in range(inner):
        low[e] -= weight[e]


@njit(cache=True, nogil=True)
def collect(p, t, x, room):
    """Eliminate all variables of structure t; x has energies over the temperature and gets the
    messages. Returns -log Z.
    """
    value = 0.0
    for s in range(p.step_ptr[t], p.step_ptr[t + 1]):
        at, step, kind, offset, stride, outer, digits, position, total = step_of(p, s, room)
        begin(at, len(outer), digits, position)
        inner, bits = p.inner[s], room.bits[: len(total)]
        for first in range(p.message[s], p.message[s] + p.rest[s], inner):
            join(x, position, step, kind, offset, inner, total)
            soft_least(total, inner, x[first : first + inner], room.weight, bits)
            advance(outer, stride, digits, position)
        if p.scope_ptr[s + 1] == p.scope_ptr[s]:
            value += x[p.message[s]]
    return value


@njit(cache=True, nogil=True)
def row_sums(total, inner, out, fold):
    """out[a] = the sum of row a, by halves."""
    for a in range(len(total) // inner):
        row = total[a * inner : (a + 1) * inner]
        for e in range(inner):
            fold[e] = row[e]
        left = inner
        while left > 1:
            half = left // 2
            for e in range(half):
                fold[e] += fold[left - half + e]
            left -= half
        out[a] = fold[0]


@njit(cache=True, nogil=True)
def add_block(belief, shift, total, sums, step, kind, where, inner):
    """Add the marginals of one block to those of an input."""
    for a in range(len(total) // inner):
        row = total[a * inner : (a + 1) * inner]
        if kind == CONTIGUOUS:
            same = belief[shift : shift + inner]
            for e in range(inner):
                same[e] += row[e]
        elif kind == CONSTANT:
            belief[shift] += sums[a]
        else:
            for e in range(inner):
                belief[shift + where[e]] += row[e]
        shift += step


@njit(cache=True, nogil=True)
def distribute(p, t, x, y, room):
    """From the last step to the first: y (given,) gets the marginals of all given values.

    A message m(s) turns into m(s) + log p(s), p the marginal of its scope: then the marginal of a
    joined entry with energy E is exp(m + log p - E), and one array holds both passes.
    """
    for s in range(p.step_ptr[t + 1] - 1, p.step_ptr[t] - 1, -1):
        at, step, kind, offset, stride, outer, digits, position, total = step_of(p, s, room)
        begin(at, len(outer), digits, position)
        inner, bits = p.inner[s], room.bits[: len(total)]
        span = p.span[p.in_ptr[s] : p.in_ptr[s + 1]]
        belief = room.belief[: span.sum()]
        for j in range(len(belief)):
            belief[j] = 0.0
        for first in range(p.message[s], p.message[s] + p.rest[s], inner):
            join(x, position, step, kind, offset, inner, total)
            level = x[first : first + inner]
            for begin_row in range(0, len(total), inner):
                row = total[begin_row : begin_row + inner]
                for e in range(inner):
                    row[e] = level[e] - row[e]
            exp_all(total, bits)
            row_sums(total, inner, room.sums, room.weight)
            base = 0
            for i in range(len(at)):
                shift, where = base + position[i] - at[i], offset[i * inner : (i + 1) * inner]
                add_block(belief, shift, total, room.sums, step[i], kind[i], where, inner)
                base += span[i]
            advance(outer, stride, digits, position)
        base = 0
        for i in range(len(at)):
            own = belief[base : base + span[i]]
            if at[i] < p.given[t]:
                y[at[i] : at[i] + span[i]] = own
            else:
                add_logarithms(x[at[i] : at[i] + span[i]], own, room.bits)
            base += span[i]


@njit(cache=True, nogil=True)
def add_logarithms(x, p, bits):
    """x += log(p); -inf where p is 0, even beside inf."""
    for first in range(0, len(x), len(bits)):
        last = min(first + len(bits), len(x))
        part, own = p[first:last], x[first:last]
        log_all(part, bits[: last - first])
        for e in range(last - first):
            own[e] = own[e] + part[e] if part[e] > -np.inf else -np.inf


@njit(cache=True, nogil=True)
def soft_marginals(
    p, structure, theta, theta_ptr, tables, table_ptr, temperature, value, out, clique_out
):
    """Soft minima (M,) at temperatures (M,) and the marginals of all dual variables, and of all
    entries of the cliques' tables.
    """
    room, x, y = room_of(p), np.empty(p.size.max()), np.empty(p.given.max())
    for m in range(len(structure)):
        t = structure[m]
        load(x, theta, theta_ptr, tables, table_ptr, m, 1.0 / temperature[m])
        value[m] = temperature[m] * collect(p, t, x, room)
        if value[m] < np.inf:
            distribute(p, t, x, y, room)
        else:
            y[:] = 0.0
        unload(y, out, theta_ptr, clique_out, table_ptr, m)


@njit(cache=True, nogil=True)
def collect_one(p, x):
    """`collect` of a program with one structure."""
    return collect(p, 0, x, room_of(p))


@njit(cache=True, nogil=True)
def distribute_one(p, x, y):
    """`distribute` of a program with one structure."""
    distribute(p, 0, x, y, room_of(p))


@njit(cache=True, nogil=True)
def draw(p, x, random, labels, weight):
    """Labels (n, slots) of exact samples, from uniform numbers `random` (n, steps), after
    `collect`.

    weight : room for the states of one variable.
    """
    for k in range(len(labels)):
        for s in range(len(p.slot) - 1, -1, -1):
            n, inner, outer = p.states[s], p.inner[s], p.outer[s]
            entry = 0
            for d in range(p.scope_ptr[s], p.scope_ptr[s + 1]):
                entry = entry * p.scope_states[d] + labels[k, p.scope[d]]
            for a in range(n):
                weight[a] = 0.0
            for i in range(p.in_ptr[s], p.in_ptr[s + 1]):
                row = i - p.in_ptr[s]
                block, first = entry // inner, p.at[i]
                for d in range(outer - 1, -1, -1):
                    states = p.scope_states[p.scope_ptr[s] + d]
                    first += (block % states) * p.stride[p.stride_ptr[s] + row * outer + d]
                    block //= states
                first += p.offset[p.offset_ptr[s] + row * inner + entry % inner]
                for a in range(n):
                    weight[a] += x[first + a * p.step[i]]
            left, chosen, level = random[k, s], -1, x[p.message[s] + entry]
            for a in range(n):
                share = np.exp(level - weight[a]) if weight[a] < np.inf else 0.0
                if share > 0.0 and left >= 0.0:
                    chosen = a
                left -= share
            labels[k, p.slot[s]] = chosen
