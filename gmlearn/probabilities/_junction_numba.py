"""Compiled two-pass elimination in the log domain: log Z, all marginals, and samples.

The program is that of `gmlearn.slaves.elimination`. Values are energies divided by the
temperature, so a message is minus the logarithm of a sum of exponentials.
"""

import numpy as np
from numba import njit

from gmlearn.slaves._elimination_numba import advance, begin, inputs_of, join


@njit(cache=True, nogil=True)
def collect(p, x, digits, position, total):
    """Eliminate all variables; x gets the messages. Returns -log Z."""
    value = 0.0
    for s in range(len(p.slot)):
        at, offset, stride, outer_states, here, sums = inputs_of(p, s, position, total)
        begin(at, len(outer_states), digits, here)
        n, size = p.states[s], len(sums)
        inner = size // n
        for first in range(p.message[s], p.message[s] + p.rest[s], inner):
            join(x, here, offset, sums)
            for j in range(inner):
                low = sums[j * n]
                for a in range(1, n):
                    low = min(low, sums[j * n + a])
                if low < np.inf:
                    weight = 0.0
                    for a in range(n):
                        weight += np.exp(low - sums[j * n + a])
                    low -= np.log(weight)
                x[first + j] = low
            advance(outer_states, stride, digits, here)
        if p.scope_ptr[s + 1] == p.scope_ptr[s]:
            value += x[p.message[s]]
    return value


@njit(cache=True, nogil=True)
def distribute(p, x, span, y, belief, digits, position, total):
    """From the last step to the first: y (given,) gets the marginals of all given values.

    A message m(s) turns into m(s) + log p(s), p the marginal of its scope: then the marginal of a
    joined entry with energy E is exp(m + log p - E), and one array holds both passes.
    span : int (inputs,), entries from the first to the last of each input.   belief : room for the
        inputs of one step.
    """
    for s in range(len(p.slot) - 1, -1, -1):
        at, offset, stride, outer_states, here, sums = inputs_of(p, s, position, total)
        begin(at, len(outer_states), digits, here)
        n, size = p.states[s], len(sums)
        used = 0
        for i in range(len(at)):
            used += span[p.in_ptr[s] + i]
        for j in range(used):
            belief[j] = 0.0
        for first in range(p.message[s], p.message[s] + p.rest[s], size // n):
            join(x, here, offset, sums)
            for e in range(size):
                level = x[first + e // n]
                sums[e] = np.exp(level - sums[e]) if sums[e] < np.inf else 0.0
            base = 0
            for i in range(len(at)):
                row = i * size
                shift = base + here[i] - at[i]
                for e in range(size):
                    belief[shift + offset[row + e]] += sums[e]
                base += span[p.in_ptr[s] + i]
            advance(outer_states, stride, digits, here)
        base = 0
        for i in range(len(at)):
            for j in range(span[p.in_ptr[s] + i]):
                if at[i] < p.given[0]:
                    y[at[i] + j] = belief[base + j]
                elif belief[base + j] > 0.0:
                    x[at[i] + j] += np.log(belief[base + j])
                else:
                    x[at[i] + j] = -np.inf
            base += span[p.in_ptr[s] + i]


@njit(cache=True, nogil=True)
def draw(p, x, random, labels, weight):
    """Labels (n, slots) of exact samples, from uniform numbers `random` (n, steps), after
    `collect`.

    weight : room for the states of one variable.
    """
    for k in range(len(labels)):
        for s in range(len(p.slot) - 1, -1, -1):
            n = p.states[s]
            entry = 0
            for d in range(p.scope_ptr[s], p.scope_ptr[s + 1]):
                entry = entry * p.scope_states[d] + labels[k, p.scope[d]]
            level = x[p.message[s] + entry]
            inputs = p.in_ptr[s + 1] - p.in_ptr[s]
            outer = p.outer[s]
            size = (p.offset_ptr[s + 1] - p.offset_ptr[s]) // inputs
            inside = entry * n % size
            for a in range(n):
                weight[a] = 0.0
            for i in range(inputs):
                block, first = entry * n // size, p.at[p.in_ptr[s] + i]
                for d in range(outer - 1, -1, -1):
                    states = p.scope_states[p.scope_ptr[s] + d]
                    first += (block % states) * p.stride[p.stride_ptr[s] + i * outer + d]
                    block //= states
                row = p.offset_ptr[s] + i * size + inside
                for a in range(n):
                    weight[a] += x[first + p.offset[row + a]]
            left, chosen = random[k, s], -1
            for a in range(n):
                share = np.exp(level - weight[a]) if weight[a] < np.inf else 0.0
                if share > 0.0 and left >= 0.0:
                    chosen = a
                left -= share
            labels[k, p.slot[s]] = chosen
